//! Shows how a file changed, as a unified diff.
//!
//! Works on the lossy text of bytes and never on a clock: what is too large or binary is
//! named by its size instead. Called for events and for the screen, never to patch a file.

use similar::TextDiff;

/// A side larger than this is not compared: nobody reads such a diff, and the log keeps it.
const SIDE_BYTES_MAX: usize = 256 * 1024;

/// Changed lines of one side times those of the other; beyond this comparing takes seconds.
const CHANGED_AREA_MAX: usize = 25_000_000;

/// Lines kept around a change.
const CONTEXT_LINES: usize = 3;

/// Returns the unified diff, or one line with both sizes when a side is binary or large.
///
/// Equal sides give an empty text.
pub(crate) fn unified(old: &[u8], new: &[u8], old_label: &str, new_label: &str) -> String {
    if old == new {
        return String::new();
    }
    if is_binary(old) || is_binary(new) || is_large(old, new) {
        return format!(
            "--- {old_label}\n+++ {new_label}\nbinary or large file changed, {} bytes -> {} bytes\n",
            old.len(),
            new.len()
        );
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    TextDiff::from_lines(&*old, &*new)
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(old_label, new_label)
        .to_string()
}

fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some()
}

fn is_large(old: &[u8], new: &[u8]) -> bool {
    if old.len() > SIDE_BYTES_MAX || new.len() > SIDE_BYTES_MAX {
        return true;
    }
    let (removed, added) = changed_middle(old, new);
    removed.saturating_mul(added) > CHANGED_AREA_MAX
}

/// Returns the number of lines of each side between the common beginning and the common end.
fn changed_middle(old: &[u8], new: &[u8]) -> (usize, usize) {
    let old: Vec<&[u8]> = old.split_inclusive(|&byte| byte == b'\n').collect();
    let new: Vec<&[u8]> = new.split_inclusive(|&byte| byte == b'\n').collect();
    let shorter = old.len().min(new.len());
    let before = old.iter().zip(&new).take_while(|(left, right)| left == right).count();
    let after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(shorter - before)
        .take_while(|(left, right)| left == right)
        .count();
    (old.len() - before - after, new.len() - before - after)
}
