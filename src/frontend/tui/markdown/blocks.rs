//! Cuts Markdown into blocks, a line at a time.
//!
//! A block is done when a later line can no longer change it: a line of code at once, all
//! else when what follows begins. Nothing is looked up ahead or behind, so links by
//! reference stay as written. What is open is bounded: a long paragraph or table is cut.
//! Knows no width and no colours. Called by `mod.rs`; its blocks are drawn by `layout.rs`.

use crate::frontend::tui::highlight::{Highlighter, Tokens};
use crate::frontend::tui::markdown::scan;
use crate::frontend::tui::markdown::scan::{Align, ItemStart};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::{shown, width};

/// Text of a paragraph or a table that is laid out anew while it grows.
const OPEN_BYTES_MAX: usize = 16 * 1024;

/// Lists and quotes inside of each other; deeper marks are text.
const DEPTH_MAX: usize = 16;

/// A line of a paragraph that is as wide was broken by a writer who wraps, so it is filled;
/// a shorter one was meant to end there.
const FILLED_COLUMNS_MIN: usize = 60;

/// What stands before a block for one list item or quote around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lead {
    /// Before its first line.
    pub first: String,
    /// Before the others.
    pub rest: String,
    /// Of both.
    pub role: Role,
}

/// A block that no longer changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Set where a blank line stands before it: how many leads reach through that line.
    pub gap: Option<usize>,
    /// What stands before it, from the outside.
    pub leads: Vec<Lead>,
    /// Itself.
    pub kind: Kind,
}

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A paragraph.
    Text(Inline),
    /// A heading of this level.
    Heading(u8, Inline),
    /// One line of code.
    Code(Tokens),
    /// A table, or a part of a long one.
    Table(Table),
    /// A rule.
    Rule,
}

/// Text with marks in it, on one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Inline {
    /// The text; lines are joined by a space.
    pub text: String,
    /// Places of spaces at which the line ends nevertheless.
    pub breaks: Vec<usize>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    /// Whether its header is shown: not again in the parts of a long one.
    pub is_first: bool,
    /// One per column.
    pub header: Vec<String>,
    /// One per column.
    pub aligns: Vec<Align>,
    /// As many cells as there are columns each.
    pub rows: Vec<Vec<String>>,
}

/// A list item or a quote that is open.
#[derive(Debug, Clone)]
struct Container {
    id: u64,
    /// The mark, until a block has shown it.
    marker: Option<String>,
    /// Before further lines.
    rest: String,
    item: Option<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    indent: usize,
    mark: char,
    /// As written.
    number: u64,
    /// As shown.
    shown: u64,
}

/// The block that is open.
#[derive(Debug, Clone)]
enum Leaf {
    None,
    Paragraph {
        lines: Vec<String>,
        bytes: usize,
        is_rest: bool,
    },
    Code {
        fence: Open,
        highlighter: Highlighter,
        is_rest: bool,
    },
    /// Code that is set by its indent.
    Indented,
    Table {
        table: Table,
        bytes: usize,
    },
}

/// The fence of an open code block.
#[derive(Debug, Clone, Copy)]
struct Open {
    mark: char,
    count: usize,
    indent: usize,
}

/// The state between lines.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    containers: Vec<Container>,
    leaf: Leaf,
    is_after_blank: bool,
    /// What kind of block was last, and the containers it was in.
    last: Option<(Spacing, Vec<u64>)>,
    next_id: u64,
    done: Vec<Block>,
}

/// How much room a block wants around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spacing {
    AsWritten,
    Before,
    Around,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            containers: Vec::new(),
            leaf: Leaf::None,
            is_after_blank: false,
            last: None,
            next_id: 0,
            done: Vec::new(),
        }
    }
}

