//! Cuts long text in the middle: head and tail stay, the omitted amount is named between.
//!
//! The head shows how something began, the tail how it ended; with errors and test runs the
//! tail matters most, so neither is ever dropped alone. Called wherever text reaches a model.

use crate::text::secrets;

/// Bytes that the line in the middle may add to the limit; a test holds it.
#[cfg(test)]
pub(crate) const MARKER_BYTES_MAX: usize = 96;

/// Returns the text, or its head and tail with the omitted amount named between them.
///
/// The result has at most `bytes_max + MARKER_BYTES_MAX` bytes. Cuts fall on line ends where
/// one is near, else on character boundaries.
pub(crate) fn bound(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let (head, tail) = cut_middle(text, bytes_max);
    join_around_cut(text, head, tail)
}

/// Does the same with text whose secrets are not masked yet: half a secret is not known for one,
/// so the words that the cuts went through go as well.
pub(crate) fn bound_unmasked(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let (head, tail) = cut_middle(text, bytes_max);
    let is_line = text.strip_suffix(tail).is_some_and(|before| before.ends_with('\n'));
    let tail = if is_line { tail } else { secrets::after_cut(tail) };
    join_around_cut(text, secrets::before_cut(head), tail)
}

/// Returns a good head and a good tail, which together are within the limit.
fn cut_middle(text: &str, bytes_max: usize) -> (&str, &str) {
    let head_bytes = bytes_max / 2;
    let head = cut_head(text, head_bytes);
    let rest = text.get(head.len()..).unwrap_or("");
    (head, cut_tail(rest, bytes_max - head_bytes))
}

fn join_around_cut(text: &str, head: &str, tail: &str) -> String {
    let omitted = text.get(head.len()..text.len() - tail.len()).unwrap_or("");
    if omitted.is_empty() {
        return text.to_owned();
    }
    let lines = omitted.matches('\n').count() + usize::from(!omitted.ends_with('\n'));
    let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let after = if tail.is_empty() { "" } else { "\n" };
    let unit = if lines == 1 { "line" } else { "lines" };
    let bytes = grouped(omitted.len());
    let lines = grouped(lines);
    format!("{head}{before}… {bytes} bytes ({lines} {unit}) omitted …{after}{tail}")
}

/// Returns the number with a comma between groups of three digits.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Returns the longest good beginning within the limit.
fn cut_head(text: &str, bytes_max: usize) -> &str {
    let head = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or("");
    // A whole line is worth up to a quarter of the room.
    match head.rfind('\n') {
        Some(at) if at + 1 >= head.len() - head.len() / 4 => head.get(..=at).unwrap_or(head),
        Some(_) | None => head,
    }
}

/// Returns the longest good end within the limit.
fn cut_tail(text: &str, bytes_max: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    let tail = text.get(start..).unwrap_or("");
    if text.get(..start).is_none_or(|before| before.ends_with('\n')) {
        return tail;
    }
    match tail.find('\n') {
        Some(at) if at < tail.len() / 4 => tail.get(at + 1..).unwrap_or(tail),
        Some(_) | None => tail,
    }
}
