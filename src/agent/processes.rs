//! The table of commands that outlived their calls: who they are, that they ended, and that
//! they end with the session.
//!
//! Owned by the session task, which is its lock; tools reach it over their link. It reads no
//! output and judges nothing. Called by `session.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use crate::agent::bus::Bus;
use crate::protocol::CallId;
use crate::protocol::EventMsg;
use crate::protocol::ProcessId;
use crate::protocol::TurnId;
use crate::store::snapshot::Beside;
use crate::store::snapshot::SnapshotWorker;
use crate::text;
use crate::tools::BoxFuture;
use crate::tools::ProcessRequest;
use crate::tools::RunningProcess;
use crate::tools::describe_changes;

/// Commands that run at one time, those that a call still waits for included. Twice what one
/// response runs together.
const PROCESSES_MAX: usize = 32;
/// Ended commands whose last output nobody has read. Each holds up to a mebibyte.
const UNREAD_MAX: usize = 8;
/// Running commands that a refusal names, and characters of each.
const NAMED_MAX: usize = 8;
const NAMED_CHARACTERS_MAX: usize = 80;

/// The commands of a session.
#[derive(Debug)]
pub(super) struct ProcessTable {
    places: Arc<Semaphore>,
    last: ProcessId,
    kept: BTreeMap<ProcessId, Kept>,
    ends: FuturesUnordered<BoxFuture<'static, ProcessId>>,
    /// Records what they change after their calls; `None` when undo is switched off.
    pub(super) snapshots: Option<SnapshotWorker>,
}

#[derive(Debug)]
struct Kept {
    process: RunningProcess,
    /// The turn that started it.
    turn: TurnId,
    /// The call that began it.
    call: CallId,
    /// Whether its end was said.
    is_over: bool,
}

impl Default for ProcessTable {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(PROCESSES_MAX)),
            last: ProcessId(0),
            kept: BTreeMap::new(),
            ends: FuturesUnordered::new(),
            snapshots: None,
        }
    }
}

impl ProcessTable {
    /// Sees to it that no id of an earlier process of this session comes again.
    pub(super) fn start_after(&mut self, last: ProcessId) {
        self.last = last;
    }

    /// Takes what a call wants.
    pub(super) async fn take_request(&mut self, request: ProcessRequest, bus: &mut Bus) {
        match request {
            ProcessRequest::Admit(place) => {
                let free = Arc::clone(&self.places).try_acquire_owned();
                let _ = place.send(free.map_err(|_| self.describe_full()));
            }
            ProcessRequest::Keep { call_id, process, id: answer } => {
                let id = self.keep(call_id, process, bus).await;
                let _ = answer.send(id);
            }
            ProcessRequest::Find(id, answer) => {
                let found = self.kept.get(&id).map(|kept| kept.process.clone());
                let _ = answer.send(found.ok_or_else(|| self.describe_missing(id)));
            }
            ProcessRequest::Forget(id, done) => {
                self.report_end(id, bus).await;
                self.kept.remove(&id);
                let _ = done.send(());
            }
        }
    }

    async fn keep(&mut self, call_id: CallId, process: RunningProcess, bus: &mut Bus) -> ProcessId {
        let id = ProcessId(self.last.0.saturating_add(1));
        self.last = id;
        let command = process.command().to_owned();
        let ended = process.ended();
        self.ends.push(Box::pin(async move {
            ended.cancelled().await;
            id
        }));
        if let Some(snapshots) = &self.snapshots {
            snapshots.keep_call(&call_id);
        }
        let turn = bus.turn();
        self.kept.insert(id, Kept { process, turn, call: call_id.clone(), is_over: false });
        let msg = EventMsg::ProcessStarted { process: id, command };
        bus.emit_for(Some(call_id), None, msg).await;
        id
    }

    /// Waits for the next command to end; for ever when none runs.
    pub(super) async fn next_ended(&mut self) -> ProcessId {
        match self.ends.next().await {
            Some(id) => id,
            None => std::future::pending().await,
        }
    }

