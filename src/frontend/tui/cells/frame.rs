//! The common form of cells: a gutter of two columns, a line with a word at its right end, and
//! the one way by which text from outside becomes spans.
//!
//! Knows no cell. Called by all of them, and by `view/`.

use std::path::Path;

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::{width, wrap_with};
use crate::text::ansi::{visible, visible_line};

/// The gutter of most lines.
pub(crate) const GUTTER: &str = "  ";
/// The gutter of what belongs to the line above.
pub(crate) const DEEPER: &str = "    ";
/// Columns beyond which a word at the right end would be lost from sight.
const RIGHT_EDGE_MAX: u16 = 100;
/// Spaces that a tab is shown as.
const TAB: &str = "    ";

/// Returns text from outside as it may be shown: lines stay, nothing else acts.
pub(crate) fn clean(text: &str) -> String {
    visible(text).replace('\t', TAB)
}

/// Returns text from outside as it may be shown on one line.
pub(crate) fn clean_line(text: &str) -> String {
    visible_line(text).replace('\t', TAB)
}

/// Returns a span in a role. The text must be clean.
pub(crate) fn span(theme: Theme, role: Role, text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), theme.style(role))
}

/// Returns the text's lines, wrapped, behind a gutter.
pub(crate) fn paragraph(sheet: Sheet<'_>, role: Role, text: &str) -> Vec<Line<'static>> {
    block(sheet, role, text, (GUTTER, GUTTER))
}

/// Returns the text's lines, wrapped, the first behind one gutter and the rest behind another.
pub(crate) fn block(
    sheet: Sheet<'_>,
    role: Role,
    text: &str,
    gutters: (&str, &str),
) -> Vec<Line<'static>> {
    let text = clean(text);
    let mut first = gutters.0;
    let mut lines = Vec::new();
    for line in text.trim_end_matches('\n').split('\n') {
        let line = Line::from(span(sheet.theme, role, line));
        lines.extend(wrap_with(&line, sheet.width, first, gutters.1));
        first = gutters.1;
    }
    lines
}

/// Returns a line with a word at its right end, on a line of its own where there is no room.
pub(crate) fn with_right(
    sheet: Sheet<'_>,
    left: &Line<'static>,
    right: Vec<Span<'static>>,
) -> Vec<Line<'static>> {
    if right.is_empty() {
        return wrap_with(left, sheet.width, "", DEEPER);
    }
    let edge = usize::from(sheet.width.min(RIGHT_EDGE_MAX));
    let right_width: usize = right.iter().map(|span| width(&span.content)).sum();
    let left_width: usize = left.spans.iter().map(|span| width(&span.content)).sum();
    let mut lines = wrap_with(left, sheet.width, "", DEEPER);
    if left_width + 2 + right_width <= edge
        && let [line] = lines.as_mut_slice()
    {
        line.spans.push(Span::raw(" ".repeat(edge - left_width - right_width)));
        line.spans.extend(right);
        return lines;
    }
    let mut own = vec![Span::raw(DEEPER)];
    own.extend(right);
    lines.extend(wrap_with(&Line::from(own), sheet.width, "", DEEPER));
    lines
}

/// Returns a path as the user thinks of it: from the session's directory on.
pub(crate) fn short_path(path: &Path, cwd: &Path) -> String {
    let below = path.strip_prefix(cwd).unwrap_or(path);
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    clean_line(&below.to_string_lossy())
}

/// Returns a duration as people say it.
pub(crate) fn duration(duration_ms: u64) -> String {
    let seconds = duration_ms / 1000;
    match seconds {
        0..10 => format!("{seconds}.{}s", duration_ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns a number with a `k` or an `M` where it is long.
pub(crate) fn short_number(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Returns `1 line` or `2 lines`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", crate::text::truncate::grouped(count))
}
