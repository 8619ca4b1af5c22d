//! `gimlet undo` and `gimlet redo`: take a turn's file changes back, or forward again.
//!
//! What is taken back, and what stands in the way, is `agent/restore.rs`; here is how it is
//! asked for and told. Called by `cli/mod.rs`.

use std::path::Path;
use std::path::PathBuf;

use serde_json::json;

use crate::agent::restore;
use crate::agent::restore::RestoreReport;
use crate::agent::restore::RestoreRequest;
use crate::agent::restore::UndoError;
use crate::agent::restore::shown_path;
use crate::cli::args::RedoArgs;
use crate::cli::args::SettingsArgs;
use crate::cli::args::UndoArgs;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::report_error;
use crate::cli::out::write_err;
use crate::cli::out::write_out;
use crate::cli::settings::load_settings;
use crate::protocol::ChangeKind;
use crate::protocol::FileChange;
use crate::protocol::RestoreDirection;
use crate::protocol::SessionId;
use crate::protocol::TurnId;
use crate::store::snapshot::Force;

/// Paths that are listed; `--json` lists them all.
const PATHS_SHOWN: usize = 20;

/// Runs `gimlet undo`.
pub(crate) fn run(args: &UndoArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    run_restore(args.turn, RestoreDirection::Undo, &args.how, settings)
}

/// Runs `gimlet redo`.
pub(crate) fn run_redo(args: &RedoArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    run_restore(None, RestoreDirection::Redo, args, settings)
}

fn run_restore(
    turn: Option<u32>,
    direction: RestoreDirection,
    how: &RedoArgs,
    settings: &SettingsArgs,
) -> anyhow::Result<ExitCode> {
    let config = load_settings(settings, false)?.resolved.config;
    let request = RestoreRequest {
        session: parse_session(how.session.as_deref())?,
        turn: turn.map(TurnId),
        direction,
        force: if how.force { Force::Yes } else { Force::No },
        dry_run: how.dry_run,
    };
    let cwd = &config.cwd;
    match restore::restore(&config, &request) {
        Ok(report) if how.json => write_out(&render_json(&report, &request).to_string())?,
        Ok(report) => tell(&report, &request, cwd)?,
        Err(error) => return refuse(&error, how.json, cwd),
    }
    Ok(ExitCode::Done)
}

/// Reads a session's id.
pub(crate) fn parse_session(text: Option<&str>) -> anyhow::Result<Option<SessionId>> {
    let Some(text) = text else { return Ok(None) };
    let id = SessionId::parse(text);
    let bad = || crate::cli::commands::exec::ResumeError::BadId(text.to_owned());
    Ok(Some(id.ok_or_else(bad)?))
}

/// Says why nothing was done.
pub(crate) fn refuse(error: &UndoError, as_json: bool, cwd: &Path) -> anyhow::Result<ExitCode> {
    let none: &[PathBuf] = &[];
    let conflicts = if let UndoError::Conflicts(paths) = error { paths } else { none };
    if as_json {
        let paths: Vec<_> = conflicts.iter().map(|path| path.to_string_lossy()).collect();
        let body = json!({
            "ok": false,
            "error": {"message": error.to_string(), "hint": error.hint()},
            "conflicts": paths,
        });
        write_out(&body.to_string())?;
        return Ok(ExitCode::Failed);
    }
    let shown: Vec<String> = conflicts.iter().map(|path| shown_path(path, cwd)).collect();
    for line in shorten(&shown) {
        write_err(&format!("  {line}"))?;
    }
    report_error(&error.to_string(), error.hint());
    Ok(ExitCode::Failed)
}

fn tell(report: &RestoreReport, request: &RestoreRequest, cwd: &Path) -> anyhow::Result<()> {
    for line in report.recovered.iter().chain(&report.notes) {
        write_err(&format!("note: {line}"))?;
    }
    if report.is_cut_off {
        let note = "note: a call of that turn never ended; all that changed since counts as its";
        write_err(note)?;
    }
    let verb = match (request.dry_run, report.direction) {
        (false, RestoreDirection::Undo) => "Undid",
        (false, RestoreDirection::Redo) => "Redid",
        (true, RestoreDirection::Undo) => "Would undo",
        (true, RestoreDirection::Redo) => "Would redo",
    };
    let count = report.changes.len();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    write_out(&format!("{verb} turn {}: {files}.", report.turn))?;
    let line = |change: &FileChange| {
        let word = match change.kind {
            ChangeKind::Add | ChangeKind::Update => "restored",
            ChangeKind::Delete => "removed ",
        };
        format!("{word}  {}", shown_path(&change.path, cwd))
    };
    let lines: Vec<String> = report.changes.iter().map(line).collect();
    for line in shorten(&lines) {
        write_out(&format!("  {line}"))?;
    }
    if !report.left.is_empty() {
        write_out("Left as they are:")?;
        let line = |(path, why): &(PathBuf, String)| format!("{}: {why}", shown_path(path, cwd));
        let lines: Vec<String> = report.left.iter().map(line).collect();
        for line in shorten(&lines) {
            write_out(&format!("  {line}"))?;
        }
    }
    if !request.dry_run && report.direction == RestoreDirection::Undo && count > 0 {
        write_out("`gimlet redo` brings the changes back.")?;
    }
    Ok(())
}

fn render_json(report: &RestoreReport, request: &RestoreRequest) -> serde_json::Value {
    let change = |change: &FileChange| json!({"path": change.path, "kind": change.kind});
    let left =
        |(path, why): &(PathBuf, String)| json!({"path": path.to_string_lossy(), "reason": why});
    json!({
        "ok": true,
        "session": report.session,
        "turn": report.turn,
        "direction": report.direction,
        "dry_run": request.dry_run,
        "changes": report.changes.iter().map(change).collect::<Vec<_>>(),
        "left": report.left.iter().map(left).collect::<Vec<_>>(),
        "cut_off": report.is_cut_off,
        "recovered": report.recovered,
        "notes": report.notes,
    })
}

/// Returns the first lines, and how many more there are.
fn shorten(lines: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = lines.iter().take(PATHS_SHOWN).cloned().collect();
    if let more @ 1.. = lines.len().saturating_sub(PATHS_SHOWN) {
        shown.push(format!("… {more} more"));
    }
    shown
}
