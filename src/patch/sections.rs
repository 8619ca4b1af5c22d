//! Decides whether a further section of the same file may use the lines as they were before.
//!
//! A section is looked for in what the sections before it left. To read the file anew for each
//! of a thousand is slow; this tells when the answer must be the same without. Says no when in
//! doubt: then the file is read anew. Called by `apply.rs` alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::patch::apply::{Edit, Place};
use crate::patch::lines::{Level, Lines, key};
use crate::patch::{Chunk, ChunkLine};

/// What the sections so far did to the lines.
#[derive(Default)]
pub(super) struct Earlier {
    /// The end of each edit by its start.
    ranges: BTreeMap<usize, usize>,
    /// The folded keys of every line that came or went.
    touched: BTreeSet<Vec<u8>>,
}

impl Earlier {
    /// Adds what one more section did.
    pub(super) fn add(&mut self, lines: &Lines<'_>, edits: &[Edit]) {
        for edit in edits {
            let end = self.ranges.entry(edit.start).or_insert(edit.end);
            *end = edit.end.max(*end);
            let gone = lines.raw.get(edit.start..edit.end).unwrap_or(&[]).iter().copied();
            let come = edit.bytes.split(|byte| *byte == b'\n');
            let keys = gone.chain(come).map(|line| key(line, Level::Folded).into_owned());
            self.touched.extend(keys);
        }
    }

    /// Returns whether the chunk, found here in the lines before all edits, is found at the
    /// same lines after them.
    pub(super) fn leaves_alone(&self, lines: &Lines<'_>, chunk: &Chunk, place: &Place) -> bool {
        let wanted: Vec<&str> = chunk.lines.iter().filter_map(ChunkLine::old_text).collect();
        let end = place.start + wanted.len();
        // Another first line may change what is a byte order mark, another last one what ends
        // a line.
        let first_stays = !self.ranges.contains_key(&0);
        if lines.cr_ends || !first_stays || end + 1 >= lines.raw.len() {
            return false;
        }
        // A note would name the line by its old number.
        if place.level >= Level::Trimmed || chunk.anchors.iter().any(|it| self.may_be_anchor(it)) {
            return false;
        }
        // What is there once, and still is, can be found nowhere else.
        let once = || wanted.iter().any(|line| self.stands_once(lines, line));
        // The first place below a line stays the first when nothing between has changed.
        let first = place.first_from.filter(|_| place.level == Level::Exact);
        let first_is_clear = first.is_some_and(|from| !self.touches(from, end));
        first_is_clear || (!self.touches(place.start, end) && once())
    }

    /// Returns whether an edit is within these lines or borders on them.
    fn touches(&self, start: usize, end: usize) -> bool {
        self.ranges.range(..=end).next_back().is_some_and(|(_, &edit_end)| edit_end >= start)
    }

    /// Returns whether a line that came or went could be taken for the anchor.
    fn may_be_anchor(&self, anchor: &str) -> bool {
        let anchor = key(anchor.as_bytes(), Level::Folded);
        let from = (Bound::Included(&anchor[..]), Bound::Unbounded);
        let next = self.touched.range::<[u8], _>(from).next();
        next.is_some_and(|line| line.starts_with(&anchor))
    }

    fn stands_once(&self, lines: &Lines<'_>, line: &str) -> bool {
        let key = key(line.as_bytes(), Level::Folded);
        lines.places_of(&key, Level::Folded).len() == 1 && !self.touched.contains(&key[..])
    }
}
