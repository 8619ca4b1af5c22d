//! How file tools walk a directory: sorted, bounded, never through links.
//!
//! Leaves out what git ignores, what the policy hides, and the inside of `.git`. Called by
//! `list_dir` and `grep_files` from blocking code.

use std::path::Path;
use std::sync::Arc;

use ignore::WalkBuilder;

use crate::tools::files::FileView;

/// Entries of one walk; beyond this an answer takes too long to be worth it.
pub(crate) const WALK_ENTRIES_MAX: usize = 200_000;

/// Files that say what to ignore.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Returns a walk below a real path.
pub(crate) fn walk(view: &FileView, root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    // The user's own git settings do not decide what a model sees of a project.
    let ignoring = root.ancestors().all(has_plain_ignore_files);
    builder
        .standard_filters(ignoring)
        .hidden(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_path(std::cmp::Ord::cmp);
    let view = Arc::new(view.clone());
    builder.filter_entry(move |entry| {
        if entry.depth() == 0 {
            return true;
        }
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_inside_git = entry.path().parent().is_some_and(|dir| dir.ends_with(".git"));
        (!is_inside_git || entry.depth() == 1)
            && !view.is_hidden(entry.path())
            && (!is_dir || has_plain_ignore_files(entry.path()))
    });
    builder
}

/// Returns whether reading the ignore files of a directory cannot block, as a FIFO would.
fn has_plain_ignore_files(dir: &Path) -> bool {
    IGNORE_FILES.iter().all(|name| {
        std::fs::metadata(dir.join(name)).map_or(true, |metadata| !is_special(&metadata))
    })
}

fn is_special(metadata: &std::fs::Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}
