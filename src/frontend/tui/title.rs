//! The terminal's title: whether it works, waits or is at rest, and where.

use crate::frontend::tui::cells::frame::clean_line;
use crate::frontend::tui::model::Model;

/// Characters of a title; window lists cut far earlier.
const CHARS_MAX: usize = 80;

/// Returns the title.
pub(crate) fn title(model: &Model) -> String {
    let name = model.facts.cwd.file_name().map(|name| name.to_string_lossy().into_owned());
    let place = clean_line(&name.unwrap_or_else(|| "/".to_owned()));
    let state = match (model.asks.is_empty(), &model.turn) {
        (false, _) => "waits for you · ",
        (true, Some(_)) => "works · ",
        (true, None) => "",
    };
    format!("{state}gimlet · {place}").chars().take(CHARS_MAX).collect()
}
