//! Where a patch may write: what policy says of paths as they are written, it says of where
//! they really lead.
//!
//! Follows links, and the other ways to a repository's own directory: a gitfile, a second
//! mount. The commit phase then opens the paths found here through directories alone, so a link
//! swapped in later leads nowhere. Called by `edit::plan`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::patch;
use crate::patch::{FileAction, Patch};
use crate::policy;
use crate::policy::{Obstacle, Rules};
use crate::protocol::{Pattern, SandboxMode, SandboxPolicy};
use crate::tools::edit::{Asks, EditError, EditScope};

/// The directory of a repository's own files, or the file that names it.
const GIT: &str = ".git";

/// A gitfile is one line with a path.
const GITFILE_BYTES_MAX: u64 = 8 * 1024;

/// What policy says, with its own paths followed through links.
pub(super) struct Boundary<'a> {
    policy: SandboxPolicy,
    home: &'a Path,
    rules: &'a Rules,
    asks: Asks,
    /// The directories that the commit may open.
    roots: Vec<PathBuf>,
    /// Of each directory looked at: the repository directories that it names.
    repositories: HashMap<PathBuf, Vec<Repository>>,
}

/// A repository's own directory.
#[derive(Debug, Clone)]
struct Repository {
    /// Its real path.
    path: PathBuf,
    /// The name under which policy knows it.
    known_as: PathBuf,
    /// Its device and number: a second mount of it has the same.
    identity: (u64, u64),
}

impl<'a> Boundary<'a> {
    /// Follows the links in a policy's paths; reads directories.
    pub(super) fn new(scope: &'a EditScope) -> Self {
        let mut policy = scope.policy.clone();
        let hidden: Vec<Pattern> = policy
            .deny_read
            .iter()
            .filter_map(|pattern| {
                let path = match pattern.0.strip_prefix("~/") {
                    Some(rest) => scope.home.join(rest),
                    None => PathBuf::from(&pattern.0),
                };
                let real =
                    fs::canonicalize(&path).ok().filter(|real| path.is_absolute() && *real != path);
                real.map(|real| Pattern(real.to_string_lossy().into_owned()))
            })
            .collect();
        policy.deny_read.extend(hidden);
        let tmp = policy.tmp.then(|| PathBuf::from("/tmp"));
        policy.roots = policy.roots.iter().chain(&tmp).map(|root| follow(root)).collect();
        policy.deny_write = policy.deny_write.iter().map(|directory| follow(directory)).collect();
        let roots = match policy.mode {
            SandboxMode::DangerFullAccess => vec![PathBuf::from("/")],
            SandboxMode::ReadOnly | SandboxMode::WorkspaceWrite => policy.roots.clone(),
        };
        Self {
            policy,
            home: &scope.home,
            rules: &scope.rules,
            asks: scope.asks,
            roots,
            repositories: HashMap::new(),
        }
    }

    /// Returns the directories that the commit may open, after all paths were resolved.
    pub(super) fn into_roots(self) -> Vec<PathBuf> {
        self.roots
    }

    /// Checks every path, and puts the real one where a link leads elsewhere, so that two
    /// names of one file are one file.
    pub(super) fn resolve_paths(
        &mut self,
        patch: &mut Patch,
        base: &Path,
    ) -> Result<(), EditError> {
        // What goes away goes as it is named: the link, not what it points to.
        let leaves = |action: &FileAction| match action {
            FileAction::Delete => true,
            FileAction::Update { move_to, .. } => move_to.is_some(),
            FileAction::Add { .. } => false,
        };
        let leaving: Vec<PathBuf> = patch
            .files
            .iter()
            .filter(|file| leaves(&file.action))
            .map(|file| patch::absolute(base, &file.path))
            .filter(|path| path.is_symlink())
            .collect();
        for file in &mut patch.files {
            self.resolve_path(&mut file.path, base, &leaving)?;
            if let FileAction::Update { move_to: Some(target), .. } = &mut file.action {
                self.resolve_path(target, base, &leaving)?;
            }
        }
        Ok(())
    }

    fn resolve_path(
        &mut self,
        written: &mut PathBuf,
        base: &Path,
        leaving: &[PathBuf],
    ) -> Result<(), EditError> {
        let named = patch::absolute(base, written);
        let unresolved = |error: io::Error| EditError::Unfit {
            path: named.clone(),
            reason: format!("cannot be resolved: {error}"),
        };
        let leaves = leaving.contains(&named);
        let mut target = match real_path(&named) {
            // A link to nothing, which is about to go itself.
            Err(error) if leaves && error.kind() == io::ErrorKind::NotFound => named.clone(),
            real => real.map_err(unresolved)?,
        };
        self.check(&target, &named)?;
        if leaves {
            target = real_path(named.parent().unwrap_or(&named)).map_err(unresolved)?;
            target.extend(named.file_name());
            self.check(&target, &named)?;
        }
        if target != named {
            *written = target;
        }
        Ok(())
    }

