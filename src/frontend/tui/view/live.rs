//! The part that may change: what streams in, the live line, the composer or what stands in its
//! place, the status line. From the bottom up; what has no room is left out from the top.

use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::frame::{clean_line, duration, short_number, span};
use crate::frontend::tui::cells::tool::title_of;
use crate::frontend::tui::composer::Kind;
use crate::frontend::tui::keymap::Action;
use crate::frontend::tui::model::{Model, OpenCell, Phase, TurnState};
use crate::frontend::tui::msg::Size;
use crate::frontend::tui::overlay::Overlay;
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::{View, ask, picker, status};
use crate::frontend::tui::wrap::{clip, width, wrap_with};

/// Rows below which only what is typed is shown.
const ROWS_FOR_STATUS: u16 = 5;
/// Lines of a running command's output.
const OUTPUT_LINES: usize = 4;
/// Calls that run at once and are shown.
const CALLS_MAX: usize = 4;

/// What stands at the bottom: lines, and where the cursor is in them.
pub(super) struct Foot {
    pub(super) lines: Vec<Line<'static>>,
    pub(super) cursor: Option<(u16, u16)>,
}

pub(super) fn view(model: &Model) -> View {
    let rows = usize::from(model.size.height);
    let status = status_rows(model);
    let room = rows.saturating_sub(status.len()).max(1);
    let foot = foot(model, room);
    let mut head = streaming_rows(model);
    head.extend(live_rows(model));
    // One row of what was before stays in sight.
    let head_max = rows.saturating_sub(foot.lines.len() + status.len() + 1);
    let skipped = head.len().saturating_sub(head_max);
    let mut lines: Vec<Line<'static>> = head.into_iter().skip(skipped).collect();
    let above = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    lines.extend(foot.lines);
    lines.extend(status);
    let cursor = foot.cursor.map(|(column, row)| (column, row.saturating_add(above)));
    View { lines, cursor, is_full: false }
}

/// Returns what stands in the composer's place, and the composer.
fn foot(model: &Model, room: usize) -> Foot {
    if model.is_quitting {
        return Foot { lines: Vec::new(), cursor: None };
    }
    if let Some(Overlay::Picker(chosen)) = model.overlays.last() {
        return picker::foot(model, chosen, room);
    }
    match model.asks.front() {
        Some(_) => ask::foot(model, room),
        None => composer(model, room),
    }
}

/// Returns the columns and rows that the composer has at most.
pub(crate) fn composer_room(size: Size) -> (u16, u16) {
    (size.width.saturating_sub(2).max(1), (size.height.saturating_sub(3) / 2).max(1))
}

fn composer(model: &Model, room: usize) -> Foot {
    let (inner, height_max) = composer_room(model.size);
    let has_blank = room > 2;
    let view = model.composer.view(inner, height_max, model.theme);
    let mut lines = Vec::new();
    if has_blank {
        lines.push(Line::default());
    }
    lines.extend(completion_rows(model));
    let above = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let count = view.lines.len();
    // What begins as a command does not go to the model.
    let role = match model.composer.kind() {
        Kind::Command => Role::Good,
        Kind::Prompt | Kind::Shell | Kind::Note => Role::Accent,
    };
    for (index, line) in view.lines.into_iter().enumerate() {
        let glyph = if index == 0 { "› " } else { "  " };
        let mut spans = vec![span(model.theme, role, glyph)];
        spans.extend(line.spans);
        lines.push(Line::from(spans));
    }
    if count == 1 {
        queue_note(model, &mut lines);
    }
    let cursor = (view.cursor.0.saturating_add(2), view.cursor.1.saturating_add(above));
    Foot { lines, cursor: Some(cursor) }
}

/// Returns the list of what could be completed.
fn completion_rows(model: &Model) -> Vec<Line<'static>> {
    /// Rows of the list.
    const ROWS_MAX: usize = 8;
    let Some(completion) = &model.completion else { return Vec::new() };
    if completion.is_waiting {
        let note = span(model.theme, Role::Dim, "  looking at the files");
        return vec![one_row(model, vec![note])];
    }
    let names = completion.items.iter().map(|item| width(&item.name)).max().unwrap_or(0);
    let top = (completion.at + 1).saturating_sub(ROWS_MAX);
    let mut rows = Vec::new();
    for (index, item) in completion.items.iter().enumerate().skip(top).take(ROWS_MAX) {
        let (glyph, role) = match index == completion.at {
            true => ("› ", Role::Accent),
            false => ("  ", Role::Text),
        };
        let free = names.saturating_sub(width(&item.name)) + 2;
        let spans = vec![
            span(model.theme, role, format!("{glyph}{}", clean_line(&item.name))),
            span(model.theme, Role::Dim, format!("{}{}", " ".repeat(free), item.about)),
        ];
        rows.push(one_row(model, spans));
    }
    rows
}

