//! The engine: sessions as tasks, driven by `Op`s, heard through `Event`s.
//!
//! This is the whole public surface. A front end sees `Engine` and `Handle` and nothing
//! below; the session's insides see no front end, read no environment and print nothing.
//! Built by `cli`, or by a program that uses the crate.

mod approvals;
mod attempts;
mod bus;
mod calls;
mod masking;
mod mcp;
mod notes;
mod opening;
mod processes;
pub(crate) mod restore;
mod restore_scope;
mod session;
mod settings;
mod timeline;
mod turn;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::config::Config;
use crate::model::DriverError;
use crate::model::DriverFactory;
use crate::protocol::Event;
use crate::protocol::Op;
use crate::protocol::SessionId;
use crate::sandbox::CommandRunner;
use crate::store::session_file;
use crate::store::session_file::SessionFileError;
use crate::tools::Registration;

pub use crate::text::secrets::KnownSecret;
pub use bus::Observer;

/// Operations a session holds for later; more are refused with `Busy`.
const OPS_MAX: usize = 64;
/// Events a front end may be behind before the session waits for it.
const EVENTS_MAX: usize = 256;

/// Starts sessions. Holds what all of them share.
#[derive(Clone)]
pub struct Engine {
    /// Makes drivers.
    pub drivers: Arc<dyn DriverFactory>,
    /// The tools, but for those of MCP servers.
    pub tools: Vec<Registration>,
    /// Runs commands.
    pub runner: Arc<dyn CommandRunner>,
    /// See every event of every session.
    pub observers: Vec<Observer>,
}

/// What a session starts from.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// All settings.
    pub config: Arc<Config>,
    /// What came before.
    pub history: History,
    /// Whether someone can answer questions; if not, what would ask is declined.
    pub interactive: bool,
    /// The caller's environment, of which commands and MCP servers get a filtered part.
    pub env: Vec<(String, String)>,
    /// Secrets that the caller knows; they are masked wherever tools find them.
    pub secrets: Vec<KnownSecret>,
    /// The shell that reads command lines, absolute.
    pub shell: String,
}

/// What came before a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// Nothing.
    New,
    /// An earlier process of the same session.
    Resume(SessionId),
}

/// Why a session does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] SessionFileError),
    /// There is no driver for its model.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl StartError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Driver(error) => return error.hint.clone(),
            Self::File(SessionFileError::NotFound(_) | SessionFileError::Empty(_)) => {
                "gimlet exec resume --last takes the latest session of this directory"
            }
            Self::File(SessionFileError::Locked(_)) => "wait for the other process, or end it",
            Self::File(SessionFileError::Io { .. }) => {
                "check permissions and free space, set GIMLET_HOME, or use --ephemeral"
            }
        };
        Some(hint.to_owned())
    }
}

/// A running session. Dropping it stops the session as `Op::Shutdown` does.
#[derive(Debug)]
pub struct Handle {
    session: SessionId,
    ops: mpsc::Sender<Op>,
    events: mpsc::Receiver<Event>,
}

/// The session's inbox is full, or it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session takes no more operations now")]
pub struct Busy;

impl Engine {
    /// Starts a session as a task of the current runtime.
    pub fn start(&self, spec: SessionSpec) -> Result<Handle, StartError> {
        let (ops_tx, ops) = mpsc::channel(OPS_MAX);
        let (events_tx, events) = mpsc::channel(EVENTS_MAX);
        let session = session::Session::open(self, spec, events_tx)?;
        let id = session.id();
        tokio::spawn(session.run(ops));
        Ok(Handle { session: id, ops: ops_tx, events })
    }
}

impl Handle {
    /// Returns the session's id.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Hands an operation to the session. Never waits.
    pub fn submit(&self, op: Op) -> Result<(), Busy> {
        self.ops.try_send(op).map_err(|_| Busy)
    }

    /// Returns the next event; `None` when the session has ended and all events were read.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

/// Returns the newest session in the state directory, of one working directory or of any.
pub fn last_session(state: &Path, cwd: Option<&Path>) -> Option<SessionId> {
    session_file::find_last(state, cwd)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod approvals_tests;
#[cfg(test)]
mod kept_tests;
