//! The end of a turn: how it ended when not well, and what it took.

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::{counted, duration, short_number, span};
use crate::frontend::tui::cells::notice::{NoticeCell, Weight};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::{width, wrap_with};
use crate::protocol::{LimitKind, TokenUsage, TurnOutcome};

/// The end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnEndCell {
    /// How.
    pub outcome: TurnOutcome,
    /// What to do about it, where an error told.
    pub hint: Option<String>,
    /// Files that changed.
    pub files: usize,
    /// How long.
    pub duration_ms: u64,
    /// Tokens of the turn.
    pub usage: TokenUsage,
}

impl TurnEndCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let mut lines = match self.trouble() {
            Some((weight, message)) => {
                let notice =
                    NoticeCell { hint: self.hint.clone(), ..NoticeCell::new(weight, message) };
                notice.lines(sheet)
            }
            None => Vec::new(),
        };
        let text = self.totals();
        let room = usize::from(sheet.width.min(100)).saturating_sub(width(&text));
        let line =
            Line::from(vec![Span::raw(" ".repeat(room)), span(sheet.theme, Role::Dim, text)]);
        lines.extend(wrap_with(&line, sheet.width, "", ""));
        lines
    }

    fn totals(&self) -> String {
        let mut parts = Vec::new();
        if self.files > 0 {
            parts.push(counted(self.files, "file"));
        }
        parts.push(duration(self.duration_ms));
        let tokens = self.usage.input_tokens.saturating_add(self.usage.output_tokens);
        if tokens > 0 {
            parts.push(format!("{} tokens", short_number(tokens)));
        }
        parts.join(" · ")
    }

    fn trouble(&self) -> Option<(Weight, String)> {
        Some(match &self.outcome {
            TurnOutcome::Completed => return None,
            TurnOutcome::Failed { message, .. } => (Weight::Error, message.clone()),
            TurnOutcome::Interrupted { .. } => {
                (Weight::Warning, "stopped; what was done so far is kept".to_owned())
            }
            TurnOutcome::Denied { reason } => (Weight::Warning, format!("ended: {reason}")),
            TurnOutcome::LimitReached { limit } => {
                let what = match limit {
                    LimitKind::Steps => "requests in a turn",
                    LimitKind::Tokens => "tokens",
                    LimitKind::Cost => "cost",
                    LimitKind::Time => "time",
                };
                (Weight::Warning, format!("the limit of {what} was reached"))
            }
        })
    }
}
