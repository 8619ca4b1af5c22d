//! The commit phase under every failure: each system call fails in turn, and the process is
//! killed before each, for commits that hold every kind of step. The tree is then as it was or
//! as it shall be, with nothing left over.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use super::disk::Disk;
use super::perform::commit_on;
use super::recover::recover_on;
use super::step::TEMP_PREFIX;
use super::*;

/// What shall happen at one of the calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// This one call fails.
    Once(usize, Errno),
    /// This call and all after it fail, as on a disk that is gone.
    From(usize, Errno),
    /// The process dies before this call.
    Kill(usize),
}

/// Counts calls and lets one fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    fault: Fault,
    calls: AtomicUsize,
    no_exchange: bool,
}

impl Faults {
    pub(super) fn before_call(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Once(at, errno) if call == at => Err(errno.into()),
            Fault::From(at, errno) if call >= at => Err(errno.into()),
            Fault::Kill(at) if call == at => {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
                unreachable!("killed");
            }
            Fault::None | Fault::Once(..) | Fault::From(..) | Fault::Kill(_) => Ok(()),
        }
    }

    pub(super) fn check_exchange(&self) -> io::Result<()> {
        if self.no_exchange { Err(Errno::INVAL.into()) } else { Ok(()) }
    }
}

fn disk(fault: Fault, kind: System) -> Disk {
    let no_exchange = kind == System::Plain;
    let each_max = if kind == System::Whole { 0 } else { Disk::default().each_max };
    Disk { each_max, faults: Faults { fault, calls: AtomicUsize::new(0), no_exchange } }
}

/// What the file system can do, and how it is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Exchanging,
    Plain,
    /// As for a large commit, whatever its size.
    Whole,
}

const SYSTEMS: [System; 3] = [System::Exchanging, System::Plain, System::Whole];

/// A folder `work` with files, and a journal beside it.
struct Place {
    /// None in a child, which only visits.
    dir: Option<tempfile::TempDir>,
    root: PathBuf,
    journal: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap())
    }

    /// Is `new` in memory where there is a file system for that: syncs cost nothing there.
    fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::in_dir(dir.unwrap())
    }

    fn in_dir(dir: tempfile::TempDir) -> Self {
        let base = fs::canonicalize(dir.path()).unwrap();
        let root = base.join("work");
        fs::create_dir(&root).unwrap();
        Self { dir: Some(dir), root, journal: base.join("state/journal") }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
        self
    }

    fn commit_with(&self, disk: &Disk, changes: &[Change<'_>]) -> Result<Committed, CommitError> {
        let roots = [self.root.clone()];
        commit_on(disk, changes, &Site::new(&roots, Some(&self.journal)))
    }

    fn commit(&self, changes: &[Change<'_>]) -> Result<Committed, CommitError> {
        self.commit_with(&Disk::default(), changes)
    }

    fn recover(&self) -> Vec<String> {
        recover_on(&Disk::default(), &self.journal, std::slice::from_ref(&self.root))
    }

    fn change<'a>(&self, name: &str, old: Option<&'a str>, new: Option<&'a str>) -> Change<'a> {
        Change {
            path: self.at(name),
            old: old.map_or(Old::Absent, |text| Old::Bytes(text.as_bytes())),
            new: new
                .map_or(New::Absent, |text| New::File(Content::Bytes(text.as_bytes()), Mode::Keep)),
        }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        list(&self.root, Path::new(""), &mut tree);
        tree
    }

    fn records(&self) -> usize {
        fs::read_dir(&self.journal).map_or(0, Iterator::count)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An ordinary user cannot empty a directory of this mode.
        if self.dir.is_some() {
            let open = fs::Permissions::from_mode(0o755);
            let _ = fs::set_permissions(self.at("becomes_dir"), open);
        }
    }
}

/// Everything below a folder: what it is with its mode, by name; temporary files too.
type Tree = BTreeMap<PathBuf, String>;

fn list(root: &Path, below: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let name = below.join(entry.unwrap().file_name());
        let path = root.join(&name);
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o7777;
        if found.is_dir() {
            tree.insert(name.clone(), format!("dir {mode:o}"));
            list(root, &name, tree);
        } else if found.is_symlink() {
            tree.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            tree.insert(name, format!("{mode:o} {text}"));
        }
    }
}

