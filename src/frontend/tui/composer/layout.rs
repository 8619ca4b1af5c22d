//! Where text stands on a screen of a given width: rows, columns, and back.
//!
//! Lines break at spaces, a word longer than a row breaks anywhere, and one column is left for
//! the cursor. A line is laid out in stretches of bounded size, so the work does not grow with
//! its length; what lies outside the rows asked for is never looked at. Pure. Used by the
//! composer's view and its vertical motions.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use crate::frontend::tui::composer::graphemes::{self, part};
use crate::frontend::tui::composer::tokens::Tokens;
use crate::text::ansi::{is_invisible, visible_line};

/// Bytes of a line that are laid out together. A longer line also breaks at every multiple, so
/// that a key pressed at its end does not lay out its beginning.
pub(super) const STRETCH_BYTES: usize = 4096;
/// Bytes of one cluster that are shown; marks piled on one letter have no end otherwise.
const CLUSTER_BYTES_MAX: usize = 64;
/// Columns between tab stops.
const TAB_COLUMNS: usize = 4;

/// One row of the screen: a stretch of the text, without the newline that may end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// How a cluster looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Text.
    Text,
    /// A token.
    Token,
    /// A mark in place of what cannot be seen.
    Mark,
}

/// A cluster as it is shown.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) shown: Cow<'a, str>,
    pub(super) width: usize,
    pub(super) look: Look,
}

/// A text and the width it is laid out for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a Tokens,
    pub(super) width: usize,
}

impl<'a> Layout<'a> {
    /// Returns the columns text may fill; the last one is the cursor's.
    fn room(&self) -> usize {
        self.width.saturating_sub(1).max(1)
    }

