//! Layers and facts become one `Config`.
//!
//! Pure: files, variables and the stored key are handed in. Defaults live here as a layer of
//! their own, so that `gimlet config explain` can name them. Called by `load.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Table;

use crate::config::file::{
    ApprovalToml, ConfigToml, FallbackToml, InheritToml, McpServerToml, SandboxLimitsToml,
    ShellEnvironmentToml, SnapshotsToml, WorkspaceWriteToml, parse_table,
};
use crate::config::layers::{Explanation, Layer, Source, explain_key, merge_layers};
use crate::config::provider::{OPENAI_KEY_VARIABLES, ProviderFacts, build_provider};
use crate::config::{
    Config, ConfigError, ConfigNote, Directories, Inherit, McpServer, ProjectDocs, SandboxLimits,
    SandboxSettings, ShellEnvironment, SnapshotSettings,
};
use crate::policy::Rules;
use crate::protocol::{ApprovalPolicy, HostRule, ModelName, Network, Pattern, SandboxLevel};
use crate::text::hosts::HostPattern;

/// All that decides a configuration beside its layers.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Where things live.
    pub directories: Directories,
    /// The session's directory, absolute and real.
    pub cwd: PathBuf,
    /// The root of the project it is in, absolute and real.
    pub project_root: PathBuf,
    /// Our variables.
    pub env: BTreeMap<String, String>,
    /// The key in `auth.json`.
    pub stored_key: Option<String>,
    /// Files that hold a profile, and are links or lie behind one.
    pub linked_profiles: Vec<PathBuf>,
    /// Whether the project's own configuration acts.
    pub trusted: bool,
    /// What is allowed, asked or denied by rule.
    pub rules: Rules,
    /// What flags say that is no setting.
    pub session: SessionFlags,
    /// What was odd so far.
    pub notes: Vec<ConfigNote>,
}

/// What flags say that is no setting of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFlags {
    /// Writable directories in addition to the configured ones.
    pub add_dirs: Vec<PathBuf>,
    /// Whether no session file is written.
    pub ephemeral: bool,
    /// The fake driver's script.
    pub script: Option<PathBuf>,
}

/// A configuration, and who set what.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The configuration.
    pub config: Config,
    /// The layers it came from, strongest first, the defaults last.
    pub provenance: Vec<Layer>,
}

impl Resolved {
    /// Says who set a key; a table's key gives one explanation for each key below it, a key
    /// that nobody set gives none.
    pub fn explain(&self, key: &str) -> Vec<Explanation> {
        explain_key(&self.provenance, key)
    }
}

/// What holds where nobody says otherwise, in the words of a file.
const DEFAULTS: &str = r#"
model = "gpt-5.5"
model_provider = "openai"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
sandbox_fallback = "reduced"
max_steps = 200
tool_output_token_limit = 10000
mask_secrets = true
project_doc_max_bytes = 32768
project_doc_fallback_filenames = []
project_root_markers = [".git"]
disabled_tools = []

[sandbox_workspace_write]
writable_roots = []
network_access = false
allowed_hosts = []
exclude_tmpdir_env_var = false
exclude_slash_tmp = false
git = "ask"

[snapshots]
enabled = true
file_bytes_max = 1073741824
ignored_file_bytes_max = 8388608
ignored_total_bytes_max = 134217728
keep_bytes_max = 2147483648
keep_days_max = 30

[shell_environment_policy]
inherit = "core"
ignore_default_excludes = false
exclude = []
include_only = []

[model_providers.openai]
name = "OpenAI"
base_url = "https://api.openai.com/v1"
requires_openai_auth = true
request_max_retries = 4
stream_max_retries = 5
stream_idle_timeout_ms = 300000

[model_providers.ollama]
name = "Ollama"
base_url = "http://localhost:11434/v1"

[model_providers.lmstudio]
name = "LM Studio"
base_url = "http://localhost:1234/v1"
"#;

