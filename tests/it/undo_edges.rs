//! What undo must not lose: files that were not kept or could not be read, what the user did,
//! what commands did after their calls, and what stood in the log when a process died.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::run::{Stdin, start};
use crate::support::scene::{
    FREE, Scene, assert_same, end, git, make_project, patch, read_tree, say, shell,
    told_to_be_left, wait_until, write,
};

#[test]
fn a_file_that_was_not_kept_is_never_removed_and_goes_back_when_it_was_moved() {
    let scene = Scene::new();
    scene.house.write_config("[snapshots]\nignored_file_bytes_max = 1000\n");
    write(scene.at(".gitignore"), "*.db\n", 0o644);
    for name in ["prod.db", "log1.db", "log2.db", "a.db", "b.db"] {
        write(scene.at(name), name.repeat(1000), 0o644);
    }
    let before = read_tree(&scene.directory, false);
    // Moved, moved into a new directory, moved on one place each, and exchanged.
    let cmd = "mv prod.db moved.db; cp moved.db copy.db; \
               mkdir -p away && mv log2.db away/log3.db && mv log1.db log2.db; \
               mv a.db t.db && mv b.db a.db && mv t.db b.db";
    scene.turn(&[], &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    let after = read_tree(&scene.directory, false);
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    for name in ["prod.db", "log1.db", "log2.db"] {
        assert_eq!(scene.read(name), name.repeat(1000), "{told}");
    }
    assert_eq!(scene.read("copy.db"), "prod.db".repeat(1000), "made anew, and no copy of it");
    assert!(told_to_be_left(&told, "copy.db").contains("could not be undone"), "{told}");
    assert!(!scene.at("moved.db").exists() && !scene.at("away").exists(), "{told}");
    // Two that changed places stay where they are: neither place is free.
    assert_eq!(
        scene.read("a.db") + &scene.read("b.db"),
        "b.db".repeat(1000) + &"a.db".repeat(1000)
    );
    told_to_be_left(&told, "/a.db");
    scene.ok(&["redo"]);
    assert_same(&read_tree(&scene.directory, false), &after, "after redo");
    scene.ok(&["undo", "--force"]);
    fs::remove_file(scene.at("copy.db")).unwrap();
    let mut now = read_tree(&scene.directory, false);
    let mut was = before;
    for tree in [&mut now, &mut was] {
        tree.retain(|path, _| path != Path::new("a.db") && path != Path::new("b.db"));
    }
    assert_same(&now, &was, "after the second undo");
}

#[test]
fn what_a_command_does_after_its_call_has_yielded_is_undone_as_well() {
    // Each waits for a file of the test's, so that it surely goes on after its call.
    let late = |n: u32| {
        let cmd = format!(
            "touch ready{n}; while [ ! -e go{n} ]; do sleep 0.01; done; rm -rf src; \
             rm go{n} ready{n}; echo late > late{n}; while [ ! -e stop ]; do sleep 0.01; done"
        );
        let args = json!({"cmd": cmd, "yield_time_ms": 250});
        json!({"call": {"name": "exec_command", "arguments": args, "call_id": format!("c{n}")}})
    };
    let wait = json!({"call": {"name": "write_stdin", "call_id": "w",
        "arguments": {"session_id": 1, "yield_time_ms": 250}}});
    let go = |n: u32| {
        shell(&format!("touch go{n}; while [ -e go{n} ]; do sleep 0.01; done; sleep 0.1"), "g")
    };
    let ends = "touch stop; sleep 0.3; rm stop";
    for (name, lines) in [
        ("the turn ends", vec![late(1), end(), go(1), end()]),
        ("another call", vec![late(1), end(), go(1), end(), shell("echo x > x", "o"), end()]),
        ("it is polled", vec![late(1), end(), go(1), end(), wait.clone(), end()]),
        ("it ends", vec![late(1), end(), go(1), end(), shell(ends, "e"), end(), wait, end()]),
    ] {
        let scene = Scene::new();
        make_project(&scene.directory);
        let before = read_tree(&scene.directory, false);
        let mut lines = lines;
        lines.extend(say("ok"));
        let ended = scene.turn(&["--json"], &lines);
        assert!(scene.at("late1").exists() && !scene.at("src").exists(), "{name}: {ended:?}");
        assert!(ended.stdout.contains("file_change"), "{name}: {ended:?}");
        scene.ok(&["undo"]);
        assert_same(&read_tree(&scene.directory, false), &before, name);
    }
}

#[test]
fn what_a_command_does_by_itself_between_two_looks_is_its_own_step() {
    // The command goes on by itself: nothing else runs while it writes.
    let cmd = "sleep 1; rm kept.txt; echo late > late.txt; sleep 60";
    let args = json!({"cmd": cmd, "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    let wait = json!({"call": {"name": "write_stdin", "call_id": "w",
        "arguments": {"session_id": 1, "yield_time_ms": 250}}});
    let pause = json!({"delay_ms": 3000});
    for (name, then) in [
        ("the turn ends", vec![]),
        ("another call", vec![shell("echo x > x", "o"), end()]),
        ("it is polled", vec![wait, end()]),
    ] {
        let scene = Scene::new();
        write(scene.at("kept.txt"), "kept\n", 0o644);
        let lines = [&[begun.clone(), end(), pause.clone()][..], &then, &say("ok")].concat();
        let ended = scene.turn(&["--json"], &lines);
        let told = ended.stdout.contains("file_change") && ended.stdout.contains("late.txt");
        assert!(told, "{name}: {ended:?}");
        let shown = scene.ok(&["changes"]);
        assert!(shown.starts_with("# turn 1, command: sleep 1; rm kept.txt"), "{name}: {shown}");
        scene.ok(&["undo"]);
        assert_eq!(scene.read("kept.txt"), "kept\n", "{name}");
        assert!(!scene.at("late.txt").exists() && !scene.at("x").exists(), "{name}");
    }
}

