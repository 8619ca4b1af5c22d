//! Steps through text by what people see as one character.
//!
//! Pure functions from a text and a place (a byte offset) to a place. Every place they return
//! is a boundary of a grapheme cluster, when the place they start from is. A step looks at few
//! kilobytes at most, so it costs the same in a line of a megabyte. Used by all of the composer.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Bytes of one cluster, and how far back a step looks. What piles up longer is cut into such
/// pieces, so that marks or flags without end cannot stop anyone.
const CLUSTER_BYTES_MAX: usize = 4096;

#[cfg(test)]
thread_local! {
    /// Steps taken so far, so that a test can say how much work a key was.
    pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns a part of the text; empty when the range is not one.
pub(super) fn part(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or("")
}

/// Returns the boundary after `at`, or the end.
pub(super) fn next(text: &str, at: usize) -> usize {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
    let bytes = text.as_bytes();
    if let (Some(one), Some(two)) = (bytes.get(at), bytes.get(at + 1))
        && one.is_ascii()
        && two.is_ascii()
        && *one != b'\r'
    {
        return at + 1;
    }
    let near = text.floor_char_boundary(at.saturating_add(CLUSTER_BYTES_MAX));
    // What stands before a boundary does not matter to the cluster behind it.
    part(text, at..near).graphemes(true).next().map_or(text.len(), |cluster| at + cluster.len())
}

/// Returns the boundary before `at`, or the start.
pub(super) fn previous(text: &str, at: usize) -> usize {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
    let bytes = text.as_bytes();
    if let (Some(before), Some(at)) = (at.checked_sub(2), at.checked_sub(1))
        && let (Some(one), Some(two)) = (bytes.get(before), bytes.get(at))
        && one.is_ascii()
        && two.is_ascii()
        && *one != b'\r'
    {
        return at;
    }
    let (near, window) = around(text, at);
    let mut cursor = GraphemeCursor::new(at - near, window.len(), true);
    near + cursor.prev_boundary(window, 0).ok().flatten().unwrap_or(0)
}

/// Returns `at` if it is a boundary, else the next one.
pub(super) fn snap(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let (near, window) = around(text, at);
    let mut cursor = GraphemeCursor::new(at - near, window.len(), true);
    if at == 0 || at >= text.len() || cursor.is_boundary(window, 0) == Ok(true) {
        return at.min(text.len());
    }
    // Inside a cluster without end, every place is as good as a boundary.
    if near > 0 && previous(text, at) == near {
        return at;
    }
    let end = text.floor_char_boundary(at.saturating_add(CLUSTER_BYTES_MAX));
    let window = part(text, near..end);
    let mut cursor = GraphemeCursor::new(at - near, window.len(), true);
    near + cursor.next_boundary(window, 0).ok().flatten().unwrap_or(window.len())
}

/// Returns where to begin looking at what stands before `at`, and the text from there on.
fn around(text: &str, at: usize) -> (usize, &str) {
    let near = text.floor_char_boundary(at.saturating_sub(CLUSTER_BYTES_MAX));
    let end = text.ceil_char_boundary(at.saturating_add(1).min(text.len()));
    (near, part(text, near..end))
}

/// Returns the first character of the cluster at `at`.
pub(super) fn first(text: &str, at: usize) -> Option<char> {
    text.get(at..).and_then(|rest| rest.chars().next())
}

/// Returns the start of the line that holds `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    part(text, 0..at).rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the end of the line that holds `at`, before its newline.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = part(text, at..text.len());
    rest.find('\n').map_or(text.len(), |newline| at + newline)
}

/// Goes left over what `skip` holds for, then over what `cross` holds for.
pub(super) fn back_over(
    text: &str,
    at: usize,
    skip: impl Fn(char) -> bool,
    cross: impl Fn(char) -> bool,
) -> usize {
    let before = |at: usize| {
        let place = previous(text, at);
        first(text, place).filter(|_| place < at).map(|c| (place, c))
    };
    let mut at = at;
    while let Some((place, _)) = before(at).filter(|(_, c)| skip(*c)) {
        at = place;
    }
    while let Some((place, _)) = before(at).filter(|(_, c)| cross(*c)) {
        at = place;
    }
    at
}

/// Goes right over what `skip` holds for, then over what `cross` holds for.
pub(super) fn over(
    text: &str,
    at: usize,
    skip: impl Fn(char) -> bool,
    cross: impl Fn(char) -> bool,
) -> usize {
    let mut at = at;
    while first(text, at).is_some_and(&skip) {
        at = next(text, at);
    }
    while first(text, at).is_some_and(&cross) {
        at = next(text, at);
    }
    at
}

/// Returns whether the character belongs to a word, as readline sees words.
pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric()
}
