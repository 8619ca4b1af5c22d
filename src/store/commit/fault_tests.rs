//! The commit phase under every failure: each system call fails in turn, the process is killed
//! before each, and real file systems are full.

use super::*;

#[test]
fn every_kind_of_step_together() {
    let (before, after) = before_and_after();
    let show = |tree: &Tree| {
        tree.iter().map(|(name, what)| format!("{}: {what}\n", name.display())).collect::<String>()
    };
    assert_ne!(before, after);
    expect_test::expect![[r#"
        added: dir 755
        added/carried: 644 first
        added/in: dir 755
        added/in/new: 644 added
        becomes_dir: dir 555
        becomes_dir/inside: 644 inside
        becomes_file: 640 a file now
        carried: 644 second
        fresh_link: -> replaced
        kept: dir 755
        kept/target: 644 new target
        link: -> tool
        narrow: dir 711
        narrow/x: 644 x
        renamed: 644 moved
        replaced: 644 new
        tool: 755 new tool
    "#]]
    .assert_eq(&show(&after));
}

#[test]
fn each_call_fails_in_turn() {
    let trees = before_and_after();
    for system in SYSTEMS {
        for errno in [Errno::NOSPC, Errno::PERM] {
            for at in 1.. {
                let place = Place::in_memory();
                furnish(&place);
                let disk = disk(Fault::Once(at, errno), system);
                let done = place.commit_with(&disk, &everything(&place));
                let what = format!("{system:?}, {errno:?} at call {at}: {done:?}");
                let recovered = place.recover();
                let is_new = check(&place, &trees, &format!("{what} {recovered:?}"));
                assert_eq!(is_new, done.is_ok(), "{what}");
                assert_eq!(place.records(), 0, "{what}");
                if disk.faults.calls.load(Ordering::SeqCst) < at {
                    assert!(done.is_ok() && at > 100, "{what}");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_disk_that_fails_for_good_is_recovered_from_later() {
    let trees = before_and_after();
    for system in SYSTEMS {
        for at in 1.. {
            let place = Place::in_memory();
            furnish(&place);
            let disk = disk(Fault::From(at, Errno::IO), system);
            let done = place.commit_with(&disk, &everything(&place));
            let recovered = place.recover();
            let what = format!("{system:?}, from call {at}: {done:?} {recovered:?}");
            let is_new = check(&place, &trees, &what);
            // The commit may be done although the end of it could not be told.
            assert!(is_new || done.is_err(), "{what}");
            assert_eq!(place.records(), 0, "{what}");
            if disk.faults.calls.load(Ordering::SeqCst) < at {
                break;
            }
        }
    }
}

/// The environment variable by which the test binary, started again, knows its part.
const CHILD: &str = "GIMLET_TEST_KILLED_COMMIT";

#[test]
fn killed_before_each_call() {
    kill_before_each_call("Exchanging");
}

#[test]
fn killed_before_each_call_where_names_cannot_be_exchanged() {
    kill_before_each_call("Plain");
}

#[test]
fn killed_before_each_call_of_a_large_commit() {
    kill_before_each_call("Whole");
}

fn kill_before_each_call(system: &str) {
    let trees = before_and_after();
    for at in 1.. {
        let place = Place::in_memory();
        furnish(&place);
        let part = format!("{at} {system} {}", place.root.parent().unwrap().display());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::commit::tests::faults::child_that_is_killed", "--nocapture"])
            .env(CHILD, &part)
            .output()
            .unwrap();
        let recovered = place.recover();
        let what = format!("killed at call {part}: {recovered:?}");
        let is_new = check(&place, &trees, &what);
        assert_eq!(place.records(), 0, "{what}");
        assert!(place.recover().is_empty(), "{what}");
        if child.status.success() {
            assert!(is_new && at > 100, "{what}");
            break;
        }
        let signal = std::os::unix::process::ExitStatusExt::signal(&child.status);
        assert_eq!(signal, Some(9), "{what}: {child:?}");
    }
}

#[test]
fn child_that_is_killed() {
    let Ok(part) = std::env::var(CHILD) else { return };
    let [at, system, base] = part.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{part}") };
    let base = PathBuf::from(base);
    let (root, journal) = (base.join("work"), base.join("state/journal"));
    let place = Place { dir: None, root, journal };
    let named = |it: &System| format!("{it:?}") == system;
    let system = SYSTEMS.into_iter().find(named).unwrap();
    let disk = disk(Fault::Kill(at.parse().unwrap()), system);
    place.commit_with(&disk, &everything(&place)).unwrap();
}

#[test]
fn a_recovery_that_fails_is_done_again() {
    let trees = before_and_after();
    // A disk that is gone for good in the middle of the renames leaves the most to do.
    let midway = midway();
    for commit_fails_at in [midway - 20, midway] {
        for at in 1.. {
            let place = Place::in_memory();
            furnish(&place);
            let gone = disk(Fault::From(commit_fails_at, Errno::IO), System::Exchanging);
            place.commit_with(&gone, &everything(&place)).unwrap_err();
            let failing = disk(Fault::From(at, Errno::IO), System::Exchanging);
            let roots = std::slice::from_ref(&place.root);
            let first = recover_on(&failing, &place.journal, roots);
            let second = place.recover();
            let what = format!("{commit_fails_at} {at}: {first:?} {second:?}");
            assert!(!check(&place, &trees, &what), "{what}");
            assert_eq!(place.records(), 0, "{what}");
            if failing.faults.calls.load(Ordering::SeqCst) < at {
                break;
            }
        }
    }
}

/// Runs one test of this file in a process of its own, started by a shell that first limits it.
fn run_limited(shell: &str, test: &str, place: &Place) -> std::process::Output {
    Command::new("/bin/sh")
        .args(["-c", shell, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::commit::tests::faults::{test}"), "--nocapture"])
        .env(CHILD, place.root.parent().unwrap())
        .output()
        .unwrap()
}

/// Real failures: the system refuses to write more than a few blocks.
#[test]
fn a_file_too_large_for_the_limit_leaves_the_tree() {
    let place = Place::new();
    furnish(&place);
    let shell = "trap '' XFSZ; ulimit -f 64 && exec \"$@\"";
    let child = run_limited(shell, "child_that_runs_out", &place);
    assert!(child.status.success(), "{child:?}");
    assert!(String::from_utf8_lossy(&child.stdout).contains("RAN OUT"), "{child:?}");
}

#[test]
fn a_full_disk_leaves_the_tree() {
    let place = Place::new();
    let base = place.root.parent().unwrap().display().to_string();
    let shell = format!(
        "exec unshare -Urm sh -c 'mount -t tmpfs -o size=128k tmpfs \"{base}\" || exit 77; exec \"$@\"' sh \"$@\""
    );
    let child = run_limited(&shell, "child_that_runs_out", &place);
    if !String::from_utf8_lossy(&child.stdout).contains("RAN OUT") {
        let why = String::from_utf8_lossy(&child.stderr);
        assert!(!why.contains("panicked"), "{why}");
        eprintln!("SKIPPED: no small file system can be mounted here: {why}");
    }
}

#[test]
fn child_that_runs_out() {
    let Ok(base) = std::env::var(CHILD) else { return };
    if base.starts_with(|c: char| c.is_ascii_digit()) {
        return;
    }
    let base = PathBuf::from(base);
    let (root, journal) = (base.join("work"), base.join("state/journal"));
    let place = Place { dir: None, root, journal };
    if !place.root.exists() {
        fs::create_dir(&place.root).unwrap();
        furnish(&place);
    }
    let before = place.tree();
    let large = "x".repeat(200_000);
    let mut changes = everything(&place);
    changes.push(place.change("large", None, Some(&large)));
    let error = place.commit(&changes).unwrap_err();
    assert!(matches!(error, CommitError::Io { verb: "write", .. }), "{error}");
    assert_eq!(place.tree(), before);
    assert_eq!(place.records(), 0);
    println!("RAN OUT: {error}");
}
