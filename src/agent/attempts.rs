//! What kept commands attempt to reach, told as it happens: between two calls as well, and
//! between two turns.
//!
//! Owned by the session's desk, which is its only reader. It judges nothing and asks nobody.
//! Called by `session.rs`.

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::agent::bus::Bus;
use crate::protocol::{CallId, EventMsg};
use crate::tools::{AttemptLog, BoxFuture};

/// A log, the call that started its command, and what came of it; nothing when it is over.
type Next = (AttemptLog, CallId, Option<EventMsg>);

/// The attempts of all kept commands.
#[derive(Debug, Default)]
pub(super) struct KeptAttempts {
    logs: FuturesUnordered<BoxFuture<'static, Next>>,
}

impl KeptAttempts {
    /// Takes over what a command attempts.
    pub(super) fn add(&mut self, call_id: CallId, mut log: AttemptLog) {
        self.logs.push(Box::pin(async move {
            let msg = log.next().await;
            (log, call_id, msg)
        }));
    }

    /// Waits for the next attempt; for ever when no command can make one.
    pub(super) async fn next(&mut self) -> (CallId, EventMsg) {
        loop {
            match self.logs.next().await {
                Some((log, call_id, Some(msg))) => {
                    self.add(call_id.clone(), log);
                    return (call_id, msg);
                }
                // Its command can attempt nothing any more.
                Some((_, _, None)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Tells what was attempted already, and does not wait for more.
    pub(super) async fn tell_rest(&mut self, bus: &mut Bus) {
        while let Some((call_id, msg)) = self.next().now_or_never() {
            bus.emit_for(Some(call_id), None, msg).await;
        }
    }
}
