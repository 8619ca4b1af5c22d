//! What the user said. The one cell whose glyph stands at the left edge.

use ratatui::text::Line;

use crate::frontend::tui::cells::frame::{clean, paragraph, span};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::wrap_with;

/// Lines of one message that the conversation shows; the rest is in the transcript.
const LINES_MAX: usize = 40;

/// A message of the user's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UserCell {
    /// The text.
    pub text: String,
    /// The images that came with it.
    pub images: Vec<String>,
}

impl UserCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let text = clean(self.text.trim_end());
        let all: Vec<&str> = text.split('\n').collect();
        let shown = match sheet.folds {
            Folds::Closed if all.len() > LINES_MAX => LINES_MAX - 1,
            Folds::Closed | Folds::Open => all.len(),
        };
        let mut lines = Vec::new();
        for line in all.iter().take(shown) {
            let first = if lines.is_empty() { "› " } else { "  " };
            let line = Line::from(span(sheet.theme, Role::Accent, *line));
            lines.extend(wrap_with(&line, sheet.width, first, "  "));
        }
        if shown < all.len() {
            let note = format!("… {} lines more (Ctrl-T)", all.len() - shown);
            lines.extend(paragraph(sheet, Role::Dim, &note));
        }
        for image in &self.images {
            let note = format!("  [image {}]", clean(image));
            lines.extend(wrap_with(
                &Line::from(span(sheet.theme, Role::Dim, note)),
                sheet.width,
                "",
                "  ",
            ));
        }
        lines
    }
}
