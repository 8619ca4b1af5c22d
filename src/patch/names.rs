//! Reads the names of files as unified diffs write them.
//!
//! Takes off quotes, escapes, time stamps, and the prefixes by which a diff tells its two
//! sides apart. Knows no hunk. Called by `unified.rs`.

use std::borrow::Cow;

/// A side of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Side {
    /// There is no file on this side.
    Nothing,
    /// A name as written, with its prefix.
    Name(Vec<u8>),
}

/// Reads what follows `--- ` or `+++ `.
pub(super) fn read_side(text: &[u8]) -> Side {
    let (name, stamp) = match unquote(text) {
        Some((name, after)) => (Cow::Owned(name), after),
        None => {
            let end = memchr::memchr(b'\t', text).unwrap_or(text.len());
            let (name, stamp) = text.split_at(end);
            (Cow::Borrowed(name.trim_ascii_end()), stamp)
        }
    };
    // A file that was not there has the oldest time stamp of all.
    let stamp = stamp.trim_ascii();
    let is_oldest = stamp.starts_with(b"1970-01-01 ") || stamp.starts_with(b"1969-12-31 ");
    if &name[..] == b"/dev/null" || is_oldest {
        return Side::Nothing;
    }
    Side::Name(name.into_owned())
}

/// Reads a name between quotes with the escapes of C, and returns what follows it.
pub(super) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((name, after)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                name.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            [b'\\', letter, after @ ..] => {
                name.push(match letter {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0B,
                    b'f' => 0x0C,
                    b'r' => b'\r',
                    b'"' | b'\\' => *letter,
                    _ => return None,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                name.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

/// Returns a whole name that may be quoted, as after `rename from`.
pub(super) fn read_name(text: &[u8]) -> Vec<u8> {
    unquote(text).map_or_else(|| text.to_vec(), |(name, _)| name)
}

/// Reads both names of a `diff --git` line, when it tells them apart: as they are there equal
/// but for their prefixes, unless the file is renamed, which other lines say.
pub(super) fn read_pair(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some((left, after)) = unquote(text) {
        return Some((left, read_name(after.strip_prefix(b" ")?)));
    }
    // Two names that are alike are nearly of one length, so the line is divided near its middle.
    let is_near = |at: &usize| at.abs_diff(text.len() / 2) <= SIDES_DIFFER_MAX;
    memchr::memchr_iter(b' ', text).filter(is_near).find_map(|at| {
        let (left, right) = (text.get(..at)?, text.get(at + 1..)?);
        let right = unquote(right).map_or(Cow::Borrowed(right), |(name, _)| Cow::Owned(name));
        is_same_file(left, &right).then(|| (left.to_vec(), right.into_owned()))
    })
}

/// Bytes by which the two names of a file differ at most, as their prefixes and quotes do.
const SIDES_DIFFER_MAX: usize = 64;

fn is_same_file(left: &[u8], right: &[u8]) -> bool {
    left == right || without_first(left).is_some_and(|name| Some(name) == without_first(right))
}

/// Returns the name without its first folder.
pub(super) fn without_first(name: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'/', name)?;
    name.get(at + 1..).filter(|rest| !rest.is_empty() && at > 0)
}

/// Returns a name without a prefix that tells sides apart: of two names that are equal but for
/// their first folders, or of one alone that has the usual prefix of its side.
pub(super) fn without_prefix(old: &Side, new: &Side) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let strip = |name: &[u8], usual: &[u8]| name.strip_prefix(usual).unwrap_or(name).to_vec();
    match (old, new) {
        (Side::Name(old), Side::Name(new)) => {
            let pair = (without_first(old), without_first(new));
            match pair {
                (Some(left), Some(right)) if left == right && has_prefixes(old, new) => {
                    (Some(left.to_vec()), Some(right.to_vec()))
                }
                // Names that differ otherwise, as those of a renamed file do.
                (Some(left), Some(right)) if old.starts_with(b"a/") && new.starts_with(b"b/") => {
                    (Some(left.to_vec()), Some(right.to_vec()))
                }
                _ => (Some(old.clone()), Some(new.clone())),
            }
        }
        (Side::Name(old), Side::Nothing) => (Some(strip(old, b"a/")), None),
        (Side::Nothing, Side::Name(new)) => (None, Some(strip(new, b"b/"))),
        (Side::Nothing, Side::Nothing) => (None, None),
    }
}

/// Returns whether the first folders are two single letters, as all prefixes of git are.
fn has_prefixes(old: &[u8], new: &[u8]) -> bool {
    let letter = |name: &[u8]| match name {
        [letter, b'/', ..] if letter.is_ascii_alphanumeric() => Some(*letter),
        _ => None,
    };
    letter(old).is_some() && letter(new).is_some() && letter(old) != letter(new)
}

/// Returns which of two names of one file is meant, where a diff has two: the one with fewer
/// folders, then the shorter last part, then the shorter; as `patch` chooses.
pub(super) fn choose(old: Vec<u8>, new: Vec<u8>) -> Vec<u8> {
    let weight = |name: &[u8]| {
        let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        (memchr::memchr_iter(b'/', name).count(), last.len(), name.len())
    };
    if weight(&old) <= weight(&new) { old } else { new }
}
