//! Finds what makes programs run others below the writable roots: every `.git`, nested ones
//! too, where they point to, and the directories of agents.
//!
//! Reads directories and the few files with which git says where a repository lies; runs
//! nothing. A tree is walked once and again when it may have changed, small trees at every
//! command. Called by `facts.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::policy::{GIT_PROTECTED, PROTECTED};
use crate::protocol::GitAccess;
use crate::sandbox::SandboxError;
use crate::sandbox::linux::overlay::MountPoint;
use crate::sandbox::linux::transient::is_left_behind;

/// Entries of all roots; beyond, a walk would hold up a command for seconds.
const ENTRIES_MAX: usize = 2_000_000;
/// A tree so small is walked at every command: that takes about a millisecond.
const ENTRIES_SMALL: usize = 512;
/// A larger one is walked again when that takes at most one part in so many of the time.
const REST_FACTOR: u32 = 100;
/// Protected paths. Each costs some 10 µs at every command.
const FOUND_MAX: usize = 4_096;
/// Bytes of a file with which git says where a repository lies.
const POINTER_BYTES_MAX: u64 = 8_192;

/// What was found below the roots.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Protected {
    /// What is there.
    pub(crate) present: Vec<PathBuf>,
    /// What is not, at the places where it is looked for first.
    pub(crate) missing: Vec<MountPoint>,
}

/// Walks that can be used again.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    walks: Mutex<BTreeMap<PathBuf, Walk>>,
}

/// One tree, walked.
#[derive(Debug, Clone)]
struct Walk {
    ended: Instant,
    took: Duration,
    entries: usize,
    found: Vec<PathBuf>,
}

impl Walks {
    /// Returns what is protected below these roots, all real.
    pub(crate) fn find(
        &self,
        roots: &[PathBuf],
        git: GitAccess,
    ) -> Result<Protected, SandboxError> {
        let mut present = BTreeSet::new();
        let mut missing = BTreeSet::new();
        for root in roots {
            for path in self.walk(root)? {
                if is_git(&path) {
                    protect_git(&path, git, (&mut present, &mut missing));
                } else {
                    protect(&path, &mut present);
                }
            }
            // Git may be open; then a new repository is, too.
            let names = PROTECTED.iter().filter(|name| **name != ".git" || git != GitAccess::Allow);
            missing.extend(names.filter_map(|name| find_missing(root.join(name), true)));
        }
        let missing: Vec<MountPoint> = missing.into_iter().collect();
        present.retain(|path| !missing.iter().any(|point| point.path == *path));
        if present.len() + missing.len() > FOUND_MAX {
            let hint = "there are more than 4096 repositories below the writable roots";
            return Err(SandboxError::Unavailable(hint.to_owned()));
        }
        Ok(Protected { present: present.into_iter().collect(), missing })
    }

    fn walk(&self, root: &Path) -> Result<Vec<PathBuf>, SandboxError> {
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |walk: &Walk| {
            walk.entries > ENTRIES_SMALL && walk.ended.elapsed() < walk.took * REST_FACTOR
        };
        if let Some(walk) = walks.get(root).filter(|walk| is_fresh(walk)) {
            return Ok(walk.found.clone());
        }
        let walk = walk(root)?;
        let found = walk.found.clone();
        walks.insert(root.to_owned(), walk);
        Ok(found)
    }
}

/// Looks at every name below a root, without following links.
fn walk(root: &Path) -> Result<Walk, SandboxError> {
    let started = Instant::now();
    let mut walk = Walk { ended: started, took: Duration::ZERO, entries: 0, found: Vec::new() };
    let mut next = vec![root.to_owned()];
    while let Some(directory) = next.pop() {
        // One that we cannot list, a command cannot either; nor can it change what is in it.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            walk.entries += 1;
            if walk.entries > ENTRIES_MAX {
                let text = format!("{} has too many files to be searched", root.display());
                return Err(SandboxError::Unavailable(text));
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_protected = entry
                .file_name()
                .to_str()
                .is_some_and(|name| PROTECTED.iter().any(|it| it.eq_ignore_ascii_case(name)));
            if is_protected {
                walk.found.push(entry.path());
            } else if is_directory && !is_systems(&entry.path()) {
                next.push(entry.path());
            }
        }
    }
    walk.ended = Instant::now();
    walk.took = walk.ended - started;
    Ok(walk)
}

/// Returns whether a directory is the kernel's: there are no repositories, and no end.
fn is_systems(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|systems| path == Path::new(systems))
}

