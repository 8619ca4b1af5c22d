//! Trust: which projects' own configuration acts, by real path and by content.
//!
//! Trust is given to what was read, not to a place: when a file of the written list changes,
//! it is gone. Reads `trust.json` and those files; it does not know what they mean. Called
//! by `load.rs` and by `gimlet trust`, which writes the list.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::ConfigError;
use crate::text::hex::encode_hex;

/// The files of a project that can run something or change what is confined. A file that
/// comes to act for a project must be named here first.
pub const ACTING_FILES: &[&str] = &[".gimlet/config.toml", RULES_FILE];

/// A project's rules, below its root.
pub const RULES_FILE: &str = ".gimlet/rules.toml";

/// What other agents, or other versions of this one, act on in a project. It does nothing here,
/// and who relies on it is told so.
pub const UNREAD_FILES: &[&str] = &[
    ".agents",
    ".claude/settings.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".codex/rules",
    ".cursor/mcp.json",
    ".gimlet/agents",
    ".gimlet/commands",
    ".gimlet/hooks",
    ".gimlet/hooks.toml",
    ".gimlet/rules.toml",
    ".gimlet/skills",
    ".mcp.json",
];

/// A configuration larger than this is no configuration.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A project's acting files, as read once: what is hashed is what is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectContent {
    /// The project's root, absolute and real.
    pub root: PathBuf,
    /// Name below the root and content, in the order of `ACTING_FILES`.
    pub files: Vec<(&'static str, String)>,
    /// Files of the project that the acting ones name, such as a server's script, and the
    /// SHA-256 (hex) of each: what they run is part of what was trusted.
    pub named: Vec<(String, String)>,
}

/// What the user decided about a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It is trusted with this content.
    Trusted,
    /// It was trusted with other content.
    Changed,
    /// Nothing was decided.
    Unknown,
}

/// `trust.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustList {
    /// The projects, by path.
    #[serde(default)]
    pub projects: Vec<TrustedProject>,
}

/// A project that was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProject {
    /// Its root, absolute and real.
    pub path: PathBuf,
    /// SHA-256 (hex) of its acting files.
    pub content_hash: String,
}

impl ProjectContent {
    /// Returns the SHA-256 (hex) of the files: names, lengths and bytes.
    pub fn content_hash(&self) -> String {
        let mut hash = Sha256::new();
        for (name, text) in &self.files {
            hash.update(format!("{name}\0{}\0", text.len()));
            hash.update(text.as_bytes());
        }
        for (name, file_hash) in &self.named {
            hash.update(format!("{name}\0{file_hash}\0"));
        }
        encode_hex(&hash.finalize())
    }

    /// Returns a file's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|(file, _)| *file == name).map(|(_, text)| text.as_str())
    }
}

impl TrustList {
    /// Returns what was decided about a project with this content.
    pub fn judge(&self, content: &ProjectContent) -> Trust {
        match self.projects.iter().find(|project| project.path == content.root) {
            Some(project) if project.content_hash == content.content_hash() => Trust::Trusted,
            Some(_) => Trust::Changed,
            None => Trust::Unknown,
        }
    }

    /// Trusts a project with this content.
    pub fn trust(&mut self, content: &ProjectContent) {
        self.revoke(&content.root);
        self.projects.push(TrustedProject {
            path: content.root.clone(),
            content_hash: content.content_hash(),
        });
        self.projects.sort_by(|left, right| left.path.cmp(&right.path));
    }

    /// Takes trust away, and returns whether there was any.
    pub fn revoke(&mut self, root: &Path) -> bool {
        let before = self.projects.len();
        self.projects.retain(|project| project.path != root);
        self.projects.len() < before
    }
}

/// Reads the acting files of the project at `root`, which must be a real path. A file that is
/// no regular file inside the project is an error: it could change without the hash changing.
pub fn load_project(root: &Path) -> Result<ProjectContent, ConfigError> {
    let mut files = Vec::new();
    for name in ACTING_FILES {
        let path = root.join(name);
        let real = match std::fs::canonicalize(&path) {
            Ok(real) => real,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(file_error("read", &path, &error)),
        };
        if !real.starts_with(root) {
            return Err(ConfigError::File {
                action: "read",
                path,
                message: "it leads out of the project".to_owned(),
            });
        }
        if let Some(text) = load_text(&real)? {
            files.push((*name, text));
        }
    }
    let named = hash_named_files(root, files.iter().map(|(_, text)| text.as_str()))?;
    Ok(ProjectContent { root: root.to_path_buf(), files, named })
}

