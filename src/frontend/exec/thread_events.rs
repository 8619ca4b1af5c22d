//! `ThreadEvents`: our events as the JSON lines that scripts and the Codex SDK read.
//!
//! A state machine without IO: one event in, some lines out. What was started is always
//! completed, once. The shapes are those of `codex exec --json`; where we add to them, only
//! by fields and by items that were missing. Called by `exec/mod.rs`.

use serde_json::{Value, json};

use crate::frontend::exec::open_item::{CallEnd, OpenItem, item_value};
use crate::protocol::{
    CallId, CallOutcome, ChangeSource, Effect, Event, EventMsg, LimitKind, McpStatus, OutputStream,
    PlanStatus, PlanStep, ResponseItem, TokenUsage, ToolName, ToolOutput, TurnOutcome, WarningKind,
    WebSearchCall,
};
use crate::text::truncate::bound;

/// A message in an `error` item is for a person; a tool's whole output is not.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// The translation, and what it must remember: open items and the last number.
#[derive(Debug, Default)]
pub(crate) struct ThreadEvents {
    items_made: u64,
    open: Vec<(CallId, OpenItem)>,
    todo: Option<Todo>,
    /// An error whose turn has not ended yet; the end says it, unless it says another.
    pending_error: Option<String>,
}

#[derive(Debug)]
struct Todo {
    id: String,
    items: Value,
}

impl ThreadEvents {
    /// Returns the lines for one event.
    pub(crate) fn translate(&mut self, event: &Event) -> Vec<Value> {
        let call_id = event.call_id.as_ref();
        match &event.msg {
            EventMsg::SessionStarted { .. } => {
                vec![json!({"type": "thread.started", "thread_id": event.session.to_string()})]
            }
            EventMsg::TurnStarted { .. } => vec![json!({"type": "turn.started"})],
            EventMsg::TurnEnded { outcome, usage, .. } => self.end_turn(outcome, *usage),
            EventMsg::ItemCompleted { item } => self.whole_item(item),
            EventMsg::ToolCallBegin { call, effect, .. } => self.begin(&call.call_id, effect),
            EventMsg::ToolCallDelta { stream: OutputStream::Output, text } => {
                self.update(call_id, text, &event.at)
            }
            EventMsg::ToolCallEnd { tool, outcome, output, code, .. } => {
                let end = CallEnd { outcome: *outcome, output, code: code.as_deref() };
                self.end(call_id, tool, &end)
            }
            EventMsg::PlanUpdated { steps, .. } => self.plan(steps),
            EventMsg::McpServerStatus { server, status: McpStatus::Failed, error } => {
                let cause = error.as_deref().unwrap_or("no cause is known");
                vec![self.error_item(&format!("MCP server {server} cannot be used: {cause}"))]
            }
            EventMsg::Warning { .. } if is_about_surroundings(&event.msg) => Vec::new(),
            EventMsg::Warning { message, hint, .. } => {
                vec![self.error_item(&with_hint(message, hint.as_deref()))]
            }
            EventMsg::Error { message, .. } => {
                let earlier = self.pending_error.replace(message.clone());
                earlier.map(|earlier| self.error_item(&earlier)).into_iter().collect()
            }
            // A patch is an item of its own from its call on.
            EventMsg::FilesChanged { by: ChangeSource::Command, changes } => {
                let item = OpenItem::changed_files(self.next_id(), changes);
                vec![line("item.started", item.in_progress()), line("item.completed", item.done())]
            }
            EventMsg::RequestStarted { .. }
            | EventMsg::ItemDelta { .. }
            | EventMsg::ToolCallDelta { stream: OutputStream::Progress, .. }
            | EventMsg::AskOpened { .. }
            | EventMsg::AskAnswered { .. }
            | EventMsg::GrantApplied { .. }
            | EventMsg::FilesChanged { by: ChangeSource::Patch, .. }
            | EventMsg::SnapshotTaken { .. }
            | EventMsg::TokenCount { .. }
            | EventMsg::Compacted { .. }
            | EventMsg::Restored { .. }
            | EventMsg::Repaired { .. }
            | EventMsg::QueueChanged { .. }
            | EventMsg::Steered { .. }
            | EventMsg::ProcessStarted { .. }
            | EventMsg::ProcessEnded { .. }
            | EventMsg::SandboxLevel { .. }
            | EventMsg::NetworkAttempt { .. }
            | EventMsg::McpServerStatus { .. }
            | EventMsg::HookRan { .. }
            | EventMsg::AgentSpawned { .. }
            | EventMsg::AgentEnded { .. }
            | EventMsg::LimitReached { .. } => Vec::new(),
        }
    }

