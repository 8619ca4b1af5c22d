//! Overlays: what lies over the conversation for a while. A stack; the topmost takes the keys.
//!
//! A `Pager` fills the screen (transcript, help, diff), a `Picker` stands in the place of the
//! composer. Plain data; changed by `update/overlay_keys.rs`, drawn by `view/`.

use ratatui::text::Line;

use crate::frontend::tui::cells::Folds;

/// One of them.
#[derive(Debug)]
pub(crate) enum Overlay {
    /// Text over the whole screen.
    Pager(Pager),
    /// A choice of one.
    Picker(Picker),
}

/// Text over the whole screen.
#[derive(Debug)]
pub(crate) struct Pager {
    /// What it shows.
    pub subject: Subject,
    /// It laid out for `width`.
    pub lines: Vec<Line<'static>>,
    /// The width it was laid out for.
    pub width: u16,
    /// Cells that were laid out, for the transcript.
    pub cells: usize,
    /// The first line of each of them.
    pub starts: Vec<usize>,
    /// The first line that is shown.
    pub top: usize,
    /// Whether it stays at the end when more comes.
    pub follows: bool,
    /// Whether long things are folded.
    pub folds: Folds,
    /// What is searched, and whether it is still being typed.
    pub search: Option<Search>,
}

/// A search in a pager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Search {
    /// The words.
    pub text: String,
    /// They are still being typed.
    pub is_open: bool,
}

/// What a pager shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The whole conversation.
    Transcript,
    /// The keys and commands.
    Help,
    /// What the session changed.
    Diff,
    /// What holds: model, policies, tokens.
    Status,
}

/// A choice of one.
#[derive(Debug)]
pub(crate) struct Picker {
    /// What is chosen.
    pub kind: PickerKind,
    /// What there is to choose from.
    pub items: Vec<PickerItem>,
    /// The chosen one.
    pub at: usize,
}

/// What a picker chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickerKind {
    /// The model.
    Model,
    /// Approval policy and sandbox mode.
    Permissions,
    /// Colours.
    Theme,
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PickerItem {
    /// What it is called.
    pub name: String,
    /// What it means.
    pub about: String,
    /// It holds now.
    pub is_current: bool,
}

impl Pager {
    /// Returns a pager that has laid out nothing yet.
    pub(crate) fn new(subject: Subject) -> Self {
        Self {
            subject,
            lines: Vec::new(),
            width: 0,
            cells: 0,
            starts: Vec::new(),
            top: 0,
            follows: subject == Subject::Transcript,
            folds: Folds::Open,
            search: None,
        }
    }

    /// Returns the text of the cell at the top of the page.
    pub(crate) fn top_text(&self) -> String {
        let next = self.starts.partition_point(|start| *start <= self.top);
        let first = next.checked_sub(1).and_then(|at| self.starts.get(at)).copied().unwrap_or(0);
        let end = self.starts.get(next).copied().unwrap_or(self.lines.len());
        let text = |line: &Line<'_>| {
            let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
            let text = text.strip_prefix("  ").map(str::to_owned).unwrap_or(text);
            format!("{}\n", text.trim_end())
        };
        let lines = self.lines.get(first..end).unwrap_or_default();
        lines.iter().map(text).collect::<String>().trim_end().to_owned()
    }

    /// Returns whether words to search are being typed.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_open)
    }

    /// Returns the last line that can stand at the top.
    pub(crate) fn top_max(&self, height: usize) -> usize {
        self.lines.len().saturating_sub(height)
    }

    /// Returns the next line that holds what is searched, from a line on, around the end.
    pub(crate) fn find(&self, from: usize, forward: bool) -> Option<usize> {
        let words = self.search.as_ref().map(|search| search.text.to_lowercase())?;
        let count = self.lines.len();
        if words.is_empty() || count == 0 {
            return None;
        }
        let step = |n: usize| {
            if forward { (from + n) % count } else { (from + count - n % count) % count }
        };
        (0..count).map(step).find(|at| self.holds(*at, &words))
    }

    fn holds(&self, at: usize, words: &str) -> bool {
        let Some(line) = self.lines.get(at) else { return false };
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        text.to_lowercase().contains(words)
    }
}
