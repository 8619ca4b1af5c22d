//! What pagers show, laid out for the width there is. Only what is new is laid out again.

use ratatui::text::Line;

use crate::frontend::tui::cells::frame::{clean_line, counted, paragraph, short_number, span};
use crate::frontend::tui::cells::patch::PatchCell;
use crate::frontend::tui::cells::{Cell, Folds, Sheet};
use crate::frontend::tui::keymap::Keyboard;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Pager, Subject};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::update::commands::{COMMANDS, mode_name};
use crate::frontend::tui::view::{approval_word, pager_height, place, sandbox_word};
use crate::frontend::tui::wrap::{width, wrap_with};
use crate::protocol::ChangeSource;

/// Opens a page.
pub(super) fn open(model: &mut Model, subject: Subject) {
    model.overlays.push(Overlay::Pager(Pager::new(subject)));
    refresh(model);
}

/// Lays the topmost page out where it is not up to date.
pub(super) fn refresh(model: &mut Model) {
    let Some(Overlay::Pager(_)) = model.overlays.last() else { return };
    let Some(Overlay::Pager(mut pager)) = model.overlays.pop() else { return };
    let sheet = Sheet { folds: pager.folds, ..model.sheet() };
    let is_stale = pager.width != sheet.width;
    match pager.subject {
        Subject::Transcript => {
            if is_stale {
                pager.lines.clear();
                pager.starts.clear();
                pager.cells = 0;
            }
            append_cells(&mut pager, &model.cells, sheet);
        }
        Subject::Help if is_stale => pager.lines = help_lines(model, sheet),
        Subject::Diff if is_stale => pager.lines = diff_lines(model, sheet),
        Subject::Status => pager.lines = status_lines(model, sheet),
        Subject::Help | Subject::Diff => {}
    }
    pager.width = sheet.width;
    let top_max = pager.top_max(pager_height(model.size));
    pager.top = if pager.follows { top_max } else { pager.top.min(top_max) };
    model.overlays.push(Overlay::Pager(pager));
}

fn append_cells(pager: &mut Pager, cells: &[Cell], sheet: Sheet<'_>) {
    for (index, cell) in cells.iter().enumerate().skip(pager.cells) {
        let before = index.checked_sub(1).and_then(|before| cells.get(before));
        if before.is_some_and(|before| !cell.joins(before)) {
            pager.lines.push(Line::default());
        }
        pager.starts.push(pager.lines.len());
        pager.lines.extend(cell.lines(sheet));
    }
    pager.cells = cells.len();
}

fn help_lines(model: &Model, sheet: Sheet<'_>) -> Vec<Line<'static>> {
    let mut lines = vec![heading(sheet, "commands")];
    for command in COMMANDS {
        let name = format!("/{} {}", command.name, command.argument);
        lines.extend(entry(sheet, name.trim_end(), command.about));
    }
    for section in model.keymap.help(Keyboard::Plain) {
        lines.push(Line::default());
        lines.push(heading(sheet, section.title));
        for row in section.rows {
            lines.extend(entry(sheet, &row.keys, row.what));
        }
    }
    lines
}

fn diff_lines(model: &Model, sheet: Sheet<'_>) -> Vec<Line<'static>> {
    let changes = &model.session.changes;
    if changes.is_empty() {
        return paragraph(sheet, Role::Dim, "this session changed no files");
    }
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut shown = None;
    for (turn, change) in changes {
        if shown != Some(*turn) {
            if shown.is_some() {
                lines.push(Line::default());
            }
            lines.push(heading(sheet, &format!("turn {turn}")));
            shown = Some(*turn);
        }
        let cell = PatchCell { by: ChangeSource::Patch, changes: vec![change.clone()] };
        lines.extend(cell.lines(Sheet { folds: Folds::Open, ..sheet }));
    }
    lines
}

fn status_lines(model: &Model, sheet: Sheet<'_>) -> Vec<Line<'static>> {
    let session = &model.session;
    let mut lines = vec![heading(sheet, "status")];
    let mut put = |name: &str, value: String| lines.extend(entry(sheet, name, &value));
    let effort = session.effort.as_deref().map(|e| format!(" {e}")).unwrap_or_default();
    put("model", format!("{}{effort}", session.model));
    put("directory", place(&model.facts));
    if let Some(branch) = &model.facts.branch {
        put("branch", branch.clone());
    }
    if let Some(id) = session.id {
        put("session", id.to_string());
    }
    let mode = mode_name(session.approval, session.sandbox)
        .map(|name| format!("{name}: "))
        .unwrap_or_default();
    put(
        "permissions",
        format!(
            "{mode}{}, {}",
            approval_word(session.approval),
            sandbox_word(session.sandbox, session.level)
        ),
    );
    let usage = session.usage;
    put(
        "tokens",
        format!(
            "{} in ({} cached), {} out",
            short_number(usage.input_tokens),
            short_number(usage.cached_input_tokens),
            short_number(usage.output_tokens)
        ),
    );
    if let Some(window) = session.context_window.filter(|window| *window > 0) {
        put(
            "context",
            format!("{} of {}", short_number(session.context_tokens), short_number(window)),
        );
    }
    put("waiting", counted(model.queue.len(), "message"));
    for (process, command) in &session.processes {
        put("running", format!("{process}: {command}"));
    }
    lines
}

fn heading(sheet: Sheet<'_>, text: &str) -> Line<'static> {
    Line::from(span(sheet.theme, Role::Heading, format!("  {text}")))
}

/// Returns a name with what it means beside it, or below it where there is no room.
fn entry(sheet: Sheet<'_>, name: &str, about: &str) -> Vec<Line<'static>> {
    let columns = if sheet.width < 90 { 24 } else { 36 };
    let name = clean_line(name);
    let padding = columns.max(width(&name) + 2) - width(&name);
    let line = Line::from(vec![
        span(sheet.theme, Role::Accent, name),
        span(sheet.theme, Role::Text, " ".repeat(padding)),
        span(sheet.theme, Role::Text, clean_line(about)),
    ]);
    wrap_with(&line, sheet.width, "  ", "      ")
}
