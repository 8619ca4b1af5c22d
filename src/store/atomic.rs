//! Writes files so that nobody ever sees half of one: temporary file, sync, rename.
//!
//! `write_file` is for one file of our own, `commit` for several files of the user's that
//! change together or not at all. Knows nothing of patches or sessions. Blocking: async
//! callers go through the runtime's blocking pool.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

/// How temporary files begin; hidden, and telling whose they are if a crash leaves one.
const TEMP_PREFIX: &str = ".gimlet-";

/// Keys, trust and sessions are the user's alone.
pub(crate) const PRIVATE_MODE: u32 = 0o600;

/// One file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileCommit {
    /// The file, absolute. A symbolic link is followed, and stays.
    pub(crate) path: PathBuf,
    /// Its new bytes; `None` deletes it.
    pub(crate) content: Option<Vec<u8>>,
    /// The bytes it must still have; `None` when it must not exist.
    pub(crate) expected_old: Option<Vec<u8>>,
    /// The file whose mode a new file takes, e.g. the one it was moved from.
    pub(crate) mode_from: Option<PathBuf>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The file is not what it was when it was read.
    #[error("{}: the file changed since it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A directory, a device, a pipe or a broken link.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{}: cannot {verb}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused, and then refused to undo what was done before.
    #[error("{cause}; these files could not be restored: {}", shown(left))]
    NotRestored {
        /// What went wrong first.
        cause: Box<CommitError>,
        /// The files that are not as they were.
        left: Vec<PathBuf>,
    },
}

/// Writes one file whole, with this mode; a link keeps pointing where it does.
pub(crate) fn write_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let target = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
    let temp = write_temp(folder_of(&target), bytes, Some(permissions_of_mode(mode)))?;
    temp.persist(&target).map_err(|error| error.error)?;
    sync_folder(folder_of(&target))
}

/// Writes one file whole, for the user alone, and the directories above it where they lack.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private_folders(folder_of(path))?;
    write_file(path, bytes, PRIVATE_MODE)
}

/// Makes a directory and those above it where they lack, for the user alone.
pub(crate) fn create_private_folders(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Writes all files or none.
///
/// Everything that can fail early does: new bytes are on disk beside their targets before the
/// first rename. What was renamed before a failure is put back.
pub(crate) fn commit(writes: &[FileCommit]) -> Result<(), CommitError> {
    let mut undo = UndoLog::default();
    match try_commit(writes, &mut undo) {
        Ok(()) => {
            undo.forget();
            Ok(())
        }
        Err(cause) => {
            let left = undo.roll_back();
            if left.is_empty() {
                return Err(cause);
            }
            Err(CommitError::NotRestored { cause: Box::new(cause), left })
        }
    }
}

/// A file that is ready to be renamed or deleted.
struct Prepared<'a> {
    write: &'a FileCommit,
    target: PathBuf,
    temp: Option<TempPath>,
}

fn try_commit(writes: &[FileCommit], undo: &mut UndoLog) -> Result<(), CommitError> {
    let mut prepared = Vec::with_capacity(writes.len());
    for write in writes {
        prepared.push(prepare(write, undo)?);
    }
    for file in &prepared {
        check_unchanged(file)?;
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in prepared {
        let folder = folder_of(&file.target).to_owned();
        replace(file, undo)?;
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    // A new folder is only safe once the folder it is in knows it.
    folders.extend(undo.folders.iter().map(|folder| folder_of(folder).to_owned()));
    for folder in folders {
        sync_folder(&folder).map_err(|source| io_error(&folder, "sync the directory", source))?;
    }
    Ok(())
}

/// Checks the target and writes the new bytes beside it.
fn prepare<'a>(write: &'a FileCommit, undo: &mut UndoLog) -> Result<Prepared<'a>, CommitError> {
    let path = &write.path;
    let metadata = regular_metadata(path)?;
    let Some(content) = &write.content else {
        // Deleting takes the link away, not what it points to.
        return Ok(Prepared { write, target: path.clone(), temp: None });
    };
    let target = match &metadata {
        Some(_) => fs::canonicalize(path).map_err(|source| io_error(path, "resolve", source))?,
        None => path.clone(),
    };
    undo.create_folders(folder_of(&target))?;
    let model = match (&metadata, &write.mode_from) {
        (Some(metadata), _) => Some(metadata.permissions()),
        (None, Some(from)) => fs::metadata(from).ok().map(|metadata| metadata.permissions()),
        (None, None) => None,
    };
    let temp = write_temp(folder_of(&target), content, model)
        .map_err(|source| io_error(path, "write", source))?;
    Ok(Prepared { write, target, temp: Some(temp) })
}

