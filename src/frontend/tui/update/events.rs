//! Events of the session: what each of them changes on the screen.
//!
//! The same events feed the log, so a session that is resumed is drawn by this very code.

use crate::frontend::tui::asking::{OpenAsk, edited_text};
use crate::frontend::tui::cells::Cell;
use crate::frontend::tui::cells::answer::AnswerCell;
use crate::frontend::tui::cells::header::HeaderCell;
use crate::frontend::tui::cells::notice::{NoticeCell, Weight};
use crate::frontend::tui::cells::plan::PlanCell;
use crate::frontend::tui::cells::reasoning::ReasoningCell;
use crate::frontend::tui::cells::tool::title_of;
use crate::frontend::tui::cells::turn_end::TurnEndCell;
use crate::frontend::tui::cells::user::UserCell;
use crate::frontend::tui::cmd::{Cmd, Notice};
use crate::frontend::tui::model::{Model, Phase, TurnState};
use crate::frontend::tui::update::calls;
use crate::protocol::{
    Answer, Ask, AskId, DeltaKind, Effect, ErrorKind, Event, EventMsg, FileChange, McpStatus,
    ResponseItem, RestoreDirection, Role, SandboxLevel, TokenUsage, TurnId, TurnOutcome, UserInput,
    WarningKind,
};

/// Turns longer than this are worth a word when the user looks elsewhere.
const LONG_TURN_MS: u64 = 10_000;
/// Changes kept for `/diff`.
const CHANGES_MAX: usize = 2_000;

/// Takes in one event.
pub(super) fn take_event(model: &mut Model, event: Event) -> Vec<Cmd> {
    let (turn, call_id) = (event.turn, event.call_id);
    match event.msg {
        EventMsg::TurnStarted { input, model: name, approval, sandbox } => {
            model.session.model = name;
            model.session.approval = approval;
            model.session.sandbox = sandbox.mode;
            begin_turn(model, input);
        }
        EventMsg::TurnEnded { outcome, usage, duration_ms, last_message, .. } => {
            if let Some(text) = last_message {
                model.session.last_message = Some(text);
            }
            return end_turn(model, outcome, usage, duration_ms);
        }
        EventMsg::Steered { input } => add_user(model, input),
        EventMsg::ItemDelta { kind, text } => take_delta(model, kind, &text),
        EventMsg::ItemCompleted { item } => take_item(model, item),
        EventMsg::ToolCallBegin { call, effect, .. } => calls::begin(model, call, effect),
        EventMsg::ToolCallDelta { text, .. } => calls::print(model, call_id.as_ref(), &text),
        EventMsg::ToolCallEnd { tool, outcome, output, duration_ms, code } => {
            let end = calls::End { tool, outcome, output, duration_ms, code };
            calls::end(model, call_id.as_ref(), &end);
        }
        EventMsg::AskOpened { ask, question } => {
            return open_ask(model, OpenAsk::new(ask, call_id, question));
        }
        EventMsg::AskAnswered { ask, answer } => close_ask(model, ask, answer),
        EventMsg::FilesChanged { by, changes } => {
            note_changes(model, turn, &changes);
            calls::change_files(model, call_id.as_ref(), by, changes);
        }
        EventMsg::PlanUpdated { explanation, steps } => {
            model.add(Cell::Plan(PlanCell { explanation, steps }));
        }
        EventMsg::TokenCount { response, session, context_window } => {
            model.session.usage = session;
            model.session.context_window = context_window;
            model.session.context_tokens =
                response.input_tokens.saturating_add(response.output_tokens);
            if let Some(turn) = &mut model.turn {
                turn.output_tokens = turn.output_tokens.saturating_add(response.output_tokens);
            }
        }
        other => take_rare(model, turn, other),
    }
    Vec::new()
}

