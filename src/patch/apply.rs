//! Works out what files hold after a patch, from what they hold before.
//!
//! All or nothing: the first place that does not fit ends it, and nothing has been written.
//! Works on bytes; a line that the patch does not change keeps every byte, and an added line
//! takes the line end of its neighbour. Knows no disk. Called by `tools/apply_patch.rs`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::patch::lines::{Budget, Level, Lines, key};
use crate::patch::sections::Earlier;
use crate::patch::{Chunk, ChunkLine, FileAction, FilePatch, Patch, PatchError, absolute, nearest};

/// Comparisons of lines spent on a patch, beside those that the size of the files grants. A
/// patch that needs more is one whose lines are everywhere; without an end, a small one could
/// take minutes.
const COMPARISONS_MAX: usize = 20_000_000;

/// Comparisons that a byte of a file grants: a large file may be large.
const COMPARISONS_PER_BYTE: usize = 8;

/// What files hold after a patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Applied {
    /// One entry per file that changes, in the order of the patch.
    pub(crate) writes: Vec<FileWrite>,
    /// What the model should know although it worked, one line each.
    pub(crate) notes: Vec<String>,
}

/// What one file holds after a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileWrite {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    /// Its new bytes; `None` deletes it.
    pub(crate) content: Option<Vec<u8>>,
    /// The bytes it had; `None` when it did not exist.
    pub(crate) old: Option<Vec<u8>>,
    /// The file it was moved from, which has an entry of its own.
    pub(crate) moved_from: Option<PathBuf>,
}

/// Returns what the named files hold after the patch.
///
/// `files` has the bytes of every path of `Patch::paths`, `None` where there is no file.
pub(crate) fn apply(
    patch: &Patch,
    base: &Path,
    files: &BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> Result<Applied, PatchError> {
    apply_within(patch, base, files, &budget_for(files))
}

/// Returns what a patch of these files may cost.
pub(super) fn budget_for(files: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Budget {
    let bytes: usize = files.values().flatten().map(Vec::len).sum();
    let granted = bytes.saturating_mul(COMPARISONS_PER_BYTE);
    Budget::new(COMPARISONS_MAX.saturating_add(granted))
}

/// Is `apply` with a budget that the caller can read.
pub(super) fn apply_within(
    patch: &Patch,
    base: &Path,
    files: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    budget: &Budget,
) -> Result<Applied, PatchError> {
    let mut state = State { files, budget, writes: Vec::new(), notes: Vec::new() };
    let mut rest = &patch.files[..];
    while let Some((file, others)) = rest.split_first() {
        let more = state.apply_file(file, others, base)?;
        rest = others.get(more..).unwrap_or(&[]);
    }
    // A file that came and went again was never there.
    state.writes.retain(|write| write.content.is_some() || write.old.is_some());
    Ok(Applied { writes: state.writes, notes: state.notes })
}

struct State<'a> {
    files: &'a BTreeMap<PathBuf, Option<Vec<u8>>>,
    budget: &'a Budget,
    writes: Vec<FileWrite>,
    notes: Vec<String>,
}

impl State<'_> {
    /// Applies one part of the patch and returns how many of the next ones went with it.
    fn apply_file(
        &mut self,
        file: &FilePatch,
        others: &[FilePatch],
        base: &Path,
    ) -> Result<usize, PatchError> {
        let mut more = 0;
        let path = absolute(base, &file.path);
        match &file.action {
            FileAction::Add { content } => {
                if self.current(&path).is_some() {
                    let shown = file.path.display();
                    self.notes.push(format!("{shown}: existed before and was replaced whole"));
                }
                self.put(path, Some(content.clone().into_bytes()), None);
            }
            FileAction::Delete => {
                self.expect_file(&path, file, "delete")?;
                self.put(path, None, None);
            }
            FileAction::Update { move_to, chunks } => {
                let old = self.expect_file(&path, file, "update")?.to_vec();
                let lines = Lines::new(&old, self.budget);
                let mut update = Update::new(&lines, self.budget);
                update.apply(file, chunks)?;
                if move_to.is_none() {
                    let same = |other: &&FilePatch| absolute(base, &other.path) == path;
                    let others = others.iter().take_while(same);
                    more = others.take_while(|other| update.take_in(other)).count();
                }
                if self.budget.left() == 0 {
                    let late = others.get(more).unwrap_or(file);
                    return Err(too_costly(late, 0));
                }
                let new = update.join();
                self.notes.extend(update.notes);
                match move_to.as_ref().map(|target| absolute(base, target)) {
                    Some(target) if target != path => {
                        let origin = self.origin(&path);
                        self.put(path, None, None);
                        let moved_from = (origin != target).then_some(origin);
                        self.put(target, Some(new), moved_from);
                    }
                    Some(_) | None => self.put(path, Some(new), None),
                }
            }
        }
        Ok(more)
    }

    /// Returns what the file holds now, after the patch's earlier parts.
    fn current(&self, path: &Path) -> Option<&[u8]> {
        match self.writes.iter().find(|write| write.path == path) {
            Some(write) => write.content.as_deref(),
            None => self.files.get(path).and_then(Option::as_deref),
        }
    }

    /// Returns where the file was before the patch: a file may be moved twice.
    fn origin(&self, path: &Path) -> PathBuf {
        let write = self.writes.iter().find(|write| write.path == path);
        write.and_then(|write| write.moved_from.clone()).unwrap_or_else(|| path.to_owned())
    }

    fn expect_file(
        &self,
        path: &Path,
        file: &FilePatch,
        verb: &'static str,
    ) -> Result<&[u8], PatchError> {
        let missing = || PatchError::Missing { path: file.path.clone(), verb };
        self.current(path).ok_or_else(missing)
    }

    fn put(&mut self, path: PathBuf, content: Option<Vec<u8>>, moved_from: Option<PathBuf>) {
        if let Some(write) = self.writes.iter_mut().find(|write| write.path == path) {
            // A file that was moved here and then changed is still the moved one.
            write.moved_from = match (&content, moved_from) {
                (None, _) => None,
                (Some(_), None) => write.moved_from.take(),
                (Some(_), from) => from,
            };
            write.content = content;
            return;
        }
        let old = self.files.get(&path).cloned().flatten();
        self.writes.push(FileWrite { path, content, old, moved_from });
    }
}