/// How long an MCP server may take to start unless it is configured, in milliseconds.
const MCP_STARTUP_TIMEOUT_MS: u64 = 30_000;

/// How long a tool of an MCP server may take unless it is configured, in milliseconds.
const MCP_TOOL_TIMEOUT_MS: u64 = 60_000;

/// The longest wait anyone can configure: a day, so that sums of times stay in range.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// What hides from commands and file tools: keys, tokens, passwords, and where they are typed.
const SECRET_PATHS: &[&str] = &[
    "~/.aws",
    "~/.azure",
    "~/.bash_history",
    "~/.boto",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.claude/.credentials.json",
    "~/.codex/auth.json",
    "~/.composer/auth.json",
    "~/.config/1Password",
    "~/.config/BraveSoftware",
    "~/.config/chromium",
    "~/.config/composer/auth.json",
    "~/.config/containers/auth.json",
    "~/.config/doctl",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/git/credentials",
    "~/.config/github-copilot",
    "~/.config/glab-cli",
    "~/.config/google-chrome",
    "~/.config/hub",
    "~/.config/microsoft-edge",
    "~/.config/op",
    "~/.config/rclone",
    "~/.docker/config.json",
    "~/.gem/credentials",
    "~/.git-credentials",
    "~/.gnupg",
    "~/.kube",
    "~/.local/share/gem/credentials",
    "~/.local/share/keyrings",
    "~/.mozilla",
    "~/.my.cnf",
    "~/.mysql_history",
    "~/.netrc",
    "~/.npmrc",
    "~/.oci",
    "~/.password-store",
    "~/.pgpass",
    "~/.psql_history",
    "~/.pypirc",
    "~/.python_history",
    "~/.s3cfg",
    "~/.ssh",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.thunderbird",
    "~/.vault-token",
    "~/.zsh_history",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_*_key",
    "/etc/ssl/private",
];

/// What hides from commands and file tools, below our own state directory.
const SECRET_STATE_NAMES: &[&str] = &["auth.json", "history.jsonl", "sessions", "snapshots"];

/// What hides below our own configuration directory: all may hold keys.
const SECRET_CONFIG_NAMES: &[&str] = &["config.toml", "*.config.toml"];

/// Returns the weakest layer.
pub fn build_defaults() -> Layer {
    let table = toml::from_str::<Table>(DEFAULTS);
    debug_assert!(table.is_ok(), "the built-in defaults are TOML");
    Layer { source: Source::Default, base: PathBuf::new(), table: table.unwrap_or_default() }
}

/// Merges layers, given strongest first without the defaults, into a configuration.
pub fn resolve(mut layers: Vec<Layer>, facts: Facts) -> Result<Resolved, ConfigError> {
    layers.push(build_defaults());
    let (merged, _) = parse_table(&merge_layers(&layers), "configuration")?;
    let config = build_config(merged, facts)?;
    Ok(Resolved { config, provenance: layers })
}

