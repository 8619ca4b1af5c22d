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
    Network, ProcessId, SandboxLevel, SandboxMode, SandboxPolicy, ToolCall, ToolPayload, UserInput,
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
    asks: HashMap<AskId, Asked>,
    /// What confines the commands that outlive their calls.
    confined: HashMap<ProcessId, String>,
    sandbox: Option<SandboxPolicy>,
    level: Option<SandboxLevel>,
    cwd: PathBuf,
}

/// A question of a call.
#[derive(Debug)]
struct Asked {
    call_id: CallId,
    /// Whether a yes lets it run outside the sandbox.
    outside: bool,
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
            EventMsg::Steered { input } => {
                let record = self.push("turn", event, hash, "the user adds".to_owned());
                record.field("text", shown_input(input));
            }
            EventMsg::SandboxLevel { level, .. } => self.level = Some(*level),
            EventMsg::ToolCallBegin { call, effect, decision } => {
                self.begin(event, hash, call, (effect, decision.as_ref()));
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
            EventMsg::AskOpened { .. }
            | EventMsg::AskAnswered { .. }
            | EventMsg::GrantApplied { .. } => self.approval(event),
            EventMsg::ProcessStarted { process, .. } => {
                let place = self.record_of(call_id).map(|record| record.place());
                self.confined.extend(place.map(|place| (*process, place)));
                self.note(event, hash, &event.msg);
            }
            EventMsg::FilesChanged { by, changes } => self.files(event, hash, *by, changes),
            other => self.note(event, hash, other),
        }
    }

    /// Takes in what was asked of a call, and who answered.
    fn approval(&mut self, event: &Event) {
        let call_id = event.call_id.as_ref();
        match &event.msg {
            EventMsg::AskOpened { ask, question } => {
                if let Some(id) = call_id {
                    let outside = matches!(question, Ask::Approval { reach, .. } if reach.outside);
                    self.asks.insert(*ask, Asked { call_id: id.clone(), outside });
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
                let asked = self.asks.get(ask);
                let outside = asked.is_some_and(|asked| asked.outside);
                // One answer may be for several calls that asked the same.
                let id = call_id.or(asked.map(|asked| &asked.call_id)).cloned();
                let Some(record) = self.record_of(id.as_ref()) else { return };
                record.field("decision", describe_answer(answer));
                record.data.insert("answer".to_owned(), json!(answer));
                if let Answer::Approval { decision: ApprovalDecision::Allow, edited, .. } = answer {
                    record.ran_as(edited.as_ref());
                    record.was_let_out(outside && edited.is_none());
                }
            }
            EventMsg::GrantApplied { grant, scope, outside } => {
                let Some(record) = self.record_of(call_id) else { return };
                let scope = describe_scope(*scope);
                let said = format!("approved before by the user {scope}, approval {grant}");
                record.field("decision", said);
                record.data.insert("grant".to_owned(), json!(grant));
                record.was_let_out(*outside);
            }
            _ => {}
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
        call: &ToolCall,
        (effect, decision): (&Effect, Option<&Decision>),
    ) {
        let sandbox = match effect {
            Effect::Input { process } => self.confined.get(process).cloned(),
            _ => Some(self.describe_sandbox(decision.map(|decision| decision.action))),
        };
        let sandbox = sandbox.unwrap_or_else(|| "unknown".to_owned());
        let cwd = self.cwd.clone();
        let tool = &call.name.0;
        let record = self.push("call", event, hash, tool.clone());
        record.data.insert("tool".to_owned(), tool.as_str().into());
        record.data.insert("effect".to_owned(), json!(effect));
        describe_effect(record, effect, &cwd);
        if matches!(effect, Effect::Input { .. }) {
            // Without the quotes, control characters would be lines and colours of ours.
            let typed = member(call, "chars").unwrap_or_default();
            record.field("typed", format!("{typed:?}"));
        }
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
                let word = if *allowed { "was allowed" } else { "was refused" };
                ("network", format!("a command {word} a connection to {host}"))
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

    /// Says what ran in the place of a call that the user changed.
    fn ran_as(&mut self, edited: Option<&ToolCall>) {
        let Some(call) = edited else { return };
        let shown = match &call.payload {
            ToolPayload::Function { arguments } => member(call, "cmd").unwrap_or(arguments.clone()),
            ToolPayload::Custom { input, .. } => input.clone(),
            ToolPayload::LocalShell { command, .. } => command.join(" "),
        };
        self.field("changed to", shown);
        self.data.insert("edited".to_owned(), json!(call));
    }

    /// Says that the call was let out of the sandbox: at once, or for a second run.
    fn was_let_out(&mut self, outside: bool) {
        let confined = self.fields.iter().any(|(name, text)| *name == "sandbox" && text != "none");
        if outside && confined {
            self.field("ran again", "outside the sandbox".to_owned());
            self.data.insert("ran_outside".to_owned(), true.into());
        }
    }

    /// Returns what confines what the call left running.
    fn place(&self) -> String {
        let of = |wanted: &str| self.fields.iter().find(|(name, _)| *name == wanted);
        match (of("ran again"), of("sandbox")) {
            (Some(_), _) => "none".to_owned(),
            (None, Some((_, sandbox))) => sandbox.clone(),
            (None, None) => "unknown".to_owned(),
        }
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
            decision: ApprovalDecision::Allow,
            scope,
            edited,
            hunks,
            note: text,
        } => {
            let scope = describe_scope(*scope);
            let edited = if edited.is_some() { ", changed" } else { "" };
            let part = hunks.as_ref().map(|hunks| {
                let names: Vec<&str> = hunks.iter().map(|hunk| hunk.0.as_str()).collect();
                format!(", of it hunks {}", names.join(", "))
            });
            let part = part.unwrap_or_default();
            format!("approved by the user {scope}{edited}{part}{}", note(text))
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

fn describe_scope(scope: AnswerScope) -> &'static str {
    match scope {
        AnswerScope::Once => "once",
        AnswerScope::Session => "for this session",
        AnswerScope::Project => "for this project",
        AnswerScope::Always => "always",
    }
}

/// Returns a member of a call's arguments that is text.
fn member(call: &ToolCall, name: &str) -> Option<String> {
    let ToolPayload::Function { arguments } = &call.payload else { return None };
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    arguments.get(name)?.as_str().map(str::to_owned)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what an audit says of these events of one call.
    fn audit(messages: &[Value]) -> String {
        let mut report = AuditReport::default();
        let policy = json!({"mode": "workspace-write", "roots": ["/w"], "network": "off", "deny_read": [], "deny_write": [], "git": "ask", "tmp": true});
        let opening = json!({"type": "turn_started", "input": [], "model": "m", "approval": "on-failure", "sandbox": policy});
        for (msg, seq) in std::iter::once(&opening).chain(messages).zip(1..) {
            let event = json!({"v": 1, "seq": seq, "prev_hash": "", "at": "", "session": "01a1ff66-bd61-752b-b0fb-b513d8aef1a2", "turn": 1, "call_id": "c1", "msg": msg});
            report.take(&serde_json::from_value(event).unwrap(), "00");
        }
        report.records().iter().flat_map(Record::lines).collect::<Vec<_>>().join("\n")
    }

    fn begin(tool: &str, arguments: &Value, effect: &Value) -> Value {
        let payload = json!({"kind": "function", "arguments": arguments.to_string()});
        let call = json!({"call_id": "c1", "name": tool, "payload": payload});
        json!({"type": "tool_call_begin", "call": call, "effect": effect})
    }

    fn run(cmd: &str) -> Value {
        let command = json!({"kind": "shell", "program": "sh", "login": false, "script": cmd});
        let effect = json!({"kind": "run", "command": command, "cwd": "/w", "network": "off"});
        begin("exec_command", &json!({"cmd": cmd}), &effect)
    }

    fn approval(outside: bool) -> Value {
        let reach = json!({"mode": "workspace-write", "level": "full", "outside": outside, "roots": [], "network": "on"});
        let effect = json!({"kind": "none"});
        json!({"type": "ask_opened", "ask": 1, "question": {"kind": "approval", "effect": effect, "shown": "", "asked_by": "main", "rule": null, "reason": "why", "reach": reach}})
    }

    fn yes(edited: Option<&Value>) -> Value {
        let mut answer = json!({"kind": "approval", "decision": "allow", "scope": "once"});
        if let Some(edited) = edited {
            answer["edited"] = edited["call"].clone();
        }
        json!({"type": "ask_answered", "ask": 1, "answer": answer})
    }

    #[test]
    fn an_approval_by_memory_is_told() {
        let applied = json!({"type": "grant_applied", "grant": "0a1b", "scope": "project"});
        let said = audit(&[run("make"), applied]);
        let expected = "    decision  approved before by the user for this project, approval 0a1b";
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("outside"), "{said}");
    }

    #[test]
    fn a_second_run_outside_is_told_and_what_is_typed_there() {
        let applied =
            json!({"type": "grant_applied", "grant": "0a1b", "scope": "session", "outside": true});
        for let_out in [vec![approval(true), yes(None)], vec![applied]] {
            let started = json!({"type": "process_started", "process": 1, "command": "python3"});
            let typed = json!({"session_id": 1, "chars": "rm\u{1b}[2J\n"});
            let input = begin("write_stdin", &typed, &json!({"kind": "input", "process": 1}));
            let all = [vec![run("python3")], let_out, vec![started, input]].concat();
            let said = audit(&all);
            assert!(said.contains("    ran again outside the sandbox"), "{said}");
            assert!(said.contains("    typed     \"rm\\u{1b}[2J\\n\""), "{said}");
            assert!(said.contains("    sandbox   none"), "{said}");
        }
    }

    #[test]
    fn the_call_that_really_ran_is_told() {
        let said = audit(&[run("make install"), approval(false), yes(Some(&run("make test")))]);
        assert!(said.contains("    decision  approved by the user once, changed"), "{said}");
        assert!(said.contains("    changed to make test"), "{said}");
    }

    #[test]
    fn permission_is_no_connection() {
        let said =
            audit(&[json!({"type": "network_attempt", "host": "a.test:80", "allowed": true})]);
        assert!(said.contains("a command was allowed a connection to a.test:80"), "{said}");
    }
}
