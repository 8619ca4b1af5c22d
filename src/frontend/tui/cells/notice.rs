//! Something to know beside the work: warnings, errors with their hint, undo, compaction.

use ratatui::text::Line;

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::{DEEPER, block, clean, span};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::wrap_with;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Good to know.
    Note,
    /// Look at this.
    Warning,
    /// It failed.
    Error,
}

/// A notice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NoticeCell {
    /// How much it matters.
    pub weight: Weight,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What belongs to it, a line each.
    pub details: Vec<String>,
}

impl NoticeCell {
    /// Returns a notice of one sentence.
    pub(crate) fn new(weight: Weight, message: impl Into<String>) -> Self {
        Self { weight, message: message.into(), hint: None, details: Vec::new() }
    }

    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let (glyph, role, text_role) = match self.weight {
            Weight::Note => ("· ", Role::Dim, Role::Dim),
            Weight::Warning => ("! ", Role::Warn, Role::Text),
            Weight::Error => ("✗ ", Role::Bad, Role::Text),
        };
        let message = clean(self.message.trim_end());
        let mut lines = Vec::new();
        for (index, text) in message.split('\n').enumerate() {
            let glyph = if index == 0 { glyph } else { "  " };
            let line = Line::from(vec![
                span(sheet.theme, role, glyph),
                span(sheet.theme, text_role, text),
            ]);
            lines.extend(wrap_with(&line, sheet.width, "  ", DEEPER));
        }
        for detail in &self.details {
            lines.extend(block(sheet, Role::Dim, detail, (DEEPER, "      ")));
        }
        if let Some(hint) = &self.hint {
            lines.extend(block(sheet, Role::Dim, hint, (DEEPER, DEEPER)));
        }
        lines
    }
}
