//! Writes files so that nobody ever sees half of one: temporary file, sync, rename.
//!
//! For one file of our own; several files of the user's that change together are `commit/`.
//! Knows nothing of patches or sessions. Blocking: async callers go through the runtime's
//! blocking pool.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

/// How temporary files begin; hidden, and telling whose they are if a crash leaves one.
const TEMP_PREFIX: &str = ".gimlet-";

/// Keys, trust and sessions are the user's alone.
pub(crate) const PRIVATE_MODE: u32 = 0o600;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_stays_so_and_a_link_stays() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
        write_private(&at("state/key"), b"secret").unwrap();
        write_private(&at("state/key"), b"other").unwrap();
        assert_eq!((mode("state"), mode("state/key")), (0o700, 0o600));
        assert_eq!(fs::read(at("state/key")).unwrap(), b"other");
        symlink("state/key", at("link")).unwrap();
        write_private(&at("link"), b"third").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("state/key")).unwrap(), b"third");
    }
}
