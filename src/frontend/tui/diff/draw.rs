//! Draws the lines of one file's change: numbers, signs, colours, and what is folded away.
//!
//! Only what is shown is coloured and compared, and of that only so much. Called by `mod.rs`.

use std::collections::HashMap;
use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::frontend::tui::diff::parse::{FileDiff, Hunk, Sign};
use crate::frontend::tui::diff::words::{Places, changed_words};
use crate::frontend::tui::diff::{Fold, View, sign_text};
use crate::frontend::tui::highlight::{Highlighter, Tokens};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::{Indent, shown, wrap_styled};

/// Lines of one change that get the colours of their language, some 30 ms; the rest is plain.
const COLOURED_LINES_MAX: usize = 1_000;

/// Pairs of lines that are compared word by word.
const COMPARED_PAIRS_MAX: usize = 1_000;

/// In a narrower window the numbers give way to the lines.
const NUMBERED_COLUMNS_MIN: u16 = 30;

/// How a file's lines are set.
pub(super) struct Canvas {
    view: View,
    /// Columns of the numbers; none where nothing is numbered.
    number_columns: usize,
    language: String,
}

/// One row of a change.
enum Row<'a> {
    /// Between hunks.
    Between(&'a str),
    Line {
        sign: Sign,
        number: Option<usize>,
        text: &'a str,
    },
}

impl Canvas {
    pub(super) fn new(file: &FileDiff<'_>, view: View) -> Self {
        let last = file.hunks.iter().filter_map(|hunk| {
            let (old, new) = hunk.start?;
            Some(old.max(new).saturating_add(hunk.lines.len()))
        });
        let number_columns = match last.max() {
            Some(last) if view.width >= NUMBERED_COLUMNS_MIN => last.to_string().len().max(3),
            Some(_) | None => 0,
        };
        let path = file.move_to.as_deref().unwrap_or(&file.path);
        let name = path.rsplit('/').next().unwrap_or_default();
        let language = name.rsplit('.').next().unwrap_or_default().to_owned();
        Self { view, number_columns, language }
    }

    /// Returns a line that is none of the file's.
    pub(super) fn draw_note(&self, note: &str) -> Vec<Line<'static>> {
        let style = self.view.theme.style(Role::Dim);
        let indent =
            Indent { first: vec![Span::raw(self.margin())], rest: vec![Span::raw(self.margin())] };
        wrap_styled(&Line::styled(shown(note).into_owned(), style), self.view.width, &indent)
    }

    fn margin(&self) -> &'static str {
        if self.view.width < NUMBERED_COLUMNS_MIN { "" } else { "  " }
    }

    fn draw_row(
        &self,
        row: &Row<'_>,
        painted: Option<Tokens>,
        places: Option<&Places>,
    ) -> Vec<Line<'static>> {
        let Row::Line { sign, number, text, .. } = row else { return Vec::new() };
        let theme = self.view.theme;
        let role = match sign {
            Sign::Added => Role::Added,
            Sign::Removed => Role::Removed,
            Sign::Context | Sign::Note => Role::Text,
        };
        let tokens = painted.unwrap_or_else(|| vec![(Role::Text, shown(text).into_owned())]);
        let spans = self.paint(tokens, *sign, places);
        let number = match (self.number_columns, number) {
            (0, _) => self.margin().to_owned(),
            (columns, Some(number)) => format!("{}{number:>columns$} ", self.margin()),
            (columns, None) => format!("{}{:columns$} ", self.margin(), ""),
        };
        let blank = " ".repeat(number.len());
        let style = tinted(theme.style(role), theme.tint(role));
        let mark = Span::styled(sign_text(*sign), style);
        if text.is_empty() && *sign == Sign::Context {
            let number = number.trim_end().to_owned();
            return vec![Line::styled(number, theme.style(Role::Dim))];
        }
        let indent = Indent {
            first: vec![Span::styled(number, theme.style(Role::Dim)), mark, Span::raw(" ")],
            rest: vec![Span::raw(format!("{blank}  "))],
        };
        wrap_styled(&Line::from(spans), self.view.width, &indent)
    }

    /// Returns the line's text in its colours: those of the language, of the change, of words.
    fn paint(&self, tokens: Tokens, sign: Sign, places: Option<&Places>) -> Vec<Span<'static>> {
        let theme = self.view.theme;
        let (line, word) = match sign {
            Sign::Added => (Role::Added, Role::AddedWord),
            Sign::Removed => (Role::Removed, Role::RemovedWord),
            Sign::Context => {
                let span = |(role, text)| Span::styled(text, theme.style(role));
                return tokens.into_iter().map(span).collect();
            }
            Sign::Note => {
                let span = |(_, text)| Span::styled(text, theme.style(Role::Dim));
                return tokens.into_iter().map(span).collect();
            }
        };
        let in_line = |role| match (role, theme.tint(line)) {
            // Green strings in a red line would say the wrong thing.
            (Role::Text | Role::Literal | Role::Heading | Role::Code, None) => theme.style(line),
            (role, tint) => tinted(theme.style(role), tint),
        };
        let in_word = tinted(theme.style(word), theme.tint(word));
        let mut spans = Vec::new();
        let mut at = 0;
        for (role, text) in tokens {
            for (part, is_word) in cut(&text, at, places.map_or(&[], Vec::as_slice)) {
                let style = if is_word { in_word } else { in_line(role) };
                spans.push(Span::styled(part.to_owned(), style));
            }
            at += text.len();
        }
        spans
    }
}

fn tinted(style: Style, tint: Option<ratatui::style::Color>) -> Style {
    tint.map_or(style, |tint| style.bg(tint))
}