fn is_git(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// Adds a path and, where it is a link, its other end.
fn protect(path: &Path, present: &mut BTreeSet<PathBuf>) {
    let is_link = kind_of(path).is_some_and(|kind| kind.is_symlink());
    present.insert(path.to_owned());
    if is_link && let Ok(end) = fs::canonicalize(path) {
        present.insert(end);
    }
}

/// Adds a `.git`, whatever it is, and what it points to; where git is open, only what makes it
/// run programs.
fn protect_git(
    path: &Path,
    git: GitAccess,
    (present, missing): (&mut BTreeSet<PathBuf>, &mut BTreeSet<MountPoint>),
) {
    let Some(kind) = kind_of(path) else { return };
    let mut directories = Vec::new();
    if kind.is_dir() {
        directories.push(path.to_owned());
    } else {
        // It says where the repository lies: that stays as it is, wherever git is open.
        protect(path, present);
        directories.extend(match kind.is_symlink() {
            true => fs::canonicalize(path).ok(),
            false => read_pointer(path, "gitdir: "),
        });
    }
    let common: Vec<PathBuf> =
        directories.iter().filter_map(|it| read_pointer(&it.join("commondir"), "")).collect();
    for directory in directories.into_iter().chain(common) {
        if git != GitAccess::Allow {
            present.insert(directory);
            continue;
        }
        for name in GIT_PROTECTED.iter().chain(&["commondir", "gitdir", "info/attributes"]) {
            let inner = directory.join(name);
            if kind_of(&inner).is_some() {
                protect(&inner, present);
            } else if let Some(is_directory) = is_harmless_when_empty(name) {
                missing.extend(find_missing(inner, is_directory));
            }
        }
    }
}

/// Returns whether an empty mount point of this name is a directory; `None` for what git does
/// not bear to find empty.
fn is_harmless_when_empty(name: &str) -> Option<bool> {
    match name {
        "hooks" | "modules" => Some(true),
        "config.worktree" | "info/attributes" => Some(false),
        _ => None,
    }
}

/// Returns a mount point for what is not there, or only because of another command.
pub(crate) fn find_missing(path: PathBuf, directory: bool) -> Option<MountPoint> {
    let is_missing = kind_of(&path).is_none() || is_left_behind(&path);
    let has_place = path.parent().is_some_and(Path::is_dir);
    (is_missing && has_place && path.to_str().is_some()).then_some(MountPoint { path, directory })
}

fn kind_of(path: &Path) -> Option<FileType> {
    fs::symlink_metadata(path).ok().map(|metadata| metadata.file_type())
}

/// Returns the real directory that a file of git's names.
fn read_pointer(path: &Path, prefix: &str) -> Option<PathBuf> {
    let is_file = fs::metadata(path).ok()?.is_file();
    let mut text = String::new();
    let file = is_file.then(|| fs::File::open(path).ok())??;
    file.take(POINTER_BYTES_MAX).read_to_string(&mut text).ok()?;
    let target = text.strip_prefix(prefix)?.lines().next()?.trim_end();
    fs::canonicalize(path.parent()?.join(target)).ok().filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap()
        }

        fn directory(&self, name: &str) {
            fs::create_dir_all(self.root().join(name)).unwrap();
        }

        fn file(&self, name: &str, text: &str) {
            fs::write(self.root().join(name), text).unwrap();
        }

        fn find(&self, git: GitAccess) -> (Vec<String>, Vec<String>) {
            let found = Walks::default().find(&[self.root()], git).unwrap();
            let shown =
                |path: &Path| path.strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned();
            let missing = found.missing.iter().map(|point| shown(&point.path)).collect();
            (found.present.iter().map(|path| shown(path)).collect(), missing)
        }
    }

    #[test]
    fn repositories_are_found_wherever_they_are() {
        let tree = Tree::new();
        for name in ["a/.git", "a/.GIT", "a/b/c/.git/modules/x/.git", ".codex", "store"] {
            tree.directory(name);
        }
        tree.file("a/b/.git", "gitdir: ../../store\n");
        std::os::unix::fs::symlink("a", tree.root().join(".git")).unwrap();
        let (present, missing) = tree.find(GitAccess::Ask);
        let expected =
            [".codex", ".git", "a", "a/.GIT", "a/.git", "a/b/.git", "a/b/c/.git", "store"];
        assert_eq!(present, expected);
        assert_eq!(missing, [".agents", ".gimlet"]);
    }

    #[test]
    fn a_worktree_leads_to_the_repository_it_is_of() {
        let tree = Tree::new();
        tree.directory("main/store/worktrees/w");
        tree.directory("w");
        tree.file("w/.git", &format!("gitdir: {}/main/store/worktrees/w", tree.root().display()));
        tree.file("main/store/worktrees/w/commondir", "../..\n");
        let (present, _) = tree.find(GitAccess::Deny);
        assert_eq!(present, ["main/store", "main/store/worktrees/w", "w/.git"]);
    }

    #[test]
    fn an_open_repository_keeps_what_makes_it_run_programs() {
        let tree = Tree::new();
        tree.directory(".git/hooks");
        tree.directory(".git/info");
        tree.file(".git/config", "");
        let (present, missing) = tree.find(GitAccess::Allow);
        assert_eq!(present, [".git/config", ".git/hooks"]);
        let expected = [
            ".agents",
            ".codex",
            ".gimlet",
            ".git/config.worktree",
            ".git/info/attributes",
            ".git/modules",
        ];
        assert_eq!(missing, expected);
    }

    #[test]
    fn pointers_that_lead_nowhere_are_none() {
        let tree = Tree::new();
        tree.directory("d");
        for (name, text) in
            [("d/.git", "gitdir: /nowhere/at/all"), (".git", "no pointer"), ("x", "gitdir: x")]
        {
            tree.file(name, text);
        }
        let (present, _) = tree.find(GitAccess::Ask);
        assert_eq!(present, [".git", "d/.git"]);
    }

    #[test]
    fn a_small_tree_is_walked_again() {
        let tree = Tree::new();
        let walks = Walks::default();
        assert_eq!(walks.find(&[tree.root()], GitAccess::Ask).unwrap().present.len(), 0);
        tree.directory("later/.git");
        assert_eq!(walks.find(&[tree.root()], GitAccess::Ask).unwrap().present.len(), 1);
    }
}
