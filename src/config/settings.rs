//! `Config` and its parts: all settings, resolved, in the words of the rest of the program.
//!
//! Data alone: how it came to be is `resolve.rs`, how it is written is `file.rs`. Never
//! changed after `load`. Seen by every module above.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::policy::Rules;
use crate::protocol::{
    ApprovalPolicy, GitAccess, ModelName, Network, Pattern, SandboxLevel, SandboxMode,
    SandboxPolicy,
};

/// All settings, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where things live.
    pub directories: Directories,
    /// The session's directory, absolute and real.
    pub cwd: PathBuf,
    /// The root of the project it is in, absolute and real.
    pub project_root: PathBuf,
    /// The model.
    pub model: ModelName,
    /// The server that offers it.
    pub provider: Provider,
    /// Reasoning effort; `None` leaves it to the catalogue.
    pub reasoning_effort: Option<String>,
    /// Reasoning summary: `auto`, `concise`, `detailed`, `none`.
    pub reasoning_summary: Option<String>,
    /// Verbosity: `low`, `medium`, `high`.
    pub verbosity: Option<String>,
    /// Service tier.
    pub service_tier: Option<String>,
    /// The model's window in tokens, when the user knows better than the catalogue.
    pub context_window: Option<u64>,
    /// When the user is asked.
    pub approval: ApprovalPolicy,
    /// What commands can reach.
    pub sandbox: SandboxSettings,
    /// Variables that may hold a key or a secret header of any provider; commands never get them.
    pub key_variables: Vec<String>,
    /// What is recorded of the workspace, for undo.
    pub snapshots: SnapshotSettings,
    /// The environment of commands.
    pub shell_environment: ShellEnvironment,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Instruction files.
    pub project_docs: ProjectDocs,
    /// Replaces the base instructions.
    pub instructions_file: Option<PathBuf>,
    /// Text added after the instruction files, by the user.
    pub developer_instructions: Option<String>,
    /// Tools switched off by name.
    pub disabled_tools: Vec<String>,
    /// Requests in one turn; reaching it ends the turn.
    pub max_steps: u32,
    /// Tokens of a tool's output that reach the model.
    pub tool_output_tokens_max: u64,
    /// Whether secrets in the output of tools are masked.
    pub mask_secrets: bool,
    /// Keys of the screen, by the action's name.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Whether the session file is written.
    pub ephemeral: bool,
    /// Whether the user trusts this project's own configuration.
    pub trusted: bool,
    /// What is allowed, asked or denied by rule.
    pub rules: Arc<Rules>,
    /// Odd things found on the way, for the user.
    pub notes: Vec<ConfigNote>,
}

/// Where things live. `GIMLET_HOME` moves both below itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    /// `config.toml`, profiles, AGENTS.md, …
    pub config: PathBuf,
    /// Sessions, keys, trust.
    pub state: PathBuf,
    /// The user's home directory, for `~`.
    pub home: PathBuf,
}

/// A server that speaks to models.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    /// Its configured name.
    pub name: String,
    /// Up to, not including, `/responses`.
    pub base_url: String,
    /// The dialect.
    pub wire_api: WireApi,
    /// Its key.
    pub key: ProviderKey,
    /// Headers sent with each request, resolved.
    pub headers: BTreeMap<String, String>,
    /// Query parameters sent with each request.
    pub query: BTreeMap<String, String>,
    /// How often a request is sent again that got no answer, a 429 or a 5xx.
    pub request_retries_max: u32,
    /// How often a broken stream is asked again.
    pub stream_retries_max: u32,
    /// How long a stream may say nothing, in milliseconds.
    pub stream_idle_timeout_ms: u64,
    /// The fake driver's script; set instead of a server.
    pub script: Option<PathBuf>,
}

/// A dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireApi {
    /// The Responses API.
    Responses,
    /// The scripted driver.
    Fake,
}

/// A provider's key, and where it came from. Its `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum ProviderKey {
    /// The server wants none.
    NotNeeded,
    /// It wants one and there is none.
    Missing {
        /// Variables that were looked at.
        looked_at: Vec<String>,
    },
    /// The key.
    Found {
        /// The key itself.
        key: String,
        /// Where it came from, e.g. `OPENAI_API_KEY`.
        source: String,
    },
}

