//! Puts a request together from parts that are already there.
//!
//! Pure: the same parts give the same bytes. The parts that open a session (instructions,
//! instruction files, environment) are made once and never again; a request then only adds
//! what is new. Called by `agent/session.rs` (opening) and `agent/turn.rs` (each request).

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

use crate::prompt::{Environment, InstructionFiles};
use crate::protocol::{
    ContentItem, EncodedItem, ModelSettings, Prompt, ResponseItem, Role, ToolChoice, ToolSpec,
};

/// The base instructions, for any model.
const BASE_INSTRUCTIONS: &str = include_str!("../../prompts/base.md");

/// The parts of a request that are not conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptContext {
    /// The base instructions; the same for the whole session.
    pub(crate) instructions: Arc<str>,
    /// The tools on offer; the same for the whole session.
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Which model, and how it should answer.
    pub(crate) settings: ModelSettings,
    /// Whether the model may call several tools at once.
    pub(crate) parallel_tool_calls: bool,
    /// The JSON schema the final answer must follow.
    pub(crate) output_schema: Option<Value>,
}

/// Returns the prompt of one request.
pub(crate) fn build(context: &PromptContext, input: Vec<Arc<EncodedItem>>) -> Prompt {
    Prompt {
        settings: context.settings.clone(),
        instructions: Arc::clone(&context.instructions),
        input,
        tools: Arc::clone(&context.tools),
        tool_choice: ToolChoice::Auto,
        // A server may refuse the flag when there is nothing to call.
        parallel_tool_calls: context.parallel_tool_calls && !context.tools.is_empty(),
        output_schema: context.output_schema.clone(),
    }
}

/// Returns the base instructions: ours, or those of the user's own file.
pub(crate) fn build_instructions(own: Option<&str>) -> Arc<str> {
    Arc::from(own.unwrap_or(BASE_INSTRUCTIONS).trim_end())
}

/// Returns the items that open a session: instruction files, the user's developer text, the
/// environment.
pub(crate) fn build_opening(
    files: &InstructionFiles,
    developer: Option<&str>,
    environment: &Environment,
) -> Vec<ResponseItem> {
    let mut items = Vec::new();
    if !files.docs.is_empty() {
        items.push(ResponseItem::user_text(render_docs(files)));
    }
    if let Some(text) = developer.map(str::trim).filter(|text| !text.is_empty()) {
        let content = vec![ContentItem::InputText(text.to_owned())];
        items.push(ResponseItem::message(Role::Developer, content));
    }
    items.push(ResponseItem::user_text(environment.render()));
    items
}

fn render_docs(files: &InstructionFiles) -> String {
    let mut text = String::from("# Instructions from AGENTS.md\n");
    for doc in &files.docs {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {}\n\n{}\n", doc.path.display(), doc.text);
    }
    text
}
