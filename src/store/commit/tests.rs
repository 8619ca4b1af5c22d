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

use rustix::io::Errno;

use super::disk::Disk;
use super::perform::commit_on;
use super::recover::recover_on;
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
    calls: Cell<usize>,
    no_exchange: bool,
}

impl Faults {
    pub(super) fn before_call(&self) -> io::Result<()> {
        let call = self.calls.get() + 1;
        self.calls.set(call);
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
    Disk { faults: Faults { fault, calls: Cell::new(0), no_exchange } }
}

/// What the file system can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Exchanging,
    Plain,
}

/// A folder `work` with files, and a journal beside it.
struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    journal: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let root = base.join("work");
        fs::create_dir(&root).unwrap();
        Self { _dir: dir, root, journal: base.join("state/journal") }
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
    for system in [System::Exchanging, System::Plain] {
        for errno in [Errno::NOSPC, Errno::PERM] {
            for at in 1.. {
                let place = Place::new();
                furnish(&place);
                let disk = disk(Fault::Once(at, errno), system);
                let done = place.commit_with(&disk, &everything(&place));
                let what = format!("{system:?}, {errno:?} at call {at}: {done:?}");
                let recovered = place.recover();
                let is_new = check(&place, &trees, &format!("{what} {recovered:?}"));
                assert_eq!(is_new, done.is_ok(), "{what}");
                assert_eq!(place.records(), 0, "{what}");
                if disk.faults.calls.get() < at {
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
    for system in [System::Exchanging, System::Plain] {
        for at in 1.. {
            let place = Place::new();
            furnish(&place);
            let disk = disk(Fault::From(at, Errno::IO), system);
            let done = place.commit_with(&disk, &everything(&place));
            let recovered = place.recover();
            let what = format!("{system:?}, from call {at}: {done:?} {recovered:?}");
            let is_new = check(&place, &trees, &what);
            // The commit may be done although the end of it could not be told.
            assert!(is_new || done.is_err(), "{what}");
            assert_eq!(place.records(), 0, "{what}");
            if disk.faults.calls.get() < at {
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

fn kill_before_each_call(system: &str) {
    let trees = before_and_after();
    for at in 1.. {
        let place = Place::new();
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
    let place = Place { _dir: tempfile::tempdir().unwrap(), root, journal };
    let system = if system == "Plain" { System::Plain } else { System::Exchanging };
    let disk = disk(Fault::Kill(at.parse().unwrap()), system);
    place.commit_with(&disk, &everything(&place)).unwrap();
}
