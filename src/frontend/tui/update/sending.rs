//! What the user wrote, on its way: to the model, as a command, or back from the queue.

use std::path::PathBuf;

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::composer::{Draft, Kind};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::update::commands;
use crate::protocol::{Op, QueueEdit, SettingsPatch, UserInput, When};

/// Sends what the user wrote, or does what the command says.
pub(super) fn send(model: &mut Model, when: When) -> Vec<Cmd> {
    // A question that is about to appear must not be answered, nor the draft sent, by accident.
    if !model.asks.is_empty() || model.composer.is_empty() {
        return Vec::new();
    }
    let Draft { kind, text, images } = model.composer.take();
    if text.trim().is_empty() && images.is_empty() {
        return Vec::new();
    }
    model.hint = None;
    match kind {
        Kind::Command => {
            let line = kind.body(text.trim()).to_owned();
            commands::run(model, &line).unwrap_or_else(|| vec![turn(text, images, when)])
        }
        // A shell's line and a note have nothing behind them yet, so they are plain messages.
        Kind::Prompt | Kind::Shell | Kind::Note => {
            vec![Cmd::Remember(text.clone()), turn(text, images, when)]
        }
    }
}

fn turn(text: String, images: Vec<PathBuf>, when: When) -> Cmd {
    match images.is_empty() {
        true => Cmd::Submit(user_turn(text, when)),
        false => Cmd::SendImages { text, images, when },
    }
}

/// Returns the operation that starts or queues a turn.
pub(super) fn user_turn(text: String, when: When) -> Op {
    let input = vec![UserInput::Text { text }];
    Op::UserTurn { input, overrides: SettingsPatch::default(), when }
}

/// Brings the message that was queued last back into the composer.
pub(super) fn take_back_queued(model: &mut Model) -> Vec<Cmd> {
    let Some(text) = model.queue.pop() else { return Vec::new() };
    let draft = model.composer.text();
    let text = if draft.is_empty() { text } else { format!("{text}\n{draft}") };
    model.composer.set_text(&text);
    vec![Cmd::Submit(Op::EditQueue { index: model.queue.len(), edit: QueueEdit::Remove })]
}
