//! The `/tmp` of one session's commands: a directory that nobody else may enter.
//!
//! It goes with the session. One whose session was killed is taken away by the next that makes
//! its own: a lock says whose session lives. Called by `runner.rs`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How their names begin.
const PREFIX: &str = "gimlet-tmp-";
/// How many abandoned ones are taken away at once; the others are the next session's.
const SWEPT_MAX: usize = 32;
/// How often a new one may be taken for an abandoned one, before its lock is on it.
const TRIES_MAX: u32 = 100;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateTmp {
    directory: TempDir,
    /// Locked as long as it is open.
    _lock: File,
}

impl PrivateTmp {
    /// Makes one, and takes away what dead sessions have left.
    pub(crate) fn make(place: &Path) -> io::Result<Self> {
        sweep(place);
        for _ in 0..TRIES_MAX {
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
            let directory = builder.tempdir_in(place)?;
            let lock = File::open(directory.path())?;
            lock.lock()?;
            if directory.path().is_dir() {
                return Ok(Self { directory, _lock: lock });
            }
        }
        Err(io::Error::other("temporary directories come and go"))
    }

    /// Returns its real path; `None` when someone took it away.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        fs::canonicalize(self.directory.path()).ok().filter(|path| path.is_dir())
    }
}

/// Removes directories of ours that no living session holds.
fn sweep(place: &Path) {
    let is_ours = |entry: &fs::DirEntry| {
        let has_name = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let me = rustix::process::geteuid().as_raw();
        // Of a link, this is the link itself.
        has_name && entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == me)
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(is_ours).take(SWEPT_MAX) {
        let Ok(lock) = File::open(entry.path()) else { continue };
        if lock.try_lock().is_ok() {
            // What cannot be removed is the next one's.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_session_left_goes_with_the_next_and_a_living_one_stays() {
        let place = tempfile::tempdir().unwrap();
        let living = PrivateTmp::make(place.path()).unwrap();
        let left = place.path().join(format!("{PREFIX}left"));
        fs::create_dir_all(left.join("below")).unwrap();
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        let next = PrivateTmp::make(place.path()).unwrap();
        assert!(!left.exists() && other.exists());
        let path = living.path().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        drop((living, next));
        assert!(!path.exists());
    }
}
