//! The proxy: the only way from a confined command to the hosts it may reach.
//!
//! Its face: where it listens, what it tells, and the line it tells it by. `serve.rs` does the work,
//! `parse.rs` reads requests, `relay.rs` moves bytes. Started by `runner.rs` for one command, read
//! by `tools/attempts.rs`.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::protocol::Decision;

#[cfg(target_os = "linux")]
mod parse;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod serve;

#[cfg(target_os = "linux")]
pub(crate) use serve::Proxy;

/// Where it listens within a command's own network, where nothing else does yet.
#[cfg(target_os = "linux")]
pub(crate) const PORT: u16 = 61_080;
/// Attempts that may wait to be taken note of.
const ATTEMPTS_MAX: usize = 500;
/// Questions that may wait for somebody who asks them.
const QUESTIONS_MAX: usize = 64;

/// A connection that a command wants.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Host and port.
    pub host: &'a str,
    /// Whether the command's own list of hosts names it.
    pub is_listed: bool,
}

/// Says what is to become of a connection, by rules that the proxy does not know.
pub type HostJudge = Arc<dyn Fn(Wanted<'_>) -> Decision + Send + Sync>;

/// An attempt of a command to reach a host, and what became of it.
#[derive(Debug)]
pub struct Attempt {
    /// Host and port.
    pub host: String,
    /// Whether it may.
    pub verdict: Verdict,
}

/// Whether a command may reach a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may; whether the host answers is another matter.
    Allowed,
    /// It may not.
    Refused {
        /// Why.
        reason: String,
    },
}

/// An attempt that somebody must be asked about.
#[derive(Debug)]
pub struct HostQuestion {
    /// Host and port.
    pub host: String,
    /// Why it is asked, and by which rule.
    pub decision: Decision,
    /// Where the answer goes; dropped, it is a no.
    pub answer: oneshot::Sender<bool>,
}

/// Where a command's attempts are judged, told and asked.
#[derive(Clone)]
pub struct AttemptLine {
    judge: HostJudge,
    attempts: mpsc::Sender<Attempt>,
    questions: mpsc::Sender<HostQuestion>,
}

/// The other end of the line: every attempt once it is decided, and what has to be asked before.
#[derive(Debug)]
pub struct AttemptsHeard {
    /// Attempts with what became of them.
    pub attempts: mpsc::Receiver<Attempt>,
    /// Attempts that wait for an answer.
    pub questions: mpsc::Receiver<HostQuestion>,
}

/// Returns a line for attempts and the end at which they are heard.
pub fn attempt_line(judge: HostJudge) -> (AttemptLine, AttemptsHeard) {
    let (attempts, attempts_heard) = mpsc::channel(ATTEMPTS_MAX);
    let (questions, questions_heard) = mpsc::channel(QUESTIONS_MAX);
    let heard = AttemptsHeard { attempts: attempts_heard, questions: questions_heard };
    (AttemptLine { judge, attempts, questions }, heard)
}

/// Returns the variables by which programs find the proxy.
#[cfg(target_os = "linux")]
pub(crate) fn proxy_env() -> impl Iterator<Item = (String, String)> {
    let proxy = format!("http://127.0.0.1:{PORT}");
    let around = "localhost,127.0.0.1,::1".to_owned();
    let values = [
        ("HTTP_PROXY", &proxy),
        ("HTTPS_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
        ("NO_PROXY", &around),
    ];
    let pairs: Vec<_> = values
        .iter()
        .flat_map(|(name, value)| {
            [(*name).to_owned(), name.to_lowercase()].map(|name| (name, (*value).clone()))
        })
        .collect();
    pairs.into_iter()
}

#[cfg(any(target_os = "linux", test))]
impl AttemptLine {
    /// Returns what is to become of an attempt.
    pub(crate) fn judge(&self, wanted: Wanted<'_>) -> Decision {
        (self.judge)(wanted)
    }

    /// Asks whether an attempt may go through; nobody there is a no.
    pub(crate) async fn ask(&self, host: &str, decision: Decision) -> bool {
        let (answer, answered) = oneshot::channel();
        let question = HostQuestion { host: host.to_owned(), decision, answer };
        self.questions.send(question).await.is_ok() && answered.await.unwrap_or(false)
    }

    /// Tells of an attempt, and returns whether someone takes note.
    pub(crate) async fn tell(&self, host: &str, verdict: Verdict) -> bool {
        self.attempts.send(Attempt { host: host.to_owned(), verdict }).await.is_ok()
    }
}

impl fmt::Debug for AttemptLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptLine").finish_non_exhaustive()
    }
}

impl PartialEq for AttemptLine {
    fn eq(&self, other: &Self) -> bool {
        self.attempts.same_channel(&other.attempts)
    }
}
