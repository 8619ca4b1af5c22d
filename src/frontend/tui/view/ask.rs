//! A question in the composer's place: all of what would happen, why it is asked, the keys.
//!
//! Its text is never folded. What has no room is scrolled to, and the keys say so.

use ratatui::text::{Line, Span};

use crate::frontend::tui::asking::{Choice, OpenAsk, Writing};
use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::assistant::{text_width, with_gutter};
use crate::frontend::tui::cells::frame::{
    DEEPER, GUTTER, block, clean_line, paragraph, span, with_right,
};
use crate::frontend::tui::diff::{Fold, View, render_change, render_diff};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::live::{Foot, one_row};
use crate::frontend::tui::wrap::width;
use crate::protocol::{
    AnswerScope, Ask, CommandLine, Effect, FileChange, Network, Reach, SandboxMode,
};

/// Rows of the status line and its rule, and the row of the conversation that stays in sight.
const ROWS_AROUND: u16 = 3;
/// Rows below which the keys have short words, so that what is asked has room.
const ROWS_FOR_WORDS: u16 = 18;

/// Returns how many lines the text of the question has, and how many of them fit.
pub(crate) fn ask_text_height(model: &Model) -> (usize, usize) {
    let Some(ask) = model.asks.front() else { return (0, 0) };
    let room = usize::from(model.size.height.saturating_sub(ROWS_AROUND)).max(1);
    let text = text(model, ask);
    (text.len(), text_room(model, ask, text.len(), room))
}

fn text_room(model: &Model, ask: &OpenAsk, lines: usize, room: usize) -> usize {
    let keys = keys(model, ask, false).lines.len();
    let all = room.saturating_sub(keys);
    if lines <= all {
        return lines;
    }
    // The line that says how much there is takes one more.
    all.saturating_sub(1).max(1)
}

pub(super) fn foot(model: &Model, room: usize) -> Foot {
    let Some(ask) = model.asks.front() else { return Foot { lines: Vec::new(), cursor: None } };
    let room = room.saturating_sub(1).max(1);
    let text = text(model, ask);
    let total = text.len();
    let height = text_room(model, ask, total, room);
    let top = ask.top.min(total.saturating_sub(height));
    let mut lines: Vec<Line<'static>> = text.into_iter().skip(top).take(height).collect();
    if total > height {
        let note = format!("{GUTTER}lines {}–{} of {total} · PgDn and PgUp", top + 1, top + height);
        lines.push(Line::from(span(model.theme, Role::Warn, note)));
    }
    let keys = keys(model, ask, total > height && ask.seen.max(top + height) < total);
    let above = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    lines.extend(keys.lines);
    let cursor = keys.cursor.map(|(column, row)| (column, row.saturating_add(above)));
    Foot { lines, cursor }
}

/// Returns the whole text of the question.
fn text(model: &Model, ask: &OpenAsk) -> Vec<Line<'static>> {
    let sheet = model.sheet();
    let mut lines = Vec::new();
    if model.size.height >= ROWS_FOR_WORDS {
        lines.push(Line::default());
    }
    match &ask.question {
        Ask::Approval {
            effect, shown, asked_by, rule, reason, reach, remembers, hunks, ..
        } => {
            lines.extend(head(model, ask, effect, reach, asked_by));
            lines.push(Line::default());
            if ask.has_parts() {
                let text = hunks.get(ask.part).map(|hunk| hunk.text.as_str()).unwrap_or_default();
                lines.extend(patch_lines(sheet, text));
            } else {
                lines.extend(what_lines(sheet, effect, shown));
            }
            lines.push(Line::default());
            lines.extend(around_lines(model, effect, reach));
            let rule = rule.as_deref().map(|rule| format!(" (rule {rule})")).unwrap_or_default();
            lines.extend(paragraph(sheet, Role::Dim, &format!("why it asks: {reason}{rule}")));
            if !remembers.is_empty() {
                // A command is on the screen already, and it is covered as it is.
                let text = match effect {
                    Effect::Run { .. } => "a lasting yes covers exactly this".to_owned(),
                    _ => format!("a lasting yes covers: {remembers}"),
                };
                lines.extend(paragraph(sheet, Role::Dim, &text));
            }
            // Where the reason quotes the model already, once is enough.
            if let Effect::Run { escalate: Some(wish), .. } = effect
                && !reason.contains(&wish.reason)
            {
                lines.extend(paragraph(sheet, Role::Dim, &format!("it says: {}", wish.reason)));
            }
        }
        Ask::Question { question, options } => {
            lines.extend(paragraph(sheet, Role::Text, question));
            lines.push(Line::default());
            for (number, option) in (1..).zip(options) {
                let text = format!("{number}  {option}");
                lines.extend(block(sheet, Role::Text, &text, (GUTTER, "     ")));
            }
        }
        Ask::Elicitation { server, message, schema } => {
            let head = format!("the MCP server {} asks:", clean_line(server));
            lines.push(Line::from(span(model.theme, Role::Heading, format!("{GUTTER}{head}"))));
            lines.extend(block(sheet, Role::Text, message, (DEEPER, DEEPER)));
            let fields = schema.get("properties").and_then(|value| value.as_object());
            for name in fields.into_iter().flat_map(|fields| fields.keys()) {
                lines.extend(block(sheet, Role::Dim, name, (DEEPER, DEEPER)));
            }
        }
    }
    lines
}

