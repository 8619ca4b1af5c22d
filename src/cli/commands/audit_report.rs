//! What a session's log says of who ran what: one record a turn, a call, and whatever else
//! acted. Pure.
//!
//! Folds events as they stand in the log; it judges nothing anew. A record is text for people
//! and an object for programs. Called by `audit.rs`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::protocol::{
    Answer, AnswerScope, ApprovalDecision, Ask, AskId, CallId, CallOutcome, ChangeKind,
    ChangeSource, Decision, DecisionAction, Effect, Event, EventMsg, FileChange, McpStatus,
    Network, ProcessId, SandboxLevel, SandboxMode, SandboxPolicy, UserInput,
};
use crate::text::ansi::visible_line;
use crate::text::truncate::bound;

/// Bytes of one shown command or message; the log holds all of it.
const SHOWN_BYTES_MAX: usize = 4_000;
/// Letters of a hash that people read.
const HASH_SHOWN: usize = 16;

/// The records of one session, in order.
#[derive(Debug, Default)]
pub(super) struct AuditReport {
    records: Vec<Record>,
    /// Where each call's record is.
    calls: HashMap<CallId, usize>,
    asks: HashMap<AskId, CallId>,
    sandbox: Option<SandboxPolicy>,
    level: Option<SandboxLevel>,
    cwd: PathBuf,
}

/// One record.
#[derive(Debug)]
pub(super) struct Record {
    kind: &'static str,
    at: String,
    turn: u32,
    seq: u64,
    hash: String,
    /// The line that people read first.
    title: String,
    /// What follows it, a name and a text each.
    fields: Vec<(&'static str, String)>,
    /// More for programs.
    data: Map<String, Value>,
}

impl AuditReport {
    /// Takes in the next event and the hash of its line.
    pub(super) fn take(&mut self, event: &Event, hash: &str) {
        let call_id = event.call_id.as_ref();
        match &event.msg {
            EventMsg::SessionStarted { gimlet_version, cwd, model, provider, resumed, .. } => {
                self.cwd.clone_from(cwd);
                let title = if *resumed { "session goes on" } else { "session begins" };
                let record = self.push("session", event, hash, title.to_owned());
                record.field("session", event.session.to_string());
                record.field("in", shown_path(cwd));
                record.field("model", format!("{model} of {provider}"));
                record.field("gimlet", gimlet_version.clone());
            }
            EventMsg::TurnStarted { input, model, approval, sandbox } => {
                self.sandbox = Some(sandbox.clone());
                let policy = self.describe_sandbox(None);
                let record = self.push("turn", event, hash, "the user asks".to_owned());
                record.field("text", shown_input(input));
                record.field("model", model.to_string());
                record.field("policy", format!("approval {}, {policy}", word(approval)));
                record.data.insert("sandbox".to_owned(), json!(sandbox));
            }
            EventMsg::SandboxLevel { level, .. } => self.level = Some(*level),
            EventMsg::ToolCallBegin { call, effect, decision } => {
                self.begin(event, hash, &call.name.0, (effect, decision.as_ref()));
            }
            EventMsg::ToolCallEnd { tool, outcome, output, duration_ms, code } => {
                let ended = Ended {
                    outcome: *outcome,
                    exit_code: output.exit_code,
                    duration_ms: *duration_ms,
                    code: code.as_deref(),
                };
                self.end(event, hash, &tool.0, &ended);
            }
            EventMsg::AskOpened { ask, question } => {
                if let Some(id) = call_id {
                    self.asks.insert(*ask, id.clone());
                }
                if let (Ask::Approval { asked_by, reason, rule, .. }, Some(record)) =
                    (question, self.record_of(call_id))
                {
                    let rule = rule.as_deref().map(|rule| format!(" by rule {rule}"));
                    let rule = rule.unwrap_or_default();
                    record.field("asked", format!("for agent {asked_by}{rule}: {reason}"));
                }
            }
            EventMsg::AskAnswered { ask, answer } => {
                let id = self.asks.get(ask).or(call_id).cloned();
                if let Some(record) = self.record_of(id.as_ref()) {
                    record.field("decision", describe_answer(answer));
                    record.data.insert("answer".to_owned(), json!(answer));
                }
            }
            EventMsg::FilesChanged { by, changes } => self.files(event, hash, *by, changes),
            other => self.note(event, hash, other),
        }
    }

