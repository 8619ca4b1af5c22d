//! The proxy: the only way from a confined command to the hosts it may reach.
//!
//! Its face: where it listens, what it tells, and the line it tells it by. `serve.rs` does the work,
//! `parse.rs` reads requests, `relay.rs` moves bytes. Started by `runner.rs` for one command, read
//! by `tools/attempts.rs`.

use tokio::sync::{mpsc, oneshot};

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

/// A connection that a command wants.
#[derive(Debug)]
pub struct Attempt {
    /// Host and port.
    pub host: String,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// What becomes of an attempt.
#[derive(Debug)]
pub enum Verdict {
    /// It goes through.
    Allowed,
    /// It does not, and nobody can allow it here.
    Refused {
        /// Why.
        reason: String,
    },
    /// It is not on the list; it goes through if the answer is yes.
    Asked {
        /// Where the answer goes.
        answer: oneshot::Sender<bool>,
    },
}

/// Where a command's attempts are told.
#[derive(Debug, Clone)]
pub struct AttemptLine(mpsc::Sender<Attempt>);

/// Returns a line for attempts and the end at which they are read.
pub fn attempt_line() -> (AttemptLine, mpsc::Receiver<Attempt>) {
    let (tx, rx) = mpsc::channel(ATTEMPTS_MAX);
    (AttemptLine(tx), rx)
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
    /// Asks whether an attempt may go through; nobody there is a no.
    pub(crate) async fn ask(&self, host: &str) -> bool {
        let (answer, answered) = oneshot::channel();
        self.tell(host, Verdict::Asked { answer }).await && answered.await.unwrap_or(false)
    }

    /// Tells of an attempt, and returns whether someone takes note.
    pub(crate) async fn tell(&self, host: &str, verdict: Verdict) -> bool {
        self.0.send(Attempt { host: host.to_owned(), verdict }).await.is_ok()
    }
}

impl PartialEq for AttemptLine {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}