fn build_config(merged: ConfigToml, facts: Facts) -> Result<Config, ConfigError> {
    let mut notes = facts.notes;
    let provider = build_provider(
        &merged,
        ProviderFacts {
            env: &facts.env,
            stored_key: facts.stored_key.as_deref(),
            script: facts.session.script.as_ref(),
        },
    )?;
    let model = merged.model.clone().unwrap_or_default();
    if model.trim().is_empty() || model.chars().any(char::is_control) {
        return Err(refuse("model", "is not a model's name", "for example: gpt-5.5"));
    }
    let max_steps = merged.max_steps.unwrap_or(200);
    if max_steps == 0 {
        return Err(refuse("max_steps", "must be at least 1", "leave it out for the default"));
    }
    check_hidden(merged.deny_read.as_deref().unwrap_or_default())?;
    let approval = build_approval(merged.approval_policy, &mut notes);
    let network = build_network(&merged.sandbox_workspace_write, &mut notes)?;
    let mut sandbox = build_sandbox(&merged, &facts.directories, &facts.session.add_dirs);
    sandbox.network = network;
    let linked = facts.linked_profiles.iter().map(|path| path.to_string_lossy().into_owned());
    sandbox.deny_read.extend(linked.map(Pattern));
    // What a rule hides is hidden by the sandbox as well, and behind links.
    let hidden = facts.rules.hidden_patterns();
    sandbox.deny_read.extend(hidden.iter().filter_map(|it| anchor(it, &facts.cwd)));
    sandbox.deny_read.extend(hidden.into_iter().map(Pattern));
    let mcp_servers = build_mcp_servers(&merged.mcp_servers, &mut notes);
    let disabled_tools = build_disabled_tools(&merged);
    let key_variables = find_key_variables(&merged);
    Ok(Config {
        directories: facts.directories,
        cwd: facts.cwd,
        project_root: facts.project_root,
        model: ModelName(model),
        provider,
        reasoning_effort: merged.model_reasoning_effort,
        reasoning_summary: merged.model_reasoning_summary,
        verbosity: merged.model_verbosity,
        service_tier: merged.service_tier,
        context_window: merged.model_context_window,
        approval,
        sandbox,
        key_variables,
        snapshots: build_snapshots(&merged.snapshots),
        shell_environment: build_shell_environment(merged.shell_environment_policy),
        mcp_servers,
        project_docs: ProjectDocs {
            bytes_max: merged.project_doc_max_bytes.unwrap_or(32_768),
            fallback_names: merged.project_doc_fallback_filenames.unwrap_or_default(),
            root_markers: merged.project_root_markers.unwrap_or_default(),
        },
        instructions_file: merged.model_instructions_file.map(PathBuf::from),
        developer_instructions: merged.developer_instructions,
        disabled_tools,
        keys: merged.keys,
        max_steps,
        tool_output_tokens_max: merged.tool_output_token_limit.unwrap_or(10_000),
        mask_secrets: merged.mask_secrets.unwrap_or(true),
        ephemeral: facts.session.ephemeral,
        trusted: facts.trusted,
        rules: Arc::new(facts.rules),
        notes,
    })
}

fn refuse(key: &str, message: &str, hint: &str) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

/// Refuses a pattern that names no place: a mount can hide a place, and nothing less.
fn check_hidden(paths: &[String]) -> Result<(), ConfigError> {
    let is_place = |path: &String| {
        let path = path.strip_suffix("/**").unwrap_or(path);
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        !path.contains(['?', '[', '{']) && !directory.contains('*')
    };
    match paths.iter().find(|path| !is_place(path)) {
        Some(path) => Err(refuse(
            "deny_read",
            &format!("has a pattern that names no place: {path}"),
            "only the last name of a path may hold a *, for example: ~/secrets/*.pem",
        )),
        None => Ok(()),
    }
}

fn build_approval(approval: Option<ApprovalToml>, notes: &mut Vec<ConfigNote>) -> ApprovalPolicy {
    match approval {
        Some(ApprovalToml::Named(policy)) => policy,
        Some(ApprovalToml::Granular) => {
            notes.push(ConfigNote {
                message: "a granular approval_policy is read as \"on-request\"".to_owned(),
                hint: None,
            });
            ApprovalPolicy::OnRequest
        }
        None => ApprovalPolicy::default(),
    }
}