/// Cuts a stretch that begins at `at` of its line where places begin and end.
fn cut<'a>(text: &'a str, at: usize, places: &[Range<usize>]) -> Vec<(&'a str, bool)> {
    let mut parts = Vec::new();
    let mut from = 0;
    for place in places.iter().filter(|place| place.end > at && place.start < at + text.len()) {
        let start = place.start.saturating_sub(at).max(from);
        let end = (place.end - at).min(text.len());
        parts.push((text.get(from..start).unwrap_or_default(), false));
        parts.push((text.get(start..end).unwrap_or_default(), true));
        from = end;
    }
    parts.push((text.get(from..).unwrap_or_default(), false));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

/// Returns the rows of all hunks, folded.
pub(super) fn draw_rows(file: &FileDiff<'_>, canvas: &Canvas) -> Vec<Line<'static>> {
    let rows = list_rows(file);
    let hidden = match canvas.view.fold {
        Fold::Lines(shown) if rows.len() > shown + 1 => {
            let head = (shown * 2).div_ceil(3);
            head..rows.len() - (shown - head)
        }
        Fold::Lines(_) | Fold::All => 0..0,
    };
    let is_shown = |place: usize| !hidden.contains(&place);
    let places = compare(&rows, is_shown);
    let mut lines = Vec::new();
    let mut painter = Painter::new(canvas);
    for (place, row) in rows.iter().enumerate() {
        if place == hidden.start && !hidden.is_empty() {
            lines.extend(canvas.draw_note(&format!("… {} lines more", hidden.len())));
            painter.restart();
        }
        if !is_shown(place) {
            continue;
        }
        match row {
            Row::Between(title) => {
                painter.restart();
                let note = if title.is_empty() { "⋮".to_owned() } else { format!("⋮ {title}") };
                lines.extend(canvas.draw_note(&note));
            }
            Row::Line { .. } => {
                let tokens = painter.paint(row);
                lines.extend(canvas.draw_row(row, tokens, places.get(&place)));
            }
        }
    }
    lines
}

fn list_rows<'a>(file: &'a FileDiff<'_>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (place, hunk) in file.hunks.iter().enumerate() {
        if place > 0 || !hunk.title.is_empty() {
            rows.push(Row::Between(&hunk.title));
        }
        push_hunk(&mut rows, hunk);
    }
    rows
}

fn push_hunk<'a>(rows: &mut Vec<Row<'a>>, hunk: &'a Hunk<'_>) {
    let mut next = hunk.start;
    for (sign, text) in &hunk.lines {
        let number = match (sign, &mut next) {
            (Sign::Note, _) | (_, None) => None,
            (Sign::Removed, Some((old, _))) => {
                *old = old.saturating_add(1);
                Some(*old - 1)
            }
            (Sign::Added, Some((_, new))) => {
                *new = new.saturating_add(1);
                Some(*new - 1)
            }
            (Sign::Context, Some((old, new))) => {
                *old = old.saturating_add(1);
                *new = new.saturating_add(1);
                Some(*new - 1)
            }
        };
        rows.push(Row::Line { sign: *sign, number, text });
    }
}

/// Compares lines that went with those that came in their place, and returns by row what
/// differs.
fn compare(rows: &[Row<'_>], is_shown: impl Fn(usize) -> bool) -> HashMap<usize, Places> {
    let mut found = HashMap::new();
    let mut pairs = 0;
    let mut at = 0;
    while at < rows.len() && pairs < COMPARED_PAIRS_MAX {
        let removed = run(rows, at, Sign::Removed);
        let added = run(rows, removed.end, Sign::Added);
        for (old, new) in removed.clone().zip(added.clone()) {
            if pairs == COMPARED_PAIRS_MAX || !is_shown(old) || !is_shown(new) {
                continue;
            }
            pairs += 1;
            let text = |place: usize| match rows.get(place) {
                Some(Row::Line { text, .. }) => shown(text),
                Some(Row::Between(_)) | None => "".into(),
            };
            if let Some((gone, come)) = changed_words(&text(old), &text(new)) {
                found.insert(old, gone);
                found.insert(new, come);
            }
        }
        at = added.end.max(at + 1);
    }
    found
}

/// Returns the rows with this sign that begin here.
fn run(rows: &[Row<'_>], start: usize, wanted: Sign) -> Range<usize> {
    let is_wanted = |row: &&Row<'_>| matches!(row, Row::Line { sign, .. } if *sign == wanted);
    let count = rows.get(start..).unwrap_or_default().iter().take_while(is_wanted).count();
    start..start + count
}

/// Colours lines by their language, each side with a state of its own.
struct Painter<'a> {
    canvas: &'a Canvas,
    old: Option<Highlighter>,
    new: Option<Highlighter>,
    lines_left: usize,
}

impl<'a> Painter<'a> {
    fn new(canvas: &'a Canvas) -> Self {
        Self { canvas, old: None, new: None, lines_left: COLOURED_LINES_MAX }
    }

    /// Forgets what came before: what follows is from another place of the file.
    fn restart(&mut self) {
        (self.old, self.new) = (None, None);
    }

    fn paint(&mut self, row: &Row<'_>) -> Option<Tokens> {
        let Row::Line { sign, text, .. } = row else { return None };
        if *sign == Sign::Note || self.lines_left == 0 {
            return None;
        }
        self.lines_left -= 1;
        let language = &self.canvas.language;
        let side = |side: &mut Option<Highlighter>| {
            side.get_or_insert_with(|| Highlighter::new(language)).line(text)
        };
        match sign {
            Sign::Removed => Some(side(&mut self.old)),
            Sign::Added => Some(side(&mut self.new)),
            Sign::Context | Sign::Note => {
                side(&mut self.old);
                Some(side(&mut self.new))
            }
        }
    }
}
