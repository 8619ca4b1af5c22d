//! An edit of files by a patch, from reading to writing: all of it, or none.
//!
//! `plan` resolves, reads and works out what files will hold, and touches nothing; `commit`
//! writes it. Knows no call, no session and no screen. Blocking. Called by the `apply_patch`
//! tool on the blocking pool, and by the command of that name.

mod boundary;
mod read;
mod report;

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::patch;
use crate::patch::{Patch, PatchError};
use crate::policy::Rules;
use crate::protocol::SandboxPolicy;
use crate::store::commit;
use crate::store::commit::{Change, CommitError, Content, Execute, Mode, New, Old, Site};
use crate::tools::edit::boundary::Boundary;
use crate::tools::edit::read::{Link, Reader, check_places, fate_of};
use crate::tools::seen::SeenFiles;

pub(crate) use report::{list_changes, render_changes, render_report};

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
    /// What the user wants allowed, asked or denied.
    pub(crate) rules: Arc<Rules>,
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
    /// How the files looked when they were read.
    looks: HashMap<PathBuf, Metadata>,
    /// The directories that nothing leaves, real paths.
    roots: Vec<PathBuf>,
}

/// Why no file was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The patch cannot be read, or does not fit the files.
    #[error("{error}{}", stale_lines(stale))]
    Patch {
        /// What does not fit.
        error: Box<PatchError>,
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
    let (mut reader, mut files) = (Reader::new(), BTreeMap::new());
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
            check_places(&applied.writes)?;
            let Reader { links, looks, .. } = reader;
            Ok(Planned { applied, stale, links, looks, roots: boundary.into_roots() })
        }
        Err(error) => Err(EditError::Patch { error: Box::new(error), stale }),
    }
}

/// Writes what was planned. `go_on` is asked once, when all is ready and nothing has changed.
/// Returns what there is to say of it, one line each.
pub(crate) fn commit(
    planned: &Planned,
    scope: &EditScope,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<String>, EditError> {
    let writes = &planned.applied.writes;
    let parts: Vec<Vec<&[u8]>> = writes.iter().map(parts_of).collect();
    let changes: Vec<Change<'_>> =
        writes.iter().zip(&parts).map(|(write, parts)| planned.change_of(write, parts)).collect();
    let site = Site { go_on, ..Site::new(&planned.roots, scope.journal.as_deref()) };
    let committed = commit::commit(&changes, &site).map_err(EditError::Commit)?;
    for (write, parts) in writes.iter().zip(&parts) {
        match &write.content {
            Some(_) => scope.seen.note(&write.path, parts),
            None => scope.seen.forget(&write.path),
        }
    }
    Ok(committed.notes)
}

/// Returns the bytes that a file will hold, in parts.
fn parts_of(write: &FileWrite) -> Vec<&[u8]> {
    write.content.iter().flat_map(patch::Content::parts).collect()
}

impl Planned {
    fn change_of<'a>(&'a self, write: &'a FileWrite, parts: &'a [&'a [u8]]) -> Change<'a> {
        let like = write.moved_from.as_deref().or(write.copied_from.as_deref());
        let like =
            like.map(|from| self.links.get(from).and_then(|l| l.real.as_deref()).unwrap_or(from));
        let mode = match (write.executable, like) {
            (Some(true), like) => Mode::Executable(Execute::Set, like),
            (Some(false), like) => Mode::Executable(Execute::Clear, like),
            (None, Some(like)) => Mode::Like(like),
            (None, None) => Mode::Keep,
        };
        let looks = (self.links.get(&write.path), self.looks.get(&write.path));
        let old = match (&write.old, looks) {
            (Some(_), (Some(link), _)) => Old::Symlink(&link.target),
            (Some(bytes), (None, Some(look))) => Old::Seen(bytes, look),
            (Some(bytes), (None, None)) => Old::Bytes(bytes),
            (None, _) => Old::Absent,
        };
        let new = match (&write.content, parts) {
            (Some(_), [whole]) => New::File(Content::Bytes(whole), mode),
            (Some(_), parts) => New::File(Content::Parts(parts), mode),
            (None, _) => New::Absent,
        };
        Change { path: write.path.clone(), old, new }
    }
}

/// A file that stays as it is is not written again: its time would tell a build that it changed.
fn changes_anything(write: &FileWrite) -> bool {
    let is_same = match (&write.content, &write.old) {
        (Some(content), Some(old)) => content.is(old),
        (content, old) => content.is_none() && old.is_none(),
    };
    !is_same || write.executable.is_some() || write.moved_from.is_some()
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
