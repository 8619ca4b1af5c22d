//! Keys at rest: `auth.json` in the state directory, readable by the user alone.
//!
//! Written whole or not at all. A key never appears in a message, nor in `Debug`. Knows no
//! provider and no configuration. Called by `cli` alone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::store::atomic::write_private;

/// Longer than any key; a file that holds more is not ours.
const AUTH_BYTES_MAX: u64 = 64 * 1024;

/// A key that cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// The file or its directory cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what we wrote.
    #[error("{} does not hold a key", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// `auth.json`, with the key named as Codex names it.
#[derive(Serialize, Deserialize)]
struct AuthFile {
    #[serde(rename = "OPENAI_API_KEY")]
    key: Option<String>,
}

/// Returns the stored key, if there is one.
pub(crate) fn load_key(state: &Path) -> Result<Option<String>, SecretError> {
    let path = auth_path(state);
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(source) => return Err(SecretError::File { action: "read", path, source }),
    };
    if !metadata.is_file() || metadata.len() > AUTH_BYTES_MAX {
        return Err(SecretError::Damaged { path });
    }
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(SecretError::File { action: "read", path, source }),
    };
    match serde_json::from_slice::<AuthFile>(&bytes) {
        Ok(file) => Ok(file.key.filter(|key| !key.trim().is_empty())),
        Err(_) => Err(SecretError::Damaged { path }),
    }
}

/// Stores a key in place of an older one.
pub(crate) fn save_key(state: &Path, key: &str) -> Result<(), SecretError> {
    let path = auth_path(state);
    write_key(state, &path, key).map_err(|source| SecretError::File {
        action: "write",
        path,
        source,
    })
}

/// Deletes the stored key, and returns whether there was one.
pub(crate) fn delete_key(state: &Path) -> Result<bool, SecretError> {
    let path = auth_path(state);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(source) => Err(SecretError::File { action: "delete", path, source }),
    }
}

/// Returns where the key is stored.
pub(crate) fn auth_path(state: &Path) -> PathBuf {
    state.join("auth.json")
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn write_key(state: &Path, path: &Path, key: &str) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(&AuthFile { key: Some(key.to_owned()) })?;
    bytes.push(b'\n');
    // The directory may have been made before, more open than a key deserves.
    #[cfg(unix)]
    if state.is_dir() {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700))?;
    }
    write_private(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_a_round_trip_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("a/state");
        assert_eq!(load_key(&state).unwrap(), None);
        save_key(&state, "sk-first").unwrap();
        save_key(&state, "sk-second").unwrap();
        assert_eq!(load_key(&state).unwrap().as_deref(), Some("sk-second"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&auth_path(&state)), 0o600);
            assert_eq!(mode(&state), 0o700);
        }
        let names: Vec<_> = std::fs::read_dir(&state).unwrap().collect();
        assert_eq!(names.len(), 1, "no temporary file is left");
        assert!(delete_key(&state).unwrap());
        assert!(!delete_key(&state).unwrap());
        assert_eq!(load_key(&state).unwrap(), None);
    }

    #[test]
    fn a_damaged_file_is_named_without_its_content() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(auth_path(state.path()), "sk-secret-as-plain-text").unwrap();
        let error = load_key(state.path()).unwrap_err().to_string();
        assert!(error.contains("auth.json"), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
    }

    #[test]
    fn a_state_directory_that_is_a_file_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        std::fs::write(&state, "").unwrap();
        assert!(save_key(&state, "sk-x").is_err());
        assert!(load_key(&state).unwrap().is_none());
    }
}
