//! `ConfigToml`: what a person may write, as it is written.
//!
//! Every field is optional and named as Codex names it where it means the same, so that a
//! Codex user's file works. Knows no layers, no defaults and no files: text in, a table and
//! what was odd in it out. Called by `load.rs` and `resolve.rs`.

use std::collections::BTreeMap;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::config::{ConfigError, ConfigNote};
use crate::protocol::{ApprovalPolicy, GitAccess, SandboxLevel, SandboxMode};
use crate::text::closest::closest;

/// A configuration file, or what other layers say in its words.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConfigToml {
    /// The model's name.
    pub model: Option<String>,
    /// Which of `model_providers` is used.
    pub model_provider: Option<String>,
    /// Servers, by name.
    pub model_providers: BTreeMap<String, ProviderToml>,
    /// Where the built-in `openai` provider is.
    pub openai_base_url: Option<String>,
    /// `untrusted`, `on-request`, `on-failure` or `never`.
    pub approval_policy: Option<ApprovalToml>,
    /// `read-only`, `workspace-write` or `danger-full-access`.
    pub sandbox_mode: Option<SandboxMode>,
    /// What workspace-write means.
    pub sandbox_workspace_write: WorkspaceWriteToml,
    /// What to do where the full sandbox is not to be had.
    pub sandbox_fallback: Option<FallbackToml>,
    /// The best level that is made use of, whatever the machine could do.
    pub sandbox_level_max: Option<SandboxLevel>,
    /// What a confined command may use up.
    pub sandbox_limits: SandboxLimitsToml,
    /// Hidden from commands and file tools, beside what is hidden anyway.
    pub deny_read: Option<Vec<String>>,
    /// The environment of commands.
    pub shell_environment_policy: ShellEnvironmentToml,
    /// MCP servers, by name.
    pub mcp_servers: BTreeMap<String, McpServerToml>,
    /// Reasoning effort, as the model's server names it.
    pub model_reasoning_effort: Option<String>,
    /// Reasoning summary.
    pub model_reasoning_summary: Option<String>,
    /// Verbosity.
    pub model_verbosity: Option<String>,
    /// Service tier.
    pub service_tier: Option<String>,
    /// The model's window in tokens.
    pub model_context_window: Option<u64>,
    /// A file that replaces the base instructions.
    pub model_instructions_file: Option<String>,
    /// Text after the instruction files.
    pub developer_instructions: Option<String>,
    /// Bytes of a project's instruction files that are read.
    pub project_doc_max_bytes: Option<u64>,
    /// Names tried after AGENTS.override.md and AGENTS.md.
    pub project_doc_fallback_filenames: Option<Vec<String>>,
    /// Names that mark a project's root.
    pub project_root_markers: Option<Vec<String>>,
    /// Tokens of a tool's output that reach the model.
    pub tool_output_token_limit: Option<u64>,
    /// Requests in one turn.
    pub max_steps: Option<u32>,
    /// Tools that are not offered.
    pub disabled_tools: Option<Vec<String>>,
    /// Settings of single tools.
    pub tools: BTreeMap<String, toml::Value>,
    /// Accepted, because clients send it; no such tool is offered.
    pub web_search: Option<String>,
    /// What is recorded of the workspace, for undo.
    pub snapshots: SnapshotsToml,
    /// Keys of the screen, by the action's name; an empty list takes an action its keys.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Whether secrets in the output of tools are masked.
    pub mask_secrets: Option<bool>,
    /// What the user trusts, by directory.
    pub projects: BTreeMap<String, ProjectToml>,
}

/// One of `model_providers`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderToml {
    /// A name for people.
    pub name: Option<String>,
    /// Up to, not including, `/responses`.
    pub base_url: Option<String>,
    /// The variable that holds the key.
    pub env_key: Option<String>,
    /// How to get a key, for people.
    pub env_key_instructions: Option<String>,
    /// The key itself.
    pub experimental_bearer_token: Option<String>,
    /// The dialect.
    pub wire_api: Option<WireApiToml>,
    /// Headers sent with each request.
    pub http_headers: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    pub env_http_headers: BTreeMap<String, String>,
    /// Query parameters sent with each request.
    pub query_params: BTreeMap<String, String>,
    /// Retries of a request.
    pub request_max_retries: Option<u32>,
    /// Retries of a broken stream.
    pub stream_max_retries: Option<u32>,
    /// How long a stream may say nothing.
    pub stream_idle_timeout_ms: Option<u64>,
    /// Whether it takes the same key as `openai`.
    pub requires_openai_auth: Option<bool>,
}

/// `approval_policy`: a name, or Codex's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalToml {
    /// One of our names.
    Named(ApprovalPolicy),
    /// `{ granular = … }`, which is read as `on-request`.
    Granular,
}

