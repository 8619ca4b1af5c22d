//! Actions that answer a question. What is not offered does nothing. Called by `keys.rs` once
//! keys count.

use crate::frontend::tui::asking::{Choice, OpenAsk, Writing, abort, no, yes, yes_edited};
use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::composer::Composer;
use crate::frontend::tui::keymap::{Action, Context};
use crate::frontend::tui::model::Model;
use crate::frontend::tui::view::ask_text_height;
use crate::protocol::{Answer, AnswerScope, Ask, CommandLine, Op};

/// Said when a yes comes before all was on the screen.
const READ_ON: &str = "read on first: PgDn shows the rest of it";

/// Returns where its keys are looked up.
pub(super) fn context(ask: &OpenAsk) -> Context {
    match &ask.writing {
        // An empty text is no empty composer: `?` is a character here.
        Some(writing) => match writing.composer().context() {
            Context::EmptyComposer => Context::Composer,
            other => other,
        },
        None if ask.has_parts() => Context::Hunks,
        None => Context::Approval,
    }
}

/// Takes an action for the question that is shown.
pub(super) fn take_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    let Some(ask) = model.asks.front() else { return Vec::new() };
    if ask.writing.is_some() {
        return take_writing_action(model, action);
    }
    if take_scroll_action(model, action) {
        return Vec::new();
    }
    let Some(ask) = model.asks.front() else { return Vec::new() };
    match &ask.question {
        Ask::Approval { .. } if ask.has_parts() => take_part_action(model, action),
        Ask::Approval { .. } => take_approval_action(model, action),
        Ask::Question { .. } | Ask::Elicitation { .. } => take_reply_action(model, action),
    }
}

/// Takes a character that no action stands for.
pub(super) fn take_character(model: &mut Model, character: char) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    if let Some(writing) = &mut ask.writing {
        writing.composer_mut().insert(character.encode_utf8(&mut [0; 4]));
        return Vec::new();
    }
    let Ask::Question { options, .. } = &ask.question else { return Vec::new() };
    let Some(number @ 1..) = character.to_digit(10) else { return Vec::new() };
    let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
    match options.get(index).cloned() {
        Some(text) => answer(model, Answer::Text { text }),
        None => Vec::new(),
    }
}

fn take_approval_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    let choice = match action {
        Action::ApproveOnce => Choice::Allow(AnswerScope::Once),
        Action::ApproveSession => Choice::Allow(AnswerScope::Session),
        Action::ApproveProject => Choice::Allow(AnswerScope::Project),
        Action::ApproveEdited => Choice::Edit,
        Action::Decline => Choice::Decline,
        Action::DeclineAndTell => Choice::Tell,
        Action::Interrupt => Choice::Abort,
        Action::ApprovalChoose => match model.asks.front().map(OpenAsk::marked_choice) {
            Some(choice) => choice,
            None => return Vec::new(),
        },
        Action::ApprovalPrevious | Action::ApprovalNext => {
            if let Some(ask) = model.asks.front_mut() {
                ask.mark_next(action == Action::ApprovalNext);
            }
            return Vec::new();
        }
        _ => return Vec::new(),
    };
    choose(model, choice)
}

fn choose(model: &mut Model, choice: Choice) -> Vec<Cmd> {
    let is_offered = model.asks.front().is_some_and(|ask| ask.choices().contains(&choice));
    if !is_offered {
        return Vec::new();
    }
    match choice {
        // A yes counts only when all of what it is about was on the screen.
        Choice::Allow(_) if unseen_lines(model) > 0 => {
            model.say(READ_ON);
            Vec::new()
        }
        Choice::Allow(scope) => answer(model, yes(scope)),
        Choice::Decline => answer(model, no(None)),
        Choice::Abort => answer(model, abort()),
        Choice::Tell => begin(model, Writing::Tell(Composer::new())),
        Choice::Edit => {
            let command = model.asks.front().and_then(OpenAsk::command);
            let Some(text) = command.map(CommandLine::shown) else { return Vec::new() };
            let mut composer = Composer::new();
            composer.set_text(&text);
            begin(model, Writing::Edit(composer))
        }
    }
}

