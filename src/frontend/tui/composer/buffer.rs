//! The text being written and the cursor in it.
//!
//! Every change goes through `replace`, which keeps the cursor on the boundary of a grapheme
//! cluster and notes the change for undo. Knows no keys and no width. Owned by the composer.

use std::ops::Range;

use crate::frontend::tui::composer::graphemes;
use crate::frontend::tui::composer::undo::{Edit, Log, Run};

/// Text, cursor, and what can be undone.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffer {
    text: String,
    cursor: usize,
    pub(super) log: Log,
}

impl Buffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Puts the cursor on the boundary at or after `at`. Returns whether it moved.
    pub(super) fn move_to(&mut self, at: usize) -> bool {
        let at = graphemes::snap(&self.text, at);
        let moved = at != self.cursor;
        if moved {
            self.log.seal();
        }
        self.cursor = at;
        moved
    }

    /// Replaces a stretch and puts the cursor behind what came. Returns whether that changed
    /// anything.
    pub(super) fn replace(&mut self, range: Range<usize>, with: &str, run: Run) -> bool {
        let range = range.start..range.end.max(range.start);
        let Some(removed) = self.text.get(range.clone()).map(str::to_owned) else { return false };
        if removed.is_empty() && with.is_empty() {
            return false;
        }
        let before = self.cursor;
        self.text.replace_range(range.clone(), with);
        self.cursor = graphemes::snap(&self.text, range.start + with.len());
        let edit = Edit { at: range.start, removed, inserted: with.to_owned() };
        self.log.record(edit, before, self.cursor, run);
        true
    }

    /// Undoes the newest step. Returns whether there was one.
    pub(super) fn undo(&mut self) -> bool {
        let Some(change) = self.log.undo() else { return false };
        for edit in change.edits.iter().rev() {
            put(&mut self.text, edit.at, &edit.inserted, &edit.removed);
        }
        self.cursor = graphemes::snap(&self.text, change.before);
        true
    }

    /// Does the step undone last again. Returns whether there was one.
    pub(super) fn redo(&mut self) -> bool {
        let Some(change) = self.log.redo() else { return false };
        for edit in &change.edits {
            put(&mut self.text, edit.at, &edit.removed, &edit.inserted);
        }
        self.cursor = graphemes::snap(&self.text, change.after);
        true
    }

    /// Puts the cursor where the newest step began, as vim does. Returns whether there is one.
    pub(super) fn move_to_change(&mut self) -> bool {
        let at = self.log.newest().and_then(|change| change.edits.first()).map(|edit| edit.at);
        self.cursor = at.map_or(self.cursor, |at| graphemes::snap(&self.text, at));
        at.is_some()
    }
}

/// Replaces `old` at `at` by `new`.
fn put(text: &mut String, at: usize, old: &str, new: &str) {
    let range = at..at + old.len();
    if text.get(range.clone()).is_some() {
        text.replace_range(range, new);
    }
}