#[test]
fn what_a_killed_session_s_running_command_did_is_undone() {
    let scene = Scene::new();
    write(scene.at("kept.txt"), "kept\n", 0o644);
    let cmd = "while [ ! -e go ]; do sleep 0.01; done; rm kept.txt; touch done; sleep 60";
    let args = json!({"cmd": cmd, "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    let script = scene.write_script(&[begun, end(), json!({"delay_ms": 50_000}), end()]);
    let args = ["exec", "--driver", "fake", "--script", &script, "do it"];
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    scene.wait_for("process_started");
    scene.wait_for("tool_call_end");
    fs::write(scene.at("go"), "").unwrap();
    wait_until(|| scene.at("done").exists());
    running.signal(Signal::KILL);
    running.wait();
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!(
        (told["cut_off"].as_bool(), scene.read("kept.txt").as_str()),
        (Some(true), "kept\n")
    );
    assert!(!scene.at("done").exists(), "{told}");
}

#[test]
fn the_sandbox_s_own_mount_points_are_nobodys_changes() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    let args = json!({"cmd": "echo b > b.txt; sleep 60", "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    // While the first one runs its mount points are there, and the second is recorded.
    let lines = [&[begun, end(), shell("echo c > c.txt", "c2"), end()][..], &say("ok")].concat();
    let ended = scene.turn(&["--json"], &lines);
    for name in [".agents", ".codex", ".gimlet", ".git"] {
        let path = scene.at(name).display().to_string();
        assert!(!ended.stdout.contains(&format!("{path}\"")), "{name}: {ended:?}");
    }
    let told = scene.ok(&["undo"]);
    assert!(told.starts_with("Undid turn 1: 2 files"), "{told}");
}

#[test]
fn a_repository_that_was_moved_away_is_left_where_it_is() {
    for (name, cmd) in
        [("old-git", "mv .git old-git"), ("deep/er/g", "mkdir -p deep/er; mv .git deep/er/g")]
    {
        let scene = Scene::new();
        write(scene.at("a.txt"), "a\n", 0o644);
        git(&scene.directory, &["init", "-q"]);
        git(&scene.directory, &["add", "-A"]);
        git(&scene.directory, &["commit", "-qm", "one"]);
        let repository = read_tree(&scene.at(".git"), true);
        let cmd = format!("{cmd}; echo b > a.txt");
        scene.turn(FREE, &[&[shell(&cmd, "c1"), end()][..], &say("ok")].concat());
        let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
        assert_same(&read_tree(&scene.at(name), false), &repository, name);
        assert!(told_to_be_left(&told, name).contains("repository"), "{told}");
        assert_eq!(scene.read("a.txt"), "a\n");
        scene.gimlet(&["undo", "--force"]);
        assert!(scene.at(name).join("HEAD").exists());
    }
}

#[test]
fn a_new_turn_ends_what_could_be_redone() {
    let scene = Scene::new();
    let step = |n: u32| {
        let call = shell(&format!("echo {n} > n{n}"), "c");
        [&[call, end()][..], &say("ok")].concat()
    };
    scene.turn(&[], &step(1));
    scene.next_turn(&step(2));
    scene.ok(&["undo"]);
    scene.next_turn(&step(3));
    let refused = scene.gimlet(&["redo"]);
    assert!(refused.stderr.contains("there is nothing to redo"), "{refused:?}");
    scene.ok(&["undo"]);
    assert!(scene.at("n1").exists() && !scene.at("n2").exists() && !scene.at("n3").exists());
    scene.ok(&["undo"]);
    assert!(!scene.at("n1").exists());
}

#[test]
fn what_could_not_be_read_before_is_not_taken_for_new() {
    let mut scene = Scene::new();
    for (name, mode) in [("shut", 0o000), ("listed", 0o444), ("blind", 0o311)] {
        write(scene.at(name).join("mine.txt"), "mine\n", 0o644);
        write(scene.at(name).join("below/mine.txt"), "mine\n", 0o644);
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    write(scene.at("secret"), "mine\n", 0o000);
    write(scene.at("a.txt"), "a\n", 0o644);
    if !scene.become_ordinary() {
        return;
    }
    let cmd = "chmod 755 shut listed blind; chmod 644 secret; echo b > a.txt; echo x > shut/new";
    scene.turn(FREE, &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    for force in [&["undo", "--json"][..], &["undo", "1", "--force", "--json"]] {
        let ended = scene.gimlet(force);
        assert!(ended.stderr.is_empty(), "{ended:?}");
        let _ =
            Command::new("chmod").args(["755", "listed"]).current_dir(&scene.directory).status();
        for name in ["shut", "listed", "blind"] {
            assert_eq!(scene.read(&format!("{name}/mine.txt")), "mine\n", "{name}: {ended:?}");
            assert_eq!(scene.read(&format!("{name}/below/mine.txt")), "mine\n", "{ended:?}");
        }
        assert_eq!((scene.read("secret"), scene.read("a.txt")), ("mine\n".into(), "a\n".into()));
        if force.len() == 2 {
            let told: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert!(told_to_be_left(&told, "/shut").contains("could not be read"), "{told}");
            assert!(told_to_be_left(&told, "/secret").contains("could not be read"), "{told}");
        }
    }
}

#[test]
fn directories_that_a_turn_closed_or_made_closed_are_undone() {
    let mut scene = Scene::new();
    write(scene.at("d/a.txt"), "a\n", 0o644);
    write(scene.at("d/e/b.txt"), "b\n", 0o644);
    write(scene.at("closed/c.txt"), "c\n", 0o644);
    fs::set_permissions(scene.at("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    if !scene.become_ordinary() {
        return;
    }
    let before = read_tree(&scene.directory, false);
    let cmd = "echo x > d/a.txt; rm d/e/b.txt; echo n > d/n; chmod 500 d/e; chmod 555 d; \
               mkdir -p new/below; echo y > new/below/y; chmod 555 new/below new; \
               chmod 755 closed; echo z > closed/c.txt; echo z > closed/z; chmod 555 closed";
    scene.turn(FREE, &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    let after = read_tree(&scene.directory, false);
    for _ in 0..2 {
        let ended = scene.gimlet(&["undo"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
        assert_same(&read_tree(&scene.directory, false), &before, "after undo");
        let ended = scene.gimlet(&["redo"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
        assert_same(&read_tree(&scene.directory, false), &after, "after redo");
    }
    let journal = scene.house.home().join("journal");
    assert_eq!(fs::read_dir(journal).unwrap().count(), 0, "nothing is left to recover");
}

#[test]
fn after_a_kill_what_the_user_changed_later_is_a_conflict() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    let script = scene.write_script(&[
        shell("echo b > a.txt; echo n > new; touch ready; sleep 300", "c1"),
        end(),
    ]);
    let args = ["exec", "--driver", "fake", "--script", &script, "do it"];
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    wait_until(|| scene.at("ready").exists());
    running.signal(Signal::KILL);
    running.wait();
    write(scene.at("a.txt"), "mine\n", 0o644);
    write(scene.at("mine.txt"), "mine\n", 0o644);
    // As if some time had passed.
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    for name in ["a.txt", "mine.txt"] {
        fs::File::options().write(true).open(scene.at(name)).unwrap().set_modified(later).unwrap();
    }
    let refused: Value = serde_json::from_str(&scene.gimlet(&["undo", "--json"]).stdout).unwrap();
    let names: Vec<&str> = refused["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["a.txt", "mine.txt"], "{refused}");
    scene.ok(&["undo", "--force"]);
    assert_eq!((scene.read("a.txt").as_str(), scene.at("new").exists()), ("a\n", false));
    scene.ok(&["redo"]);
    assert_eq!((scene.read("a.txt"), scene.read("mine.txt")), ("mine\n".into(), "mine\n".into()));
}

#[test]
fn a_session_that_goes_on_elsewhere_is_undone_there_and_here() {
    let mut scene = Scene::new();
    let (here, there) = (scene.at("here"), scene.at("there"));
    for directory in [&here, &there] {
        write(directory.join("n"), "0\n", 0o644);
    }
    let step = |n: u32| [&[shell(&format!("echo {n} > n"), "c"), end()][..], &say("ok")].concat();
    scene.directory.clone_from(&here);
    scene.turn(&[], &step(1));
    let id = scene.logs()[0].file_stem().unwrap().to_string_lossy().into_owned();
    scene.directory.clone_from(&there);
    let script = scene.write_script(&step(2));
    let args = ["exec", "--driver", "fake", "--script", &script, "resume", &id, "go on"];
    assert_eq!(scene.gimlet(&args).code, 0);
    let read = || {
        fs::read_to_string(here.join("n")).unwrap() + &fs::read_to_string(there.join("n")).unwrap()
    };
    assert_eq!(read(), "1\n2\n");
    let shown = scene.ok(&["changes", "2"]);
    assert!(shown.contains("+2"), "{shown}");
    let refused = scene.gimlet(&["undo", "1"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("another directory"), "{refused:?}");
    scene.ok(&["undo"]);
    assert_eq!(read(), "1\n0\n");
    scene.directory.clone_from(&here);
    scene.ok(&["undo"]);
    assert_eq!(read(), "0\n0\n");
    scene.ok(&["redo"]);
    assert_eq!(read(), "1\n0\n");
    scene.ok(&["redo"]);
    assert_eq!(read(), "1\n2\n");
}

#[test]
fn redo_takes_the_undo_that_was_last() {
    let scene = Scene::new();
    let step =
        |n: u32| [&[shell(&format!("echo {n} > n{n}"), "c"), end()][..], &say("ok")].concat();
    scene.turn(&[], &step(1));
    scene.turn(&[], &step(2));
    let id = |n: usize| scene.logs()[n].file_stem().unwrap().to_string_lossy().into_owned();
    scene.ok(&["undo", "--session", &id(1)]);
    scene.ok(&["undo", "--session", &id(0)]);
    let told: Value = serde_json::from_str(&scene.ok(&["redo", "--json"])).unwrap();
    assert_eq!(told["session"], id(0));
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
    scene.ok(&["redo"]);
    assert!(scene.at("n2").exists());
}

#[test]
fn a_session_that_is_none_is_said_to_be_none() {
    let scene = Scene::new();
    let id = "01a1ff69-0851-7467-ba32-fae3aff4bda4";
    for word in ["undo", "redo", "changes"] {
        let refused = scene.gimlet(&[word, "--session", id]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(
            refused.stderr.contains("no session") && refused.stderr.contains(id),
            "{refused:?}"
        );
    }
}

#[test]
fn changes_names_empty_files_and_whose_mode_changed() {
    let scene = Scene::new();
    write(scene.at("tool.sh"), "x\n", 0o644);
    write(scene.at("old"), "", 0o644);
    let call = shell("touch empty; chmod 755 tool.sh; rm old", "c1");
    scene.turn(&[], &[&[call, end()][..], &say("ok")].concat());
    let shown = scene.ok(&["changes"]);
    for wanted in [
        "diff --git a/empty b/empty\nnew file",
        "diff --git a/tool.sh b/tool.sh\nold mode 0644\nnew mode 0755",
        "diff --git a/old b/old\ndeleted file",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn a_patch_outside_of_what_is_recorded_is_named_as_not_undone() {
    let scene = Scene::new();
    let outside = scene.house.root().join("outside.txt");
    write(outside.clone(), "one\n", 0o644);
    let text = format!(
        "*** Begin Patch\n*** Update File: {}\n@@\n-one\n+two\n*** Add File: in.txt\n+in\n*** End Patch\n",
        outside.display()
    );
    scene.turn(FREE, &[&[patch(&text, "c1"), end()][..], &say("ok")].concat());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "two\n");
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert!(told_to_be_left(&told, "outside.txt").contains("outside"), "{told}");
    assert!(!scene.at("in.txt").exists());
}

#[test]
fn an_undo_that_died_before_it_could_say_so_is_known_to_be_done() {
    let scene = Scene::new();
    let step =
        |n: u32| [&[shell(&format!("echo {n} > n{n}"), "c"), end()][..], &say("ok")].concat();
    scene.turn(&[], &step(1));
    scene.next_turn(&step(2));
    scene.ok(&["undo"]);
    let log = fs::read_to_string(&scene.logs()[0]).unwrap();
    let last = log.trim_end().rfind('\n').unwrap() + 1;
    assert!(log[last..].contains("restored") && log[..last].trim_end().ends_with('}'), "{log}");
    // As if it had died between the files and the log.
    fs::write(&scene.logs()[0], &log[..last]).unwrap();
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!(told["turn"], 2, "{told}");
    assert!(told["notes"][0].as_str().unwrap().contains("done already"), "{told}");
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
    scene.ok(&["redo"]);
    assert!(scene.at("n2").exists());
    // As if it had died before: nothing was done, so it is done now.
    scene.ok(&["undo"]);
    let log = fs::read_to_string(&scene.logs()[0]).unwrap();
    let last = log.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&scene.logs()[0], &log[..last]).unwrap();
    write(scene.at("n2"), "2\n", 0o644);
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!((told["turn"].as_u64(), told["notes"].as_array().unwrap().len()), (Some(2), 0));
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
}
