//! `SnapshotWorker`: the thread that records states around a session's calls.
//!
//! It sees calls begin and end. What changed between is the calls'; what changed while none
//! ran is somebody else's, and no part of any step. The thread and the store come with the
//! first call that can write: a session that only looks pays nothing. Knows no events. Held by
//! the executor; made and closed by `agent/`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::mpsc;

use tokio::sync::oneshot;

use crate::protocol::FileChange;
use crate::protocol::SnapshotId;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::record::Snapshot;
use crate::store::snapshot::record::SnapshotSpec;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::render::RenderedChanges;
use crate::store::snapshot::restore::RestoreError;

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
    Begin(oneshot::Sender<Begun>),
    End(oneshot::Sender<Option<Ended>>),
    With(Work),
    Close(oneshot::Sender<()>),
}

/// What the thread knows.
struct Recorder {
    base: PathBuf,
    store: Result<SnapshotStore, SnapshotError>,
    /// Calls that run now.
    running: usize,
    /// The state since which changes are those of the running calls.
    since: Option<(SnapshotId, Snapshot)>,
    problems_said: Vec<String>,
    is_first: bool,
}

impl SnapshotWorker {
    /// Returns a worker that has not begun.
    pub(crate) fn new(spec: SnapshotSpec) -> Self {
        Self { spec: Arc::new(spec), jobs: Arc::default() }
    }

    /// Records the state before a call that can write.
    pub(crate) async fn begin_call(&self) -> Begun {
        let (tx, rx) = oneshot::channel();
        self.send(Job::Begin(tx));
        let problem = || Some("the thread that records the files could not start".to_owned());
        rx.await.unwrap_or_else(|_| Begun { snapshot: None, problem: problem() })
    }

    /// Says that a call which was announced does not run after all. Does not wait.
    pub(crate) fn abandon_call(&self) {
        let (tx, _) = oneshot::channel();
        self.send(Job::End(tx));
    }

    /// Records the state after such a call; `None` when it changed nothing.
    pub(crate) async fn end_call(&self) -> Option<Ended> {
        let (tx, rx) = oneshot::channel();
        self.send(Job::End(tx));
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
        while let Ok(job) = rx.recv() {
            recorder.take(job);
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
            running: 0,
            since: None,
            problems_said: Vec::new(),
            is_first: true,
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Begin(reply) => {
                let begun = self.begin();
                let _ = reply.send(begun);
                self.prune_once();
            }
            Job::End(reply) => {
                let ended = self.end();
                let _ = reply.send(ended);
            }
            Job::With(work) => work(self.store.as_mut().map_err(|error| &*error)),
            Job::Close(reply) => {
                self.save();
                let _ = reply.send(());
            }
        }
    }

    fn begin(&mut self) -> Begun {
        self.running += 1;
        if self.running > 1
            && let Some((id, _)) = &self.since
        {
            return Begun { snapshot: Some(id.clone()), problem: None };
        }
        let mut begun = Begun::default();
        match self.look(&mut begun) {
            Ok(now) => self.since = now,
            Err(error) => {
                self.since = None;
                begun.problem = Some(error.to_string());
            }
        }
        begun.snapshot = self.since.as_ref().map(|(id, _)| id.clone());
        begun.problem = begun.problem.filter(|problem| !self.problems_said.contains(problem));
        self.problems_said.extend(begun.problem.clone());
        begun
    }

    fn end(&mut self) -> Option<Ended> {
        self.running = self.running.saturating_sub(1);
        let (since, before) = self.since.take()?;
        // A failure now was said before the call or will be before the next one; the log then
        // tells of a step without an end, and undo treats it as one that was cut off.
        let (id, now) = self.look(&mut Begun::default()).ok().flatten()?;
        let ended = (id != since).then(|| self.describe(since, (&before, &now), &id)).flatten();
        self.since = (self.running > 0).then_some((id, now));
        ended
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

    /// Makes room beside the first call, which need not wait for it.
    fn prune_once(&mut self) {
        if std::mem::take(&mut self.is_first)
            && let Ok(store) = &mut self.store
        {
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
