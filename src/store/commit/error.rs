//! Why a commit did not happen, in words for whoever asked for it.
//!
//! Knows the paths and what the system said. Made by the whole commit phase.

use std::io;
use std::path::{Path, PathBuf};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// What is there is not what the caller expected.
    #[error("{}: the file changed since it was read", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A directory, a device, a pipe or a link where a file was expected.
    #[error("{}: {found}, not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// The path is below none of the roots, or leads out of them.
    #[error("{}: not below a directory that may be written", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
    /// Two changes of one path, which have no order.
    #[error("{}: changed twice in one commit", path.display())]
    Twice {
        /// The path.
        path: PathBuf,
    },
    /// The caller called it off before anything happened.
    #[error("stopped before any file was changed")]
    Stopped,
    /// The system refused.
    #[error("{}: cannot {verb}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused, and not everything could be put back.
    #[error("{cause}; not everything could be put back: {}", left.join("; "))]
    NotRestored {
        /// What went wrong first.
        cause: Box<CommitError>,
        /// What is not as it was, one sentence each.
        left: Vec<String>,
    },
}

impl CommitError {
    /// Returns how to wrap what the system said of a path.
    pub(super) fn io<'p>(
        path: &'p Path,
        verb: &'static str,
    ) -> impl FnOnce(io::Error) -> Self + 'p {
        move |source| Self::Io { path: path.to_owned(), verb, source }
    }
}
