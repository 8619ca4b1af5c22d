//! Layers: tables that say what one place wants, strongest first, and who won.
//!
//! Knows keys and values, not what they mean; it reads no file and no variable. A stronger
//! layer replaces single keys of a weaker one, arrays and strings as a whole. Called by
//! `load.rs` to make layers, by `resolve.rs` to merge them, by `cli` to explain them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};

use crate::config::file;
use crate::config::{ConfigError, ConfigNote};

/// Where a layer comes from. Ordered as strength: earlier wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Flags and `-c`.
    CommandLine,
    /// Variables.
    Environment,
    /// A trusted project's file.
    Project(PathBuf),
    /// A profile's file.
    Profile(PathBuf),
    /// The user's file.
    User(PathBuf),
    /// What is built in.
    Default,
}

/// What one place wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// The place.
    pub source: Source,
    /// What relative paths in it start from.
    pub base: PathBuf,
    /// What it wants.
    pub table: Table,
}

/// Who set one key, and who lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The dotted key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Who set it.
    pub winner: Source,
    /// Who else did, strongest first.
    pub losers: Vec<(Source, Value)>,
}

/// One `-c KEY=VALUE`, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// The key's segments, at least one.
    pub segments: Vec<String>,
    /// The value: TOML where it parses, else the text itself.
    pub value: Value,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment => f.write_str("environment"),
            Self::Project(path) => write!(f, "project {}", path.display()),
            Self::Profile(path) => write!(f, "profile {}", path.display()),
            Self::User(path) => write!(f, "user {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Reads `KEY=VALUE` as `-c` takes it.
pub fn parse_override(text: &str) -> Result<Override, ConfigError> {
    let malformed = || ConfigError::Override { text: text.to_owned() };
    let (key, value) = text.split_once('=').ok_or_else(malformed)?;
    let segments = parse_key(key.trim()).ok_or_else(malformed)?;
    Ok(Override { segments, value: parse_value(value.trim()) })
}

/// Keys are cut off here: a deeper one is no setting, and tables of tables are walked
/// recursively.
const KEY_SEGMENTS_MAX: usize = 16;

/// Reads a dotted key, segments quoted or not; `None` when it is none.
pub fn parse_key(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '\r', '=']) {
        return None;
    }
    let mut value = Value::Table(toml::from_str::<Table>(&format!("{key} = 0")).ok()?);
    let mut segments = Vec::new();
    while let Value::Table(table) = value {
        let (segment, inner) = table.into_iter().next()?;
        segments.push(segment);
        value = inner;
    }
    (!segments.is_empty() && segments.len() <= KEY_SEGMENTS_MAX).then_some(segments)
}

/// Reads a value: TOML where it parses, else the text itself.
pub fn parse_value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}"));
    match parsed {
        // More than one key means that the text broke out of the value with a newline.
        Ok(mut table) if table.len() == 1 => {
            table.remove("value").unwrap_or_else(|| Value::String(text.to_owned()))
        }
        Ok(_) | Err(_) => Value::String(text.to_owned()),
    }
}

/// Sets one key in a table, making the tables on the way.
pub fn set_key(table: &mut Table, segments: &[String], value: Value) {
    let Some((first, rest)) = segments.split_first() else { return };
    if rest.is_empty() {
        match (table.get_mut(first), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge_table(old, new),
            (_, value) => {
                table.insert(first.clone(), value);
            }
        }
        return;
    }
    let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    if !inner.is_table() {
        *inner = Value::Table(Table::new());
    }
    if let Value::Table(inner) = inner {
        set_key(inner, rest, value);
    }
}

