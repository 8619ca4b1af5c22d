//! Draws one block at a width: what stands before it, its lines, and the room above it.
//!
//! Pure. Called by `mod.rs` for each block of `blocks.rs`.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::frontend::tui::highlight::{Tokens, styled};
use crate::frontend::tui::markdown::blocks::{Block, Inline, Kind, Lead};
use crate::frontend::tui::markdown::inline::draw_inline;
use crate::frontend::tui::markdown::table::draw_table;
use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::{Indent, width as width_of, wrap_styled};

/// A rule is a pause, not a wall: a full line would wrap when the window shrinks.
const RULE_COLUMNS: usize = 24;

/// What blocks are drawn with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    /// Columns; at least one.
    pub width: u16,
    pub theme: Theme,
}

/// Appends the block's lines.
pub(super) fn draw_block(block: &Block, page: Page, lines: &mut Vec<Line<'static>>) {
    if let Some(shared) = block.gap {
        lines.push(draw_gap(block.leads.get(..shared).unwrap_or_default(), page));
    }
    let indent = indent_of(&block.leads, page.theme);
    match &block.kind {
        Kind::Text(inline) => {
            draw_text(inline, page.theme.style(Role::Text), (page, indent), lines);
        }
        Kind::Heading(level, inline) => {
            draw_text(inline, heading_style(*level, page.theme), (page, indent), lines);
        }
        Kind::Code(tokens) => lines.extend(draw_code(tokens, page, indent)),
        Kind::Table(table) => {
            let lead = block.leads.iter().map(|lead| width_of(&lead.rest)).sum::<usize>();
            let columns = usize::from(page.width.max(1));
            let table = draw_table(table, columns - lead.min(columns / 2), page.theme);
            draw_lines(&table, (page, indent), lines);
        }
        Kind::Rule => {
            let rule = Line::styled("─".repeat(RULE_COLUMNS), page.theme.style(Role::Dim));
            lines.extend(wrap_styled(&rule, page.width, &indent).into_iter().take(1));
        }
    }
}

fn draw_gap(leads: &[Lead], page: Page) -> Line<'static> {
    let mut spans = indent_of(leads, page.theme).rest;
    while spans.last().is_some_and(|span| span.content.trim().is_empty()) {
        spans.pop();
    }
    if let Some(last) = spans.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    wrap_styled(&Line::from(spans), page.width, &Indent::default()).swap_remove(0)
}

fn indent_of(leads: &[Lead], theme: Theme) -> Indent {
    let span = |text: &String, role| Span::styled(text.clone(), theme.style(role));
    Indent {
        first: leads.iter().map(|lead| span(&lead.first, lead.role)).collect(),
        rest: leads.iter().map(|lead| span(&lead.rest, lead.role)).collect(),
    }
}

fn heading_style(level: u8, theme: Theme) -> Style {
    let style = theme.style(Role::Heading).add_modifier(Modifier::BOLD);
    match level {
        1 => style.add_modifier(Modifier::UNDERLINED),
        2 => style,
        _ => style.add_modifier(Modifier::ITALIC),
    }
}

fn draw_text(
    inline: &Inline,
    style: Style,
    (page, indent): (Page, Indent),
    lines: &mut Vec<Line<'static>>,
) {
    draw_lines(&draw_inline(inline, style, page.theme), (page, indent), lines);
}

/// Appends lines that belong together: only the first has the first indent.
fn draw_lines(
    rows: &[Line<'static>],
    (page, mut indent): (Page, Indent),
    lines: &mut Vec<Line<'static>>,
) {
    for row in rows {
        lines.extend(wrap_styled(row, page.width, &indent));
        indent.first.clone_from(&indent.rest);
    }
}

/// Returns a line of code; where it is cut, the rest is indented as it is.
fn draw_code(tokens: &Tokens, page: Page, mut indent: Indent) -> Vec<Line<'static>> {
    let text = tokens.iter().map(|token| token.1.as_str()).collect::<String>();
    let spaces = text.len() - text.trim_start_matches(' ').len();
    let lead: usize = indent.rest.iter().map(|span| width_of(&span.content)).sum();
    // A deep indent leaves room for the code.
    let room = (usize::from(page.width) / 2).saturating_sub(lead);
    indent.rest.push(Span::raw(" ".repeat(spaces.min(room))));
    wrap_styled(&styled(tokens.clone(), page.theme), page.width, &indent)
}
