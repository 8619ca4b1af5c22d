//! Starts a session's MCP servers and builds its tool registry from what they offer.
//!
//! All servers start at once, before the first request, because the tool list is fixed with
//! it. One that fails is named and left out, unless the user requires it. Knows no transport
//! (`mcp/client.rs`). Called by `session.rs` at the first turn.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::mpsc;

use crate::agent::session::Session;
use crate::mcp;
use crate::mcp::McpClient;
use crate::mcp::McpError;
use crate::protocol::ErrorKind;
use crate::protocol::EventMsg;
use crate::protocol::McpStatus;
use crate::protocol::Op;
use crate::protocol::StopCause;
use crate::protocol::TurnOutcome;
use crate::protocol::WarningKind;
use crate::tools;
use crate::tools::Registration;
use crate::tools::ToolRegistry;

impl Session {
    /// Starts the servers, unless the user stops it meanwhile, and builds the registry.
    pub(super) async fn build_registry(
        &mut self,
        ops: &mut mpsc::Receiver<Op>,
    ) -> Result<(), TurnOutcome> {
        self.start_servers(ops).await?;
        let mut registrations = self.tools.clone();
        let remote = tools::build_mcp_tools(&self.servers).into_iter();
        registrations.extend(remote.map(|handler| Registration { handler, offered: true }));
        let (registry, twice) = ToolRegistry::build(registrations, &self.config.disabled_tools);
        for name in twice {
            let message = format!("two tools are called `{name}`; the second one is left out");
            self.bus
                .emit(EventMsg::Warning { kind: WarningKind::Config, message, hint: None })
                .await;
        }
        self.registry = Some(Arc::new(registry));
        Ok(())
    }

    async fn start_servers(&mut self, ops: &mut mpsc::Receiver<Op>) -> Result<(), TurnOutcome> {
        if self.config.mcp_servers.is_empty() {
            return Ok(());
        }
        for name in self.config.mcp_servers.keys() {
            self.bus.emit(status(name, McpStatus::Starting, None)).await;
        }
        let config = Arc::clone(&self.config);
        let env = self.around.env.to_vec();
        let starts = config.mcp_servers.iter().map(|(name, server)| {
            let (env, cwd) = (env.clone(), &config.cwd);
            async move { (name, server.required, mcp::connect(name, server, cwd, env).await) }
        });
        let Some(started) = self.serve_while(ops, join_all(starts)).await else {
            return Err(TurnOutcome::Interrupted { cause: StopCause::User });
        };
        for (name, required, result) in started {
            self.take_server(name, required, result).await?;
        }
        Ok(())
    }

    async fn take_server(
        &mut self,
        name: &str,
        required: bool,
        result: Result<McpClient, McpError>,
    ) -> Result<(), TurnOutcome> {
        let error = match result {
            Ok(client) => {
                self.servers.push(Arc::new(client));
                self.bus.emit(status(name, McpStatus::Ready, None)).await;
                return Ok(());
            }
            Err(error) => error,
        };
        self.bus.emit(status(name, McpStatus::Failed, Some(error.to_string()))).await;
        if !required {
            return Ok(());
        }
        let message = format!("{error}, and it is required");
        let msg = EventMsg::Error {
            kind: ErrorKind::Tool,
            message: message.clone(),
            hint: Some(format!("mcp_servers.{name}.required = false goes on without it")),
            retryable: true,
        };
        self.bus.emit(msg).await;
        Err(TurnOutcome::Failed { error: ErrorKind::Tool, message })
    }

    /// Ends the servers, all at once.
    pub(super) async fn stop_servers(&mut self) {
        // The registry's tools hold the clients too; with them gone each has one owner left.
        self.registry = None;
        let clients = std::mem::take(&mut self.servers);
        join_all(clients.into_iter().filter_map(Arc::into_inner).map(McpClient::close)).await;
    }
}

fn status(server: &str, status: McpStatus, error: Option<String>) -> EventMsg {
    EventMsg::McpServerStatus { server: server.to_owned(), status, error }
}