impl std::fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("NotNeeded"),
            Self::Missing { looked_at } => write!(f, "Missing({looked_at:?})"),
            Self::Found { source, .. } => write!(f, "Found(from {source})"),
        }
    }
}

/// What commands can reach, before the session's directory is put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// The mode.
    pub mode: SandboxMode,
    /// Writable roots beside the session's directory, absolute.
    pub writable_roots: Vec<PathBuf>,
    /// What of the network commands reach in workspace-write.
    pub network: Network,
    /// Whether TMPDIR and `/tmp` may be written.
    pub tmp: bool,
    /// Whether `.git` may be written.
    pub git: GitAccess,
    /// Hidden from commands and file tools.
    pub deny_read: Vec<Pattern>,
    /// Directories that no tool changes unasked.
    pub deny_write: Vec<PathBuf>,
    /// The least level at which commands still run without a person.
    pub fallback: SandboxLevel,
    /// The best level that is made use of.
    pub level_max: SandboxLevel,
    /// What a confined command may use up.
    pub limits: SandboxLimits,
}

impl SandboxSettings {
    /// Returns what commands and file tools can reach from a workspace, in a mode.
    pub fn policy(&self, mode: SandboxMode, cwd: &Path) -> SandboxPolicy {
        let mut roots = vec![cwd.to_owned()];
        roots.extend(self.writable_roots.iter().cloned());
        let (roots, network, tmp) = match mode {
            SandboxMode::ReadOnly => (Vec::new(), Network::Off, false),
            SandboxMode::WorkspaceWrite => (roots, self.network.clone(), self.tmp),
            SandboxMode::DangerFullAccess => (roots, Network::On, true),
        };
        SandboxPolicy {
            mode,
            roots,
            network,
            deny_read: self.deny_read.clone(),
            deny_write: self.deny_write.clone(),
            git: self.git,
            tmp,
        }
    }
}

/// What a confined command may use up: `None` as the machine allows, 0 without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SandboxLimits {
    /// Memory of all its processes together, in MiB.
    pub memory_mib: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Files that one process has open.
    pub open_files: Option<u64>,
    /// Disk that it fills, in MiB.
    pub disk_mib: Option<u64>,
    /// What it prints, in MiB.
    pub output_mib: Option<u64>,
}

/// What is recorded of the workspace, for undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// A larger file is noted, not kept.
    pub file_bytes_max: u64,
    /// The same for one that the project ignores.
    pub ignored_file_bytes_max: u64,
    /// Bytes of ignored files in one snapshot.
    pub ignored_total_bytes_max: u64,
    /// Bytes of a workspace's store, beyond which old snapshots go.
    pub keep_bytes_max: u64,
    /// Days after which snapshots may go.
    pub keep_days_max: u64,
}

/// The environment of commands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellEnvironment {
    /// What is taken from our own environment.
    pub inherit: Inherit,
    /// Globs of names that are taken out, beside the secret ones.
    pub exclude: Vec<String>,
    /// Globs of names that alone are kept, when not empty.
    pub include_only: Vec<String>,
    /// Set at the end.
    pub set: BTreeMap<String, String>,
    /// Whether names that look like secrets stay.
    pub keep_secrets: bool,
}

/// What is taken from our own environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inherit {
    /// The allow-list.
    #[default]
    Core,
    /// All but what looks like a secret.
    All,
    /// Nothing.
    None,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables set for it.
    pub env: BTreeMap<String, String>,
    /// Names of variables handed through from our own environment.
    pub env_vars: Vec<String>,
    /// Where it runs; the session's directory when absent.
    pub cwd: Option<PathBuf>,
    /// How long it may take to start, in milliseconds.
    pub startup_timeout_ms: u64,
    /// How long a call may take, in milliseconds.
    pub tool_timeout_ms: u64,
    /// Whether the session cannot start without it.
    pub required: bool,
    /// Tools that alone are offered, when set.
    pub enabled_tools: Option<Vec<String>>,
    /// Tools that are not offered.
    pub disabled_tools: Vec<String>,
}

/// Instruction files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDocs {
    /// Bytes of a project's files that are read.
    pub bytes_max: u64,
    /// Names tried after AGENTS.override.md and AGENTS.md.
    pub fallback_names: Vec<String>,
    /// Names that mark a project's root.
    pub root_markers: Vec<String>,
}

/// Something odd in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigNote {
    /// One line.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
