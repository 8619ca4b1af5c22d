//! Undo, redo and what a turn changed: from a session's log and the store of snapshots.
//!
//! The log says which steps there were (`timeline.rs`), the store what each of them did and
//! how to take it back. A restore is an event of the session, so it can itself be taken back,
//! and the model is told of it. Called by the session for `Op::Restore`, and by the
//! subcommands `undo`, `redo` and `changes` for sessions that are not open.

use std::path::Path;
use std::path::PathBuf;

use chrono::SecondsFormat;
use chrono::Utc;

use crate::agent::notes::RestoredNote;
use crate::agent::session::Session;
use crate::agent::session::refused;
use crate::agent::timeline::FileStep;
use crate::agent::timeline::Goal;
use crate::agent::timeline::StepCall;
use crate::agent::timeline::Timeline;
use crate::config::Config;
use crate::config::SnapshotSettings;
use crate::protocol::EVENT_VERSION;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::FileChange;
use crate::protocol::RestoreDirection;
use crate::protocol::RestoreWhat;
use crate::protocol::SessionId;
use crate::protocol::SnapshotId;
use crate::protocol::TurnId;
use crate::store::commit;
use crate::store::session_file;
use crate::store::session_file::SessionFile;
use crate::store::session_file::SessionFileError;
use crate::store::snapshot::Change;
use crate::store::snapshot::Force;
use crate::store::snapshot::RestoreError;
use crate::store::snapshot::SnapshotError;
use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::SnapshotSpec;
use crate::store::snapshot::SnapshotStore;
use crate::store::snapshot::SnapshotWorker;
use crate::store::snapshot::Step;
use crate::store::snapshot::shown_changes;

/// Files that a refusal in a running session names.
const CONFLICTS_SHOWN: usize = 10;

/// How long after it was last known to live a process may have changed files: it says that it
/// lives twice a second.
const ALIVE_SLACK_NS: i64 = 1_000_000_000;

/// What is asked of `undo` and `redo`.
#[derive(Debug, Clone)]
pub(crate) struct RestoreRequest {
    /// The session; the newest of this directory that has something to do, when absent.
    pub(crate) session: Option<SessionId>,
    /// To before this turn; the last one that changed something, when absent.
    pub(crate) turn: Option<TurnId>,
    /// Which way.
    pub(crate) direction: RestoreDirection,
    /// What happens to files that someone else changed since.
    pub(crate) force: Force,
    /// Whether it is only said what would happen.
    pub(crate) dry_run: bool,
}

/// What a restore did, or would do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RestoreReport {
    /// The session.
    pub(crate) session: SessionId,
    /// The turn it went to.
    pub(crate) turn: TurnId,
    /// The files that changed, without diffs.
    pub(crate) changes: Vec<FileChange>,
    /// Paths that stay as they are, and why.
    pub(crate) left: Vec<(PathBuf, String)>,
    /// Whether a call was cut off, so that all that differed counted as its own.
    pub(crate) is_cut_off: bool,
    /// What a commit that died before had left to do.
    pub(crate) recovered: Vec<String>,
    /// What is to be said of how it was done.
    pub(crate) notes: Vec<String>,
}

/// What one call changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallChanges {
    /// The call.
    pub(crate) call: StepCall,
    /// Whether its end was never recorded.
    pub(crate) is_cut_off: bool,
    /// What it changed, with diffs.
    pub(crate) changes: Vec<FileChange>,
}

/// What one turn changed, call by call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnChanges {
    /// The session.
    pub(crate) session: SessionId,
    /// The turn.
    pub(crate) turn: TurnId,
    /// Its calls that changed something.
    pub(crate) calls: Vec<CallChanges>,
}

