//! The words of policy: who must be asked, and what a command can reach.
//!
//! Only names here; the judgement is `policy/decide.rs`, the enforcement `sandbox/`.
//! Spelled in configuration and flags as serde spells them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// When the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Before anything that is not known to only read.
    Untrusted,
    /// When a call asks to go beyond the sandbox.
    #[default]
    OnRequest,
    /// After the sandbox stopped a command, to run it again outside.
    OnFailure,
    /// Never; what would be asked is declined.
    Never,
}

/// The three modes by their configured names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing can be written, no network.
    ReadOnly,
    /// The workspace can be written, no network unless opened.
    #[default]
    WorkspaceWrite,
    /// No sandbox at all.
    DangerFullAccess,
}

/// What commands and file tools can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// The mode.
    pub mode: SandboxMode,
    /// Writable roots in workspace-write: absolute, the session's directory first.
    pub roots: Vec<PathBuf>,
    /// What of the network commands reach.
    pub network: Network,
    /// What is hidden from commands and file tools alike.
    pub deny_read: Vec<Pattern>,
    /// Directories that no tool changes unasked, wherever they lie: Gimlet's own.
    #[serde(default)]
    pub deny_write: Vec<PathBuf>,
    /// Whether `.git` below a root may be written.
    pub git: GitAccess,
    /// Whether TMPDIR and `/tmp` may be written.
    pub tmp: bool,
}

/// What of the network a command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing.
    #[default]
    Off,
    /// These hosts, through our proxy.
    Hosts(Vec<HostRule>),
    /// Everything.
    On,
}

/// A host that commands may reach: `example.org`, `*.example.org`, with an optional port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostRule(pub String);

/// A path or a glob of paths; `~` stands for the home directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(pub String);

/// How writes below `.git` are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitAccess {
    /// Ask the user.
    #[default]
    Ask,
    /// Open, but for hooks, config, attributes, modules and gitfiles.
    Allow,
    /// Closed.
    Deny,
}

/// How much of the sandbox this machine can hold. Ordered: more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Nothing confines a command.
    None,
    /// Landlock and seccomp.
    Reduced,
    /// Namespaces, Landlock and seccomp.
    Full,
}

/// A judgement with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What to do.
    pub action: DecisionAction,
    /// Why, as one clause for people and the model.
    pub reason: String,
    /// The rule that decided, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// What a judgement asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionAction {
    /// Go on, within the sandbox.
    Allow,
    /// Go on, within a sandbox that only lets it read, whatever the mode: known to do no more.
    AllowReadOnly,
    /// Go on, outside the sandbox; only the user's own mode or rule says so.
    AllowUnsandboxed,
    /// Ask the user first; an approval runs it within the sandbox.
    Ask,
    /// Ask the user first; an approval runs it outside the sandbox.
    AskUnsandboxed,
    /// Refuse.
    Deny,
}
