//! `ToolRouter`: which item is a call, of which tool, with what. Pure.
//!
//! Three kinds of item are calls; MCP tools are ordinary names, so there is no case for them.
//! A patch found inside a shell call is routed to `apply_patch`, so that it is judged, shown
//! and undone as the edit it is. Runs nothing. Called by `agent/turn.rs`.

use std::sync::Arc;

use serde_json::Value;

use crate::patch;
use crate::protocol::CommandLine;
use crate::protocol::FunctionCall;
use crate::protocol::ResponseItem;
use crate::protocol::ToolCall;
use crate::protocol::ToolName;
use crate::protocol::ToolPayload;
use crate::tools::ToolRegistry;

/// The name under which patches are routed.
const APPLY_PATCH: &str = "apply_patch";
/// The names under which models call a shell.
const SHELL_NAMES: [&str; 5] = ["shell", "exec_command", "local_shell", "container.exec", "bash"];

/// Routes items to tools.
#[derive(Debug, Clone)]
pub struct ToolRouter {
    registry: Arc<ToolRegistry>,
}

impl ToolRouter {
    /// Returns a router over a session's tools.
    pub fn new(registry: Arc<ToolRegistry>) -> Self {
        Self { registry }
    }

    /// Returns the call an item is, if it is one.
    pub fn route(&self, item: &ResponseItem) -> Option<ToolCall> {
        let mut call = match item {
            ResponseItem::FunctionCall(call) => ToolCall {
                call_id: call.call_id.clone(),
                name: self.full_name(call),
                payload: ToolPayload::Function { arguments: call.arguments.clone() },
            },
            ResponseItem::CustomToolCall(call) => ToolCall {
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                payload: ToolPayload::Custom { input: call.input.clone(), workdir: None },
            },
            ResponseItem::LocalShellCall(call) => ToolCall {
                call_id: call.call_id.clone(),
                name: ToolName::from("local_shell"),
                payload: ToolPayload::LocalShell {
                    command: call.action.command.clone(),
                    workdir: call.action.working_directory.clone(),
                    timeout_ms: call.action.timeout_ms,
                },
            },
            ResponseItem::Message(_)
            | ResponseItem::Reasoning(_)
            | ResponseItem::WebSearchCall(_)
            | ResponseItem::FunctionCallOutput(_)
            | ResponseItem::CustomToolCallOutput(_)
            | ResponseItem::Other(_) => return None,
        };
        self.take_patch_out_of_shell(&mut call);
        Some(call)
    }

    /// Joins a namespace (`mcp__server`) and a bare name, as some servers send them apart.
    fn full_name(&self, call: &FunctionCall) -> ToolName {
        let namespace = call.extra.get("namespace").and_then(Value::as_str);
        let joined = namespace.map(|space| ToolName(format!("{space}__{}", call.name)));
        match joined {
            Some(joined) if self.registry.find(&joined).is_some() => joined,
            Some(_) | None => call.name.clone(),
        }
    }

    fn take_patch_out_of_shell(&self, call: &mut ToolCall) {
        let name = ToolName::from(APPLY_PATCH);
        if !SHELL_NAMES.contains(&call.name.as_str()) || self.registry.find(&name).is_none() {
            return;
        }
        let Some((command, workdir)) = command_of(&call.payload) else { return };
        let Some(found) = patch::detect(&command) else { return };
        let workdir = match (workdir, found.workdir) {
            (Some(outer), Some(inner)) => {
                Some(std::path::Path::new(&outer).join(inner).to_string_lossy().into_owned())
            }
            (outer, inner) => inner.or(outer),
        };
        call.payload = ToolPayload::Custom { input: found.patch, workdir };
        call.name = name;
    }
}

/// Reads just enough of a shell call to see what it runs. Whether its arguments are right is
/// the handler's business.
fn command_of(payload: &ToolPayload) -> Option<(CommandLine, Option<String>)> {
    match payload {
        ToolPayload::LocalShell { command, workdir, .. } => {
            Some((CommandLine::Argv { argv: command.clone() }, workdir.clone()))
        }
        ToolPayload::Function { arguments } => {
            // A patch names itself; other calls need not be parsed twice.
            if !arguments.contains("patch") {
                return None;
            }
            let arguments: Value = serde_json::from_str(arguments).ok()?;
            let workdir = arguments.get("workdir").and_then(Value::as_str).map(str::to_owned);
            let text = |key: &str| arguments.get(key).and_then(Value::as_str).map(str::to_owned);
            if let Some(script) = text("cmd").or_else(|| text("command")) {
                let program = "bash".to_owned();
                return Some((CommandLine::Shell { program, login: false, script }, workdir));
            }
            let argv = arguments.get("command")?.as_array()?;
            let argv = argv.iter().map(|word| word.as_str().map(str::to_owned));
            Some((CommandLine::Argv { argv: argv.collect::<Option<_>>()? }, workdir))
        }
        ToolPayload::Custom { .. } => None,
    }
}
