//! `SnapshotError`: why a state could not be recorded, read or restored.
//!
//! Knows no command and no screen: who shows it adds what to do. Made in this folder.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::store::snapshot::object::ObjectId;

/// Why a state could not be recorded, read or restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The file system refused.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It was pruned, or never brought to disk.
    #[error("the store of snapshots does not hold {0:?} any more")]
    Missing(ObjectId),
    /// The store's bytes are not what they were.
    #[error("the store of snapshots is damaged at {0:?}")]
    Damaged(ObjectId),
    /// Who wanted it does not any more.
    #[error("recording the files was stopped")]
    Stopped,
    /// No snapshot has this name.
    #[error("`{0}` is no snapshot")]
    BadId(String),
}

/// Returns what turns an error of the system into one of ours.
pub(super) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> SnapshotError + use<'a> {
    move |error| SnapshotError::Io { action, path: path.to_path_buf(), error }
}
