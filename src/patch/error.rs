//! `PatchError`: why a patch cannot be read or does not fit, in words a model can act on.
//!
//! The messages are the tool's output, so they name the line of the patch, the chunk, what
//! was looked for and the nearest place in the file. Paths stand as the patch wrote them.

use std::path::PathBuf;

/// Why a patch cannot be read or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The text is not a patch.
    #[error("line {line} of the patch: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The text is too long.
    #[error("the patch has {bytes} bytes; at most {bytes_max} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There is no such file.
    #[error("{} (line {patch_line} of the patch): the file to {verb} does not exist",
            path.display())]
    Missing {
        /// The path as written.
        path: PathBuf,
        /// The line of the patch that names it.
        patch_line: usize,
        /// `update`, `delete`, `move` or `copy`.
        verb: &'static str,
    },
    /// The file is not as the patch says it must be.
    #[error("{} (line {patch_line} of the patch): {problem}", path.display())]
    Refused {
        /// The path as written.
        path: PathBuf,
        /// The line of the patch.
        patch_line: usize,
        /// What is wrong.
        problem: String,
    },
    /// An anchor is not in the file.
    #[error("{}: chunk {chunk} (line {patch_line} of the patch): no line of the file{place} is \
             like this one after `@@`:\n    {anchor}{nearest}", path.display())]
    NoAnchor {
        /// The path as written.
        path: PathBuf,
        /// Which chunk of the file, from 1.
        chunk: usize,
        /// The line of the patch the chunk starts at.
        patch_line: usize,
        /// After which line was looked, ready to show; may be empty.
        place: String,
        /// The anchor.
        anchor: String,
        /// The most similar place, ready to show; may be empty.
        nearest: String,
    },
    /// Looking for the places would take too long.
    #[error("{}: chunk {chunk} (line {patch_line} of the patch): finding its place takes too long; \
             send fewer changes per patch, and those of one file in one section, in file order",
            path.display())]
    TooCostly {
        /// The path as written.
        path: PathBuf,
        /// Which chunk of the file, from 1.
        chunk: usize,
        /// The line of the patch the chunk starts at.
        patch_line: usize,
    },
    /// The lines to change are not in the file.
    #[error("{}: chunk {chunk} (line {patch_line} of the patch): these lines are not in the \
             file{place}:\n{wanted}{nearest}", path.display())]
    NoMatch {
        /// The path as written.
        path: PathBuf,
        /// Which chunk of the file, from 1.
        chunk: usize,
        /// The line of the patch the chunk starts at.
        patch_line: usize,
        /// After which line was looked, ready to show; may be empty.
        place: String,
        /// The lines, ready to show.
        wanted: String,
        /// The most similar place, ready to show; may be empty.
        nearest: String,
    },
}
