//! A file as lines that can be looked for and replaced, again and again.
//!
//! Holds the file's own bytes and the lines that came, and only ever compares copies of them,
//! so what a patch does not touch cannot change. Lines are kept in blocks: a change costs its
//! block, not the file. Called by `find.rs`, `edit.rs` and `explain.rs`; made by `apply.rs`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::patch::Form;
use crate::patch::content::Stretch;
use crate::patch::index::{Budget, Counts, Filter, heads_of};
use crate::patch::level::{begins_with_words, fold, hash_line};

/// Lines in a block as it is made; one with twice as many is divided.
const BLOCK_LINES: usize = 256;

/// What it costs to hash a line, in steps.
const HASH_STEPS: usize = 4;

/// Where the bytes of a line stand: in the file, or behind it among those that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    start: u32,
    bytes: u32,
}

impl Line {
    pub(super) fn is_empty(self) -> bool {
        self.bytes == 0
    }
}

/// Neighbouring lines.
#[derive(Debug, Default)]
struct Block {
    lines: Vec<Line>,
    keys: OnceCell<Keys>,
    /// The beginnings of its lines.
    heads: OnceCell<Filter>,
    /// Whether its lines are still in a row as in the file.
    is_changed: bool,
    /// Whether its filter still holds keys of lines that went.
    is_stale: bool,
}

/// What the lines of a block are found by.
#[derive(Debug)]
struct Keys {
    hashes: Vec<u32>,
    filter: Filter,
}

/// A file's lines.
pub(super) struct Lines<'a> {
    form: Form,
    /// The file as it was.
    old: Cow<'a, [u8]>,
    /// The lines that came.
    added: Vec<u8>,
    /// The mark at the file's start, where it belongs to no line.
    mark_bytes: usize,
    /// Whether a CR alone ends a line: only in files that know no LF.
    pub(super) cr_ends: bool,
    blocks: Vec<Block>,
    /// The number of the first line of each block, and that of all.
    firsts: Vec<usize>,
    counts: OnceCell<Counts>,
    /// Whether the lines are still those of the file.
    is_untouched: bool,
    /// Whether few lines will be looked for, so that hashing all of them would cost more.
    is_scanned: bool,
    pub(super) budget: &'a Budget,
}

/// Chunks of a file up to which it is scanned for each.
const SCANS_MAX: usize = 8;

/// A shorter line is in a file at too many places to be scanned for.
const SCANNED_BYTES_MIN: usize = 6;