    /// Returns the lines that end a stream whose session ended without ending its turn.
    pub(crate) fn finish(&mut self, message: &str) -> Vec<Value> {
        self.pending_error = None;
        let mut lines = self.close_all();
        lines.extend(failure(message));
        lines
    }

    fn end_turn(&mut self, outcome: &TurnOutcome, usage: TokenUsage) -> Vec<Value> {
        let mut lines = self.close_all();
        let failure_message = failure_message(outcome);
        let pending = self.pending_error.take();
        if let Some(error) = pending.filter(|error| Some(error) != failure_message.as_ref()) {
            lines.push(self.error_item(&error));
        }
        match failure_message {
            None => lines.push(json!({"type": "turn.completed", "usage": usage})),
            Some(message) => lines.extend(failure(&message)),
        }
        lines
    }

    /// Closes what a turn left open: commands first, the plan last.
    fn close_all(&mut self) -> Vec<Value> {
        let nothing = ToolOutput { content: Vec::new(), ..ToolOutput::text("") };
        let outcome = CallOutcome::Interrupted;
        let end = CallEnd { outcome, output: &nothing, code: Some("interrupted") };
        let mut lines: Vec<Value> = std::mem::take(&mut self.open)
            .into_iter()
            .map(|(_, item)| line("item.completed", item.ended(&end)))
            .collect();
        if let Some(todo) = self.todo.take() {
            lines.push(line("item.completed", todo.item()));
        }
        lines
    }

    fn whole_item(&mut self, item: &ResponseItem) -> Vec<Value> {
        let body = match item {
            ResponseItem::Message(_) => {
                let text = item.assistant_message().filter(|text| !text.is_empty());
                text.map(|text| ("agent_message", json!({"text": text})))
            }
            ResponseItem::Reasoning(reasoning) => {
                let text = reasoning.summary_text();
                (!text.is_empty()).then(|| ("reasoning", json!({"text": text})))
            }
            ResponseItem::WebSearchCall(call) => Some(("web_search", web_search(call))),
            ResponseItem::FunctionCall(_)
            | ResponseItem::CustomToolCall(_)
            | ResponseItem::LocalShellCall(_)
            | ResponseItem::FunctionCallOutput(_)
            | ResponseItem::CustomToolCallOutput(_)
            | ResponseItem::Other(_) => None,
        };
        let Some((kind, body)) = body else { return Vec::new() };
        vec![line("item.completed", item_value(&self.next_id(), kind, body))]
    }

    fn begin(&mut self, call_id: &CallId, effect: &Effect) -> Vec<Value> {
        // A call that is run again outside the sandbox begins twice; it is one item.
        if self.open.iter().any(|(open, _)| open == call_id) {
            return Vec::new();
        }
        let id = format!("item_{}", self.items_made);
        let Some(item) = OpenItem::new(id, effect) else { return Vec::new() };
        self.items_made += 1;
        let started = line("item.started", item.in_progress());
        self.open.push((call_id.clone(), item));
        vec![started]
    }

    fn update(&mut self, call_id: Option<&CallId>, text: &str, at: &str) -> Vec<Value> {
        let open = self.open.iter_mut().find(|(open, _)| Some(open) == call_id);
        let updated = open.and_then(|(_, item)| item.add_output(text, at));
        updated.map(|item| line("item.updated", item)).into_iter().collect()
    }

