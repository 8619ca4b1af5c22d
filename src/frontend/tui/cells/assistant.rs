//! What the model said, as Markdown. While it streams, `update/stream.rs` lays it out piece by
//! piece; this is the whole of it, for messages that came at once and for the transcript.

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::GUTTER;
use crate::frontend::tui::markdown;

/// A message of the model's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AssistantCell {
    /// The text.
    pub text: String,
}

impl AssistantCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let lines = markdown::render(self.text.trim_end(), text_width(sheet.width), sheet.theme);
        with_gutter(lines, sheet.width)
    }
}

/// Returns the columns that are left for text.
pub(crate) fn text_width(width: u16) -> u16 {
    if has_gutter(width) { width - 2 } else { width.max(1) }
}

/// Puts the gutter before lines that were laid out for `text_width`.
pub(crate) fn with_gutter(mut lines: Vec<Line<'static>>, width: u16) -> Vec<Line<'static>> {
    if has_gutter(width) {
        for line in lines.iter_mut().filter(|line| !line.spans.is_empty()) {
            line.spans.insert(0, Span::raw(GUTTER));
        }
    }
    lines
}

/// Where hardly anything fits, text comes first.
fn has_gutter(width: u16) -> bool {
    width >= 8
}