fn head(
    model: &Model,
    ask: &OpenAsk,
    effect: &Effect,
    reach: &Reach,
    asked_by: &str,
) -> Vec<Line<'static>> {
    let who = match asked_by {
        "main" | "" => "gimlet".to_owned(),
        agent => format!("the agent {}", clean_line(agent)),
    };
    let what = match effect {
        Effect::Run { .. } if reach.outside => "run, outside the sandbox:".to_owned(),
        Effect::Run { .. } => "run:".to_owned(),
        Effect::Write { changes } => {
            let files: std::collections::BTreeSet<_> =
                changes.iter().map(|change| &change.path).collect();
            match files.len() {
                1 => "change a file:".to_owned(),
                count => format!("change {count} files:"),
            }
        }
        Effect::Read { .. } => "read:".to_owned(),
        Effect::Fetch { .. } => "fetch:".to_owned(),
        Effect::Remote { server, .. } => format!("call a tool of {}:", clean_line(server)),
        Effect::Input { process } => format!("write to command {process}:"),
        Effect::Agent { role } => format!("start an agent: {}", clean_line(role)),
        Effect::None => "call:".to_owned(),
    };
    let role = if reach.outside { Role::Warn } else { Role::Heading };
    let mut right = Vec::new();
    if ask.has_parts() {
        right.push(format!("hunk {} of {}", ask.part + 1, ask.taken.len()));
    }
    if model.asks.len() > 1 {
        right.push(format!("question 1 of {}", model.asks.len()));
    }
    let left = Line::from(span(model.theme, role, format!("{GUTTER}{who} wants to {what}")));
    let right = match right.is_empty() {
        true => Vec::new(),
        false => vec![span(model.theme, Role::Dim, right.join(" · "))],
    };
    with_right(model.sheet(), &left, right)
}

