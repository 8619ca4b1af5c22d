//! What was changed, so that it can be undone and done again.
//!
//! A change is the text that went and the text that came, so its cost is its own size. What is
//! typed or erased in one go is one step. Bounded in bytes: the oldest steps go first. Knows
//! text and places only. Kept by the buffer.

use std::collections::VecDeque;

/// Bytes of changes kept; enough for a day of writing and a few large pastes.
const BYTES_MAX: usize = 8 << 20;
/// Steps kept.
const STEPS_MAX: usize = 10_000;

/// How a change goes together with the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// Typing: with the typing right before.
    Typing,
    /// Erasing: with the erasing right before.
    Erasing,
    /// A part of a paste: with the parts before.
    Pasting,
    /// A step of its own.
    Alone,
}

/// One replaced stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) at: usize,
    pub(super) removed: String,
    pub(super) inserted: String,
}

/// Changes that are undone together, and where the cursor was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) edits: Vec<Edit>,
    pub(super) before: usize,
    pub(super) after: usize,
}

impl Change {
    fn bytes(&self) -> usize {
        let texts = self.edits.iter().map(|edit| edit.removed.len() + edit.inserted.len());
        texts.sum()
    }
}

/// The steps, done and undone.
#[derive(Debug, Clone)]
pub(super) struct Log {
    done: VecDeque<Change>,
    undone: Vec<Change>,
    run: Run,
    /// Everything goes into the last step until it is closed.
    open: bool,
    bytes: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self { done: VecDeque::new(), undone: Vec::new(), run: Run::Alone, open: false, bytes: 0 }
    }
}

impl Log {
    /// Notes a change.
    pub(super) fn record(&mut self, edit: Edit, before: usize, after: usize, run: Run) {
        self.undone.clear();
        self.bytes += edit.removed.len() + edit.inserted.len();
        let new_word = run == Run::Typing && starts_word(self.done.back(), &edit);
        let joins = run != Run::Alone && run == self.run && !new_word;
        let open = self.open;
        match self.done.back_mut().filter(|last| open || joins && last.after == before) {
            Some(last) => {
                join(&mut last.edits, edit);
                last.after = after;
            }
            None => self.done.push_back(Change { edits: vec![edit], before, after }),
        }
        self.run = run;
        while self.done.len() > 1 && (self.bytes > BYTES_MAX || self.done.len() > STEPS_MAX) {
            let oldest = self.done.pop_front().map_or(0, |oldest| oldest.bytes());
            self.bytes = self.bytes.saturating_sub(oldest);
        }
    }

    /// Ends a run: what comes next is a step of its own.
    pub(super) fn seal(&mut self) {
        if !self.open {
            self.run = Run::Alone;
        }
    }

    /// Begins a step that takes everything up to `close`.
    pub(super) fn open(&mut self, cursor: usize) {
        self.undone.clear();
        self.done.push_back(Change { edits: Vec::new(), before: cursor, after: cursor });
        self.open = true;
    }

    /// Ends it.
    pub(super) fn close(&mut self) {
        self.open = false;
        self.run = Run::Alone;
        if self.done.back().is_some_and(|last| last.edits.is_empty()) {
            self.done.pop_back();
        }
    }

    /// Takes the newest step to undo it.
    pub(super) fn undo(&mut self) -> Option<&Change> {
        self.close();
        let change = self.done.pop_back()?;
        self.bytes = self.bytes.saturating_sub(change.bytes());
        self.undone.push(change);
        self.undone.last()
    }

    /// Takes the step undone last to do it again.
    pub(super) fn redo(&mut self) -> Option<&Change> {
        self.close();
        let change = self.undone.pop()?;
        self.bytes += change.bytes();
        self.done.push_back(change);
        self.done.back()
    }

    /// Returns the newest step.
    pub(super) fn newest(&self) -> Option<&Change> {
        self.done.back()
    }
}

/// Returns whether the typing begins a new word, so that undo goes word by word.
fn starts_word(last: Option<&Change>, edit: &Edit) -> bool {
    let written = last.and_then(|change| change.edits.last()).map(|edit| edit.inserted.as_str());
    let after_space = written.is_some_and(|text| text.ends_with(char::is_whitespace));
    after_space && edit.inserted.starts_with(|c: char| !c.is_whitespace())
}

/// Adds an edit to those of a step; what is typed on and on stays one edit.
fn join(edits: &mut Vec<Edit>, edit: Edit) {
    match edits.last_mut() {
        Some(last) if edit.removed.is_empty() && edit.at == last.at + last.inserted.len() => {
            last.inserted.push_str(&edit.inserted);
        }
        _ => edits.push(edit),
    }
}