/// One replacement of whole lines.
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) bytes: Vec<u8>,
}

/// Where a chunk was found.
pub(super) struct Place {
    pub(super) start: usize,
    pub(super) level: Level,
    /// How many lines of the chunk's text the file has there; a blank last line may be left out.
    old_lines: usize,
    /// The line from which on the place is the first that fits; `None` when it was found by
    /// another way than looking for all of the text from there.
    pub(super) first_from: Option<usize>,
}

/// Why there is no place for a chunk.
enum Miss<'c> {
    /// The anchor is not at or after the line.
    Anchor(&'c str, usize),
    /// The text is not at or after the line.
    Text(usize),
}

/// What happens to the lines of one file.
struct Update<'a> {
    lines: &'a Lines<'a>,
    budget: &'a Budget,
    earlier: Earlier,
    edits: Vec<Edit>,
    notes: Vec<String>,
}

impl<'a> Update<'a> {
    fn new(lines: &'a Lines<'a>, budget: &'a Budget) -> Self {
        Self { lines, budget, earlier: Earlier::default(), edits: Vec::new(), notes: Vec::new() }
    }

    /// Applies the file's first section.
    fn apply(&mut self, file: &FilePatch, chunks: &[Chunk]) -> Result<(), PatchError> {
        let mut finder = Finder::new(self.lines, self.budget);
        for (index, chunk) in chunks.iter().enumerate() {
            let found = finder.find(chunk);
            let number = index + 1;
            let found = found.map_err(|miss| finder.explain(file, (chunk, number), &miss));
            if self.budget.left() == 0 {
                return Err(too_costly(file, index));
            }
            let place = found?;
            if place.level >= Level::Trimmed {
                self.notes.push(format!(
                    "{}: chunk {number} was placed at line {} although spaces or punctuation differ",
                    file.path.display(),
                    place.start + 1
                ));
            }
            let edit = build_edit(self.lines, chunk, &place, self.edits.last());
            finder.pass(&place, &edit);
            self.edits.push(edit);
        }
        self.earlier.add(self.lines, &self.edits);
        Ok(())
    }

