//! `Screen`: what the terminal shows of ours, and the bytes that bring it up to date.
//!
//! Finished lines are written once and scroll away the terminal's own way, so its scrollback
//! holds them; below them a few rows change in place. All movement is relative to the rows we
//! wrote, so nobody is asked where the cursor is. A page takes the alternate screen. Of a row
//! only what differs is written. Makes bytes and writes none; called by `run.rs`.

use std::fmt::Write as _;

use ratatui::text::Line;

use crate::frontend::tui::msg::Size;
use crate::frontend::tui::row::Row;
use crate::frontend::tui::view::View;

/// Begins and ends a frame that the terminal shows at once (DEC mode 2026).
const FRAME_BEGIN: &str = "\u{1b}[?2026h";
const FRAME_END: &str = "\u{1b}[?2026l";

/// What the terminal shows of ours.
#[derive(Debug)]
pub(crate) struct Screen {
    size: Size,
    /// Whether the terminal lays lines out anew when it gets narrower.
    reflows: bool,
    /// The rows that may change, from the first one below what is finished.
    rows: Vec<Row>,
    /// Where the cursor is: row of `rows`, and column.
    at: (usize, usize),
    cursor_shown: bool,
    /// The page on the alternate screen.
    page: Option<Page>,
}

/// The alternate screen.
#[derive(Debug)]
struct Page {
    rows: Vec<Row>,
    /// The terminal's size when the page opened: the rows below were laid out for it.
    size_before: Size,
}

impl Screen {
    /// Returns the screen of a terminal whose cursor stands at the beginning of a free line.
    pub(crate) fn new(size: Size, reflows: bool) -> Self {
        Self {
            size,
            reflows,
            rows: vec![Row::default()],
            at: (0, 0),
            cursor_shown: true,
            page: None,
        }
    }