/// Reads variables of the form `GIMLET_<KEY>`, `__` standing for a dot, and `OPENAI_BASE_URL`.
pub fn build_environment_table(env: &BTreeMap<String, String>) -> (Table, Vec<ConfigNote>) {
    let mut table = Table::new();
    let mut notes = Vec::new();
    if let Some(url) = env.get("OPENAI_BASE_URL").filter(|url| !url.trim().is_empty()) {
        table.insert("openai_base_url".to_owned(), Value::String(url.trim().to_owned()));
    }
    for (name, value) in env {
        let Some(key) = name.strip_prefix("GIMLET_") else { continue };
        if RESERVED_VARIABLES.contains(&name.as_str()) || value.trim().is_empty() {
            continue;
        }
        let segments: Vec<String> = key.split("__").map(str::to_ascii_lowercase).collect();
        let top = segments.first().map_or("", String::as_str);
        if file::is_known_key(top) && segments.len() <= KEY_SEGMENTS_MAX {
            set_key(&mut table, &segments, parse_value(value.trim()));
        } else {
            notes.push(ConfigNote {
                message: format!("environment: {name} names no setting"),
                hint: file::suggest_key(top)
                    .map(|key| format!("did you mean `GIMLET_{}`?", key.to_ascii_uppercase())),
            });
        }
    }
    (table, notes)
}

/// Variables that begin as settings do and are none.
const RESERVED_VARIABLES: &[&str] = &["GIMLET_API_KEY", "GIMLET_HOME", "GIMLET_LOG"];

/// Merges layers, given strongest first.
pub fn merge_layers(layers: &[Layer]) -> Table {
    let mut merged = Table::new();
    for layer in layers.iter().rev() {
        merge_table(&mut merged, layer.table.clone());
    }
    merged
}

fn merge_table(weaker: &mut Table, stronger: Table) {
    for (key, value) in stronger {
        match (weaker.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge_table(old, new),
            (_, value) => {
                weaker.insert(key, value);
            }
        }
    }
}

/// Says who set a key; a table's key gives one explanation for each key below it.
pub fn explain_key(layers: &[Layer], key: &str) -> Vec<Explanation> {
    let Some(segments) = parse_key(key) else { return Vec::new() };
    let merged = Value::Table(merge_layers(layers));
    let Some(value) = look_up(&merged, &segments) else { return Vec::new() };
    let mut leaves = Vec::new();
    collect_leaves(&segments, value, &mut leaves);
    leaves
        .into_iter()
        .filter_map(|(segments, value)| explain_leaf(layers, &segments, value))
        .collect()
}

fn explain_leaf(layers: &[Layer], segments: &[String], value: &Value) -> Option<Explanation> {
    let mut said = layers.iter().filter_map(|layer| {
        let table = Value::Table(layer.table.clone());
        Some((layer.source.clone(), look_up(&table, segments)?.clone()))
    });
    let (winner, _) = said.next()?;
    Some(Explanation {
        key: file::show_key(segments),
        value: value.clone(),
        winner,
        losers: said.collect(),
    })
}

fn look_up<'a>(value: &'a Value, segments: &[String]) -> Option<&'a Value> {
    segments.iter().try_fold(value, |value, segment| value.as_table()?.get(segment))
}

fn collect_leaves<'a>(
    segments: &[String],
    value: &'a Value,
    leaves: &mut Vec<(Vec<String>, &'a Value)>,
) {
    match value.as_table().filter(|table| !table.is_empty()) {
        Some(table) => {
            for (key, inner) in table {
                let mut below = segments.to_vec();
                below.push(key.clone());
                collect_leaves(&below, inner, leaves);
            }
        }
        None => leaves.push((segments.to_vec(), value)),
    }
}

/// Variables that make a program load or run something else, `*` standing for anything. Commands
/// never inherit them, and no project sets them.
pub const LOADING_VARIABLES: [&str; 10] = [
    "LD_*",
    "DYLD_*",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "BASH_FUNC_*",
    "PERL5OPT",
    "RUBYOPT",
];

/// Keys that a project never sets, trusted or not: they decide whom the user's key and words
/// are sent to, what the model is told before all else, what runs unasked, and how far the
/// sandbox reaches.
const NEVER_FROM_PROJECT: &[&str] = &[
    "chatgpt_base_url",
    "deny_read",
    "keys",
    "mask_secrets",
    "model_instructions_file",
    "model_provider",
    "model_providers",
    "notify",
    "openai_base_url",
    "otel",
    "projects",
    "sandbox_fallback",
    "sandbox_level_max",
    "sandbox_limits",
    "snapshots",
];

