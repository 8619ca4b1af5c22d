//! `Event`: what comes out of a session. The event log is the session.
//!
//! The same values feed the screen, `--events`, the session file, observers and tests.
//! This is a file format: variants and fields are only ever added, a field that came later
//! has a default, and a reader skips variants it does not know. At most 36 variants
//! (`tests/it/tidy.rs` counts). Which are durable is `EventMsg::is_durable`, beside the enum.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{
    Answer, AnswerScope, ApprovalPolicy, Ask, AskId, CallId, Decision, Effect, FileChange,
    ModelName, ProcessId, ResponseItem, RestoreDirection, RestoreWhat, SandboxLevel, SandboxPolicy,
    Seq, SessionId, SnapshotId, ToolCall, ToolName, ToolOutput, ToolSpec, TurnId, UserInput,
};

/// The version of the format, in every line.
pub const EVENT_VERSION: u32 = 1;

/// One event with its place in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The format's version, `EVENT_VERSION`.
    pub v: u32,
    /// The place in the session file, from 1. An event that is not durable carries the place
    /// of the durable one before it.
    pub seq: Seq,
    /// SHA-256 (hex) of the line before it in the file; empty for the first.
    pub prev_hash: String,
    /// When, as RFC 3339 in UTC with milliseconds.
    pub at: String,
    /// The session.
    pub session: SessionId,
    /// The turn; 0 before the first.
    pub turn: TurnId,
    /// The durable event this one continues, where that is not the one before it: a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Seq>,
    /// The server's id of the response that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What happened.
    pub msg: EventMsg,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventMsg {
    /// A session begins, or goes on in a new process (`resumed`).
    SessionStarted {
        /// This program's version.
        gimlet_version: String,
        /// The session's directory.
        cwd: PathBuf,
        /// The model at the start.
        model: ModelName,
        /// The provider's configured name.
        provider: String,
        /// Whether this continues an older file.
        resumed: bool,
        /// The session this was forked from, or the parent agent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session: Option<SessionId>,
        /// The base instructions; `None` when unchanged since the line before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
        /// The instruction files (AGENTS.md) that were read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        instruction_files: Vec<PathBuf>,
    },
    /// A user turn begins.
    TurnStarted {
        /// What the user gave.
        input: Vec<UserInput>,
        /// The model.
        model: ModelName,
        /// When the user is asked.
        approval: ApprovalPolicy,
        /// What commands can reach.
        sandbox: SandboxPolicy,
    },
    /// A user turn ended.
    TurnEnded {
        /// How.
        outcome: TurnOutcome,
        /// Tokens of this turn alone.
        usage: TokenUsage,
        /// How many requests it took.
        steps: u32,
        /// How long, in milliseconds.
        duration_ms: u64,
        /// The last assistant message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_message: Option<String>,
    },
    /// A request goes out.
    RequestStarted {
        /// The step within the turn, from 1.
        step: u32,
        /// SHA-256 (hex) of the body.
        body_hash: String,
        /// The body's size.
        body_bytes: u64,
        /// What it shares with the request before.
        prefix: PrefixShare,
        /// The tools on offer; `None` when unchanged since the line before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Vec<ToolSpec>>,
    },
    /// A piece of an item, for display only.
    ItemDelta {
        /// Of what.
        kind: DeltaKind,
        /// The piece.
        text: String,
    },
    /// An item is whole and part of the conversation.
    ItemCompleted {
        /// The item.
        item: ResponseItem,
    },
    /// A call is about to run.
    ToolCallBegin {
        /// The call.
        call: ToolCall,
        /// What it would do.
        effect: Effect,
        /// What policy said of it; `None` when it is simply allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
    },
    /// Output of a running call, for display only.
    ToolCallDelta {
        /// From where.
        stream: OutputStream,
        /// The piece, as text.
        text: String,
    },
    /// A call ended. Every call that came in ends exactly once, whether it began or not.
    ToolCallEnd {
        /// The tool's name.
        tool: ToolName,
        /// How it ended.
        outcome: CallOutcome,
        /// What came of it.
        output: ToolOutput,
        /// How long, in milliseconds.
        duration_ms: u64,
        /// Set when it ended badly: a short fixed word such as `denied`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A question is open.
    AskOpened {
        /// Its id.
        ask: AskId,
        /// The question.
        question: Ask,
    },
    /// A question was answered.
    AskAnswered {
        /// Its id.
        ask: AskId,
        /// The answer.
        answer: Answer,
    },
    /// A call was let through by an approval that was given before, unasked.
    GrantApplied {
        /// The grant's id.
        grant: String,
        /// For how long it holds.
        scope: AnswerScope,
        /// Whether what it let through runs outside the sandbox.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        outside: bool,
    },
    /// The model's plan changed.
    PlanUpdated {
        /// Why, in the model's words.
        explanation: Option<String>,
        /// The steps, in order.
        steps: Vec<PlanStep>,
    },
    /// Files were changed.
    FilesChanged {
        /// By whom.
        by: ChangeSource,
        /// Which, and how.
        changes: Vec<FileChange>,
    },
    /// The state of the workspace's files was recorded: before a call that can write, and after
    /// it when it changed something. Undo works from these.
    SnapshotTaken {
        /// The state's name in the store.
        snapshot: SnapshotId,
        /// After a call: the state since which the change is the call's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<SnapshotId>,
    },
    /// A response's token counts arrived.
    TokenCount {
        /// Of this response.
        response: TokenUsage,
        /// Of the session so far.
        session: TokenUsage,
        /// The model's window, where known.
        context_window: Option<u64>,
    },
    /// The conversation was summarised.
    Compacted {
        /// The items that stand for all before.
        replacement: Vec<ResponseItem>,
        /// Why it happened.
        cause: String,
        /// Tokens before, estimated.
        tokens_before: u64,
        /// Tokens after, estimated.
        tokens_after: u64,
    },
    /// The session went back, or forward again.
    Restored {
        /// To which turn.
        turn: TurnId,
        /// What was restored.
        what: RestoreWhat,
        /// Which way.
        direction: RestoreDirection,
        /// The files that changed.
        changes: Vec<FileChange>,
        /// The state of the files before, so that this can be taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<SnapshotId>,
        /// The state of the files after; `None` says that it is about to happen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<SnapshotId>,
    },
    /// The file was damaged and repaired; the hash chain is anchored anew here.
    Repaired {
        /// What was found.
        cause: String,
        /// Bytes set aside.
        bytes: u64,
    },
    /// A message that came while the turn ran joins it, before the next request.
    Steered {
        /// What the user gave.
        input: Vec<UserInput>,
    },
    /// The queue of messages changed.
    QueueChanged {
        /// The queue, first to run first.
        queue: Vec<Vec<UserInput>>,
    },
    /// A command runs that may outlive its call.
    ProcessStarted {
        /// Its id.
        process: ProcessId,
        /// What it is, shown.
        command: String,
    },
    /// Such a command ended.
    ProcessEnded {
        /// Its id.
        process: ProcessId,
        /// Its exit code; `None` when it was killed.
        exit_code: Option<i32>,
    },
    /// How well commands are confined here.
    SandboxLevel {
        /// The level.
        level: SandboxLevel,
        /// Why not the full one.
        reason: Option<String>,
    },
    /// A command tried to reach a host. One that was allowed and then refused was found at an
    /// address that is not.
    NetworkAttempt {
        /// Host and port.
        host: String,
        /// Whether it may; whether the host answered is not said.
        allowed: bool,
    },
    /// An MCP server's state changed.
    McpServerStatus {
        /// Its configured name.
        server: String,
        /// Its state.
        status: McpStatus,
        /// Why, when it failed.
        error: Option<String>,
    },
    /// A hook ran.
    HookRan {
        /// On which occasion.
        hook: String,
        /// The command.
        command: String,
        /// What it decided.
        outcome: String,
        /// How long, in milliseconds.
        duration_ms: u64,
    },
    /// A sub-agent started.
    AgentSpawned {
        /// Its session.
        agent: SessionId,
        /// Its role.
        role: String,
        /// Its task.
        task: String,
    },
    /// A sub-agent ended.
    AgentEnded {
        /// Its session.
        agent: SessionId,
        /// How.
        outcome: TurnOutcome,
        /// Its last message.
        result: Option<String>,
    },
    /// A limit was reached.
    LimitReached {
        /// Which.
        limit: LimitKind,
        /// Its value.
        value: u64,
    },
    /// Something odd that did not stop the work.
    Warning {
        /// What kind.
        kind: WarningKind,
        /// One line.
        message: String,
        /// What to do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// Something that stopped a request or the turn.
    Error {
        /// What kind.
        kind: ErrorKind,
        /// One line.
        message: String,
        /// What to do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// Whether the same again could work.
        retryable: bool,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The model was done.
    Completed,
    /// An error ended it.
    Failed {
        /// What kind.
        error: ErrorKind,
        /// One line.
        message: String,
    },
    /// It was stopped from outside.
    Interrupted {
        /// By what.
        cause: StopCause,
    },
    /// A refusal ended it.
    Denied {
        /// Of what, and why.
        reason: String,
    },
    /// A limit ended it.
    LimitReached {
        /// Which.
        limit: LimitKind,
    },
}

/// What stopped a turn from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The user.
    User,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
    /// The process died; said by the next one.
    Crash,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// It did what was asked.
    Completed,
    /// It tried and could not, or a command exited non-zero.
    Failed,
    /// Policy or a person refused it.
    Declined,
    /// It took too long and was killed.
    TimedOut,
    /// The turn was stopped meanwhile.
    Interrupted,
}

/// Which part of an item a delta belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// The answer.
    Text,
    /// Reasoning.
    Reasoning,
    /// Arguments or input of a call.
    Arguments,
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// A command's output, both streams in the order they came.
    Output,
    /// A tool's own progress.
    Progress,
}

/// Who changed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeSource {
    /// The patch tool.
    Patch,
    /// A command.
    Command,
}

