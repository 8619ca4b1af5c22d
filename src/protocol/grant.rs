//! `Grant`: an approval that is remembered, and exactly what it covers.
//!
//! Data alone: `policy/grants.rs` says which key a call has and what a key covers,
//! `agent/approvals.rs` keeps those of a session, `store/approvals.rs` the lasting ones. The
//! shape is a file format (`approvals.json`): a word that is not known makes a grant cover nothing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{AnswerScope, CommandLine, Network, SandboxLevel, SandboxMode, SessionId};

/// What a call can reach once it is allowed. Part of the question and of what is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// The session's mode.
    pub mode: SandboxMode,
    /// How well this machine confines commands.
    pub level: SandboxLevel,
    /// Whether it would run outside the sandbox; roots and network then mean nothing.
    pub outside: bool,
    /// Where it may write, absolute.
    pub roots: Vec<PathBuf>,
    /// What of the network it reaches.
    pub network: Network,
}

/// What a remembered approval covers, compared word by word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum GrantKey {
    /// This command, in this directory, with this reach.
    Command {
        /// The command as it was shown.
        command: CommandLine,
        /// Where it runs, absolute.
        cwd: PathBuf,
        /// What it reaches.
        reach: Reach,
    },
    /// These files, or some of them.
    Files {
        /// The mode in which they were asked for.
        mode: SandboxMode,
        /// Files that may be made or changed, absolute.
        written: Vec<PathBuf>,
        /// Files that may go away, absolute.
        deleted: Vec<PathBuf>,
    },
    /// This tool of an MCP server.
    Tool {
        /// The server's configured name.
        server: String,
        /// The tool's name there.
        tool: String,
        /// The arguments, for a tool that says it may destroy something: only these.
        arguments: Option<Value>,
    },
    /// Requests to this host.
    Host {
        /// Host and port.
        host: String,
    },
}

/// An approval that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// A short id, made from what follows: the same approval has the same id.
    pub id: String,
    /// For how long it holds: session, project or always.
    pub scope: AnswerScope,
    /// The project it holds in, absolute; only with the scope `project`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What it covers.
    pub key: GrantKey,
    /// When it was given, as RFC 3339 in UTC.
    pub at: String,
    /// In which session.
    pub session: SessionId,
    /// The rule that had asked. What a rule asks for that came later is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Default for Reach {
    /// Returns the reach of a question that did not tell: of a log older than the field.
    fn default() -> Self {
        Self {
            mode: SandboxMode::ReadOnly,
            level: SandboxLevel::None,
            outside: false,
            roots: Vec::new(),
            network: Network::Off,
        }
    }
}
