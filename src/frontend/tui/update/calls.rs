//! Calls: from their begin over what they print to their end, as cells.
//!
//! What a call is comes from its `Effect` alone; no tool is known by name. Called by
//! `events.rs`.

use crate::frontend::tui::cells::Cell;
use crate::frontend::tui::cells::command::{CommandCell, CommandEnd, Printed};
use crate::frontend::tui::cells::patch::PatchCell;
use crate::frontend::tui::cells::tool::{RESULT_BYTES_MAX, ToolCell};
use crate::frontend::tui::model::{Model, OpenCall, OpenCell};
use crate::protocol::{
    CallId, CallOutcome, ChangeSource, Effect, FileChange, ToolCall, ToolName, ToolOutput,
};
use crate::text::ansi::strip;
use crate::text::truncate::bound;

/// How a call ended.
pub(super) struct End {
    pub(super) tool: ToolName,
    pub(super) outcome: CallOutcome,
    pub(super) output: ToolOutput,
    pub(super) duration_ms: u64,
    pub(super) code: Option<String>,
}

/// Takes in that another command runs in the place of a call's own.
pub(super) fn change_command(model: &mut Model, id: Option<&CallId>, text: &str) {
    let open = model.calls.iter_mut().find(|open| Some(&open.id) == id);
    if let Some(OpenCell::Command(cell)) = open.map(|open| &mut open.cell) {
        text.clone_into(&mut cell.command);
    }
}

/// Takes in that a call runs.
pub(super) fn begin(model: &mut Model, call: ToolCall, effect: Effect) {
    // A call that is run again outside the sandbox begins twice.
    if let Some(again) = model.calls.iter_mut().find(|open| open.id == call.call_id) {
        if let OpenCell::Command(cell) = &mut again.cell {
            cell.printed = Printed::default();
        }
        return;
    }
    let cell = match &effect {
        Effect::Run { command, .. } => OpenCell::Command(CommandCell {
            command: command.shown(),
            printed: Printed::default(),
            end: None,
        }),
        _ => OpenCell::Tool(ToolCell {
            name: call.name.to_string(),
            effect: Some(effect.clone()),
            result: String::new(),
            end: None,
        }),
    };
    let started_ms = model.now_ms;
    model.calls.push(OpenCall { id: call.call_id, effect, cell, started_ms, changes: Vec::new() });
}

/// Takes in what a call printed.
pub(super) fn print(model: &mut Model, id: Option<&CallId>, text: &str) {
    let open = model.calls.iter_mut().find(|open| Some(&open.id) == id);
    if let Some(OpenCall { cell: OpenCell::Command(cell), .. }) = open {
        cell.printed.push(text);
    }
}

/// Takes in files that changed: at once, or below the command that changed them.
pub(super) fn change_files(
    model: &mut Model,
    id: Option<&CallId>,
    by: ChangeSource,
    changes: Vec<FileChange>,
) {
    let open = model.calls.iter_mut().find(|open| Some(&open.id) == id);
    match open {
        Some(open) if by == ChangeSource::Command => open.changes.extend(changes),
        Some(_) | None => model.add(Cell::Patch(PatchCell { by, changes })),
    }
}

/// Takes in that a call ended.
pub(super) fn end(model: &mut Model, id: Option<&CallId>, end: &End) {
    let at = model.calls.iter().position(|open| Some(&open.id) == id);
    let open = at.map(|at| model.calls.remove(at));
    let text = strip(&end.output.joined_text()).into_owned();
    let ending = CommandEnd {
        outcome: end.outcome,
        exit_code: end.output.exit_code,
        duration_ms: end.duration_ms,
        by_sandbox: end.code.as_deref() == Some("sandbox_denied"),
        reason: None,
    };
    let Some(open) = open else {
        // It never began: refused, unknown, or with bad arguments.
        let cell = ToolCell {
            name: end.tool.to_string(),
            effect: None,
            result: bound(&text, RESULT_BYTES_MAX),
            end: Some(ending),
        };
        return model.add(Cell::Tool(cell));
    };
    match open.cell {
        OpenCell::Command(mut cell) => {
            // A log holds what the model was told, not each piece as it came.
            if cell.printed.count() == 0
                && let Some((_, printed)) = text.split_once("\nOutput:\n")
            {
                cell.printed.push(printed);
            }
            let says_why = end.outcome != CallOutcome::Completed && end.output.exit_code.is_none();
            let reason = says_why.then(|| bound(&text, RESULT_BYTES_MAX));
            cell.end =
                Some(CommandEnd { reason: reason.filter(|_| cell.printed.count() == 0), ..ending });
            model.add(Cell::Command(cell));
        }
        OpenCell::Tool(mut cell) => {
            // `FilesChanged` and `PlanUpdated` said it better.
            let is_told = matches!(open.effect, Effect::Write { .. } | Effect::None);
            if !(is_told && end.outcome == CallOutcome::Completed) {
                cell.result = bound(&text, RESULT_BYTES_MAX);
                cell.end = Some(ending);
                model.add(Cell::Tool(cell));
            }
        }
    }
    if !open.changes.is_empty() {
        let changes = open.changes;
        model.add(Cell::Patch(PatchCell { by: ChangeSource::Command, changes }));
    }
}

/// Forgets calls whose end never came. A turn ends after all of its calls, so there is none
/// unless a log was cut off.
pub(super) fn end_all(model: &mut Model) {
    model.calls.clear();
}