/// Why nothing was restored or shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UndoError {
    /// No session has anything of the kind.
    #[error("there is nothing to {0}")]
    Nothing(&'static str),
    /// The turn is none, or changed nothing that is still there.
    #[error("there is nothing to {word} in turn {turn}")]
    NothingInTurn {
        /// `undo` or `show`.
        word: &'static str,
        /// The turn.
        turn: TurnId,
    },
    /// Someone else changed files since.
    #[error("{} changed since; nothing was done", files(.0.len()))]
    Conflicts(Vec<PathBuf>),
    /// The session's log cannot be used.
    #[error(transparent)]
    File(#[from] SessionFileError),
    /// The store, or the writing, failed.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl UndoError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Nothing(_) => {
                Some("--session ID names a session; by default it is this directory's")
            }
            Self::NothingInTurn { .. } => Some("gimlet changes TURN shows what a turn changed"),
            Self::Conflicts(_) => {
                Some("--force overwrites them; `gimlet redo` then brings them back")
            }
            Self::File(SessionFileError::Locked(_)) => Some("use /undo there, or end it first"),
            Self::Restore(RestoreError::Snapshot(SnapshotError::Missing(_))) => {
                Some("old snapshots go when the store reaches snapshots.keep_bytes_max")
            }
            Self::File(_) | Self::Restore(_) => None,
        }
    }
}

impl From<SnapshotError> for UndoError {
    fn from(error: SnapshotError) -> Self {
        Self::Restore(error.into())
    }
}

/// Returns the worker of a session, unless its states are not to be kept.
pub(super) fn open_snapshots(config: &Config) -> Option<SnapshotWorker> {
    if config.ephemeral || !config.snapshots.enabled {
        return None;
    }
    let mut roots = vec![config.cwd.clone()];
    let others = config.sandbox.writable_roots.iter();
    roots.extend(others.filter_map(|root| std::fs::canonicalize(root).ok()));
    Some(SnapshotWorker::new(spec(config, roots)))
}

/// Takes changes back, or forward again, in a session that is not open. Blocking.
pub(crate) fn restore(
    config: &Config,
    request: &RestoreRequest,
) -> Result<RestoreReport, UndoError> {
    let state = &config.directories.state;
    let word = word_of(request.direction);
    let (session, _) = find_session(config, request.session, |timeline| {
        find_goal(timeline, request.direction, request.turn).is_some()
    })
    .ok_or(nothing(word, request.turn))?;
    // From here on nobody else writes the log.
    let (mut file, loaded) = SessionFile::open(state, session)?;
    let timeline = Timeline::read(&loaded.events);
    let goal = find_goal(&timeline, request.direction, request.turn);
    let goal = goal.ok_or(nothing(word, request.turn))?;
    let mut store = open_store(config, &loaded.events, &goal.steps)?;
    let recovered = commit::recover(&state.join("journal"), &store.root_paths());
    let mut report = RestoreReport { recovered, ..report_of(session, &goal) };
    let plan = store.plan(&steps_of(&store, &goal.steps), request.force)?;
    if !plan.conflicts.is_empty() {
        return Err(UndoError::Conflicts(plan.conflicts));
    }
    report.changes = plan.changes();
    report.left.clone_from(&plan.left);
    if request.dry_run {
        return Ok(report);
    }
    let done = store.perform(&plan)?;
    report.notes = done.notes;
    store.save_cache();
    if loaded.torn_bytes > 0 {
        let cause = "the last line was not whole and was set aside".to_owned();
        let msg = EventMsg::Repaired { cause, bytes: loaded.torn_bytes };
        append(&mut file, (session, timeline.last_turn), msg)?;
    }
    let msg = restored(&goal, request.direction, report.changes.clone(), (plan.now, done.after));
    append(&mut file, (session, timeline.last_turn), msg)?;
    Ok(report)
}

/// Returns what a turn changed, call by call. Blocking; the session may be open elsewhere.
pub(crate) fn changes(
    config: &Config,
    session: Option<SessionId>,
    turn: Option<TurnId>,
) -> Result<TurnChanges, UndoError> {
    let has_any =
        |timeline: &Timeline| timeline.changes_of(turn).is_some_and(|(_, steps)| !steps.is_empty());
    let found = find_session(config, session, has_any).ok_or(nothing("show", turn))?;
    let (session, events) = found;
    let timeline = Timeline::read(&events);
    let shown = timeline.changes_of(turn).filter(|(_, steps)| !steps.is_empty());
    let (turn, steps) = shown.ok_or(nothing("show", turn))?;
    let mut store = open_store(config, &events, &steps)?;
    let base = cwd_of(&events).unwrap_or_else(|| config.cwd.clone());
    let mut calls = Vec::new();
    for step in steps {
        let changes = changes_of_step(&mut store, &step)?;
        let render = |change| store.render_one(change, &base);
        let changes = shown_changes(&changes).map(render).collect::<Result<_, _>>()?;
        if let Some(call) = step.call {
            calls.push(CallChanges { call, is_cut_off: step.is_cut_off, changes });
        }
    }
    Ok(TurnChanges { session, turn, calls })
}