/// Returns what the path leads to, `None` when nothing is there.
fn regular_metadata(path: &Path) -> Result<Option<Metadata>, CommitError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(_) => Err(CommitError::NotRegular { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.is_symlink() {
                return Err(CommitError::NotRegular { path: path.to_owned() });
            }
            Ok(None)
        }
        Err(source) => Err(io_error(path, "look at", source)),
    }
}

/// Checks that the file holds what the caller read, just before it is replaced.
fn check_unchanged(file: &Prepared<'_>) -> Result<(), CommitError> {
    let path = &file.write.path;
    let changed = || CommitError::Changed { path: path.clone() };
    match (regular_metadata(path)?, &file.write.expected_old) {
        (None, None) => Ok(()),
        (Some(metadata), Some(expected)) if metadata.len() == expected.len() as u64 => {
            let found =
                read_regular(path).map_err(|source| io_error(path, "read again", source))?;
            if &found == expected { Ok(()) } else { Err(changed()) }
        }
        (Some(_), Some(_) | None) | (None, Some(_)) => Err(changed()),
    }
}

/// Reads a file that was a regular one a moment ago, without waiting if it no longer is.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // A pipe put in its place would block for ever.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces or deletes one file and notes how to take that back.
fn replace(file: Prepared<'_>, undo: &mut UndoLog) -> Result<(), CommitError> {
    let Prepared { write, target, temp } = file;
    let backup = match &write.expected_old {
        Some(_) => Some(backup(&target).map_err(|source| io_error(&target, "back up", source))?),
        None => None,
    };
    let Some(temp) = temp else {
        let Some(backup) = backup else { return Ok(()) };
        fs::remove_file(&target).map_err(|source| io_error(&target, "delete", source))?;
        undo.files.push(Undo { target, backup: Some(backup) });
        return Ok(());
    };
    // A new file must not replace one that appeared meanwhile.
    let renamed = match &backup {
        Some(_) => temp.persist(&target),
        None => temp.persist_noclobber(&target),
    };
    renamed.map_err(|error| io_error(&target, "replace", error.error))?;
    undo.files.push(Undo { target, backup });
    Ok(())
}

/// Keeps the file under a second name: the same inode where the file system can, else a copy.
fn backup(target: &Path) -> io::Result<TempPath> {
    let link = |path: &Path| {
        fs::hard_link(target, path).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            _ => copy_synced(target, path),
        })
    };
    let named = tempfile::Builder::new().prefix(TEMP_PREFIX).make_in(folder_of(target), link)?;
    Ok(named.into_temp_path())
}

fn copy_synced(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

/// What was done so far, so that it can be taken back.
#[derive(Default)]
struct UndoLog {
    files: Vec<Undo>,
    folders: Vec<PathBuf>,
}

struct Undo {
    target: PathBuf,
    /// The old file under its second name; `None` when there was none.
    backup: Option<TempPath>,
}

impl UndoLog {
    /// Creates the missing part of a folder's path.
    fn create_folders(&mut self, folder: &Path) -> Result<(), CommitError> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)
                .map_err(|source| io_error(folder, "create the directory", source))?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    /// Lets go of the backups, which deletes them.
    fn forget(self) {
        drop(self.files);
    }

    /// Takes everything back, last first, and returns what could not be.
    fn roll_back(self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for Undo { target, backup } in self.files.into_iter().rev() {
            let restored = match backup {
                Some(backup) => backup.persist(&target).map_err(|error| {
                    // Losing the only copy would be worse than leaving it under its second name.
                    let _ = error.path.keep();
                }),
                None => fs::remove_file(&target).map_err(|_| ()),
            };
            if restored.is_err() {
                left.push(target);
            }
        }
        for folder in self.folders.into_iter().rev() {
            // A folder that is not empty by now belongs to someone else.
            let _ = fs::remove_dir(folder);
        }
        left
    }
}

fn write_temp(
    folder: &Path,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<TempPath> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMP_PREFIX);
    let new_file = permissions_of_mode(0o666);
    if permissions.is_none() {
        // The umask is the user's word on new files.
        builder.permissions(new_file);
    }
    let mut temp: NamedTempFile = builder.tempfile_in(folder)?;
    temp.write_all(bytes)?;
    if let Some(permissions) = permissions {
        temp.as_file().set_permissions(permissions)?;
    }
    temp.as_file().sync_all()?;
    Ok(temp.into_temp_path())
}