impl Blocks {
    /// Returns the blocks that are done, each once.
    pub(super) fn take(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.done)
    }

    /// Returns the state without the blocks that are done.
    pub(super) fn open(&self) -> Self {
        Self {
            containers: self.containers.clone(),
            leaf: self.leaf.clone(),
            last: self.last.clone(),
            done: Vec::new(),
            ..*self
        }
    }

    /// Ends the text.
    pub(super) fn close(&mut self) {
        self.close_leaf();
        self.close_to(0);
    }

    /// Takes the rest of a line that was too long to be taken whole.
    pub(super) fn push_rest(&mut self, piece: &str) {
        match &mut self.leaf {
            Leaf::Code { .. } => self.push_code(piece),
            Leaf::Indented => self.emit_code(vec![(Role::Text, shown(piece).into_owned())], true),
            Leaf::Table { .. } => {
                self.close_leaf();
                self.push_text(piece);
            }
            Leaf::None | Leaf::Paragraph { .. } => self.push_text(piece),
        }
    }

    /// Takes one line, without its end.
    pub(super) fn push_line(&mut self, line: &str) {
        let line = scan::expand_tabs(line);
        let (matched, rest) = self.match_containers(&line);
        let is_inside = matched == self.containers.len();
        if is_inside && let Leaf::Code { fence, .. } = &self.leaf {
            let fence = *fence;
            return self.push_fenced(rest, fence);
        }
        if scan::is_blank(rest) {
            return self.push_blank(matched);
        }
        if !is_inside {
            let is_text = matches!(self.leaf, Leaf::Paragraph { .. });
            if is_text && !starts_block(rest) {
                // A paragraph goes on although the marks around it are left out.
                return self.push_text(rest);
            }
            self.close_leaf();
        }
        let before = self.close_to(matched);
        self.open_containers(rest, before);
    }

    /// Returns how many of the containers the line is in, and what is inside of them.
    fn match_containers<'a>(&self, line: &'a str) -> (usize, &'a str) {
        let mut rest = line;
        for (place, container) in self.containers.iter().enumerate() {
            let inside = match container.item {
                None => scan::quote(rest),
                Some(_) if scan::is_blank(rest) => Some(""),
                Some(item) if scan::indent(rest) >= item.indent => rest.get(item.indent..),
                Some(_) => None,
            };
            let Some(inside) = inside else { return (place, rest) };
            rest = inside;
        }
        (self.containers.len(), rest)
    }

    fn push_blank(&mut self, matched: usize) {
        if !matches!(self.leaf, Leaf::Indented) || matched < self.containers.len() {
            self.close_leaf();
        }
        self.close_to(matched);
        self.is_after_blank = true;
    }

    /// Closes containers; returns the last one that was an item at this depth.
    fn close_to(&mut self, depth: usize) -> Option<Item> {
        let mut last = None;
        while self.containers.len() > depth {
            let is_unseen = self.containers.last().is_some_and(|it| it.marker.is_some());
            if is_unseen {
                // An item without content still is one.
                self.emit(Kind::Text(Inline::default()), false);
            }
            last = self.containers.pop().and_then(|container| container.item);
        }
        last
    }

    /// Opens the containers that the line begins, then takes what is inside of them.
    fn open_containers(&mut self, line: &str, mut before: Option<Item>) {
        let mut rest = line.to_owned();
        while self.containers.len() < DEPTH_MAX && scan::indent(&rest) < 4 {
            if let Some(inside) = scan::quote(&rest) {
                self.close_leaf();
                self.open_container("> ".to_owned(), None);
                rest = scan::expand_tabs(inside);
            } else if let Some(start) = scan::item(&rest).filter(|start| self.may_begin(start)) {
                self.close_leaf();
                self.open_item(&start, before);
                rest = start.rest;
            } else {
                break;
            }
            before = None;
            if scan::is_blank(&rest) {
                return;
            }
        }
        self.push_leaf(&rest);
    }

    /// Returns whether an item may begin here: inside of a paragraph only one that is surely
    /// meant.
    fn may_begin(&self, start: &ItemStart) -> bool {
        match &self.leaf {
            Leaf::Paragraph { .. } => {
                !scan::is_blank(&start.rest) && start.number.is_none_or(|number| number == 1)
            }
            _ => true,
        }
    }

    fn open_item(&mut self, start: &ItemStart, before: Option<Item>) {
        let number = start.number.unwrap_or_default();
        // `1. 1. 1.` counts; all other numbers are shown as they are.
        let shown = match before {
            Some(before) if before.mark == start.mark && before.number == number => {
                before.shown.saturating_add(1)
            }
            Some(_) | None => number,
        };
        let marker = match start.number {
            Some(_) => format!("{shown}{} ", start.mark),
            None => "- ".to_owned(),
        };
        let item = Item { indent: start.indent, mark: start.mark, number, shown };
        self.open_container(marker, Some(item));
    }

    fn open_container(&mut self, marker: String, item: Option<Item>) {
        let rest = if item.is_some() { " ".repeat(marker.len()) } else { marker.clone() };
        let id = self.next_id;
        self.next_id += 1;
        let marker = item.is_some().then_some(marker);
        self.containers.push(Container { id, marker, rest, item });
    }

    /// Takes what is inside of all containers.
    fn push_leaf(&mut self, line: &str) {
        let is_text = matches!(self.leaf, Leaf::Paragraph { .. });
        if scan::indent(line) >= 4 && !is_text {
            return self.push_indented(line);
        }
        if is_text {
            if let Some(level) = scan::underline(line) {
                return self.end_heading(level);
            }
            if let Some(aligns) = scan::table_rule(line)
                && self.begin_table(aligns)
            {
                return;
            }
        }
        if let Some((level, text)) = scan::heading(line) {
            self.close_leaf();
            self.emit(
                Kind::Heading(level, Inline { text: clean(text), breaks: Vec::new() }),
                false,
            );
        } else if let Some(fence) = scan::fence(line) {
            self.close_leaf();
            let highlighter = Highlighter::new(fence.language);
            let fence = Open { mark: fence.mark, count: fence.count, indent: fence.indent };
            self.leaf = Leaf::Code { fence, highlighter, is_rest: false };
        } else if scan::is_rule(line) {
            self.close_leaf();
            self.emit(Kind::Rule, false);
        } else if line.contains('|') && matches!(self.leaf, Leaf::Table { .. }) {
            self.push_row(line);
        } else {
            if !is_text {
                self.close_leaf();
            }
            self.push_text(line);
        }
    }

    fn push_text(&mut self, line: &str) {
        let text = clean(line.trim_start());
        let is_full = matches!(&self.leaf, Leaf::Paragraph { bytes, .. } if bytes + text.len() > OPEN_BYTES_MAX);
        if is_full {
            self.close_leaf();
        }
        if let Leaf::Paragraph { lines, bytes, .. } = &mut self.leaf {
            *bytes += text.len() + 1;
            lines.push(text);
        } else {
            let bytes = text.len();
            self.leaf = Leaf::Paragraph { lines: vec![text], bytes, is_rest: is_full };
        }
    }

    fn end_heading(&mut self, level: u8) {
        if let Leaf::Paragraph { lines, is_rest, .. } =
            std::mem::replace(&mut self.leaf, Leaf::None)
        {
            self.emit(Kind::Heading(level, join(&lines)), is_rest);
        }
    }

    fn push_indented(&mut self, line: &str) {
        let is_rest = matches!(self.leaf, Leaf::Indented);
        if !is_rest {
            self.close_leaf();
            self.leaf = Leaf::Indented;
        }
        let code = line.get(4..).unwrap_or_default();
        self.emit_code(vec![(Role::Text, shown(code).into_owned())], is_rest);
    }

    fn push_fenced(&mut self, line: &str, fence: Open) {
        if scan::closes_fence(line, fence.mark, fence.count) {
            self.leaf = Leaf::None;
            return;
        }
        let indent = scan::indent(line).min(fence.indent);
        self.push_code(line.get(indent..).unwrap_or_default());
    }

    fn push_code(&mut self, line: &str) {
        let Leaf::Code { highlighter, is_rest, .. } = &mut self.leaf else { return };
        let tokens = highlighter.line(line);
        let is_rest = std::mem::replace(is_rest, true);
        self.emit_code(tokens, is_rest);
    }

    fn emit_code(&mut self, tokens: Tokens, is_rest: bool) {
        self.emit(Kind::Code(tokens), is_rest);
    }

    /// Makes the paragraph's last line a table's header, if it has as many columns.
    fn begin_table(&mut self, aligns: Vec<Align>) -> bool {
        let Leaf::Paragraph { lines, .. } = &mut self.leaf else { return false };
        let header = lines.last().map(|line| scan::cells(line)).unwrap_or_default();
        if header.len() != aligns.len() {
            return false;
        }
        lines.pop();
        self.close_leaf();
        let bytes = header.iter().map(String::len).sum();
        let table = Table { is_first: true, header, aligns, rows: Vec::new() };
        self.leaf = Leaf::Table { table, bytes };
        true
    }

    fn push_row(&mut self, line: &str) {
        let Leaf::Table { table, bytes } = &mut self.leaf else { return };
        let is_full = *bytes + line.len() > OPEN_BYTES_MAX && !table.rows.is_empty();
        let rest = is_full.then(|| Table { is_first: false, rows: Vec::new(), ..table.clone() });
        if let Some(rest) = rest {
            self.close_leaf();
            self.leaf = Leaf::Table { table: rest, bytes: 0 };
        }
        let Leaf::Table { table, bytes } = &mut self.leaf else { return };
        *bytes += line.len();
        let mut row = scan::cells(&clean(line));
        // What is beyond the last column stays in it.
        let more = row.split_off(row.len().min(table.header.len()));
        if let Some(last) = row.last_mut() {
            more.iter().for_each(|cell| last.extend([" | ", cell.as_str()]));
        }
        row.resize(table.header.len(), String::new());
        table.rows.push(row);
    }

    fn close_leaf(&mut self) {
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::Paragraph { lines, is_rest, .. } if !lines.is_empty() => {
                self.emit(Kind::Text(join(&lines)), is_rest);
            }
            Leaf::Table { table, .. } => {
                let is_rest = !table.is_first;
                self.emit(Kind::Table(table), is_rest);
            }
            Leaf::None | Leaf::Paragraph { .. } | Leaf::Code { .. } | Leaf::Indented => {}
        }
    }

    /// Adds a block that is done; the rest of one has no gap of its own.
    fn emit(&mut self, mut kind: Kind, is_rest: bool) {
        let spacing = match &kind {
            Kind::Text(_) | Kind::Rule => Spacing::AsWritten,
            Kind::Heading(..) => Spacing::Before,
            Kind::Code(_) | Kind::Table(_) => Spacing::Around,
        };
        let ids: Vec<u64> = self.containers.iter().map(|container| container.id).collect();
        let is_marked = self.containers.iter().any(|container| container.marker.is_some());
        let gap = self.last.as_ref().and_then(|(last, last_ids)| {
            let wants = *last == Spacing::Around || (spacing != Spacing::AsWritten && !is_marked);
            let is_gap = self.is_after_blank || (wants && !is_rest);
            let shared = ids.iter().zip(last_ids).take_while(|(one, other)| one == other).count();
            is_gap.then_some(shared)
        });
        let lead = |container: &mut Container| Lead {
            first: container.marker.take().unwrap_or_else(|| container.rest.clone()),
            rest: container.rest.clone(),
            role: Role::Dim,
        };
        let begins_item = self.containers.last().is_some_and(|it| it.marker.is_some());
        let mut leads: Vec<_> = self.containers.iter_mut().map(lead).collect();
        if let (true, Kind::Text(inline)) = (begins_item, &mut kind) {
            leads.extend(take_task(inline));
        }
        self.done.push(Block { gap, leads, kind });
        self.last = Some((spacing, ids));
        self.is_after_blank = false;
    }
}