impl Session {
    /// Takes changes back, or forward again, between two turns.
    pub(super) async fn restore_files(&mut self, turn: TurnId, direction: RestoreDirection) {
        match self.try_restore(turn, direction).await {
            Ok((goal, changes, states)) => {
                let turn = goal.turn;
                self.bus.emit(restored(&goal, direction, changes.clone(), states)).await;
                self.restored.push(RestoredNote { turn, direction, changes });
            }
            Err(error) => {
                let mut message = error.to_string();
                if let UndoError::Conflicts(paths) = &error {
                    let shown = paths.iter().take(CONFLICTS_SHOWN);
                    let shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
                    message = format!("{message}: {}", shown.join(", "));
                }
                self.bus.emit(refused(message)).await;
            }
        }
    }

    async fn try_restore(
        &mut self,
        turn: TurnId,
        direction: RestoreDirection,
    ) -> Result<(Goal, Vec<FileChange>, (SnapshotId, SnapshotId)), UndoError> {
        let word = word_of(direction);
        let snapshots = self.snapshots.clone().ok_or(UndoError::Nothing(word))?;
        self.desk.processes.record_changes(&mut self.bus).await;
        let (state, id) = (self.config.directories.state.clone(), self.id);
        let reading = tokio::task::spawn_blocking(move || session_file::read(&state, id));
        let loaded = reading.await.map_err(|_| UndoError::Nothing(word))??;
        let timeline = Timeline::read_open(&loaded.events);
        let goal = find_goal(&timeline, direction, Some(turn));
        let goal = goal.ok_or(nothing(word, Some(turn)))?;
        let cut = goal.steps.clone();
        let (plan, after) = snapshots
            .with_store(move |store| {
                let plan = store.plan(&steps_of(store, &cut), Force::No)?;
                let is_clear = plan.conflicts.is_empty();
                let after = is_clear.then(|| store.perform(&plan)).transpose()?;
                Ok((plan, after))
            })
            .await?;
        match after {
            Some(done) => Ok((goal, plan.changes(), (plan.now, done.after))),
            None => Err(UndoError::Conflicts(plan.conflicts)),
        }
    }
}

fn restored(
    goal: &Goal,
    direction: RestoreDirection,
    changes: Vec<FileChange>,
    (before, after): (SnapshotId, SnapshotId),
) -> EventMsg {
    EventMsg::Restored {
        turn: goal.turn,
        what: RestoreWhat::Files,
        direction,
        changes,
        before: Some(before),
        after: Some(after),
    }
}

fn report_of(session: SessionId, goal: &Goal) -> RestoreReport {
    RestoreReport {
        session,
        turn: goal.turn,
        changes: Vec::new(),
        left: Vec::new(),
        is_cut_off: goal.steps.iter().any(|step| step.is_cut_off),
        recovered: Vec::new(),
        notes: Vec::new(),
    }
}

fn find_goal(
    timeline: &Timeline,
    direction: RestoreDirection,
    turn: Option<TurnId>,
) -> Option<Goal> {
    match direction {
        RestoreDirection::Undo => timeline.find_undo(turn),
        RestoreDirection::Redo => timeline.find_redo(),
    }
}

/// Finds the session: the one named, or the newest of this directory that fits.
fn find_session(
    config: &Config,
    named: Option<SessionId>,
    fits: impl Fn(&Timeline) -> bool,
) -> Option<(SessionId, Vec<Event>)> {
    let state = &config.directories.state;
    let read = |id| {
        let events = session_file::read(state, id).ok()?.events;
        fits(&Timeline::read(&events)).then_some((id, events))
    };
    match named {
        Some(id) => read(id),
        None => session_file::find_newest(state, Some(&config.cwd), read),
    }
}

