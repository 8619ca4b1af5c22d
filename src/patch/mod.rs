//! Patches: their two forms, where they land in files, and calls that carry them.
//!
//! Pure: files come in as a map of bytes and go out as a list of writes. Knows no disk, no
//! policy and no tool. Called by `tools/apply_patch.rs`; `detect` by the router.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use crate::protocol::{ChangeKind, FileChange};

mod apply;
mod chunk;
mod content;
mod detect;
mod edit;
mod error;
mod explain;
mod find;
mod grammar;
mod hunk;
mod index;
mod level;
mod lines;
mod names;
mod parse;
mod reader;
mod select;
mod unified;

pub(crate) use apply::{Applied, FileWrite, apply};
#[cfg(any(test, fuzzing))]
pub(crate) use chunk::LineKind;
pub(crate) use chunk::{Body, Chunk};
pub(crate) use content::Content;
pub(crate) use detect::detect;
pub(crate) use error::PatchError;
pub(crate) use parse::{PATCH_BYTES_MAX, parse, parse_bytes};
pub(crate) use select::{hunks, select};

/// A patch, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// The files in the order of the text; one file may come twice.
    pub(crate) files: Vec<FilePatch>,
    /// How it was written.
    pub(crate) form: Form,
    /// The directory that a command around the text changes to; part of the paths already, but
    /// not of the texts.
    pub(crate) workdir: Option<String>,
}

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Between `*** Begin Patch` and `*** End Patch`: lines are found by their text.
    Chunks,
    /// As `diff -u` and `git diff` write it: every byte counts.
    Unified,
}

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The path as written.
    pub(crate) path: PathBuf,
    /// What happens.
    pub(crate) action: FileAction,
    /// The lines that a file to delete must hold, where the patch shows them.
    pub(crate) removed: Option<Body>,
    /// Whether the file is executable afterwards, where the patch says so.
    pub(crate) executable: Option<bool>,
    /// This part of the patch, as written.
    pub(crate) text: Bytes,
    /// The line of the patch it starts at, from 1.
    pub(crate) patch_line: usize,
}

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileAction {
    /// It is new, or replaced whole.
    Add {
        /// Its lines.
        content: Body,
    },
    /// It goes away.
    Delete,
    /// Parts of it change, or it moves.
    Update {
        /// Its new path as written.
        move_to: Option<PathBuf>,
        /// Whether the file stays at its old path, too.
        keeps_source: bool,
        /// The changes in file order; empty for a move alone.
        chunks: Vec<Chunk>,
    },
}

impl Patch {
    /// Returns what the patch would do, from its text alone, with absolute paths.
    pub(crate) fn changes(&self, base: &Path) -> Vec<FileChange> {
        let change = |file: &FilePatch| {
            let (kind, move_to) = match &file.action {
                FileAction::Add { .. } => (ChangeKind::Add, None),
                FileAction::Delete => (ChangeKind::Delete, None),
                FileAction::Update { move_to, keeps_source: false, .. } => {
                    (ChangeKind::Update, move_to.as_ref())
                }
                // A copy leaves the file it was made from.
                FileAction::Update { .. } => (ChangeKind::Add, None),
            };
            let named = match &file.action {
                FileAction::Update { move_to: Some(target), keeps_source: true, .. } => target,
                _ => &file.path,
            };
            FileChange {
                path: absolute(base, named),
                kind,
                move_to: move_to.map(|path| absolute(base, path)),
                diff: String::from_utf8_lossy(&file.text).into_owned(),
            }
        };
        self.files.iter().map(change).collect()
    }

    /// Returns every path the patch names, absolute, each once.
    pub(crate) fn paths(&self, base: &Path) -> Vec<PathBuf> {
        let mut known = HashSet::new();
        let named = self.files.iter().flat_map(|file| {
            let target = match &file.action {
                FileAction::Update { move_to, .. } => move_to.as_ref(),
                FileAction::Add { .. } | FileAction::Delete => None,
            };
            std::iter::once(&file.path).chain(target)
        });
        named.map(|path| absolute(base, path)).filter(|path| known.insert(path.clone())).collect()
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
mod property_tests;
#[cfg(test)]
mod tests;