    /// Returns the records.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    fn push(
        &mut self,
        kind: &'static str,
        event: &Event,
        hash: &str,
        title: String,
    ) -> &mut Record {
        let record = Record {
            kind,
            at: event.at.clone(),
            turn: event.turn.0,
            seq: event.seq.0,
            hash: hash.to_owned(),
            title,
            fields: Vec::new(),
            data: Map::new(),
        };
        self.records.push(record);
        let last = self.records.len() - 1;
        &mut self.records[last]
    }

    fn record_of(&mut self, call_id: Option<&CallId>) -> Option<&mut Record> {
        let place = self.calls.get(call_id?)?;
        self.records.get_mut(*place)
    }

    fn begin(
        &mut self,
        event: &Event,
        hash: &str,
        tool: &str,
        (effect, decision): (&Effect, Option<&Decision>),
    ) {
        let sandbox = self.describe_sandbox(decision.map(|decision| decision.action));
        let cwd = self.cwd.clone();
        let record = self.push("call", event, hash, tool.to_owned());
        record.data.insert("tool".to_owned(), tool.into());
        record.data.insert("effect".to_owned(), json!(effect));
        describe_effect(record, effect, &cwd);
        if matches!(effect, Effect::Run { .. } | Effect::Input { .. } | Effect::Write { .. }) {
            record.field("sandbox", sandbox);
        }
        record.field("policy", describe_decision(decision));
        record.data.insert("decision".to_owned(), json!(decision));
        if let Some(id) = &event.call_id {
            record.data.insert("call_id".to_owned(), json!(id));
            self.calls.insert(id.clone(), self.records.len() - 1);
        }
    }

    fn end(&mut self, event: &Event, hash: &str, tool: &str, ended: &Ended<'_>) {
        if self.record_of(event.call_id.as_ref()).is_none() {
            let record = self.push("call", event, hash, tool.to_owned());
            record.data.insert("tool".to_owned(), tool.into());
            record.data.insert("call_id".to_owned(), json!(event.call_id));
            record.field("policy", "not judged: the call did not come to run".to_owned());
            let place = self.records.len() - 1;
            self.calls.extend(event.call_id.clone().map(|id| (id, place)));
        }
        let Some(record) = self.record_of(event.call_id.as_ref()) else { return };
        record.field("outcome", ended.describe(event.seq.0, hash));
        record.data.insert("outcome".to_owned(), json!(ended.outcome));
        record.data.insert("exit_code".to_owned(), json!(ended.exit_code));
        record.data.insert("code".to_owned(), json!(ended.code));
        record.data.insert("duration_ms".to_owned(), json!(ended.duration_ms));
        record.data.insert("end_seq".to_owned(), json!(event.seq));
        record.data.insert("end_hash".to_owned(), json!(hash));
    }

    fn files(&mut self, event: &Event, hash: &str, by: ChangeSource, changes: &[FileChange]) {
        let cwd = self.cwd.clone();
        let stats: Vec<String> = changes.iter().map(|change| diff_stat(change, &cwd)).collect();
        let place = event.call_id.as_ref().and_then(|id| self.calls.get(id)).copied();
        let record = match place.and_then(|place| self.records.get_mut(place)) {
            Some(record) => record,
            None => {
                let title = match by {
                    ChangeSource::Patch => "files were patched",
                    ChangeSource::Command => "files were changed by a command",
                };
                self.push("files", event, hash, title.to_owned())
            }
        };
        for stat in stats {
            record.field("changed", stat);
        }
        record.data.insert("changes".to_owned(), json!(changes));
    }

