//! Keys of what lies on top: pagers and pickers.

use crate::frontend::tui::cells::Folds;
use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::keymap::{Action, Context};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Pager, Search};
use crate::frontend::tui::update::{commands, pages};
use crate::frontend::tui::view::pager_height;

/// Returns where its keys are looked up.
pub(super) fn context(overlay: &Overlay) -> Context {
    match overlay {
        Overlay::Pager(pager) if pager.is_searching() => Context::List,
        Overlay::Pager(_) => Context::Transcript,
        Overlay::Picker(_) => Context::List,
    }
}

/// Takes an action for the topmost overlay.
pub(super) fn take_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    match model.overlays.last() {
        Some(Overlay::Pager(pager)) if action == Action::Copy && !pager.is_searching() => {
            let text = pager.top_text();
            model.say("the part at the top was handed to the terminal's clipboard");
            vec![Cmd::Copy(text)]
        }
        Some(Overlay::Pager(_)) => {
            take_pager_action(model, action);
            Vec::new()
        }
        Some(Overlay::Picker(_)) => take_picker_action(model, action),
        None => Vec::new(),
    }
}

/// Takes a character that no action stands for.
pub(super) fn take_character(model: &mut Model, character: char) -> Vec<Cmd> {
    let height = pager_height(model.size);
    if let Some(Overlay::Pager(pager)) = model.overlays.last_mut()
        && let Some(search) = pager.search.as_mut().filter(|search| search.is_open)
    {
        search.text.push(character);
        jump(pager, pager.top, true, height);
    }
    Vec::new()
}

fn take_picker_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    let Some(Overlay::Picker(picker)) = model.overlays.last_mut() else { return Vec::new() };
    let last = picker.items.len().saturating_sub(1);
    match action {
        Action::ListNext => picker.at = (picker.at + 1).min(last),
        Action::ListPrevious => picker.at = picker.at.saturating_sub(1),
        Action::Interrupt => {
            model.overlays.pop();
        }
        Action::ListChoose => {
            let Some(Overlay::Picker(picker)) = model.overlays.pop() else { return Vec::new() };
            let name = picker.items.get(picker.at).map(|item| item.name.clone());
            if let Some(name) = name {
                return commands::choose(model, picker.kind, picker.at, &name);
            }
        }
        _ => {}
    }
    Vec::new()
}

fn take_pager_action(model: &mut Model, action: Action) {
    let height = pager_height(model.size);
    let Some(Overlay::Pager(pager)) = model.overlays.last_mut() else { return };
    if let Some(search) = pager.search.as_mut().filter(|search| search.is_open) {
        match action {
            Action::ListChoose => search.is_open = false,
            Action::ListErase => {
                search.text.pop();
            }
            Action::ListClear => search.text.clear(),
            Action::Interrupt => pager.search = None,
            _ => {}
        }
        return;
    }
    match action {
        Action::PagerClose | Action::Interrupt => {
            model.overlays.pop();
        }
        Action::ToggleFolds | Action::ToggleFold => {
            pager.folds = match pager.folds {
                Folds::Open => Folds::Closed,
                Folds::Closed => Folds::Open,
            };
            pager.width = 0;
            pages::refresh(model);
        }
        Action::Find => pager.search = Some(Search { text: String::new(), is_open: true }),
        Action::FindNext => jump(pager, pager.top + 1, true, height),
        Action::FindPrevious => jump(pager, pager.top.saturating_sub(1), false, height),
        action => scroll(pager, action, height),
    }
}

fn scroll(pager: &mut Pager, action: Action, height: usize) {
    let (page, half) = (height.saturating_sub(1).max(1), (height / 2).max(1));
    let top = match action {
        Action::LineDown => pager.top + 1,
        Action::LineUp => pager.top.saturating_sub(1),
        Action::PageDown => pager.top + page,
        Action::PageUp => pager.top.saturating_sub(page),
        Action::HalfPageDown => pager.top + half,
        Action::HalfPageUp => pager.top.saturating_sub(half),
        Action::ScrollTop | Action::PagerTop => 0,
        Action::ScrollBottom | Action::PagerBottom => usize::MAX,
        _ => return,
    };
    let top_max = pager.top_max(height);
    pager.top = top.min(top_max);
    pager.follows = pager.top == top_max;
}

fn jump(pager: &mut Pager, from: usize, forward: bool, height: usize) {
    if let Some(at) = pager.find(from, forward) {
        pager.top = at.min(pager.top_max(height));
        pager.follows = false;
    }
}
