//! Mount points that are made for one command: something to lay protection on where there is
//! nothing yet.
//!
//! They lie in the user's own tree, so they must go again: also when several commands use one,
//! and when an earlier supervisor was killed before it could take its own away. A shared lock
//! says who uses one, a mode that nobody gives says whose it is. Called by `helper.rs`, outside
//! of all namespaces.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::sandbox::linux::overlay::MountPoint;

/// The mode of a directory that we made: nobody else has a use for the sticky bit here.
const DIRECTORY_MODE: u32 = 0o1500;
/// The mode of a file that we made.
const FILE_MODE: u32 = 0o1400;
/// How often a mount point may vanish between being found and being locked.
const TRIES_MAX: u32 = 100;

/// Mount points in use; dropping them takes away those that nobody else uses.
#[derive(Debug, Default)]
pub(crate) struct Transients {
    held: Vec<(MountPoint, File)>,
}

impl Transients {
    /// Makes those that are not there. One that the user has made meanwhile is left alone.
    pub(crate) fn make(points: &[MountPoint]) -> io::Result<Self> {
        let mut made = Self::default();
        for point in points {
            if let Some(file) = hold(point)? {
                made.held.push((point.clone(), file));
            }
        }
        Ok(made)
    }

    /// Takes away those that nobody else uses, and returns them, open still: who closes one
    /// waits until its place on the disk is free, which takes milliseconds on some.
    pub(crate) fn remove(mut self) -> Vec<File> {
        self.remove_unused()
    }

    fn remove_unused(&mut self) -> Vec<File> {
        let mut removed = Vec::new();
        for (point, file) in self.held.drain(..).rev() {
            // Another command may use it still; the last one takes it away.
            let is_last = file.try_lock().is_ok();
            if is_last && is_same(&point.path, &file) {
                let gone = match point.directory {
                    true => std::fs::remove_dir(&point.path),
                    false => std::fs::remove_file(&point.path),
                };
                // What cannot be removed is not empty, so it is not ours any more.
                removed.extend(gone.is_ok().then_some(file));
            }
        }
        removed
    }
}

impl Drop for Transients {
    fn drop(&mut self) {
        self.remove_unused();
    }
}

/// Returns the mount point, open and locked; `None` when what is there is the user's own.
fn hold(point: &MountPoint) -> io::Result<Option<File>> {
    for _ in 0..TRIES_MAX {
        match make(point) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&point.path) {
            Ok(file) => file,
            // The last command that used it took it away just now.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            // A link, or something that is closed to us, is the user's own.
            Err(_) => return Ok(None),
        };
        if !is_ours(&file.metadata()?, point) {
            return Ok(None);
        }
        file.lock_shared()?;
        if is_same(&point.path, &file) {
            return Ok(Some(file));
        }
    }
    Err(io::Error::other(format!("{} comes and goes", point.path.display())))
}

fn make(point: &MountPoint) -> io::Result<()> {
    // With its mode from the start, so that nobody takes it for the user's own.
    if point.directory {
        return std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(&point.path);
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&point.path).map(drop)
}

/// Returns whether a path is one that an earlier command has left behind, or that one uses.
pub(crate) fn is_left_behind(path: &std::path::Path) -> bool {
    let point = |directory| MountPoint { path: path.to_owned(), directory };
    std::fs::symlink_metadata(path).is_ok_and(|metadata| {
        is_ours(&metadata, &point(metadata.is_dir())) && is_empty(&metadata, path)
    })
}

fn is_empty(metadata: &Metadata, path: &std::path::Path) -> bool {
    match metadata.is_dir() {
        true => std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        false => metadata.len() == 0,
    }
}

/// Returns whether mode and owner say that an empty file or directory is one of these.
pub(crate) fn is_placeholder(mode: u32, uid: u32) -> bool {
    let mode = rustix::fs::Mode::from_raw_mode(mode).bits();
    uid == rustix::process::geteuid().as_raw() && matches!(mode, DIRECTORY_MODE | FILE_MODE)
}

fn is_ours(metadata: &Metadata, point: &MountPoint) -> bool {
    let mode = if point.directory { DIRECTORY_MODE } else { FILE_MODE };
    metadata.is_dir() == point.directory
        && metadata.mode() & 0o7777 == mode
        && metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Returns whether a path still leads to an open file.
fn is_same(path: &PathBuf, file: &File) -> bool {
    let (Ok(there), Ok(here)) = (std::fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    there.dev() == here.dev() && there.ino() == here.ino()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(directory: &tempfile::TempDir) -> Vec<MountPoint> {
        let at = |name: &str, directory_wanted| MountPoint {
            path: directory.path().join(name),
            directory: directory_wanted,
        };
        vec![at("d", true), at("f", false)]
    }

    #[test]
    fn they_go_with_the_last_that_uses_them() {
        let directory = tempfile::tempdir().unwrap();
        let points = points(&directory);
        let first = Transients::make(&points).unwrap();
        let second = Transients::make(&points).unwrap();
        assert_eq!(second.held.len(), 2);
        assert!(points.iter().all(|point| is_left_behind(&point.path)));
        drop(first);
        assert!(points.iter().all(|point| point.path.exists()));
        drop(second);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_supervisor_left_goes_with_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let points = points(&directory);
        std::mem::take(&mut Transients::make(&points).unwrap().held);
        assert!(points.iter().all(|point| point.path.exists()));
        drop(Transients::make(&points).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_the_user_made_stays() {
        let directory = tempfile::tempdir().unwrap();
        let points = points(&directory);
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::os::unix::fs::symlink("nowhere", directory.path().join("f")).unwrap();
        let made = Transients::make(&points).unwrap();
        assert!(made.held.is_empty());
        drop(made);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);

        let mine = directory.path().join("mine");
        std::fs::create_dir(&mine).unwrap();
        assert!(!is_left_behind(&mine));
    }
}
