//! Finds the words that differ between a line that went and the one that came for it.
//!
//! Bounded by the lines' length. Knows no colours. Called by `mod.rs`.

use std::ops::Range;

use similar::{Algorithm, DiffTag, capture_diff_slices};

/// Longer lines are not compared: every word of one may be held against every one of the other.
const LINE_BYTES_MAX: usize = 400;

/// Lines with less in common, in percent, are two different lines.
const COMMON_PERCENT_MIN: usize = 40;

/// Where the words are that only one line has.
pub(super) type Places = Vec<Range<usize>>;

/// Returns what differs in each line; `None` where they have little in common.
pub(super) fn changed_words(old: &str, new: &str) -> Option<(Places, Places)> {
    if old.len() > LINE_BYTES_MAX || new.len() > LINE_BYTES_MAX {
        return None;
    }
    let (old_words, new_words) = (split_words(old), split_words(new));
    let mut places = (Places::new(), Places::new());
    let mut common = 0;
    let (mut old_at, mut new_at) = (0, 0);
    for operation in capture_diff_slices(Algorithm::Myers, &old_words, &new_words) {
        let bytes = |words: &[&str], range: Range<usize>| -> (usize, usize) {
            let part = words.get(range).unwrap_or_default();
            let inked = part.iter().filter(|word| !word.trim().is_empty()).map(|word| word.len());
            (part.iter().map(|word| word.len()).sum(), inked.sum())
        };
        let (old_bytes, old_inked) = bytes(&old_words, operation.old_range());
        let (new_bytes, _) = bytes(&new_words, operation.new_range());
        if operation.tag() == DiffTag::Equal {
            common += old_inked;
        } else {
            add(&mut places.0, old_at..old_at + old_bytes);
            add(&mut places.1, new_at..new_at + new_bytes);
        }
        old_at += old_bytes;
        new_at += new_bytes;
    }
    let inked = |line: &str| line.split_whitespace().map(str::len).sum::<usize>();
    let longer = inked(old).max(inked(new));
    (longer > 0 && common * 100 >= longer * COMMON_PERCENT_MIN).then_some(places)
}

fn add(places: &mut Places, range: Range<usize>) {
    match places.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        Some(_) | None => places.push(range),
    }
}

/// Splits code into names, stretches of space, and single other characters.
fn split_words(line: &str) -> Vec<&str> {
    let class = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 0,
        letter if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, letter) in line.char_indices() {
        let next = class(letter);
        if last.is_some_and(|last| last != next || next == 2) {
            words.extend(line.get(start..at));
            start = at;
        }
        last = Some(next);
    }
    words.extend(line.get(start..).filter(|word| !word.is_empty()));
    words
}
