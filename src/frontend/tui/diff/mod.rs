//! Changes of files as lines of the screen.
//!
//! Reads what `Effect::Write` and `FilesChanged` carry: sections of the patch grammar before
//! an edit, unified diffs after it. Every line of the text is shown or counted. Work is
//! bounded by what is shown. Knows no terminal; gutters are the cell's. Called by the cells.

mod draw;
mod parse;
mod words;

use std::path::Path;

use ratatui::text::{Line, Span};

use crate::frontend::tui::diff::draw::{Canvas, draw_rows};
use crate::frontend::tui::diff::parse::{FileDiff, Sign, Whole, parse_files};
use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::{Indent, shown, wrap_styled};
use crate::protocol::{ChangeKind, FileChange};

/// How much of a file's change is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    /// All of it: what is to be decided about is never folded.
    All,
    /// So many lines of its beginning and its end; the rest is counted.
    Lines(usize),
}

/// What a change is drawn with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// Columns.
    pub width: u16,
    /// The colours.
    pub theme: Theme,
    /// How much of it.
    pub fold: Fold,
}

/// Returns the lines of a patch or a diff, of one file or of several.
pub(crate) fn render_diff(patch: &str, width: u16, theme: Theme, fold: Fold) -> Vec<Line<'static>> {
    let view = View { width, theme, fold };
    parse_files(patch).iter().flat_map(|file| draw_file(file, view)).collect()
}

/// Returns the lines of one file's change, which may carry no text: a move, or one too large.
pub(crate) fn render_change(change: &FileChange, cwd: &Path, view: View) -> Vec<Line<'static>> {
    let mut files = parse_files(&change.diff);
    let name = |path: &Path| path.strip_prefix(cwd).unwrap_or(path).display().to_string();
    // A text that names several files is shown as it is: what it says must not be lost.
    if files.len() > 1 {
        return files.iter().flat_map(|file| draw_file(file, view)).collect();
    }
    let mut file = files.pop().unwrap_or_default();
    file.path = name(&change.path);
    file.move_to = change.move_to.as_deref().map(name);
    file.whole = match change.kind {
        ChangeKind::Add => Some(Whole::New),
        ChangeKind::Delete => Some(Whole::Deleted),
        ChangeKind::Update => None,
    };
    draw_file(&file, view)
}

fn draw_file(file: &FileDiff<'_>, view: View) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if !file.path.is_empty() {
        lines.extend(draw_header(file, view));
    }
    let canvas = Canvas::new(file, view);
    for note in &file.notes {
        lines.extend(canvas.draw_note(note));
    }
    lines.extend(draw_rows(file, &canvas));
    lines
}

/// Returns `± path → new path  new  +3 −1`.
fn draw_header(file: &FileDiff<'_>, view: View) -> Vec<Line<'static>> {
    let style = |role| view.theme.style(role);
    let mut spans = vec![
        Span::styled("± ", style(Role::Accent)),
        Span::styled(shown(&file.path).into_owned(), style(Role::Text)),
    ];
    if let Some(target) = &file.move_to {
        spans.push(Span::styled(format!(" → {}", shown(target)), style(Role::Text)));
    }
    let word = match file.whole {
        Some(Whole::New) => "  new",
        Some(Whole::Deleted) => "  deleted",
        None => "",
    };
    if !word.is_empty() {
        spans.push(Span::styled(word, style(Role::Dim)));
    }
    let (added, removed) = file.counts();
    if (added, removed) != (0, 0) {
        spans.push(Span::styled(format!("  +{added}"), style(Role::Added)));
        spans.push(Span::styled(format!(" −{removed}"), style(Role::Removed)));
    }
    let indent = Indent { first: Vec::new(), rest: vec![Span::raw("  ")] };
    wrap_styled(&Line::from(spans), view.width, &indent)
}

/// Returns what a line of a file is preceded by.
fn sign_text(sign: Sign) -> &'static str {
    match sign {
        Sign::Added => "+",
        Sign::Removed => "-",
        Sign::Context | Sign::Note => " ",
    }
}

#[cfg(test)]
mod tests;
