//! Looks for the place of each chunk, from the top of a file down.
//!
//! A place is where the chunk's text stands, at the strictest level that has one; below the
//! chunk before; after its anchors, or nearest to the line that a unified diff names. Decides
//! nothing about what is written there. Called by `apply.rs`.

use crate::patch::Form;
use crate::patch::chunk::{Chunk, ChunkLine};
use crate::patch::index::{Counts, head_to_find};
use crate::patch::level::{Level, compare, fold, hash_line};
use crate::patch::lines::Lines;

/// More places than this are "that many or more".
pub(super) const OTHERS_MAX: usize = 20;

/// Where a chunk was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// How many lines stand above it.
    pub(super) start: usize,
    pub(super) level: Level,
    /// How many lines of the chunk's text the file has there; a blank last line may be left out.
    pub(super) old_lines: usize,
    /// How many places below it would have been as good.
    pub(super) others: usize,
    /// How many lines further down it is than the patch says; less than none is up.
    pub(super) shift: isize,
}

/// Why there is no place for a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Miss {
    /// That anchor is not at or after the line.
    Anchor(usize, usize),
    /// The text is not at or after the line.
    Text(usize),
    /// The file ends above the line that the patch names.
    Short(usize),
}

/// A line that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'c> {
    pub(super) text: &'c [u8],
    is_open: bool,
    hash: u32,
}

impl<'c> Wanted<'c> {
    pub(super) fn new(line: &ChunkLine<'c>) -> Self {
        Self { text: line.text, is_open: line.is_open, hash: hash_line(line.text) }
    }

    pub(super) fn anchor(text: &'c [u8]) -> Self {
        Self { text, is_open: false, hash: hash_line(text) }
    }

    pub(super) fn hash(&self) -> u32 {
        self.hash
    }
}

/// What was found, and how many below it are as good.
#[derive(Debug, Clone, Copy)]
struct Hit {
    start: usize,
    level: Level,
    others: usize,
}

/// Looks for places in one section of a patch.
pub(super) struct Finder<'f, 'a> {
    lines: &'f Lines<'a>,
    at: Cursor,
}

/// How far a section has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// The line after the last chunk's text.
    below: usize,
    /// The line after the last changed one; context below it may be named again.
    changed_to: usize,
    /// How far off the last chunk was.
    shift: isize,
}

impl Cursor {
    /// Goes on below a chunk; `changed_to` is the line after its last changed one.
    pub(super) fn pass(&mut self, place: &Place, changed_to: usize) {
        self.below = self.below.max(place.start + place.old_lines);
        self.changed_to = self.changed_to.max(changed_to);
        self.shift = place.shift;
    }
}

impl<'f, 'a> Finder<'f, 'a> {
    pub(super) fn new(lines: &'f Lines<'a>, at: Cursor) -> Self {
        Self { lines, at }
    }

    pub(super) fn find(&self, chunk: &Chunk) -> Result<Place, Miss> {
        let old = chunk.body.lines().filter(ChunkLine::is_old);
        // One line more than the file has stands nowhere; a last blank one is left out.
        let enough = self.lines.len() + 2;
        let wanted: Vec<Wanted<'_>> = old.take(enough).map(|line| Wanted::new(&line)).collect();
        match chunk.named_line {
            Some(named) => self.find_named(&wanted, named),
            None => self.find_anchored(chunk, &wanted),
        }
    }

    // ---- By anchors, and by what comes next.

