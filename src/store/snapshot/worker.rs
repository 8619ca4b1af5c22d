//! `SnapshotWorker`: the thread that records states around a session's calls.
//!
//! It sees calls begin and end, and commands that outlive their calls. What changed between is
//! theirs; what changed while none ran is somebody else's, and no part of any step. The thread
//! and the store come with the first call that can write: a session that only looks pays
//! nothing. Knows no events. Held by the executor; made and closed by `agent/`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::protocol::CallId;
use crate::protocol::FileChange;
use crate::protocol::SnapshotId;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::record::Snapshot;
use crate::store::snapshot::record::SnapshotSpec;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::render::RenderedChanges;
use crate::store::snapshot::restore::RestoreError;

/// How often it is noted, while something runs, that this process lives: after a kill, what
/// changed later than the last note is somebody else's.
pub(super) const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// The line to the thread. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotWorker {
    spec: Arc<SnapshotSpec>,
    jobs: Arc<OnceLock<mpsc::Sender<Job>>>,
}

/// What came of recording before a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Begun {
    /// The state before it; `None` when undo is off.
    pub(crate) snapshot: Option<SnapshotId>,
    /// Why undo is off, for the user; said once.
    pub(crate) problem: Option<String>,
    /// What commands that outlived their calls changed since the last look.
    pub(crate) beside: Option<Beside>,
}

/// What a command changed that outlived its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The call that began it; the first of several that run, which cannot be told apart.
    pub(crate) call: CallId,
    /// What it changed.
    pub(crate) ended: Ended,
}

/// What came of recording after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The state since which something changed.
    pub(crate) since: SnapshotId,
    /// The state now.
    pub(crate) snapshot: SnapshotId,
    /// What changed.
    pub(crate) changes: Vec<FileChange>,
    /// Files that are not named for their number.
    pub(crate) omitted: usize,
}

/// Work on the open store.
type Work = Box<dyn FnOnce(Result<&mut SnapshotStore, &SnapshotError>) + Send>;

enum Job {
    Begin(CallId, Arc<AtomicBool>, oneshot::Sender<Begun>),
    End(CallId, oneshot::Sender<Option<Ended>>),
    Keep(CallId),
    Look(Option<CallId>, oneshot::Sender<Option<Beside>>),
    Over(CallId, oneshot::Sender<Option<Beside>>),
    With(Work),
    Close(oneshot::Sender<()>),
}

/// Says, when it goes, that nobody waits any more.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the thread knows.
struct Recorder {
    base: PathBuf,
    store: Result<SnapshotStore, SnapshotError>,
    /// Calls that run now.
    running: Vec<CallId>,
    /// Calls whose commands outlived them.
    kept: Vec<CallId>,
    /// The state since which changes are those of what runs.
    since: Option<(SnapshotId, Snapshot)>,
    /// Whether the last look failed.
    has_failed: bool,
    problems_said: Vec<String>,
}

impl SnapshotWorker {
    /// Returns a worker that has not begun.
    pub(crate) fn new(spec: SnapshotSpec) -> Self {
        Self { spec: Arc::new(spec), jobs: Arc::default() }
    }

    /// Records the state before a call that can write.
    pub(crate) async fn begin_call(&self, call: &CallId) -> Begun {
        let (tx, rx) = oneshot::channel();
        let stop = StopOnDrop::default();
        self.send(Job::Begin(call.clone(), Arc::clone(&stop.0), tx));
        let problem = || Some("the thread that records the files could not start".to_owned());
        rx.await.unwrap_or_else(|_| Begun { problem: problem(), ..Begun::default() })
    }

    /// Says that a call which was announced does not run after all. Does not wait.
    pub(crate) fn abandon_call(&self, call: &CallId) {
        let (tx, _) = oneshot::channel();
        self.send(Job::End(call.clone(), tx));
    }

    /// Says that a call's command outlives it, so that what it changes later is its as well.
    pub(crate) fn keep_call(&self, call: &CallId) {
        self.send_if_begun(Job::Keep(call.clone()));
    }

    /// Records what commands that outlived their calls changed since the last look.
    pub(crate) async fn look_beside(&self, call: Option<&CallId>) -> Option<Beside> {
        let (tx, rx) = oneshot::channel();
        self.send_if_begun(Job::Look(call.cloned(), tx));
        rx.await.unwrap_or_default()
    }

