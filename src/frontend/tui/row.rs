//! `Row`: one row of the terminal as text and styles, and the bytes that write it.
//!
//! The last gate before the terminal: whatever it is given, no control character passes and no
//! row is wider than the terminal. Used by `screen.rs` alone.

use std::fmt::Write as _;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Row {
    text: String,
    /// Where each style ends, as bytes of `text`.
    runs: Vec<(usize, Style)>,
    width: usize,
    /// Whether every character takes one column in every terminal.
    is_simple: bool,
}

impl Row {
    /// Returns the row of a line, cut at the terminal's width.
    pub(crate) fn new(line: &Line<'_>, columns: usize) -> Self {
        let mut row = Self { is_simple: true, ..Self::default() };
        'spans: for span in &line.spans {
            let style = line.style.patch(span.style);
            for grapheme in span.content.graphemes(true) {
                let grapheme =
                    if grapheme.chars().any(char::is_control) { "\u{fffd}" } else { grapheme };
                let wide = grapheme.width();
                if row.width + wide > columns {
                    break 'spans;
                }
                row.is_simple &= is_simple(grapheme);
                row.width += wide;
                row.text.push_str(grapheme);
            }
            row.end_run(style);
        }
        if let Some(style) = line.spans.last().map(|span| line.style.patch(span.style)) {
            row.end_run(style);
        }
        row.trim();
        row
    }

    /// Returns how many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns whether every character takes one column in every terminal.
    pub(crate) fn is_simple(&self) -> bool {
        self.is_simple || self.text.is_empty()
    }

    /// Returns how much of its beginning need not be written where `old` stands: bytes, columns.
    ///
    /// Only characters of one column for sure are passed over, so that columns are right even
    /// where a terminal measures others differently.
    pub(crate) fn shared_with(&self, old: &Self) -> (usize, usize) {
        let mut shared = (0, 0);
        for (at, grapheme) in self.text.grapheme_indices(true) {
            let end = at + grapheme.len();
            let same = old.text.get(at..end) == Some(grapheme)
                && old.text.is_char_boundary(end)
                && self.style_at(at) == old.style_at(at)
                && is_simple(grapheme);
            if !same {
                break;
            }
            shared = (end, shared.1 + 1);
        }
        // A mark that follows in the old row belongs to the character before it.
        match old.text.get(shared.0..).and_then(|rest| rest.chars().next()) {
            Some(next) if !next.is_ascii() && shared.0 > 0 => self.one_less(shared),
            Some(_) | None => shared,
        }
    }

    /// Appends the bytes that write it from a place on; the style is plain before and after.
    pub(crate) fn write(&self, out: &mut String, from: usize) {
        let mut start = from;
        let mut last = Style::default();
        for (end, style) in &self.runs {
            if *end <= start {
                continue;
            }
            if *style != last {
                push_style(out, *style, last);
                last = *style;
            }
            out.push_str(self.text.get(start..*end).unwrap_or_default());
            start = *end;
        }
        if last != Style::default() {
            out.push_str("\u{1b}[m");
        }
    }

    fn one_less(&self, (bytes, columns): (usize, usize)) -> (usize, usize) {
        let before = self.text.get(..bytes).and_then(|text| text.graphemes(true).next_back());
        (bytes - before.map_or(0, str::len), columns - usize::from(before.is_some()))
    }

    fn style_at(&self, at: usize) -> Style {
        let run = self.runs.partition_point(|(end, _)| *end <= at);
        self.runs.get(run).map_or_else(Style::default, |(_, style)| *style)
    }

    fn end_run(&mut self, style: Style) {
        let end = self.text.len();
        let begin = self.runs.last().map_or(0, |(end, _)| *end);
        if end == begin {
            return;
        }
        match self.runs.last_mut() {
            Some((last, same)) if *same == style => *last = end,
            Some(_) | None => self.runs.push((end, style)),
        }
    }

    /// Blanks at the end are what is there anyway.
    fn trim(&mut self) {
        let plain = |style: Style| {
            let shows = Modifier::REVERSED | Modifier::UNDERLINED | Modifier::CROSSED_OUT;
            style.bg.is_none() && !style.add_modifier.intersects(shows)
        };
        while self.text.ends_with(' ') && self.runs.last().is_some_and(|(_, style)| plain(*style)) {
            self.text.pop();
            self.width -= 1;
            let end = self.text.len();
            let begin = self
                .runs
                .len()
                .checked_sub(2)
                .and_then(|at| self.runs.get(at))
                .map_or(0, |run| run.0);
            if end == begin {
                self.runs.pop();
            } else if let Some(run) = self.runs.last_mut() {
                run.0 = end;
            }
        }
    }
}

/// Returns whether a character takes one column in every terminal.
fn is_simple(grapheme: &str) -> bool {
    let mut characters = grapheme.chars();
    let first = characters.next();
    characters.next().is_none()
        && first
            .is_some_and(|c| matches!(c, ' '..='~' | '─' | '·' | '…' | '›' | '\u{a1}'..='\u{17f}'))
}

/// Appends the change from one style to another.
fn push_style(out: &mut String, style: Style, last: Style) {
    let mut codes: Vec<String> = Vec::new();
    if last != Style::default() {
        codes.push(String::new());
    }
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    for (modifier, code) in modifiers {
        if style.add_modifier.contains(modifier) {
            codes.push(code.to_owned());
        }
    }
    codes.extend(style.fg.and_then(|color| color_code(color, 30)));
    codes.extend(style.bg.and_then(|color| color_code(color, 40)));
    let _ = write!(out, "\u{1b}[{}m", codes.join(";"));
}

/// Returns the code of a colour; `base` is 30 for text and 40 for what is behind it.
fn color_code(color: Color, base: u8) -> Option<String> {
    let bright = base + 60;
    let number = match color {
        Color::Reset => return None,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => bright,
        Color::LightRed => bright + 1,
        Color::LightGreen => bright + 2,
        Color::LightYellow => bright + 3,
        Color::LightBlue => bright + 4,
        Color::LightMagenta => bright + 5,
        Color::LightCyan => bright + 6,
        Color::White => bright + 7,
        Color::Indexed(index) => return Some(format!("{};5;{index}", base + 8)),
        Color::Rgb(red, green, blue) => {
            return Some(format!("{};2;{red};{green};{blue}", base + 8));
        }
    };
    Some(number.to_string())
}
