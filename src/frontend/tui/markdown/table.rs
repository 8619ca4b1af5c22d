//! Lays tables out: columns as wide as they need, narrower where they must be, and one cell
//! under the other where even that does not fit.
//!
//! No bars, so that a copied cell is the cell. Called by `layout.rs`.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::frontend::tui::markdown::blocks::{Inline, Table};
use crate::frontend::tui::markdown::inline::draw_inline;
use crate::frontend::tui::markdown::scan::Align;
use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::{Indent, width, wrap_line, wrap_styled};

/// Columns between two columns.
const GAP_COLUMNS: usize = 2;

/// A column is not made narrower than its longest word, or than this.
const SHRUNK_COLUMNS_MIN: usize = 20;

type Cell = Vec<Line<'static>>;

/// Returns the lines of the table, at most so wide.
pub(super) fn draw_table(table: &Table, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let bold = theme.style(Role::Heading).add_modifier(Modifier::BOLD);
    let draw = |text: &String, style: Style| {
        draw_inline(&Inline { text: text.clone(), breaks: Vec::new() }, style, theme)
    };
    let header: Vec<Cell> = table.header.iter().map(|cell| draw(cell, bold)).collect();
    let text = theme.style(Role::Text);
    let rows: Vec<Vec<Cell>> =
        table.rows.iter().map(|row| row.iter().map(|cell| draw(cell, text)).collect()).collect();
    let Some(widths) = fit(&header, &rows, columns) else {
        return stack(&header, &rows, columns, table.is_first);
    };
    let mut lines = Vec::new();
    if table.is_first {
        lines.extend(draw_row(&header, &widths, &table.aligns));
        let dashes: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
        lines.push(Line::styled(dashes.join("  "), theme.style(Role::Dim)));
    }
    lines.extend(rows.iter().flat_map(|row| draw_row(row, &widths, &table.aligns)));
    lines
}

/// Returns how wide each column is; `None` where they do not fit beside each other.
fn fit(header: &[Cell], rows: &[Vec<Cell>], columns: usize) -> Option<Vec<usize>> {
    let gaps = GAP_COLUMNS * header.len().saturating_sub(1);
    let room = columns.checked_sub(gaps)?;
    let column = |place: usize| rows.iter().filter_map(move |row| row.get(place));
    let cells = |place: usize| header.get(place).into_iter().chain(column(place)).flatten();
    let wanted: Vec<usize> = (0..header.len())
        .map(|place| cells(place).map(line_width).max().unwrap_or(0).max(1))
        .collect();
    let mut widths: Vec<usize> = (0..header.len())
        .zip(&wanted)
        .map(|(place, wanted)| {
            let word = cells(place).map(longest_word).max().unwrap_or(0);
            (*wanted).min(word.clamp(1, SHRUNK_COLUMNS_MIN))
        })
        .collect();
    if wanted.iter().sum::<usize>() <= room {
        return Some(wanted);
    }
    let mut left = room.checked_sub(widths.iter().sum())?;
    // The column that lacks most gets the next one, until none is left.
    while left > 0 {
        let lacks = |(wanted, width): (&usize, &usize)| wanted.saturating_sub(*width);
        let most = wanted.iter().zip(&widths).map(lacks).enumerate().max_by_key(|(_, lack)| *lack);
        let Some((place, 1..)) = most else { break };
        if let Some(width) = widths.get_mut(place) {
            *width += 1;
        }
        left -= 1;
    }
    Some(widths)
}

fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

fn longest_word(line: &Line<'_>) -> usize {
    line.to_string().split_whitespace().map(width).max().unwrap_or(0)
}

fn draw_row(row: &[Cell], widths: &[usize], aligns: &[Align]) -> Vec<Line<'static>> {
    let cells: Vec<Cell> =
        row.iter().zip(widths).map(|(cell, width)| wrap_cell(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let draw_line = |line: usize| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        // Spaces are owed until something stands behind them.
        let mut owed = 0;
        for ((cell, columns), align) in cells.iter().zip(widths).zip(aligns) {
            let text = cell.get(line).cloned().unwrap_or_default();
            let free = columns.saturating_sub(line_width(&text));
            let before = match align {
                Align::Left => 0,
                Align::Centre => free / 2,
                Align::Right => free,
            };
            if text.spans.is_empty() {
                owed += columns + GAP_COLUMNS;
                continue;
            }
            spans.push(Span::raw(" ".repeat(owed + before)));
            spans.extend(text.spans);
            owed = free - before + GAP_COLUMNS;
        }
        Line::from(spans)
    };
    (0..height).map(draw_line).collect()
}

fn wrap_cell(cell: &Cell, columns: usize) -> Cell {
    let columns = u16::try_from(columns).unwrap_or(u16::MAX);
    cell.iter().flat_map(|line| wrap_line(line, columns)).collect()
}

/// Returns each row as lines of `header: cell`.
fn stack(
    header: &[Cell],
    rows: &[Vec<Cell>],
    columns: usize,
    is_first: bool,
) -> Vec<Line<'static>> {
    let columns = u16::try_from(columns).unwrap_or(u16::MAX);
    let indent = Indent { first: Vec::new(), rest: vec![Span::raw("  ")] };
    let inside = Indent { first: vec![Span::raw("  ")], rest: vec![Span::raw("  ")] };
    let mut lines = Vec::new();
    if rows.is_empty() && is_first {
        return header.iter().flatten().flat_map(|line| wrap_line(line, columns)).collect();
    }
    for (place, row) in rows.iter().enumerate() {
        if place > 0 || !is_first {
            lines.push(Line::default());
        }
        for (name, cell) in header.iter().zip(row) {
            let mut named: Vec<Span<'static>> = Vec::new();
            for line in name {
                named.extend(line.spans.iter().cloned());
            }
            if !named.is_empty() {
                named.push(Span::raw(": "));
            }
            let mut parts = cell.iter();
            named.extend(parts.next().into_iter().flat_map(|line| line.spans.iter().cloned()));
            lines.extend(wrap_styled(&Line::from(named), columns, &indent));
            lines.extend(parts.flat_map(|line| wrap_styled(line, columns, &inside)));
        }
    }
    lines
}
