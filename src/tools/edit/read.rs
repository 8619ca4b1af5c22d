//! Reads the files of a patch: what is there, whether it can be patched at all, within bounds.
//!
//! Paths come resolved. Only regular files are read, and nothing that could hold a reader up is
//! opened. Called by `edit::plan`.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::patch;
use crate::patch::{FileAction, Patch};
use crate::tools::edit::{EditError, FileWrite};
use crate::tools::files;

/// A larger file is not patched: it would be held in memory two times and more.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// All files of one patch together, for the same reason.
const ALL_BYTES_MAX: u64 = 1 << 30;

/// A symbolic link that a patch deletes or moves away.
#[derive(Debug)]
pub(super) struct Link {
    /// As it is written in the link.
    pub(super) target: PathBuf,
    /// Where it really leads, if anywhere.
    pub(super) real: Option<PathBuf>,
}

/// Whether all that a patch does to a path is to delete it: then it need not be a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Deleted,
    Read,
}

/// Returns what a patch does to a path.
pub(super) fn fate_of(path: &Path, patch: &Patch, base: &Path) -> Fate {
    let mut named = patch.files.iter().filter(|file| patch::absolute(base, &file.path) == path);
    let deletes = |file: &patch::FilePatch| matches!(file.action, FileAction::Delete);
    if named.all(deletes) { Fate::Deleted } else { Fate::Read }
}

/// Reads the files of a patch within bounds.
pub(super) struct Reader {
    /// Bytes that the files still to come may have together.
    room: u64,
    /// What goes away as the link it is.
    pub(super) links: BTreeMap<PathBuf, Link>,
    /// How the files looked when they were read.
    pub(super) looks: HashMap<PathBuf, Metadata>,
}

impl Reader {
    /// Returns a reader of as much as one patch may name.
    pub(super) fn new() -> Self {
        Self { room: ALL_BYTES_MAX, links: BTreeMap::new(), looks: HashMap::new() }
    }

    /// Reads a file that a patch may change; `None` when nothing is there.
    pub(super) fn read(
        &mut self,
        path: &Path,
        fate: &dyn Fn() -> Fate,
    ) -> Result<Option<Bytes>, EditError> {
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
        let (bytes, look) = files::read_real(real, bytes_max)
            .map_err(|error| unfit(path, format!("cannot be read: {error}")))?;
        self.looks.insert(path.to_owned(), look);
        self.room = self.room.saturating_sub(bytes.len() as u64);
        Ok(bytes.into())
    }
}

/// Checks that no file is to lie below another that stays.
pub(super) fn check_places(writes: &[FileWrite]) -> Result<(), EditError> {
    let goes = |path: &Path| writes.iter().any(|it| it.path == path && it.content.is_none());
    for write in writes.iter().filter(|write| write.content.is_some()) {
        let above = write.path.ancestors().skip(1);
        let there = above.filter_map(|dir| Some((dir, std::fs::metadata(dir).ok()?))).next();
        if let Some((dir, found)) = there
            && !found.is_dir()
            && !goes(dir)
        {
            let reason = format!("{} is no directory", dir.display());
            return Err(unfit(&write.path, reason));
        }
    }
    Ok(())
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
