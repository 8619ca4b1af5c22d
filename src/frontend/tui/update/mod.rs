//! `update`: takes what happened and changes the model; returns what is to be done.
//!
//! Pure: no clock, no terminal, no session. Routes by group; each group has a file.

mod ask_keys;
mod calls;
mod commands;
mod completing;
mod events;
mod keys;
mod overlay_keys;
mod pages;
mod sending;

use crate::frontend::tui::cells::Cell;
use crate::frontend::tui::cells::notice::{NoticeCell, Weight};
use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::fuzzy::Finder;
use crate::frontend::tui::model::{FileIndex, Model};
use crate::frontend::tui::msg::Msg;
use crate::frontend::tui::theme::Palette;
use crate::frontend::tui::view::composer_room;
use crate::protocol::{Op, StopCause};

/// Takes in one thing that happened.
pub(crate) fn update(model: &mut Model, msg: Msg) -> Vec<Cmd> {
    let mut cmds = take(model, msg);
    if matches!(model.files, FileIndex::Wanted) {
        model.files = FileIndex::Listing;
        cmds.push(Cmd::ListFiles);
    }
    cmds
}

fn take(model: &mut Model, msg: Msg) -> Vec<Cmd> {
    match msg {
        Msg::Key(key) => keys::take_key(model, key),
        Msg::Paste { text, files } => keys::take_paste(model, &text, &files),
        Msg::PasteMore(text) => keys::take_more(model, &text),
        Msg::Agent(event) => {
            let cmds = events::take_event(model, *event);
            pages::refresh(model);
            cmds
        }
        Msg::Tick(now_ms) => {
            model.now_ms = now_ms;
            if model.hint.as_ref().is_some_and(|hint| now_ms >= hint.until_ms) {
                model.hint = None;
            }
            Vec::new()
        }
        Msg::Resize(size) => {
            model.size = size;
            fit(model);
            pages::refresh(model);
            Vec::new()
        }
        Msg::Focus(focused) => {
            model.focused = Some(focused);
            Vec::new()
        }
        Msg::Background(shade) => {
            if model.theme.palette == Palette::Plain {
                model.theme.shade = shade;
            }
            Vec::new()
        }
        Msg::Drawn => {
            let (now, key) = (model.now_ms, model.key_ms);
            if model.overlays.is_empty()
                && let Some(ask) = model.asks.front_mut()
            {
                ask.arm(now, key);
                ask_keys::note_seen(model);
            }
            Vec::new()
        }
        Msg::Files(paths) => {
            let mut finder = Finder::new();
            paths.iter().take_while(|path| finder.add(path)).count();
            model.files = FileIndex::Known(Box::new(finder));
            completing::refresh(model);
            Vec::new()
        }
        Msg::Edited(text) => {
            model.composer.set_text(&text);
            Vec::new()
        }
        Msg::Failed { message, hint } => {
            model.add(Cell::Notice(NoticeCell { hint, ..NoticeCell::new(Weight::Error, message) }));
            Vec::new()
        }
        Msg::SessionReplaced => {
            model.start_over();
            Vec::new()
        }
        Msg::Stop(cause) => quit(model, cause),
    }
}

/// Tells the composer how much room there is.
pub(crate) fn fit(model: &mut Model) {
    let (width, height) = composer_room(model.size);
    model.composer.fit(width, height);
}

/// Ends the program: the session stops what runs and syncs its log first.
pub(super) fn quit(model: &mut Model, cause: StopCause) -> Vec<Cmd> {
    model.is_quitting = true;
    model.overlays.clear();
    let mut cmds = Vec::new();
    if model.turn.is_some() {
        cmds.push(Cmd::Submit(Op::Interrupt { cause }));
    }
    cmds.push(Cmd::Submit(Op::Shutdown));
    cmds.push(Cmd::Quit);
    cmds
}