/// Makes a tree in which every kind of step has something to do.
fn furnish(place: &Place) {
    place
        .write("replaced", "old")
        .write("tool", "old tool")
        .write("deleted", "old")
        .write("moved", "to move")
        .write("becomes_dir", "a file")
        .write("goes/one", "1")
        .write("goes/deep/two", "2")
        .write("becomes_file/inner", "3")
        .write("kept/target", "old target")
        .write("narrow/x", "x");
    fs::set_permissions(place.at("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("kept/target", place.at("link")).unwrap();
}

/// Returns a commit with every kind of step.
fn everything(place: &Place) -> Vec<Change<'static>> {
    let like = Box::leak(Box::new(place.at("moved"))).as_path();
    let file = |text: &'static str, mode| New::File(Content::Bytes(text.as_bytes()), mode);
    let entry = |name: &str, old, new| Change { path: place.at(name), old, new };
    vec![
        place.change("replaced", Some("old"), Some("new")),
        place.change("tool", Some("old tool"), Some("new tool")),
        place.change("deleted", Some("old"), None),
        place.change("moved", Some("to move"), None),
        entry("renamed", Old::Absent, file("moved", Mode::Like(like))),
        place.change("added/in/new", None, Some("added")),
        place.change("kept/target", Some("old target"), Some("new target")),
        entry("becomes_dir", Old::Bytes(b"a file"), New::Directory(Some(0o555))),
        place.change("becomes_dir/inside", None, Some("inside")),
        entry("goes", Old::Directory, New::Absent),
        entry("goes/deep", Old::Directory, New::Absent),
        place.change("goes/one", Some("1"), None),
        place.change("goes/deep/two", Some("2"), None),
        entry("becomes_file", Old::Directory, file("a file now", Mode::Exact(0o640))),
        place.change("becomes_file/inner", Some("3"), None),
        entry("fresh_link", Old::Absent, New::Symlink(Path::new("replaced"))),
        entry("link", Old::Symlink(Path::new("kept/target")), New::Symlink(Path::new("tool"))),
        entry("narrow", Old::Directory, New::Directory(Some(0o711))),
    ]
}

/// Returns the tree before and after the commit.
fn before_and_after() -> (Tree, Tree) {
    let place = Place::new();
    furnish(&place);
    let before = place.tree();
    place.commit(&everything(&place)).unwrap();
    assert_eq!(place.records(), 0);
    (before, place.tree())
}

fn check(place: &Place, (before, after): &(Tree, Tree), what: &str) -> bool {
    let tree = place.tree();
    assert!(tree == *before || tree == *after, "{what}: {tree:?}\nbefore: {before:?}");
    tree == *after
}

#[test]
fn every_kind_of_step_together() {
    let (before, after) = before_and_after();
    let show = |tree: &Tree| {
        tree.iter().map(|(name, what)| format!("{}: {what}\n", name.display())).collect::<String>()
    };
    assert_ne!(before, after);
    expect_test::expect![[r#"
        added: dir 755
        added/in: dir 755
        added/in/new: 644 added
        becomes_dir: dir 555
        becomes_dir/inside: 644 inside
        becomes_file: 640 a file now
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
            .args(["--exact", "store::commit::tests::child_that_is_killed", "--nocapture"])
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

#[test]
fn what_changed_since_it_was_read_is_left_alone() {
    let place = Place::new();
    place.write("a", "a").write("b", "edited").write("dir/x", "x");
    let before = place.tree();
    let refused = |change: Change<'_>| {
        let changes = [place.change("new/c", None, Some("c")), change];
        let error = place.commit(&changes).unwrap_err();
        assert_eq!(place.tree(), before, "{error}");
        assert_eq!(place.records(), 0);
        error.to_string().replace(&format!("{}/", place.root.display()), "")
    };
    let changed = "the file changed since it was read";
    assert_eq!(refused(place.change("b", Some("b"), Some("B"))), format!("b: {changed}"));
    assert_eq!(refused(place.change("b", Some("edited!"), None)), format!("b: {changed}"));
    assert_eq!(refused(place.change("a", None, Some("A"))), format!("a: {changed}"));
    assert_eq!(refused(place.change("gone", Some("x"), None)), format!("gone: {changed}"));
    assert_eq!(refused(place.change("no/dir", Some("x"), None)), format!("no/dir: {changed}"));
    let text = refused(place.change("dir", None, Some("x")));
    assert_eq!(text, "dir: a directory, not a regular file");
    let text = refused(place.change("a/below", None, Some("x")));
    assert!(text.starts_with("a: cannot open the directory: Not a directory"), "{text}");
    let text = refused(place.change("a", Some("a"), Some("twice")).clone_as("new/c", &place));
    assert_eq!(text, "new/c: changed twice in one commit");
    for outside in ["../x", "dir/../../x", "/x"] {
        let text = refused(place.change(outside, None, Some("x")));
        assert!(text.ends_with("not below a directory that may be written"), "{text}");
    }
}

impl<'a> Change<'a> {
    fn clone_as(self, name: &str, place: &Place) -> Self {
        Self { path: place.at(name), ..self }
    }
}

/// Between the first look and the rename there is time for another program. What was displaced
/// is looked at again, and put back.
#[test]
fn a_change_at_the_last_moment_is_seen() {
    for system in SYSTEMS {
        for new in [New::Absent, New::File(Content::Bytes(b"A"), Mode::Keep)] {
            let place = Place::new();
            place.write("a", "a").write("b", "b");
            let looks = Cell::new(0);
            let check = |_: &File| {
                looks.set(looks.get() + 1);
                Ok(looks.get() == 1)
            };
            let before = place.tree();
            let changes = [
                place.change("b", Some("b"), Some("B")),
                Change { path: place.at("a"), old: Old::File(&check), new },
            ];
            let error = place.commit_with(&disk(Fault::None, system), &changes).unwrap_err();
            assert!(matches!(error, CommitError::Changed { .. }), "{error}");
            assert_eq!((place.tree(), looks.get(), place.records()), (before, 2, 0));
        }
    }
}

#[test]
fn of_two_edits_of_one_file_the_second_fails_cleanly() {
    let place = Place::new();
    place.write("a", "a").write("b", "b");
    let roots = [place.root.clone()];
    let second = || {
        place.commit(&[place.change("a", Some("a"), Some("first"))]).unwrap();
        true
    };
    let site = Site {
        roots: &roots,
        journal: Some(&place.journal),
        go_on: &second,
        opens_directories: false,
    };
    let changes = [
        place.change("b", Some("b"), Some("second")),
        place.change("a", Some("a"), Some("second")),
    ];
    let error = commit(&changes, &site).unwrap_err();
    assert!(matches!(error, CommitError::Changed { .. }), "{error}");
    assert_eq!(fs::read_to_string(place.at("a")).unwrap(), "first");
    assert_eq!(fs::read_to_string(place.at("b")).unwrap(), "b");
    assert_eq!(place.tree().len(), 2);
}

#[test]
fn a_commit_can_be_called_off_before_anything_changed() {
    let place = Place::new();
    place.write("a", "a");
    let before = place.tree();
    let roots = [place.root.clone()];
    let site = Site {
        roots: &roots,
        journal: Some(&place.journal),
        go_on: &|| false,
        opens_directories: false,
    };
    let changes = [place.change("a", Some("a"), Some("A")), place.change("d/new", None, Some("x"))];
    let error = commit(&changes, &site).unwrap_err();
    assert!(matches!(error, CommitError::Stopped), "{error}");
    assert_eq!((place.tree(), place.records()), (before, 0));
}

/// A directory swapped for a link after the checks leads nowhere: names are looked up in the
/// directory that was checked.
#[test]
fn a_directory_swapped_for_a_link_lets_nothing_out() {
    let place = Place::new();
    place.write("sub/a", "a").write("b", "b");
    let outside = place.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a"), "secret").unwrap();
    let swap = || {
        fs::rename(place.at("sub"), place.at("was_sub")).unwrap();
        symlink(&outside, place.at("sub")).unwrap();
        true
    };
    let roots = [place.root.clone()];
    let site = Site {
        roots: &roots,
        journal: Some(&place.journal),
        go_on: &swap,
        opens_directories: false,
    };
    let changes = [
        place.change("sub/a", Some("a"), Some("A")),
        place.change("sub/new", None, Some("n")),
        place.change("b", Some("b"), Some("B")),
    ];
    commit(&changes, &site).unwrap();
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(place.at("was_sub/a")).unwrap(), "A");
    // The next one goes by the path again, and refuses the link.
    for change in [
        place.change("sub/a", Some("secret"), Some("x")),
        place.change("sub/a", Some("secret"), None),
        place.change("sub/new", None, Some("x")),
    ] {
        place.commit(&[change]).unwrap_err();
    }
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn what_is_no_file_is_refused_and_holds_nobody() {
    let place = Place::new();
    place.write("a", "a");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
    for (name, what) in [("pipe", "a named pipe"), ("socket", "a socket")] {
        for old in [Old::Bytes(b""), Old::Absent, Old::Any] {
            let new = New::File(Content::Bytes(b"x"), Mode::Keep);
            let change = Change { path: place.at(name), old, new };
            let error = place.commit(&[place.change("a", Some("a"), None), change]).unwrap_err();
            let CommitError::NotRegular { found, .. } = error else { panic!("{name}: {error}") };
            assert_eq!(found, what);
        }
    }
    assert!(place.at("a").exists());
}

#[test]
fn modes_attributes_and_hard_links() {
    let place = Place::new();
    place.write("tool", "old").write("gone", "moved").write("plain", "p");
    let mode = |name: &str| fs::metadata(place.at(name)).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(place.at("tool"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(place.at("gone"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(place.at("tool"), place.at("twin")).unwrap();
    let tool = File::open(place.at("tool")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::fsetxattr(&tool, "user.note", b"kept", flags).is_ok();
    let file = |mode| New::File(Content::Bytes(b"new"), mode);
    let gone = place.at("gone");
    let committed = place
        .commit(&[
            place.change("tool", Some("old"), Some("new")),
            place.change("gone", Some("moved"), None),
            Change { path: place.at("there"), old: Old::Absent, new: file(Mode::Like(&gone)) },
            Change {
                path: place.at("script"),
                old: Old::Absent,
                new: file(Mode::Executable(Execute::Set, Some(&gone))),
            },
            Change {
                path: place.at("plain"),
                old: Old::Any,
                new: file(Mode::Executable(Execute::Set, None)),
            },
            Change { path: place.at("exact"), old: Old::Any, new: file(Mode::Exact(0o444)) },
        ])
        .unwrap();
    let modes = ["tool", "there", "script", "exact"].map(mode);
    assert_eq!(modes, [0o751, 0o600, 0o700, 0o444]);
    assert_eq!(mode("plain") & 0o111, (mode("plain") & 0o444) >> 2);
    let note = format!(
        "{}: this file has another name, a hard link, which keeps the old content",
        place.at("tool").display()
    );
    assert_eq!(committed.notes, [note]);
    assert_eq!(fs::read_to_string(place.at("twin")).unwrap(), "old");
    if has_attributes {
        let tool = File::open(place.at("tool")).unwrap();
        let mut value = [0; 8];
        let length = rustix::fs::fgetxattr(&tool, "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    } else {
        eprintln!("SKIPPED: this file system has no extended attributes");
    }
}

#[test]
fn content_can_come_in_pieces_and_many_files_are_synced_together() {
    let place = Place::new();
    let stream = |out: &mut dyn Write| {
        for _ in 0..1_000 {
            out.write_all(b"0123456789")?;
        }
        Ok(())
    };
    // More directories than are kept open, more files than are synced one by one.
    let names: Vec<String> = (0..450).map(|n| format!("d{}/f{n}", n % 220)).collect();
    let mut changes: Vec<Change<'_>> =
        names.iter().map(|name| place.change(name, None, Some("x"))).collect();
    let new = New::File(Content::Stream(&stream), Mode::Keep);
    changes.push(Change { path: place.at("streamed"), old: Old::Absent, new });
    place.commit(&changes).unwrap();
    assert_eq!(place.tree().len(), 450 + 220 + 1);
    assert_eq!(fs::metadata(place.at("streamed")).unwrap().len(), 10_000);
    let broken = |out: &mut dyn Write| {
        out.write_all(b"half")?;
        Err(io::Error::other("the source broke"))
    };
    let before = place.tree();
    let new = New::File(Content::Stream(&broken), Mode::Keep);
    let change = Change { path: place.at("streamed"), old: Old::Any, new };
    let error = place.commit(&[change]).unwrap_err();
    assert!(error.to_string().ends_with("cannot write: the source broke"), "{error}");
    assert_eq!(place.tree(), before);
}

#[test]
fn a_directory_that_is_not_empty_stays() {
    let place = Place::new();
    place.write("d/listed", "1").write("d/other", "2");
    let listed = |new| {
        vec![
            place.change("d/listed", Some("1"), None),
            Change { path: place.at("d"), old: Old::Directory, new },
        ]
    };
    let before = place.tree();
    let file = New::File(Content::Bytes(b"x"), Mode::Keep);
    let error = place.commit(&listed(file)).unwrap_err();
    assert!(matches!(error, CommitError::Io { verb: "remove the directory", .. }), "{error}");
    assert_eq!(place.tree(), before);
    place.commit(&listed(New::Absent)).unwrap();
    assert!(place.at("d/other").exists() && !place.at("d/listed").exists());
}

/// Leaves a commit as a kill in the middle of its renames would, and returns its record.
fn leave_unfinished(place: &Place, at: usize) -> PathBuf {
    furnish(place);
    let gone = disk(Fault::From(at, Errno::IO), System::Exchanging);
    place.commit_with(&gone, &everything(place)).unwrap_err();
    let mut records = fs::read_dir(&place.journal).unwrap();
    let record = records.next().unwrap().unwrap().path();
    assert!(records.next().is_none());
    record
}

/// Returns a call within the renames of `everything`, after the first exchange.
fn midway() -> usize {
    let is_midway = |at: &usize| {
        let place = Place::in_memory();
        furnish(&place);
        let gone = disk(Fault::From(*at, Errno::IO), System::Exchanging);
        place.commit_with(&gone, &everything(&place)).unwrap_err();
        fs::read_to_string(place.at("replaced")).unwrap() == "new"
    };
    (1..).find(is_midway).unwrap() + 4
}

#[test]
fn what_the_user_changed_after_a_kill_is_not_overwritten() {
    let place = Place::new();
    leave_unfinished(&place, midway());
    assert_eq!(fs::read_to_string(place.at("replaced")).unwrap(), "new");
    fs::write(place.at("replaced"), "the user's").unwrap();
    let said = place.recover();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("took back an edit that was interrupted: "), "{said:?}");
    assert_eq!(fs::read_to_string(place.at("replaced")).unwrap(), "the user's");
    assert_eq!(fs::read_to_string(place.at("tool")).unwrap(), "old tool");
    // The only copy of the old content stays, and is named.
    let kept = said[0].split("what it held before is in ").nth(1).unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "old");
    assert!(place.recover().is_empty());
}

#[test]
fn a_torn_record_does_no_harm() {
    let place = Place::in_memory();
    let whole = fs::read(leave_unfinished(&place, midway())).unwrap();
    let (before, after) = before_and_after();
    let at = midway();
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let place = Place::in_memory();
        let record = leave_unfinished(&place, at);
        let bytes = fs::read(&record).unwrap();
        fs::write(&record, &bytes[..length.min(bytes.len())]).unwrap();
        let midway = place.tree();
        let said = place.recover();
        let tree = place.tree();
        if said.is_empty() {
            // Not one line of it can be read: nothing is known, and nothing is done.
            assert_eq!(tree, midway);
            continue;
        }
        for (name, old) in &before {
            let now = tree.get(name);
            let is_there = now == Some(old) || now == after.get(name);
            let is_there = is_there || said.iter().any(|said| said.contains(TEMP_PREFIX));
            assert!(is_there, "{length}: {}: {now:?}: {said:?}", name.display());
        }
        assert!(place.recover().is_empty());
    }
}

#[test]
fn a_record_that_is_not_ours_to_read_is_set_aside() {
    let place = Place::new();
    let record = leave_unfinished(&place, midway());
    let bytes = fs::read(&record).unwrap();
    let tree = place.tree();
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 9] ^= 1;
    let garbage = b"not a record at all\n\0\xff".to_vec();
    for foreign in [flipped, garbage] {
        fs::write(&record, &foreign).unwrap();
        let said = place.recover();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("cannot be read; nothing was done about it"), "{said:?}");
        assert_eq!((place.tree(), place.records()), (tree.clone(), 1));
        assert!(place.recover().is_empty());
        fs::remove_file(record.with_extension("aside")).unwrap();
    }
    // A live one is its own process's, and one of elsewhere is for whoever starts there.
    fs::write(&record, &bytes).unwrap();
    let live = File::open(&record).unwrap();
    live.lock().unwrap();
    assert!(place.recover().is_empty());
    drop(live);
    let elsewhere = [place.root.parent().unwrap().join("elsewhere")];
    assert!(recover(&place.journal, &elsewhere).is_empty());
    assert_eq!(place.tree(), tree);
    assert_eq!(place.recover().len(), 1);
    assert_eq!(place.records(), 0);
}

proptest::proptest! {
    #[test]
    fn any_bytes_can_be_a_record(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        super::journal::parse_record(&bytes);
        let mut line = b"0 plan {}".to_vec();
        line.extend(&bytes);
        super::journal::parse_record(&line);
    }
}

/// Runs one test of this file in a process of its own, started by a shell that first limits it.
fn run_limited(shell: &str, test: &str, place: &Place) -> std::process::Output {
    Command::new("/bin/sh")
        .args(["-c", shell, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::commit::tests::{test}"), "--nocapture"])
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
