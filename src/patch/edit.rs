//! Turns chunks that have found their places into replaced lines.
//!
//! Decides the end of every line that comes: a diff's own where all its bytes fit, else that
//! of the line it replaces or of a neighbour; the last one ends as the file did. All changes
//! of a section are made at once, so line numbers hold until then. Called by `apply.rs`.

use std::ops::Range;

use crate::patch::Form;
use crate::patch::chunk::{Chunk, ChunkLine, LineKind};
use crate::patch::find::Place;
use crate::patch::level::Level;
use crate::patch::lines::{BYTE_ORDER_MARK, Line, Lines};

/// Lines that come in the place of others.
struct Run {
    gone: Range<usize>,
    come: Vec<Line>,
    /// How many bytes end the last of them.
    end_bytes: usize,
    /// Whether the last of them is without an end, where the patch says so.
    is_open: Option<bool>,
}

/// What a section changes, in file order.
#[derive(Default)]
pub(super) struct Edits {
    runs: Vec<Run>,
}

/// A file would become larger than it can be.
#[derive(Debug)]
pub(super) struct TooLarge;

/// Lines of a chunk that are changed together.
struct Group<'c> {
    gone: Range<usize>,
    come: Vec<ChunkLine<'c>>,
    /// Whether a line that goes is said to have no end.
    was_open: bool,
}

impl Edits {
    /// Adds what the chunk changes at its place.
    pub(super) fn add(
        &mut self,
        lines: &mut Lines<'_>,
        chunk: &Chunk,
        place: &Place,
    ) -> Result<(), TooLarge> {
        let is_literal = lines.form() == Form::Unified && place.level == Level::Exact;
        let old_end = place.start + place.old_lines;
        let new_group = |at| Group { gone: at..at, come: Vec::new(), was_open: false };
        let mut group = new_group(place.start);
        for line in chunk.body.lines() {
            match line.kind {
                LineKind::Add => group.come.push(line),
                LineKind::Remove => {
                    group.gone.end = old_end.min(group.gone.end + 1);
                    group.was_open |= line.is_open;
                }
                LineKind::Context => {
                    let next = old_end.min(group.gone.end + 1);
                    self.flush(lines, &group, is_literal)?;
                    group = new_group(next);
                }
            }
        }
        self.flush(lines, &group, is_literal)
    }

    /// Returns the line after the last changed one.
    pub(super) fn changed_to(&self) -> usize {
        self.runs.last().map_or(0, |run| run.gone.end)
    }

    fn flush(
        &mut self,
        lines: &mut Lines<'_>,
        group: &Group<'_>,
        is_literal: bool,
    ) -> Result<(), TooLarge> {
        if group.gone.is_empty() && group.come.is_empty() {
            return Ok(());
        }
        let mut gone = group.gone.clone();
        let mut come = Vec::with_capacity(group.come.len());
        let mut end_bytes = 0;
        let follows = self.runs.last().is_some_and(|run| run.gone.end == gone.start);
        if gone.is_empty() && gone.start == lines.len() && lines.is_open() && !follows {
            // What comes after a last line that nothing ends must not become a part of it.
            gone.start -= 1;
            let end = if is_literal { b"\n" } else { end_for(lines, group, 0) };
            let raw = lines.raw(gone.start).to_vec();
            come.push(lines.keep(&[&raw, end]).ok_or(TooLarge)?);
        }
        for (index, line) in group.come.iter().enumerate() {
            let end = if is_literal { b"\n" } else { end_for(lines, group, index) };
            let text = match line.text {
                [text @ .., b'\r'] if !is_literal && end == b"\r\n" => text,
                text => text,
            };
            end_bytes = end.len();
            let mark = lost_mark(lines, &gone, text).filter(|_| !is_literal && index == 0);
            let line = lines.keep(&[mark.unwrap_or(b""), text, end]);
            come.push(line.ok_or(TooLarge)?);
        }
        let is_open = group.come.last().and_then(|line| {
            let is_said = is_literal || line.is_open || group.was_open;
            is_said.then_some(line.is_open)
        });
        match self.runs.last_mut() {
            Some(run) if follows => {
                run.gone.end = gone.end;
                if !come.is_empty() {
                    (run.is_open, run.end_bytes) = (is_open, end_bytes);
                }
                run.come.append(&mut come);
            }
            Some(_) | None => self.runs.push(Run { gone, come, end_bytes, is_open }),
        }
        Ok(())
    }

    /// Makes the changes.
    pub(super) fn make(mut self, lines: &mut Lines<'_>) {
        if let Some(run) = self.runs.last_mut()
            && run.gone.end == lines.len()
            && run.is_open.unwrap_or_else(|| lines.is_open())
            && let Some(last) = run.come.last_mut()
        {
            *last = Lines::cut(*last, run.end_bytes);
            run.come.retain(|line| !line.is_empty());
        }
        for run in self.runs.iter().rev() {
            lines.replace(run.gone.clone(), &run.come);
        }
        lines.renumber();
    }
}

/// Returns the end of the line that the new one replaces, else of the neighbour above, else
/// below, else of the file's first line.
fn end_for(lines: &Lines<'_>, group: &Group<'_>, index: usize) -> &'static [u8] {
    let gone = &group.gone;
    let replaced = (!gone.is_empty()).then(|| gone.end.min(gone.start + index + 1) - 1);
    let above = gone.start.checked_sub(1);
    let choices = [replaced, above, Some(gone.end), Some(0)];
    let ends = choices.into_iter().flatten().map(|at| lines.end_of(lines.raw(at)));
    let found = ends.into_iter().find(|end| !end.is_empty());
    match found {
        Some(b"\r\n") => b"\r\n",
        Some(b"\r") => b"\r",
        Some(_) | None => b"\n",
    }
}

/// Returns the mark at the file's start when the new first line lacks it.
fn lost_mark(lines: &Lines<'_>, gone: &Range<usize>, text: &[u8]) -> Option<&'static [u8]> {
    let is_first = lines.form() == Form::Unified && gone.contains(&0);
    let has_mark = is_first && lines.raw(0).starts_with(BYTE_ORDER_MARK);
    (has_mark && !text.starts_with(BYTE_ORDER_MARK)).then_some(BYTE_ORDER_MARK)
}
