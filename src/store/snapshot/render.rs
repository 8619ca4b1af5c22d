//! Changes as people and the event log read them: one entry per file, with its diff.
//!
//! Bounded for events: so many files, so many bytes of diffs in all; what is left out is said,
//! and can be read from the store later. Names that are no text are shown as well as text can.
//! Called by `worker.rs` and, without those bounds, for `gimlet changes`.

use std::path::Path;
use std::path::PathBuf;

use crate::protocol::ChangeKind;
use crate::protocol::FileChange;
use crate::store::snapshot::compare::Change;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Node;
use crate::text::diff::unified;

/// Files that one event names.
const CHANGES_MAX: usize = 10_000;
/// Bytes of all diffs of one event.
const DIFF_BYTES_MAX: usize = 1 << 20;
/// A larger file's diff is not made: nobody reads it.
const SIDE_BYTES_MAX: u64 = 256 << 10;
/// What stands for a diff that was left out.
const LEFT_OUT: &str = "(left out here; `gimlet changes` shows it)\n";

/// Changes, rendered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RenderedChanges {
    /// One entry per file.
    pub(crate) changes: Vec<FileChange>,
    /// Files beyond the bound.
    pub(crate) omitted: usize,
}

impl SnapshotStore {
    /// Renders changes within the bounds of an event. Paths in diffs start from `base`.
    pub(crate) fn render_bounded(
        &self,
        changes: &[Change],
        base: &Path,
    ) -> Result<RenderedChanges, SnapshotError> {
        let mut rendered = RenderedChanges::default();
        let mut left = DIFF_BYTES_MAX;
        for change in shown_changes(changes) {
            if rendered.changes.len() >= CHANGES_MAX {
                rendered.omitted += 1;
                continue;
            }
            let mut file = render_change(change);
            if left > 0 {
                file.diff = self.render_diff(change, base)?;
            }
            if left == 0 || file.diff.len() > left {
                file.diff = LEFT_OUT.to_owned();
                left = 0;
            }
            left = left.saturating_sub(file.diff.len());
            rendered.changes.push(file);
        }
        Ok(rendered)
    }

    /// Renders one change with its diff.
    pub(crate) fn render_one(
        &self,
        change: &Change,
        base: &Path,
    ) -> Result<FileChange, SnapshotError> {
        Ok(FileChange { diff: self.render_diff(change, base)?, ..render_change(change) })
    }

    fn render_diff(&self, change: &Change, base: &Path) -> Result<String, SnapshotError> {
        let name = change.path.strip_prefix(base).unwrap_or(&change.path).to_string_lossy();
        let label = |side: char, node: &Option<Node>| match node {
            Some(_) => format!("{side}/{name}"),
            None => "/dev/null".to_owned(),
        };
        let (old, new) = (label('a', &change.before), label('b', &change.after));
        let mut diff = header_lines(change, &name);
        let sides = (self.side(change.before.as_ref())?, self.side(change.after.as_ref())?);
        match sides {
            (Side::Bytes(a), Side::Bytes(b)) => diff.push_str(&unified(&a, &b, &old, &new)),
            (a, b) => {
                let line = format!("--- {old}\n+++ {new}\n{} -> {}\n", a.describe(), b.describe());
                diff.push_str(&line);
            }
        }
        Ok(diff)
    }

    fn side(&self, node: Option<&Node>) -> Result<Side, SnapshotError> {
        Ok(match node {
            None => Side::Bytes(Vec::new()),
            Some(Node::File { content: Content::NotKept { why, .. }, size, .. }) => {
                Side::Named(format!("{size} bytes, not kept: {}", why.reason()))
            }
            Some(Node::File { size, .. }) if *size > SIDE_BYTES_MAX => {
                Side::Named(format!("{size} bytes, too large to show"))
            }
            Some(Node::File { content, .. }) => {
                let mut bytes = Vec::new();
                self.read_content(*content, &mut bytes)?;
                Side::Bytes(bytes)
            }
            Some(Node::Link { target }) => {
                Side::Named(format!("symbolic link to {}", String::from_utf8_lossy(target)))
            }
            Some(Node::Dir { .. }) => Side::Named("directory".to_owned()),
            Some(Node::Other(other)) => Side::Named(other.reason().to_owned()),
        })
    }
}

/// One side of a diff.
enum Side {
    Bytes(Vec<u8>),
    Named(String),
}

impl Side {
    fn describe(&self) -> String {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => "nothing".to_owned(),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Named(name) => name.clone(),
        }
    }
}

/// Returns a change without its diff.
pub(crate) fn render_change(change: &Change) -> FileChange {
    let kind = match (&change.before, &change.after) {
        (None, _) => ChangeKind::Add,
        (Some(_), None) => ChangeKind::Delete,
        (Some(_), Some(_)) => ChangeKind::Update,
    };
    // JSON has no other bytes than text; the store has the name as it is.
    let path = PathBuf::from(change.path.to_string_lossy().into_owned());
    FileChange { path, kind, move_to: None, diff: String::new() }
}

/// Leaves out directories that something below them tells of.
pub(crate) fn shown_changes(changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().enumerate().filter_map(|(at, change)| {
        let is_dir = |node: &Option<Node>| matches!(node, None | Some(Node::Dir { .. }));
        let next_is_below =
            changes.get(at + 1).is_some_and(|next| next.path.starts_with(&change.path));
        let is_told = is_dir(&change.before) && is_dir(&change.after) && next_is_below;
        (!is_told).then_some(change)
    })
}

/// Names what a diff of bytes does not show: an empty file, and a mode.
fn header_lines(change: &Change, name: &str) -> String {
    let mode = |node: &Option<Node>| match node {
        Some(Node::File { mode, .. } | Node::Dir { mode, .. }) => Some(*mode),
        Some(Node::Link { .. } | Node::Other(_)) | None => None,
    };
    let is_empty = |node: &Option<Node>| matches!(node, Some(Node::File { size: 0, .. }));
    let (before, after) = (&change.before, &change.after);
    let lines = match (mode(before), mode(after)) {
        (Some(old), Some(new)) if old != new => format!("old mode {old:04o}\nnew mode {new:04o}\n"),
        (None, Some(new)) if is_empty(after) => format!("new file mode {new:04o}\n"),
        (Some(old), None) if is_empty(before) => format!("deleted file mode {old:04o}\n"),
        _ => return String::new(),
    };
    format!("diff --git a/{name} b/{name}\n{lines}")
}
