//! Tools as data: what a model is told, what it called, what it got back.
//!
//! Knows nothing of how a tool runs (`tools/`) or of who may call it (`policy/`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{CallId, ContentItem, OutputBody, ToolName};

/// A tool as offered to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolSpec {
    /// Arguments are a JSON object after a JSON schema.
    Function {
        /// The name the model calls.
        name: ToolName,
        /// One short paragraph for the model.
        description: String,
        /// A JSON schema of type object.
        parameters: Value,
        /// Whether the server should enforce the schema while sampling.
        strict: bool,
    },
    /// Input is free text after a grammar.
    Freeform {
        /// The name the model calls.
        name: ToolName,
        /// One short paragraph for the model.
        description: String,
        /// The grammar of the text.
        grammar: Grammar,
    },
    /// The server's own shell tool, executed here.
    LocalShell,
    /// The server's own search, executed there.
    WebSearch,
}

/// A grammar for free text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grammar {
    /// `lark` or `regex`.
    pub syntax: String,
    /// The grammar itself.
    pub definition: String,
}

/// One call, as routed: who is called and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties call and output together; never empty.
    pub call_id: CallId,
    /// The tool's name.
    pub name: ToolName,
    /// What the model sent.
    pub payload: ToolPayload,
}

/// What a call carries, by the item it came in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolPayload {
    /// JSON arguments as text; may not parse.
    Function {
        /// The text the model wrote.
        arguments: String,
    },
    /// Free text.
    Custom {
        /// The text the model wrote.
        input: String,
        /// Where relative paths start, when not the session's directory: a patch that was
        /// found inside a shell call brings the call's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workdir: Option<String>,
    },
    /// The action of a `local_shell_call`.
    LocalShell {
        /// The argument vector.
        command: Vec<String>,
        /// Where to run it.
        workdir: Option<String>,
        /// How long it may take, in milliseconds.
        timeout_ms: Option<u64>,
    },
}

/// What the model gets back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text and images, already bounded.
    pub content: Vec<ContentItem>,
    /// Whether the tool did what was asked.
    pub success: bool,
    /// The exit code, for tools that ran a command to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// A result for programs (MCP `structuredContent`), not for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

/// The static half of a tool's safety: what the tool is, whatever it is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSafety {
    /// The worst it can do.
    pub side_effects: SideEffects,
    /// Whether a failed call may be tried again unasked.
    pub idempotent: bool,
    /// What it cannot work without.
    pub requires: Vec<Capability>,
}

/// The worst a tool can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// Nothing leaves the session.
    None,
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Acts on the world beyond the workspace.
    External,
}

/// Something a tool cannot work without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Runs commands.
    Commands,
    /// Reads or writes files.
    Files,
    /// Reaches the network.
    Network,
    /// Can ask a person.
    User,
    /// The model can look at images.
    Images,
}

/// Whether a tool can be called now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Yes,
    /// It cannot.
    No {
        /// Why, in words for the model.
        reason: String,
    },
}

impl ToolSpec {
    /// Returns the name the model calls.
    pub fn name(&self) -> ToolName {
        match self {
            Self::Function { name, .. } | Self::Freeform { name, .. } => name.clone(),
            Self::LocalShell => ToolName::from("local_shell"),
            Self::WebSearch => ToolName::from("web_search"),
        }
    }
}

impl ToolOutput {
    /// Returns a success with one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentItem::InputText(text.into())],
            success: true,
            exit_code: None,
            structured: None,
        }
    }

    /// Returns a failure with one text part.
    pub fn failure(text: impl Into<String>) -> Self {
        Self { success: false, ..Self::text(text) }
    }

    /// Returns the body of the item that answers the call.
    pub fn body(&self) -> OutputBody {
        match self.content.as_slice() {
            [] => OutputBody::Text(String::new()),
            [ContentItem::InputText(text)] => OutputBody::Text(text.clone()),
            parts => OutputBody::Parts(parts.to_vec()),
        }
    }

    /// Returns the text of all text parts, joined.
    pub fn joined_text(&self) -> String {
        self.content.iter().filter_map(ContentItem::text).collect()
    }
}

impl ToolSafety {
    /// Returns the safety of a tool that touches nothing.
    pub fn harmless() -> Self {
        Self { side_effects: SideEffects::None, idempotent: true, requires: Vec::new() }
    }

    /// Returns the safety of a tool that reads files.
    pub fn reads_files() -> Self {
        Self {
            side_effects: SideEffects::Read,
            idempotent: true,
            requires: vec![Capability::Files],
        }
    }
}