fn build_sandbox(
    merged: &ConfigToml,
    directories: &Directories,
    add_dirs: &[PathBuf],
) -> SandboxSettings {
    let workspace = &merged.sandbox_workspace_write;
    let mut writable_roots: Vec<PathBuf> =
        workspace.writable_roots.iter().flatten().map(PathBuf::from).collect();
    for dir in add_dirs {
        if !writable_roots.contains(dir) {
            writable_roots.push(dir.clone());
        }
    }
    let excludes_tmp = workspace.exclude_slash_tmp.unwrap_or(false)
        || workspace.exclude_tmpdir_env_var.unwrap_or(false);
    SandboxSettings {
        mode: merged.sandbox_mode.unwrap_or_default(),
        writable_roots,
        network: Network::Off,
        tmp: !excludes_tmp,
        git: workspace.git.unwrap_or_default(),
        deny_read: build_deny_read(directories, merged.deny_read.as_deref().unwrap_or_default()),
        deny_write: build_deny_write(directories),
        fallback: match merged.sandbox_fallback {
            Some(FallbackToml::Refuse) => SandboxLevel::Full,
            Some(FallbackToml::Reduced) | None => SandboxLevel::Reduced,
        },
        level_max: merged.sandbox_level_max.unwrap_or(SandboxLevel::Full),
        limits: build_limits(merged.sandbox_limits),
    }
}

/// Returns what of the network commands reach in workspace-write.
fn build_network(
    workspace: &WorkspaceWriteToml,
    notes: &mut Vec<ConfigNote>,
) -> Result<Network, ConfigError> {
    let hosts = workspace.allowed_hosts.clone().unwrap_or_default();
    for host in &hosts {
        if let Err(problem) = HostPattern::parse(host) {
            let key = "sandbox_workspace_write.allowed_hosts";
            return Err(refuse(key, &problem, "for example: [\"crates.io\", \"*.npmjs.org:443\"]"));
        }
    }
    if !workspace.network_access.unwrap_or(false) {
        let rules = hosts.into_iter().map(HostRule).collect::<Vec<_>>();
        return Ok(if rules.is_empty() { Network::Off } else { Network::Hosts(rules) });
    }
    if !hosts.is_empty() {
        notes.push(ConfigNote {
            message: "allowed_hosts narrows nothing, because network_access opens every host"
                .to_owned(),
            hint: Some("set sandbox_workspace_write.network_access to false".to_owned()),
        });
    }
    Ok(Network::On)
}

fn build_limits(limits: SandboxLimitsToml) -> SandboxLimits {
    let SandboxLimitsToml { memory_mib, processes, open_files, disk_mib, output_mib } = limits;
    SandboxLimits { memory_mib, processes, open_files, disk_mib, output_mib }
}

fn build_deny_read(directories: &Directories, wished: &[String]) -> Vec<Pattern> {
    let below =
        |directory: &Path, name: &str| Pattern(directory.join(name).to_string_lossy().into_owned());
    let state = SECRET_STATE_NAMES.iter().map(|name| below(&directories.state, name));
    let config = SECRET_CONFIG_NAMES.iter().map(|name| below(&directories.config, name));
    state
        .chain(config)
        .chain(SECRET_PATHS.iter().map(|path| Pattern((*path).to_owned())))
        .chain(wished.iter().cloned().map(Pattern))
        .collect()
}

/// Returns a pattern that begins nowhere as one that begins here: mounts need a place.
fn anchor(pattern: &str, cwd: &Path) -> Option<Pattern> {
    let begins_nowhere = !pattern.starts_with(['/', '~', '*']);
    begins_nowhere.then(|| Pattern(cwd.join(pattern).to_string_lossy().into_owned()))
}

fn build_deny_write(directories: &Directories) -> Vec<PathBuf> {
    let mut own = vec![directories.config.clone(), directories.state.clone()];
    own.dedup();
    own
}

/// Returns the variables that hold keys, or headers that may be some, of all providers: also of
/// those that are not in use.
fn find_key_variables(merged: &ConfigToml) -> Vec<String> {
    let configured = merged.model_providers.values().flat_map(|provider| {
        provider.env_key.iter().chain(provider.env_http_headers.values()).cloned()
    });
    let known = OPENAI_KEY_VARIABLES.iter().map(|name| (*name).to_owned());
    let names: BTreeSet<String> = known.chain(configured).collect();
    names.into_iter().collect()
}

