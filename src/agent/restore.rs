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
use crate::agent::restore_scope::Scope;
use crate::agent::restore_scope::find_session;
use crate::agent::restore_scope::open_scopes;
use crate::agent::restore_scope::spec;
use crate::agent::restore_scope::steps_of;
use crate::agent::session::Session;
use crate::agent::session::refused;
use crate::agent::timeline::FileStep;
use crate::agent::timeline::Goal;
use crate::agent::timeline::StepCall;
use crate::agent::timeline::Timeline;
use crate::config::Config;
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
use crate::store::snapshot::Plan;
use crate::store::snapshot::RestoreError;
use crate::store::snapshot::SnapshotError;
use crate::store::snapshot::SnapshotStore;
use crate::store::snapshot::SnapshotWorker;
use crate::store::snapshot::shown_changes;

/// Files that a refusal in a running session names.
const CONFLICTS_SHOWN: usize = 10;

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
    /// Which way.
    pub(crate) direction: RestoreDirection,
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
    /// Steps in more than one directory would have to be taken back at once.
    #[error("turns in another directory come after it ({})", shown_list(.0))]
    Directories(Vec<PathBuf>),
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
            Self::Directories(_) => {
                Some("gimlet undo takes back the last turn; take those back first, one by one")
            }
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
    let rank = |timeline: &Timeline| {
        let goal = find_goal(timeline, request.direction, request.turn)?;
        // The last undo is redone, whichever session's it was; of sessions the newest is undone.
        Some(if request.direction == RestoreDirection::Redo { goal.at_ns } else { None })
    };
    let found = find_session(config, request.session, rank)?;
    let (session, _) = found.ok_or(nothing(word, request.turn))?;
    // From here on nobody else writes the log.
    let (mut file, mut loaded) = SessionFile::open(state, session)?;
    let mut timeline = Timeline::read(&loaded.events);
    if let Some(done) = settle_intent(config, (session, &loaded.events), &timeline)? {
        let report = RestoreReport { changes: done.changes, ..done.report };
        if request.dry_run {
            return Ok(report);
        }
        mend_tail(&mut file, (session, timeline.last_turn), &mut loaded.torn_bytes)?;
        loaded.events.push(append(&mut file, (session, timeline.last_turn), done.msg)?);
        timeline = Timeline::read(&loaded.events);
        if report.direction == request.direction && request.turn.is_none_or(|t| t == report.turn) {
            return Ok(report);
        }
    }
    let goal = find_goal(&timeline, request.direction, request.turn);
    let goal = goal.ok_or(nothing(word, request.turn))?;
    let mut scopes = open_scopes(config, &loaded.events, &goal.steps)?;
    let mut report = report_of(session, &goal, request.direction);
    let mut plans = Vec::new();
    for scope in &mut scopes {
        let recovered = commit::recover(&state.join("journal"), &scope.store.root_paths());
        report.recovered.extend(recovered);
        let steps = steps_of(&scope.store, &scope.steps);
        plans.push(scope.store.plan(&steps, request.force)?);
    }
    let (at, plan) = choose_plan(&scopes, plans, &mut report)?;
    let Some(Scope { store, .. }) = scopes.get_mut(at) else {
        return Err(nothing(word, request.turn));
    };
    if !plan.conflicts.is_empty() {
        return Err(UndoError::Conflicts(plan.conflicts));
    }
    report.changes = plan.changes();
    report.left.extend(left_outside(&timeline, &goal, store));
    if request.dry_run {
        return Ok(report);
    }
    mend_tail(&mut file, (session, timeline.last_turn), &mut loaded.torn_bytes)?;
    let tell = |after| {
        let states = (plan.now.clone(), after);
        restored((goal.turn, request.direction), report.changes.clone(), states)
    };
    // Written down before and after, so that a death in between loses nothing but the time.
    append(&mut file, (session, timeline.last_turn), tell(None))?;
    let done = store.perform(&plan)?;
    append(&mut file, (session, timeline.last_turn), tell(Some(done.after)))?;
    store.save_cache();
    report.notes = done.notes;
    Ok(report)
}

/// What is to be said of a restore that was done, and whose process died before it said so.
struct Settled {
    report: RestoreReport,
    changes: Vec<FileChange>,
    msg: EventMsg,
}