/// Takes the box of a task from the beginning of an item's text.
fn take_task(inline: &mut Inline) -> Option<Lead> {
    const BOXES: &[(&str, Role)] =
        &[("[ ] ", Role::Dim), ("[x] ", Role::Good), ("[X] ", Role::Good)];
    let (mark, role) = BOXES.iter().find(|(mark, _)| inline.text.starts_with(mark))?;
    inline.text.drain(..mark.len());
    for place in &mut inline.breaks {
        *place = place.saturating_sub(mark.len());
    }
    Some(Lead { first: (*mark).to_owned(), rest: " ".repeat(mark.len()), role: *role })
}

/// Returns whether the line begins a block that ends a paragraph.
fn starts_block(line: &str) -> bool {
    scan::indent(line) < 4
        && (scan::quote(line).is_some()
            || scan::item(line).is_some()
            || scan::heading(line).is_some()
            || scan::fence(line).is_some()
            || scan::is_rule(line))
}

/// Returns the text without characters that would end a line of their own.
fn clean(text: &str) -> String {
    text.replace('\r', "␍").replace('\n', "␊")
}

/// Joins a paragraph's lines to one.
fn join(lines: &[String]) -> Inline {
    let mut joined = Inline::default();
    for (place, line) in lines.iter().enumerate() {
        let (text, is_hard) = match line.trim_end() {
            text if line.len() >= text.len() + 2 => (text, true),
            text if text.ends_with('\\') && place + 1 < lines.len() => {
                (text.strip_suffix('\\').unwrap_or(text), true)
            }
            text => (text, false),
        };
        joined.text.push_str(text);
        if place + 1 < lines.len() {
            if is_hard || width(text) < FILLED_COLUMNS_MIN {
                joined.breaks.push(joined.text.len());
            }
            joined.text.push(' ');
        }
    }
    joined
}
