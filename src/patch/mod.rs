//! The patch a model writes: its grammar, where it lands in files, and calls that carry it.
//!
//! Pure: files come in as a map of bytes and go out as a list of writes. Knows no disk, no
//! policy and no tool. Called by `tools/apply_patch.rs`; `detect` by the router.

use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use crate::protocol::{ChangeKind, FileChange};

mod apply;
mod detect;
mod error;
mod lines;
mod nearest;
mod parse;
mod render;
mod sections;
mod select;

pub(crate) use apply::{Applied, FileWrite, apply};
pub(crate) use detect::detect;
pub(crate) use error::PatchError;
pub(crate) use parse::parse;
pub(crate) use select::{hunks, render, select};

/// A patch, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The files in the order of the text; one file may come twice.
    pub(crate) files: Vec<FilePatch>,
}

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The path as written.
    pub(crate) path: PathBuf,
    /// What happens.
    pub(crate) action: FileAction,
}

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileAction {
    /// It is new, or replaced whole.
    Add {
        /// Its lines, each ended by a newline.
        content: String,
    },
    /// It goes away.
    Delete,
    /// Parts of it change, or it moves.
    Update {
        /// Its new path as written.
        move_to: Option<PathBuf>,
        /// The changes in file order; empty for a move alone.
        chunks: Vec<Chunk>,
    },
}

/// One change within a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The lines after `@@`, each narrowing down the place.
    pub(crate) anchors: Vec<String>,
    /// Context, removed and added lines.
    pub(crate) lines: Vec<ChunkLine>,
    /// Whether the change stands at the end of the file.
    pub(crate) end_of_file: bool,
    /// The line of the patch text it starts at, from 1.
    pub(crate) patch_line: usize,
}

/// One line of a chunk, without its marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkLine {
    /// Stays.
    Context(String),
    /// Goes.
    Remove(String),
    /// Comes.
    Add(String),
}

impl Patch {
    /// Returns what the patch would do, from its text alone, with absolute paths.
    pub(crate) fn changes(&self, base: &Path) -> Vec<FileChange> {
        let change = |file: &FilePatch| {
            let (kind, move_to) = match &file.action {
                FileAction::Add { .. } => (ChangeKind::Add, None),
                FileAction::Delete => (ChangeKind::Delete, None),
                FileAction::Update { move_to, .. } => (ChangeKind::Update, move_to.as_ref()),
            };
            FileChange {
                path: absolute(base, &file.path),
                kind,
                move_to: move_to.map(|path| absolute(base, path)),
                diff: render::render_file(file),
            }
        };
        self.files.iter().map(change).collect()
    }

    /// Returns every path the patch names, absolute, each once.
    pub(crate) fn paths(&self, base: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for change in self.changes(base) {
            for path in std::iter::once(change.path).chain(change.move_to) {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        paths
    }
}

/// Returns the path joined to the base with `.` and `..` resolved by text alone.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                result.push(component);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests;
