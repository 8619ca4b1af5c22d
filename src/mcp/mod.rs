//! MCP: other people's tools, over the standard streams of a server we start.
//!
//! `client.rs` starts a server, lists and calls its tools; `naming.rs` (pure) makes names and
//! descriptions fit for a model. Knows nothing of sessions, policy or `ToolHandler`; what a
//! server says is untrusted and bounded here. Called by `tools/mcp.rs` and whoever connects.

mod client;
mod naming;

pub(crate) use client::{McpClient, McpError, McpResult, RemoteTool, connect};
pub(crate) use naming::{build_description, build_tool_names};

#[cfg(test)]
pub(crate) mod tests;
