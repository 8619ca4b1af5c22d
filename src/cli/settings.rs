//! From flags to a configuration: the flags, the variables and the stored key, brought
//! together.
//!
//! The one place that hands the process's own variables and directory to `config`. Called by
//! `cli/mod.rs` and by subcommands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::cli::args::SettingsArgs;
use crate::config::load::{LoadInputs, Loaded, find_directories, load};
use crate::config::{ConfigError, ConfigNote, Directories};
use crate::store::secrets;

/// Reads all layers and resolves them.
pub(crate) fn load_settings(
    settings: &SettingsArgs,
    ephemeral: bool,
) -> Result<Loaded, ConfigError> {
    let env = read_environment();
    let directories = find_directories(&env)?;
    let mut notes = Vec::new();
    let stored_key = secrets::load_key(&directories.state).unwrap_or_else(|error| {
        notes.push(ConfigNote {
            message: error.to_string(),
            hint: Some("run `gimlet login` to store the key again".to_owned()),
        });
        None
    });
    load(LoadInputs {
        directories,
        flags: settings.overrides(),
        session: settings.session_flags(ephemeral),
        profile: settings.profile.clone(),
        cwd: settings.cd.clone(),
        process_cwd: current_directory()?,
        env,
        stored_key,
        notes,
    })
}

/// Finds where things live, for subcommands that need no more.
pub(crate) fn load_directories() -> Result<Directories, ConfigError> {
    find_directories(&read_environment())
}

/// Returns our variables. What is not UTF-8 is no setting and no key of ours.
fn read_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn current_directory() -> Result<PathBuf, ConfigError> {
    std::env::current_dir().map_err(|error| ConfigError::Directory {
        path: PathBuf::from("."),
        message: error.to_string(),
    })
}
