//! `ResponseItem`: one entry of a conversation, in the shape of the Responses API.
//!
//! Every dialect speaks these items. What we do not know survives: unknown item types are
//! `Other`, unknown fields of known items stay in `extra`, unknown content parts are
//! `ContentItem::Other`. Encrypted reasoning is text that nobody here looks into.
//! Shapes: the Responses API reference, "input items" and "output items".

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::protocol::{CallId, ToolName};

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseItem {
    /// Text of a user, the assistant, or the developer.
    Message(Message),
    /// What the model thought; its encrypted part goes back verbatim.
    Reasoning(Reasoning),
    /// A call whose arguments are a JSON text.
    FunctionCall(FunctionCall),
    /// A call whose input is free text.
    CustomToolCall(CustomToolCall),
    /// A call of the built-in `local_shell` tool.
    LocalShellCall(LocalShellCall),
    /// A search the server did by itself; never executed here.
    WebSearchCall(WebSearchCall),
    /// The one answer to a `FunctionCall` or `LocalShellCall`.
    FunctionCallOutput(ToolCallOutput),
    /// The one answer to a `CustomToolCall`.
    CustomToolCallOutput(ToolCallOutput),
    /// An item of a type this version does not know, kept as it came.
    Other(Value),
}

/// Who speaks. Unknown roles are kept as they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, or the environment on their behalf.
    User,
    /// The model.
    Assistant,
    /// Instructions that outrank the user's.
    Developer,
    /// The older name of `developer`.
    System,
    /// A role this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// A message and its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The server's id of the item, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// The parts, in order. A plain string on the wire is read as one part.
    #[serde(deserialize_with = "string_or_parts")]
    pub content: Vec<ContentItem>,
    /// Fields this version does not know, such as `status`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One part of a message or of a tool's output.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentItem {
    /// Text that goes to the model.
    InputText(String),
    /// Text that came from the model, with annotations and the like in the second field.
    OutputText(String, Map<String, Value>),
    /// An image as a URL, mostly a `data:` URL, with `detail` and the like in the second field.
    InputImage(String, Map<String, Value>),
    /// A part of a type this version does not know, kept as it came.
    Other(Value),
}

/// A reasoning item. `encrypted_content` is opaque and goes back unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reasoning {
    /// The server's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Parts meant for people: `{"type":"summary_text","text":…}`.
    #[serde(default)]
    pub summary: Vec<Value>,
    /// Raw reasoning text, where a server sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Value>>,
    /// The opaque state that makes reasoning survive `store: false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_content: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call with JSON arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The server's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Ties call and output together; empty when the server forgot it.
    #[serde(default)]
    pub call_id: CallId,
    /// The tool's name.
    pub name: ToolName,
    /// The arguments as the JSON text the model wrote; may not parse.
    #[serde(default)]
    pub arguments: String,
    /// Fields this version does not know, such as `namespace` and `status`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call with free text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomToolCall {
    /// The server's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Ties call and output together; empty when the server forgot it.
    #[serde(default)]
    pub call_id: CallId,
    /// The tool's name.
    pub name: ToolName,
    /// The text, exactly as the model wrote it.
    #[serde(default)]
    pub input: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call of the built-in `local_shell` tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalShellCall {
    /// The server's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Ties call and output together; older servers only send `id`.
    #[serde(default)]
    pub call_id: CallId,
    /// What to run.
    pub action: LocalShellAction,
    /// Fields this version does not know, such as `status`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The `exec` action of a `local_shell_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalShellAction {
    /// The argument vector.
    #[serde(default)]
    pub command: Vec<String>,
    /// Where to run it; the session's directory when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// How long it may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fields this version does not know, such as `type`, `env` and `user`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A search that the server did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebSearchCall {
    /// The server's id of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What was searched or opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Value>,
    /// Fields this version does not know, such as `status`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallOutput {
    /// The call this answers.
    pub call_id: CallId,
    /// What the model reads.
    pub output: OutputBody,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A tool's output on the wire: plain text, or parts when it holds an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OutputBody {
    /// Plain text.
    Text(String),
    /// Text and images.
    Parts(Vec<ContentItem>),
}