/// Dialects by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireApiToml {
    /// The Responses API.
    Responses,
    /// Chat completions.
    Chat,
}

/// `sandbox_fallback`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackToml {
    /// Run at the reduced level.
    Reduced,
    /// Run nothing.
    Refuse,
}

/// `sandbox_limits`; 0 is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SandboxLimitsToml {
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

/// `sandbox_workspace_write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkspaceWriteToml {
    /// Directories that may be written, beside the session's.
    pub writable_roots: Option<Vec<String>>,
    /// Whether commands reach the network.
    pub network_access: Option<bool>,
    /// Hosts that commands reach while `network_access` is off.
    pub allowed_hosts: Option<Vec<String>>,
    /// Closes TMPDIR.
    pub exclude_tmpdir_env_var: Option<bool>,
    /// Closes `/tmp`.
    pub exclude_slash_tmp: Option<bool>,
    /// Whether `.git` may be written.
    pub git: Option<GitAccess>,
}

/// `snapshots`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SnapshotsToml {
    /// Whether anything is recorded.
    pub enabled: Option<bool>,
    /// A larger file is not kept.
    pub file_bytes_max: Option<u64>,
    /// The same for one that the project ignores.
    pub ignored_file_bytes_max: Option<u64>,
    /// Bytes of ignored files in one snapshot.
    pub ignored_total_bytes_max: Option<u64>,
    /// Bytes of a workspace's store, beyond which old snapshots go.
    pub keep_bytes_max: Option<u64>,
    /// Days after which snapshots may go.
    pub keep_days_max: Option<u64>,
}

/// `shell_environment_policy`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ShellEnvironmentToml {
    /// What is taken from our own environment.
    pub inherit: Option<InheritToml>,
    /// Keeps names that look like secrets.
    pub ignore_default_excludes: Option<bool>,
    /// Globs of names that are taken out.
    pub exclude: Option<Vec<String>>,
    /// Set at the end.
    pub set: BTreeMap<String, String>,
    /// Globs of names that alone are kept.
    pub include_only: Option<Vec<String>>,
}

/// `shell_environment_policy.inherit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InheritToml {
    /// The allow-list.
    Core,
    /// All but secrets.
    All,
    /// Nothing.
    None,
}

/// One of `mcp_servers`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct McpServerToml {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for it.
    pub env: BTreeMap<String, String>,
    /// Variables handed through.
    pub env_vars: Vec<EnvVarToml>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// A server over HTTP, which is not spoken yet.
    pub url: Option<String>,
    /// How long it may take to start, in seconds.
    pub startup_timeout_sec: Option<f64>,
    /// How long it may take to start, in milliseconds.
    pub startup_timeout_ms: Option<u64>,
    /// How long a call may take, in seconds.
    pub tool_timeout_sec: Option<f64>,
    /// Whether it is started at all.
    pub enabled: Option<bool>,
    /// Whether the session cannot start without it.
    pub required: Option<bool>,
    /// Tools that alone are offered.
    pub enabled_tools: Option<Vec<String>>,
    /// Tools that are not offered.
    pub disabled_tools: Option<Vec<String>>,
}

/// One of `env_vars`: a name, or Codex's table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a variable's name, or a table with `name`, is wanted")]
pub enum EnvVarToml {
    /// The variable's name.
    Name(String),
    /// A table with a name.
    Table {
        /// The variable's name.
        name: String,
        /// Where the variable is; only `local`, which is here, means something.
        source: Option<String>,
    },
}

/// One of `projects`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProjectToml {
    /// `trusted` or `untrusted`.
    pub trust_level: Option<TrustLevelToml>,
}

/// `projects."PATH".trust_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustLevelToml {
    /// Its own configuration acts.
    Trusted,
    /// It does not.
    Untrusted,
}

/// Top-level keys of Codex that mean nothing here. A file that has them is not at fault, so
/// they pass without a word.
const CODEX_KEYS: &[&str] = &[
    "agents",
    "allow_login_shell",
    "analytics",
    "approvals_reviewer",
    "apps",
    "auto_review",
    "background_terminal_max_timeout",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "compact_prompt",
    "disable_paste_burst",
    "experimental_compact_prompt_file",
    "features",
    "feedback",
    "file_opener",
    "forced_login_method",
    "goals",
    "hide_agent_reasoning",
    "history",
    "include_apps_instructions",
    "include_collaboration_mode_instructions",
    "include_environment_context",
    "include_environment_context_time",
    "include_permissions_instructions",
    "instructions",
    "log_dir",
    "marketplaces",
    "mcp_enterprise_managed_auth",
    "mcp_oauth_callback_port",
    "mcp_oauth_callback_url",
    "mcp_oauth_credentials_store",
    "mcp_optional_startup_grace_ms",
    "memories",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "model_catalog_json",
    "model_post_turn_compact_threshold_percent",
    "notice",
    "oss_provider",
    "otel",
    "personality",
    "plan_mode_reasoning_effort",
    "plugins",
    "review_model",
    "show_raw_agent_reasoning",
    "skills",
    "sqlite_home",
    "tui",
    "windows",
];

