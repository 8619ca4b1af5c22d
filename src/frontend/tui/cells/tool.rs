//! Any call that is neither a command nor an edit: reads, MCP tools, agents, fetches.
//!
//! One line says what it is about, from its `Effect`; what came of it only when it went wrong,
//! or in the transcript.

use ratatui::text::Line;

use crate::frontend::tui::cells::command::{CommandEnd, more_note};
use crate::frontend::tui::cells::frame::{DEEPER, block, clean_line, short_path, span, with_right};
use crate::frontend::tui::cells::{Folds, Sheet};
use crate::frontend::tui::theme::Role;
use crate::protocol::{CallOutcome, Effect};

/// Lines of a failure that the conversation shows.
const FAILURE_LINES_MAX: usize = 6;
/// Bytes of a result that the transcript keeps.
pub(crate) const RESULT_BYTES_MAX: usize = 32 * 1024;

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCell {
    /// The tool's name.
    pub name: String,
    /// What it was about; `None` when the call never began.
    pub effect: Option<Effect>,
    /// What came of it.
    pub result: String,
    /// How it ended; `None` while it runs.
    pub end: Option<CommandEnd>,
}

impl ToolCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let ended_well = self.end.as_ref().is_none_or(|end| end.outcome == CallOutcome::Completed);
        let right = match &self.end {
            Some(end) if !ended_well => end.spans(sheet.theme),
            Some(_) | None => Vec::new(),
        };
        let left = Line::from(vec![
            span(sheet.theme, Role::Dim, "  "),
            span(sheet.theme, Role::Dim, self.title(sheet)),
        ]);
        let mut lines = with_right(sheet, &left, right);
        let shown = match (sheet.folds, ended_well) {
            (Folds::Open, _) => usize::MAX,
            (Folds::Closed, true) => 0,
            (Folds::Closed, false) => FAILURE_LINES_MAX,
        };
        let body = self.result.trim_end();
        if shown > 0 && !body.is_empty() {
            let all = block(sheet, Role::Dim, body, (DEEPER, DEEPER));
            let more = all.len().saturating_sub(shown);
            lines.extend(all.into_iter().take(shown));
            if more > 0 {
                lines.extend(more_note(sheet, more));
            }
        }
        lines
    }

    /// Returns whether it takes one line alone.
    pub(crate) fn is_short(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.outcome == CallOutcome::Completed)
    }

    /// Returns what the call is about, on one line.
    pub(crate) fn title(&self, sheet: Sheet<'_>) -> String {
        let name = clean_line(&self.name);
        match &self.effect {
            Some(effect) => title_of(effect, &name, sheet),
            None => name,
        }
    }
}

/// Returns what a call is about, on one line.
pub(crate) fn title_of(effect: &Effect, name: &str, sheet: Sheet<'_>) -> String {
    match effect {
        Effect::Read { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| short_path(path, sheet.cwd)).collect();
            format!("{} {}", clean_line(name), paths.join(" "))
        }
        Effect::Run { command, .. } => {
            clean_line(command.shown().trim().lines().next().unwrap_or_default())
        }
        Effect::Write { changes } => {
            let paths: Vec<String> =
                changes.iter().map(|change| short_path(&change.path, sheet.cwd)).collect();
            format!("edit {}", paths.join(" "))
        }
        Effect::Input { process } => format!("input to command {process}"),
        Effect::Fetch { url } => format!("fetch {}", clean_line(url)),
        Effect::Remote { server, tool, .. } => {
            format!("{} {}", clean_line(server), clean_line(tool))
        }
        Effect::Agent { role } => format!("agent {}", clean_line(role)),
        Effect::None => clean_line(name),
    }
}
