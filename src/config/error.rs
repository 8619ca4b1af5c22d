//! `ConfigError`: what keeps a configuration from being used, in one line and a hint.
//!
//! Knows no files and no layers. Made by all of `config`, shown by `cli`.

use std::path::PathBuf;

use crate::policy::RuleError;

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file's text is not a configuration.
    #[error("{file}:{line}:{column}: {message}")]
    Toml {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// Its column in characters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A setting's value cannot be used.
    #[error("{key}: {message}")]
    Value {
        /// The setting, or where it was given.
        key: String,
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// `-c` without `=`.
    #[error("`{text}` is not KEY=VALUE")]
    Override {
        /// What was given.
        text: String,
    },
    /// No such profile.
    #[error("there is no profile `{name}`")]
    Profile {
        /// Its name.
        name: String,
        /// The file that would hold it.
        file: PathBuf,
        /// The profiles that exist.
        existing: Vec<String>,
    },
    /// The directory to work in cannot be used.
    #[error("cannot use the directory {}: {message}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Neither a home directory nor `GIMLET_HOME`.
    #[error("no home directory is known: {message}")]
    Home {
        /// Why.
        message: String,
    },
    /// The user's own rules cannot be used.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {message}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl ConfigError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Toml { .. } => Some(
                "correct the file, or run `gimlet config path` to see which files are read".into(),
            ),
            Self::Value { hint, .. } => hint.clone(),
            Self::Override { .. } => Some("for example: -c model_reasoning_effort=high".into()),
            Self::Profile { file, existing, .. } if existing.is_empty() => {
                Some(format!("a profile is a file: {}", file.display()))
            }
            Self::Profile { existing, .. } => Some(format!("there are: {}", existing.join(", "))),
            Self::Directory { .. } => Some("name a directory that exists".into()),
            Self::Home { .. } => Some("set HOME, or GIMLET_HOME to an absolute path".into()),
            Self::Rules(error) => Some(error.hint.clone()),
            Self::File { action: "write", .. } => {
                Some("check its permissions and free space, or set GIMLET_HOME".into())
            }
            Self::File { .. } => Some("check its permissions, or set GIMLET_HOME".into()),
        }
    }
}
