//! Where vim's motions go.
//!
//! Pure functions from a text, a place and a key to a place. Knows no mode and no register.
//! Used by the composer's vim keys.

use std::ops::Range;

use crate::frontend::tui::composer::graphemes::{self, first, line_end, line_start, part};

/// What an operator takes of the way to where a motion goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Up to the place.
    Before,
    /// With the character there.
    With,
    /// All lines on the way.
    Lines,
}

/// Where a motion goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) to: usize,
    pub(super) reach: Reach,
}

/// What a character is to `w`, `b` and `e`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Sign,
}

/// Returns whether the key is a motion.
pub(super) fn is_motion(key: char) -> bool {
    "hjklwbeWBE0^$G ".contains(key)
}

/// Returns where a motion goes. The count is `None` when none was typed; `stay` says that the
/// end of a word one stands on counts as its end (`cw`). `_` stands for whole lines.
pub(super) fn find(
    text: &str,
    at: usize,
    key: char,
    (count, stay): (Option<usize>, bool),
) -> Option<Found> {
    let times = count.unwrap_or(1);
    let (start, end) = (line_start(text, at), line_end(text, at));
    let big = key.is_uppercase();
    let before = |to| Some(Found { to, reach: Reach::Before });
    let lines = |to| Some(Found { to, reach: Reach::Lines });
    match key {
        'h' => before(steps(at, times, |at| graphemes::previous(text, at)).max(start)),
        'l' | ' ' => before(steps(at, times, |at| graphemes::next(text, at)).min(end)),
        'w' | 'W' => before(steps(at, times, |at| word_after(text, at, big))),
        'b' | 'B' => before(steps(at, times, |at| word_before(text, at, big))),
        'e' | 'E' => {
            let first = if stay { end_of_run(text, at, big) } else { word_end(text, at, big) };
            let to = steps(first, times - 1, |at| word_end(text, at, big));
            Some(Found { to, reach: Reach::With })
        }
        '0' => before(start),
        '^' => before(first_letter(text, at)),
        '$' => before(line_end(text, lines_down(text, at, times - 1)?)),
        'g' => lines(first_letter(text, nth_line(text, count.unwrap_or(1)))),
        'G' => lines(first_letter(text, nth_line(text, count.unwrap_or(usize::MAX)))),
        'j' => lines(same_column(text, at, lines_down(text, at, times)?)),
        'k' => lines(same_column(text, at, lines_up(text, at, times)?)),
        '_' => lines(lines_down(text, at, times - 1).unwrap_or(text.len())),
        _ => None,
    }
}

/// Returns what an operator takes.
pub(super) fn stretch(text: &str, at: usize, found: Found, key: char) -> Range<usize> {
    let (from, to) = (at.min(found.to), at.max(found.to));
    match found.reach {
        Reach::Lines => {
            let end = line_end(text, to);
            line_start(text, from)..(end + 1).min(text.len()).max(end)
        }
        Reach::With => from..graphemes::next(text, to),
        // The last word of a line goes without the newline behind it.
        Reach::Before if matches!(key, 'w' | 'W') => {
            let taken = part(text, from..to);
            let on_next_line = taken.rfind('\n').filter(|newline| {
                let indent = taken.get(*newline..).unwrap_or("");
                *newline > 0 && indent.chars().all(char::is_whitespace)
            });
            from..on_next_line.map_or(to, |newline| from + newline)
        }
        Reach::Before => from..to,
    }
}

/// Returns whether there is something else than space at the place.
pub(super) fn on_word(text: &str, at: usize) -> bool {
    first(text, at).is_some_and(|c| !c.is_whitespace())
}

/// Returns the first letter of a line that is no space, or its end.
pub(super) fn first_letter(text: &str, at: usize) -> usize {
    let (start, end) = (line_start(text, at), line_end(text, at));
    let spaces = |c: char| c.is_whitespace() && c != '\n';
    graphemes::over(text, start, spaces, |_| false).min(end)
}

/// Repeats a step until it goes nowhere.
fn steps(at: usize, times: usize, step: impl Fn(usize) -> usize) -> usize {
    let mut at = at;
    for _ in 0..times {
        let next = step(at);
        if next == at {
            break;
        }
        at = next;
    }
    at
}

fn class(text: &str, at: usize, big: bool) -> Option<Class> {
    first(text, at).map(|c| match c {
        c if c.is_whitespace() => Class::Space,
        c if big || c.is_alphanumeric() || c == '_' => Class::Word,
        _ => Class::Sign,
    })
}

/// An empty line is a word of its own to `w` and `b`.
fn on_empty_line(text: &str, at: usize) -> bool {
    line_start(text, at) == line_end(text, at)
}

fn word_after(text: &str, at: usize, big: bool) -> usize {
    let begun = class(text, at, big);
    let mut at = at;
    if begun != Some(Class::Space) {
        while at < text.len() && class(text, at, big) == begun {
            at = graphemes::next(text, at);
        }
    }
    while class(text, at, big) == Some(Class::Space) {
        let crossed = first(text, at) == Some('\n');
        at = graphemes::next(text, at);
        if crossed && at < text.len() && on_empty_line(text, at) {
            break;
        }
    }
    at
}

fn word_before(text: &str, at: usize, big: bool) -> usize {
    let mut at = graphemes::previous(text, at);
    while at > 0 && class(text, at, big) == Some(Class::Space) && !on_empty_line(text, at) {
        at = graphemes::previous(text, at);
    }
    let here = class(text, at, big);
    while at > 0 && here != Some(Class::Space) {
        let before = graphemes::previous(text, at);
        if class(text, before, big) != here {
            break;
        }
        at = before;
    }
    at
}

fn word_end(text: &str, at: usize, big: bool) -> usize {
    let mut to = graphemes::next(text, at);
    while class(text, to, big) == Some(Class::Space) {
        to = graphemes::next(text, to);
    }
    if to >= text.len() {
        return graphemes::previous(text, text.len()).max(at);
    }
    end_of_run(text, to, big)
}

/// Returns the last place of the run of one class that holds `at`.
fn end_of_run(text: &str, at: usize, big: bool) -> usize {
    let here = class(text, at, big);
    let mut at = at;
    loop {
        let next = graphemes::next(text, at);
        if next >= text.len() || class(text, next, big) != here {
            return at;
        }
        at = next;
    }
}

fn lines_down(text: &str, at: usize, times: usize) -> Option<usize> {
    let mut at = at;
    for _ in 0..times {
        let end = line_end(text, at);
        if end == text.len() {
            return None;
        }
        at = end + 1;
    }
    Some(at)
}

fn lines_up(text: &str, at: usize, times: usize) -> Option<usize> {
    let mut at = line_start(text, at);
    for _ in 0..times {
        at = line_start(text, at.checked_sub(1)?);
    }
    Some(at)
}

/// Returns the start of a line counted from 1; the last one when there are fewer.
fn nth_line(text: &str, number: usize) -> usize {
    let starts = text.match_indices('\n').map(|(newline, _)| newline + 1);
    starts.take(number.saturating_sub(1)).last().unwrap_or(0)
}

/// Returns the place in the line of `to` as many characters in as `at` is in its own.
fn same_column(text: &str, at: usize, to: usize) -> usize {
    let mut place = line_start(text, at);
    let (mut target, end) = (line_start(text, to), line_end(text, to));
    while place < at && target < end {
        place = graphemes::next(text, place);
        target = graphemes::next(text, target);
    }
    target
}
