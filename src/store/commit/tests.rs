//! Trees, commits with every kind of step, and a disk that fails or ends the process where it
//! is told to. The tests themselves are in the files below.

#[path = "conduct_tests.rs"]
mod conduct;
#[path = "fault_tests.rs"]
mod faults;
#[path = "recovery_tests.rs"]
mod recovery;

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
        .write("carried", "first")
        .write("follows", "second")
        .write("narrow/x", "x");
    fs::set_permissions(place.at("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("kept/target", place.at("link")).unwrap();
}

/// Returns a commit with every kind of step.
fn everything(place: &Place) -> Vec<Change<'static>> {
    let like = Box::leak(Box::new(place.at("moved"))).as_path();
    let file = |text: &'static str, mode| New::File(Content::Bytes(text.as_bytes()), mode);
    let entry = |name: &str, old, new| Change { path: place.at(name), old, new };
    let carry = |from: &str| New::Moved(Box::leak(Box::new(place.at(from))).as_path(), &|_| true);
    vec![
        entry("added/carried", Old::Absent, carry("carried")),
        entry("carried", Old::Any, carry("follows")),
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

impl<'a> Change<'a> {
    fn clone_as(self, name: &str, place: &Place) -> Self {
        Self { path: place.at(name), ..self }
    }
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
