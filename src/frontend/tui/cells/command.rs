//! A command: its line, what it printed, how it ended.
//!
//! What was printed is kept up to a bound, its beginning and its end. What went well folds
//! hard, what failed shows its end: there the cause is.

use std::collections::VecDeque;

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::frame::{
    DEEPER, block, clean_line, counted, duration, span, with_right,
};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::theme::{Role, Theme};
use crate::protocol::CallOutcome;
use crate::text::ansi::strip;

/// Lines shown of what went well.
const LINES_GOOD: Fold = Fold { whole: 6, head: 2, tail: 2 };
/// Lines shown of what failed.
const LINES_BAD: Fold = Fold { whole: 14, head: 2, tail: 10 };
/// Lines of a script that are shown before it ran.
const SCRIPT_LINES: usize = 4;
/// Lines kept of a command's beginning, and of its end: a transcript that is read, not a log.
const KEPT_LINES: (usize, usize) = (200, 800);
/// Bytes of one line that are kept; a terminal's worth many times over.
const LINE_BYTES_MAX: usize = 4 * 1024;

struct Fold {
    /// Up to so many lines nothing folds.
    whole: usize,
    head: usize,
    tail: usize,
}

/// What a command printed, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Printed {
    head: Vec<String>,
    tail: VecDeque<String>,
    /// Lines that stood between and are gone.
    dropped: usize,
    /// A line that has no end yet, as it came.
    open: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandEnd {
    /// In one word.
    pub outcome: CallOutcome,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether the sandbox stopped it.
    pub by_sandbox: bool,
    /// Why, where no exit code says it.
    pub reason: Option<String>,
}

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CommandCell {
    /// The command as a person reads it.
    pub command: String,
    /// What it printed.
    pub printed: Printed,
    /// How it ended; `None` while it runs.
    pub end: Option<CommandEnd>,
}

impl Printed {
    /// Takes in a piece.
    pub(crate) fn push(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.open.len());
            self.open.push_str(part.get(..part.floor_char_boundary(room)).unwrap_or_default());
            // A bar that is drawn over and over keeps its last state alone.
            if let Some(start) = self.open.trim_end_matches(['\r', '\n']).rfind('\r') {
                self.open.drain(..=start);
            }
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.open);
                self.keep(strip(line.trim_end_matches(['\r', '\n'])).into_owned());
            }
        }
    }

    /// Returns how many lines there were.
    pub(crate) fn count(&self) -> usize {
        self.head.len() + self.dropped + self.tail.len() + usize::from(!self.open.is_empty())
    }

    /// Returns the last lines, the one that is not ended too.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        let open = (!self.open.is_empty()).then(|| strip(&self.open).into_owned());
        let lines = self.head.iter().chain(&self.tail).cloned().chain(open);
        let skipped = (self.count() - self.dropped).saturating_sub(count);
        lines.skip(skipped).collect()
    }

    fn keep(&mut self, line: String) {
        if self.head.len() < KEPT_LINES.0 {
            self.head.push(line);
            return;
        }
        if self.tail.len() >= KEPT_LINES.1 {
            self.tail.pop_front();
            self.dropped += 1;
        }
        self.tail.push_back(line);
    }

    /// Returns all that is kept, and how many lines are missing after which.
    fn kept(&self) -> (Vec<String>, Option<(usize, usize)>) {
        let gap = (self.dropped > 0).then_some((self.head.len(), self.dropped));
        (self.last(usize::MAX), gap)
    }
}

impl CommandCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let right = self.end.as_ref().map(|end| end.spans(sheet.theme)).unwrap_or_default();
        let mut lines = script_lines(sheet, &self.command, right);
        let fold = match &self.end {
            Some(end) if end.outcome != CallOutcome::Completed => LINES_BAD,
            Some(_) | None => LINES_GOOD,
        };
        lines.extend(output_lines(sheet, &self.printed, &fold));
        if let Some(reason) = self.end.as_ref().and_then(|end| end.reason.as_deref()) {
            lines.extend(block(sheet, Role::Dim, reason, (DEEPER, DEEPER)));
        }
        lines
    }
}

