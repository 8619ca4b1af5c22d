//! Cells: the entries of the conversation as a person reads them, a file per kind.
//!
//! A cell keeps what it shows as data and lays it out for any width; it is drawn once into the
//! terminal's own scrollback, and again only in the transcript. Made by `update/events.rs`
//! from `Event`s. Must not know the terminal, nor any tool: what a call is comes from `Effect`.

pub(crate) mod answer;
pub(crate) mod assistant;
pub(crate) mod command;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod notice;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod reasoning;
pub(crate) mod tool;
pub(crate) mod turn_end;
pub(crate) mod user;

use std::path::Path;

use ratatui::text::Line;

use crate::frontend::tui::theme::Theme;

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// What the program is and where it works.
    Header(header::HeaderCell),
    /// What the user said.
    User(user::UserCell),
    /// What the model said.
    Assistant(assistant::AssistantCell),
    /// What the model thought.
    Reasoning(reasoning::ReasoningCell),
    /// A command and what it printed.
    Command(command::CommandCell),
    /// Files that changed.
    Patch(patch::PatchCell),
    /// The plan.
    Plan(plan::PlanCell),
    /// Any other call.
    Tool(tool::ToolCell),
    /// Something to know: a warning, an error, an undo.
    Notice(notice::NoticeCell),
    /// A question's answer.
    Answer(answer::AnswerCell),
    /// The end of a turn.
    TurnEnd(turn_end::TurnEndCell),
}

/// What a cell needs to lay itself out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sheet<'a> {
    /// Columns.
    pub width: u16,
    /// Colours.
    pub theme: Theme,
    /// The session's directory: paths below it are shown from it on.
    pub cwd: &'a Path,
    /// Whether long things fold.
    pub folds: Folds,
}

/// Whether long things fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folds {
    /// They do: the conversation.
    Closed,
    /// They are shown whole: the transcript.
    Open,
}

impl Cell {
    /// Returns the cell's lines, none wider than the sheet.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        match self {
            Self::Header(cell) => cell.lines(sheet),
            Self::User(cell) => cell.lines(sheet),
            Self::Assistant(cell) => cell.lines(sheet),
            Self::Reasoning(cell) => cell.lines(sheet),
            Self::Command(cell) => cell.lines(sheet),
            Self::Patch(cell) => cell.lines(sheet),
            Self::Plan(cell) => cell.lines(sheet),
            Self::Tool(cell) => cell.lines(sheet),
            Self::Notice(cell) => cell.lines(sheet),
            Self::Answer(cell) => cell.lines(sheet),
            Self::TurnEnd(cell) => cell.lines(sheet),
        }
    }

    /// Returns whether the cell stands close to one of its kind: calls that only look come in
    /// rows, and a blank line between each would push the rest away.
    pub(crate) fn joins(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::Tool(before), Self::Tool(after)) => before.is_short() && after.is_short(),
            (Self::Answer(_), Self::Command(_) | Self::Patch(_) | Self::Tool(_)) => true,
            _ => false,
        }
    }
}
