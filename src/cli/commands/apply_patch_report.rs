//! What `gimlet apply-patch` says: lines for people, or one JSON object for programs.
//!
//! The lines of success are those that models and scripts know from other agents. Names are
//! shown so that none can move a cursor or make a line of its own. Decides nothing and touches
//! no file. Called by `apply_patch.rs`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::commands::apply_patch::Done;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{write_err, write_out};
use crate::patch::PatchError;
use crate::protocol::{ChangeKind, FileChange};
use crate::store::commit::CommitError;
use crate::text::ansi::{visible, visible_line};
use crate::tools::edit::{EditError, list_changes, render_changes};

/// How it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines.
    Text,
    /// One JSON object on stdout, whatever comes.
    Json,
}

/// All there is to say.
pub(super) struct Report {
    pub(super) form: Form,
    pub(super) outcome: Result<Done, Problem>,
}

/// Why nothing was done.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
    /// The file, as the patch names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Which change of the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<usize>,
    /// The line of the patch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// The JSON object.
#[derive(Serialize)]
struct Object<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Problem>,
}

/// One change, with paths from the directory.
#[derive(Serialize)]
struct Change {
    kind: ChangeKind,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    move_to: Option<String>,
    /// Whether it can be executed from now on, where that changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<bool>,
    diff: String,
}

impl Report {
    /// Prints it, and returns the code to end with.
    pub(super) fn print(self) -> ExitCode {
        let printed = match (self.form, &self.outcome) {
            (Form::Json, outcome) => write_out(&render_json(outcome)),
            (Form::Text, Ok(done)) => print_text(done),
            (Form::Text, Err(problem)) => write_err(&render_problem(problem)),
        };
        match (printed, self.outcome) {
            (Ok(()), Ok(_)) => ExitCode::Done,
            (_, Err(problem)) => problem.code(),
            (Err(error), Ok(done)) => {
                let did = if done.dry_run { "the patch fits" } else { "the patch was applied" };
                // Whether this arrives can be told to nobody.
                let _ = write_err(&format!("error: {did}, but that cannot be written: {error}"));
                ExitCode::Failed
            }
        }
    }
}

impl Problem {
    fn new(kind: &'static str, message: String) -> Self {
        Self { kind, message, hint: None, file: None, chunk: None, line: None }
    }

    fn of(path: &Path, kind: &'static str, message: String) -> Self {
        Self { file: Some(path.display().to_string()), ..Self::new(kind, message) }
    }

    /// The call is at fault.
    pub(super) fn usage(message: String) -> Self {
        Self::new("usage", message)
    }

    /// Stdin goes on and on.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        let message = format!("stdin has more than {bytes_max} bytes, the most a patch may have");
        Self::new("too_large", message)
    }

    /// The system refused something.
    pub(super) fn failed(message: String) -> Self {
        Self::new("io", message)
    }

    /// The patch wants to write where it may not.
    pub(super) fn refused(path: &Path, reason: String) -> Self {
        Self::of(path, "refused", reason)
    }

    pub(super) fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    fn code(&self) -> ExitCode {
        if self.kind == "usage" { ExitCode::Usage } else { ExitCode::Failed }
    }
}

fn print_text(done: &Done) -> std::io::Result<()> {
    for note in &done.notes {
        write_err(&format!("note: {}", visible_line(note)))?;
    }
    write_out(render_success(done).trim_end())
}

fn render_success(done: &Done) -> String {
    // A diff can cost more than the edit: only who asks gets it.
    let changes = match done.dry_run {
        true => render_changes(&done.writes, &done.base),
        false => list_changes(&done.writes),
    };
    let head = match (changes.is_empty(), done.dry_run) {
        (true, _) => "Success. No file needed to change.",
        (false, true) => "Would update the following files:",
        (false, false) => "Success. Updated the following files:",
    };
    let mut text = format!("{head}\n");
    for (kind, letter) in
        [(ChangeKind::Add, 'A'), (ChangeKind::Update, 'M'), (ChangeKind::Delete, 'D')]
    {
        for change in changes.iter().filter(|change| change.kind == kind) {
            let path = shown(change.move_to.as_ref().unwrap_or(&change.path), &done.base);
            text.push_str(&format!("{letter} {}\n", visible_line(&path)));
        }
    }
    if done.dry_run {
        let modes = modes_of(done);
        for change in &changes {
            text.push_str(&visible(&render_diff(change, &modes, &done.base)));
        }
    }
    text
}