fn build_snapshots(merged: &SnapshotsToml) -> SnapshotSettings {
    SnapshotSettings {
        enabled: merged.enabled.unwrap_or(true),
        file_bytes_max: merged.file_bytes_max.unwrap_or(1 << 30),
        ignored_file_bytes_max: merged.ignored_file_bytes_max.unwrap_or(8 << 20),
        ignored_total_bytes_max: merged.ignored_total_bytes_max.unwrap_or(128 << 20),
        keep_bytes_max: merged.keep_bytes_max.unwrap_or(2 << 30),
        keep_days_max: merged.keep_days_max.unwrap_or(30),
    }
}

fn build_shell_environment(policy: ShellEnvironmentToml) -> ShellEnvironment {
    ShellEnvironment {
        inherit: match policy.inherit {
            Some(InheritToml::All) => Inherit::All,
            Some(InheritToml::None) => Inherit::None,
            Some(InheritToml::Core) | None => Inherit::Core,
        },
        exclude: policy.exclude.unwrap_or_default(),
        include_only: policy.include_only.unwrap_or_default(),
        set: policy.set,
        keep_secrets: policy.ignore_default_excludes.unwrap_or(false),
    }
}

fn build_mcp_servers(
    servers: &BTreeMap<String, McpServerToml>,
    notes: &mut Vec<ConfigNote>,
) -> BTreeMap<String, McpServer> {
    let mut built = BTreeMap::new();
    for (name, server) in servers {
        if !server.enabled.unwrap_or(true) {
            continue;
        }
        match server.command.as_ref().filter(|command| !command.is_empty()) {
            Some(command) => {
                built.insert(name.clone(), build_mcp_server(command, server));
            }
            None => notes.push(ConfigNote {
                message: if server.url.is_some() {
                    format!(
                        "MCP server `{name}` is left out: servers over HTTP are not supported yet"
                    )
                } else {
                    format!("MCP server `{name}` is left out: it has no command")
                },
                hint: Some(format!(
                    "give mcp_servers.{name}.command, or set enabled = false there"
                )),
            }),
        }
    }
    built
}

fn build_mcp_server(command: &str, server: &McpServerToml) -> McpServer {
    let mut argv = vec![command.to_owned()];
    argv.extend(server.args.iter().cloned());
    let startup_timeout_ms = server
        .startup_timeout_ms
        .or_else(|| server.startup_timeout_sec.map(milliseconds))
        .unwrap_or(MCP_STARTUP_TIMEOUT_MS);
    let tool_timeout_ms = server.tool_timeout_sec.map_or(MCP_TOOL_TIMEOUT_MS, milliseconds);
    McpServer {
        command: argv,
        env: server.env.clone(),
        env_vars: server.env_vars.iter().map(|variable| variable.name().to_owned()).collect(),
        cwd: server.cwd.as_ref().map(PathBuf::from),
        startup_timeout_ms: startup_timeout_ms.clamp(1, TIMEOUT_MS_MAX),
        tool_timeout_ms: tool_timeout_ms.clamp(1, TIMEOUT_MS_MAX),
        required: server.required.unwrap_or(false),
        enabled_tools: server.enabled_tools.clone(),
        disabled_tools: server.disabled_tools.clone().unwrap_or_default(),
    }
}

fn milliseconds(seconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate, and what is no number becomes 0"
    )]
    let whole = (seconds * 1000.0) as u64;
    whole
}

fn build_disabled_tools(merged: &ConfigToml) -> Vec<String> {
    let mut disabled = merged.disabled_tools.clone().unwrap_or_default();
    for (name, settings) in &merged.tools {
        let is_off = settings.get("enabled").and_then(toml::Value::as_bool) == Some(false)
            || settings.as_bool() == Some(false);
        if is_off && !disabled.contains(name) {
            disabled.push(name.clone());
        }
    }
    disabled
}
