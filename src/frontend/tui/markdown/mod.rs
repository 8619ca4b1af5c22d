//! Markdown as lines of the screen, while it still arrives.
//!
//! `finished` hands out lines that nothing can change any more, `live` the rest, which is
//! bounded. However the text is cut, both together are what `render` makes of the whole.
//! Knows no terminal and no cell; gutters are the cell's. Called by the cells.

mod blocks;
mod inline;
mod layout;
mod scan;
mod table;

use ratatui::text::Line;

use crate::frontend::tui::markdown::blocks::{Block, Blocks};
use crate::frontend::tui::markdown::layout::{Page, draw_block};
use crate::frontend::tui::theme::Theme;

/// A longer line is taken in pieces of this size, cut at a space.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// A text that arrives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markdown {
    blocks: Blocks,
    /// The line that has no end yet.
    partial: String,
    /// Whether pieces of that line were taken already.
    is_cut: bool,
}

/// Returns the lines of a whole text.
pub(crate) fn render(text: &str, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let mut markdown = Markdown::new();
    markdown.push(text);
    markdown.finish(width, theme)
}

impl Markdown {
    /// Starts an empty text.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of the text. Costs what the piece is long.
    pub(crate) fn push(&mut self, delta: &str) {
        for part in delta.split_inclusive('\n') {
            let line = part.strip_suffix('\n');
            self.partial.push_str(line.unwrap_or(part));
            self.take_long();
            if line.is_some() {
                let whole = std::mem::take(&mut self.partial);
                let is_cut = std::mem::take(&mut self.is_cut);
                take_line(&mut self.blocks, &whole, is_cut);
            }
        }
    }

    /// Returns the lines that can no longer change, each exactly once.
    pub(crate) fn finished(&mut self, width: u16, theme: Theme) -> Vec<Line<'static>> {
        draw(&self.blocks.take(), Page { width, theme })
    }

    /// Returns the lines after those, which may still change; bounded.
    pub(crate) fn live(&self, width: u16, theme: Theme) -> Vec<Line<'static>> {
        let mut open = self.blocks.open();
        if !self.partial.is_empty() {
            take_line(&mut open, &self.partial, self.is_cut);
        }
        open.close();
        draw(&open.take(), Page { width, theme })
    }

    /// Ends the text and returns all lines that were not handed out.
    pub(crate) fn finish(mut self, width: u16, theme: Theme) -> Vec<Line<'static>> {
        let mut lines = self.finished(width, theme);
        lines.extend(self.live(width, theme));
        lines
    }

    /// Takes pieces of a line that has become too long. Where it is cut follows from the line
    /// alone, not from how it arrived.
    fn take_long(&mut self) {
        let mut start = 0;
        while let Some(window) = self.partial.get(start..).filter(|it| it.len() >= LINE_BYTES_MAX) {
            let window =
                window.get(..window.floor_char_boundary(LINE_BYTES_MAX)).unwrap_or_default();
            let space = window.rfind(' ').filter(|at| *at >= LINE_BYTES_MAX / 2);
            let end = space.unwrap_or(window.len());
            take_line(&mut self.blocks, window.get(..end).unwrap_or_default(), self.is_cut);
            self.is_cut = true;
            start += end + usize::from(space.is_some());
        }
        self.partial.drain(..start);
    }
}

fn take_line(blocks: &mut Blocks, line: &str, is_cut: bool) {
    // A line that ends where it was cut has nothing left.
    match (line.strip_suffix('\r').unwrap_or(line), is_cut) {
        ("", true) => {}
        (rest, true) => blocks.push_rest(rest),
        (line, false) => blocks.push_line(line),
    }
}

fn draw(blocks: &[Block], page: Page) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    blocks.iter().for_each(|block| draw_block(block, page, &mut lines));
    lines
}

#[cfg(test)]
mod tests;
