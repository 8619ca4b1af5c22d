//! The body of a request: the prompt in the words of the Responses API.
//!
//! Pure, and stable byte for byte: the same prompt gives the same bytes, and a longer
//! conversation gives the same bytes up to the end of the shorter one, so that the server's
//! prompt cache holds. Items bring their bytes with them. Called by `responses/mod.rs`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::protocol::{Prompt, ResponseItem, ToolChoice, ToolSpec};

/// Names the schema of a structured answer.
const OUTPUT_SCHEMA_NAME: &str = "gimlet_output";

/// Encodes a prompt as a JSON body.
pub(crate) fn encode(prompt: &Prompt) -> Vec<u8> {
    let settings = &prompt.settings;
    let reasoning = reasoning_of(prompt);
    let input_bytes: usize = prompt.input.iter().map(|item| item.json.len() + 1).sum();
    let mut body = Body::with_capacity(input_bytes + prompt.instructions.len() + 16_384);
    body.field("model", &settings.model);
    if !prompt.instructions.is_empty() {
        body.field("instructions", prompt.instructions.as_ref());
    }
    let input = prompt.input.iter().filter(|item| !is_lost_reasoning(&item.item));
    body.array("input", input.map(|item| item.json.as_bytes()));
    if !prompt.tools.is_empty() {
        let tools: Vec<Value> = prompt.tools.iter().map(encode_tool).collect();
        body.field("tools", &tools);
        body.field("tool_choice", &encode_tool_choice(prompt));
        body.field("parallel_tool_calls", &prompt.parallel_tool_calls);
    }
    if let Some(reasoning) = &reasoning {
        body.field("reasoning", reasoning);
    }
    if let Some(text) = text_of(prompt) {
        body.field("text", &text);
    }
    body.field("store", &false);
    body.field("stream", &true);
    if reasoning.is_some() {
        body.field("include", &["reasoning.encrypted_content"]);
    }
    body.field("prompt_cache_key", &settings.cache_key);
    if let Some(tier) = &settings.tier {
        body.field("service_tier", tier);
    }
    body.end()
}

/// A JSON object under construction.
struct Body(Vec<u8>);

impl Body {
    fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    fn key(&mut self, name: &str) {
        self.0.extend_from_slice(if self.0.is_empty() { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.key(name);
        let start = self.0.len();
        // Writing to memory cannot fail, and none of our values has a key that is not text.
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(start);
            self.0.extend_from_slice(b"null");
        }
    }

    fn array<'a>(&mut self, name: &str, elements: impl Iterator<Item = &'a [u8]>) {
        self.key(name);
        self.0.push(b'[');
        for (place, element) in elements.enumerate() {
            if place > 0 {
                self.0.push(b',');
            }
            self.0.extend_from_slice(element);
        }
        self.0.push(b']');
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// Returns whether an item is reasoning that came as a name alone. The server would look the
/// name up, and with `store: false` it has kept nothing.
fn is_lost_reasoning(item: &ResponseItem) -> bool {
    let ResponseItem::Reasoning(reasoning) = item else { return false };
    let is_encrypted = reasoning.encrypted_content.as_ref().is_some_and(|text| !text.is_empty());
    // Servers of open models send the thoughts themselves and take them back.
    let is_open = reasoning.content.as_ref().is_some_and(|parts| !parts.is_empty());
    !is_encrypted && !is_open
}

fn encode_tool(tool: &ToolSpec) -> Value {
    match tool {
        ToolSpec::Function { name, description, parameters, strict } => json!({
            "type": "function",
            "name": name,
            "description": description,
            "strict": strict,
            "parameters": parameters,
        }),
        ToolSpec::Freeform { name, description, grammar } => json!({
            "type": "custom",
            "name": name,
            "description": description,
            "format": {
                "type": "grammar",
                "syntax": grammar.syntax,
                "definition": grammar.definition,
            },
        }),
        ToolSpec::LocalShell => json!({"type": "local_shell"}),
        ToolSpec::WebSearch => json!({"type": "web_search"}),
    }
}

fn encode_tool_choice(prompt: &Prompt) -> Value {
    match &prompt.tool_choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Specific(name) => {
            let is_freeform = prompt
                .tools
                .iter()
                .any(|tool| matches!(tool, ToolSpec::Freeform { .. }) && tool.name() == *name);
            json!({"type": if is_freeform { "custom" } else { "function" }, "name": name})
        }
    }
}

/// Returns the reasoning asked for; a model that was not asked may refuse the very field.
fn reasoning_of(prompt: &Prompt) -> Option<Value> {
    let mut fields = Map::new();
    if let Some(effort) = &prompt.settings.effort {
        fields.insert("effort".to_owned(), json!(effort));
    }
    if let Some(summary) = &prompt.settings.summary {
        fields.insert("summary".to_owned(), json!(summary));
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn text_of(prompt: &Prompt) -> Option<Value> {
    let mut fields = Map::new();
    if let Some(verbosity) = &prompt.settings.verbosity {
        fields.insert("verbosity".to_owned(), json!(verbosity));
    }
    if let Some(schema) = &prompt.output_schema {
        let format = json!({
            "type": "json_schema",
            "name": OUTPUT_SCHEMA_NAME,
            "strict": true,
            "schema": schema,
        });
        fields.insert("format".to_owned(), format);
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}
