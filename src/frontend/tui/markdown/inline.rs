//! Turns the marks inside a line of Markdown into styles.
//!
//! Emphasis, code, links and images; HTML is shown as it is written, but `<br>` ends a line.
//! Every text is cleaned after entities are resolved, so none can hide a control character.
//! Knows no width. Called by `layout.rs` and `table.rs`.

use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::frontend::tui::markdown::blocks::Inline;
use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::shown;

/// Stands before the text, so that the parser takes no text for the beginning of a block.
const GUARD: &str = "x ";

/// Returns the lines of the text, not yet cut to a width; at least one.
pub(super) fn draw_inline(inline: &Inline, base: Style, theme: Theme) -> Vec<Line<'static>> {
    let guarded = format!("{GUARD}{}", inline.text);
    let breaks = inline.breaks.iter().map(|place| place + GUARD.len()).collect();
    let mut writer = Writer {
        source: &guarded,
        breaks,
        theme,
        base,
        marks: Vec::new(),
        links: Vec::new(),
        rows: vec![Vec::new()],
    };
    for (event, range) in
        Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH).into_offset_iter()
    {
        writer.take(event, range);
    }
    writer.rows.into_iter().map(Line::from).collect()
}

struct Writer<'a> {
    source: &'a str,
    /// Where lines end.
    breaks: Vec<usize>,
    theme: Theme,
    base: Style,
    /// The open marks, from the outside.
    marks: Vec<Modifier>,
    /// The open links: where each leads, and its text so far.
    links: Vec<OpenLink>,
    rows: Vec<Vec<Span<'static>>>,
}

struct OpenLink {
    url: String,
    text: String,
    is_own_text: bool,
}

impl Writer<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.put_text(&text, range),
            Event::Code(text) => {
                let fence = if text.contains('`') { "``" } else { "`" };
                self.put(&format!("{fence}{text}{fence}"), self.theme.style(Role::Code));
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                if is_line_break(&text) {
                    self.rows.push(Vec::new());
                } else {
                    self.put_text(&text, range);
                }
            }
            Event::SoftBreak | Event::HardBreak => self.put(" ", Style::new()),
            // None of them is asked for; what they hold is text.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.put(&text, Style::new());
            }
            Event::Rule | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let mut open = |url: &CowStr<'_>, is_own_text| {
            let (url, text) = (url.to_string(), String::new());
            self.links.push(OpenLink { url, text, is_own_text });
        };
        match tag {
            Tag::Emphasis => self.marks.push(Modifier::ITALIC),
            Tag::Strong => self.marks.push(Modifier::BOLD),
            Tag::Strikethrough => self.marks.push(Modifier::CROSSED_OUT),
            Tag::Link { link_type, dest_url, .. } => {
                open(dest_url, matches!(link_type, LinkType::Autolink | LinkType::Email));
            }
            Tag::Image { dest_url, .. } => {
                open(dest_url, false);
                self.put("image: ", self.theme.style(Role::Dim));
                if let Some(link) = self.links.last_mut() {
                    link.text.clear();
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.marks.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                let Some(link) = self.links.pop() else { return };
                if !link.is_own_text && !is_same_place(&link.text, &link.url) {
                    let space = if link.text.is_empty() { "" } else { " " };
                    self.put(&format!("{space}({})", link.url), self.theme.style(Role::Dim));
                }
            }
            _ => {}
        }
    }

    /// Adds text of the source, which may hold places where lines end.
    fn put_text(&mut self, text: &str, range: Range<usize>) {
        let style =
            if self.links.is_empty() { Style::new() } else { self.theme.style(Role::Accent) };
        let (mut rest, mut start) = (text, range.start);
        if start < GUARD.len() {
            rest = rest.get(GUARD.len() - start..).unwrap_or_default();
            start = GUARD.len();
        }
        // Only what is written as it is shown has places.
        if self.source.get(range.clone()) == Some(text) {
            let from = self.breaks.partition_point(|place| *place < start);
            let to = self.breaks.partition_point(|place| *place < range.end);
            let places = self.breaks.get(from..to).unwrap_or_default().to_vec();
            for place in places {
                let Some((line, more)) = rest.split_at_checked(place - start) else { break };
                self.put(line, style);
                self.rows.push(Vec::new());
                rest = more.strip_prefix(' ').unwrap_or(more);
                start = place + (more.len() - rest.len());
            }
        }
        self.put(rest, style);
    }

    fn put(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(text);
        }
        let marked = self.marks.iter().fold(self.base, |style, mark| style.add_modifier(*mark));
        let style = marked.patch(style);
        let text = shown(text);
        let Some(row) = self.rows.last_mut() else { return };
        match row.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(&text),
            Some(_) | None => row.push(Span::styled(text.into_owned(), style)),
        }
    }
}

fn is_line_break(tag: &str) -> bool {
    let name = tag.trim_start_matches('<').trim_end_matches(['>', '/', ' ']);
    name.eq_ignore_ascii_case("br")
}

/// Returns whether the text of a link says where it leads.
fn is_same_place(text: &str, url: &str) -> bool {
    let bare = |place: &str| -> String {
        let place = place.trim();
        let schemes = ["https://", "http://", "mailto:"];
        let place = schemes.iter().find_map(|scheme| place.strip_prefix(scheme)).unwrap_or(place);
        place.strip_suffix('/').unwrap_or(place).to_owned()
    };
    // Code in a link shows with its marks.
    bare(text.trim_matches('`')) == bare(url)
}