    /// Does the same at the end of such a command.
    pub(crate) async fn end_kept(&self, call: &CallId) -> Option<Beside> {
        let (tx, rx) = oneshot::channel();
        self.send_if_begun(Job::Over(call.clone(), tx));
        rx.await.unwrap_or_default()
    }

    /// Records the state after such a call; `None` when it changed nothing.
    pub(crate) async fn end_call(&self, call: &CallId) -> Option<Ended> {
        let (tx, rx) = oneshot::channel();
        self.send(Job::End(call.clone(), tx));
        rx.await.unwrap_or_default()
    }

    /// Does something with the store, on its thread.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SnapshotStore) -> Result<T, RestoreError> + Send + 'static,
    ) -> Result<T, RestoreError> {
        let (tx, rx) = oneshot::channel();
        self.send(Job::With(Box::new(move |store| {
            let result = match store {
                Ok(store) => work(store),
                Err(error) => Err(RestoreError::Off(error.to_string())),
            };
            let _ = tx.send(result);
        })));
        let gone = |_| Err(RestoreError::Off("the thread that does it ended".to_owned()));
        rx.await.unwrap_or_else(gone)
    }

    /// Waits until all is written down. Costs nothing when nothing was recorded.
    pub(crate) async fn close(&self) {
        if let Some(jobs) = self.jobs.get() {
            let (tx, rx) = oneshot::channel();
            if jobs.send(Job::Close(tx)).is_ok() {
                let _ = rx.await;
            }
        }
    }

    /// Without a thread no call was recorded, so there is nothing to say.
    fn send_if_begun(&self, job: Job) {
        if self.jobs.get().is_some() {
            self.send(job);
        }
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.get_or_init(|| start(&self.spec));
        // When no thread can be made the answer's sender is dropped, which says that it is off.
        let _ = jobs.send(job);
    }
}

