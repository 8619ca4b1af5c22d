//! A choice of one, in the composer's place.

use ratatui::text::Line;

use crate::frontend::tui::cells::frame::{clean_line, span};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Picker, PickerKind};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::live::{Foot, one_row};

pub(super) fn foot(model: &Model, picker: &Picker, room: usize) -> Foot {
    let title = match picker.kind {
        PickerKind::Model => "model for the turns to come",
        PickerKind::Permissions => "what is asked, and what commands can reach",
        PickerKind::Theme => "colours",
    };
    let mut lines = vec![
        Line::default(),
        one_row(model, vec![span(model.theme, Role::Heading, format!("  {title}"))]),
    ];
    let height = room.saturating_sub(lines.len() + 2).max(1);
    let top = (picker.at + 1).saturating_sub(height);
    for (index, item) in picker.items.iter().enumerate().skip(top).take(height) {
        let (glyph, role) = match index == picker.at {
            true => ("› ", Role::Accent),
            false => ("  ", Role::Text),
        };
        let current = if item.is_current { " (now)" } else { "" };
        let about = match item.about.is_empty() {
            true => String::new(),
            false => format!("  {}", clean_line(&item.about)),
        };
        lines.push(one_row(
            model,
            vec![
                span(model.theme, role, format!("{glyph}{}{current}", clean_line(&item.name))),
                span(model.theme, Role::Dim, about),
            ],
        ));
    }
    let keys = "  enter takes it · j k move · esc leaves it as it is";
    lines.push(one_row(model, vec![span(model.theme, Role::Dim, keys)]));
    Foot { lines, cursor: None }
}
