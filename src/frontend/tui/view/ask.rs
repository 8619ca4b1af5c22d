//! A question in the composer's place: all of what would happen, why it is asked, the keys.
//!
//! Its text is never folded. What has no room is scrolled to, and the keys say so.

use ratatui::text::{Line, Span};

use crate::frontend::tui::asking::{OpenAsk, Writing};
use crate::frontend::tui::cells::frame::{DEEPER, GUTTER, block, clean_line, paragraph, short_path, span};
use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::standin::wrap::{width, wrap_with};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::live::Foot;
use crate::protocol::{
    AnswerScope, Ask, ChangeKind, CommandLine, Effect, FileChange, Network, Reach, SandboxMode,
};

/// Rows of the status line and its rule, and the row of the conversation that stays in sight.
const ROWS_AROUND: u16 = 3;

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
        let note = format!(
            "{GUTTER}lines {}–{} of {total} · PgDn and PgUp",
            top + 1,
            top + height
        );
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
    let mut lines = vec![Line::default()];
    match &ask.question {
        Ask::Approval { effect, shown, asked_by, rule, reason, reach, hunks, .. } => {
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
            if let Effect::Run { escalate: Some(wish), .. } = effect {
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
    crate::frontend::tui::cells::frame::with_right(model.sheet(), left, right)
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
    let mut name = short_path(&change.path, sheet.cwd);
    if let Some(to) = &change.move_to {
        name.push_str(&format!(" → {}", short_path(to, sheet.cwd)));
    }
    let kind = match change.kind {
        ChangeKind::Add => "  new, or replaced whole",
        ChangeKind::Delete => "  deleted",
        ChangeKind::Update => "",
    };
    let head = Line::from(vec![
        span(sheet.theme, Role::Text, name),
        span(sheet.theme, Role::Dim, kind),
    ]);
    let mut lines = wrap_with(&head, sheet.width, GUTTER, DEEPER);
    if !change.diff.is_empty() {
        lines.extend(patch_lines(sheet, &change.diff));
    }
    lines
}

/// Returns the lines of a patch as it has them, in colour.
fn patch_lines(sheet: Sheet<'_>, text: &str) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in text.trim_end_matches('\n').split('\n') {
        let role = match line.bytes().next() {
            Some(b'+') => Role::Added,
            Some(b'-') => Role::Removed,
            Some(b'@' | b'*') => Role::Dim,
            _ => Role::Text,
        };
        lines.extend(block(sheet, role, line, (DEEPER, "      ")));
    }
    lines
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
                let roots: Vec<String> =
                    reach.roots.iter().map(|root| clean_line(&root.display().to_string())).collect();
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
    let entries: Vec<(&str, String)> = match &ask.question {
        Ask::Approval { .. } if ask.has_parts() => vec![
            ("y", "take".to_owned()),
            ("n", "leave".to_owned()),
            ("a", "take all".to_owned()),
            ("d", "leave all".to_owned()),
            ("j k", "move".to_owned()),
            ("t", "no, and say why".to_owned()),
            ("enter", format!("apply ({} of {} taken)", ask.parts_taken(), ask.taken.len())),
        ],
        Ask::Approval { .. } => approval_keys(ask),
        Ask::Question { options, .. } => vec![
            ("1-9", format!("one of the {}", options.len())),
            ("t", "type an answer".to_owned()),
            ("esc", "no answer".to_owned()),
        ],
        Ask::Elicitation { .. } => vec![("n", "do not answer".to_owned())],
    };
    let mut lines = vec![Line::default()];
    lines.extend(key_rows(model, &entries, is_unread));
    Foot { lines, cursor: None }
}

fn approval_keys(ask: &OpenAsk) -> Vec<(&'static str, String)> {
    let mut keys = vec![("y", "yes, once".to_owned())];
    let scopes = [
        ("s", AnswerScope::Session, "yes, this session"),
        ("p", AnswerScope::Project, "yes, always in this project"),
        ("a", AnswerScope::Always, "yes, always everywhere"),
    ];
    for (key, scope, words) in scopes {
        if ask.offers(scope) {
            keys.push((key, words.to_owned()));
        }
    }
    if ask.command().is_some() {
        keys.push(("e", "edit it first".to_owned()));
    }
    keys.push(("n", "no".to_owned()));
    keys.push(("t", "no, and tell it what to do instead".to_owned()));
    keys.push(("esc", "no, and stop".to_owned()));
    keys
}

/// Returns the keys in rows, as many beside each other as there is room for.
fn key_rows(model: &Model, entries: &[(&str, String)], is_unread: bool) -> Vec<Line<'static>> {
    let role = if is_unread { Role::Dim } else { Role::Text };
    let room = usize::from(model.size.width);
    let mut rows: Vec<Line<'static>> = Vec::new();
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for (key, words) in entries {
        let entry = width(key) + 2 + width(words);
        let gap = if spans.is_empty() { 2 } else { 3 };
        if used + gap + entry > room && !spans.is_empty() {
            rows.push(Line::from(std::mem::take(&mut spans)));
            used = 0;
        }
        let gap = if spans.is_empty() { 2 } else { 3 };
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(span(model.theme, Role::Accent, *key));
        spans.push(span(model.theme, role, format!("  {words}")));
        used += gap + entry;
    }
    rows.push(Line::from(spans));
    rows.into_iter().flat_map(|row| wrap_with(&row, model.size.width, "", GUTTER)).collect()
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
