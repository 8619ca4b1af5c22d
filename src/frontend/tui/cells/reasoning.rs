//! What the model thought: one line, and the text in the transcript.

use ratatui::text::Line;

use crate::frontend::tui::cells::frame::{duration, paragraph};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::theme::Role;

/// A stretch of reasoning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReasoningCell {
    /// The part meant for people; empty when there is none.
    pub text: String,
    /// How long it took, where that was seen.
    pub duration_ms: Option<u64>,
}

impl ReasoningCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let time = self.duration_ms.map(|ms| format!(" for {}", duration(ms))).unwrap_or_default();
        let more = match (sheet.folds, self.text.is_empty()) {
            (Folds::Closed, false) => " (Ctrl-T)",
            (Folds::Open, _) | (_, true) => "",
        };
        let note = format!("thought{time}{more}");
        let mut lines = paragraph(sheet, Role::Dim, &note);
        if sheet.folds == Folds::Open && !self.text.is_empty() {
            lines.extend(paragraph(sheet, Role::Dim, &self.text));
        }
        lines
    }
}