/// Returns what would happen, whole.
fn what_lines(sheet: Sheet<'_>, effect: &Effect, shown: &str) -> Vec<Line<'static>> {
    match effect {
        Effect::Write { changes } => {
            let mut lines = Vec::new();
            for (index, change) in changes.iter().enumerate() {
                if index > 0 {
                    lines.push(Line::default());
                }
                lines.extend(change_lines(sheet, change));
            }
            lines
        }
        Effect::Run { command: CommandLine::Shell { program, login, .. }, .. } => {
            let mut lines = block(sheet, Role::Text, shown, (DEEPER, DEEPER));
            if *login {
                let note = format!("read by {} as a login shell", clean_line(program));
                lines.extend(block(sheet, Role::Dim, &note, (DEEPER, DEEPER)));
            }
            lines
        }
        Effect::Remote { tool, arguments, .. } => {
            let mut lines = block(sheet, Role::Text, tool, (DEEPER, DEEPER));
            let pretty = serde_json::to_string_pretty(arguments).unwrap_or_default();
            lines.extend(block(sheet, Role::Text, &pretty, (DEEPER, DEEPER)));
            lines
        }
        _ => block(sheet, Role::Text, shown, (DEEPER, DEEPER)),
    }
}

fn change_lines(sheet: Sheet<'_>, change: &FileChange) -> Vec<Line<'static>> {
    let view = View { width: text_width(sheet.width), theme: sheet.theme, fold: Fold::All };
    with_gutter(render_change(change, sheet.cwd, view), sheet.width)
}

/// Returns the lines of a part of a patch.
fn patch_lines(sheet: Sheet<'_>, text: &str) -> Vec<Line<'static>> {
    let lines = render_diff(text, text_width(sheet.width), sheet.theme, Fold::All);
    with_gutter(lines, sheet.width)
}

/// Returns where it runs and what it reaches.
fn around_lines(model: &Model, effect: &Effect, reach: &Reach) -> Vec<Line<'static>> {
    let sheet = model.sheet();
    let mut parts = Vec::new();
    if let Effect::Run { cwd, .. } = effect {
        parts.push(format!("in {}", clean_line(&cwd.display().to_string())));
    }
    if matches!(effect, Effect::Run { .. } | Effect::Input { .. }) {
        parts.push(match &reach.network {
            Network::On => "network on".to_owned(),
            Network::Off => "no network".to_owned(),
            Network::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(|host| clean_line(&host.0)).collect();
                format!("network: {}", hosts.join(", "))
            }
        });
        parts.push(match (reach.outside, reach.mode) {
            (true, _) => "can write everywhere you can".to_owned(),
            (false, SandboxMode::ReadOnly) => "can write nothing".to_owned(),
            (false, _) => {
                let roots: Vec<String> = reach
                    .roots
                    .iter()
                    .map(|root| clean_line(&root.display().to_string()))
                    .collect();
                format!("can write in {}", roots.join(", "))
            }
        });
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let role = if reach.outside { Role::Warn } else { Role::Dim };
    paragraph(sheet, role, &parts.join(" · "))
}

/// Returns the keys, or what is being written.
fn keys(model: &Model, ask: &OpenAsk, is_unread: bool) -> Foot {
    if let Some(writing) = &ask.writing {
        return writing_rows(model, writing);
    }
    let entries: Vec<Key> = match &ask.question {
        Ask::Approval { .. } if ask.has_parts() => part_keys(ask),
        Ask::Approval { .. } => approval_keys(ask),
        Ask::Question { options, .. } => vec![
            plain("1-9", format!("one of the {}", options.len()), "one"),
            plain("t", "type an answer", "type"),
            plain("esc", "no answer", "none"),
        ],
        Ask::Elicitation { .. } => vec![plain("n", "do not answer", "none")],
    };
    // What was just said stands where a blank line is otherwise: nothing moves.
    let said = model.hint.as_ref().map(|hint| {
        let text = format!("{GUTTER}{}", clean_line(&hint.text));
        one_row(model, vec![span(model.theme, Role::Warn, text)])
    });
    let mut lines = vec![said.unwrap_or_default()];
    lines.extend(key_rows(model, &entries, is_unread));
    Foot { lines, cursor: None }
}

fn part_keys(ask: &OpenAsk) -> Vec<Key> {
    let apply = format!("apply ({} of {} taken)", ask.parts_taken(), ask.taken.len());
    let words = |on: &'static str, off: &'static str, is_on: bool| if is_on { on } else { off };
    let now = ask.taken.get(ask.part).copied().flatten();
    vec![
        plain("y", words("take it (taken)", "take it", now == Some(true)), "take"),
        plain("n", words("leave it (left)", "leave it", now == Some(false)), "leave"),
        plain("a", "take all", "all"),
        plain("d", "leave all", "none"),
        plain("j k", "next, before", "move"),
        plain("enter", apply, "apply"),
        plain("t", "none, and tell it what to do instead", "tell"),
        plain("esc", "none, and stop", "stop"),
    ]
}

fn approval_keys(ask: &OpenAsk) -> Vec<Key> {
    let word = |choice: Choice| match choice {
        Choice::Allow(AnswerScope::Once) => ("y", "yes, once", "yes"),
        Choice::Allow(AnswerScope::Session) => ("s", "yes, this session", "session"),
        Choice::Allow(AnswerScope::Project) => ("p", "yes, always in this project", "project"),
        Choice::Allow(AnswerScope::Always) => ("", "yes, always everywhere", "always"),
        Choice::Edit => ("e", "edit it first", "edit"),
        Choice::Decline => ("n", "no", "no"),
        Choice::Tell => ("t", "no, and tell it what to do instead", "tell"),
        Choice::Abort => ("esc", "no, and stop", "stop"),
    };
    let marked = ask.marked_choice();
    let key = |choice: Choice| {
        let (key, words, short) = word(choice);
        Key { key, words: words.to_owned(), short, is_marked: choice == marked }
    };
    ask.choices().into_iter().map(key).collect()
}

/// A key and what it does.
struct Key {
    key: &'static str,
    words: String,
    /// Where there is little room.
    short: &'static str,
    is_marked: bool,
}

fn plain(key: &'static str, words: impl Into<String>, short: &'static str) -> Key {
    Key { key, words: words.into(), short, is_marked: false }
}

/// Returns the keys: in two columns, or close together where there is little room.
fn key_rows(model: &Model, entries: &[Key], is_unread: bool) -> Vec<Line<'static>> {
    let key_columns = entries.iter().map(|entry| width(entry.key)).max().unwrap_or(0);
    let height = entries.len().div_ceil(2).max(1);
    let columns: Vec<usize> = entries
        .chunks(height)
        .map(|part| part.iter().map(|entry| key_columns + 4 + width(&entry.words)).max())
        .map(|columns| columns.unwrap_or(0) + 2)
        .collect();
    let fits = columns.iter().sum::<usize>() <= usize::from(model.size.width);
    if !fits || model.size.height < ROWS_FOR_WORDS {
        return close_rows(model, entries, is_unread);
    }
    let row = |row: usize| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (entry, columns) in entries.iter().skip(row).step_by(height).zip(&columns) {
            let free = columns.saturating_sub(key_columns + 4 + width(&entry.words));
            let key = format!("{:<key_columns$}", entry.key);
            spans.extend(key_spans(model, entry, (&key, "  ", &entry.words), is_unread));
            spans.push(Span::raw(" ".repeat(free)));
        }
        Line::from(spans)
    };
    (0..height).map(row).collect()
}