    fn end(&mut self, call_id: Option<&CallId>, tool: &ToolName, end: &CallEnd<'_>) -> Vec<Value> {
        let place = self.open.iter().position(|(open, _)| Some(open) == call_id);
        if let Some(place) = place {
            let (_, item) = self.open.remove(place);
            return vec![line("item.completed", item.ended(end))];
        }
        // It never began: its effect was never known, or it has none worth an item.
        if end.code != Some("invalid_arguments") && end.code != Some("tool_unavailable") {
            return Vec::new();
        }
        if tool.as_str() == "apply_patch" {
            let item = OpenItem::unread_patch(self.next_id());
            let started = line("item.started", item.in_progress());
            return vec![started, line("item.completed", item.ended(end))];
        }
        let message = format!("call of {tool}: {}", end.output.joined_text());
        vec![self.error_item(&message)]
    }

    fn plan(&mut self, steps: &[PlanStep]) -> Vec<Value> {
        let one = |step: &PlanStep| {
            let completed = step.status == PlanStatus::Completed;
            json!({"text": step.step, "completed": completed})
        };
        let items: Value = steps.iter().map(one).collect();
        let (kind, id) = match self.todo.take() {
            Some(todo) => ("item.updated", todo.id),
            None => ("item.started", self.next_id()),
        };
        let todo = Todo { id, items };
        let lines = vec![line(kind, todo.item())];
        self.todo = Some(todo);
        lines
    }

    fn error_item(&mut self, message: &str) -> Value {
        let body = json!({"message": bound(message, ERROR_BYTES_MAX)});
        line("item.completed", item_value(&self.next_id(), "error", body))
    }

    fn next_id(&mut self) -> String {
        let id = format!("item_{}", self.items_made);
        self.items_made += 1;
        id
    }
}

impl Todo {
    fn item(&self) -> Value {
        item_value(&self.id, "todo_list", json!({"items": self.items}))
    }
}

/// Returns whether a warning is about the machine or the configuration. Such would come with
/// every run, and readers take an `error` item for a fault of this one.
pub(in crate::frontend::exec) fn is_about_surroundings(msg: &EventMsg) -> bool {
    let kinds = [WarningKind::Sandbox, WarningKind::Config];
    matches!(msg, EventMsg::Warning { kind, .. } if kinds.contains(kind))
}

/// Returns why a turn failed, in one line; `None` when it did not.
pub(in crate::frontend::exec) fn failure_message(outcome: &TurnOutcome) -> Option<String> {
    match outcome {
        TurnOutcome::Completed => None,
        TurnOutcome::Failed { message, .. } => Some(message.clone()),
        TurnOutcome::Interrupted { .. } => Some("interrupted".to_owned()),
        TurnOutcome::Denied { reason } => Some(format!("stopped by a denial: {reason}")),
        TurnOutcome::LimitReached { limit } => {
            let what = match limit {
                LimitKind::Steps => "requests in a turn",
                LimitKind::Tokens => "tokens",
                LimitKind::Cost => "cost",
                LimitKind::Time => "time",
            };
            Some(format!("the limit of {what} was reached"))
        }
    }
}

/// Returns a message and its hint as one text.
pub(in crate::frontend::exec) fn with_hint(message: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{message} ({hint})"),
        None => message.to_owned(),
    }
}

fn line(kind: &str, item: Value) -> Value {
    // Not `json!`, which would copy a command's whole output.
    let fields = [("type".to_owned(), Value::from(kind)), ("item".to_owned(), item)];
    Value::Object(fields.into_iter().collect())
}

fn failure(message: &str) -> [Value; 2] {
    [
        json!({"type": "error", "message": message}),
        json!({"type": "turn.failed", "error": {"message": message}}),
    ]
}

fn web_search(call: &WebSearchCall) -> Value {
    let action = call.action.as_ref();
    let text = |key: &str| action.and_then(|action| action.get(key)).and_then(Value::as_str);
    let query = text("query").or_else(|| text("url")).or_else(|| text("pattern"));
    json!({"query": query.unwrap_or_default(), "action": call.action})
}
