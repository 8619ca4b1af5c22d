//! Shows how a file changed, as a unified diff.
//!
//! Never looks at a clock: for events and the screen, what is too large or binary is named
//! by its size instead. `unified_bytes` renders any bytes such that applying the diff gives
//! them back.

use std::ops::Range;

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

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
    String::from_utf8_lossy(&unified_bytes(old, new, old_label, new_label)).into_owned()
}

/// Returns the unified diff of any bytes, exactly: lines end at LF alone, and one that nothing
/// ends is marked. Equal sides give no bytes.
pub(crate) fn unified_bytes(old: &[u8], new: &[u8], old_label: &str, new_label: &str) -> Vec<u8> {
    let (old, new) = (split_lines(old), split_lines(new));
    let operations = capture_diff_slices(Algorithm::Myers, &old, &new);
    let groups = group_diff_ops(operations, CONTEXT_LINES);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut diff = format!("--- {old_label}\n+++ {new_label}\n").into_bytes();
    for group in &groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let ranges = (render_range(&old_range), render_range(&new_range));
        diff.extend_from_slice(format!("@@ -{} +{} @@\n", ranges.0, ranges.1).as_bytes());
        for operation in group {
            render_operation(*operation, (&old, &new), &mut diff);
        }
    }
    diff
}

fn split_lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns a range as a hunk's header says it: no lines are counted from the one above.
fn render_range(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

fn render_operation(operation: DiffOp, (old, new): (&[&[u8]], &[&[u8]]), diff: &mut Vec<u8>) {
    let mut put = |sign: u8, lines: &[&[u8]], range: Range<usize>| {
        for line in lines.get(range).unwrap_or(&[]) {
            diff.push(sign);
            diff.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                diff.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    };
    if operation.tag() == DiffTag::Equal {
        put(b' ', old, operation.old_range());
    } else {
        put(b'-', old, operation.old_range());
        put(b'+', new, operation.new_range());
    }
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
    let (old, new) = (split_lines(old), split_lines(new));
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