/// Keys of Codex that someone relies on for what runs or what is confined, `*` for a name the
/// user chose. They pass too, but their owner is told once that they do nothing here.
const CODEX_KEYS_WITH_EFFECT: &[&[&str]] = &[
    &["default_permissions"],
    &["hooks"],
    &["mcp_servers", "*", "default_tools_approval_mode"],
    &["mcp_servers", "*", "tools"],
    &["notify"],
    &["permissions"],
    &["profile"],
    &["profiles"],
    &["shell_environment_policy", "filters"],
];

/// Keys of Codex below our own tables, `*` for a name the user chose.
const CODEX_NESTED_KEYS: &[(&str, &[&str])] = &[
    (
        "model_providers.*",
        &[
            "auth",
            "aws",
            "capabilities",
            "credential_file",
            "gateway_oauth",
            "location",
            "model_catalog_url",
            "project_id",
            "supports_standalone_web_search",
            "supports_websockets",
            "websocket_connect_timeout_ms",
        ],
    ),
    (
        "mcp_servers.*",
        &[
            "auth",
            "bearer_token_env_var",
            "env_http_headers",
            "http_headers",
            "http_headers_helper",
            "oauth",
            "oauth_resource",
            "omit_tools_from",
            "scopes",
            "startup_readiness",
            "supports_parallel_tool_calls",
            "tool_input_schema_max_bytes",
        ],
    ),
    ("shell_environment_policy", &["experimental_use_profile"]),
];

/// Reads a file's text into a table, and checks that it says what a configuration may say.
///
/// `shown` names the text in messages.
pub fn parse_config(
    text: &str,
    shown: &str,
) -> Result<(toml::Table, Vec<ConfigNote>), ConfigError> {
    let located = |error: &toml::de::Error| locate(error, text, shown);
    let table: toml::Table = toml::from_str(text).map_err(|error| located(&error))?;
    let parsed = toml::Deserializer::parse(text).map_err(|error| located(&error))?;
    let mut unknown = Vec::new();
    let _: ConfigToml =
        serde_ignored::deserialize(parsed, |path| unknown.push(path_segments(&path)))
            .map_err(|error| name_key(located(&error), text))?;
    Ok((table, build_notes(&unknown, shown)))
}

/// Reads a table made of flags or variables.
pub fn parse_table(
    table: &toml::Table,
    shown: &str,
) -> Result<(ConfigToml, Vec<ConfigNote>), ConfigError> {
    let mut unknown = Vec::new();
    let config = serde_ignored::deserialize(toml::Value::Table(table.clone()), |path| {
        unknown.push(path_segments(&path));
    })
    .map_err(|error: toml::de::Error| ConfigError::Value {
        key: shown.to_owned(),
        message: one_line(&error.to_string()),
        hint: Some("correct it there, or leave it out for the default".to_owned()),
    })?;
    Ok((config, build_notes(&unknown, shown)))
}

/// Returns the closest known top-level key, for a key that is not one.
pub fn suggest_key(key: &str) -> Option<&'static str> {
    closest(key, field_names::<ConfigToml>().iter().copied())
}

/// Returns whether a top-level key is one of ours.
pub fn is_known_key(key: &str) -> bool {
    field_names::<ConfigToml>().contains(&key)
}

/// Returns a message on one line: the parser puts where it was on lines of its own.
fn one_line(message: &str) -> String {
    let lines = message.split('\n').map(str::trim).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join(" ");
    // A type's name in Rust says nothing to who wrote the file.
    joined
        .replace("expected u32", "a whole number is wanted")
        .replace("expected u64", "a whole number is wanted")
}

fn locate(error: &toml::de::Error, text: &str, shown: &str) -> ConfigError {
    let offset = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let on_line = before.get(line_start..).unwrap_or_default();
    let column = String::from_utf8_lossy(on_line).chars().count() + 1;
    ConfigError::Toml { file: shown.to_owned(), line, column, message: one_line(error.message()) }
}

/// Puts the setting before the message: which value has the wrong type is not in it.
fn name_key(error: ConfigError, text: &str) -> ConfigError {
    let ConfigError::Toml { file, line, column, message } = error else { return error };
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let key = text
        .lines()
        .nth(line - 1)
        .and_then(|line| line.split_once('='))
        .map(|(key, _)| key.trim())
        .filter(|key| !key.is_empty() && key.chars().all(is_key));
    let message = match key {
        Some(key) => format!("{key}: {message}"),
        None => message,
    };
    ConfigError::Toml { file, line, column, message }
}

