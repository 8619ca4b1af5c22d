//! A file as lines of bytes, compared at four levels of strictness.
//!
//! Holds the file's own bytes and only ever compares copies of them, so what a patch does
//! not touch cannot change. Called by `apply.rs` alone.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// What it costs to split a file, per line, in comparisons.
const SPLIT_COST: usize = 2;

/// What it costs to make a line ready for comparisons at one level, in comparisons.
const LEVEL_COST: usize = 4;

/// What it costs to sort a line, or to keep it as one that starts with some text; it bounds
/// what is kept, too.
const PREFIX_COST: usize = 8;

/// Comparisons of lines that a patch may still spend.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(comparisons: usize) -> Self {
        Self(Cell::new(comparisons))
    }

    pub(super) fn spend(&self, comparisons: usize) {
        self.0.set(self.left().saturating_sub(comparisons));
    }

    /// Returns what is left; once there is nothing, nothing found counts.
    pub(super) fn left(&self) -> usize {
        self.0.get()
    }
}

/// How alike two lines must be, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Byte for byte.
    Exact,
    /// White space at the end does not count.
    End,
    /// White space at both ends does not count.
    Trimmed,
    /// Nor do kinds of dash, quote and space, nor bytes that are no text.
    Folded,
}

impl Level {
    pub(super) const ALL: [Self; 4] = [Self::Exact, Self::End, Self::Trimmed, Self::Folded];
}

/// A file's lines.
pub(super) struct Lines<'a> {
    /// The mark at the file's start; belongs to no line.
    pub(super) byte_order_mark: &'a [u8],
    /// The lines with their own ends.
    pub(super) raw: Vec<&'a [u8]>,
    /// Whether a CR alone ends a line: only in files that know no LF.
    pub(super) cr_ends: bool,
    budget: &'a Budget,
    keys: [OnceCell<Vec<Cow<'a, [u8]>>>; 4],
    places: [OnceCell<Places>; 4],
    /// The numbers of the lines in the order of their folded keys.
    sorted: OnceCell<Vec<usize>>,
    starting: RefCell<HashMap<Vec<u8>, Rc<[usize]>>>,
}

/// The numbers of the lines that have the same key, ascending; by a hash of the key, so that
/// now and then they have not.
type Places = HashMap<u64, Vec<usize>>;

impl<'a> Lines<'a> {
    /// Splits the file; what that and later questions cost is taken from the budget.
    pub(super) fn new(bytes: &'a [u8], budget: &'a Budget) -> Self {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        let mark_bytes = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let (byte_order_mark, text) = bytes.split_at(mark_bytes);
        let cr_ends = !text.contains(&b'\n');
        let end = if cr_ends { b'\r' } else { b'\n' };
        let raw: Vec<&[u8]> = text.split_inclusive(|&byte| byte == end).collect();
        budget.spend(raw.len().saturating_mul(SPLIT_COST));
        Self {
            byte_order_mark,
            raw,
            cr_ends,
            budget,
            keys: Default::default(),
            places: Default::default(),
            sorted: OnceCell::new(),
            starting: RefCell::default(),
        }
    }

    /// Returns the end that new lines take where no neighbour has one.
    pub(super) fn first_end(&self) -> &'a [u8] {
        let end = self.raw.first().map_or(&b""[..], |line| self.end_of(line));
        if end.is_empty() { b"\n" } else { end }
    }

    /// Returns a line's end: CRLF, LF, CR or nothing.
    pub(super) fn end_of<'b>(&self, line: &'b [u8]) -> &'b [u8] {
        line.get(self.text_of(line).len()..).unwrap_or(b"")
    }

    /// Returns a line without its end.
    pub(super) fn text_of<'b>(&self, line: &'b [u8]) -> &'b [u8] {
        match line {
            [text @ .., b'\r', b'\n'] | [text @ .., b'\n'] => text,
            [text @ .., b'\r'] if self.cr_ends => text,
            text => text,
        }
    }

    /// Returns the lines that may have this key at this level, ascending.
    pub(super) fn places_of(&self, key: &[u8], level: Level) -> &[usize] {
        let make = || {
            let mut places = Places::new();
            for (at, key) in self.keys(level).iter().enumerate() {
                places.entry(hash_of(key)).or_default().push(at);
            }
            places
        };
        let places = self.places[level as usize].get_or_init(make);
        places.get(&hash_of(key)).map_or(&[], Vec::as_slice)
    }

    /// Returns the lines as they are compared at this level.
    pub(super) fn keys(&self, level: Level) -> &[Cow<'a, [u8]>] {
        let make = || {
            self.budget.spend(self.raw.len().saturating_mul(LEVEL_COST));
            self.raw.iter().map(|line| key(self.text_of(line), level)).collect()
        };
        self.keys[level as usize].get_or_init(make)
    }

    /// Returns the lines whose folded key starts with this one, ascending.
    ///
    /// Models shorten the same line in chunk after chunk, so an answer is kept.
    pub(super) fn starting_with(&self, prefix: &[u8]) -> Rc<[usize]> {
        if let Some(kept) = self.starting.borrow().get(prefix) {
            return Rc::clone(kept);
        }
        let keys = self.keys(Level::Folded);
        let key_at = |at: usize| keys.get(at).map_or(&b""[..], |key| &key[..]);
        let sorted = self.sorted.get_or_init(|| {
            self.budget.spend(keys.len().saturating_mul(PREFIX_COST));
            let mut sorted: Vec<usize> = (0..keys.len()).collect();
            sorted.sort_by_key(|at| key_at(*at));
            sorted
        });
        let first = sorted.partition_point(|at| key_at(*at) < prefix);
        let from = sorted.get(first..).unwrap_or(&[]);
        let count = from.partition_point(|at| key_at(*at).starts_with(prefix));
        self.budget.spend((count + 1).saturating_mul(PREFIX_COST));
        let mut found: Vec<usize> = from.iter().take(count).copied().collect();
        found.sort_unstable();
        let found: Rc<[usize]> = found.into();
        self.starting.borrow_mut().insert(prefix.to_vec(), Rc::clone(&found));
        found
    }
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Returns what of a line counts at this level.
pub(super) fn key(text: &[u8], level: Level) -> Cow<'_, [u8]> {
    match level {
        Level::Exact => Cow::Borrowed(text),
        Level::End => Cow::Borrowed(text.trim_ascii_end()),
        Level::Trimmed => Cow::Borrowed(text.trim_ascii()),
        Level::Folded if text.is_ascii() => Cow::Borrowed(text.trim_ascii()),
        Level::Folded => {
            let folded: String = String::from_utf8_lossy(text).chars().map(fold).collect();
            Cow::Owned(folded.trim().as_bytes().to_vec())
        }
    }
}

/// Returns the ASCII sign that a model is likely to write for this character.
fn fold(character: char) -> char {
    match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => '-',
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{FF07}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{00AB}' | '\u{00BB}' | '\u{FF02}' => '"',
        '\u{00A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => ' ',
        other => other,
    }
}
