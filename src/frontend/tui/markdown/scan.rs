//! Says what a line of Markdown begins with: a heading, a fence, an item, a rule.
//!
//! Looks at one line at a time, without what contains it. Pure; knows no state. Called by
//! `blocks.rs`.

/// A list item's beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemStart {
    /// `-`, `*`, `+`, `.` or `)`.
    pub mark: char,
    /// The number of an ordered item.
    pub number: Option<u64>,
    /// Columns from the line's beginning to the item's content.
    pub indent: usize,
    /// What follows.
    pub rest: String,
}

/// The line that opens a code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// A backtick or a tilde.
    pub mark: char,
    /// How many.
    pub count: usize,
    /// Columns before it.
    pub indent: usize,
    /// The language, or nothing.
    pub language: &'a str,
}

/// Returns the line with the tabs at its beginning as spaces.
pub(super) fn expand_tabs(line: &str) -> String {
    let inside = line.trim_start_matches([' ', '\t']);
    let columns = columns_of(line.get(..line.len() - inside.len()).unwrap_or_default(), 0);
    format!("{:columns$}{inside}", "")
}

/// Returns how many spaces the line begins with.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// Returns what follows the mark of a quote.
pub(super) fn quote(line: &str) -> Option<&str> {
    let inside = line.trim_start_matches(' ').strip_prefix('>').filter(|_| indent(line) < 4)?;
    Some(inside.strip_prefix(' ').unwrap_or(inside))
}

/// Returns the level and the text of a heading.
pub(super) fn heading(line: &str) -> Option<(u8, &str)> {
    let text = line.trim_start_matches(' ');
    let inside = text.trim_start_matches('#');
    let level =
        u8::try_from(text.len() - inside.len()).ok().filter(|level| (1..=6).contains(level))?;
    if indent(line) >= 4 || !(inside.is_empty() || inside.starts_with([' ', '\t'])) {
        return None;
    }
    let inside = inside.trim();
    let bare = inside.trim_end_matches('#');
    // Marks at the end close a heading when a space stands before them.
    let closed = bare.is_empty() || bare.ends_with([' ', '\t']);
    Some((level, if closed { bare.trim_end() } else { inside }))
}

/// Returns whether the line is a rule.
pub(super) fn is_rule(line: &str) -> bool {
    let Some(mark) = line.trim_start().chars().next().filter(|mark| "*-_".contains(*mark)) else {
        return false;
    };
    let is_part = |letter: char| letter == mark || letter == ' ' || letter == '\t';
    indent(line) < 4 && line.chars().all(is_part) && line.matches(mark).count() >= 3
}

/// Returns the level of the heading that the line makes of the paragraph above it.
pub(super) fn underline(line: &str) -> Option<u8> {
    let text = line.trim();
    let all = |mark: char| !text.is_empty() && text.chars().all(|letter| letter == mark);
    match indent(line) < 4 {
        true if all('=') => Some(1),
        true if all('-') => Some(2),
        true | false => None,
    }
}

/// Returns the fence that the line opens.
pub(super) fn fence(line: &str) -> Option<Fence<'_>> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|mark| "`~".contains(*mark))?;
    let info = text.trim_start_matches(mark);
    let (count, indent) = (text.len() - info.len(), indent(line));
    if count < 3 || indent >= 4 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let ends = |letter: char| letter.is_whitespace() || ",{}:".contains(letter);
    let language = info.trim_start().trim_start_matches('{').trim_start_matches('.');
    let language = language.split(ends).next().unwrap_or_default();
    Some(Fence { mark, count, indent, language })
}

/// Returns whether the line closes a fence of so many marks.
pub(super) fn closes_fence(line: &str, mark: char, count: usize) -> bool {
    let text = line.trim();
    indent(line) < 4 && text.len() >= count && text.chars().all(|letter| letter == mark)
}

/// Returns the item that the line begins.
pub(super) fn item(line: &str) -> Option<ItemStart> {
    /// Longer numbers are none of a list.
    const DIGITS_MAX: usize = 9;
    let text = line.trim_start_matches(' ');
    let before = line.len() - text.len();
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    if before >= 4 || digits > DIGITS_MAX || is_rule(line) {
        return None;
    }
    let number = text.get(..digits)?.parse().ok();
    let marks = if number.is_some() { ".)" } else { "-*+" };
    let mark = text.get(digits..)?.chars().next().filter(|mark| marks.contains(*mark))?;
    let after = text.get(digits + 1..)?;
    if !(after.is_empty() || after.starts_with([' ', '\t'])) {
        return None;
    }
    let content = after.trim_start_matches([' ', '\t']);
    let start = before + digits + 1;
    let spaces = columns_of(after.get(..after.len() - content.len())?, start);
    // Much space belongs to the content: it is code.
    let taken = if content.is_empty() || spaces > 4 { 1 } else { spaces };
    let kept = if content.is_empty() { 0 } else { spaces - taken };
    Some(ItemStart { mark, number, indent: start + taken, rest: format!("{:kept$}{content}", "") })
}

/// Returns the columns that spaces and tabs take from this column on.
fn columns_of(space: &str, start: usize) -> usize {
    let next = |column: usize, byte| column + if byte == b'\t' { 4 - column % 4 } else { 1 };
    space.bytes().fold(start, next) - start
}

/// How a column of a table is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Align {
    #[default]
    Left,
    Centre,
    Right,
}

/// More columns than anybody can read make no table.
const COLUMNS_MAX: usize = 64;

/// Returns how the columns are set, if the line is what follows a table's header.
pub(super) fn table_rule(line: &str) -> Option<Vec<Align>> {
    if !line.contains('|') || !line.chars().all(|letter| "|-: \t".contains(letter)) {
        return None;
    }
    let align = |cell: String| {
        let (left, right) = (cell.starts_with(':'), cell.ends_with(':'));
        let inside = cell.strip_prefix(':').unwrap_or(&cell);
        let inside = inside.strip_suffix(':').unwrap_or(inside);
        let is_line = !inside.is_empty() && inside.chars().all(|letter| letter == '-');
        is_line.then_some(match (left, right) {
            (true, true) => Align::Centre,
            (false, true) => Align::Right,
            (_, false) => Align::Left,
        })
    };
    let columns: Option<Vec<_>> = cells(line).into_iter().map(align).collect();
    columns.filter(|columns| columns.len() <= COLUMNS_MAX)
}

/// Returns the cells of a row; `\|` is part of one.
pub(super) fn cells(line: &str) -> Vec<String> {
    let text = line.trim();
    let text = text.strip_prefix('|').unwrap_or(text);
    let mut cells = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_escaped = letter == '\\' && letters.next_if_eq(&'|').is_some();
        match cells.last_mut() {
            Some(cell) if is_escaped => cell.push('|'),
            Some(cell) if letter != '|' => cell.push(letter),
            // A bar at the end closes the last cell.
            _ if letters.peek().is_some() => cells.push(String::new()),
            _ => {}
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