    /// Applies a further section of the same file, if it surely lands where it would when the
    /// file were written and read again before it. Returns whether it did; if not, nothing changed.
    fn take_in(&mut self, file: &FilePatch) -> bool {
        let FileAction::Update { move_to: None, chunks } = &file.action else { return false };
        let mut finder = Finder::new(self.lines, self.budget);
        let mut edits: Vec<Edit> = Vec::new();
        for chunk in chunks {
            let Ok(place) = finder.find(chunk) else { return false };
            if self.budget.left() == 0 || !self.earlier.leaves_alone(self.lines, chunk, &place) {
                return false;
            }
            let edit = build_edit(self.lines, chunk, &place, edits.last());
            finder.pass(&place, &edit);
            edits.push(edit);
        }
        self.earlier.add(self.lines, &edits);
        self.edits.extend(edits);
        true
    }

    fn join(&mut self) -> Vec<u8> {
        // Stable: edits of one section may start at the same line, and stand in order.
        self.edits.sort_by_key(|edit| edit.start);
        join(self.lines, &self.edits)
    }
}

fn too_costly(file: &FilePatch, index: usize) -> PatchError {
    let chunk = match &file.action {
        FileAction::Update { chunks, .. } => chunks.get(index),
        FileAction::Add { .. } | FileAction::Delete => None,
    };
    PatchError::TooCostly {
        path: file.path.clone(),
        chunk: index + 1,
        patch_line: chunk.map_or(0, |chunk| chunk.patch_line),
    }
}

/// Looks for places, from the top of the file down.
struct Finder<'a> {
    lines: &'a Lines<'a>,
    budget: &'a Budget,
    /// The line after the last chunk's text.
    cursor: usize,
    /// The line after the last changed one; context below it may be named again.
    changed_to: usize,
}

impl<'a> Finder<'a> {
    fn new(lines: &'a Lines<'a>, budget: &'a Budget) -> Self {
        Self { lines, budget, cursor: 0, changed_to: 0 }
    }

    /// Goes on below a chunk.
    fn pass(&mut self, place: &Place, edit: &Edit) {
        self.cursor = self.cursor.max(place.start + place.old_lines);
        self.changed_to = edit.end;
    }