fn begin(model: &mut Model, writing: Writing) -> Vec<Cmd> {
    if let Some(ask) = model.asks.front_mut() {
        ask.writing = Some(writing);
    }
    Vec::new()
}

fn take_part_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    if matches!(action, Action::HunkTake | Action::HunksTakeAll) && unseen_lines(model) > 0 {
        model.say(READ_ON);
        return Vec::new();
    }
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    match action {
        Action::HunkTake => ask.decide_part(true),
        Action::HunkLeave => ask.decide_part(false),
        Action::HunksTakeAll => ask.taken.fill(Some(true)),
        Action::HunksLeaveAll => ask.taken.fill(Some(false)),
        Action::HunkNext => ask.show_part(ask.part + 1),
        Action::HunkPrevious => ask.show_part(ask.part.saturating_sub(1)),
        Action::HunksTell => return begin(model, Writing::Tell(Composer::new())),
        Action::Interrupt => return answer(model, abort()),
        Action::HunksApply => {
            let open = ask.taken.iter().position(Option::is_none);
            if let Some(open) = open.filter(|_| ask.parts_taken() > 0) {
                ask.show_part(open);
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

/// Questions of the model's, and forms.
fn take_reply_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    let is_form =
        model.asks.front().is_some_and(|ask| matches!(ask.question, Ask::Elicitation { .. }));
    match action {
        Action::DeclineAndTell if !is_form => begin(model, Writing::Reply(Composer::new())),
        Action::Interrupt | Action::Decline => {
            answer(model, Answer::Declined { reason: "the user did not answer".to_owned() })
        }
        _ => Vec::new(),
    }
}

fn take_writing_action(model: &mut Model, action: Action) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    let is_only_way = ask.is_answered_in_words();
    let Some(writing) = ask.writing.as_mut() else { return Vec::new() };
    match action {
        Action::Send => return finish_writing(model),
        Action::Interrupt if is_only_way => {
            let reason = "the user did not answer".to_owned();
            return answer(model, Answer::Declined { reason });
        }
        Action::Interrupt => ask.writing = None,
        action => {
            writing.composer_mut().apply(action);
        }
    }
    Vec::new()
}

fn finish_writing(model: &mut Model) -> Vec<Cmd> {
    let Some(ask) = model.asks.front_mut() else { return Vec::new() };
    let Some(writing) = ask.writing.as_ref() else { return Vec::new() };
    let text = writing.composer().text();
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
    model.hint = None;
    vec![Cmd::Submit(Op::Answer { ask: ask.id, answer })]
}

/// Returns how many lines of the question were never on the screen.
fn unseen_lines(model: &Model) -> usize {
    let (total, _) = ask_text_height(model);
    let Some(ask) = model.asks.front() else { return 0 };
    total.saturating_sub(ask.seen)
}

/// Takes in what of the question a frame showed.
pub(super) fn note_seen(model: &mut Model) {
    let (total, height) = ask_text_height(model);
    if let Some(ask) = model.asks.front_mut() {
        let top = ask.top.min(total.saturating_sub(height));
        // Only what joins what was seen before: nothing is passed over.
        if top <= ask.seen {
            ask.seen = ask.seen.max(top + height);
        }
    }
}

fn take_scroll_action(model: &mut Model, action: Action) -> bool {
    let (total, height) = ask_text_height(model);
    let Some(ask) = model.asks.front_mut() else { return false };
    let page = height.saturating_sub(1).max(1);
    let top = match action {
        Action::PageDown => ask.top + page,
        Action::PageUp => ask.top.saturating_sub(page),
        Action::ScrollBottom => total,
        Action::ScrollTop => 0,
        _ => return false,
    };
    ask.top = top.min(total.saturating_sub(height)).min(ask.seen);
    true
}