/// Looks whether a restore that a log only announces was done.
fn settle_intent(
    config: &Config,
    (session, events): (SessionId, &[Event]),
    timeline: &Timeline,
) -> Result<Option<Settled>, UndoError> {
    let Some(intent) = &timeline.intent else { return Ok(None) };
    let step = FileStep {
        turn: intent.turn,
        call: None,
        from: intent.before.clone(),
        to: None,
        is_cut_off: false,
        last_event_ns: None,
    };
    let mut scopes = open_scopes(config, events, std::slice::from_ref(&step))?;
    let Some(Scope { store, .. }) = scopes.first_mut() else { return Ok(None) };
    let journal = config.directories.state.join("journal");
    let recovered = commit::recover(&journal, &store.root_paths());
    let changed = changes_of_step(store, &step)?;
    let announced = |change: &Change| {
        let path = change.path.to_string_lossy();
        intent.changes.iter().any(|wanted| wanted.path.to_string_lossy() == path)
    };
    let Some(after) = store.take()?.snapshot.filter(|_| changed.iter().any(announced)) else {
        return Ok(None);
    };
    let goal = Goal { turn: intent.turn, at_ns: None, steps: vec![step] };
    let mut report = RestoreReport { recovered, ..report_of(session, &goal, intent.direction) };
    report
        .notes
        .push("this was done already, by a run that died before it could say so".to_owned());
    let states = (intent.before.clone(), Some(after));
    let changes = intent.changes.clone();
    let msg = restored((intent.turn, intent.direction), changes.clone(), states);
    Ok(Some(Settled { report, changes, msg }))
}

/// Says that the last line of a log was not whole, once.
fn mend_tail(
    file: &mut SessionFile,
    of: (SessionId, TurnId),
    torn_bytes: &mut u64,
) -> Result<(), SessionFileError> {
    if let bytes @ 1.. = std::mem::take(torn_bytes) {
        let cause = "the last line was not whole and was set aside".to_owned();
        append(file, of, EventMsg::Repaired { cause, bytes })?;
    }
    Ok(())
}

/// Returns what a turn changed, call by call. Blocking; the session may be open elsewhere.
pub(crate) fn changes(
    config: &Config,
    session: Option<SessionId>,
    turn: Option<TurnId>,
) -> Result<TurnChanges, UndoError> {
    let rank = |timeline: &Timeline| {
        timeline.changes_of(turn).filter(|(_, steps)| !steps.is_empty()).map(|_| None)
    };
    let found = find_session(config, session, rank)?;
    let (session, events) = found.ok_or(nothing("show", turn))?;
    let timeline = Timeline::read(&events);
    let shown = timeline.changes_of(turn).filter(|(_, steps)| !steps.is_empty());
    let (turn, steps) = shown.ok_or(nothing("show", turn))?;
    let mut scopes = open_scopes(config, &events, &steps)?;
    let mut calls = Vec::new();
    for step in steps {
        let scope = scopes.iter_mut().find(|scope| scope.steps.contains(&step));
        let Some(Scope { store, cwd: base, .. }) = scope else { continue };
        let changes = changes_of_step(store, &step)?;
        let render = |change| store.render_one(change, base);
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
                let (before, after) = states;
                let msg = restored((turn, direction), changes.clone(), (before, Some(after)));
                self.bus.emit(msg).await;
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
    (turn, direction): (TurnId, RestoreDirection),
    changes: Vec<FileChange>,
    (before, after): (SnapshotId, Option<SnapshotId>),
) -> EventMsg {
    EventMsg::Restored {
        turn,
        what: RestoreWhat::Files,
        direction,
        changes,
        before: Some(before),
        after,
    }
}

fn report_of(session: SessionId, goal: &Goal, direction: RestoreDirection) -> RestoreReport {
    RestoreReport {
        session,
        direction,
        turn: goal.turn,
        changes: Vec::new(),
        left: Vec::new(),
        is_cut_off: goal.steps.iter().any(|step| step.is_cut_off),
        recovered: Vec::new(),
        notes: Vec::new(),
    }
}

/// Picks the plan that changes something, of those for the directories a session ran in.
fn choose_plan(
    scopes: &[Scope],
    plans: Vec<Plan>,
    report: &mut RestoreReport,
) -> Result<(usize, Plan), UndoError> {
    report.left = plans.iter().flat_map(|plan| plan.left.clone()).collect();
    let acts = plans.iter().zip(scopes).filter(|(plan, _)| plan.is_something());
    let acting: Vec<PathBuf> = acts.map(|(_, scope)| scope.cwd.clone()).collect();
    if acting.len() > 1 {
        return Err(UndoError::Directories(acting));
    }
    let mut plans: Vec<(usize, Plan)> = plans.into_iter().enumerate().collect();
    // Stable, so without any it is that of the newest step.
    plans.sort_by_key(|(_, plan)| !plan.is_something());
    plans.into_iter().next().ok_or(UndoError::Nothing("undo"))
}

/// Returns the files that patches changed where nothing is recorded.
fn left_outside(timeline: &Timeline, goal: &Goal, store: &SnapshotStore) -> Vec<(PathBuf, String)> {
    let roots = store.root_paths();
    let calls = goal.steps.iter().filter_map(|step| step.call.as_ref());
    let paths = calls.flat_map(|call| timeline.patched_by(&call.id));
    let outside = paths.filter(|path| !roots.iter().any(|root| path.starts_with(root)));
    outside.map(|path| (path.clone(), "it is outside of what is recorded".to_owned())).collect()
}

fn shown_list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
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

/// Writes an event to a log that no session has open, and brings it to disk.
fn append(
    file: &mut SessionFile,
    (session, turn): (SessionId, TurnId),
    msg: EventMsg,
) -> Result<Event, SessionFileError> {
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
    file.sync_now()?;
    Ok(event)
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
