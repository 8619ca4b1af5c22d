//! `gimlet config`: which settings hold, who set them, and which files were looked at.
//!
//! Shows and changes nothing. Values that are secrets are never shown.

use std::path::Path;

use toml::Value;

use crate::cli::args::{ConfigArgs, ConfigCommand, SettingsArgs};
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{report_error, write_err, write_out};
use crate::cli::settings::load_settings;
use crate::config::ConfigNote;
use crate::config::file::{is_known_key, suggest_key};
use crate::config::layers::{Explanation, Source, parse_key};
use crate::config::load::{FileUse, Loaded};
use crate::text::ansi::visible_line;

/// Runs `gimlet config`.
pub(crate) fn run(args: &ConfigArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let loaded = match load_settings(settings, false) {
        Ok(loaded) => loaded,
        Err(error) => {
            report_error(&error.to_string(), error.hint().as_deref());
            return Ok(ExitCode::Usage);
        }
    };
    match &args.command {
        ConfigCommand::Explain { key } => explain(&loaded, key),
        ConfigCommand::Path => show_paths(&loaded),
    }
}

/// Writes what was odd to stderr.
pub(crate) fn report_notes(notes: &[ConfigNote]) -> std::io::Result<()> {
    for note in notes {
        write_err(&format!("note: {}", visible_line(&note.message)))?;
        if let Some(hint) = &note.hint {
            write_err(&format!("  hint: {}", visible_line(hint)))?;
        }
    }
    Ok(())
}

fn explain(loaded: &Loaded, key: &str) -> anyhow::Result<ExitCode> {
    report_notes(&loaded.resolved.config.notes)?;
    let explanations = loaded.resolved.explain(key);
    if explanations.is_empty() {
        let segments = parse_key(key).unwrap_or_default();
        let top = segments.first().map_or(key, String::as_str);
        if is_known_key(top) {
            write_out(&format!("{} is not set", visible_line(key)))?;
            return Ok(ExitCode::Done);
        }
        let message = format!("there is no setting `{}`", visible_line(key));
        let hint = match suggest_key(top) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "keys are named as in config.toml, for example: model".to_owned(),
        };
        report_error(&message, Some(&hint));
        return Ok(ExitCode::Usage);
    }
    for explanation in &explanations {
        for line in render_explanation(explanation) {
            write_out(&line)?;
        }
    }
    Ok(ExitCode::Done)
}

fn render_explanation(explanation: &Explanation) -> Vec<String> {
    let key = visible_line(&explanation.key);
    let shown = |value: &Value| show_value(&explanation.key, value);
    let mut lines = vec![
        format!("{key} = {}", shown(&explanation.value)),
        format!("  set by     {}", show_source(&explanation.winner)),
    ];
    lines.extend(
        explanation.losers.iter().map(|(source, value)| {
            format!("  over       {}: {}", show_source(source), shown(value))
        }),
    );
    lines
}

fn show_source(source: &Source) -> String {
    visible_line(&source.to_string()).into_owned()
}

/// Returns a value as it would be written, or that it is hidden.
fn show_value(key: &str, value: &Value) -> String {
    let holds_secrets = key.ends_with("experimental_bearer_token")
        || key.contains(".http_headers")
        || key.contains(".query_params")
        || key.contains(".env.")
        || key.ends_with(".env")
        || key.starts_with("shell_environment_policy.set");
    if holds_secrets {
        "(hidden)".to_owned()
    } else {
        visible_line(&value.to_string()).into_owned()
    }
}

fn show_paths(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let directories = &loaded.resolved.config.directories;
    let shown = |path: &Path| visible_line(&path.display().to_string()).into_owned();
    write_out(&format!("config  {}", shown(&directories.config)))?;
    write_out(&format!("state   {}", shown(&directories.state)))?;
    write_out("files, strongest first:")?;
    for (path, file_use) in &loaded.files {
        let what = match file_use {
            FileUse::Read => "read",
            FileUse::Absent => "none",
            FileUse::Untrusted => "not trusted",
        };
        write_out(&format!("  {}  ({what})", shown(path)))?;
    }
    Ok(ExitCode::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_shown() {
        let value = Value::String("sk-1".into());
        let table = [
            ("model", "\"sk-1\""),
            ("model_providers.x.experimental_bearer_token", "(hidden)"),
            ("model_providers.x.http_headers.authorization", "(hidden)"),
            ("mcp_servers.x.env.TOKEN", "(hidden)"),
            ("mcp_servers.x.env_vars", "\"sk-1\""),
            ("shell_environment_policy.set.A", "(hidden)"),
        ];
        for (key, shown) in table {
            assert_eq!(show_value(key, &value), shown, "{key}");
        }
    }
}