    fn find<'c>(&self, chunk: &'c Chunk) -> Result<Place, Miss<'c>> {
        let anchored = self.find_anchors(chunk)?;
        let from = anchored.unwrap_or(self.cursor);
        let wanted: Vec<&str> = chunk.lines.iter().filter_map(ChunkLine::old_text).collect();
        if wanted.is_empty() {
            let end = self.lines.raw.len();
            let start = if chunk.end_of_file { end } else { anchored.unwrap_or(end) };
            let first_from = anchored.filter(|_| !chunk.end_of_file);
            return Ok(Place { start, level: Level::Exact, old_lines: 0, first_from });
        }
        // The anchor's own line may be named again as the first line of context.
        let again = if anchored.is_some() { from.saturating_sub(1) } else { self.changed_to };
        let starts = [from, again.max(self.changed_to)];
        let texts = [Some(&wanted[..]), without_last_blank(&wanted)];
        for (text_index, text) in texts.into_iter().enumerate() {
            let Some(text) = text else { continue };
            for (start_index, from) in starts.into_iter().enumerate() {
                if let Some((start, level)) = self.seek(text, from, chunk.end_of_file) {
                    let plain = (text_index, start_index, chunk.end_of_file) == (0, 0, false);
                    let first_from = plain.then_some(from);
                    return Ok(Place { start, level, old_lines: text.len(), first_from });
                }
            }
        }
        Err(Miss::Text(from))
    }

    /// Returns the line after the last anchor; `None` without anchors.
    fn find_anchors<'c>(&self, chunk: &'c Chunk) -> Result<Option<usize>, Miss<'c>> {
        let mut position = None;
        for anchor in &chunk.anchors {
            let from = position.unwrap_or(self.cursor);
            let found = self
                .seek_anchor(anchor, from)
                .or_else(|| self.seek_anchor(anchor, self.changed_to.max(position.unwrap_or(0))));
            position = match found {
                Some(at) => Some(at + 1),
                // The anchor of an earlier chunk still holds: this change is further down in it.
                None if !chunk.only_adds() && self.stands_above(anchor, from) => Some(from),
                None => return Err(Miss::Anchor(anchor, from)),
            };
        }
        Ok(position)
    }

    fn seek_anchor(&self, anchor: &str, from: usize) -> Option<usize> {
        let exact = self.seek(&[anchor], from, false).map(|(start, _)| start);
        exact.or_else(|| {
            // Models shorten a signature to its name.
            let wanted = key(anchor.as_bytes(), Level::Folded);
            let found = self.lines.starting_with(&wanted);
            found.get(found.partition_point(|at| *at < from)).copied()
        })
    }

    fn stands_above(&self, anchor: &str, from: usize) -> bool {
        self.seek_anchor(anchor, 0).is_some_and(|at| at < from)
    }

    /// Returns the first place at or after `from`, at the strictest level that has one.
    fn seek(&self, wanted: &[&str], from: usize, at_end: bool) -> Option<(usize, Level)> {
        let last = self.lines.raw.len().checked_sub(wanted.len())?;
        for level in Level::ALL {
            let keys: Vec<Cow<'_, [u8]>> =
                wanted.iter().map(|line| key(line.as_bytes(), level)).collect();
            if at_end && last >= from && self.matches_at(last, &keys, level) {
                return Some((last, level));
            }
            if at_end {
                continue;
            }
            if let Some(start) = self.find_lines(&keys, from..=last, level) {
                return Some((start, level));
            }
        }
        if at_end { self.seek(wanted, from, false) } else { None }
    }

    /// Returns the first start within `starts` at which these lines stand. Only places of the line
    /// that is rarest in the file are looked at.
    fn find_lines(
        &self,
        keys: &[Cow<'_, [u8]>],
        starts: RangeInclusive<usize>,
        level: Level,
    ) -> Option<usize> {
        self.budget.spend(keys.len());
        let places =
            |(offset, key): (usize, &Cow<'_, [u8]>)| (offset, self.lines.places_of(key, level));
        let (offset, places) =
            keys.iter().enumerate().map(places).min_by_key(|(_, places)| places.len())?;
        let first = places.partition_point(|at| *at < starts.start() + offset);
        let candidates = places.iter().skip(first).map(|at| at - offset);
        candidates
            .take_while(|start| start <= starts.end() && self.budget.left() > 0)
            .find(|start| self.matches_at(*start, keys, level))
    }

    fn matches_at(&self, start: usize, keys: &[Cow<'_, [u8]>], level: Level) -> bool {
        let lines = self.lines.keys(level).iter().skip(start);
        let alike = lines.zip(keys).take_while(|(line, key)| line == key).count();
        self.budget.spend(alike + 1);
        alike == keys.len()
    }

    fn explain(
        &self,
        file: &FilePatch,
        (chunk, number): (&Chunk, usize),
        miss: &Miss<'_>,
    ) -> PatchError {
        let path = file.path.clone();
        let patch_line = chunk.patch_line;
        match *miss {
            Miss::Anchor(anchor, from) => PatchError::NoAnchor {
                path,
                chunk: number,
                patch_line,
                place: if from > 0 { format!(" after line {from}") } else { String::new() },
                anchor: anchor.to_owned(),
                nearest: nearest::render_nearest(self.lines, &[anchor]),
            },
            Miss::Text(from) => {
                let wanted: Vec<&str> =
                    chunk.lines.iter().filter_map(ChunkLine::old_text).collect();
                PatchError::NoMatch {
                    path,
                    chunk: number,
                    patch_line,
                    place: self.describe_place(&wanted, from),
                    wanted: nearest::render_wanted(&wanted),
                    nearest: nearest::render_nearest(self.lines, &wanted),
                }
            }
        }
    }

    fn describe_place(&self, wanted: &[&str], from: usize) -> String {
        match self.seek(wanted, 0, false).map(|(start, _)| start + 1) {
            Some(line) => {
                format!(" after line {from} (they are at line {line}; chunks go in file order)")
            }
            None if from > 0 => format!(" after line {from}"),
            None => String::new(),
        }
    }
}

/// Returns the lines without an empty last one, which models often write where the file ends.
fn without_last_blank<'a, 'b>(wanted: &'a [&'b str]) -> Option<&'a [&'b str]> {
    match wanted {
        [rest @ .., last] if last.trim().is_empty() && !rest.is_empty() => Some(rest),
        _ => None,
    }
}