/// Returns the diff of a change; name and mode are no part of it.
fn render_diff(change: &FileChange, modes: &HashMap<&Path, bool>, base: &Path) -> String {
    let target = change.move_to.as_ref().unwrap_or(&change.path);
    let mut text = String::new();
    if change.move_to.is_some() && change.diff.is_empty() {
        let (from, to) = (shown(&change.path, base), shown(target, base));
        text = format!("rename from {}\nrename to {}\n", visible_line(&from), visible_line(&to));
    }
    if let Some(executable) = modes.get(target.as_path()) {
        let path = shown(target, base);
        let mode = if *executable { "executable" } else { "not executable" };
        text.push_str(&format!("mode of {}: {mode}\n", visible_line(&path)));
    }
    text + &change.diff
}

/// Returns the files whose right to be executed the patch sets.
fn modes_of(done: &Done) -> HashMap<&Path, bool> {
    let writes = done.writes.iter();
    writes.filter_map(|write| Some((write.path.as_path(), write.executable?))).collect()
}

fn render_problem(problem: &Problem) -> String {
    // The message has lines of its own: what was looked for, and what is there instead.
    let mut text = format!("error: {}", visible(&problem.message));
    if let Some(hint) = problem.hint {
        text.push_str(&format!("\n  hint: {hint}"));
    }
    text
}

fn render_json(outcome: &Result<Done, Problem>) -> String {
    let object = match outcome {
        Ok(done) => {
            let modes = modes_of(done);
            let changes = render_changes(&done.writes, &done.base);
            let changes = changes.into_iter().map(|it| Change::new(it, &modes, &done.base));
            Object {
                ok: true,
                dry_run: Some(done.dry_run),
                changes: Some(changes.collect()),
                notes: Some(&done.notes),
                error: None,
            }
        }
        Err(problem) => {
            Object { ok: false, dry_run: None, changes: None, notes: None, error: Some(problem) }
        }
    };
    // Texts, numbers and lists of them always become JSON.
    serde_json::to_string(&object).unwrap_or_default()
}

impl Change {
    fn new(change: FileChange, modes: &HashMap<&Path, bool>, base: &Path) -> Self {
        let target = change.move_to.as_ref().unwrap_or(&change.path);
        Self {
            kind: change.kind,
            path: shown(&change.path, base),
            executable: modes.get(target.as_path()).copied(),
            move_to: change.move_to.as_deref().map(|path| shown(path, base)),
            diff: change.diff,
        }
    }
}

fn shown(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).display().to_string()
}

impl From<PatchError> for Problem {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        let at = |kind, path: &PathBuf, chunk, line| Self {
            file: Some(path.display().to_string()),
            chunk,
            line,
            ..Self::new(kind, message.clone())
        };
        match &error {
            PatchError::Syntax { line, .. } => {
                Self { line: Some(*line), ..Self::new("syntax", message) }
            }
            PatchError::TooLarge { .. } => Self::new("too_large", message),
            PatchError::Missing { path, patch_line, .. } => {
                at("missing", path, None, Some(*patch_line))
            }
            PatchError::Refused { path, patch_line, .. } => {
                at("conflict", path, None, Some(*patch_line))
            }
            PatchError::NoAnchor { path, chunk, patch_line, .. }
            | PatchError::NoMatch { path, chunk, patch_line, .. } => {
                at("no_match", path, Some(*chunk), Some(*patch_line))
            }
            PatchError::TooCostly { path, chunk, patch_line } => {
                at("too_costly", path, Some(*chunk), Some(*patch_line))
            }
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Patch { error, stale: _ } => (*error).into(),
            EditError::Refused { reason } => Self::new("refused", reason),
            EditError::Unfit { path, reason } => {
                Self::of(&path, "unfit", format!("{}: {reason}", path.display()))
            }
            EditError::Commit(error) => error.into(),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        let message = error.to_string();
        match &error {
            CommitError::Changed { path } => Self::of(path, "changed", message),
            CommitError::NotRegular { path, .. } => Self::of(path, "unfit", message),
            CommitError::Outside { path } => Self::of(path, "refused", message),
            CommitError::Twice { path } | CommitError::Io { path, .. } => {
                Self::of(path, "io", message)
            }
            CommitError::Stopped => Self::new("stopped", message),
            CommitError::NotRestored { .. } => Self::new("not_restored", message),
        }
    }
}
