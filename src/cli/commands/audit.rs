//! `gimlet audit`: who ran what in a session, under which policy, and whether its log is whole.
//!
//! Reads session files and changes nothing. What a record holds is `audit_report.rs`, what
//! makes a log whole `store/chain.rs`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::args::{AuditArgs, AuditCommand, AuditVerifyArgs};
use crate::cli::commands::audit_report::AuditReport;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{report_error, write_err, write_out};
use crate::cli::settings::load_directories;
use crate::frontend::exec::encode_line;
use crate::protocol::{Event, SessionId};
use crate::store::chain::{Chain, walk};
use crate::store::session_file;
use crate::text::ansi::visible_line;

/// A beginning of an id that is shorter names nothing.
const PREFIX_BYTES_MIN: usize = 4;
/// Sessions that are named when a beginning fits several.
const CANDIDATES_SHOWN: usize = 5;
/// Faults of one file that are printed.
const FAULTS_SHOWN: usize = 20;

/// A session that cannot be found or read.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("there is no session yet")]
    None,
    #[error("there is no session {0}")]
    NotFound(String),
    #[error("{0} is too short: give at least {PREFIX_BYTES_MIN} letters of an id")]
    TooShort(String),
    #[error("{} sessions begin with {prefix}: {}", .found.len(), name_some(.found))]
    Ambiguous { prefix: String, found: Vec<String> },
    #[error("cannot read {}: {message}", path.display())]
    Io { path: PathBuf, message: String },
}

/// Runs `gimlet audit`.
pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let outcome = match &args.command {
        Some(AuditCommand::Verify(args)) => verify(args)?,
        None => audit(args.session.as_deref().unwrap_or("last"), args.json)?,
    };
    Ok(outcome.unwrap_or_else(|error| {
        let code = match error {
            AuditError::Io { .. } => ExitCode::Failed,
            AuditError::None
            | AuditError::NotFound(_)
            | AuditError::TooShort(_)
            | AuditError::Ambiguous { .. } => ExitCode::Usage,
        };
        let hint = "SESSION is an id, its beginning, a path, or `last`";
        report_error(&error.to_string(), Some(hint));
        code
    }))
}

type Outcome = Result<ExitCode, AuditError>;

