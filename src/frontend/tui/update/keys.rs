//! Keys: to the question, the overlay or the composer, whichever is on top.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Pager, Subject};
use crate::frontend::tui::update::{ask_keys, commands, overlay_keys, pages, quit};
use crate::protocol::{Op, QueueEdit, SettingsPatch, StopCause, UserInput, When};

/// How soon the second Ctrl-C must come.
const QUIT_TWICE_MS: u64 = 2_000;

/// Takes a key.
pub(super) fn take_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    if let Some(cmds) = take_global(model, key) {
        model.key_ms = Some(model.now_ms);
        return cmds;
    }
    model.quit_pressed_ms = None;
    let cmds = if !model.overlays.is_empty() {
        overlay_keys::take_key(model, key)
    } else if model.asks.front().is_some_and(|ask| ask.is_armed(model.now_ms)) {
        ask_keys::take_key(model, key)
    } else {
        take_composer_key(model, key)
    };
    model.key_ms = Some(model.now_ms);
    cmds
}

/// Takes pasted text: where the user writes, never as keys of a question.
pub(super) fn take_paste(model: &mut Model, text: &str) -> Vec<Cmd> {
    if !model.overlays.is_empty() {
        return Vec::new();
    }
    let writing = match model.asks.front_mut() {
        Some(ask) if ask.is_armed(model.now_ms) => ask.writing.as_mut(),
        Some(_) | None => None,
    };
    match writing {
        Some(writing) => writing.composer_mut().paste(text),
        None => model.composer.paste(text),
    }
    Vec::new()
}

/// Keys that mean the same everywhere.
fn take_global(model: &mut Model, key: KeyEvent) -> Option<Vec<Cmd>> {
    if !key.modifiers.contains(KeyModifiers::CONTROL) {
        return None;
    }
    match key.code {
        KeyCode::Char('c') => Some(press_quit(model)),
        KeyCode::Char('z') => Some(vec![Cmd::Suspend]),
        KeyCode::Char('l') => Some(vec![Cmd::Redraw]),
        KeyCode::Char('t') => {
            match model.overlays.last() {
                Some(Overlay::Pager(pager)) if pager.subject == Subject::Transcript => {
                    model.overlays.pop();
                }
                Some(_) | None => pages::open(model, Subject::Transcript),
            }
            Some(Vec::new())
        }
        _ => None,
    }
}

/// Ctrl-C: closes, clears or stops first; pressed twice, it leaves.
fn press_quit(model: &mut Model) -> Vec<Cmd> {
    let again = model
        .quit_pressed_ms
        .is_some_and(|at| model.now_ms.saturating_sub(at) < QUIT_TWICE_MS);
    if again {
        return quit(model, StopCause::User);
    }
    model.quit_pressed_ms = Some(model.now_ms);
    if model.overlays.pop().is_some() {
        return Vec::new();
    }
    if !model.composer.is_empty() && model.asks.is_empty() {
        model.composer.take();
        model.say("draft cleared · Ctrl-C again leaves");
        return Vec::new();
    }
    model.say("Ctrl-C again leaves");
    interrupt(model)
}

/// Stops the turn that runs.
pub(super) fn interrupt(model: &mut Model) -> Vec<Cmd> {
    match &mut model.turn {
        Some(turn) if !turn.is_stopping => {
            turn.is_stopping = true;
            vec![Cmd::Submit(Op::Interrupt { cause: StopCause::User })]
        }
        Some(_) | None => Vec::new(),
    }
}

fn take_composer_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let plain = key.modifiers.is_empty();
    match key.code {
        KeyCode::Enter if plain => send(model, When::Now),
        KeyCode::Enter => {
            model.composer.key(KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL));
            Vec::new()
        }
        KeyCode::Tab if plain && model.turn.is_some() => send(model, When::Queued),
        KeyCode::Esc => interrupt(model),
        KeyCode::Up if model.composer.is_empty() => take_back_queued(model),
        KeyCode::Char('?') if model.composer.is_empty() => {
            pages::open(model, Subject::Help);
            Vec::new()
        }
        KeyCode::Char('d')
            if key.modifiers.contains(KeyModifiers::CONTROL) && model.composer.is_empty() =>
        {
            quit(model, StopCause::User)
        }
        KeyCode::BackTab => commands::cycle_mode(model),
        _ => {
            model.composer.key(key);
            Vec::new()
        }
    }
}

/// Sends what the user wrote, or does what the command says.
fn send(model: &mut Model, when: When) -> Vec<Cmd> {
    // A question that is about to appear must not be answered, nor the draft sent, by accident.
    if !model.asks.is_empty() {
        return Vec::new();
    }
    let text = model.composer.take();
    if text.trim().is_empty() {
        return Vec::new();
    }
    if let Some(line) = text.trim().strip_prefix('/')
        && let Some(cmds) = commands::run(model, line)
    {
        return cmds;
    }
    model.hint = None;
    vec![Cmd::Submit(user_turn(text, when))]
}

/// Returns the operation that starts or queues a turn.
pub(super) fn user_turn(text: String, when: When) -> Op {
    let input = vec![UserInput::Text { text }];
    Op::UserTurn { input, overrides: SettingsPatch::default(), when }
}

/// Brings the message that was queued last back into the composer.
fn take_back_queued(model: &mut Model) -> Vec<Cmd> {
    let Some(text) = model.queue.pop() else { return Vec::new() };
    model.composer.set_text(&text);
    vec![Cmd::Submit(Op::EditQueue { index: model.queue.len(), edit: QueueEdit::Remove })]
}

/// Returns whether this pager is open.
#[allow(dead_code)]
fn is_open(pager: &Pager, subject: Subject) -> bool {
    pager.subject == subject
}
