//! `Signals`: Ctrl-C and its kin as values to wait for.
//!
//! Installed once, when a session runs; before that the system's own way stands. Says which
//! signal came, not what to do about it. Called by `exec/mod.rs`.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::protocol::StopCause;

/// The signals that end a run politely.
pub(in crate::frontend::exec) struct Signals([(Option<Signal>, StopCause); 3]);

impl Signals {
    /// From here on the signals no longer end the process by themselves.
    pub(in crate::frontend::exec) fn install() -> Self {
        let one = |kind| signal(kind).ok();
        Self([
            (one(SignalKind::interrupt()), StopCause::Interrupt),
            (one(SignalKind::terminate()), StopCause::Terminate),
            (one(SignalKind::hangup()), StopCause::Hangup),
        ])
    }

    /// Waits for the next of them.
    pub(in crate::frontend::exec) async fn next(&mut self) -> StopCause {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            () = arrives(&mut interrupt.0) => interrupt.1,
            () = arrives(&mut terminate.0) => terminate.1,
            () = arrives(&mut hangup.0) => hangup.1,
        }
    }
}

async fn arrives(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        // Without a handler the system's own way stands.
        None => std::future::pending().await,
    }
}
