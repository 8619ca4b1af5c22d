//! Files that changed, as a diff.

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::command::more_note;
use crate::frontend::tui::cells::frame::{DEEPER, block, counted, short_path, span};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::standin::wrap::wrap_with;
use crate::frontend::tui::theme::Role;
use crate::protocol::{ChangeKind, ChangeSource, FileChange};

/// Lines of one file's diff that the conversation shows.
const DIFF_LINES_MAX: usize = 40;
/// Files of one change that the conversation shows with their lines.
const FILES_MAX: usize = 12;

/// Files that changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PatchCell {
    /// By whom.
    pub by: ChangeSource,
    /// What.
    pub changes: Vec<FileChange>,
}

impl PatchCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let is_folded = sheet.folds == Folds::Closed;
        // What a command changed is told by name; its diff is in the transcript.
        let is_brief = is_folded && self.by == ChangeSource::Command;
        let shown = if is_folded { FILES_MAX } else { usize::MAX };
        let mut lines = Vec::new();
        for change in self.changes.iter().take(shown) {
            lines.extend(head(sheet, change));
            if !is_brief {
                lines.extend(body(sheet, change));
            }
        }
        if let more @ 1.. = self.changes.len().saturating_sub(shown) {
            let note = format!("  ± {} more (Ctrl-T)", counted(more, "file"));
            lines.push(Line::from(span(sheet.theme, Role::Dim, note)));
        }
        lines
    }
}

/// Returns how many lines came and went.
pub(crate) fn count_changes(diff: &str) -> (usize, usize) {
    let count = |sign: char, header: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(header)).count()
    };
    (count('+', "+++ "), count('-', "--- "))
}

fn head(sheet: Sheet<'_>, change: &FileChange) -> Vec<Line<'static>> {
    let (added, removed) = count_changes(&change.diff);
    let mut name = short_path(&change.path, sheet.cwd);
    if let Some(to) = &change.move_to {
        name.push_str(&format!(" → {}", short_path(to, sheet.cwd)));
    }
    let kind = match change.kind {
        ChangeKind::Add => "  new",
        ChangeKind::Delete => "  deleted",
        ChangeKind::Update => "",
    };
    let line = Line::from(vec![
        span(sheet.theme, Role::Accent, "  ± "),
        span(sheet.theme, Role::Text, name),
        span(sheet.theme, Role::Dim, kind),
        Span::raw("  "),
        span(sheet.theme, Role::Good, format!("+{added}")),
        Span::raw(" "),
        span(sheet.theme, Role::Bad, format!("−{removed}")),
    ]);
    wrap_with(&line, sheet.width, "", DEEPER)
}

fn body(sheet: Sheet<'_>, change: &FileChange) -> Vec<Line<'static>> {
    let all: Vec<&str> = change
        .diff
        .lines()
        .filter(|line| !line.starts_with("--- ") && !line.starts_with("+++ "))
        .collect();
    let shown = match sheet.folds {
        Folds::Closed if all.len() > DIFF_LINES_MAX => DIFF_LINES_MAX - 1,
        Folds::Closed | Folds::Open => all.len(),
    };
    let mut lines = Vec::new();
    for line in all.iter().take(shown) {
        let role = match line.bytes().next() {
            Some(b'+') => Role::Added,
            Some(b'-') => Role::Removed,
            Some(b'@') => Role::Dim,
            _ => Role::Text,
        };
        lines.extend(block(sheet, role, line, (DEEPER, "      ")));
    }
    if shown < all.len() {
        lines.push(more_note(sheet.theme, all.len() - shown));
    }
    lines
}
