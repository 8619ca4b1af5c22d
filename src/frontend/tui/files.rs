//! The paths below a directory, for `@`: what git would not ignore, hidden ones left out.
//!
//! Runs on a thread of its own, opens no file and follows no link. Called by `run.rs`.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use tokio::sync::oneshot;

/// Paths that are listed; a larger tree is listed in part.
const PATHS_MAX: usize = 200_000;

/// Begins to list the paths, relative to the directory.
pub(super) fn list_files(root: PathBuf) -> oneshot::Receiver<Vec<String>> {
    let (listed, receiver) = oneshot::channel();
    let walk = move || {
        // Nobody waits any more when the screen has ended.
        let _ = listed.send(walk_files(&root));
    };
    if std::thread::Builder::new().name("files".to_owned()).spawn(walk).is_err() {
        tracing::debug!("no thread to list files on");
    }
    receiver
}

fn walk_files(root: &Path) -> Vec<String> {
    let entries = WalkBuilder::new(root).follow_links(false).require_git(false).build();
    let mut paths: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()))
        .filter_map(|entry| {
            let path = entry.path().strip_prefix(root).ok()?;
            path.to_str().map(str::to_owned)
        })
        .take(PATHS_MAX)
        .collect();
    paths.sort_unstable();
    paths
}
