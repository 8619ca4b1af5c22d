//! Changes of several user files that happen all or none.
//!
//! `commit` prepares everything beside its target, writes a journal record, renames, and syncs;
//! a failure at any step takes everything back, and after a kill `recover` finishes or takes
//! back what the record tells of. Links are never followed: callers resolve paths first. Knows
//! nothing of patches, snapshots, policy or sessions. Blocking. Called by `tools/` and `cli/`.

mod dirs;
mod disk;
mod error;
mod finish;
mod journal;
mod make;
mod perform;
mod prepare;
mod recover;
mod step;
mod take_back;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

use disk::Disk;
use rustix::fs::{RawMode, Stat};

pub(crate) use error::CommitError;
#[cfg(fuzzing)]
pub(crate) use journal::seal_line;
pub(crate) use recover::recover;
pub(crate) use step::is_temp_name;

/// One path of a commit: what must be there, and what shall be there.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    /// The path, absolute, below one of the site's roots, through no symbolic link.
    pub(crate) path: PathBuf,
    /// What must be there now; checked before anything happens, and again on what was displaced.
    pub(crate) old: Old<'a>,
    /// What shall be there. Missing directories above it are made.
    pub(crate) new: New<'a>,
}

/// What must be at a path for a commit to go on.
#[derive(Clone, Copy)]
pub(crate) enum Old<'a> {
    /// Nothing.
    Absent,
    /// A regular file of exactly these bytes.
    Bytes(&'a [u8]),
    /// The same, and how the file looked when they were read: while it looks the same, only
    /// what was displaced is read again.
    Seen(&'a [u8], &'a Metadata),
    /// A regular file that the check accepts. It is asked up to twice, with the file at its start.
    File(&'a dyn Fn(&File) -> io::Result<bool>),
    /// A symbolic link with this target.
    Symlink(&'a Path),
    /// A directory.
    Directory,
    /// Whatever it is, nothing included.
    Any,
}

/// What shall be at a path after a commit.
#[derive(Clone, Copy)]
pub(crate) enum New<'a> {
    /// Nothing. A directory goes only when it is empty by then, and stays silently otherwise.
    Absent,
    /// A regular file.
    File(Content<'a>, Mode<'a>),
    /// A symbolic link with this target.
    Symlink(&'a Path),
    /// A directory with these mode bits; `None` leaves them, or to the umask when it is new.
    Directory(Option<RawMode>),
    /// The regular file at this path, if the check accepts it: moved, never copied. What is
    /// there must be gone by then, moved away by a change before this one.
    Moved(&'a Path, &'a dyn Fn(&Stat) -> bool),
}

/// The bytes of a new file.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// These.
    Bytes(&'a [u8]),
    /// These, one after the other.
    Parts(&'a [&'a [u8]]),
    /// What this writes, piece by piece, so that memory stays small.
    Stream(&'a dyn Fn(&mut dyn Write) -> io::Result<()>),
}

/// The mode bits of a new file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// Mode, owner and attributes of the file it replaces; for a new file what the umask says.
    Keep,
    /// Mode, owner and attributes of this file, e.g. the one it was moved from.
    Like(&'a Path),
    /// As `Keep` or, with a path, as `Like`; then the executable bits are set or taken away.
    Executable(Execute, Option<&'a Path>),
    /// Exactly these bits.
    Exact(RawMode),
}

/// What happens to the executable bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execute {
    /// Whoever may read may execute.
    Set,
    /// Nobody may execute.
    Clear,
}

/// Where a commit may act, and how it is watched.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    /// Real paths of the directories that nothing leaves.
    pub(crate) roots: &'a [PathBuf],
    /// Where records of commits in flight are kept; without one a kill may leave a mixed tree.
    pub(crate) journal: Option<&'a Path>,
    /// Asked once, when all is ready and nothing has changed yet; false ends it there.
    pub(crate) go_on: &'a dyn Fn() -> bool,
    /// Whether directories of ours that are closed to us are opened for it, and closed again.
    pub(crate) opens_directories: bool,
}

/// What a commit that succeeded has to say, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Such as a hard link that was broken, or an owner that could not be kept.
    pub(crate) notes: Vec<String>,
}

/// Makes all changes or none.
pub(crate) fn commit(changes: &[Change<'_>], site: &Site<'_>) -> Result<Committed, CommitError> {
    perform::commit_on(&Disk::default(), changes, site)
}

impl<'a> Site<'a> {
    /// Returns a site whose commits cannot be called off.
    pub(crate) fn new(roots: &'a [PathBuf], journal: Option<&'a Path>) -> Self {
        Self { roots, journal, go_on: &|| true, opens_directories: false }
    }
}

impl fmt::Debug for Old<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Seen(bytes, _) => write!(f, "Seen({})", bytes.len()),
            Self::File(_) => f.write_str("File"),
            Self::Symlink(target) => write!(f, "Symlink({})", target.display()),
            Self::Directory => f.write_str("Directory"),
            Self::Any => f.write_str("Any"),
        }
    }
}

impl fmt::Debug for New<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::File(Content::Bytes(bytes), mode) => {
                write!(f, "File({} bytes, {mode:?})", bytes.len())
            }
            Self::File(Content::Parts(parts), mode) => {
                write!(f, "File({} parts, {mode:?})", parts.len())
            }
            Self::File(Content::Stream(_), mode) => write!(f, "File(stream, {mode:?})"),
            Self::Symlink(target) => write!(f, "Symlink({})", target.display()),
            Self::Directory(mode) => write!(f, "Directory({mode:?})"),
            Self::Moved(from, _) => write!(f, "Moved({})", from.display()),
        }
    }
}