fn start(spec: &Arc<SnapshotSpec>) -> mpsc::Sender<Job> {
    let (tx, rx) = mpsc::channel();
    let spec = SnapshotSpec::clone(spec);
    let thread = std::thread::Builder::new().name("snapshots".to_owned());
    let _ = thread.spawn(move || {
        let mut recorder = Recorder::new(spec);
        loop {
            let job = match recorder.is_watching() {
                true => rx.recv_timeout(ALIVE_EVERY),
                false => rx.recv().map_err(mpsc::RecvTimeoutError::from),
            };
            match job {
                Ok(job) => recorder.take(job),
                Err(mpsc::RecvTimeoutError::Timeout) => recorder.note_alive(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        recorder.save();
    });
    tx
}

impl Recorder {
    fn new(spec: SnapshotSpec) -> Self {
        Self {
            base: spec.roots.first().cloned().unwrap_or_default(),
            store: SnapshotStore::open(spec),
            running: Vec::new(),
            kept: Vec::new(),
            since: None,
            has_failed: false,
            problems_said: Vec::new(),
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Begin(call, stop, reply) => {
                self.set_stop(stop);
                let begun = self.begin(call);
                self.set_stop(Arc::default());
                let _ = reply.send(begun);
                self.prune_if_due();
            }
            Job::End(call, reply) => {
                let ended = self.end(&call);
                let _ = reply.send(ended);
            }
            Job::Keep(call) => {
                if self.running.contains(&call) {
                    self.kept.push(call);
                }
            }
            Job::Look(call, reply) => {
                let beside = self.look_beside(call.as_ref());
                let _ = reply.send(beside);
            }
            Job::Over(call, reply) => {
                let beside = self.look_beside(Some(&call));
                self.kept.retain(|kept| *kept != call);
                self.forget_if_idle();
                let _ = reply.send(beside);
            }
            Job::With(work) => {
                work(self.store.as_mut().map_err(|error| &*error));
                // What that changed is nobody's who runs.
                if self.since.is_some() {
                    self.since = self.look(&mut Begun::default()).ok().flatten();
                }
            }
            Job::Close(reply) => {
                self.save();
                let _ = reply.send(());
            }
        }
    }

    fn begin(&mut self, call: CallId) -> Begun {
        self.running.push(call);
        if self.running.len() > 1
            && let Some((id, _)) = &self.since
        {
            return Begun { snapshot: Some(id.clone()), ..Begun::default() };
        }
        let is_watched = !self.kept.is_empty() && self.since.is_some();
        let mut begun = Begun { beside: self.look_beside(None), ..Begun::default() };
        if !is_watched || self.has_failed {
            match self.look(&mut begun) {
                Ok(now) => self.since = now,
                Err(error) => {
                    // What commands change that outlived their calls is seen by the next look.
                    self.since = self.since.take().filter(|_| is_watched);
                    begun.problem = Some(error.to_string());
                }
            }
        }
        begun.snapshot = self.since.as_ref().map(|(id, _)| id.clone());
        begun.problem = begun.problem.filter(|problem| !self.problems_said.contains(problem));
        self.problems_said.extend(begun.problem.clone());
        begun
    }

    fn end(&mut self, call: &CallId) -> Option<Ended> {
        if let Some(at) = self.running.iter().position(|running| running == call) {
            self.running.remove(at);
        }
        let ended = self.look_again();
        self.forget_if_idle();
        ended
    }

    fn look_beside(&mut self, call: Option<&CallId>) -> Option<Beside> {
        let owner = call.filter(|call| self.kept.contains(call)).or(self.kept.first())?.clone();
        self.look_again().map(|ended| Beside { call: owner, ended })
    }

    /// Says what changed since the last look.
    fn look_again(&mut self) -> Option<Ended> {
        let (since, before) = self.since.take()?;
        // A failure now was said before the call or will be before the next one; the log then
        // tells of a step without an end, and undo treats it as one that was cut off.
        let seen = self.look(&mut Begun::default()).ok().flatten();
        self.has_failed = seen.is_none();
        let Some((id, now)) = seen else {
            self.since = Some((since, before));
            return None;
        };
        self.drop_alive(&since);
        let ended = (id != since).then(|| self.describe(since, (&before, &now), &id)).flatten();
        self.since = Some((id, now));
        ended
    }

    fn is_watching(&self) -> bool {
        self.since.is_some()
    }

    fn forget_if_idle(&mut self) {
        if self.running.is_empty()
            && self.kept.is_empty()
            && let Some((id, _)) = self.since.take()
        {
            self.drop_alive(&id);
        }
    }

    fn note_alive(&mut self) {
        if let (Ok(store), Some((id, _))) = (&self.store, &self.since) {
            store.note_alive(id);
        }
    }

    fn drop_alive(&self, id: &SnapshotId) {
        if let Ok(store) = &self.store {
            store.drop_alive(id);
        }
    }

    fn describe(
        &self,
        since: SnapshotId,
        (before, now): (&Snapshot, &Snapshot),
        id: &SnapshotId,
    ) -> Option<Ended> {
        let store = self.store.as_ref().ok()?;
        let changes = store.compare(before, now).ok()?;
        if changes.is_empty() {
            return None;
        }
        // Without their diffs the changes are changes all the same.
        let rendered = store.render_bounded(&changes, &self.base).unwrap_or_default();
        let RenderedChanges { changes, omitted } = rendered;
        Some(Ended { since, snapshot: id.clone(), changes, omitted })
    }

    fn look(&mut self, begun: &mut Begun) -> Result<Option<(SnapshotId, Snapshot)>, SnapshotError> {
        let store = match &mut self.store {
            Ok(store) => store,
            Err(error) => {
                begun.problem = Some(error.to_string());
                return Ok(None);
            }
        };
        let taken = store.take()?;
        if let Some((root, reason)) = taken.off.first() {
            begun.problem = Some(format!("{}: {reason}", root.display()));
        }
        let Some(id) = taken.snapshot else { return Ok(None) };
        let snapshot = store.load(&id)?;
        Ok(Some((id, snapshot)))
    }

    fn set_stop(&mut self, stop: Arc<AtomicBool>) {
        if let Ok(store) = &mut self.store {
            store.stop = stop;
        }
    }

    /// Makes room beside the call, which need not wait for it.
    fn prune_if_due(&mut self) {
        if let Ok(store) = &mut self.store {
            let pinned: Vec<SnapshotId> = self.since.iter().map(|(id, _)| id.clone()).collect();
            // What could not be made smaller now will be some other time.
            let _ = store.prune_if_due(&pinned);
        }
    }

    fn save(&mut self) {
        if let Ok(store) = &mut self.store {
            store.save_cache();
        }
    }
}