    /// Records what acted beside the calls.
    fn note(&mut self, event: &Event, hash: &str, msg: &EventMsg) {
        let process = |id: &ProcessId| id.to_string();
        let (kind, title) = match msg {
            EventMsg::Restored { changes, after: None, .. } => {
                ("restored", format!("{} files are about to be restored", changes.len()))
            }
            EventMsg::Restored { changes, .. } => {
                ("restored", format!("{} files were restored", changes.len()))
            }
            EventMsg::Repaired { cause, bytes } => {
                ("repaired", format!("the log was repaired: {cause} ({bytes} bytes set aside)"))
            }
            EventMsg::ProcessStarted { process: id, command } => {
                ("process", format!("process {} runs on: {command}", process(id)))
            }
            EventMsg::ProcessEnded { process: id, exit_code } => {
                let code = exit_code.map_or("killed".to_owned(), |code| format!("exit {code}"));
                ("process", format!("process {} ended: {code}", process(id)))
            }
            EventMsg::NetworkAttempt { host, allowed } => {
                let word = if *allowed { "reached" } else { "was kept from" };
                ("network", format!("a command {word} {host}"))
            }
            EventMsg::McpServerStatus { server, status: McpStatus::Ready, .. } => {
                ("mcp", format!("MCP server {server} runs"))
            }
            EventMsg::HookRan { hook, command, outcome, .. } => {
                ("hook", format!("hook {hook} ran {command}: {outcome}"))
            }
            EventMsg::AgentSpawned { agent, role, .. } => {
                ("agent", format!("agent {role} starts as session {agent}"))
            }
            _ => return,
        };
        let record = self.push(kind, event, hash, title);
        record.data.insert("event".to_owned(), json!(msg));
    }

    /// Returns what confined a call, by the turn's policy and what was decided.
    fn describe_sandbox(&self, action: Option<DecisionAction>) -> String {
        let Some(policy) = &self.sandbox else { return "unknown".to_owned() };
        let mode = match (action, policy.mode) {
            (Some(DecisionAction::AllowUnsandboxed | DecisionAction::AskUnsandboxed), _)
            | (_, SandboxMode::DangerFullAccess) => return "none".to_owned(),
            (Some(DecisionAction::AllowReadOnly), _) | (_, SandboxMode::ReadOnly) => "read-only",
            (_, SandboxMode::WorkspaceWrite) => "workspace-write",
        };
        let level = match self.level {
            Some(SandboxLevel::Full) => "full",
            Some(SandboxLevel::Reduced) => "reduced",
            Some(SandboxLevel::None) => "none",
            None => "unknown",
        };
        let network = match &policy.network {
            _ if mode == "read-only" => "network off".to_owned(),
            Network::Off => "network off".to_owned(),
            Network::On => "network on".to_owned(),
            Network::Hosts(hosts) => {
                let hosts: Vec<_> = hosts.iter().map(|host| host.0.as_str()).collect();
                format!("network to {} only", hosts.join(", "))
            }
        };
        format!("{mode}, level {level}, {network}")
    }
}

impl Record {
    fn field(&mut self, name: &'static str, text: String) {
        self.fields.push((name, text));
    }

    /// Returns the lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let hash: String = self.hash.chars().take(HASH_SHOWN).collect();
        let head = format!("{}  turn {}  {}  #{} {hash}", self.at, self.turn, self.title, self.seq);
        let rest = self.fields.iter().flat_map(|(name, text)| {
            let text = bound(text, SHOWN_BYTES_MAX);
            // A command of several lines keeps them, and none can pass for a line of ours.
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.into_iter().enumerate().map(move |(at, line)| {
                let name = if at == 0 { name } else { "" };
                visible_line(&format!("    {name:<9} {line}")).trim_end().to_owned()
            })
        });
        std::iter::once(visible_line(&head).into_owned()).chain(rest).collect()
    }

    /// Returns the object for programs.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".to_owned(), self.kind.into());
        object.insert("at".to_owned(), self.at.as_str().into());
        object.insert("turn".to_owned(), self.turn.into());
        object.insert("seq".to_owned(), self.seq.into());
        object.insert("hash".to_owned(), self.hash.as_str().into());
        object.insert("title".to_owned(), self.title.as_str().into());
        for (name, text) in &self.fields {
            match object.get_mut(*name) {
                Some(Value::String(before)) => {
                    before.push('\n');
                    before.push_str(text);
                }
                Some(_) | None => {
                    object.insert((*name).to_owned(), text.as_str().into());
                }
            }
        }
        // The words for people stay; what programs read stands below a name of its own.
        object.insert("data".to_owned(), Value::Object(self.data.clone()));
        Value::Object(object)
    }
}

/// How a call ended.
struct Ended<'a> {
    outcome: CallOutcome,
    exit_code: Option<i32>,
    duration_ms: u64,
    code: Option<&'a str>,
}