    /// Checks where a name leads. A name that leads nowhere else has been judged before, and
    /// maybe the user has agreed to it: but to what was shown, not to what lies behind a link.
    fn check(&mut self, real: &Path, named: &Path) -> Result<(), EditError> {
        self.check_repositories(real, named)?;
        let ruled = self.rules.judge_write(real, self.home).and_then(|said| said.as_obstacle());
        let obstacle = ruled.or_else(|| policy::find_write_obstacle(real, &self.policy, self.home));
        let reason = match obstacle {
            Some(Obstacle::Asks(reason)) if real != named && self.asks == Asks::JudgedBefore => {
                format!("{reason}; name it by that path to have the user asked")
            }
            Some(Obstacle::Forbids(reason)) => reason,
            Some(Obstacle::Asks(reason)) if self.asks == Asks::Refuse => reason,
            Some(Obstacle::Asks(_)) => {
                // Agreed to, wherever it is; it is still opened through directories alone.
                if !self.roots.iter().any(|root| real.starts_with(root)) {
                    self.roots.push(PathBuf::from("/"));
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        let shown = named.display();
        Err(EditError::Refused {
            reason: match real == named {
                true => reason,
                false => format!("{shown} leads elsewhere: {reason}"),
            },
        })
    }

    /// Checks that a path does not lie in a repository's own directory under another name.
    fn check_repositories(&mut self, real: &Path, named: &Path) -> Result<(), EditError> {
        if self.policy.mode == SandboxMode::DangerFullAccess {
            return Ok(());
        }
        let above: Vec<&Path> =
            real.ancestors().skip(1).take_while(|dir| dir.is_absolute()).collect();
        let found: Vec<Repository> =
            above.iter().flat_map(|dir| self.repositories_of(dir).to_vec()).collect();
        if found.is_empty() {
            return Ok(());
        }
        for dir in above {
            let identity = fs::metadata(dir).ok().map(|found| (found.dev(), found.ino()));
            let is_it = |it: &&Repository| it.path == dir || identity == Some(it.identity);
            let Some(repository) = found.iter().find(is_it) else { continue };
            let known = repository.known_as.join(real.strip_prefix(dir).unwrap_or(real));
            if known == real {
                continue;
            }
            if let Some(Obstacle::Asks(reason) | Obstacle::Forbids(reason)) =
                policy::find_write_obstacle(&known, &self.policy, self.home)
            {
                let shown = named.display();
                return Err(EditError::Refused {
                    reason: format!("{shown} leads into a repository's own directory: {reason}"),
                });
            }
        }
        Ok(())
    }

    /// Returns the repository directories that `.git` in a directory stands for.
    fn repositories_of(&mut self, dir: &Path) -> &[Repository] {
        self.repositories.entry(dir.to_owned()).or_insert_with(|| find_repositories(dir))
    }
}

fn find_repositories(dir: &Path) -> Vec<Repository> {
    let known_as = dir.join(GIT);
    let Ok(found) = fs::metadata(&known_as) else { return Vec::new() };
    let mut paths = vec![known_as.clone()];
    if found.is_file() {
        // A gitfile says where the repository lies; a linked worktree says there where the
        // common part of it is.
        let Some(own) = read_path(&known_as, "gitdir:") else { return Vec::new() };
        paths = vec![dir.join(own)];
    }
    let own = paths.first().cloned().unwrap_or_default();
    if let Some(common) = read_path(&own.join("commondir"), "") {
        paths.push(own.join(common));
    }
    let repository = |path: PathBuf| {
        let path = fs::canonicalize(path).ok()?;
        let found = fs::metadata(&path).ok()?;
        let identity = (found.dev(), found.ino());
        Some(Repository { path, known_as: known_as.clone(), identity })
    };
    paths.into_iter().filter_map(repository).collect()
}

/// Reads a file of one line that holds a path after a word.
fn read_path(file: &Path, word: &str) -> Option<PathBuf> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(file).ok()?.take(GITFILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let path = text.strip_prefix(word)?.trim();
    (!path.is_empty()).then(|| PathBuf::from(path))
}

fn follow(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path with the links of its existing part followed.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    for ancestor in path.ancestors() {
        match fs::symlink_metadata(ancestor) {
            Ok(_) => {
                let mut real = fs::canonicalize(ancestor)?;
                if let Ok(rest) = path.strip_prefix(ancestor) {
                    real.extend(rest);
                }
                return Ok(real);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}