/// Events that come once, or beside the work.
fn take_rare(model: &mut Model, turn: TurnId, msg: EventMsg) {
    match msg {
        EventMsg::SessionStarted {
            gimlet_version,
            model: name,
            resumed,
            instruction_files,
            ..
        } => {
            model.session.model = name;
            let place = [Some(home_path(model)), model.facts.branch.clone()];
            let cwd = model.facts.cwd.clone();
            let short = |path: &std::path::PathBuf| {
                crate::frontend::tui::cells::frame::short_path(path, &cwd)
            };
            model.add(Cell::Header(HeaderCell {
                version: gimlet_version,
                place: place.into_iter().flatten().collect(),
                resumed,
                instruction_files: instruction_files.iter().map(short).collect(),
            }));
            if let Some(welcome) = model.facts.welcome.take() {
                notice(model, Weight::Warning, welcome, None);
            }
        }
        EventMsg::RequestStarted { .. } => set_phase(model, Phase::Waiting),
        EventMsg::QueueChanged { queue } => {
            model.queue = queue.into_iter().map(|input| split_input(input).0).collect();
        }
        EventMsg::SandboxLevel { level, reason } => {
            model.session.level = Some(level);
            warn_of_level(model, level, reason);
        }
        EventMsg::Warning { kind: WarningKind::Retry, message, hint } => {
            model.end_stream(None);
            set_phase(model, Phase::Retrying);
            notice(model, Weight::Warning, message, hint);
        }
        EventMsg::Warning { message, hint, .. } => notice(model, Weight::Warning, message, hint),
        EventMsg::Error { message, hint, kind, .. } => take_error(model, kind, message, hint),
        EventMsg::SnapshotTaken { since: Some(_), .. } => note_changed_turn(model, turn),
        other => take_beside(model, other),
    }
}

/// Events that go on beside the turn.
fn take_beside(model: &mut Model, msg: EventMsg) {
    match msg {
        EventMsg::Compacted { cause, tokens_before, tokens_after, .. } => {
            let short = crate::frontend::tui::cells::frame::short_number;
            let text = format!(
                "summarised the conversation ({cause}): {} tokens, now {}",
                short(tokens_before),
                short(tokens_after)
            );
            notice(model, Weight::Note, text, None);
        }
        EventMsg::Restored { turn, direction, changes, .. } => {
            take_restored(model, turn, direction, &changes);
        }
        EventMsg::Repaired { cause, bytes } => {
            notice(
                model,
                Weight::Warning,
                format!("the session's log was repaired: {cause} ({bytes} bytes set aside)"),
                None,
            );
        }
        EventMsg::ProcessStarted { process, command } => {
            model.session.processes.push((process, command));
        }
        EventMsg::ProcessEnded { process, .. } => {
            model.session.processes.retain(|(id, _)| *id != process);
        }
        EventMsg::NetworkAttempt { host, allowed: false } => {
            notice(
                model,
                Weight::Warning,
                format!("a command tried to reach {host}; it is not allowed"),
                None,
            );
        }
        EventMsg::McpServerStatus { server, status: McpStatus::Failed, error } => {
            let cause = error.unwrap_or_else(|| "no cause is known".to_owned());
            notice(
                model,
                Weight::Warning,
                format!("MCP server {server} cannot be used: {cause}"),
                None,
            );
        }
        EventMsg::AgentSpawned { role, task, .. } => {
            notice(model, Weight::Note, format!("agent {role} began: {task}"), None);
        }
        EventMsg::AgentEnded { outcome, .. } => {
            let how = if outcome == TurnOutcome::Completed { "is done" } else { "ended early" };
            notice(model, Weight::Note, format!("an agent {how}"), None);
        }
        _ => {}
    }
}

fn add_user(model: &mut Model, input: Vec<UserInput>) {
    let (text, images) = split_input(input);
    model.end_stream(None);
    model.add(Cell::User(UserCell { text, images }));
}

fn begin_turn(model: &mut Model, input: Vec<UserInput>) {
    add_user(model, input);
    model.turn = Some(TurnState { started_ms: model.now_ms, ..TurnState::default() });
}

