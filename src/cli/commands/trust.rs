//! `gimlet trust`: lets a project's own configuration act, until it changes.
//!
//! Shows what would act before it stores anything. What trust means is `config/trust.rs`.

use std::path::Path;

use toml::{Table, Value};

use crate::cli::args::{SettingsArgs, TrustArgs};
use crate::cli::commands::config::report_notes;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{report_error, write_out};
use crate::cli::settings::{load_directories, load_settings};
use crate::config::ConfigError;
use crate::config::file::{parse_config, show_key};
use crate::config::layers::restrict_project;
use crate::config::trust::{
    ProjectContent, RULES_FILE, TrustList, load_project, load_trust_list, trust_path,
};
use crate::store::atomic::write_private;
use crate::text::ansi::visible_line;

/// Runs `gimlet trust`.
pub(crate) fn run(args: &TrustArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let outcome = if args.list { list() } else { change(args, settings) };
    match outcome {
        Ok(lines) => {
            for line in lines {
                write_out(&line)?;
            }
            Ok(ExitCode::Done)
        }
        Err(error) => {
            report_error(&error.to_string(), error.hint().as_deref());
            Ok(match error {
                ConfigError::File { .. } => ExitCode::Failed,
                ConfigError::Toml { .. }
                | ConfigError::Rules(_)
                | ConfigError::Value { .. }
                | ConfigError::Override { .. }
                | ConfigError::Profile { .. }
                | ConfigError::Directory { .. }
                | ConfigError::Home { .. } => ExitCode::Usage,
            })
        }
    }
}

fn list() -> Result<Vec<String>, ConfigError> {
    let projects = load_trust_list(&load_directories()?.state)?.projects;
    if projects.is_empty() {
        return Ok(vec!["You trust no project.".to_owned()]);
    }
    let shown = |path: &Path| visible_line(&path.display().to_string()).into_owned();
    Ok(projects.iter().map(|project| shown(&project.path)).collect())
}

fn change(args: &TrustArgs, settings: &SettingsArgs) -> Result<Vec<String>, ConfigError> {
    let mut settings = settings.clone();
    if args.dir.is_some() {
        settings.cd.clone_from(&args.dir);
    }
    let loaded = load_settings(&settings, true)?;
    let root = &loaded.project_root;
    let state = &loaded.resolved.config.directories.state;
    let mut trusted = load_trust_list(state)?;
    let shown_root = visible_line(&root.display().to_string()).into_owned();
    if args.revoke {
        let was_trusted = trusted.revoke(root);
        if was_trusted {
            save_list(state, &trusted)?;
        }
        let verb = if was_trusted { "No longer trusted" } else { "Was not trusted" };
        return Ok(vec![format!("{verb}: {shown_root}")]);
    }
    let content = load_project(root)?;
    let mut lines = render_content(&content, root)?;
    trusted.trust(&content);
    save_list(state, &trusted)?;
    lines.push(format!("Trusted: {shown_root}"));
    lines.push("A change to these files ends it; `gimlet trust --revoke` does too.".to_owned());
    Ok(lines)
}

/// Writes the list whole or not at all, readable by the user alone.
fn save_list(state: &Path, list: &TrustList) -> Result<(), ConfigError> {
    let path = trust_path(state);
    let save = || {
        let mut bytes = serde_json::to_vec_pretty(list)?;
        bytes.push(b'\n');
        write_private(&path, &bytes)
    };
    save().map_err(|error: std::io::Error| ConfigError::File {
        action: "write",
        path: path.clone(),
        message: error.to_string(),
    })
}

fn render_content(content: &ProjectContent, root: &Path) -> Result<Vec<String>, ConfigError> {
    if content.files.is_empty() {
        return Ok(vec!["The project has no configuration of its own.".to_owned()]);
    }
    let mut lines = Vec::new();
    for (name, text) in &content.files {
        if *name == RULES_FILE {
            lines.push(format!("{name} says:"));
            let shown = text.lines().filter(|line| !line.trim().is_empty());
            lines.extend(shown.map(|line| format!("  {}", visible_line(line))));
            continue;
        }
        let (mut table, notes) = parse_config(text, &root.join(name).display().to_string())?;
        let restricted = restrict_project(&mut table, root);
        lines.push(format!("{name} sets:"));
        render_table(&mut Vec::new(), &table, &mut lines);
        // Odd lines go to stderr; a stderr that is closed keeps nobody from trusting.
        let _ = report_notes(&notes);
        let _ = report_notes(&restricted);
    }
    for (name, hash) in &content.named {
        lines.push(visible_line(&format!("It names {name}, SHA-256 {hash}")).into_owned());
    }
    Ok(lines)
}

fn render_table(segments: &mut Vec<String>, table: &Table, lines: &mut Vec<String>) {
    for (key, value) in table {
        segments.push(key.clone());
        match value {
            Value::Table(inner) => render_table(segments, inner, lines),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => {
                // Shown whole: a variable of a server can run things as well as its command.
                let line = format!("  {} = {value}", show_key(segments));
                lines.push(visible_line(&line).into_owned());
            }
        }
        segments.pop();
    }
}
