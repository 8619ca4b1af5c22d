//! Files that changed, as a diff.

use ratatui::text::Line;

use crate::frontend::tui::cells::assistant::{text_width, with_gutter};
use crate::frontend::tui::cells::frame::{counted, paragraph};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::diff::{Fold, View, render_change};
use crate::frontend::tui::theme::Role;
use crate::protocol::{ChangeSource, FileChange};

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
            lines.extend(if is_brief { head(sheet, change) } else { whole(sheet, change) });
        }
        if let more @ 1.. = self.changes.len().saturating_sub(shown) {
            let note = format!("± {} more (Ctrl-T)", counted(more, "file"));
            lines.extend(paragraph(sheet, Role::Dim, &note));
        }
        lines
    }
}

/// Returns the change without its lines: its name and how much it is.
fn head(sheet: Sheet<'_>, change: &FileChange) -> Vec<Line<'static>> {
    let view = View { width: text_width(sheet.width), theme: sheet.theme, fold: Fold::Lines(0) };
    let lines = render_change(change, sheet.cwd, view);
    with_gutter(lines.into_iter().take(1).collect(), sheet.width)
}

fn whole(sheet: Sheet<'_>, change: &FileChange) -> Vec<Line<'static>> {
    let fold = match sheet.folds {
        Folds::Closed => Fold::Lines(DIFF_LINES_MAX),
        Folds::Open => Fold::All,
    };
    let view = View { width: text_width(sheet.width), theme: sheet.theme, fold };
    with_gutter(render_change(change, sheet.cwd, view), sheet.width)
}