fn end_turn(
    model: &mut Model,
    outcome: TurnOutcome,
    usage: TokenUsage,
    duration_ms: u64,
) -> Vec<Cmd> {
    model.end_stream(None);
    close_reasoning(model, None);
    calls::end_all(model);
    model.asks.clear();
    let turn = model.turn.take().unwrap_or_default();
    let outcome = match outcome {
        // The error itself has been told, with its hint.
        TurnOutcome::Failed { .. } if turn.error_shown => TurnOutcome::Completed,
        outcome => outcome,
    };
    model.add(Cell::TurnEnd(TurnEndCell {
        outcome,
        hint: turn.hint,
        files: turn.files.len(),
        duration_ms,
        usage,
    }));
    let is_away = model.focused == Some(false);
    if is_away && duration_ms >= LONG_TURN_MS && model.queue.is_empty() {
        return vec![Cmd::Notify(Notice::Done)];
    }
    Vec::new()
}

fn take_delta(model: &mut Model, kind: DeltaKind, text: &str) {
    match kind {
        DeltaKind::Text => {
            close_reasoning(model, None);
            set_phase(model, Phase::Writing);
            model.stream(text);
        }
        DeltaKind::Reasoning => {
            set_phase(model, Phase::Thinking);
            let now = model.now_ms;
            model.reasoning.get_or_insert_with(|| (String::new(), now)).0.push_str(text);
        }
        DeltaKind::Arguments => set_phase(model, Phase::Calling),
    }
}

fn take_item(model: &mut Model, item: ResponseItem) {
    match &item {
        ResponseItem::Message(message) if message.role == Role::Assistant => {
            close_reasoning(model, None);
            let text = message.text();
            if !text.trim().is_empty() {
                model.session.last_message = Some(text.clone());
            }
            model.end_stream(Some(text));
        }
        ResponseItem::Reasoning(reasoning) => {
            let text = reasoning.summary_text();
            close_reasoning(model, Some(text));
        }
        ResponseItem::FunctionCall(_)
        | ResponseItem::CustomToolCall(_)
        | ResponseItem::LocalShellCall(_) => {
            if let Some(id) = item.call_id().cloned() {
                model.remember_call(id, item);
            }
        }
        ResponseItem::WebSearchCall(_) => {
            notice(model, Weight::Note, "the server searched the web".to_owned(), None);
        }
        ResponseItem::Message(_)
        | ResponseItem::FunctionCallOutput(_)
        | ResponseItem::CustomToolCallOutput(_)
        | ResponseItem::Other(_) => {}
    }
}

/// Ends what the model thought; `whole` is its text as the log has it.
fn close_reasoning(model: &mut Model, whole: Option<String>) {
    let began = model.reasoning.take();
    let text = match (whole.filter(|text| !text.is_empty()), &began) {
        (Some(text), _) => text,
        (None, Some((text, _))) => text.clone(),
        // The item alone, without a text: an opaque state for the server.
        (None, None) => return,
    };
    let duration_ms = began.map(|(_, at)| model.now_ms.saturating_sub(at));
    model.add(Cell::Reasoning(ReasoningCell { text, duration_ms }));
}

fn open_ask(model: &mut Model, ask: OpenAsk) -> Vec<Cmd> {
    model.asks.push_back(ask);
    vec![Cmd::Notify(Notice::Waiting)]
}

fn close_ask(model: &mut Model, id: AskId, answer: Answer) {
    let Some(at) = model.asks.iter().position(|ask| ask.id == id) else { return };
    let Some(ask) = model.asks.remove(at) else { return };
    // The next one begins where this one stood: its keys count from its own first frame on.
    let edited = match &answer {
        Answer::Approval { edited: Some(call), .. } => edited_text(call),
        _ => None,
    };
    if let Some(text) = &edited {
        calls::change_command(model, ask.call_id.as_ref(), text);
    }
    let about = edited.unwrap_or_else(|| about_ask(model, &ask));
    let hunks = ask.taken.len();
    model.add(Cell::Answer(AnswerCell { about, answer, hunks }));
}