/// One step of the model's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// What is to be done.
    pub step: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// An MCP server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpStatus {
    /// It starts.
    Starting,
    /// Its tools can be called.
    Ready,
    /// It cannot be used.
    Failed,
    /// It ended.
    Stopped,
}

/// A bound that can end a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Requests in a turn.
    Steps,
    /// Tokens.
    Tokens,
    /// Cost.
    Cost,
    /// Time.
    Time,
}

/// The kinds of warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// A setting was ignored or is unknown.
    Config,
    /// The model's server sent something odd.
    Stream,
    /// A request is tried again.
    Retry,
    /// A call was declined unasked.
    Declined,
    /// Commands are confined less than they could be.
    Sandbox,
    /// The session file was damaged.
    Session,
    /// The workspace cannot be recorded, so undo is off.
    Snapshot,
    /// An instruction file was left out or changed.
    Instructions,
    /// An answer did not follow its schema.
    Schema,
    /// An edit that was interrupted was finished or taken back.
    Files,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

/// The kinds of error, which also decide the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No key, or one the server refuses.
    Credentials,
    /// The server cannot be reached.
    Unreachable,
    /// The server refused the request.
    Refused,
    /// The server failed, too often.
    Server,
    /// Too many requests, or no quota left.
    RateLimit,
    /// The stream broke, too often.
    Stream,
    /// The conversation does not fit the model's window.
    ContextFull,
    /// The answer did not follow its schema.
    Schema,
    /// A tool ended the turn.
    Tool,
    /// The session file cannot be written.
    Session,
    /// A fault of ours.
    Internal,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

