//! Lines cut to a width: at words, by what a terminal shows and not by bytes.
//!
//! Counts in graphemes as the terminal does, keeps styles, and never gives a line that is
//! wider than asked, whatever the text. Must not know what the text means. Called by every
//! part of the screen that lays text out.

use std::borrow::Cow;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::text::ansi::visible_line;

/// Columns from one tab stop to the next.
const TAB_COLUMNS: usize = 4;

/// A longer grapheme is a heap of combining marks; a family of emoji takes some 40.
const GRAPHEME_BYTES_MAX: usize = 64;

/// Stands for what cannot be shown, or not in so few columns. One column wide.
const REPLACEMENT: &str = "\u{FFFD}";

/// Returns the columns that the text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(|grapheme| shape(grapheme).1).sum()
}

/// Returns text from outside as one line that is safe to show: cleaned, tabs as spaces.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let clean = visible_line(text);
    if !clean.contains('\t') {
        return clean;
    }
    let mut spaced = String::with_capacity(clean.len() + 16);
    let mut column = 0;
    for part in clean.split_inclusive('\t') {
        let words = part.strip_suffix('\t');
        spaced.push_str(words.unwrap_or(part));
        column += width(words.unwrap_or(part));
        if words.is_some() {
            let spaces = TAB_COLUMNS - column % TAB_COLUMNS;
            spaced.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        }
    }
    Cow::Owned(spaced)
}

/// Returns the beginning of the text that fits into so many columns.
pub(crate) fn clip(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        taken += shape(grapheme).1;
        if taken > columns {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// Cuts a line to the width; words stay whole where they fit.
pub(crate) fn wrap_line(line: &Line<'_>, width: u16) -> Vec<Line<'static>> {
    wrap_styled(line, width, &Indent::default())
}

/// Cuts a line to the width, with one text before its first line and one before the others.
pub(crate) fn wrap_with(
    line: &Line<'_>,
    width: u16,
    first: &str,
    rest: &str,
) -> Vec<Line<'static>> {
    let span = |text: &str| vec![Span::raw(text.to_owned())];
    wrap_styled(line, width, &Indent { first: span(first), rest: span(rest) })
}

/// What stands before the lines that a line is cut into; at most half of the width.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indent {
    /// Before the first.
    pub first: Vec<Span<'static>>,
    /// Before the others.
    pub rest: Vec<Span<'static>>,
}

/// Cuts a line to the width, behind an indent that has styles of its own.
pub(crate) fn wrap_styled(line: &Line<'_>, width: u16, indent: &Indent) -> Vec<Line<'static>> {
    let columns = usize::from(width.max(1));
    let (first, rest) =
        (clip_spans(&indent.first, columns / 2), clip_spans(&indent.rest, columns / 2));
    let mut wrapper = Wrapper {
        limit: columns - first.width,
        rest_limit: columns - rest.width,
        word_max: columns - first.width.max(rest.width),
        lines: Vec::new(),
        line: Row::default(),
        spaces: Row::default(),
        word: Row::default(),
        after_wide: false,
    };
    for span in &line.spans {
        let style = line.style.patch(span.style);
        for grapheme in span.content.graphemes(true) {
            wrapper.push(grapheme, style);
        }
    }
    let rows = wrapper.finish().into_iter().enumerate();
    rows.map(|(place, row)| {
        let before = if place == 0 { &first } else { &rest };
        let mut spans = before.spans.clone();
        spans.extend(row.spans);
        Line::from(spans)
    })
    .collect()
}

fn clip_spans(spans: &[Span<'static>], columns: usize) -> Row {
    let mut row = Row::default();
    for span in spans {
        for grapheme in span.content.graphemes(true) {
            let (shown, width) = shape(grapheme);
            if row.width + width > columns {
                return row;
            }
            row.push(shown, width, span.style);
        }
    }
    row
}

/// Returns what is shown of a grapheme and how many columns it takes.
fn shape(grapheme: &str) -> (&str, usize) {
    if let [byte] = grapheme.as_bytes() {
        return match byte {
            b'\t' => (" ", 1),
            0x20..=0x7E => (grapheme, 1),
            _ => (REPLACEMENT, 1),
        };
    }
    if grapheme.len() > GRAPHEME_BYTES_MAX || grapheme.contains(char::is_control) {
        return (REPLACEMENT, 1);
    }
    (grapheme, grapheme.width())
}

/// A stretch of a line under construction.
#[derive(Default)]
struct Row {
    spans: Vec<Span<'static>>,
    width: usize,
}

impl Row {
    fn push(&mut self, text: &str, width: usize, style: Style) {
        self.width += width;
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            Some(_) | None => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn append(&mut self, mut other: Self) {
        self.width += other.width;
        let mut spans = other.spans.drain(..).peekable();
        if let (Some(last), Some(next)) = (self.spans.last_mut(), spans.peek())
            && last.style == next.style
        {
            last.content.to_mut().push_str(&next.content);
            spans.next();
        }
        self.spans.extend(spans);
    }
}

struct Wrapper {
    /// Columns of the line under construction.
    limit: usize,
    /// Columns of those after it.
    rest_limit: usize,
    /// A longer word is cut.
    word_max: usize,
    lines: Vec<Row>,
    line: Row,
    /// Between the line and the word; gone if the line breaks here.
    spaces: Row,
    word: Row,
    after_wide: bool,
}

impl Wrapper {
    fn push(&mut self, grapheme: &str, style: Style) {
        let (text, width) = match shape(grapheme) {
            (_, width) if width > self.word_max => (REPLACEMENT, 1),
            shape => shape,
        };
        if text == " " {
            self.flush();
            self.spaces.push(text, width, style);
            self.after_wide = false;
            return;
        }
        // Scripts without spaces may break anywhere but before what closes.
        let is_wide = width > 1;
        if (is_wide || self.after_wide) && !closes(text) {
            self.flush();
        }
        if self.word.width + width > self.word_max {
            self.flush();
        }
        self.word.push(text, width, style);
        self.after_wide = is_wide;
    }

    /// Puts the word on the line, or on the next one.
    fn flush(&mut self) {
        if self.word.spans.is_empty() {
            return;
        }
        let (word, spaces) = (std::mem::take(&mut self.word), std::mem::take(&mut self.spaces));
        if self.line.width + spaces.width + word.width > self.limit {
            // Where nothing stands before it, only what it is indented by can go.
            if !self.line.spans.is_empty() {
                self.end_line();
            }
        } else {
            self.line.append(spaces);
        }
        self.line.append(word);
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.limit = self.rest_limit;
    }

    fn finish(mut self) -> Vec<Row> {
        self.flush();
        if self.lines.is_empty() || !self.line.spans.is_empty() {
            self.end_line();
        }
        self.lines
    }
}

/// Returns whether a line does not begin with this.
fn closes(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    matches!(
        first,
        ')' | ']'
            | '}'
            | ','
            | '.'
            | ':'
            | ';'
            | '!'
            | '?'
            | '%'
            | '、'
            | '。'
            | '，'
            | '．'
            | '：'
            | '；'
            | '！'
            | '？'
            | '）'
            | '］'
            | '｝'
            | '」'
            | '』'
            | '】'
            | '〉'
            | '》'
            | '〕'
            | '”'
            | '’'
            | 'ー'
            | '…'
    )
}

#[cfg(test)]
#[path = "wrap_tests.rs"]
mod tests;