fn about_ask(model: &Model, ask: &OpenAsk) -> String {
    match &ask.question {
        Ask::Approval { effect: Effect::None, shown, .. } => shown.clone(),
        Ask::Approval { effect, shown, .. } => {
            let title = title_of(effect, "read", model.sheet());
            if title.is_empty() { shown.clone() } else { title }
        }
        Ask::Question { question, .. } => question.clone(),
        Ask::Elicitation { server, .. } => format!("form of {server}"),
    }
}

fn take_error(model: &mut Model, kind: ErrorKind, message: String, hint: Option<String>) {
    model.end_stream(None);
    if let Some(turn) = &mut model.turn {
        turn.error_shown = true;
    }
    let hint = hint.or_else(|| {
        (kind == ErrorKind::Credentials).then(|| {
            "gimlet login stores a key; gimlet doctor checks the way to the server".to_owned()
        })
    });
    notice(model, Weight::Error, message, hint);
}

fn take_restored(
    model: &mut Model,
    turn: TurnId,
    direction: RestoreDirection,
    changes: &[FileChange],
) {
    let session = &mut model.session;
    let word = match direction {
        RestoreDirection::Undo => {
            let at = session.changed_turns.partition_point(|changed| *changed < turn);
            let undone = session.changed_turns.split_off(at);
            session.undone_turns.extend(undone.into_iter().rev());
            "took back"
        }
        RestoreDirection::Redo => {
            session.undone_turns.retain(|undone| *undone != turn);
            session.changed_turns.push(turn);
            session.changed_turns.sort_unstable();
            session.changed_turns.dedup();
            "brought back"
        }
    };
    let cwd = model.facts.cwd.clone();
    let short =
        |change: &FileChange| crate::frontend::tui::cells::frame::short_path(&change.path, &cwd);
    let files = crate::frontend::tui::cells::frame::counted(changes.len(), "file");
    let details = changes.iter().take(12).map(short).collect();
    let message = format!("{word} what turn {turn} did: {files}");
    let hint = Some("the conversation stays; the model is told with your next message".to_owned());
    model.add(Cell::Notice(NoticeCell { hint, details, ..NoticeCell::new(Weight::Note, message) }));
}

fn note_changes(model: &mut Model, turn: TurnId, changes: &[FileChange]) {
    note_changed_turn(model, turn);
    if let Some(running) = &mut model.turn {
        for change in changes {
            if !running.files.contains(&change.path) {
                running.files.push(change.path.clone());
            }
        }
    }
    let kept = &mut model.session.changes;
    kept.extend(changes.iter().map(|change| (turn, change.clone())));
    if kept.len() > CHANGES_MAX {
        kept.drain(..kept.len() - CHANGES_MAX);
    }
}

fn note_changed_turn(model: &mut Model, turn: TurnId) {
    let turns = &mut model.session.changed_turns;
    if turns.last() != Some(&turn) {
        turns.push(turn);
        model.session.undone_turns.clear();
    }
}

fn warn_of_level(model: &mut Model, level: SandboxLevel, reason: Option<String>) {
    let message = match level {
        SandboxLevel::Full => return,
        SandboxLevel::Reduced => "commands run in a reduced sandbox here",
        SandboxLevel::None => "commands cannot be confined here",
    };
    let message = match reason {
        Some(reason) => format!("{message}: {reason}"),
        None => message.to_owned(),
    };
    notice(model, Weight::Warning, message, Some("gimlet doctor says more".to_owned()));
}

fn set_phase(model: &mut Model, phase: Phase) {
    if let Some(turn) = &mut model.turn {
        turn.phase = phase;
    }
}

fn notice(model: &mut Model, weight: Weight, message: String, hint: Option<String>) {
    model.add(Cell::Notice(NoticeCell { hint, ..NoticeCell::new(weight, message) }));
}

/// Returns the text of a message and the names of its images.
fn split_input(input: Vec<UserInput>) -> (String, Vec<String>) {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in input {
        match part {
            UserInput::Text { text } => texts.push(text),
            UserInput::Image { path, .. } => images.push(path.display().to_string()),
        }
    }
    (texts.join("\n"), images)
}

/// Returns the session's directory as people write it.
pub(super) fn home_path(model: &Model) -> String {
    crate::frontend::tui::view::place(&model.facts)
}