/// Opens the store that holds a session's states, for the roots they were taken of.
fn open_store(
    config: &Config,
    events: &[Event],
    steps: &[FileStep],
) -> Result<SnapshotStore, UndoError> {
    let cwd = cwd_of(events).unwrap_or_else(|| config.cwd.clone());
    let store = SnapshotStore::open(spec(config, vec![cwd.clone()]))?;
    let mut roots = vec![cwd];
    for step in steps {
        roots.extend(store.load(&step.from)?.root_paths());
    }
    roots.dedup();
    drop(store);
    Ok(SnapshotStore::open(spec(config, roots))?)
}

fn cwd_of(events: &[Event]) -> Option<PathBuf> {
    events.iter().find_map(|event| match &event.msg {
        EventMsg::SessionStarted { cwd, .. } => Some(cwd.clone()),
        _ => None,
    })
}

fn changes_of_step(store: &mut SnapshotStore, step: &FileStep) -> Result<Vec<Change>, UndoError> {
    let from = store.load(&step.from)?;
    let to = match &step.to {
        Some(to) => to.clone(),
        None => match store.take()?.snapshot {
            Some(now) => now,
            None => return Ok(Vec::new()),
        },
    };
    let to = store.load(&to)?;
    Ok(store.compare(&from, &to)?)
}

fn steps_of(store: &SnapshotStore, steps: &[FileStep]) -> Vec<Step> {
    // What the process did after it was last known to live is told from others' changes by time.
    let until = |step: &FileStep| {
        let alive = store.last_alive_ns(&step.from);
        let last = alive.max(step.last_event_ns).unwrap_or_default();
        step.is_cut_off.then(|| last.saturating_add(ALIVE_SLACK_NS))
    };
    let step = |step: &FileStep| Step {
        from: step.from.clone(),
        to: step.to.clone(),
        until_ns: until(step),
    };
    steps.iter().map(step).collect()
}

fn spec(config: &Config, roots: Vec<PathBuf>) -> SnapshotSpec {
    let SnapshotSettings {
        enabled: _,
        file_bytes_max,
        ignored_file_bytes_max,
        ignored_total_bytes_max,
        keep_bytes_max,
        keep_days_max,
    } = config.snapshots;
    let limits = SnapshotLimits {
        file_bytes_max,
        ignored_file_bytes_max,
        ignored_total_bytes_max,
        keep_bytes_max,
        keep_days_max,
    };
    let is_placeholder = crate::sandbox::is_placeholder;
    SnapshotSpec { state: config.directories.state.clone(), roots, limits, is_placeholder }
}

/// Writes an event to a log that no session has open, and brings it to disk.
fn append(
    file: &mut SessionFile,
    (session, turn): (SessionId, TurnId),
    msg: EventMsg,
) -> Result<(), SessionFileError> {
    let (seq, prev_hash) = file.next();
    let event = Event {
        v: EVENT_VERSION,
        seq,
        prev_hash: prev_hash.to_owned(),
        at: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
        session,
        turn,
        parent: None,
        response_id: None,
        call_id: None,
        msg,
    };
    file.append(&event)?;
    file.sync_now()
}

fn nothing(word: &'static str, turn: Option<TurnId>) -> UndoError {
    match turn {
        Some(turn) => UndoError::NothingInTurn { word, turn },
        None => UndoError::Nothing(word),
    }
}

fn word_of(direction: RestoreDirection) -> &'static str {
    match direction {
        RestoreDirection::Undo => "undo",
        RestoreDirection::Redo => "redo",
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// Returns a path as the user thinks of it: from the working directory on.
pub(crate) fn shown_path(path: &Path, cwd: &Path) -> String {
    let below = path.strip_prefix(cwd).unwrap_or(path);
    crate::text::ansi::visible_line(&below.to_string_lossy()).into_owned()
}