#[cfg(unix)]
fn permissions_of_mode(mode: u32) -> Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    Permissions::from_mode(mode)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the folder a file is in; for a bare name the current one.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

fn io_error(path: &Path, verb: &'static str, source: io::Error) -> CommitError {
    CommitError::Io { path: path.to_owned(), verb, source }
}

fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &Path, old: Option<&str>, new: Option<&str>) -> FileCommit {
        let bytes = |text: &str| text.as_bytes().to_vec();
        FileCommit {
            path: path.to_owned(),
            content: new.map(bytes),
            expected_old: old.map(bytes),
            mode_from: None,
        }
    }

    /// Returns names and texts of all files below, temporary ones too.
    fn listing(folder: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                found.push((name + "/", String::new()));
                found.extend(listing(&path));
            } else {
                found.push((name, fs::read_to_string(&path).unwrap_or_default()));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn commit_adds_changes_and_deletes_together() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        commit(&[
            change(&at("a"), Some("a"), Some("A")),
            change(&at("b"), Some("b"), None),
            change(&at("x/y/c"), None, Some("c")),
        ])
        .unwrap();
        let files = [("a", "A"), ("c", "c"), ("x/", ""), ("y/", "")];
        assert_eq!(listing(dir.path()), files.map(|(name, text)| (name.into(), text.into())));
    }

    #[test]
    fn commit_changes_nothing_when_one_file_changed_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "edited").unwrap();
        let before = listing(dir.path());
        let writes = [
            change(&at("new/c"), None, Some("c")),
            change(&at("a"), Some("a"), Some("A")),
            change(&at("b"), Some("b"), Some("B")),
        ];
        let error = commit(&writes).unwrap_err();
        assert!(matches!(error, CommitError::Changed { .. }), "{error}");
        assert_eq!(listing(dir.path()), before);
        // A file that must not exist, but does, is a change as well.
        let error = commit(&[change(&at("a"), None, Some("A"))]).unwrap_err();
        assert!(matches!(error, CommitError::Changed { .. }), "{error}");
        assert_eq!(listing(dir.path()), before);
    }

    #[test]
    fn commit_puts_back_what_it_renamed_before_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "a").unwrap();
        fs::write(at("b"), "b").unwrap();
        let before = listing(dir.path());
        // The same new file twice: the second rename fails after four changes were made.
        let writes = [
            change(&at("a"), Some("a"), Some("A")),
            change(&at("b"), Some("b"), None),
            change(&at("x/c"), None, Some("c")),
            change(&at("x/c"), None, Some("again")),
        ];
        let error = commit(&writes).unwrap_err();
        assert!(matches!(error, CommitError::Io { verb: "replace", .. }), "{error}");
        assert_eq!(listing(dir.path()), before);
    }

    #[test]
    fn commit_refuses_what_is_no_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = commit(&[change(dir.path(), None, Some("x"))]).unwrap_err();
        assert!(matches!(error, CommitError::NotRegular { .. }), "{error}");
        let error = commit(&[change(dir.path(), Some(""), None)]).unwrap_err();
        assert!(matches!(error, CommitError::NotRegular { .. }), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn modes_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
        fs::write(at("tool"), "old").unwrap();
        fs::set_permissions(at("tool"), Permissions::from_mode(0o755)).unwrap();
        symlink("tool", at("link")).unwrap();
        symlink("nowhere", at("broken")).unwrap();
        let mut moved = change(&at("moved"), None, Some("moved"));
        moved.mode_from = Some(at("tool"));
        commit(&[change(&at("link"), Some("old"), Some("new")), moved]).unwrap();
        assert_eq!(fs::read_to_string(at("tool")).unwrap(), "new");
        assert!(at("link").is_symlink());
        assert_eq!((mode("tool"), mode("moved")), (0o755, 0o755));
        commit(&[change(&at("link"), Some("new"), None)]).unwrap();
        assert!(!at("link").is_symlink() && at("tool").exists());
        let error = commit(&[change(&at("broken"), None, Some("x"))]).unwrap_err();
        assert!(matches!(error, CommitError::NotRegular { .. }), "{error}");
        write_private(&at("state/key"), b"secret").unwrap();
        write_private(&at("state/key"), b"other").unwrap();
        assert_eq!((mode("state"), mode("state/key")), (0o700, 0o600));
        assert_eq!(fs::read(at("state/key")).unwrap(), b"other");
    }
}
