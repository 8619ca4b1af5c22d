//! Finds the secrets of a text, line by line.
//!
//! What is known by its shape is `shapes.rs`, what by its name `assignments.rs`; private keys,
//! which span lines, are here. Called by `vault.rs` and `stream.rs`.

use std::borrow::Cow;
use std::ops::Range;

use super::{assignments, shapes};

/// A private key has at most so many lines; whoever never ends one hides nothing more.
const KEY_LINES_MAX: u32 = 400;
/// Fewer letters of base64 are words, unless they end a line of a key.
const KEY_RUN_BYTES_MIN: usize = 16;
const KEY_END_BYTES_MIN: usize = 4;

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Where it stands.
    pub(super) range: Range<usize>,
    /// What it is, for its token.
    pub(super) kind: Cow<'static, str>,
}

/// What is remembered from line to line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lines {
    /// Lines since a private key began, while it lasts.
    in_key: Option<u32>,
}

impl Lines {
    /// Returns whether a private key has begun and not ended.
    pub(super) fn is_in_key(self) -> bool {
        self.in_key.is_some()
    }

    /// Returns the secrets of the next line, in order, none within another.
    pub(super) fn find(&mut self, line: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        shapes::find(line, &mut found);
        assignments::find(line, &mut found);
        self.find_key_lines(line, &mut found);
        found.sort_by_key(|finding| (finding.range.start, std::cmp::Reverse(finding.range.end)));
        merge(found)
    }

    fn find_key_lines(&mut self, line: &str, found: &mut Vec<Finding>) {
        let mut from = 0;
        let begin = begin_of_key(line);
        if let Some(end) = begin {
            self.in_key = Some(0);
            from = end;
        }
        let Some(count) = self.in_key else { return };
        let body_end = end_of_key(line, from);
        push_key_runs(line, from..body_end.unwrap_or(line.len()), found);
        let is_over = body_end.is_some() || count >= KEY_LINES_MAX;
        self.in_key = (!is_over).then_some(count + 1);
    }
}

/// Returns the secrets of a whole text.
pub(super) fn find_all(text: &str) -> Vec<Finding> {
    let mut lines = Lines::default();
    let mut found: Vec<Finding> = Vec::new();
    let mut start = 0;
    let mut starts = Vec::new();
    for line in text.split_inclusive('\n') {
        let was_in_key = lines.in_key.is_some();
        for mut finding in lines.find(line) {
            finding.range = finding.range.start + start..finding.range.end + start;
            found.push(finding);
        }
        // The end of a key whose beginning is not shown: its lines stand above.
        if !was_in_key && begin_of_key(line).is_none() && end_of_key(line, 0).is_some() {
            push_lines_above(text, &starts, &mut found);
        }
        starts.push(start);
        start += line.len();
    }
    found.sort_by_key(|finding| (finding.range.start, std::cmp::Reverse(finding.range.end)));
    merge(found)
}

fn push_lines_above(text: &str, starts: &[usize], found: &mut Vec<Finding>) {
    for start in starts.iter().rev().take(KEY_LINES_MAX as usize) {
        let line = text.get(*start..).unwrap_or_default().lines().next().unwrap_or_default();
        let before = found.len();
        push_key_runs(line, 0..line.len(), found);
        let Some(first) = found.get_mut(before..).filter(|new| !new.is_empty()) else { return };
        for finding in first {
            finding.range = finding.range.start + start..finding.range.end + start;
        }
    }
}

/// Returns where the line that begins a private key ends, if it is one.
fn begin_of_key(line: &str) -> Option<usize> {
    let begin = memchr::memmem::find(line.as_bytes(), b"-----BEGIN ")?;
    let rest = line.get(begin + 11..)?;
    let end = rest.find("-----")?;
    let name = rest.get(..end)?;
    let is_private = name.len() < 64 && name.contains("PRIVATE KEY");
    is_private.then_some(begin + 11 + end + 5)
}

fn end_of_key(line: &str, from: usize) -> Option<usize> {
    let rest = line.get(from..)?;
    let at = memchr::memmem::find(rest.as_bytes(), b"-----END ")?;
    let is_private = rest.get(at..).is_some_and(|end| end.contains("PRIVATE KEY"));
    is_private.then_some(from + at)
}

/// Adds the runs of base64 in a part of a line.
fn push_key_runs(line: &str, part: Range<usize>, found: &mut Vec<Finding>) {
    let bytes = line.as_bytes();
    let is_part = |at: usize| {
        bytes
            .get(at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'=' | b'+'))
    };
    let mut at = part.start;
    while at < part.end {
        // A diff's sign is no letter of the key.
        let is_sign = at == 0 && bytes.first() == Some(&b'+');
        if is_sign || !is_part(at) {
            at += 1;
            continue;
        }
        let start = at;
        while at < part.end && is_part(at) {
            at += 1;
        }
        let ends_line =
            line.get(at..).is_some_and(|rest| rest.trim().is_empty() || rest.starts_with('-'));
        let least = if ends_line { KEY_END_BYTES_MIN } else { KEY_RUN_BYTES_MIN };
        if at - start >= least {
            found.push(Finding { range: start..at, kind: "private-key".into() });
        }
    }
}

/// Joins findings that overlap. They come sorted.
pub(super) fn merge(found: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        match merged.last_mut() {
            Some(last) if finding.range.start < last.range.end => {
                last.range.end = last.range.end.max(finding.range.end);
            }
            Some(_) | None => merged.push(finding),
        }
    }
    merged
}

/// Returns whether a text only stands where a secret would.
pub(super) fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 22] = [
        "example",
        "xxxx",
        "placeholder",
        "redacted",
        "changeme",
        "change_me",
        "change-me",
        "your_",
        "your-",
        "yourtoken",
        "yourkey",
        "dummy",
        "sample",
        "insert",
        "replace",
        "todo",
        "....",
        "****",
        "____",
        "<",
        "${",
        "abcdefghijkl",
    ];
    let lower = text.to_ascii_lowercase();
    let mut bytes = text.bytes();
    let first = bytes.next();
    WORDS.iter().any(|word| lower.contains(word)) || bytes.all(|byte| Some(byte) == first)
}
