//! The calls of one response: which may run together, which alone, and what came of each.
//!
//! Calls that only look start as soon as they are whole, while the response still arrives;
//! the others wait for its end. Commands run together when the model may call in parallel, a
//! call that writes files runs alone, and outputs keep the order of the calls. Knows no
//! driver and no conversation. Called by `turn.rs`.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::protocol::CallId;
use crate::protocol::EncodedItem;
use crate::protocol::ToolCall;
use crate::tools::BoxFuture;
use crate::tools::Executed;
use crate::tools::Executor;
use crate::tools::Prepared;
use crate::tools::ToolError;

/// How many calls run at one time. A response with more is worked off in this width.
const TOGETHER_MAX: usize = 16;

/// The calls of one response, in order.
pub(super) struct ResponseCalls {
    executor: Executor,
    parallel: bool,
    slots: Vec<Slot>,
    running: FuturesUnordered<BoxFuture<'static, (usize, Executed)>>,
}

struct Slot {
    item: Arc<EncodedItem>,
    state: State,
}

enum State {
    Waiting(Box<Prepared>),
    Running,
    Done(Executed),
}

impl ResponseCalls {
    /// Returns an empty list.
    pub(super) fn new(executor: Executor, parallel: bool) -> Self {
        Self { executor, parallel, slots: Vec::new(), running: FuturesUnordered::new() }
    }

    /// Adds a call. One that only looks starts at once, if no other waits before it.
    pub(super) fn add(&mut self, item: Arc<EncodedItem>, call: ToolCall) {
        let prepared = self.executor.prepare(call);
        let nothing_waits = !self.slots.iter().any(|slot| matches!(slot.state, State::Waiting(_)));
        let early = nothing_waits && prepared.is_read_only() && self.running.len() < TOGETHER_MAX;
        self.slots.push(Slot { item, state: State::Waiting(Box::new(prepared)) });
        if early {
            self.start(self.slots.len() - 1);
        }
    }

    /// Adds a call that must not run, with the reason the model is told.
    pub(super) async fn refuse(&mut self, item: Arc<EncodedItem>, call: ToolCall, why: ToolError) {
        let executed = self.executor.refuse(call, why).await;
        self.slots.push(Slot { item, state: State::Done(executed) });
    }

    /// Returns whether a call of this response came with this id.
    pub(super) fn has(&self, id: &CallId) -> bool {
        self.slots.iter().any(|slot| slot.item.item.call_id() == Some(id))
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Waits for the next running call to end; for ever when none runs.
    pub(super) async fn next_ended(&mut self) {
        match self.running.next().await {
            Some((index, executed)) => self.set_done(index, executed),
            None => std::future::pending().await,
        }
    }

    /// Runs what waits, and returns what came of all, in the order of the calls. After a call
    /// that ends the turn, or once the turn is stopped, the rest is answered without running.
    pub(super) async fn finish(mut self) -> Vec<(Arc<EncodedItem>, Executed)> {
        self.drain().await;
        while let Some(first) = self.next_waiting(0) {
            if self.executor.cancel.is_cancelled() {
                return self.abandon(&ToolError::Interrupted).await;
            }
            if self.is_stopped() {
                let why = "not run: an earlier call ended the turn".to_owned();
                return self.abandon(&ToolError::Unavailable(why)).await;
            }
            for index in first..self.batch_end(first) {
                self.start(index);
            }
            self.drain().await;
        }
        self.into_outputs()
    }

    /// Waits for what runs, answers the rest without running it, and returns what came of all.
    pub(super) async fn abandon(mut self, why: &ToolError) -> Vec<(Arc<EncodedItem>, Executed)> {
        self.drain().await;
        for index in 0..self.slots.len() {
            if let Some(prepared) = self.take_waiting(index) {
                let executed = self.executor.refuse(prepared.into_call(), why.clone()).await;
                self.set_done(index, executed);
            }
        }
        self.into_outputs()
    }

    /// Returns the end of the run of calls, from `first`, that may run together.
    fn batch_end(&self, first: usize) -> usize {
        let mut end = first;
        for slot in self.slots.iter().skip(first) {
            let State::Waiting(prepared) = &slot.state else { break };
            let together = !prepared.runs_alone() && (self.parallel || prepared.is_read_only());
            if end > first && (!together || end - first >= TOGETHER_MAX) {
                break;
            }
            end += 1;
            if !together {
                break;
            }
        }
        end
    }

    fn next_waiting(&self, from: usize) -> Option<usize> {
        let waits = |slot: &Slot| matches!(slot.state, State::Waiting(_));
        self.slots.iter().skip(from).position(waits).map(|at| at + from)
    }

    fn take_waiting(&mut self, index: usize) -> Option<Prepared> {
        let slot = self.slots.get_mut(index)?;
        match std::mem::replace(&mut slot.state, State::Running) {
            State::Waiting(prepared) => Some(*prepared),
            other => {
                slot.state = other;
                None
            }
        }
    }

    fn start(&mut self, index: usize) {
        let Some(prepared) = self.take_waiting(index) else { return };
        let executor = self.executor.clone();
        self.running.push(Box::pin(async move { (index, executor.execute(prepared).await) }));
    }

    async fn drain(&mut self) {
        while let Some((index, executed)) = self.running.next().await {
            self.set_done(index, executed);
        }
    }

    fn set_done(&mut self, index: usize, executed: Executed) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.state = State::Done(executed);
        }
    }

    fn is_stopped(&self) -> bool {
        let stops = |slot: &Slot| matches!(&slot.state, State::Done(done) if done.stop.is_some());
        self.slots.iter().any(stops)
    }

    fn into_outputs(self) -> Vec<(Arc<EncodedItem>, Executed)> {
        let done = |slot: Slot| match slot.state {
            State::Done(executed) => Some((slot.item, executed)),
            State::Waiting(_) | State::Running => None,
        };
        self.slots.into_iter().filter_map(done).collect()
    }
}