    /// Says that a command has ended, once. Its last output waits for the model.
    pub(super) async fn report_end(&mut self, id: ProcessId, bus: &mut Bus) {
        let Some(kept) = self.kept.get_mut(&id).filter(|kept| !kept.is_over) else { return };
        kept.is_over = true;
        let exit_code = kept.process.exit_code();
        let call = kept.call.clone();
        let over = self.kept.iter().filter(|(_, kept)| kept.is_over).map(|(id, _)| *id);
        let over: Vec<_> = over.collect();
        for oldest in over.iter().take(over.len().saturating_sub(UNREAD_MAX)) {
            self.kept.remove(oldest);
        }
        if let Some(snapshots) = &self.snapshots {
            let beside = snapshots.end_kept(&call).await;
            tell_beside(beside, bus).await;
        }
        bus.emit(EventMsg::ProcessEnded { process: id, exit_code }).await;
    }

    /// Records what running commands changed since the last look.
    pub(super) async fn record_changes(&mut self, bus: &mut Bus) {
        if let Some(snapshots) = &self.snapshots {
            let beside = snapshots.look_beside(None).await;
            tell_beside(beside, bus).await;
        }
    }

    /// Begins to end a command; `false` when there is none of this id.
    pub(super) fn stop(&self, id: ProcessId) -> bool {
        let running = self.kept.get(&id).filter(|kept| !kept.is_over);
        running.inspect(|kept| kept.process.stop()).is_some()
    }

    /// Ends the commands that this turn started, and waits until nothing of them is left.
    pub(super) async fn end_turn(&mut self, turn: TurnId, bus: &mut Bus) {
        let started = |kept: &&Kept| kept.turn == turn && !kept.is_over;
        self.kept.values().filter(started).for_each(|kept| kept.process.stop());
        while self.kept.values().any(|kept| started(&kept))
            && let Some(id) = self.ends.next().await
        {
            self.report_end(id, bus).await;
        }
    }

    /// Ends all commands and waits until nothing of them is left.
    pub(super) async fn end_all(&mut self, bus: &mut Bus) {
        for kept in self.kept.values() {
            kept.process.stop();
        }
        while let Some(id) = self.ends.next().await {
            self.report_end(id, bus).await;
        }
        // Also those whose call was dropped before it could keep them or see their end: each
        // gives its place back when nothing of it is left.
        let all = u32::try_from(PROCESSES_MAX).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    fn describe_full(&self) -> String {
        format!(
            "{PROCESSES_MAX} commands run already, as many as may at one time{}. End one with \
             write_stdin and \\u0003, or wait for one to end",
            self.describe_running()
        )
    }

    fn describe_missing(&self, id: ProcessId) -> String {
        format!("no command runs with session_id {id}{}", self.describe_running())
    }

    fn describe_running(&self) -> String {
        let running: Vec<_> = self.kept.iter().filter(|(_, kept)| !kept.is_over).collect();
        let named: Vec<_> = running
            .iter()
            .take(NAMED_MAX)
            .map(|(id, kept)| {
                let command = text::ansi::visible_line(kept.process.command());
                let short: String = command.chars().take(NAMED_CHARACTERS_MAX).collect();
                let more = if short.len() < command.len() { "…" } else { "" };
                format!("{id} (`{short}{more}`)")
            })
            .collect();
        match running.len().saturating_sub(named.len()) {
            0 if named.is_empty() => String::new(),
            0 => format!("; running: {}", named.join(", ")),
            more => format!("; running: {} and {more} more", named.join(", ")),
        }
    }
}

async fn tell_beside(beside: Option<Beside>, bus: &mut Bus) {
    let Some(Beside { call, ended }) = beside else { return };
    for msg in describe_changes(ended) {
        bus.emit_for(Some(call.clone()), None, msg).await;
    }
}
