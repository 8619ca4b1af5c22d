//! `Effect`: what one call would do, known before it does it.
//!
//! Policy, parallelism, the screen and the event log all judge by this value. It is made
//! from the call alone: no file is read to know it. `tools/*` make it, `policy/decide.rs`
//! judges it, `sandbox/plan.rs` and `tools/files.rs` turn it into limits.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{Network, ProcessId};

/// What a call would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Nothing outside the session.
    None,
    /// Reads files. A directory stands for all below it.
    Read {
        /// Absolute paths.
        paths: Vec<PathBuf>,
    },
    /// Changes files, as a patch says.
    Write {
        /// One entry per file, from the patch's text alone.
        changes: Vec<FileChange>,
    },
    /// Runs a command.
    Run {
        /// What is run.
        command: CommandLine,
        /// Where, absolute.
        cwd: PathBuf,
        /// The network it asks for.
        network: Network,
        /// Set when the model asks to leave the sandbox.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalate: Option<Justification>,
    },
    /// Writes to a command that already runs.
    Input {
        /// The command.
        process: ProcessId,
    },
    /// Fetches a URL.
    Fetch {
        /// The URL as text.
        url: String,
    },
    /// Calls a tool of an MCP server.
    Remote {
        /// The server's configured name.
        server: String,
        /// The tool's own name there.
        tool: String,
        /// The arguments sent.
        arguments: Value,
        /// What the server claims of the tool; never trusted alone.
        hints: RemoteHints,
    },
    /// Starts a sub-agent.
    Agent {
        /// Which role it has.
        role: String,
    },
}

/// The model's reason for leaving the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Justification {
    /// One sentence for the user.
    pub reason: String,
}

/// A server's claims about its tool (MCP annotations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteHints {
    /// It says it changes nothing.
    pub read_only: bool,
    /// It says it may destroy something.
    pub destructive: bool,
    /// It says calling twice is as calling once.
    pub idempotent: bool,
    /// It says it reaches the open world.
    pub open_world: bool,
}

/// A command: a bare argument vector, or text for a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CommandLine {
    /// Executed as it is, without a shell.
    Argv {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Text that a shell reads.
    Shell {
        /// The shell's program, e.g. `/bin/bash`.
        program: String,
        /// Whether it reads the user's login files.
        login: bool,
        /// The text.
        script: String,
    },
}

/// One file of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, absolute.
    pub path: PathBuf,
    /// What happens to it.
    pub kind: ChangeKind,
    /// Where it moves to, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_to: Option<PathBuf>,
    /// The change as text: the patch's own lines before it ran, a unified diff after.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new, or replaced whole.
    Add,
    /// It goes away.
    Delete,
    /// Parts of it change, or it moves.
    Update,
}

impl Effect {
    /// Returns whether the call only looks, so that it may run beside others and early.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::None | Self::Read { .. } => true,
            Self::Write { .. }
            | Self::Run { .. }
            | Self::Input { .. }
            | Self::Fetch { .. }
            | Self::Remote { .. }
            | Self::Agent { .. } => false,
        }
    }
}

impl CommandLine {
    /// Returns the argument vector to execute.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Argv { argv } => argv.clone(),
            Self::Shell { program, login, script } => {
                let flag = if *login { "-lc" } else { "-c" };
                vec![program.clone(), flag.to_owned(), script.clone()]
            }
        }
    }

    /// Returns what a person reads: the script, or the vector joined with shell quoting.
    pub fn shown(&self) -> String {
        match self {
            Self::Argv { argv } => {
                shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
            }
            Self::Shell { script, .. } => script.clone(),
        }
    }
}