/// Returns the keys one after the other, in as few rows as they need.
fn close_rows(model: &Model, entries: &[Key], is_unread: bool) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for entry in entries {
        let columns = width(entry.key) + width(entry.short) + 4;
        if used + columns > usize::from(model.size.width) && used > 0 {
            rows.push(Line::from(std::mem::take(&mut spans)));
            used = 0;
        }
        used += columns;
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans.extend(key_spans(model, entry, (entry.key, " ", entry.short), is_unread));
    }
    rows.push(Line::from(spans));
    rows
}

fn key_spans(
    model: &Model,
    entry: &Key,
    (key, gap, words): (&str, &str, &str),
    is_unread: bool,
) -> [Span<'static>; 2] {
    let role = match (entry.is_marked, is_unread) {
        (true, _) => Role::Accent,
        (false, true) => Role::Dim,
        (false, false) => Role::Text,
    };
    let glyph = if entry.is_marked { "› " } else { "  " };
    let key = span(model.theme, Role::Accent, format!("{glyph}{key}"));
    [key, span(model.theme, role, format!("{gap}{words}"))]
}

fn writing_rows(model: &Model, writing: &Writing) -> Foot {
    let label = match writing {
        Writing::Edit(_) => "as it should run · Enter runs it · Esc goes back",
        Writing::Tell(_) => "what to do instead · Enter sends · Esc goes back",
        Writing::Reply(_) => "your answer · Enter sends · Esc goes back",
    };
    let inner = model.size.width.saturating_sub(2).max(1);
    let height = (model.size.height / 3).max(1);
    let view = writing.composer().view(inner, height, model.theme);
    let mut lines = vec![Line::default()];
    lines.extend(paragraph(model.sheet(), Role::Dim, label));
    let above = u16::try_from(lines.len()).unwrap_or(0);
    for (index, line) in view.lines.into_iter().enumerate() {
        let glyph = if index == 0 { "› " } else { "  " };
        let mut spans = vec![span(model.theme, Role::Accent, glyph)];
        spans.extend(line.spans);
        lines.push(Line::from(spans));
    }
    let cursor = (view.cursor.0.saturating_add(2), view.cursor.1.saturating_add(above));
    Foot { lines, cursor: Some(cursor) }
}
