//! `Op`: what goes into a session, and the questions that come out of it.
//!
//! Front ends send `Op`s through `agent::Handle` and read `Event`s; nothing else crosses.
//! At most 14 variants (`tests/it/tidy.rs` counts).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{
    ApprovalPolicy, AskId, Effect, HunkId, ModelName, ProcessId, Reach, SandboxMode, StopCause,
    ToolCall, TurnId,
};

/// What a front end asks of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Op {
    /// Starts a turn, or queues one.
    UserTurn {
        /// What the user gives the model.
        input: Vec<UserInput>,
        /// Settings for this turn and those after it.
        #[serde(default)]
        overrides: SettingsPatch,
        /// Whether to steer the running turn or to wait for its end.
        #[serde(default)]
        when: When,
    },
    /// Changes or withdraws a queued message.
    EditQueue {
        /// Which one, from 0.
        index: usize,
        /// What becomes of it.
        edit: QueueEdit,
    },
    /// Answers a question.
    Answer {
        /// Which question.
        ask: AskId,
        /// The answer.
        answer: Answer,
    },
    /// Stops the running turn. Open calls are answered "interrupted".
    Interrupt {
        /// Who or what stops it.
        cause: StopCause,
    },
    /// Summarises the conversation now.
    Compact {
        /// What to keep above all.
        focus: Option<String>,
    },
    /// Goes back to a turn, or forward again.
    Restore {
        /// The turn.
        turn: TurnId,
        /// What is restored.
        what: RestoreWhat,
        /// Back or forward.
        direction: RestoreDirection,
    },
    /// Changes settings for the turns to come.
    SetSettings {
        /// The changes.
        settings: SettingsPatch,
    },
    /// Stops a running command.
    StopProcess {
        /// Which one.
        process: ProcessId,
    },
    /// Keeps a text in view of the model through compaction.
    Pin {
        /// The text.
        text: String,
    },
    /// Ends the session: stops everything, syncs the log.
    Shutdown,
}

/// One part of what the user gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserInput {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, already read and encoded by the front end.
    Image {
        /// Where it came from, for the screen.
        path: PathBuf,
        /// A `data:` URL.
        url: String,
    },
}

/// When a message takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At the running turn's next step.
    #[default]
    Now,
    /// After the running turn.
    Queued,
}

/// Settings that may change between turns. `None` leaves one as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsPatch {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// Reasoning effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// When the user is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// What commands can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// The JSON schema of the final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What becomes of a queued message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueEdit {
    /// It is replaced.
    Replace(Vec<UserInput>),
    /// It is withdrawn.
    Remove,
}

/// What a restore brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreWhat {
    /// Only the conversation.
    Conversation,
    /// Only the files.
    Files,
    /// Both.
    Both,
}

/// Which way a restore goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreDirection {
    /// To before the turn.
    Undo,
    /// To after it, when it was undone.
    Redo,
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// May this happen?
    Approval {
        /// What would happen.
        effect: Effect,
        /// It in one text, whole, control characters shown.
        shown: String,
        /// Which agent asks; `main` for the session itself.
        asked_by: String,
        /// The rule that asks, where one does.
        rule: Option<String>,
        /// Why it asks.
        reason: String,
        /// What the call can reach once it is allowed.
        #[serde(default)]
        reach: Box<Reach>,
        /// What an answer that holds for longer than once would cover, in one text, control
        /// characters shown; empty where none can.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        remembers: String,
        /// The parts of a patch that can be taken one by one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hunks: Vec<Hunk>,
        /// For how long an approval can hold.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<AnswerScope>,
    },
    /// A question of the model's.
    Question {
        /// The question.
        question: String,
        /// Answers to choose from; empty for free text.
        options: Vec<String>,
    },
    /// A form of an MCP server's.
    Elicitation {
        /// Which server.
        server: String,
        /// What it says.
        message: String,
        /// The JSON schema of the form.
        schema: Value,
    },
}

/// One part of a patch that can be taken or left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// What the answer calls it.
    pub id: HunkId,
    /// The file as the patch names it.
    pub path: PathBuf,
    /// Its lines as the patch has them, with the line that names the file.
    pub text: String,
}

/// The answer to an `Ask`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// To `Ask::Approval`.
    Approval {
        /// Yes, no, or stop.
        decision: ApprovalDecision,
        /// For how long.
        scope: AnswerScope,
        /// The hunks taken, when only some were.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hunks: Option<Vec<HunkId>>,
        /// The call as the user changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<ToolCall>,
        /// A word to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// To `Ask::Question`.
    Text {
        /// The text.
        text: String,
    },
    /// To `Ask::Elicitation`.
    Form {
        /// The filled form.
        values: Value,
    },
    /// Nobody is there to answer, or the user would not.
    Declined {
        /// Why.
        reason: String,
    },
}

/// Yes, no, or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// It may happen.
    Allow,
    /// It may not; the turn goes on.
    Deny,
    /// It may not; the turn ends.
    Abort,
}

/// For how long an approval holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerScope {
    /// For this call.
    #[default]
    Once,
    /// For this session.
    Session,
    /// In this project.
    Project,
    /// Everywhere.
    Always,
}
