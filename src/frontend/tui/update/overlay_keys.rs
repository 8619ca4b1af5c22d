//! Keys of what lies on top: pagers and pickers.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frontend::tui::cells::Folds;
use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Pager, Search};
use crate::frontend::tui::update::{commands, pages};
use crate::frontend::tui::view::pager_height;

/// Takes a key for the topmost overlay.
pub(super) fn take_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    match model.overlays.last() {
        Some(Overlay::Pager(_)) => {
            take_pager_key(model, key);
            Vec::new()
        }
        Some(Overlay::Picker(_)) => take_picker_key(model, key),
        None => Vec::new(),
    }
}

fn take_picker_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let Some(Overlay::Picker(picker)) = model.overlays.last_mut() else { return Vec::new() };
    let count = picker.items.len();
    match key.code {
        KeyCode::Down | KeyCode::Char('j') => picker.at = (picker.at + 1).min(count.saturating_sub(1)),
        KeyCode::Up | KeyCode::Char('k') => picker.at = picker.at.saturating_sub(1),
        KeyCode::Esc | KeyCode::Char('q') => {
            model.overlays.pop();
        }
        KeyCode::Enter => {
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

fn take_pager_key(model: &mut Model, key: KeyEvent) {
    let height = pager_height(model.size);
    let Some(Overlay::Pager(pager)) = model.overlays.last_mut() else { return };
    if let Some(search) = pager.search.as_mut().filter(|search| search.is_open) {
        match key.code {
            KeyCode::Enter => search.is_open = false,
            KeyCode::Esc => pager.search = None,
            KeyCode::Backspace => {
                search.text.pop();
            }
            KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                search.text.push(c);
            }
            _ => {}
        }
        jump(pager, pager.top, true, height);
        return;
    }
    let page = height.saturating_sub(1).max(1);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => {
            model.overlays.pop();
        }
        KeyCode::Char('f') => {
            pager.folds = match pager.folds {
                Folds::Open => Folds::Closed,
                Folds::Closed => Folds::Open,
            };
            pager.width = 0;
            pages::refresh(model);
        }
        KeyCode::Char('/') => {
            pager.search = Some(Search { text: String::new(), is_open: true });
        }
        KeyCode::Char('n') => jump(pager, pager.top + 1, true, height),
        KeyCode::Char('N') => jump(pager, pager.top.saturating_sub(1), false, height),
        code => scroll(pager, code, page, height),
    }
}

fn scroll(pager: &mut Pager, code: KeyCode, page: usize, height: usize) {
    let top = match code {
        KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => pager.top + 1,
        KeyCode::Up | KeyCode::Char('k') => pager.top.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ' | 'd') => pager.top + page,
        KeyCode::PageUp | KeyCode::Char('b' | 'u') => pager.top.saturating_sub(page),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => usize::MAX,
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