    fn find_anchored(&self, chunk: &Chunk, wanted: &[Wanted<'_>]) -> Result<Place, Miss> {
        let (anchored, choices) = self.find_anchors(chunk)?;
        let from = anchored.unwrap_or(self.at.below);
        if wanted.is_empty() {
            let end = self.lines.len();
            let start = if chunk.end_of_file { end } else { anchored.unwrap_or(end) };
            let others = if chunk.end_of_file { 0 } else { choices };
            return Ok(Place { start, level: Level::Exact, old_lines: 0, others, shift: 0 });
        }
        // The anchor's own line may be named again as the first line of context.
        let again = if anchored.is_some() { from.saturating_sub(1) } else { self.at.changed_to };
        let starts = [from, again.max(self.at.changed_to)];
        for text in [Some(wanted), without_last_blank(wanted)].into_iter().flatten() {
            for from in starts {
                let Some(hit) = self.seek_at_end_first(text, from, chunk.end_of_file) else {
                    continue;
                };
                // An anchor that stands once says which of them is meant.
                let others = if anchored.is_some() && choices == 0 { 0 } else { hit.others };
                let Hit { start, level, .. } = hit;
                return Ok(Place { start, level, old_lines: text.len(), others, shift: 0 });
            }
        }
        Err(Miss::Text(from))
    }

    fn seek_at_end_first(&self, text: &[Wanted<'_>], from: usize, at_end: bool) -> Option<Hit> {
        if at_end {
            let last = self.lines.len().checked_sub(text.len())?;
            let level = self.level_at(last, text).filter(|_| last >= from);
            if let Some(level) = level {
                return Some(Hit { start: last, level, others: 0 });
            }
        }
        self.seek(text, from)
    }

    /// Returns the line after the last anchor, `None` without anchors; and how many other
    /// lines the anchors may have meant.
    fn find_anchors(&self, chunk: &Chunk) -> Result<(Option<usize>, usize), Miss> {
        let (mut position, mut floor, mut choices) = (None, 0, 0);
        for (index, anchor) in chunk.anchors.iter().enumerate() {
            let from = position.unwrap_or(self.at.below);
            let near = self.at.changed_to.max(position.unwrap_or(0));
            let found = self.seek_anchor(anchor, from).or_else(|| self.seek_anchor(anchor, near));
            if let Some(hit) = found {
                choices += hit.others;
                floor = hit.start + 1;
                position = Some(floor);
                continue;
            }
            // The anchor of an earlier chunk still holds: this change is further down in it.
            let above = self.seek_anchor(anchor, floor).map(|hit| hit.start);
            match above.filter(|start| *start < from && !chunk.only_adds()) {
                Some(start) => (floor, position) = (start + 1, Some(from)),
                None => return Err(Miss::Anchor(index, from)),
            }
        }
        Ok((position, choices))
    }

    fn seek_anchor(&self, anchor: &[u8], from: usize) -> Option<Hit> {
        self.seek(&[Wanted::anchor(anchor)], from).or_else(|| {
            // Models shorten a signature to its name.
            let words = fold(anchor);
            let head = head_to_find(&words);
            let start = self.lines.next_beginning(&words, head, from)?;
            let other = self.lines.next_beginning(&words, head, start + 1);
            Some(Hit { start, level: Level::Folded, others: usize::from(other.is_some()) })
        })
    }

    /// Returns the first place at or after `from` where the text stands, whatever the level.
    pub(super) fn first_place(&self, wanted: &[Wanted<'_>], from: usize) -> Option<usize> {
        self.seek(wanted, from).map(|hit| hit.start)
    }

    // ---- By the line that the patch names.

    fn find_named(&self, wanted: &[Wanted<'_>], named: usize) -> Result<Place, Miss> {
        let expected = named.saturating_add_signed(self.at.shift);
        let shift_to = |start: usize| start.cast_signed() - named.cast_signed();
        let place = |start: usize, level| Place {
            start,
            level,
            old_lines: wanted.len(),
            others: 0,
            shift: shift_to(start),
        };
        if wanted.is_empty() {
            let start = expected.max(self.at.changed_to);
            return match start > self.lines.len() {
                true => Err(Miss::Short(self.lines.len())),
                false => Ok(place(start, Level::Exact)),
            };
        }
        let from = self.at.changed_to;
        if expected >= from && self.is_exactly_at(expected, wanted) {
            return Ok(place(expected, Level::Exact));
        }
        let nearest = self.seek_near(wanted, from, expected.max(from));
        nearest.map(|(start, level)| place(start, level)).ok_or(Miss::Text(from))
    }

    /// Returns the place nearest to the expected line, at the strictest level that has one.
    fn seek_near(
        &self,
        wanted: &[Wanted<'_>],
        from: usize,
        expected: usize,
    ) -> Option<(usize, Level)> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        let (offset, _) = self.rarest(wanted)?;
        let hash = wanted.get(offset)?.hash;
        let mut best: Option<(Level, usize, usize)> = None;
        let mut below = self.lines.next_with(hash, expected + offset);
        while let Some(start) = below.map(|at| at - offset).filter(|start| *start <= last) {
            if self.keep_nearest(wanted, (start, expected), &mut best) {
                break;
            }
            below = self.lines.next_with(hash, start + offset + 1);
        }
        let mut above = self.lines.previous_with(hash, expected + offset);
        while let Some(start) = above.and_then(|at| at.checked_sub(offset)) {
            let is_nearer =
                |best: &(Level, usize, usize)| best.0 > Level::Exact || best.1 > expected - start;
            if start < from || !best.as_ref().is_none_or(is_nearer) {
                break;
            }
            if self.keep_nearest(wanted, (start, expected), &mut best) {
                break;
            }
            above = self.lines.previous_with(hash, start + offset);
        }
        best.map(|(level, _, start)| (start, level))
    }

    /// Keeps the better one of a place and the best so far: level, distance, line. Returns
    /// whether there is no use in going on.
    fn keep_nearest(
        &self,
        wanted: &[Wanted<'_>],
        (start, expected): (usize, usize),
        best: &mut Option<(Level, usize, usize)>,
    ) -> bool {
        let level = self.level_at(start, wanted);
        if let Some(level) = level {
            let found = (level, start.abs_diff(expected), start);
            *best = Some(best.map_or(found, |best| best.min(found)));
        }
        level == Some(Level::Exact) || self.lines.budget.left() == 0
    }

    // ---- By text.

    /// Returns the first place at or after `from`, at the strictest level that has one. Only
    /// places of the line that is rarest in the file are looked at.
    fn seek(&self, wanted: &[Wanted<'_>], from: usize) -> Option<Hit> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        if let Some(hit) = self.scan(wanted, from) {
            return Some(hit);
        }
        let (offset, count) = self.rarest(wanted)?;
        let hash = wanted.get(offset)?.hash;
        let granted = self.lines.budget.left();
        let enough = self.lines.len() + wanted.len();
        let (mut best, mut seen) = (None, 0);
        let mut next = self.lines.next_with(hash, from + offset);
        while let Some(start) = next.map(|at| at - offset).filter(|start| *start <= last) {
            if keep_first(self.level_at(start, wanted), start, &mut best) {
                break;
            }
            seen += 1;
            let left = self.lines.budget.left();
            if left == 0 || (count != Counts::MANY && seen >= usize::from(count)) {
                break;
            }
            if granted - left > 2 * enough {
                self.seek_without_going_back(wanted, start + 1, &mut best);
                break;
            }
            next = self.lines.next_with(hash, start + offset + 1);
        }
        best
    }

    /// Returns the first place where just this text stands, found without hashing the file.
    fn scan(&self, wanted: &[Wanted<'_>], from: usize) -> Option<Hit> {
        let longest = wanted.iter().enumerate().max_by_key(|(_, line)| line.text.len());
        let (offset, longest) = longest?;
        let mut best = None;
        for at in self.lines.scan(longest.text, from + offset)? {
            let start = at - offset;
            self.lines.budget.spend(wanted.len());
            let level = self.is_exactly_at(start, wanted).then_some(Level::Exact);
            if keep_first(level, start, &mut best) {
                break;
            }
        }
        best
    }

    /// Goes on with a search whose text nearly fits at very many places: looks at each line
    /// once, and knows from the text itself how much of it still fits after a miss.
    fn seek_without_going_back(&self, wanted: &[Wanted<'_>], from: usize, best: &mut Option<Hit>) {
        let fits = |length: usize, hash: Option<u32>| {
            wanted.get(length).is_some_and(|line| Some(line.hash) == hash)
        };
        // For each length, the longest shorter beginning that the text also ends with there.
        let mut shorter = vec![0; wanted.len()];
        let mut length = 0;
        for (at, line) in wanted.iter().enumerate().skip(1) {
            while length > 0 && !fits(length, Some(line.hash)) {
                length = shorter.get(length - 1).copied().unwrap_or(0);
            }
            length += usize::from(fits(length, Some(line.hash)));
            if let Some(entry) = shorter.get_mut(at) {
                *entry = length;
            }
        }
        let shorter_than =
            |length: usize| length.checked_sub(1).and_then(|at| shorter.get(at)).copied();
        length = 0;
        for at in from..self.lines.len() {
            self.lines.budget.spend(2);
            let hash = self.lines.hash_at(at);
            while length > 0 && !fits(length, hash) {
                length = shorter_than(length).unwrap_or(0);
            }
            length += usize::from(fits(length, hash));
            if length == wanted.len() {
                let start = at + 1 - length;
                let is_done = keep_first(self.level_at(start, wanted), start, best);
                if is_done || self.lines.budget.left() == 0 {
                    return;
                }
                length = shorter_than(length).unwrap_or(0);
            }
        }
    }

    /// Returns which of the lines is rarest in the file, and how often it may be there; `None`
    /// when one is nowhere.
    fn rarest(&self, wanted: &[Wanted<'_>]) -> Option<(usize, u8)> {
        self.lines.budget.spend(wanted.len());
        let counts = wanted.iter().map(|line| self.lines.count_of(line.hash)).enumerate();
        counts.min_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0)
    }

    /// Returns how alike the text and the lines at that place are, when they are.
    fn level_at(&self, start: usize, wanted: &[Wanted<'_>]) -> Option<Level> {
        let mut level = Level::Exact;
        for (index, line) in wanted.iter().enumerate() {
            self.lines.budget.spend(1);
            let at = start + index;
            if self.lines.hash_at(at) != Some(line.hash) {
                return None;
            }
            level = level.max(self.level_of(at, line)?);
        }
        Some(level)
    }

    /// Returns whether just these lines stand at that place; hashes none for it.
    fn is_exactly_at(&self, start: usize, wanted: &[Wanted<'_>]) -> bool {
        let is_same = |(index, line): (usize, &Wanted<'_>)| {
            self.level_of(start + index, line) == Some(Level::Exact)
        };
        start + wanted.len() <= self.lines.len() && wanted.iter().enumerate().all(is_same)
    }

    fn level_of(&self, at: usize, wanted: &Wanted<'_>) -> Option<Level> {
        let level = compare(wanted.text, self.lines.text(at))?;
        let is_exact_form = self.lines.form() == Form::Unified;
        let is_open = is_exact_form && at + 1 == self.lines.len() && self.lines.is_open();
        // What ends a line is white space at its end.
        let differs = is_exact_form && is_open != wanted.is_open;
        Some(if differs { level.max(Level::End) } else { level })
    }
}

/// Keeps a place if it is the first at its level or at a stricter one, else counts it. Returns
/// whether there is no use in going on.
fn keep_first(level: Option<Level>, start: usize, best: &mut Option<Hit>) -> bool {
    let Some(level) = level else { return false };
    match best {
        Some(hit) if hit.level == level => hit.others += 1,
        Some(hit) if hit.level < level => {}
        Some(_) | None => *best = Some(Hit { start, level, others: 0 }),
    }
    best.is_some_and(|hit| hit.level == Level::Exact && hit.others >= OTHERS_MAX)
}

/// Returns the lines without an empty last one, which models often write where the file ends.
fn without_last_blank<'a, 'c>(wanted: &'a [Wanted<'c>]) -> Option<&'a [Wanted<'c>]> {
    match wanted {
        [rest @ .., last] if last.text.trim_ascii().is_empty() && !rest.is_empty() => Some(rest),
        _ => None,
    }
}
