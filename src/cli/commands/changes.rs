//! `gimlet changes`: what a turn changed, call by call, as a diff.
//!
//! Reads the session's log and the store of snapshots; changes nothing. Called by `cli/mod.rs`.

use std::io::IsTerminal as _;
use std::path::Path;

use serde_json::json;

use crate::agent::restore;
use crate::agent::restore::CallChanges;
use crate::agent::restore::TurnChanges;
use crate::agent::restore::shown_path;
use crate::cli::args::ChangesArgs;
use crate::cli::args::SettingsArgs;
use crate::cli::commands::undo::parse_session;
use crate::cli::commands::undo::refuse;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::write_out;
use crate::cli::settings::load_settings;
use crate::protocol::ChangeKind;
use crate::protocol::ChangeSource;
use crate::protocol::FileChange;
use crate::protocol::TurnId;
use crate::text::ansi::visible;
use crate::text::ansi::visible_line;

/// Runs `gimlet changes`.
pub(crate) fn run(args: &ChangesArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let config = load_settings(settings, false)?.resolved.config;
    let session = parse_session(args.session.as_deref())?;
    let changes = match restore::changes(&config, session, args.turn.map(TurnId)) {
        Ok(changes) => changes,
        Err(error) => return refuse(&error, args.json, &config.cwd),
    };
    if args.json {
        write_out(&render_json(&changes).to_string())?;
        return Ok(ExitCode::Done);
    }
    let is_terminal = std::io::stdout().is_terminal();
    for call in &changes.calls {
        write_out(&render_title(call, changes.turn))?;
        for change in &call.changes {
            let text =
                if args.stat { render_stat(change, &config.cwd) } else { change.diff.clone() };
            // A file's own bytes must not move the cursor; a pipe gets them as they are.
            let text = if is_terminal { visible(&text).into_owned() } else { text };
            write_out(text.trim_end_matches('\n'))?;
        }
    }
    Ok(ExitCode::Done)
}

fn render_title(call: &CallChanges, turn: TurnId) -> String {
    let by = word_of(call.call.by);
    let title = call.call.title.lines().next().unwrap_or_default();
    let end = if call.is_cut_off { " (it never ended)" } else { "" };
    let mut text = format!("# turn {turn}, {by}: {}{end}", visible_line(title));
    for other in &call.call.together_with {
        let other = other.lines().next().unwrap_or_default();
        text.push_str(&format!("\n#   at the same time: {}", visible_line(other)));
    }
    text
}

fn render_stat(change: &FileChange, cwd: &Path) -> String {
    let letter = match change.kind {
        ChangeKind::Add => 'A',
        ChangeKind::Delete => 'D',
        ChangeKind::Update => 'M',
    };
    let count = |sign: char, header: &str| {
        let counts = |line: &&str| line.starts_with(sign) && !line.starts_with(header);
        change.diff.lines().filter(counts).count()
    };
    let (added, removed) = (count('+', "+++ "), count('-', "--- "));
    format!("  {letter} {}  +{added} −{removed}", shown_path(&change.path, cwd))
}

fn render_json(changes: &TurnChanges) -> serde_json::Value {
    let call = |call: &CallChanges| {
        json!({
            "call_id": call.call.id,
            "by": call.call.by,
            "title": call.call.title,
            "together_with": call.call.together_with,
            "cut_off": call.is_cut_off,
            "changes": call.changes,
        })
    };
    json!({
        "session": changes.session,
        "turn": changes.turn,
        "calls": changes.calls.iter().map(call).collect::<Vec<_>>(),
    })
}

fn word_of(by: ChangeSource) -> &'static str {
    match by {
        ChangeSource::Patch => "patch",
        ChangeSource::Command => "command",
    }
}
