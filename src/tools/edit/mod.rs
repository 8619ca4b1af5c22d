//! An edit of files by a patch, from reading to writing: all of it, or none.
//!
//! `plan` resolves, reads and works out what files will hold, and touches nothing; `commit`
//! writes it. Knows no call, no session and no screen. Blocking. Called by the `apply_patch`
//! tool on the blocking pool, and by the command of that name.

mod boundary;
mod report;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::patch;
use crate::patch::{FileAction, Patch, PatchError};
use crate::protocol::SandboxPolicy;
use crate::store::commit;
use crate::store::commit::{Change, CommitError, Content, Execute, Mode, New, Old, Site};
use crate::tools::edit::boundary::Boundary;
use crate::tools::files;
use crate::tools::seen::SeenFiles;

pub(crate) use report::{list_changes, render_changes, render_report};

/// A larger file is not patched: it would be held in memory two times and more.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// All files of one patch together, for the same reason.
const ALL_BYTES_MAX: u64 = 1 << 30;

/// What files will hold; what they held is shared, not copied.
pub(crate) type Applied = patch::Applied<Bytes>;

/// One file of it.
pub(crate) type FileWrite = patch::FileWrite<Bytes>;

/// Where a patch applies, and what it may touch.
#[derive(Debug, Clone)]
pub(crate) struct EditScope {
    /// Where relative paths start.
    pub(crate) base: PathBuf,
    /// What may be written.
    pub(crate) policy: SandboxPolicy,
    /// The user's home directory.
    pub(crate) home: PathBuf,
    /// Where records of edits in flight are kept.
    pub(crate) journal: Option<PathBuf>,
    /// What becomes of a path that the user would have to be asked about.
    pub(crate) asks: Asks,
    /// What the model has seen of which file; empty where there is no model.
    pub(crate) seen: SeenFiles,
}

/// What becomes of a path that the user would have to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The paths as named have been judged, and the user has agreed where that was needed.
    JudgedBefore,
    /// Nobody was asked, so it is refused.
    Refuse,
}

/// An edit that is worked out.
#[derive(Debug)]
pub(crate) struct Planned {
    /// What files will hold, and what is to be said of it.
    pub(crate) applied: Applied,
    /// Files that changed on disk since the model read them.
    pub(crate) stale: Vec<PathBuf>,
    /// What goes away as the link it is.
    links: BTreeMap<PathBuf, Link>,
    /// The directories that nothing leaves, real paths.
    roots: Vec<PathBuf>,
}

/// A symbolic link that a patch deletes or moves away.
#[derive(Debug)]
struct Link {
    /// As it is written in the link.
    target: PathBuf,
    /// Where it really leads, if anywhere.
    real: Option<PathBuf>,
}

/// Why no file was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The patch cannot be read, or does not fit the files.
    #[error("{error}{}", stale_lines(stale))]
    Patch {
        /// What does not fit.
        error: PatchError,
        /// Files that changed on disk since the model read them.
        stale: Vec<PathBuf>,
    },
    /// A path may not be written.
    #[error("{reason}")]
    Refused {
        /// Which and why.
        reason: String,
    },
    /// A file cannot be read, or is nothing that a patch can change.
    #[error("{}: {reason}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It could not be written.
    #[error(transparent)]
    Commit(CommitError),
}

/// Reads what the patch names and works out what files will hold. Changes nothing.
pub(crate) fn plan(mut patch: Patch, scope: &EditScope) -> Result<Planned, EditError> {
    let mut boundary = Boundary::new(scope);
    boundary.resolve_paths(&mut patch, &scope.base)?;
    let mut reader = Reader { room: ALL_BYTES_MAX, links: BTreeMap::new() };
    let mut files = BTreeMap::new();
    for path in patch.paths(&scope.base) {
        let bytes = reader.read(&path, &|| fate_of(&path, &patch, &scope.base))?;
        files.insert(path, bytes);
    }
    let is_stale = |(path, bytes): (&PathBuf, &Option<Bytes>)| {
        scope.seen.differs(path, bytes.as_deref()?).then(|| path.clone())
    };
    let stale = files.iter().filter_map(is_stale).collect();
    match patch::apply(&patch, &scope.base, &files) {
        Ok(mut applied) => {
            applied.writes.retain(changes_anything);
            Ok(Planned { applied, stale, links: reader.links, roots: boundary.into_roots() })
        }
        Err(error) => Err(EditError::Patch { error, stale }),
    }
}

