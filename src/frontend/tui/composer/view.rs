//! The composer as lines for the screen, and where the cursor stands in them.
//!
//! Only the rows that are shown are laid out, and a few around them. The window follows the
//! cursor and otherwise stays where it was. Pure; knows no terminal. Called by the screen's view.

use std::ops::Range;

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::frontend::tui::composer::graphemes::{self, part};
use crate::frontend::tui::composer::layout::{Layout, Look, Row};
use crate::frontend::tui::composer::state::Composer;
use crate::frontend::tui::theme::{Role, Theme};
use crate::text::ansi::visible_line;

/// Characters of a search that are shown; its end is where one types.
const SEARCH_CHARS_SHOWN: usize = 200;

/// What the composer shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposerView {
    /// At least one line, none wider than asked for.
    pub lines: Vec<Line<'static>>,
    /// Column and row of the cursor, inside the lines' area.
    pub cursor: (u16, u16),
    /// Whether there is text above the window.
    pub more_above: bool,
    /// Whether there is text below the window.
    pub more_below: bool,
}

/// The rows that are shown, and which of them holds the cursor.
pub(super) struct Window {
    pub(super) rows: Vec<Row>,
    cursor_row: usize,
}

/// Returns the window of at most `height` rows that shows `cursor` and, where that leaves a
/// choice, begins with the row that holds `top`.
pub(super) fn window(layout: &Layout<'_>, cursor: usize, top: usize, height: usize) -> Window {
    let height = height.max(1);
    let (rows, index) = layout.row_of(cursor);
    let own = rows.get(index).copied().unwrap_or(Row { start: cursor, end: cursor });
    let above = layout.above(cursor, height - 1);
    let below = layout.below(cursor, height - 1);
    // As many rows above the cursor as the old window had, and more where there is room below.
    let held = above.iter().take_while(|row| row.end > top || row.start >= top).count();
    let over = held.max(height.saturating_sub(1 + below.len())).min(above.len());
    let mut rows: Vec<Row> = above.into_iter().take(over).collect();
    rows.reverse();
    rows.push(own);
    rows.extend(below);
    rows.truncate(height);
    Window { rows, cursor_row: over }
}

impl Composer {
    /// Returns the composer as it looks at a width and within a height.
    pub(crate) fn view(&self, width: u16, height_max: u16, theme: Theme) -> ComposerView {
        let Some(search) = self.search_line() else {
            return self.view_text(width, height_max, theme);
        };
        let mut view = match height_max {
            0 | 1 => ComposerView {
                lines: Vec::new(),
                cursor: (0, 0),
                more_above: true,
                more_below: false,
            },
            _ => self.view_text(width, height_max - 1, theme),
        };
        let shown = visible_line(&search).into_owned();
        let (line, column) = tail(&shown, usize::from(width));
        view.cursor = (column, u16::try_from(view.lines.len()).unwrap_or(u16::MAX));
        view.lines.push(Line::from(Span::styled(line, theme.style(Role::Dim))));
        view
    }

    fn view_text(&self, width: u16, height_max: u16, theme: Theme) -> ComposerView {
        let layout = self.layout(width);
        let text = layout.text;
        let window = window(&layout, self.cursor(), self.top(), usize::from(height_max));
        let found = self.found();
        let lines = window.rows.iter().map(|row| line(&layout, *row, found.as_ref(), theme));
        let lines = lines.collect();
        let cursor_row = window.rows.get(window.cursor_row).copied();
        let column = cursor_row.map_or(0, |row| layout.column(row, self.cursor()));
        let column = column.min(usize::from(width).saturating_sub(1));
        let (first, last) = (window.rows.first(), window.rows.last());
        ComposerView {
            lines,
            cursor: (narrow(column), narrow(window.cursor_row)),
            more_above: first.is_some_and(|row| row.start > 0),
            more_below: last.is_some_and(|row| row.end < text.len()),
        }
    }
}

/// Returns one row as spans of one look each.
fn line(
    layout: &Layout<'_>,
    row: Row,
    found: Option<&Range<usize>>,
    theme: Theme,
) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut open: Option<(Role, String)> = None;
    let mut column = 0;
    let mut at = row.start;
    while at < row.end {
        let next = graphemes::next(layout.text, at).min(row.end);
        let piece = layout.piece(at, next, column);
        column += piece.width;
        let role = match piece.look {
            Look::Token => Role::Accent,
            Look::Mark => Role::Warn,
            Look::Text if found.is_some_and(|range| range.contains(&at)) => Role::Accent,
            Look::Text => Role::Text,
        };
        match &mut open {
            Some((same, text)) if *same == role => text.push_str(&piece.shown),
            _ => {
                let span = |(role, text)| Span::styled(text, theme.style(role));
                spans.extend(open.take().map(span));
                open = Some((role, piece.shown.into_owned()));
            }
        }
        at = next;
    }
    spans.extend(open.map(|(role, text)| Span::styled(text, theme.style(role))));
    Line::from(spans)
}

/// Returns the end of a line that fits, with room for the cursor, and its width.
fn tail(line: &str, width: usize) -> (String, u16) {
    let room = width.saturating_sub(1);
    let mut start = line.len();
    let mut columns = 0;
    for _ in 0..SEARCH_CHARS_SHOWN {
        let before = graphemes::previous(line, start);
        let wide = part(line, before..start).width();
        if before == start || columns + wide > room {
            break;
        }
        columns += wide;
        start = before;
    }
    (part(line, start..line.len()).to_owned(), narrow(columns))
}

fn narrow(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
