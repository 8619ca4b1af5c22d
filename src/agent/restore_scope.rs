//! Where an undo acts: which session is meant, and which stores hold the states of its steps.
//!
//! A session may go on in another directory, whose states lie in a store of their own; so each
//! step is looked for in the stores of all directories the log names. Called by `restore.rs`.

use std::path::PathBuf;

use crate::agent::restore::UndoError;
use crate::agent::timeline::FileStep;
use crate::agent::timeline::Timeline;
use crate::config::Config;
use crate::config::SnapshotSettings;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::SessionId;
use crate::store::session_file;
use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::SnapshotSpec;
use crate::store::snapshot::SnapshotStore;
use crate::store::snapshot::Step;

/// How long after it was last known to live a process may have changed files: it says that it
/// lives twice a second.
const ALIVE_SLACK_NS: i64 = 1_000_000_000;

/// A directory that a session ran in, and the steps that were made there.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) cwd: PathBuf,
    pub(super) store: SnapshotStore,
    /// In the order they were given.
    pub(super) steps: Vec<FileStep>,
}

/// Finds the session: the one named, or of those that ran in this directory the one that ranks
/// highest; of equals the newest.
pub(super) fn find_session(
    config: &Config,
    named: Option<SessionId>,
    rank: impl Fn(&Timeline) -> Option<Option<i64>>,
) -> Result<Option<(SessionId, Vec<Event>)>, UndoError> {
    let state = &config.directories.state;
    if let Some(id) = named {
        let events = session_file::read(state, id)?.events;
        return Ok(rank(&Timeline::read(&events)).map(|_| (id, events)));
    }
    let mut best: Option<(i64, SessionId, Vec<Event>)> = None;
    for path in session_file::find_all(state) {
        let Some(id) = path.file_stem().and_then(|name| SessionId::parse(name.to_str()?)) else {
            continue;
        };
        // Most logs never name this directory, and need not be read as events.
        let is_named = std::fs::read(&path).is_ok_and(|bytes| names(&bytes, &config.cwd));
        let Some(Ok(loaded)) = is_named.then(|| session_file::read(state, id)) else { continue };
        let events = loaded.events;
        if !cwds_of(&events).contains(&config.cwd) {
            continue;
        }
        match rank(&Timeline::read(&events)) {
            None => {}
            Some(None) => return Ok(Some((id, events))),
            Some(Some(rank)) if best.as_ref().is_some_and(|(best, ..)| *best >= rank) => {}
            Some(Some(rank)) => best = Some((rank, id, events)),
        }
    }
    Ok(best.map(|(_, id, events)| (id, events)))
}

fn names(log: &[u8], cwd: &std::path::Path) -> bool {
    serde_json::to_string(cwd).is_ok_and(|cwd| memchr::memmem::find(log, cwd.as_bytes()).is_some())
}

/// Returns the directories that a session ran in, the last one first.
fn cwds_of(events: &[Event]) -> Vec<PathBuf> {
    let mut cwds = Vec::new();
    for event in events.iter().rev() {
        if let EventMsg::SessionStarted { cwd, .. } = &event.msg
            && !cwds.contains(cwd)
        {
            cwds.push(cwd.clone());
        }
    }
    cwds
}

/// Opens the stores that hold the states of these steps, for the roots they were taken of.
pub(super) fn open_scopes(
    config: &Config,
    events: &[Event],
    steps: &[FileStep],
) -> Result<Vec<Scope>, UndoError> {
    let mut scopes = Vec::new();
    for cwd in cwds_of(events) {
        let store = SnapshotStore::open(spec(config, vec![cwd.clone()]))?;
        scopes.push(Scope { cwd, store, steps: Vec::new() });
    }
    let mut order: Vec<usize> = Vec::new();
    for step in steps {
        let holds = |scope: &Scope| scope.store.load(&step.from).is_ok();
        let at = scopes.iter().position(holds).unwrap_or_default();
        let scope = scopes.get_mut(at).ok_or(UndoError::Nothing("undo"))?;
        scope.store.load(&step.from)?;
        scope.steps.push(step.clone());
        if !order.contains(&at) {
            order.push(at);
        }
    }
    scopes.retain(|scope| !scope.steps.is_empty());
    for scope in &mut scopes {
        let mut roots = vec![scope.cwd.clone()];
        for step in &scope.steps {
            roots.extend(scope.store.load(&step.from)?.root_paths());
        }
        roots.dedup();
        scope.store = SnapshotStore::open(spec(config, roots))?;
    }
    Ok(scopes)
}

/// Returns the steps as the store takes them.
pub(super) fn steps_of(store: &SnapshotStore, steps: &[FileStep]) -> Vec<Step> {
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

/// Returns what the store of these roots is opened for.
pub(super) fn spec(config: &Config, roots: Vec<PathBuf>) -> SnapshotSpec {
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
