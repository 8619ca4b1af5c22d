//! Keys that answer a question. Single keys, each with one meaning; what is not offered does
//! nothing. Called by `keys.rs` once keys count.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frontend::tui::asking::{OpenAsk, Writing, abort, no, yes, yes_edited};
use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::standin::composer::Composer;
use crate::frontend::tui::view::ask_text_height;
use crate::protocol::{Answer, AnswerScope, Ask, Op};

/// Takes a key for the question that is shown.
pub(super) fn take_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let Some(ask) = model.asks.front() else { return Vec::new() };
    if ask.writing.is_some() {
        return take_writing_key(model, key);
    }
    if take_scroll_key(model, key) {
        return Vec::new();
    }
    let Some(ask) = model.asks.front() else { return Vec::new() };
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return Vec::new();
    }
    match &ask.question {
        Ask::Approval { .. } if ask.has_parts() => take_part_key(model, key),
        Ask::Approval { .. } => take_approval_key(model, key),
        Ask::Question { options, .. } => {
            let count = options.len();
            take_option_key(model, key, count)
        }
        Ask::Elicitation { .. } => match key.code {
            KeyCode::Char('n') | KeyCode::Enter | KeyCode::Esc => {
                let reason = "the user did not fill it in".to_owned();
                answer(model, Answer::Declined { reason })
            }
            _ => Vec::new(),
        },
    }
}

fn take_approval_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let scope = match key.code {
        KeyCode::Char('y') => AnswerScope::Once,
        KeyCode::Char('s') => AnswerScope::Session,
        KeyCode::Char('p') => AnswerScope::Project,
        KeyCode::Char('a') => AnswerScope::Always,
        KeyCode::Char('n') | KeyCode::Enter => return answer(model, no(None)),
        KeyCode::Esc => return answer(model, abort()),
        KeyCode::Char('t') => return begin_telling(model),
        KeyCode::Char('e') => return begin_editing(model),
        _ => return Vec::new(),
    };
    allow(model, scope)
}

/// A yes counts only when all of what it is about was on the screen.
fn allow(model: &mut Model, scope: AnswerScope) -> Vec<Cmd> {
    let Some(ask) = model.asks.front() else { return Vec::new() };
    if !ask.offers(scope) {
        return Vec::new();
    }
    if unseen_lines(model) > 0 {
        model.say("read on first: PgDn shows the rest of it");
        return Vec::new();
    }
    answer(model, yes(scope))
}

fn take_part_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    if matches!(key.code, KeyCode::Char('y' | 'a')) && unseen_lines(model) > 0 {
        model.say("read on first: PgDn shows the rest of it");
        return Vec::new();
    }
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    match key.code {
        KeyCode::Char('y') => decide_part(ask, true),
        KeyCode::Char('n') => decide_part(ask, false),
        KeyCode::Char('a') => ask.taken.fill(Some(true)),
        KeyCode::Char('d') => ask.taken.fill(Some(false)),
        KeyCode::Char('j') | KeyCode::Down => show_part(ask, ask.part + 1),
        KeyCode::Char('k') | KeyCode::Up => show_part(ask, ask.part.saturating_sub(1)),
        KeyCode::Char('t') => return begin_telling(model),
        KeyCode::Esc => return answer(model, abort()),
        KeyCode::Enter => {
            let open = ask.taken.iter().filter(|taken| taken.is_none()).count();
            if open > 0 && ask.parts_taken() > 0 {
                if let Some(next) = ask.taken.iter().position(Option::is_none) {
                    show_part(ask, next);
                }
                model.say("decide this one too: y takes it, n leaves it");
                return Vec::new();
            }
            let parts = ask.parts_answer();
            return answer(model, parts);
        }
        _ => {}
    }
    Vec::new()
}

/// Decides the part that is shown and goes on to the next that is not decided.
fn decide_part(ask: &mut OpenAsk, take: bool) {
    if let Some(taken) = ask.taken.get_mut(ask.part) {
        *taken = Some(take);
    }
    let after = (ask.part..ask.taken.len()).chain(0..ask.part);
    let next = after.into_iter().find(|at| ask.taken.get(*at).is_some_and(Option::is_none));
    show_part(ask, next.unwrap_or(ask.part));
}

fn show_part(ask: &mut OpenAsk, part: usize) {
    let part = part.min(ask.taken.len().saturating_sub(1));
    if part != ask.part {
        ask.part = part;
        ask.top = 0;
        ask.seen = 0;
    }
}