/// Returns the replacement that covers the chunk from its first to its last changed line.
fn build_edit(lines: &Lines<'_>, chunk: &Chunk, place: &Place, before: Option<&Edit>) -> Edit {
    let is_change = |line: &ChunkLine| !matches!(line, ChunkLine::Context(_));
    let changed_to = chunk.lines.iter().rposition(is_change).map_or(0, |last| last + 1);
    let leading = chunk.lines.iter().take_while(|line| !is_change(line)).count();
    let start = place.start + leading.min(place.old_lines);
    let old_end = place.start + place.old_lines;
    let mut edit = Edit { start, end: start, bytes: Vec::new() };
    let mut last_end =
        lines.raw.get(start.wrapping_sub(1)).map_or(&b""[..], |line| lines.end_of(line));
    // An earlier chunk may have rewritten or removed the line above; then nothing is open.
    let above_is_edited = before
        .is_some_and(|edit| edit.end == start && (edit.start < start || !edit.bytes.is_empty()));
    let mut ended = start == 0 || above_is_edited || !last_end.is_empty();
    for line in chunk.lines.iter().take(changed_to).skip(leading) {
        if let ChunkLine::Add(text) = line {
            let new_end = end_for(lines, last_end, edit.end);
            if !ended {
                edit.bytes.extend_from_slice(new_end);
            }
            let text = if new_end == b"\r\n" { text.trim_end_matches('\r') } else { text };
            edit.bytes.extend_from_slice(text.as_bytes());
            edit.bytes.extend_from_slice(new_end);
            ended = true;
            continue;
        }
        let Some(&raw) = lines.raw.get(edit.end).filter(|_| edit.end < old_end) else { continue };
        edit.end += 1;
        last_end = lines.end_of(raw);
        if matches!(line, ChunkLine::Context(_)) {
            edit.bytes.extend_from_slice(raw);
            ended = !last_end.is_empty();
        }
    }
    edit
}

/// Returns the line end of the neighbour above, else below, else of the file's first line.
fn end_for<'a>(lines: &Lines<'a>, above: &'a [u8], below: usize) -> &'a [u8] {
    if !above.is_empty() {
        return above;
    }
    let below = lines.raw.get(below).map_or(&b""[..], |line| lines.end_of(line));
    if below.is_empty() { lines.first_end() } else { below }
}

fn join(lines: &Lines<'_>, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = lines.byte_order_mark.to_vec();
    let mut copied = 0;
    for edit in edits {
        for line in lines.raw.get(copied..edit.start).unwrap_or(&[]) {
            bytes.extend_from_slice(line);
        }
        bytes.extend_from_slice(&edit.bytes);
        copied = edit.end.max(copied);
    }
    for line in lines.raw.get(copied..).unwrap_or(&[]) {
        bytes.extend_from_slice(line);
    }
    bytes
}

impl Chunk {
    fn only_adds(&self) -> bool {
        self.lines.iter().all(|line| matches!(line, ChunkLine::Add(_)))
    }
}

impl ChunkLine {
    /// Returns the text that the file has before the change, if the line is in it.
    pub(super) fn old_text(&self) -> Option<&str> {
        match self {
            Self::Context(text) | Self::Remove(text) => Some(text),
            Self::Add(_) => None,
        }
    }
}
