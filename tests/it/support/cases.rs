//! Plays every case of one kind of fixture, and names those that failed.
//!
//! Knows nothing of what a case holds. `GIMLET_CASE` plays only those whose name has it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Plays the cases of `tests/fixtures/KIND`, of which there must be so many at least.
pub(crate) fn play_all(kind: &str, at_least: usize, play: impl Fn(&Path)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= at_least, "only {} cases of {kind} were found", cases.len());
    let name = |case: &PathBuf| case.file_name().unwrap().to_string_lossy().into_owned();
    let only = std::env::var("GIMLET_CASE").unwrap_or_default();
    let failed: Vec<String> = cases
        .iter()
        .filter(|case| name(case).contains(&only))
        .filter(|case| catch_unwind(AssertUnwindSafe(|| play(case))).is_err())
        .map(name)
        .collect();
    assert!(failed.is_empty(), "{} cases failed: {failed:#?}", failed.len());
}
