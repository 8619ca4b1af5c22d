//! The header: what runs, where, and what stands behind it. First in every session.

use ratatui::text::Line;

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::{block, clean_line, span};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::wrap_with;

/// The header.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HeaderCell {
    /// The program's version.
    pub version: String,
    /// Where it works, and on which branch.
    pub place: Vec<String>,
    /// What goes on: a session that was begun earlier.
    pub resumed: bool,
    /// The instruction files that were read.
    pub instruction_files: Vec<String>,
}

impl HeaderCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let mut spans = vec![span(sheet.theme, Role::Heading, "gimlet")];
        let mut rest = format!(" {}", clean_line(&self.version));
        for part in &self.place {
            rest.push_str(" · ");
            rest.push_str(&clean_line(part));
        }
        if self.resumed {
            rest.push_str(" · resumed");
        }
        spans.push(span(sheet.theme, Role::Dim, rest));
        let mut lines = wrap_with(&Line::from(spans), sheet.width, "", "  ");
        if !self.instruction_files.is_empty() {
            let text = format!("instructions from {}", self.instruction_files.join(", "));
            lines.extend(block(sheet, Role::Dim, &text, ("  ", "  ")));
        }
        lines
    }
}
