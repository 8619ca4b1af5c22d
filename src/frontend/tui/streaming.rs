//! `Streaming`: the assistant's message while it comes in.
//!
//! Lines that can no longer change leave at once, into the terminal's scrollback, so that the
//! cost of a frame does not grow with the message. The rest is laid out anew for each frame.

use ratatui::text::Line;

use crate::frontend::tui::cells::Cell;
use crate::frontend::tui::cells::assistant::{AssistantCell, text_width, with_gutter};
use crate::frontend::tui::markdown::{Markdown, render};
use crate::frontend::tui::theme::Theme;

/// A message that comes in.
#[derive(Debug, Default)]
pub(crate) struct Streaming {
    markdown: Markdown,
    /// All that came.
    text: String,
    /// Its first lines are on the screen.
    has_printed: bool,
    /// What may still change, laid out.
    live: Vec<Line<'static>>,
}

impl Streaming {
    /// Takes in a piece.
    pub(crate) fn push(&mut self, text: &str) {
        // White space before the first word would be a cell that begins with nothing.
        let text = if self.text.is_empty() { text.trim_start() } else { text };
        self.text.push_str(text);
        self.markdown.push(text);
    }

    /// Returns the lines that became final.
    pub(crate) fn settle(&mut self, width: u16, theme: Theme) -> Vec<Line<'static>> {
        let inner = text_width(width);
        let done = self.markdown.finished(inner, theme);
        self.live = with_gutter(self.markdown.live(inner, theme), width);
        with_gutter(done, width)
    }

    /// Returns what may still change, as of the last `settle`.
    pub(crate) fn live(&self) -> &[Line<'static>] {
        &self.live
    }

    /// Returns true the first time.
    pub(crate) fn begin_printing(&mut self) -> bool {
        !std::mem::replace(&mut self.has_printed, true)
    }

    /// Returns whether its first lines are on the screen.
    pub(crate) fn has_printed(&self) -> bool {
        self.has_printed
    }

    /// Ends it: returns its cell and the lines that are left. `whole` is the message as the
    /// log has it, which may hold more than the pieces did.
    pub(crate) fn finish(
        &mut self,
        whole: Option<String>,
        width: u16,
        theme: Theme,
    ) -> (Option<Cell>, Vec<Line<'static>>) {
        let mut restated = Vec::new();
        if let Some(whole) = whole {
            let trimmed = whole.trim_start();
            match trimmed.strip_prefix(self.text.as_str()) {
                Some(rest) => self.markdown.push(rest),
                // The pieces and the message differ: what holds is said once more, whole.
                None if trimmed.trim_end() != self.text.trim_end() => {
                    restated.push(Line::default());
                    let cell = AssistantCell { text: trimmed.to_owned() };
                    let lines = render(&cell.text, text_width(width), theme);
                    restated.extend(with_gutter(lines, width));
                }
                None => {}
            }
            self.text = trimmed.to_owned();
        }
        let mut lines = self.settle(width, theme);
        lines.append(&mut self.live);
        while lines.last().is_some_and(|line| line.spans.is_empty()) {
            lines.pop();
        }
        lines.extend(restated);
        let text = self.text.trim_end().to_owned();
        let cell = (!text.is_empty()).then(|| Self::whole_cell(&text));
        (cell, lines)
    }

    /// Returns the cell of a whole message.
    pub(crate) fn whole_cell(text: &str) -> Cell {
        Cell::Assistant(AssistantCell { text: text.trim().to_owned() })
    }
}