impl ResponseItem {
    /// Returns a message of the user with one text part.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::message(Role::User, vec![ContentItem::InputText(text.into())])
    }

    /// Returns a message without id.
    pub fn message(role: Role, content: Vec<ContentItem>) -> Self {
        Self::Message(Message { id: None, role, content, extra: Map::new() })
    }

    /// Returns an assistant message with one text part; for text that came only in deltas.
    pub fn assistant_text(id: Option<String>, text: impl Into<String>) -> Self {
        let mut extra = Map::new();
        extra.insert("annotations".to_owned(), Value::Array(Vec::new()));
        let content = vec![ContentItem::OutputText(text.into(), extra)];
        let mut outer = Map::new();
        outer.insert("status".to_owned(), Value::from("completed"));
        Self::Message(Message { id, role: Role::Assistant, content, extra: outer })
    }

    /// Returns the call's id for the three kinds that are calls.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::FunctionCall(call) => Some(&call.call_id),
            Self::CustomToolCall(call) => Some(&call.call_id),
            Self::LocalShellCall(call) => Some(&call.call_id),
            Self::Message(_)
            | Self::Reasoning(_)
            | Self::WebSearchCall(_)
            | Self::FunctionCallOutput(_)
            | Self::CustomToolCallOutput(_)
            | Self::Other(_) => None,
        }
    }

    /// Replaces the call's id; does nothing to an item that is no call.
    pub fn set_call_id(&mut self, id: CallId) {
        match self {
            Self::FunctionCall(call) => call.call_id = id,
            Self::CustomToolCall(call) => call.call_id = id,
            Self::LocalShellCall(call) => call.call_id = id,
            Self::Message(_)
            | Self::Reasoning(_)
            | Self::WebSearchCall(_)
            | Self::FunctionCallOutput(_)
            | Self::CustomToolCallOutput(_)
            | Self::Other(_) => {}
        }
    }

    /// Returns the id of the call this item answers, for the two kinds of output.
    pub fn answers(&self) -> Option<&CallId> {
        match self {
            Self::FunctionCallOutput(output) | Self::CustomToolCallOutput(output) => {
                Some(&output.call_id)
            }
            Self::Message(_)
            | Self::Reasoning(_)
            | Self::FunctionCall(_)
            | Self::CustomToolCall(_)
            | Self::LocalShellCall(_)
            | Self::WebSearchCall(_)
            | Self::Other(_) => None,
        }
    }

    /// Returns the server's id of the item, where it has one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Message(item) => item.id.as_deref(),
            Self::Reasoning(item) => item.id.as_deref(),
            Self::FunctionCall(item) => item.id.as_deref(),
            Self::CustomToolCall(item) => item.id.as_deref(),
            Self::LocalShellCall(item) => item.id.as_deref(),
            Self::WebSearchCall(item) => item.id.as_deref(),
            Self::FunctionCallOutput(_) | Self::CustomToolCallOutput(_) => None,
            Self::Other(value) => value.get("id").and_then(Value::as_str),
        }
    }

    /// Returns the text of an assistant message, its parts joined; `None` for other items.
    pub fn assistant_message(&self) -> Option<String> {
        match self {
            Self::Message(message) if message.role == Role::Assistant => Some(message.text()),
            _ => None,
        }
    }
}

impl Message {
    /// Returns the text of all text parts, joined.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentItem::text).collect()
    }
}

impl ContentItem {
    /// Returns the text of a text part.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::InputText(text) | Self::OutputText(text, _) => Some(text),
            Self::InputImage(..) => None,
            // A refusal is the model's word to the user, whatever the server calls the part.
            Self::Other(value) => value.get("refusal").and_then(Value::as_str),
        }
    }
}

impl Reasoning {
    /// Returns the text meant for people: the summary's parts, a blank line between them.
    pub fn summary_text(&self) -> String {
        let parts = self.summary.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

impl OutputBody {
    /// Returns the text of all text parts, joined.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts.iter().filter_map(ContentItem::text).collect(),
        }
    }
}

fn string_or_parts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<ContentItem>, D::Error> {
    match Value::deserialize(input)? {
        Value::String(text) => Ok(vec![ContentItem::InputText(text)]),
        Value::Null => Ok(Vec::new()),
        parts => serde_json::from_value(parts).map_err(D::Error::custom),
    }
}