/// Says at the right end of the composer how many messages wait.
fn queue_note(model: &Model, lines: &mut [Line<'static>]) {
    if model.queue.is_empty() {
        return;
    }
    let note = format!("queued: {}", model.queue.len());
    let Some(line) = lines.last_mut() else { return };
    let used: usize = line.spans.iter().map(|span| width(&span.content)).sum();
    let free = usize::from(model.size.width).saturating_sub(used + width(&note));
    if free >= 2 {
        line.spans.push(Span::raw(" ".repeat(free)));
        line.spans.push(span(model.theme, Role::Dim, note));
    }
}

fn status_rows(model: &Model) -> Vec<Line<'static>> {
    if model.size.height < ROWS_FOR_STATUS || model.is_quitting {
        return Vec::new();
    }
    let rule = "─".repeat(usize::from(model.size.width));
    let rule = Line::from(span(model.theme, Role::Dim, rule));
    vec![rule, status::line(model)]
}

/// Returns the part of the message that may still change.
fn streaming_rows(model: &Model) -> Vec<Line<'static>> {
    let Some(streaming) = &model.streaming else { return Vec::new() };
    let live = streaming.live();
    if live.is_empty() {
        return Vec::new();
    }
    let begins = !streaming.has_printed() && !model.cells.is_empty();
    let blank = begins.then(Line::default);
    blank.into_iter().chain(live.iter().cloned()).collect()
}

/// Returns what runs, and the live line.
fn live_rows(model: &Model) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for call in model.calls.iter().take(CALLS_MAX) {
        if let OpenCell::Command(cell) = &call.cell
            && cell.printed.count() > 0
            && model.asks.is_empty()
        {
            lines.push(Line::default());
            let head = clean_line(cell.command.trim().lines().next().unwrap_or_default());
            lines.push(one_row(
                model,
                vec![span(model.theme, Role::Accent, "  $ "), span(model.theme, Role::Text, head)],
            ));
            for text in cell.printed.last(OUTPUT_LINES) {
                let text = format!("    {}", clean_line(&text));
                lines.push(one_row(model, vec![span(model.theme, Role::Dim, text)]));
            }
        }
    }
    if let Some(line) = live_line(model) {
        lines.push(Line::default());
        lines.push(line);
    }
    lines
}

/// Returns the one line that says what goes on, for how long, and how to stop it.
fn live_line(model: &Model) -> Option<Line<'static>> {
    let dim = |text: String| span(model.theme, Role::Dim, text);
    if let Some(hint) = model.hint.as_ref().filter(|_| model.asks.is_empty()) {
        let text = format!("  {}", clean_line(&hint.text));
        return Some(one_row(model, vec![span(model.theme, Role::Warn, text)]));
    }
    let turn = model.turn.as_ref()?;
    if !model.asks.is_empty() {
        return None;
    }
    let (what, since_ms) = what_runs(model, turn);
    let time = duration(model.now_ms.saturating_sub(since_ms) / 1000 * 1000);
    let mut text = format!(" · {}", time.replace(".0s", "s"));
    if turn.output_tokens > 0 {
        text.push_str(&format!(" · {} tokens", short_number(turn.output_tokens)));
    }
    match turn.is_stopping {
        true => text.push_str(" · stopping"),
        false => text.push_str(&format!(" · {} stops", stop_key(model))),
    }
    let room = usize::from(model.size.width).saturating_sub(width(&text) + 2);
    let what = cut(&what, room.max(8));
    Some(one_row(model, vec![span(model.theme, Role::Text, format!("  {what}")), dim(text)]))
}

/// Returns the key that stops what runs, as people write it.
fn stop_key(model: &Model) -> String {
    let key = model.keymap.keys_of(Action::Interrupt).into_iter().next().unwrap_or_default();
    if key == "esc" { "Esc".to_owned() } else { key }
}

fn what_runs(model: &Model, turn: &TurnState) -> (String, u64) {
    if let Some(call) = model.calls.last() {
        let name = match &call.cell {
            OpenCell::Command(_) => String::new(),
            OpenCell::Tool(cell) => cell.name.clone(),
        };
        let mut what = title_of(&call.effect, &name, model.sheet());
        if model.calls.len() > 1 {
            what.push_str(&format!(" and {} more", model.calls.len() - 1));
        }
        return (what, call.started_ms);
    }
    let what = match &turn.phase {
        Phase::Waiting => "waiting for the model".to_owned(),
        Phase::Thinking => "thinking".to_owned(),
        Phase::Writing => "writing".to_owned(),
        Phase::Calling => "preparing a call".to_owned(),
        Phase::Retrying => "trying again".to_owned(),
    };
    (what, turn.started_ms)
}

/// Returns the spans on one row, cut where the terminal ends.
pub(super) fn one_row(model: &Model, spans: Vec<Span<'static>>) -> Line<'static> {
    let mut rows = wrap_with(&Line::from(spans), model.size.width, "", "");
    if rows.is_empty() {
        return Line::default();
    }
    rows.swap_remove(0)
}

/// Returns the beginning of a text, marked where it was cut.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = clip(text, columns.saturating_sub(1)).to_owned();
    kept.push('…');
    kept
}