fn take_option_key(model: &mut Model, key: KeyEvent, count: usize) -> Vec<Cmd> {
    match key.code {
        KeyCode::Char(c @ '1'..='9') => {
            let index = usize::from(u8::try_from(c).unwrap_or(b'1') - b'1');
            let Some(Ask::Question { options, .. }) = model.asks.front().map(|ask| &ask.question)
            else {
                return Vec::new();
            };
            match options.get(index).filter(|_| index < count) {
                Some(option) => {
                    let text = option.clone();
                    answer(model, Answer::Text { text })
                }
                None => Vec::new(),
            }
        }
        KeyCode::Char('t') => {
            if let Some(ask) = model.asks.front_mut() {
                ask.writing = Some(Writing::Reply(Composer::new()));
            }
            Vec::new()
        }
        KeyCode::Esc => {
            answer(model, Answer::Declined { reason: "the user did not answer".to_owned() })
        }
        _ => Vec::new(),
    }
}

fn begin_telling(model: &mut Model) -> Vec<Cmd> {
    if let Some(ask) = model.asks.front_mut() {
        ask.writing = Some(Writing::Tell(Composer::new()));
    }
    Vec::new()
}

fn begin_editing(model: &mut Model) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    let Some(command) = ask.command() else { return Vec::new() };
    let mut composer = Composer::new();
    composer.set_text(&command.shown());
    ask.writing = Some(Writing::Edit(composer));
    Vec::new()
}

fn take_writing_key(model: &mut Model, key: KeyEvent) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    let Some(writing) = ask.writing.as_mut() else { return Vec::new() };
    match key.code {
        KeyCode::Enter if key.modifiers.is_empty() => finish_writing(model),
        KeyCode::Esc => {
            // A question of the model's is answered in words, so leaving them is no answer.
            let is_only_way = matches!(
                (&ask.question, &ask.writing),
                (Ask::Question { options, .. }, Some(Writing::Reply(_))) if options.is_empty()
            );
            if is_only_way {
                let reason = "the user did not answer".to_owned();
                return answer(model, Answer::Declined { reason });
            }
            ask.writing = None;
            Vec::new()
        }
        _ => {
            writing.composer_mut().key(key);
            Vec::new()
        }
    }
}

fn finish_writing(model: &mut Model) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    let Some(writing) = ask.writing.as_mut() else { return Vec::new() };
    let text = writing.composer().text().to_owned();
    if text.trim().is_empty() {
        return Vec::new();
    }
    match writing {
        Writing::Tell(_) => answer(model, no(Some(text))),
        Writing::Reply(_) => answer(model, Answer::Text { text }),
        Writing::Edit(_) => {
            let Some(command) = ask.command().cloned() else { return Vec::new() };
            if text == command.shown() {
                // Nothing was changed, so it is the question itself that wants an answer.
                ask.writing = None;
                return Vec::new();
            }
            let call_id = ask.call_id.clone();
            let item = call_id.as_ref().and_then(|id| model.call_item(id));
            match item.and_then(|item| yes_edited(item, &command, &text)) {
                Some(edited) => answer(model, edited),
                None => {
                    model.say("this call cannot be changed here; t tells the model instead");
                    Vec::new()
                }
            }
        }
    }
}

/// Hands the answer over. The question stays until the session says that it is answered.
fn answer(model: &mut Model, answer: Answer) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    ask.is_answered = true;
    vec![Cmd::Submit(Op::Answer { ask: ask.id, answer })]
}

/// Returns how many lines of the question were never on the screen.
fn unseen_lines(model: &Model) -> usize {
    let (total, _) = ask_text_height(model);
    let Some(ask) = model.asks.front() else { return 0 };
    total.saturating_sub(ask.seen)
}

fn take_scroll_key(model: &mut Model, key: KeyEvent) -> bool {
    let (total, height) = ask_text_height(model);
    let Some(ask) = model.asks.front_mut() else { return false };
    let page = height.saturating_sub(1).max(1);
    let has_parts = ask.has_parts();
    let top = match key.code {
        KeyCode::PageDown | KeyCode::Char(' ') => ask.top + page,
        KeyCode::PageUp => ask.top.saturating_sub(page),
        KeyCode::Down if !has_parts => ask.top + 1,
        KeyCode::Up if !has_parts => ask.top.saturating_sub(1),
        KeyCode::End => total,
        KeyCode::Home => 0,
        _ => return false,
    };
    // One page at a time, so that nothing is passed over unseen.
    ask.top = top.min(total.saturating_sub(height)).min(ask.seen.max(height));
    true
}
