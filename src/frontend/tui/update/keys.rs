//! Keys: what was pressed becomes an action where it was pressed, and goes to what is on top.

use crossterm::event::KeyEvent;

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::composer::{Composer, Outcome};
use crate::frontend::tui::keymap::{Action, Context, Step, typed};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Subject};
use crate::frontend::tui::update::{
    ask_keys, commands, completing, overlay_keys, pages, quit, sending,
};
use crate::protocol::{Op, StopCause, When};

/// How soon the second Ctrl-C must come.
const QUIT_TWICE_MS: u64 = 2_000;

/// Who takes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Overlay,
    Ask,
    Composer,
}

/// Takes a key.
pub(super) fn take_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let (target, context) = find_target(model);
    let keymap = std::rc::Rc::clone(&model.keymap);
    if let Some(ask) = model.asks.front_mut() {
        ask.put_off(model.now_ms);
    }
    let step = keymap.step(&mut model.pending_keys, key, context);
    if !matches!(step, Step::Act(Action::Quit)) {
        model.quit_pressed_ms = None;
    }
    let cmds = match step {
        Step::Act(action) => {
            take_global(model, action, target).unwrap_or_else(|| take_action(model, action, target))
        }
        Step::Unbound => {
            if let Some(character) = typed(key) {
                take_character(model, character, target)
            } else {
                Vec::new()
            }
        }
        Step::Wait => Vec::new(),
    };
    model.key_ms = Some(model.now_ms);
    completing::refresh(model);
    cmds
}

/// Returns who takes keys now, and where they are looked up.
fn find_target(model: &Model) -> (Target, Context) {
    if let Some(overlay) = model.overlays.last() {
        return (Target::Overlay, overlay_keys::context(overlay));
    }
    match model.asks.front() {
        Some(ask) if ask.is_armed(model.now_ms) => (Target::Ask, ask_keys::context(ask)),
        Some(_) | None => {
            let context = match &model.completion {
                Some(_) => Context::Completion,
                None => model.composer.context(),
            };
            (Target::Composer, context)
        }
    }
}

/// Takes pasted text: where the user writes, never as keys of a question. `files` are those
/// of the paths it names that exist.
pub(super) fn take_paste(model: &mut Model, text: &str, files: &[std::path::PathBuf]) -> Vec<Cmd> {
    if !model.overlays.is_empty() {
        return Vec::new();
    }
    let writing = match model.asks.front_mut() {
        Some(ask) if ask.is_armed(model.now_ms) => ask.writing.as_mut(),
        Some(_) | None => None,
    };
    let outcome = match writing {
        Some(writing) => writing.composer_mut().paste(text),
        None => model.composer.paste_or_attach(text, |path| files.iter().any(|file| file == path)),
    };
    note_outcome(model, outcome);
    completing::refresh(model);
    Vec::new()
}

/// Takes more of what was pasted last.
pub(super) fn take_more(model: &mut Model, text: &str) -> Vec<Cmd> {
    if model.overlays.is_empty()
        && !model.asks.front().is_some_and(|ask| ask.is_armed(model.now_ms))
    {
        let outcome = model.composer.paste_more(text);
        note_outcome(model, outcome);
        completing::refresh(model);
    }
    Vec::new()
}

/// Actions that mean the same everywhere.
fn take_global(model: &mut Model, action: Action, target: Target) -> Option<Vec<Cmd>> {
    Some(match action {
        Action::Quit => press_quit(model),
        Action::Suspend => vec![Cmd::Suspend],
        Action::Redraw => vec![Cmd::Redraw],
        Action::Transcript => {
            match model.overlays.last() {
                Some(Overlay::Pager(pager)) if pager.subject == Subject::Transcript => {
                    model.overlays.pop();
                }
                Some(_) | None => pages::open(model, Subject::Transcript),
            }
            Vec::new()
        }
        Action::CycleMode if target == Target::Composer => commands::cycle_mode(model),
        _ => return None,
    })
}

fn take_action(model: &mut Model, action: Action, target: Target) -> Vec<Cmd> {
    match target {
        Target::Overlay => overlay_keys::take_action(model, action),
        Target::Ask => ask_keys::take_action(model, action),
        Target::Composer => take_composer_action(model, action),
    }
}

fn take_character(model: &mut Model, character: char, target: Target) -> Vec<Cmd> {
    match target {
        Target::Overlay => overlay_keys::take_character(model, character),
        Target::Ask => ask_keys::take_character(model, character),
        Target::Composer => {
            let outcome = model.composer.insert(character.encode_utf8(&mut [0; 4]));
            note_outcome(model, outcome);
            Vec::new()
        }
    }
}

/// Ctrl-C: closes, clears or stops first; pressed twice, it leaves.
fn press_quit(model: &mut Model) -> Vec<Cmd> {
    let again =
        model.quit_pressed_ms.is_some_and(|at| model.now_ms.saturating_sub(at) < QUIT_TWICE_MS);
    if again {
        return quit(model, StopCause::User);
    }
    model.quit_pressed_ms = Some(model.now_ms);
    if model.overlays.pop().is_some() {
        return Vec::new();
    }
    if !model.composer.is_empty() && model.asks.is_empty() {
        model.composer.clear();
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

fn take_composer_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    if let Some(cmds) = completing::take_action(model, action) {
        return cmds;
    }
    match action {
        Action::Send => return sending::send(model, When::Now),
        Action::Queue if model.turn.is_some() => return sending::send(model, When::Queued),
        Action::Help => {
            pages::open(model, Subject::Help);
            return Vec::new();
        }
        Action::Leave => return quit(model, StopCause::User),
        Action::EditQueued => return sending::take_back_queued(model),
        Action::Up if model.composer.is_empty() && !model.queue.is_empty() => {
            return sending::take_back_queued(model);
        }
        Action::OpenEditor => return vec![Cmd::Edit(model.composer.text())],
        _ => {}
    }
    match apply(&mut model.composer, action) {
        Outcome::Ignored if action == Action::Interrupt => interrupt(model),
        Outcome::Send => sending::send(model, When::Now),
        outcome => {
            note_outcome(model, outcome);
            Vec::new()
        }
    }
}

/// Has a composer do an action.
pub(super) fn apply(composer: &mut Composer, action: Action) -> Outcome {
    composer.apply(action)
}

fn note_outcome(model: &mut Model, outcome: Outcome) {
    match outcome {
        Outcome::Full => model.say("this does not fit any more"),
        Outcome::Edited => model.hint = None,
        Outcome::Ignored | Outcome::Nothing | Outcome::Moved | Outcome::Send => {}
    }
}
