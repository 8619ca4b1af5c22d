//! What is said of an edit: the changes with their diffs, and the report that the model reads.
//!
//! Pure. Called by whoever has made an edit.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::patch;
use crate::protocol::{ChangeKind, FileChange};
use crate::text::diff::unified;
use crate::tools::edit::FileWrite;

/// Returns the changes with unified diffs; a move is one change.
pub(crate) fn render_changes(writes: &[FileWrite], cwd: &Path) -> Vec<FileChange> {
    let by_path: HashMap<&Path, &FileWrite> =
        writes.iter().map(|write| (write.path.as_path(), write)).collect();
    let mut changes = list_changes(writes);
    for change in &mut changes {
        let Some(write) = by_path.get(change.move_to.as_ref().unwrap_or(&change.path).as_path())
        else {
            continue;
        };
        let old = by_path.get(change.path.as_path()).and_then(|write| write.old.as_deref());
        change.diff = render_diff(write, (&change.path, old), cwd);
    }
    changes
}

/// Returns the changes as `render_changes` does, but without diffs, which can cost more than the
/// edit itself.
pub(crate) fn list_changes(writes: &[FileWrite]) -> Vec<FileChange> {
    let sources: HashSet<&Path> =
        writes.iter().filter_map(|write| write.moved_from.as_deref()).collect();
    let is_change =
        |write: &&FileWrite| write.content.is_some() || !sources.contains(write.path.as_path());
    let list = |write: &FileWrite| FileChange {
        path: write.moved_from.as_ref().unwrap_or(&write.path).clone(),
        kind: match (&write.old, &write.content, &write.moved_from) {
            (_, None, _) => ChangeKind::Delete,
            (None, Some(_), None) => ChangeKind::Add,
            (_, Some(_), _) => ChangeKind::Update,
        },
        move_to: write.moved_from.is_some().then(|| write.path.clone()),
        diff: String::new(),
    };
    writes.iter().filter(is_change).map(list).collect()
}

fn render_diff(write: &FileWrite, (source, old): (&Path, Option<&[u8]>), cwd: &Path) -> String {
    let label = |side: &str, path: &Path, exists: bool| {
        if exists { format!("{side}/{}", shown(path, cwd)) } else { "/dev/null".to_owned() }
    };
    let new = write.content.as_ref().map(patch::Content::to_bytes);
    let new = new.as_deref();
    unified(
        old.unwrap_or_default(),
        new.unwrap_or_default(),
        &label("a", source, old.is_some()),
        &label("b", &write.path, new.is_some()),
    )
}

/// Returns what the model reads of an edit that was made.
pub(crate) fn render_report(changes: &[FileChange], notes: &[String], cwd: &Path) -> String {
    let mut text = match changes {
        [] => "Success. No file needed to change.\n".to_owned(),
        _ => "Success. Updated the following files:\n".to_owned(),
    };
    for change in changes {
        let letter = match change.kind {
            ChangeKind::Add => 'A',
            ChangeKind::Delete => 'D',
            ChangeKind::Update => 'M',
        };
        let path = change.move_to.as_ref().unwrap_or(&change.path);
        text.push_str(&format!("{letter} {}\n", shown(path, cwd)));
    }
    for note in notes {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}

/// Returns the path from the working directory where it is below it.
fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}