fn path_segments(path: &serde_ignored::Path<'_>) -> Vec<String> {
    use serde_ignored::Path;
    match path {
        Path::Root => Vec::new(),
        Path::Seq { parent, index } => {
            let mut segments = path_segments(parent);
            segments.push(index.to_string());
            segments
        }
        Path::Map { parent, key } => {
            let mut segments = path_segments(parent);
            segments.push(key.clone());
            segments
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => path_segments(parent),
    }
}

fn build_notes(unknown: &[Vec<String>], shown: &str) -> Vec<ConfigNote> {
    let mut notes = Vec::new();
    let mut without_effect = Vec::new();
    for segments in unknown {
        let [first, rest @ ..] = segments.as_slice() else { continue };
        if has_effect_in_codex(segments) {
            without_effect.push(show_key(segments));
        } else if !CODEX_KEYS.contains(&first.as_str()) && !is_codex_nested(first, rest) {
            notes.push(build_unknown_note(segments, shown));
        }
    }
    if !without_effect.is_empty() {
        without_effect.dedup();
        notes.push(ConfigNote {
            message: format!("{shown}: no effect in Gimlet: {}", without_effect.join(", ")),
            hint: None,
        });
    }
    notes
}

fn has_effect_in_codex(segments: &[String]) -> bool {
    CODEX_KEYS_WITH_EFFECT.iter().any(|key| {
        let same = |(part, segment): (&&str, &String)| *part == "*" || *part == segment;
        key.len() == segments.len() && key.iter().zip(segments).all(same)
    })
}

fn is_codex_nested(first: &str, rest: &[String]) -> bool {
    CODEX_NESTED_KEYS.iter().any(|(place, keys)| {
        let key = match place.strip_suffix(".*") {
            Some(table) if table == first => rest.get(1),
            None if *place == first => rest.first(),
            Some(_) | None => None,
        };
        key.is_some_and(|key| keys.contains(&key.as_str()))
    })
}

fn build_unknown_note(segments: &[String], shown: &str) -> ConfigNote {
    let known = match segments {
        [_] => field_names::<ConfigToml>(),
        [table, _] if table == "snapshots" => field_names::<SnapshotsToml>(),
        [table, _] if table == "sandbox_workspace_write" => field_names::<WorkspaceWriteToml>(),
        [table, _] if table == "sandbox_limits" => field_names::<SandboxLimitsToml>(),
        [table, _] if table == "shell_environment_policy" => field_names::<ShellEnvironmentToml>(),
        [table, _, _] if table == "model_providers" => field_names::<ProviderToml>(),
        [table, _, _] if table == "mcp_servers" => field_names::<McpServerToml>(),
        [table, _, _] if table == "projects" => field_names::<ProjectToml>(),
        _ => &[],
    };
    let last = segments.last().map_or("", String::as_str);
    ConfigNote {
        message: format!("{shown}: unknown key `{}`", show_key(segments)),
        hint: closest(last, known.iter().copied()).map(|name| format!("did you mean `{name}`?")),
    }
}

/// Returns a dotted key as it would be written, segments quoted where they must be.
pub fn show_key(segments: &[String]) -> String {
    let shown: Vec<String> = segments
        .iter()
        .map(|segment| {
            let bare = !segment.is_empty()
                && segment.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            if bare { segment.clone() } else { format!("{segment:?}") }
        })
        .collect();
    shown.join(".")
}

/// Returns the field names a struct asks its deserializer for, so that suggestions cannot
/// drift from what is read.
fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The probe always ends in an error; the names are what is wanted.
    drop(T::deserialize(FieldProbe { names: &mut names }));
    names
}

struct FieldProbe<'a> {
    names: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for FieldProbe<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("only structs are asked"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.names = fields;
        Err(serde::de::Error::custom("the names are known now"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
        ignored_any
    }
}

impl EnvVarToml {
    /// Returns the variable's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Table { name, .. } => name,
        }
    }
}

impl<'de> Deserialize<'de> for ApprovalToml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ApprovalVisitor)
    }
}

struct ApprovalVisitor;

impl<'de> Visitor<'de> for ApprovalVisitor {
    type Value = ApprovalToml;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"untrusted\", \"on-request\", \"on-failure\" or \"never\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let named = serde::de::value::StrDeserializer::<E>::new(text);
        ApprovalPolicy::deserialize(named).map(ApprovalToml::Named)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        // Read as values, not skipped: what is skipped is reported as unknown.
        while map.next_entry::<String, toml::Value>()?.is_some() {}
        Ok(ApprovalToml::Granular)
    }
}
