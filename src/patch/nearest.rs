//! Shows a model where in a file its lines nearly are, so that its next try fits.
//!
//! Only for messages; never decides where a patch lands. Bounded in work and in size.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::patch::lines::{Level, Lines, key};

/// Lines shown of what was looked for, and of the nearest place.
const LINES_SHOWN_MAX: usize = 12;

/// Characters shown of one line.
const LINE_CHARS_MAX: usize = 160;

/// Comparisons of lines spent on finding a place; beyond, only the first lines are looked for.
const COMPARISONS_MAX: usize = 2_000_000;

/// Returns the lines that were looked for, indented.
pub(super) fn render_wanted(wanted: &[&str]) -> String {
    let mut text = String::new();
    for line in wanted.iter().take(LINES_SHOWN_MAX) {
        let _ = writeln!(text, "    {}", clipped(line));
    }
    if wanted.len() > LINES_SHOWN_MAX {
        let _ = writeln!(text, "    … {} more lines", wanted.len() - LINES_SHOWN_MAX);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Returns the most similar place with line numbers, or nothing when none is similar.
pub(super) fn render_nearest(lines: &Lines<'_>, wanted: &[&str]) -> String {
    if lines.raw.is_empty() {
        return "\nThe file is empty.".to_owned();
    }
    let Some(start) = nearest_by_lines(lines, wanted).or_else(|| nearest_by_letters(lines, wanted))
    else {
        return String::new();
    };
    let end = (start + wanted.len().clamp(3, LINES_SHOWN_MAX)).min(lines.raw.len());
    let mut text = format!("\nThe nearest place, from line {}, reads:", start + 1);
    for (index, line) in lines.raw.iter().enumerate().take(end).skip(start) {
        let _ = write!(
            text,
            "\n{:>5}  {}",
            index + 1,
            clipped(&String::from_utf8_lossy(lines.text_of(line)))
        );
    }
    text
}

/// Returns the window that has most of the wanted lines at their place.
fn nearest_by_lines(lines: &Lines<'_>, wanted: &[&str]) -> Option<usize> {
    let keys = lines.keys(Level::Folded);
    let compared = wanted.len().min((COMPARISONS_MAX / keys.len().max(1)).max(1));
    let wanted: Vec<Cow<'_, [u8]>> =
        wanted.iter().take(compared).map(|line| key(line.as_bytes(), Level::Folded)).collect();
    let mut best: Option<(usize, usize)> = None;
    for start in 0..keys.len() {
        let alike = wanted
            .iter()
            .zip(keys.iter().skip(start))
            // Lines such as `}` are everywhere and say nothing.
            .filter(|(wanted, line)| wanted.len() > 1 && wanted == line)
            .count();
        if alike > 0 && best.is_none_or(|(most, _)| alike > most) {
            best = Some((alike, start));
        }
    }
    best.map(|(_, start)| start)
}

/// Returns the place whose line shares most letters with the longest of the wanted lines.
fn nearest_by_letters(lines: &Lines<'_>, wanted: &[&str]) -> Option<usize> {
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest = key(longest.as_bytes(), Level::Folded);
    let keys = lines.keys(Level::Folded);
    let (score, at) = keys
        .iter()
        .enumerate()
        .map(|(at, line)| (shared_letters(&longest, line), at))
        .max_by_key(|&(score, at)| (score, std::cmp::Reverse(at)))?;
    (score > 0 && score * 2 >= longest.len()).then(|| at.saturating_sub(offset))
}

/// Returns how many bytes two lines share at their beginning and at their end.
fn shared_letters(left: &[u8], right: &[u8]) -> usize {
    let shorter = left.len().min(right.len());
    let head = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let ends = left.iter().rev().zip(right.iter().rev());
    head + ends.take(shorter - head).take_while(|(a, b)| a == b).count()
}

fn clipped(line: &str) -> String {
    if line.chars().nth(LINE_CHARS_MAX).is_none() {
        return line.to_owned();
    }
    let mut shown: String = line.chars().take(LINE_CHARS_MAX).collect();
    shown.push('…');
    shown
}