/// Token counts. All are counts of tokens; absent counts are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens sent, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the input that came from the cache.
    pub cached_input_tokens: u64,
    /// Tokens of the input that were written to the cache.
    pub cache_write_input_tokens: u64,
    /// Tokens received, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the output that were reasoning.
    pub reasoning_output_tokens: u64,
}

/// What a request shares with the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PrefixShare {
    /// Items shared.
    pub items: u64,
    /// Bytes of encoded items shared.
    pub bytes: u64,
}

impl EventMsg {
    /// Returns whether the event is written to the session file. The others are for display
    /// only, and what they show stands in a durable event that follows.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::ItemDelta { .. } | Self::ToolCallDelta { .. } => false,
            Self::SessionStarted { .. }
            | Self::TurnStarted { .. }
            | Self::Steered { .. }
            | Self::TurnEnded { .. }
            | Self::RequestStarted { .. }
            | Self::ItemCompleted { .. }
            | Self::ToolCallBegin { .. }
            | Self::ToolCallEnd { .. }
            | Self::AskOpened { .. }
            | Self::AskAnswered { .. }
            | Self::GrantApplied { .. }
            | Self::PlanUpdated { .. }
            | Self::FilesChanged { .. }
            | Self::SnapshotTaken { .. }
            | Self::TokenCount { .. }
            | Self::Compacted { .. }
            | Self::Restored { .. }
            | Self::Repaired { .. }
            | Self::QueueChanged { .. }
            | Self::ProcessStarted { .. }
            | Self::ProcessEnded { .. }
            | Self::SandboxLevel { .. }
            | Self::NetworkAttempt { .. }
            | Self::McpServerStatus { .. }
            | Self::HookRan { .. }
            | Self::AgentSpawned { .. }
            | Self::AgentEnded { .. }
            | Self::LimitReached { .. }
            | Self::Warning { .. }
            | Self::Error { .. } => true,
        }
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_input_tokens =
            self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.cache_write_input_tokens =
            self.cache_write_input_tokens.saturating_add(other.cache_write_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_output_tokens =
            self.reasoning_output_tokens.saturating_add(other.reasoning_output_tokens);
    }
}

impl From<Value> for TokenUsage {
    /// Reads a Responses `usage` object. Absurd numbers saturate; nothing fails.
    fn from(usage: Value) -> Self {
        let count = |path: &str| saturating_count(usage.pointer(path));
        Self {
            input_tokens: count("/input_tokens"),
            cached_input_tokens: count("/input_tokens_details/cached_tokens"),
            cache_write_input_tokens: count("/input_tokens_details/cache_write_tokens"),
            output_tokens: count("/output_tokens"),
            reasoning_output_tokens: count("/output_tokens_details/reasoning_tokens"),
        }
    }
}

/// The largest count we believe: sums of such stay exact in JSON readers with 53-bit numbers.
const TOKEN_COUNT_MAX: u64 = 1 << 40;

fn saturating_count(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    if let Some(count) = value.as_u64() {
        return count.min(TOKEN_COUNT_MAX);
    }
    match value.as_f64() {
        Some(count) if count >= 1.0 => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "bounded on both sides just before"
            )]
            let whole = count.min(TOKEN_COUNT_MAX as f64) as u64;
            whole
        }
        _ => 0,
    }
}
