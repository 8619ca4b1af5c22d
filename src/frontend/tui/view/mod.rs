//! `view`: what the terminal should show, from the model alone.
//!
//! Two forms: the few lines at the bottom that may change, below what has gone into the
//! scrollback; or the whole screen, while a page is open. Pure; `screen.rs` makes bytes of it.

mod ask;
mod live;
mod pager;
mod picker;
mod status;

use ratatui::text::Line;

use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::Overlay;

pub(crate) use ask::ask_text_height;
pub(crate) use live::composer_room;
pub(crate) use pager::pager_height;
pub(crate) use status::{approval_word, place, sandbox_word};

/// What the terminal should show.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// Lines from the top; at most as many as the terminal has rows.
    pub lines: Vec<Line<'static>>,
    /// Where the cursor is, as column and line of `lines`; hidden when absent.
    pub cursor: Option<(u16, u16)>,
    /// Whether these lines are the whole screen.
    pub is_full: bool,
}

/// Returns what the terminal should show.
pub(crate) fn view(model: &Model) -> View {
    let mut view = match model.overlays.last() {
        Some(Overlay::Pager(page)) => pager::view(model, page),
        Some(Overlay::Picker(_)) | None => live::view(model),
    };
    view.lines.truncate(usize::from(model.size.height));
    view.cursor = view.cursor.filter(|(_, row)| usize::from(*row) < view.lines.len());
    view
}