impl Ended<'_> {
    fn describe(&self, seq: u64, hash: &str) -> String {
        let exit = self.exit_code.map(|code| format!(", exit {code}")).unwrap_or_default();
        let code = self.code.map(|code| format!(" ({code})")).unwrap_or_default();
        let hash: String = hash.chars().take(HASH_SHOWN).collect();
        format!("{}{code}{exit}, {} ms  #{seq} {hash}", word(&self.outcome), self.duration_ms)
    }
}

fn describe_effect(record: &mut Record, effect: &Effect, cwd: &Path) {
    match effect {
        Effect::None => {}
        Effect::Read { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| shown_below(path, cwd)).collect();
            record.field("reads", paths.join(", "));
        }
        Effect::Write { changes } => {
            let paths = changes.iter().map(|change| shown_below(&change.path, cwd));
            record.field("writes", paths.collect::<Vec<_>>().join(", "));
        }
        Effect::Run { command, cwd, escalate, .. } => {
            record.field("command", command.shown());
            record.field("in", shown_path(cwd));
            if let Some(justification) = escalate {
                record.field("wants out", justification.reason.clone());
            }
        }
        Effect::Input { process } => record.field("input", format!("to process {process}")),
        Effect::Fetch { url } => record.field("fetches", url.clone()),
        Effect::Remote { server, tool, arguments, .. } => {
            record.field("calls", format!("{tool} of MCP server {server}"));
            record.field("arguments", arguments.to_string());
        }
        Effect::Agent { role } => record.field("agent", role.clone()),
    }
}

fn describe_decision(decision: Option<&Decision>) -> String {
    let Some(decision) = decision else { return "allowed by policy".to_owned() };
    let verb = match decision.action {
        DecisionAction::Allow => "allowed",
        DecisionAction::AllowReadOnly => "allowed to read only",
        DecisionAction::AllowUnsandboxed => "allowed outside the sandbox",
        DecisionAction::Ask => "must be approved",
        DecisionAction::AskUnsandboxed => "must be approved, outside the sandbox",
        DecisionAction::Deny => "denied",
    };
    let by =
        decision.rule.as_deref().map_or("by policy".to_owned(), |rule| format!("by rule {rule}"));
    let reason = match decision.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{verb} {by}{reason}")
}

fn describe_answer(answer: &Answer) -> String {
    let note =
        |note: &Option<String>| note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    match answer {
        Answer::Approval {
            decision: ApprovalDecision::Allow, scope, edited, note: text, ..
        } => {
            let scope = match scope {
                AnswerScope::Once => "once",
                AnswerScope::Session => "for this session",
                AnswerScope::Project => "for this project",
                AnswerScope::Always => "always",
            };
            let edited = if edited.is_some() { ", edited" } else { "" };
            format!("approved by the user {scope}{edited}{}", note(text))
        }
        Answer::Approval { decision: ApprovalDecision::Deny, note: text, .. } => {
            format!("refused by the user{}", note(text))
        }
        Answer::Approval { decision: ApprovalDecision::Abort, note: text, .. } => {
            format!("refused by the user, who stopped the turn{}", note(text))
        }
        Answer::Declined { reason } => format!("declined: {reason}"),
        Answer::Text { .. } | Answer::Form { .. } => "answered".to_owned(),
    }
}

fn diff_stat(change: &FileChange, cwd: &Path) -> String {
    let count = |sign: char, header: &str| {
        let counts = |line: &&str| line.starts_with(sign) && !line.starts_with(header);
        change.diff.lines().filter(counts).count()
    };
    let kind = match change.kind {
        ChangeKind::Add => "new ",
        ChangeKind::Delete => "deleted ",
        ChangeKind::Update => "",
    };
    let moved = change.move_to.as_deref().map(|to| format!(" to {}", shown_below(to, cwd)));
    format!(
        "{kind}{}{}  +{} -{}",
        shown_below(&change.path, cwd),
        moved.unwrap_or_default(),
        count('+', "+++ "),
        count('-', "--- "),
    )
}

fn shown_input(input: &[UserInput]) -> String {
    let part = |input: &UserInput| match input {
        UserInput::Text { text } => text.clone(),
        UserInput::Image { path, .. } => format!("[image {}]", path.display()),
    };
    input.iter().map(part).collect::<Vec<_>>().join("\n")
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

fn shown_below(path: &Path, cwd: &Path) -> String {
    shown_path(path.strip_prefix(cwd).unwrap_or(path))
}

/// Returns the word that stands for a value in the log.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}