    /// Returns the cluster at `at` as it is shown when it begins at `column`.
    pub(super) fn piece(&self, at: usize, end: usize, column: usize) -> Piece<'a> {
        let cluster = part(self.text, at..end);
        if matches!(cluster.as_bytes(), [0x20..=0x7E]) {
            return Piece { shown: Cow::Borrowed(cluster), width: 1, look: Look::Text };
        }
        let (shown, look) = match graphemes::first(self.text, at).and_then(|c| self.tokens.get(c)) {
            Some(token) => {
                // Marks behind a token belong to its cluster; they must not hide in it.
                let marks = self.marked(self.text.ceil_char_boundary(at + 1), end).0;
                let look = if token.label().is_some() { Look::Token } else { Look::Text };
                (Cow::Owned(format!("{token}{marks}")), look)
            }
            None if cluster == "\t" => {
                let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
                (Cow::Owned(" ".repeat(spaces.min(self.room()))), Look::Text)
            }
            None => self.marked(at, end),
        };
        let width = shown.width();
        if width == 0 {
            // Nothing to see would be nothing to delete: a mark alone sits on a circle.
            let shown = format!("\u{25CC}{shown}");
            return Piece { width: shown.width(), shown: Cow::Owned(shown), look };
        }
        if width > self.room() {
            let (shown, width) = cut(&shown, self.room());
            return Piece { shown: Cow::Owned(shown), width, look };
        }
        Piece { shown, width, look }
    }

    /// Returns a cluster with what cannot be seen made visible.
    fn marked(&self, at: usize, end: usize) -> (Cow<'a, str>, Look) {
        let cluster = part(self.text, at..end);
        let cluster = part(cluster, 0..cluster.floor_char_boundary(CLUSTER_BYTES_MAX));
        let odd = |c: char| c.is_control() || is_invisible(c);
        if !cluster.chars().any(odd) {
            return (Cow::Borrowed(cluster), Look::Text);
        }
        // A joiner is in its place or not depending on the letter after it.
        let after = graphemes::first(self.text, end).filter(|c| !odd(*c)).map(String::from);
        let after = after.unwrap_or_default();
        let shown = visible_line(&format!("{cluster}{after}")).into_owned();
        let shown = shown.strip_suffix(&after).map(str::to_owned).unwrap_or(shown);
        let look = if shown == cluster { Look::Text } else { Look::Mark };
        (Cow::Owned(shown), look)
    }

    /// Returns the stretch of a line that holds `at`, and whether the line ends with it.
    fn stretch(&self, at: usize) -> (Range<usize>, bool) {
        let (start, end) =
            (graphemes::line_start(self.text, at), graphemes::line_end(self.text, at));
        if end - start <= STRETCH_BYTES {
            return (start..end, true);
        }
        // The end of the line belongs to the stretch before it.
        let inside = if at == end { graphemes::previous(self.text, at) } else { at };
        let number = (inside - start) / STRETCH_BYTES;
        let cut = |number: usize| match number {
            0 => start,
            _ => graphemes::snap(self.text, start + number * STRETCH_BYTES).min(end),
        };
        let from = cut(number).min(inside);
        let to = cut((from - start) / STRETCH_BYTES + 1);
        (from..to, to == end)
    }

    /// Returns the rows of the stretch that holds `at`; at least one.
    pub(super) fn rows(&self, at: usize) -> Vec<Row> {
        let (stretch, ends_line) = self.stretch(at);
        let mut rows = Vec::new();
        let mut start = stretch.start;
        while start < stretch.end {
            let row = self.row(start, stretch.end);
            start = row.end;
            rows.push(row);
        }
        // After a space in the cursor's own column, the next letter would begin a row.
        let full = rows.last().is_some_and(|row| self.column(*row, row.end) > self.room());
        if rows.is_empty() || full && ends_line {
            rows.push(Row { start: stretch.end, end: stretch.end });
        }
        rows
    }

    /// Lays out the row that begins at `start`.
    fn row(&self, start: usize, end: usize) -> Row {
        let mut column = 0;
        let mut at = start;
        let mut break_at = None;
        while at < end {
            let next = graphemes::next(self.text, at).min(end);
            let piece = self.piece(at, next, column);
            let space = matches!(part(self.text, at..next), " " | "\t");
            if column + piece.width > self.room() {
                if space && column + piece.width <= self.width && column > 0 {
                    return Row { start, end: next };
                }
                if column > 0 {
                    let end = break_at.filter(|_| !space).unwrap_or(at);
                    return Row { start, end };
                }
            }
            column += piece.width;
            at = next;
            if space || piece.width > 1 {
                break_at = Some(at);
            }
        }
        Row { start, end: at }
    }

    /// Returns the rows of the stretch around `at` and which of them holds it.
    pub(super) fn row_of(&self, at: usize) -> (Vec<Row>, usize) {
        let rows = self.rows(at);
        let index = rows.iter().rposition(|row| row.start <= at).unwrap_or(0);
        (rows, index)
    }

    /// Returns the column at which `at` stands in a row.
    pub(super) fn column(&self, row: Row, at: usize) -> usize {
        let mut column = 0;
        let mut place = row.start;
        while place < at.min(row.end) {
            let next = graphemes::next(self.text, place).min(row.end);
            column += self.piece(place, next, column).width;
            place = next;
        }
        column
    }

    /// Returns the place in a row nearest to a column from the left.
    pub(super) fn at_column(&self, row: Row, goal: usize) -> usize {
        let mut column = 0;
        let mut place = row.start;
        // The end of a row is the start of the next, unless the line ends there.
        let ends_line = row.end >= self.text.len() || part(self.text, row.end..row.end + 1) == "\n";
        while place < row.end {
            let next = graphemes::next(self.text, place).min(row.end);
            let width = self.piece(place, next, column).width;
            if column + width > goal || next == row.end && !ends_line {
                break;
            }
            column += width;
            place = next;
        }
        place
    }

    /// Returns up to `count` rows above the one at `at`, nearest first.
    pub(super) fn above(&self, at: usize, count: usize) -> Vec<Row> {
        let (mut rows, index) = self.row_of(at);
        rows.truncate(index);
        let mut above: Vec<Row> = rows.into_iter().rev().take(count).collect();
        let mut top = self.stretch(at).0.start;
        while above.len() < count && top > 0 {
            let before = self.rows(graphemes::previous(self.text, top));
            top = before.first().map_or(0, |row| row.start);
            above.extend(before.into_iter().rev().take(count - above.len()));
        }
        above
    }

    /// Returns up to `count` rows below the one at `at`, nearest first.
    pub(super) fn below(&self, at: usize, count: usize) -> Vec<Row> {
        let (rows, index) = self.row_of(at);
        let mut below: Vec<Row> = rows.into_iter().skip(index + 1).take(count).collect();
        let (mut stretch, mut ends_line) = self.stretch(at);
        while below.len() < count && stretch.end < self.text.len() {
            let next = if ends_line { stretch.end + 1 } else { stretch.end };
            below.extend(self.rows(next).into_iter().take(count - below.len()));
            (stretch, ends_line) = self.stretch(next);
        }
        below
    }
}

/// Cuts what is wider than a row, and shows that it is cut.
fn cut(shown: &str, width: usize) -> (String, usize) {
    let mut kept = String::new();
    for c in shown.chars() {
        kept.push(c);
        if kept.width() + 1 > width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    let width = kept.width();
    (kept, width)
}
