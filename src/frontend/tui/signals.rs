//! `Signals`: what the system tells the screen, as values to wait for.
//!
//! Says which signal came, not what to do about it. Called by `run.rs`.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::protocol::StopCause;

/// What the system told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemSignal {
    /// To end.
    Stop(StopCause),
    /// The terminal has another size.
    Resized,
    /// We were stopped, and go on.
    Continued,
}

/// The signals that mean something to a screen.
#[derive(Debug)]
pub(super) struct Signals([(Option<Signal>, SystemSignal); 5]);

impl Signals {
    /// From here on the signals no longer end the process by themselves.
    pub(super) fn install() -> Self {
        let one = |kind| signal(kind).ok();
        let continued = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        Self([
            (one(SignalKind::interrupt()), SystemSignal::Stop(StopCause::Interrupt)),
            (one(SignalKind::terminate()), SystemSignal::Stop(StopCause::Terminate)),
            (one(SignalKind::hangup()), SystemSignal::Stop(StopCause::Hangup)),
            (one(SignalKind::window_change()), SystemSignal::Resized),
            (one(continued), SystemSignal::Continued),
        ])
    }

    /// Waits for the next of them.
    pub(super) async fn next(&mut self) -> SystemSignal {
        let [interrupt, terminate, hangup, window, continued] = &mut self.0;
        tokio::select! {
            () = arrives(&mut interrupt.0) => interrupt.1,
            () = arrives(&mut terminate.0) => terminate.1,
            () = arrives(&mut hangup.0) => hangup.1,
            () = arrives(&mut window.0) => window.1,
            () = arrives(&mut continued.0) => continued.1,
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