/// Writes what was planned. `go_on` is asked once, when all is ready and nothing has changed.
/// Returns what there is to say of it, one line each.
pub(crate) fn commit(
    planned: &Planned,
    scope: &EditScope,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<String>, EditError> {
    let changes: Vec<Change<'_>> =
        planned.applied.writes.iter().map(|write| planned.change_of(write)).collect();
    let site = Site { roots: &planned.roots, journal: scope.journal.as_deref(), go_on };
    let committed = commit::commit(&changes, &site).map_err(EditError::Commit)?;
    for write in &planned.applied.writes {
        match &write.content {
            Some(bytes) => scope.seen.note(&write.path, bytes),
            None => scope.seen.forget(&write.path),
        }
    }
    Ok(committed.notes)
}

impl Planned {
    fn change_of<'a>(&'a self, write: &'a FileWrite) -> Change<'a> {
        let like = write.moved_from.as_deref().or(write.copied_from.as_deref());
        let like =
            like.map(|from| self.links.get(from).and_then(|l| l.real.as_deref()).unwrap_or(from));
        let mode = match (write.executable, like) {
            (Some(true), like) => Mode::Executable(Execute::Set, like),
            (Some(false), like) => Mode::Executable(Execute::Clear, like),
            (None, Some(like)) => Mode::Like(like),
            (None, None) => Mode::Keep,
        };
        let old = match (&write.old, self.links.get(&write.path)) {
            (Some(_), Some(link)) => Old::Symlink(&link.target),
            (Some(bytes), None) => Old::Bytes(bytes),
            (None, _) => Old::Absent,
        };
        let new = match &write.content {
            Some(bytes) => New::File(Content::Bytes(bytes), mode),
            None => New::Absent,
        };
        Change { path: write.path.clone(), old, new }
    }
}

/// A file that stays as it is is not written again: its time would tell a build that it changed.
fn changes_anything(write: &FileWrite) -> bool {
    write.content.as_deref() != write.old.as_deref()
        || write.executable.is_some()
        || write.moved_from.is_some()
}

/// Whether all that a patch does to a path is to delete it: then it need not be a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Deleted,
    Read,
}

fn fate_of(path: &Path, patch: &Patch, base: &Path) -> Fate {
    let mut named = patch.files.iter().filter(|file| patch::absolute(base, &file.path) == path);
    let deletes = |file: &patch::FilePatch| matches!(file.action, FileAction::Delete);
    if named.all(deletes) { Fate::Deleted } else { Fate::Read }
}

/// Reads the files of a patch within bounds.
struct Reader {
    /// Bytes that the files still to come may have together.
    room: u64,
    links: BTreeMap<PathBuf, Link>,
}

impl Reader {
    /// Reads a file that a patch may change; `None` when nothing is there.
    fn read(&mut self, path: &Path, fate: &dyn Fn() -> Fate) -> Result<Option<Bytes>, EditError> {
        let failed = |error: io::Error| unfit(path, format!("cannot be read: {error}"));
        let found = match std::fs::symlink_metadata(path) {
            Ok(found) => found,
            // What stands where a directory should may be about to go.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                check_directory(path)?;
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        check_directory(path)?;
        if !found.is_symlink() {
            check_writable(path, &found)?;
            return self.read_file(path, path, &found).map(Some);
        }
        // The boundary follows links, except those that go away themselves.
        let target = std::fs::read_link(path).map_err(failed)?;
        let real = std::fs::canonicalize(path).ok();
        let bytes = match real.as_deref().map(|real| (real, std::fs::symlink_metadata(real))) {
            Some((real, Ok(found))) if found.is_file() => self.read_file(path, real, &found)?,
            Some(_) | None if fate() == Fate::Deleted => Bytes::new(),
            Some(_) | None => {
                return Err(unfit(path, "a link that leads to no regular file".to_owned()));
            }
        };
        self.links.insert(path.to_owned(), Link { target, real });
        Ok(Some(bytes))
    }

    fn read_file(
        &mut self,
        path: &Path,
        real: &Path,
        found: &std::fs::Metadata,
    ) -> Result<Bytes, EditError> {
        if let Some(kind) = files::describe_other(found.file_type()) {
            return Err(unfit(path, format!("{kind}, not a regular file")));
        }
        let bytes_max = FILE_BYTES_MAX.min(self.room);
        if found.len() > bytes_max {
            return Err(unfit(path, format!("{} bytes are too many to patch", found.len())));
        }
        let bytes = files::read_real(real, bytes_max)
            .map_err(|error| unfit(path, format!("cannot be read: {error}")))?;
        self.room = self.room.saturating_sub(bytes.len() as u64);
        Ok(bytes.into())
    }
}

fn unfit(path: &Path, reason: String) -> EditError {
    EditError::Unfit { path: path.to_owned(), reason }
}

/// Replacing a file asks only for the right to its directory; a patch asks for the file's, too.
fn check_writable(path: &Path, found: &std::fs::Metadata) -> Result<(), EditError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let allowed = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    if allowed && !found.permissions().readonly() {
        return Ok(());
    }
    let reason = match found.is_dir() {
        true => "the directory is read-only",
        false => "the file is read-only; make it writable first",
    };
    Err(EditError::Unfit { path: path.to_owned(), reason: reason.to_owned() })
}

/// Checks the directory that a file is in, or the nearest one above that is there.
fn check_directory(path: &Path) -> Result<(), EditError> {
    let there = path.ancestors().skip(1).find_map(|dir| Some((dir, std::fs::metadata(dir).ok()?)));
    match there {
        Some((dir, found)) if found.is_dir() => check_writable(dir, &found),
        Some(_) | None => Ok(()),
    }
}

impl Planned {
    /// Returns what the model should know of files that changed behind its back.
    pub(crate) fn stale_notes(&self) -> impl Iterator<Item = String> {
        self.stale.iter().map(|path| stale_sentence(path))
    }
}

/// Says which files changed, a line each, after another text.
fn stale_lines(stale: &[PathBuf]) -> String {
    stale.iter().map(|path| format!("\n{}", stale_sentence(path))).collect()
}

fn stale_sentence(path: &Path) -> String {
    format!("{} changed on disk since you read it", path.display())
}