    /// Returns the bytes that print the finished lines and bring the rest up to date.
    ///
    /// While a page is shown nothing is printed: the caller keeps the lines until it is closed.
    pub(crate) fn paint(&mut self, finished: &[Line<'_>], view: &View) -> Vec<u8> {
        let mut out = String::new();
        if view.is_full {
            self.paint_page(&mut out, view);
        } else {
            self.close_page(&mut out);
            self.paint_inline(&mut out, finished, &view.lines);
            // Rows of a view stand at the bottom of ours.
            let above = self.rows.len().saturating_sub(view.lines.len());
            let place = |(column, row): (u16, u16)| (usize::from(row) + above, usize::from(column));
            self.place_cursor(&mut out, view.cursor.map(place));
        }
        framed(&out)
    }

    /// Returns the bytes that forget what was drawn, after the terminal took another size.
    pub(crate) fn resize(&mut self, size: Size) -> Vec<u8> {
        let mut out = String::new();
        if let Some(page) = &mut self.page {
            page.rows.clear();
            out.push_str("\u{1b}[2J");
        } else {
            let before = self.size;
            self.erase_reflowed(&mut out, before, size);
        }
        self.size = size;
        out.into_bytes()
    }

    /// Returns the bytes that remove what may change and leave the cursor where the next line
    /// goes; for the end, and for going to the background.
    pub(crate) fn clear(&mut self) -> Vec<u8> {
        let mut out = String::new();
        self.close_page(&mut out);
        self.move_to(&mut out, 0, 0);
        out.push_str("\u{1b}[J");
        if !std::mem::replace(&mut self.cursor_shown, true) {
            out.push_str("\u{1b}[?25h");
        }
        self.forget();
        out.into_bytes()
    }

    /// Takes the cursor's row as a free line: after someone else wrote to the terminal.
    pub(crate) fn forget(&mut self) {
        self.rows = vec![Row::default()];
        self.at = (0, 0);
    }

    fn paint_inline(&mut self, out: &mut String, finished: &[Line<'_>], live: &[Line<'_>]) {
        let width = usize::from(self.size.width);
        let mut rows: Vec<Row> = finished.iter().map(|line| Row::new(line, width)).collect();
        let done = rows.len();
        let mut live: Vec<Row> = live.iter().map(|line| Row::new(line, width)).collect();
        if live.is_empty() {
            live.push(Row::default());
        }
        if done + live.len() > usize::from(self.size.height) {
            return self.write_through(out, &rows, live);
        }
        // What became shorter is filled up at its top: what stands at the bottom stays there.
        let padding = self.rows.len().saturating_sub(done + live.len());
        rows.extend(std::iter::repeat_n(Row::default(), padding));
        rows.append(&mut live);
        self.grow_to(out, &rows);
        for (index, row) in rows.iter().enumerate() {
            self.write_row(out, index, row);
        }
        self.drop_finished(rows, done);
    }

    /// Makes room for more rows, above those at the bottom that stay as they are.
    fn grow_to(&mut self, out: &mut String, rows: &[Row]) {
        let more = rows.len().saturating_sub(self.rows.len());
        if more == 0 {
            return;
        }
        let same =
            self.rows.iter().rev().zip(rows.iter().rev()).take_while(|(a, b)| a == b).count();
        let last = self.rows.len() - 1;
        self.move_to(out, last, 0);
        out.push_str(&"\n".repeat(more));
        self.at = (last + more, 0);
        let place = self.rows.len() - same;
        if same > 0 {
            self.move_to(out, place, 0);
            let _ = write!(out, "\u{1b}[{more}L\r");
            self.at.1 = 0;
        }
        self.rows.splice(place..place, std::iter::repeat_n(Row::default(), more));
    }

    /// Writes more than a screen holds: all of it from the top, scrolling as it goes.
    fn write_through(&mut self, out: &mut String, finished: &[Row], live: Vec<Row>) {
        self.move_to(out, 0, 0);
        out.push_str("\u{1b}[J");
        for row in finished {
            row.write(out, 0);
            out.push_str("\r\n");
        }
        for (index, row) in live.iter().enumerate() {
            if index > 0 {
                out.push_str("\r\n");
            }
            row.write(out, 0);
        }
        out.push('\r');
        self.at = (live.len() - 1, 0);
        self.rows = live;
    }

    /// Finished rows are the terminal's from now on.
    fn drop_finished(&mut self, mut rows: Vec<Row>, done: usize) {
        rows.drain(..done);
        self.rows = rows;
        // The cursor may stand in a finished row: rows above the first count as negative.
        self.at.0 = self.at.0.wrapping_sub(done);
    }

    /// Brings one row up to date.
    fn write_row(&mut self, out: &mut String, index: usize, row: &Row) {
        let Some(old) = self.rows.get(index).filter(|old| *old != row).cloned() else { return };
        let width = usize::from(self.size.width);
        let (bytes, column) = row.shared_with(&old);
        self.move_to(out, index, column);
        row.write(out, bytes);
        if row.width() < width && (old.width() > row.width() || !old.is_simple()) {
            out.push_str("\u{1b}[K");
        }
        // Where the cursor stands after the last column differs between terminals.
        self.at = (index, usize::MAX);
        if let Some(place) = self.rows.get_mut(index) {
            place.clone_from(row);
        }
    }

    fn place_cursor(&mut self, out: &mut String, cursor: Option<(usize, usize)>) {
        let Some((row, column)) = cursor else {
            // It rests in a row of ours, so that rows are counted from there.
            if self.at.0 >= self.rows.len() {
                self.move_to(out, self.rows.len() - 1, 0);
            }
            if std::mem::replace(&mut self.cursor_shown, false) {
                out.push_str("\u{1b}[?25l");
            }
            return;
        };
        self.move_to(out, row, column);
        if !std::mem::replace(&mut self.cursor_shown, true) {
            out.push_str("\u{1b}[?25h");
        }
    }

    fn move_to(&mut self, out: &mut String, row: usize, column: usize) {
        let (from, at) = self.at;
        // Signed on purpose: the cursor may stand above the first row.
        let steps = row.wrapping_sub(from).cast_signed();
        match steps {
            0 => {}
            1.. => _ = write!(out, "\u{1b}[{steps}B"),
            _ => _ = write!(out, "\u{1b}[{}A", steps.unsigned_abs()),
        }
        if at != column {
            match column {
                0 => out.push('\r'),
                _ => _ = write!(out, "\u{1b}[{}G", column + 1),
            }
        }
        self.at = (row, column);
    }

    /// Erases rows that the terminal may have laid out anew for another width.
    fn erase_reflowed(&mut self, out: &mut String, before: Size, now: Size) {
        let width = usize::from(now.width).max(1);
        let shrinks = self.reflows && now.width < before.width;
        let above = self.rows.iter().take(self.at.0).map(|row| match shrinks {
            true => row.width().div_ceil(width).max(1),
            false => 1,
        });
        let mut up: usize = above.sum();
        if shrinks {
            up += self.at.1.min(usize::from(before.width)).saturating_sub(1) / width;
        }
        let up = up.min(usize::from(now.height).saturating_sub(1));
        if up > 0 {
            let _ = write!(out, "\u{1b}[{up}A");
        }
        out.push_str("\r\u{1b}[J");
        self.forget();
    }

    fn paint_page(&mut self, out: &mut String, view: &View) {
        let width = usize::from(self.size.width);
        let size_before = self.size;
        let page = self.page.get_or_insert_with(|| {
            out.push_str("\u{1b}[?1049h\u{1b}[2J");
            Page { rows: Vec::new(), size_before }
        });
        if std::mem::replace(&mut self.cursor_shown, false) {
            out.push_str("\u{1b}[?25l");
        }
        page.rows.resize(view.lines.len().max(page.rows.len()), Row::default());
        for (index, old) in page.rows.iter_mut().enumerate() {
            let row = view.lines.get(index).map(|line| Row::new(line, width)).unwrap_or_default();
            if *old == row {
                continue;
            }
            let (bytes, column) = row.shared_with(old);
            let _ = write!(out, "\u{1b}[{};{}H", index + 1, column + 1);
            row.write(out, bytes);
            if row.width() < width {
                out.push_str("\u{1b}[K");
            }
            *old = row;
        }
    }

    fn close_page(&mut self, out: &mut String) {
        let Some(page) = self.page.take() else { return };
        out.push_str("\u{1b}[?1049l");
        if page.size_before != self.size {
            let now = self.size;
            self.erase_reflowed(out, page.size_before, now);
        }
    }
}

fn framed(body: &str) -> Vec<u8> {
    if body.is_empty() {
        return Vec::new();
    }
    format!("{FRAME_BEGIN}{body}{FRAME_END}").into_bytes()
}