/// Takes out of a project's table what no project may set, and says so.
pub fn restrict_project(table: &mut Table, root: &Path) -> Vec<ConfigNote> {
    let mut ignored: Vec<String> = Vec::new();
    for key in NEVER_FROM_PROJECT {
        if table.remove(*key).is_some() {
            ignored.push((*key).to_owned());
        }
    }
    if table.get("sandbox_mode").and_then(Value::as_str) == Some("danger-full-access") {
        table.remove("sandbox_mode");
        ignored.push("sandbox_mode".to_owned());
    }
    restrict_secrets(table, &mut ignored);
    restrict_paths(table, root, &mut ignored);
    if ignored.is_empty() {
        return Vec::new();
    }
    vec![ConfigNote {
        message: format!("ignored, because a project cannot set it: {}", ignored.join(", ")),
        hint: Some("set it in your own config.toml if you want it".to_owned()),
    }]
}

fn restrict_secrets(table: &mut Table, ignored: &mut Vec<String>) {
    let Some(Value::Table(policy)) = table.get_mut("shell_environment_policy") else { return };
    if policy.remove("ignore_default_excludes").is_some() {
        ignored.push("shell_environment_policy.ignore_default_excludes".to_owned());
    }
    let Some(Value::Table(set)) = policy.get_mut("set") else { return };
    let loading: Vec<String> = set.keys().filter(|name| is_loading(name)).cloned().collect();
    for name in loading {
        set.remove(&name);
        ignored.push(format!(
            "shell_environment_policy.set.{}",
            file::show_key(std::slice::from_ref(&name))
        ));
    }
}

/// Git takes programs from its variables, too.
fn is_loading(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    LOADING_VARIABLES.iter().chain(&["GIT_*"]).any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    })
}

fn restrict_paths(table: &mut Table, root: &Path, ignored: &mut Vec<String>) {
    let is_inside = |value: &Value| {
        value.as_str().is_some_and(|path| {
            !path.starts_with('~') && normalize_path(&root.join(path)).starts_with(root)
        })
    };
    let Some(Value::Table(workspace)) = table.get_mut("sandbox_workspace_write") else { return };
    let Some(Value::Array(roots)) = workspace.get_mut("writable_roots") else { return };
    let before = roots.len();
    roots.retain(is_inside);
    if roots.len() < before {
        ignored.push("sandbox_workspace_write.writable_roots".to_owned());
    }
}

/// Makes a path of a configuration absolute: `~` is the home directory, the rest starts from
/// `base`. `.` and `..` are taken out as text.
pub fn resolve_path(text: &str, base: &Path, home: &Path) -> PathBuf {
    let path = match text.strip_prefix('~') {
        Some("") => home.to_path_buf(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        Some(_) | None => base.join(text),
    };
    normalize_path(&path)
}

fn normalize_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

/// Makes the paths of a layer's table absolute, so that they mean the same once merged.
pub fn resolve_table_paths(table: &mut Table, base: &Path, home: &Path) {
    let absolute = |value: &mut Value| {
        if let Value::String(text) = value {
            *text = resolve_path(text, base, home).to_string_lossy().into_owned();
        }
    };
    if let Some(value) = table.get_mut("model_instructions_file") {
        absolute(value);
    }
    if let Some(Value::Table(workspace)) = table.get_mut("sandbox_workspace_write")
        && let Some(Value::Array(roots)) = workspace.get_mut("writable_roots")
    {
        roots.iter_mut().for_each(absolute);
    }
    if let Some(Value::Array(paths)) = table.get_mut("deny_read") {
        paths.iter_mut().for_each(absolute);
    }
    let Some(Value::Table(servers)) = table.get_mut("mcp_servers") else { return };
    for (_, server) in servers.iter_mut() {
        if let Some(cwd) = server.get_mut("cwd") {
            absolute(cwd);
        }
    }
}