/// Texts of acting files that are tried as names; more are no configuration.
const TEXTS_MAX: usize = 1000;
/// Directories among them in which the others are looked for.
const BASES_MAX: usize = 16;
/// Bytes of all named files: hashing them must not hold up the start.
const NAMED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Hashes each file inside the project that a text of the acting files names.
fn hash_named_files<'a>(
    root: &Path,
    files: impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let mut texts = Vec::new();
    for table in files.filter_map(|text| text.parse::<toml::Table>().ok()) {
        collect_texts(&toml::Value::Table(table), &mut texts);
    }
    texts.truncate(TEXTS_MAX);
    let inside = |base: &Path, text: &str| {
        let real = std::fs::canonicalize(base.join(text)).ok()?;
        real.starts_with(root).then_some(real)
    };
    // A server may start in a directory of its own.
    let bases: Vec<PathBuf> = std::iter::once(root.to_path_buf())
        .chain(texts.iter().filter_map(|text| inside(root, text)).filter(|path| path.is_dir()))
        .take(BASES_MAX)
        .collect();
    let mut bytes_left = NAMED_BYTES_MAX;
    let mut named = BTreeMap::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        for path in bases.iter().filter_map(|base| inside(base, text)) {
            if path.is_file() {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                named.insert(name, hash_file(&path, &mut bytes_left)?);
            }
        }
    }
    Ok(named.into_iter().collect())
}

fn collect_texts(value: &toml::Value, texts: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => texts.push(text.clone()),
        toml::Value::Array(values) => {
            values.iter().for_each(|value| collect_texts(value, texts));
        }
        toml::Value::Table(table) => {
            table.iter().for_each(|(_, value)| collect_texts(value, texts));
        }
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

fn hash_file(path: &Path, bytes_left: &mut u64) -> Result<String, ConfigError> {
    let failed = |error: std::io::Error| file_error("read", path, &error);
    let mut file = std::fs::File::open(path).map_err(failed)?.take(*bytes_left + 1);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        hash.update(buffer.get(..count).unwrap_or_default());
        bytes += count as u64;
    }
    *bytes_left = bytes_left.checked_sub(bytes).ok_or_else(|| ConfigError::File {
        action: "read",
        path: path.to_path_buf(),
        message: "the project's configuration names it, and what it names is over 64 MiB"
            .to_owned(),
    })?;
    Ok(encode_hex(&hash.finalize()))
}

/// Returns what a project holds for other agents. Only names are looked at.
pub fn find_unread(root: &Path) -> Vec<&'static str> {
    let is_there = |name: &&str| {
        !ACTING_FILES.contains(name) && std::fs::symlink_metadata(root.join(name)).is_ok()
    };
    UNREAD_FILES.iter().filter(|name| is_there(name)).copied().collect()
}

/// Reads a small text file; `None` when there is none.
pub fn load_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let refuse = |message: &str| ConfigError::File {
        action: "read",
        path: path.to_path_buf(),
        message: message.to_owned(),
    };
    // Asked before opening: opening a FIFO would wait for a writer.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(refuse("it is not a regular file")),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(file_error("read", path, &error)),
    }
    let file = std::fs::File::open(path).map_err(|error| file_error("read", path, &error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| file_error("read", path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refuse("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| refuse("it is not UTF-8 text"))
}

/// Reads the list of trusted projects. A list that cannot be read trusts nothing.
pub fn load_trust_list(state: &Path) -> Result<TrustList, ConfigError> {
    let path = trust_path(state);
    let Some(text) = load_text(&path)? else { return Ok(TrustList::default()) };
    serde_json::from_str(&text).map_err(|error| ConfigError::File {
        action: "read",
        path,
        message: error.to_string(),
    })
}

/// Returns where the list of trusted projects is.
pub fn trust_path(state: &Path) -> PathBuf {
    state.join("trust.json")
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn file_error(action: &'static str, path: &Path, error: &std::io::Error) -> ConfigError {
    ConfigError::File { action, path: path.to_path_buf(), message: error.to_string() }
}
