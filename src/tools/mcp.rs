//! One value per tool of an MCP server: to the rest of the program a tool like any other.
//!
//! What the server says of its tool is passed on as its claim and never trusted alone. Knows
//! no session and no policy. Made once the servers of a session run.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::mcp::{McpClient, McpError, McpResult, RemoteTool, build_description, build_tool_names};
use crate::protocol::{
    ContentItem, Effect, SideEffects, ToolCall, ToolName, ToolOutput, ToolSafety, ToolSpec,
};
use crate::tools::schema::parse_arguments;
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Bytes of a description; it is sent with every request.
const DESCRIPTION_BYTES_MAX: usize = 2048;

/// A tool of an MCP server.
#[derive(Debug)]
pub(crate) struct McpTool {
    name: ToolName,
    client: Arc<McpClient>,
    remote: RemoteTool,
}

/// Returns a tool for each that the servers offer; their names never meet.
pub(crate) fn build_mcp_tools(clients: &[Arc<McpClient>]) -> Vec<Arc<dyn ToolHandler>> {
    let remotes: Vec<(&Arc<McpClient>, &RemoteTool)> = clients
        .iter()
        .flat_map(|client| client.tools().iter().map(move |remote| (client, remote)))
        .collect();
    let pairs: Vec<(&str, &str)> =
        remotes.iter().map(|(client, remote)| (client.name(), remote.name.as_str())).collect();
    let mut tools: Vec<Arc<dyn ToolHandler>> = Vec::new();
    for ((client, remote), name) in remotes.into_iter().zip(build_tool_names(&pairs)) {
        // A server that lists a tool twice offers it once.
        let Some(name) = name else { continue };
        let (client, remote) = (Arc::clone(client), remote.clone());
        tools.push(Arc::new(McpTool { name: ToolName(name), client, remote }));
    }
    tools
}

impl ToolHandler for McpTool {
    fn spec(&self) -> ToolSpec {
        let (server, text) = (self.client.name(), &self.remote.description);
        ToolSpec::Function {
            name: self.name.clone(),
            description: build_description(server, text, DESCRIPTION_BYTES_MAX),
            parameters: self.remote.schema.clone(),
            strict: false,
        }
    }

    fn safety(&self) -> ToolSafety {
        // Whatever it claims, it runs outside our sandbox.
        ToolSafety {
            side_effects: SideEffects::External,
            idempotent: self.remote.hints.idempotent || self.remote.hints.read_only,
            requires: Vec::new(),
        }
    }

    fn effect(&self, call: &ToolCall, _cwd: &Path) -> Result<Effect, ToolError> {
        let arguments: Map<String, Value> = parse_arguments(call)?;
        Ok(Effect::Remote {
            server: self.client.name().to_owned(),
            tool: self.remote.name.clone(),
            arguments: Value::Object(arguments),
            hints: self.remote.hints,
        })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = parse_arguments(call)?;
            // Dropping the call tells the server to stop.
            let result = tokio::select! {
                result = self.client.call(&self.remote.name, arguments) => result,
                () = cx.cancel.cancelled() => return Err(ToolError::Interrupted),
            };
            match result {
                Ok(result) => Ok(output(result)),
                Err(McpError::Timeout { after_ms, .. }) => {
                    Err(ToolError::Timeout { after_ms, output: String::new() })
                }
                Err(error) => Err(ToolError::Failed(error.to_string())),
            }
        })
    }
}

fn output(result: McpResult) -> ToolOutput {
    let mut content = result.content;
    if content.is_empty() {
        // Some servers answer for programs alone; the model still needs an answer.
        let text =
            result.structured.as_ref().map_or_else(|| "(no output)".to_owned(), Value::to_string);
        content.push(ContentItem::InputText(text));
    }
    let success = !result.is_error;
    ToolOutput { content, success, exit_code: None, structured: result.structured }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::tests::{server, start};
    use crate::tools::testing::{call, run};

    #[tokio::test]
    async fn remote_tools_are_ordinary_tools() {
        let client = Arc::new(start(&server(&["normal"])).await.unwrap());
        let tools = build_mcp_tools(&[client]);
        let ToolSpec::Function { name, description, .. } = tools[0].spec() else { panic!() };
        assert_eq!(name.as_str(), "mcp__srv__echo");
        assert_eq!(description, "[MCP server srv] Echoes text");

        let effect = tools[1].effect(&call("x", r#"{"text":"GIVEN"}"#), Path::new("/")).unwrap();
        let Effect::Remote { server, tool, arguments, hints } = effect else { panic!() };
        assert_eq!((server.as_str(), tool.as_str()), ("srv", "env"));
        assert_eq!(arguments, json!({"text":"GIVEN"}));
        assert!(hints.read_only);

        let output = run(&*tools[2], &call("x", ""), Path::new("/")).await.unwrap();
        assert_eq!((output.success, output.joined_text().as_str()), (false, "it broke"));
        let error = run(&*tools[2], &call("x", "[1]"), Path::new("/")).await.unwrap_err();
        assert_eq!(error.code(), "invalid_arguments");
    }

    #[test]
    fn an_answer_for_programs_alone_is_told_to_the_model() {
        let cases = [
            (vec![ContentItem::InputText("t".into())], Some(json!({"a":1})), "t"),
            (vec![], Some(json!({"a":1})), "{\"a\":1}"),
            (vec![], None, "(no output)"),
        ];
        for (content, structured, text) in cases {
            let result = McpResult { content, structured: structured.clone(), is_error: true };
            let output = output(result);
            assert_eq!(output.joined_text(), text);
            assert_eq!(output.structured, structured);
            assert!(!output.success);
        }
    }
}