fn audit(session: &str, as_json: bool) -> anyhow::Result<Outcome> {
    let state = load_directories()?.state;
    let (report, chain) = match find(&state, session).and_then(|path| read(&path)) {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    for record in report.records() {
        if as_json {
            write_out(encode_line(&record.to_json()).trim_end())?;
            continue;
        }
        for line in record.lines() {
            write_out(&line)?;
        }
    }
    if as_json {
        let end = json!({
            "type": "chain", "whole": chain.is_whole(), "lines": chain.lines,
            "last_hash": chain.last_hash, "torn_bytes": chain.torn_bytes,
            "faults": chain.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        write_out(encode_line(&end).trim_end())?;
    } else {
        write_out(&describe_end(&chain))?;
    }
    report_chain(&chain)?;
    Ok(Ok(code_of(&chain)))
}

fn verify(args: &AuditVerifyArgs) -> anyhow::Result<Outcome> {
    let state = load_directories()?.state;
    let paths = if args.all {
        session_file::find_all(&state)
    } else {
        match find(&state, args.session.as_deref().unwrap_or("last")) {
            Ok(path) => vec![path],
            Err(error) => return Ok(Err(error)),
        }
    };
    let mut code = ExitCode::Done;
    for path in &paths {
        let chain = match open(path).and_then(|file| walk_file(path, file, |_, _| {})) {
            Ok(chain) => chain,
            Err(error) => {
                report_error(&error.to_string(), None);
                code = ExitCode::Failed;
                continue;
            }
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        write_out(&format!("{}  {}", visible_line(&name), describe_end(&chain)))?;
        report_chain(&chain)?;
        let expected = args.last_hash.as_ref();
        if expected.is_some_and(|hash| !hash.eq_ignore_ascii_case(&chain.last_hash)) {
            let message = "the last line is another than the one whose hash was kept: lines were \
                           added since, cut off, or the last one was changed";
            report_error(message, None);
            code = ExitCode::Failed;
        }
        if !chain.is_whole() {
            code = ExitCode::Failed;
        }
    }
    if paths.is_empty() {
        write_out("There is no session yet.")?;
    }
    Ok(Ok(code))
}

fn code_of(chain: &Chain) -> ExitCode {
    if chain.is_whole() { ExitCode::Done } else { ExitCode::Failed }
}

fn describe_end(chain: &Chain) -> String {
    let word = match (chain.lines, chain.is_whole()) {
        (0, _) => "EMPTY".to_owned(),
        (_, true) => "whole".to_owned(),
        (_, false) => "DAMAGED".to_owned(),
    };
    let lines = if chain.lines == 1 { "line" } else { "lines" };
    format!("{word}: {} {lines}, last hash {}", chain.lines, chain.last_hash)
}

/// Says on stderr what is wrong with a file, and what was mended in it.
fn report_chain(chain: &Chain) -> std::io::Result<()> {
    for fault in chain.faults.iter().take(FAULTS_SHOWN) {
        write_err(&format!("  damage: {fault}"))?;
    }
    if let Some(more) = chain.faults.len().checked_sub(FAULTS_SHOWN).filter(|more| *more > 0) {
        write_err(&format!("  damage: {more} more"))?;
    }
    for repair in &chain.repairs {
        let cause = visible_line(&repair.cause);
        write_err(&format!(
            "  repair: line {}: {cause}, {} bytes set aside",
            repair.line, repair.bytes
        ))?;
    }
    if chain.torn_bytes > 0 {
        write_err(&format!(
            "  note: {} bytes after the last whole line: a crash left them, or the session is at work",
            chain.torn_bytes
        ))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<(AuditReport, Chain), AuditError> {
    let mut report = AuditReport::default();
    let chain = walk_file(path, open(path)?, |bytes, hash| {
        // A line of a later version, or a damaged one, is told by the chain.
        if let Ok(event) = serde_json::from_slice::<Event>(bytes) {
            report.take(&event, hash);
        }
    })?;
    Ok((report, chain))
}

fn open(path: &Path) -> Result<File, AuditError> {
    let failed = |message: String| AuditError::Io { path: path.to_path_buf(), message };
    // Asked before opening: opening a FIFO would wait for a writer.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(failed("it is not a regular file".to_owned())),
        Err(error) => return Err(failed(error.to_string())),
    }
    File::open(path).map_err(|error| failed(error.to_string()))
}

fn walk_file(
    path: &Path,
    file: File,
    mut on_line: impl FnMut(&[u8], &str),
) -> Result<Chain, AuditError> {
    let reader = BufReader::with_capacity(1 << 16, file);
    walk(reader, |line| on_line(line.bytes, line.hash))
        .map_err(|error| AuditError::Io { path: path.to_path_buf(), message: error.to_string() })
}

/// Finds a session's file by what the user calls it.
fn find(state: &Path, session: &str) -> Result<PathBuf, AuditError> {
    if session == "last" {
        let last = session_file::find_last(state, None).ok_or(AuditError::None)?;
        return Ok(session_file::path_of(state, last));
    }
    if session.contains('/') || session.ends_with(".jsonl") {
        return Ok(PathBuf::from(session));
    }
    let not_found = || AuditError::NotFound(session.to_owned());
    if let Some(id) = SessionId::parse(session) {
        let path = session_file::path_of(state, id);
        return if path.is_file() { Ok(path) } else { Err(not_found()) };
    }
    if session.len() < PREFIX_BYTES_MIN {
        return Err(AuditError::TooShort(session.to_owned()));
    }
    let prefix = session.to_ascii_lowercase();
    let name = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&prefix).then_some(name)
    };
    let mut found: Vec<PathBuf> =
        session_file::find_all(state).into_iter().filter(|path| name(path).is_some()).collect();
    match (found.pop(), found.is_empty()) {
        (Some(path), true) => Ok(path),
        (Some(last), false) => {
            found.push(last);
            let found = found.iter().filter_map(name).collect();
            Err(AuditError::Ambiguous { prefix: session.to_owned(), found })
        }
        (None, _) => Err(not_found()),
    }
}

fn name_some(found: &[String]) -> String {
    let mut shown = found.iter().take(CANDIDATES_SHOWN).cloned().collect::<Vec<_>>();
    if found.len() > CANDIDATES_SHOWN {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}
