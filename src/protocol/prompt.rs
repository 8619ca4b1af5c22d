//! `Prompt`: all that one request says to a model, whatever the dialect.
//!
//! `prompt/build.rs` makes it, a driver's `encode.rs` turns it into a body. Items are shared
//! and carry their encoded bytes, so that a request costs what is new and the prefix of a
//! conversation is the same bytes each time.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{ModelName, ResponseItem, ToolName, ToolSpec};

/// All that one request says.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Which model, and how it should answer.
    pub settings: ModelSettings,
    /// The base instructions; the same bytes for the whole session.
    pub instructions: Arc<str>,
    /// The conversation so far, oldest first.
    pub input: Vec<Arc<EncodedItem>>,
    /// The tools on offer; the same list for the whole session.
    pub tools: Arc<[ToolSpec]>,
    /// Whether and what the model must call.
    pub tool_choice: ToolChoice,
    /// Whether it may call several tools at once.
    pub parallel_tool_calls: bool,
    /// The JSON schema the final answer must follow.
    pub output_schema: Option<Value>,
}

/// Which model, and how it should answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// The model's name as the server knows it.
    pub model: ModelName,
    /// Reasoning effort; `None` leaves it to the server.
    pub effort: Option<String>,
    /// Reasoning summary: `auto`, `concise`, `detailed`; `None` asks for none.
    pub summary: Option<String>,
    /// Verbosity: `low`, `medium`, `high`; `None` leaves it to the server.
    pub verbosity: Option<String>,
    /// Service tier; `None` leaves it to the server.
    pub tier: Option<String>,
    /// Names the prompt cache: the session's id.
    pub cache_key: String,
}

/// Whether and what the model must call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must call some tool.
    Required,
    /// It must call none.
    None,
    /// It must call this one.
    Specific(ToolName),
}

/// An item with its bytes on the wire, encoded once.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedItem {
    /// The item.
    pub item: ResponseItem,
    /// Its JSON.
    pub json: Box<str>,
}

impl EncodedItem {
    /// Encodes an item.
    pub fn new(item: ResponseItem) -> Self {
        // Serialising these types cannot fail: all keys are text. Should it ever, the item
        // goes out empty rather than taking the session with it.
        let json = serde_json::to_string(&item).unwrap_or_else(|_| "{}".to_owned());
        Self { item, json: json.into_boxed_str() }
    }
}

impl From<ResponseItem> for EncodedItem {
    fn from(item: ResponseItem) -> Self {
        Self::new(item)
    }
}
