//! A page over the whole screen: its text, and one line that says where one is.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::frontend::tui::cells::frame::{clean_line, span};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::msg::Size;
use crate::frontend::tui::overlay::{Pager, Subject};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::View;
use crate::frontend::tui::view::live::one_row;

/// Returns the rows that are left for text.
pub(crate) fn pager_height(size: Size) -> usize {
    usize::from(size.height.saturating_sub(1)).max(1)
}

pub(super) fn view(model: &Model, pager: &Pager) -> View {
    let height = pager_height(model.size);
    let words = pager.search.as_ref().map(|search| search.text.to_lowercase());
    let words = words.filter(|words| !words.is_empty());
    let mut lines: Vec<Line<'static>> = pager
        .lines
        .iter()
        .skip(pager.top)
        .take(height)
        .map(|line| match &words {
            Some(words) => marked(line, words),
            None => line.clone(),
        })
        .collect();
    lines.resize(height, Line::default());
    lines.push(foot(model, pager, height));
    View { lines, cursor: None, is_full: true }
}

fn foot(model: &Model, pager: &Pager, height: usize) -> Line<'static> {
    if let Some(search) = pager.search.as_ref().filter(|search| search.is_open) {
        let text = format!("/{}", clean_line(&search.text));
        return one_row(model, vec![span(model.theme, Role::Accent, text)]);
    }
    let title = match pager.subject {
        Subject::Transcript => "conversation",
        Subject::Help => "help",
        Subject::Diff => "changes",
        Subject::Status => "status",
    };
    if let Some(hint) = &model.hint {
        return one_row(model, vec![span(model.theme, Role::Warn, clean_line(&hint.text))]);
    }
    let last = (pager.top + height).min(pager.lines.len());
    let place = format!("{title} · {last} of {}", pager.lines.len());
    let keys = match pager.subject {
        Subject::Transcript => " · / searches · O folds · y copies · q leaves",
        Subject::Help | Subject::Diff | Subject::Status => " · / searches, n next · q leaves",
    };
    one_row(model, vec![span(model.theme, Role::Accent, place), span(model.theme, Role::Dim, keys)])
}

/// Returns the line with what is searched marked. Marks whole spans that hold it, or the part.
fn marked(line: &Line<'static>, words: &str) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for part in &line.spans {
        let text = part.content.as_ref();
        let lower = text.to_lowercase();
        // Lower case can be longer; then the places do not fit and the whole span is marked.
        let fits = lower.len() == text.len();
        match lower.find(words) {
            Some(at)
                if fits && text.is_char_boundary(at) && text.is_char_boundary(at + words.len()) =>
            {
                let (before, rest) = text.split_at(at);
                let (hit, after) = rest.split_at(words.len());
                spans.push(Span::styled(before.to_owned(), part.style));
                spans.push(Span::styled(
                    hit.to_owned(),
                    part.style.add_modifier(Modifier::REVERSED),
                ));
                spans.push(Span::styled(after.to_owned(), part.style));
            }
            Some(_) => spans.push(part.clone().style(part.style.add_modifier(Modifier::REVERSED))),
            None => spans.push(part.clone()),
        }
    }
    Line::from(spans)
}