/// Places of a line's text that are looked at in a scan.
const SCANNED_PLACES_MAX: usize = 1_000;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl<'a> Lines<'a> {
    /// Splits the file; what that and later questions cost is taken from the budget.
    pub(super) fn new(old: Cow<'a, [u8]>, form: Form, budget: &'a Budget) -> Self {
        // In a unified diff the mark is part of the first line, and only LF ends one.
        let is_exact = form == Form::Unified;
        let has_mark = !is_exact && old.starts_with(BYTE_ORDER_MARK);
        let mark_bytes = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
        let cr_ends = !is_exact && memchr::memchr(b'\n', &old).is_none();
        let end = if cr_ends { b'\r' } else { b'\n' };
        let mut lines = split(&old, mark_bytes..old.len(), end);
        let mut blocks = Vec::new();
        let mut firsts = vec![0];
        loop {
            // Room for all at once: what is collected without a known count grows in steps.
            let mut block = Vec::with_capacity(BLOCK_LINES.min(old.len()));
            block.extend(lines.by_ref().take(BLOCK_LINES));
            if block.is_empty() && !blocks.is_empty() {
                break;
            }
            firsts.push(firsts.last().copied().unwrap_or(0) + block.len());
            blocks.push(Block { lines: block, ..Block::default() });
        }
        drop(lines);
        let this = Self {
            form,
            old,
            added: Vec::new(),
            mark_bytes,
            cr_ends,
            blocks,
            firsts,
            counts: OnceCell::new(),
            is_untouched: true,
            is_scanned: false,
            budget,
        };
        budget.spend(this.len());
        this
    }

    pub(super) fn len(&self) -> usize {
        self.firsts.last().copied().unwrap_or(0)
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Returns a line with its own end; nothing behind the last one.
    pub(super) fn raw(&self, at: usize) -> &[u8] {
        let (block, index) = self.locate(at);
        let line = self.blocks.get(block).and_then(|block| block.lines.get(index));
        line.map_or(b"", |line| self.bytes_of(*line))
    }

    /// Returns a line without its end.
    pub(super) fn text(&self, at: usize) -> &[u8] {
        self.text_of(self.raw(at))
    }

    /// Returns a line's end: CRLF, LF, CR or nothing.
    pub(super) fn end_of<'b>(&self, line: &'b [u8]) -> &'b [u8] {
        let bytes = match line {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            [.., b'\r'] if self.cr_ends => 1,
            _ => 0,
        };
        line.get(line.len() - bytes..).unwrap_or(b"")
    }

    /// Returns whether the file has a last line that nothing ends.
    pub(super) fn is_open(&self) -> bool {
        self.len() > 0 && self.end_of(self.raw(self.len() - 1)).is_empty()
    }

    /// Returns a line without what ends it. In a unified diff a CR before the LF is text.
    fn text_of<'b>(&self, line: &'b [u8]) -> &'b [u8] {
        let end = match self.form {
            Form::Chunks => self.end_of(line).len(),
            Form::Unified => usize::from(line.ends_with(b"\n")),
        };
        line.get(..line.len() - end).unwrap_or(b"")
    }

    fn bytes_of(&self, line: Line) -> &[u8] {
        let (start, end) = (line.start as usize, line.start as usize + line.bytes as usize);
        let found = match start.checked_sub(self.old.len()) {
            None => self.old.get(start..end),
            Some(start) => self.added.get(start..end - self.old.len()),
        };
        found.unwrap_or(b"")
    }

    fn locate(&self, at: usize) -> (usize, usize) {
        let block = self.firsts.partition_point(|first| *first <= at).saturating_sub(1);
        (block, at - self.firsts.get(block).copied().unwrap_or(0))
    }

    // ---- Looking for lines.

    /// Says how many chunks will be looked for.
    pub(super) fn expect_searches(&mut self, count: usize) {
        self.is_scanned = self.is_untouched && !self.cr_ends && count <= SCANS_MAX;
    }

    /// Returns the lines from there on that have just this text, found by scanning the file's
    /// bytes; `None` where another way of looking is better.
    pub(super) fn scan(&self, text: &[u8], from: usize) -> Option<Vec<usize>> {
        if !self.is_scanned || self.counts.get().is_some() || text.len() < SCANNED_BYTES_MIN {
            return None;
        }
        let (block, index) = self.locate(from);
        let first = self.blocks.get(block).and_then(|block| block.lines.get(index));
        let Some(first) = first.map(|line| line.start as usize) else { return Some(Vec::new()) };
        let bytes = self.old.get(first..)?;
        self.budget.spend(bytes.len() / 64);
        let mut found = Vec::new();
        let places = memchr::memmem::find_iter(bytes, text);
        for (count, at) in places.map(|at| first + at).enumerate() {
            if count == SCANNED_PLACES_MAX {
                return None;
            }
            let line = self.line_of(at);
            if self.text(line) == text {
                found.push(line);
            }
        }
        Some(found)
    }

    /// Returns the number of the line with this byte of an untouched file.
    fn line_of(&self, at: usize) -> usize {
        let begins = |line: &Line| line.start as usize <= at;
        let block = self.blocks.partition_point(|block| block.lines.first().is_some_and(begins));
        let block = block.saturating_sub(1);
        let lines = self.blocks.get(block).map_or(&[][..], |block| &block.lines);
        self.first_of(block) + lines.partition_point(begins).saturating_sub(1)
    }

    /// Returns how many lines have this key: at most that many, and `Counts::MANY` is no bound.
    pub(super) fn count_of(&self, hash: u32) -> u8 {
        let counts = self.counts.get_or_init(|| {
            self.budget.spend(self.len().saturating_mul(HASH_STEPS));
            let mut counts = Counts::new(self.len());
            for block in &self.blocks {
                for hash in &self.keys_of(block).hashes {
                    counts.add(*hash);
                }
            }
            counts
        });
        counts.of(hash)
    }

    fn keys_of<'b>(&self, block: &'b Block) -> &'b Keys {
        block.keys.get_or_init(|| {
            let hash = |line: &Line| hash_line(self.text_of(self.bytes_of(*line)));
            let hashes: Vec<u32> = block.lines.iter().map(hash).collect();
            let filter = filter_of(&hashes);
            Keys { hashes, filter }
        })
    }

    /// Returns the hash of a line's key.
    pub(super) fn hash_at(&self, at: usize) -> Option<u32> {
        let (block, index) = self.locate(at);
        self.keys_of(self.blocks.get(block)?).hashes.get(index).copied()
    }

    /// Returns the first line from there on that may have this key.
    pub(super) fn next_with(&self, hash: u32, from: usize) -> Option<usize> {
        let (first_block, mut skipped) = self.locate(from);
        for (number, block) in self.blocks.iter().enumerate().skip(first_block) {
            self.budget.spend(1);
            let keys = self.keys_of(block);
            let hashes = keys.hashes.get(skipped..).unwrap_or(&[]);
            if keys.filter.may_hold(hash) {
                let found = hashes.iter().position(|it| *it == hash);
                self.budget.spend(1 + found.unwrap_or(hashes.len()) / 8);
                if let Some(found) = found {
                    return Some(self.first_of(number) + skipped + found);
                }
            }
            skipped = 0;
        }
        None
    }

    /// Returns the last line above that one that may have this key.
    pub(super) fn previous_with(&self, hash: u32, above: usize) -> Option<usize> {
        let (last_block, mut taken) = self.locate(above);
        if last_block >= self.blocks.len() {
            taken = usize::MAX;
        }
        for (number, block) in self.blocks.iter().enumerate().take(last_block + 1).rev() {
            self.budget.spend(1);
            let keys = self.keys_of(block);
            let hashes = keys.hashes.get(..taken.min(keys.hashes.len())).unwrap_or(&[]);
            if keys.filter.may_hold(hash) {
                let found = hashes.iter().rposition(|it| *it == hash);
                self.budget.spend(1 + hashes.len() / 8);
                if let Some(found) = found {
                    return Some(self.first_of(number) + found);
                }
            }
            taken = usize::MAX;
        }
        None
    }

    /// Returns the first line from there on that begins with these words; `head` is their hash.
    pub(super) fn next_beginning(
        &self,
        words: &[u8],
        head: Option<u32>,
        from: usize,
    ) -> Option<usize> {
        let (first_block, mut skipped) = self.locate(from);
        for (number, block) in self.blocks.iter().enumerate().skip(first_block) {
            self.budget.spend(1);
            let lines = block.lines.get(skipped..).unwrap_or(&[]);
            if head.is_none_or(|head| self.heads_of(block).may_hold(head)) {
                self.budget.spend(lines.len());
                let begins = |line: &Line| {
                    begins_with_words(&fold(self.text_of(self.bytes_of(*line))), words)
                };
                if let Some(found) = lines.iter().position(begins) {
                    return Some(self.first_of(number) + skipped + found);
                }
            }
            skipped = 0;
        }
        None
    }

    fn heads_of<'b>(&self, block: &'b Block) -> &'b Filter {
        block.heads.get_or_init(|| {
            self.budget.spend(block.lines.len().saturating_mul(HASH_STEPS));
            let mut filter = Filter::new();
            for line in &block.lines {
                heads_of(self.text_of(self.bytes_of(*line))).iter().for_each(|it| filter.add(*it));
            }
            filter
        })
    }

    fn first_of(&self, block: usize) -> usize {
        self.firsts.get(block).copied().unwrap_or(0)
    }

    // ---- Changing lines.

    /// Adds the bytes of a line that comes, to be put somewhere. `None` when they are too many.
    pub(super) fn keep(&mut self, parts: &[&[u8]]) -> Option<Line> {
        let start = u32::try_from(self.old.len() + self.added.len()).ok()?;
        let bytes = u32::try_from(parts.iter().map(|part| part.len()).sum::<usize>()).ok()?;
        start.checked_add(bytes)?;
        parts.iter().for_each(|part| self.added.extend_from_slice(part));
        Some(Line { start, bytes })
    }

    /// Returns a line without its last bytes.
    pub(super) fn cut(line: Line, end_bytes: usize) -> Line {
        let end_bytes = u32::try_from(end_bytes).unwrap_or(0);
        Line { bytes: line.bytes.saturating_sub(end_bytes), ..line }
    }

    /// Puts other lines in the place of some. Line numbers hold again after `renumber`.
    pub(super) fn replace(&mut self, gone: Range<usize>, come: &[Line]) {
        self.is_untouched = false;
        let start = gone.start.min(self.len());
        let first = self.locate(start).0.min(self.blocks.len().saturating_sub(1));
        let index = start - self.first_of(first);
        let mut left = gone.len();
        let (mut at, mut from) = (first, index);
        while left > 0 {
            let Some(block) = self.blocks.get_mut(at) else { break };
            let to = (from + left).min(block.lines.len());
            left -= to - from;
            block.lines.drain(from..to);
            (block.is_changed, block.is_stale) = (true, true);
            if let Some(keys) = block.keys.get_mut() {
                for hash in keys.hashes.drain(from..to) {
                    if let Some(counts) = self.counts.get_mut() {
                        counts.remove(hash);
                    }
                }
            }
            (at, from) = (at + 1, 0);
        }
        self.insert(first, index, come);
    }

    fn insert(&mut self, number: usize, index: usize, come: &[Line]) {
        let texts = come.iter().map(|line| self.text_of(self.bytes_of(*line)));
        let hashes: Vec<u32> = texts.clone().map(hash_line).collect();
        let heads: Vec<u32> = match self.blocks.get(number).map(|block| block.heads.get()) {
            Some(Some(_)) => texts.flat_map(heads_of).collect(),
            Some(None) | None => Vec::new(),
        };
        let Some(block) = self.blocks.get_mut(number) else { return };
        if let Some(filter) = block.heads.get_mut() {
            heads.iter().for_each(|head| filter.add(*head));
        }
        if let Some(keys) = block.keys.get_mut() {
            for hash in &hashes {
                keys.filter.add(*hash);
                if let Some(counts) = self.counts.get_mut() {
                    counts.add(*hash);
                }
            }
            keys.hashes.splice(index..index, hashes);
        }
        block.lines.splice(index..index, come.iter().copied());
        block.is_changed = true;
    }

    /// Divides blocks that have grown and counts the lines anew.
    pub(super) fn renumber(&mut self) {
        self.budget.spend(self.blocks.len());
        let is_large = |block: &Block| block.lines.len() > 2 * BLOCK_LINES;
        if self.blocks.iter().any(is_large) {
            for block in std::mem::take(&mut self.blocks) {
                if !is_large(&block) {
                    self.blocks.push(block);
                    continue;
                }
                self.budget.spend(block.lines.len().saturating_mul(HASH_STEPS));
                let part = |lines: &[Line]| Block {
                    lines: lines.to_vec(),
                    is_changed: true,
                    ..Block::default()
                };
                self.blocks.extend(block.lines.chunks(BLOCK_LINES).map(part));
            }
        }
        for block in self.blocks.iter_mut().filter(|block| block.is_stale) {
            block.is_stale = false;
            if let Some(keys) = block.keys.get_mut() {
                self.budget.spend(keys.hashes.len() / 8);
                keys.filter = filter_of(&keys.hashes);
            }
        }
        self.firsts.truncate(1);
        let mut sum = 0;
        for block in &self.blocks {
            sum += block.lines.len();
            self.firsts.push(sum);
        }
    }

    /// Returns the whole file: its bytes as they were, those that came, and stretches of them,
    /// where those that came are numbered on.
    pub(super) fn into_stretches(self) -> (Cow<'a, [u8]>, Vec<u8>, Vec<Stretch>) {
        let mut stretches: Vec<Stretch> = vec![(0, self.mark_bytes)];
        let mut add = |start: u32, bytes: usize| match stretches.last_mut() {
            // The file and what came are apart.
            Some((from, len))
                if *from + *len == start as usize && *from + *len != self.old.len() =>
            {
                *len += bytes;
            }
            Some(_) | None => stretches.push((start as usize, bytes)),
        };
        for block in &self.blocks {
            match (block.lines.first(), block.lines.last()) {
                (Some(first), Some(last)) if !block.is_changed => {
                    add(first.start, (last.start - first.start) as usize + last.bytes as usize);
                }
                _ => block.lines.iter().for_each(|line| add(line.start, line.bytes as usize)),
            }
        }
        self.budget.spend(stretches.iter().map(|(_, bytes)| bytes).sum::<usize>() / 64);
        (self.old, self.added, stretches)
    }
}

fn filter_of(hashes: &[u32]) -> Filter {
    let mut filter = Filter::new();
    hashes.iter().for_each(|hash| filter.add(*hash));
    filter
}

fn split(bytes: &[u8], range: Range<usize>, end: u8) -> impl Iterator<Item = Line> {
    let mut start = range.start;
    let mut ends = memchr::memchr_iter(end, bytes.get(range.clone()).unwrap_or(b""));
    std::iter::from_fn(move || {
        let next = ends.next().map_or(range.end, |at| range.start + at + 1);
        let line =
            Line { start: u32::try_from(start).ok()?, bytes: u32::try_from(next - start).ok()? };
        start = next;
        (line.bytes > 0).then_some(line)
    })
}