/// Returns the command behind its `$`, folded when it is a long script, with its end at the
/// right.
fn script_lines(sheet: Sheet<'_>, command: &str, right: Vec<Span<'static>>) -> Vec<Line<'static>> {
    let mut script = command.trim_end().split('\n');
    let head = clean_line(script.next().unwrap_or_default());
    let first = Line::from(vec![
        span(sheet.theme, Role::Accent, "  $ "),
        span(sheet.theme, Role::Text, head),
    ]);
    let mut lines = with_right(sheet, &first, right);
    let rest: Vec<&str> = script.collect();
    let shown = match sheet.folds {
        Folds::Closed if rest.len() > SCRIPT_LINES => SCRIPT_LINES - 1,
        Folds::Closed | Folds::Open => rest.len(),
    };
    for line in rest.iter().take(shown) {
        lines.extend(block(sheet, Role::Text, line, (DEEPER, DEEPER)));
    }
    if shown < rest.len() {
        lines.extend(more_note(sheet, rest.len() - shown));
    }
    lines
}

fn output_lines(sheet: Sheet<'_>, printed: &Printed, fold: &Fold) -> Vec<Line<'static>> {
    let (kept, gap) = printed.kept();
    let count = printed.count();
    let show = |line: &String| block(sheet, Role::Dim, line, (DEEPER, DEEPER));
    if sheet.folds == Folds::Closed && count > fold.whole {
        let tail = kept.len().saturating_sub(fold.tail);
        let mut lines: Vec<Line<'static>> = kept.iter().take(fold.head).flat_map(show).collect();
        lines.extend(more_note(sheet, count - fold.head - fold.tail));
        lines.extend(kept.iter().skip(tail).flat_map(show));
        return lines;
    }
    let mut lines = Vec::new();
    for (index, line) in kept.iter().enumerate() {
        if let Some((at, dropped)) = gap.filter(|(at, _)| *at == index) {
            debug_assert_eq!(at, index);
            let note = format!("… {} not kept", counted(dropped, "line"));
            lines.extend(block(sheet, Role::Dim, &note, (DEEPER, DEEPER)));
        }
        lines.extend(show(line));
    }
    lines
}

/// Returns the line that says how much is folded.
pub(crate) fn more_note(sheet: Sheet<'_>, count: usize) -> Vec<Line<'static>> {
    let note = format!("… {} more (Ctrl-T)", counted(count, "line"));
    block(sheet, Role::Dim, &note, (DEEPER, DEEPER))
}

impl CommandEnd {
    /// Returns the end in a word and the time.
    pub(crate) fn spans(&self, theme: Theme) -> Vec<Span<'static>> {
        let (role, word) = match (self.outcome, self.exit_code) {
            (CallOutcome::Completed, _) => (Role::Good, "ok".to_owned()),
            (CallOutcome::Failed, Some(code)) if self.by_sandbox => {
                (Role::Bad, format!("exit {code}, stopped by the sandbox"))
            }
            (CallOutcome::Failed, Some(code)) => (Role::Bad, format!("exit {code}")),
            (CallOutcome::Failed, None) => (Role::Bad, "failed".to_owned()),
            (CallOutcome::Declined, _) => (Role::Warn, "declined".to_owned()),
            (CallOutcome::TimedOut, _) => (Role::Bad, "timed out".to_owned()),
            (CallOutcome::Interrupted, _) => (Role::Warn, "interrupted".to_owned()),
        };
        let time = format!(" {}", duration(self.duration_ms));
        match self.outcome {
            CallOutcome::Declined => vec![span(theme, role, word)],
            _ => vec![span(theme, role, word), span(theme, Role::Dim, time)],
        }
    }
}