/// The serde form of the known types; `ResponseItem` adds `Other` around it.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Known<M, R, F, C, L, W, O> {
    Message(M),
    Reasoning(R),
    FunctionCall(F),
    CustomToolCall(C),
    LocalShellCall(L),
    WebSearchCall(W),
    FunctionCallOutput(O),
    CustomToolCallOutput(O),
}

type KnownOwned = Known<
    Message,
    Reasoning,
    FunctionCall,
    CustomToolCall,
    LocalShellCall,
    WebSearchCall,
    ToolCallOutput,
>;

impl Serialize for ResponseItem {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let known = match self {
            Self::Message(item) => Known::Message(item),
            Self::Reasoning(item) => Known::Reasoning(item),
            Self::FunctionCall(item) => Known::FunctionCall(item),
            Self::CustomToolCall(item) => Known::CustomToolCall(item),
            Self::LocalShellCall(item) => Known::LocalShellCall(item),
            Self::WebSearchCall(item) => Known::WebSearchCall(item),
            Self::FunctionCallOutput(item) => Known::FunctionCallOutput(item),
            Self::CustomToolCallOutput(item) => Known::CustomToolCallOutput(item),
            Self::Other(value) => return value.serialize(out),
        };
        known.serialize(out)
    }
}

impl<'de> Deserialize<'de> for ResponseItem {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(input)?;
        if !value.is_object() {
            return Err(D::Error::custom("an item is a JSON object"));
        }
        // A known type in an unknown shape is kept as well: better passed over than lost.
        Ok(match KnownOwned::deserialize(&value) {
            Ok(Known::Message(item)) => Self::Message(item),
            Ok(Known::Reasoning(item)) => Self::Reasoning(item),
            Ok(Known::FunctionCall(item)) => Self::FunctionCall(item),
            Ok(Known::CustomToolCall(item)) => Self::CustomToolCall(item),
            Ok(Known::LocalShellCall(item)) => Self::LocalShellCall(item),
            Ok(Known::WebSearchCall(item)) => Self::WebSearchCall(item),
            Ok(Known::FunctionCallOutput(item)) => Self::FunctionCallOutput(item),
            Ok(Known::CustomToolCallOutput(item)) => Self::CustomToolCallOutput(item),
            Err(_) => Self::Other(value),
        })
    }
}

impl Serialize for ContentItem {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Part<'a> {
            r#type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            image_url: Option<&'a str>,
            #[serde(flatten)]
            extra: Option<&'a Map<String, Value>>,
        }
        let part = match self {
            Self::InputText(text) => {
                Part { r#type: "input_text", text: Some(text), image_url: None, extra: None }
            }
            Self::OutputText(text, extra) => Part {
                r#type: "output_text",
                text: Some(text),
                image_url: None,
                extra: Some(extra),
            },
            Self::InputImage(url, extra) => {
                Part { r#type: "input_image", text: None, image_url: Some(url), extra: Some(extra) }
            }
            Self::Other(value) => return value.serialize(out),
        };
        part.serialize(out)
    }
}

impl<'de> Deserialize<'de> for ContentItem {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(input)?;
        let (kind, key) = match value.get("type").and_then(Value::as_str) {
            Some("input_text") => ("input_text", "text"),
            Some("output_text") => ("output_text", "text"),
            Some("input_image") => ("input_image", "image_url"),
            _ => return Ok(Self::Other(value)),
        };
        let Value::Object(mut fields) = value else {
            return Err(D::Error::custom("a content part is a JSON object"));
        };
        let only_known = fields.len() == 2;
        let body = match fields.shift_remove(key) {
            Some(Value::String(body)) => body,
            Some(other) => {
                fields.insert(key.to_owned(), other);
                return Ok(Self::Other(Value::Object(fields)));
            }
            None => return Ok(Self::Other(Value::Object(fields))),
        };
        if kind == "input_text" && !only_known {
            // `InputText` has no room for more fields, so such a part stays as it came.
            fields.insert(key.to_owned(), Value::String(body));
            return Ok(Self::Other(Value::Object(fields)));
        }
        fields.shift_remove("type");
        Ok(match kind {
            "input_text" => Self::InputText(body),
            "output_text" => Self::OutputText(body, fields),
            _ => Self::InputImage(body, fields),
        })
    }
}
