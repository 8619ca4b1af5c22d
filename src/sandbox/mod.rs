//! Running commands, confined. `CommandRunner` is the one door; `plan.rs` decides what is
//! confined how, from a policy and facts; the helper carries the plan out.
//!
//! Knows nothing of tools, approvals or sessions. Called by `tools/shell.rs`; the binary's
//! `main` hands `helper::run_if_asked` the process when it was re-executed as the helper.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::protocol::{SandboxLevel, SandboxPolicy};

mod environment;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod profile;
mod proxy;
mod run;
#[cfg(not(target_os = "linux"))]
mod unconfined;

pub use environment::{OWN_COMMANDS, add_own_commands, command_env};
pub use limits::{LimitHit, ResourceKind, ResourceLimits};
#[cfg(target_os = "linux")]
pub(crate) use linux::is_placeholder;
#[cfg(target_os = "linux")]
pub use linux::{
    LocalRunner, RunnerSettings, level, level_under, load_memory_bytes, open_at_reduced_level,
    run_if_asked,
};
pub use proxy::{
    Attempt, AttemptLine, AttemptsHeard, HostJudge, HostQuestion, Verdict, Wanted, attempt_line,
};
pub use run::{
    Capture, OUTPUT_BYTES_MAX, RunLimits, Wish, WishSender, attend, likely_denied, run, wishes,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use unconfined::is_placeholder;
#[cfg(not(target_os = "linux"))]
pub use unconfined::{
    LocalRunner, RunnerSettings, level, level_under, load_memory_bytes, open_at_reduced_level,
    run_if_asked,
};

/// One command to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecRequest {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where, absolute.
    pub cwd: PathBuf,
    /// The whole environment, already filtered.
    pub env: Vec<(String, String)>,
    /// What it can reach; `None` runs it outside the sandbox, by the user's own word only.
    pub sandbox: Option<SandboxPolicy>,
    /// Where its attempts to reach hosts are judged, told and asked; without it they are refused.
    pub attempts: Option<AttemptLine>,
}

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for TerminalSize {
    /// What programs take for granted.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    Empty,
    /// What is written to a pipe.
    Pipe,
    /// What is typed into a terminal of its own, which is its output as well.
    Terminal(TerminalSize),
}

/// How well commands are confined here, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelReport {
    /// The level.
    pub level: SandboxLevel,
    /// Why not the full one.
    pub reason: Option<String>,
    /// What should be hidden and cannot be, because it lies inside a writable root.
    pub exposed: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitState {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The end of a command that was run by `run`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecResult {
    /// How it ended.
    pub end: CommandEnd,
    /// Both streams in the order they came, head and tail kept within `OUTPUT_BYTES_MAX`.
    pub output: Vec<u8>,
    /// Bytes left out of `output` between head and tail.
    pub omitted_bytes: u64,
    /// Offset in `output` at which bytes were left out; its length when none were.
    pub omitted_at: usize,
    /// How long it took.
    pub duration: Duration,
}

/// How a command that was run by `run` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself.
    Exited(ExitState),
    /// Killed, with all it started: its time was over.
    TimedOut,
    /// Killed, with all it started: the turn was stopped.
    Interrupted,
    /// Killed, with all it started: it used up what it may.
    LimitReached(LimitHit),
}

/// Why a command could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// There is no such program.
    #[error("{program}: command not found")]
    NotFound {
        /// The program's name.
        program: String,
    },
    /// Its directory cannot be entered.
    #[error("cannot run in {}: {reason}", cwd.display())]
    BadDirectory {
        /// The directory.
        cwd: PathBuf,
        /// Why.
        reason: String,
    },
    /// This machine cannot confine it as the plan promises, so it was not run.
    #[error("the sandbox cannot be set up here: {0}")]
    Unavailable(String),
    /// The system refused.
    #[error("cannot start the command: {0}")]
    Spawn(String),
    /// Its supervisor was killed, which a command that nothing confines can do. It may have run.
    #[error("the command's supervisor was killed; what it did until then stands")]
    SupervisorKilled,
    /// It used up what it may, and was killed with all it started.
    #[error("the command was stopped: {0}")]
    LimitReached(LimitHit),
}

/// Starts commands. The real implementation re-executes this binary as a helper, and without a
/// sandbox (`unconfined.rs`) runs little; tests bring their own.
pub trait CommandRunner: Send + Sync {
    /// Starts a command in its own process group, confined as the request says.
    ///
    /// Dropping the `Process` kills the command and all it started.
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError>;

    /// Starts a command that is written to while it runs.
    fn spawn_with(&self, request: ExecRequest, input: Input) -> Result<Process, SandboxError> {
        match input {
            Input::Empty => self.spawn(request),
            Input::Pipe | Input::Terminal(_) => {
                Err(SandboxError::Unavailable("commands take no input here".to_owned()))
            }
        }
    }

    /// Returns how well it confines commands under a policy, and why not fully; `env` is their
    /// environment.
    fn level_under(&self, policy: &SandboxPolicy, env: &[(String, String)]) -> LevelReport {
        level_under(policy, env)
    }
}

/// A running command. Dropping it kills the command and all it started.
pub struct Process {
    /// Both streams in the order they came.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// What it reads, where it reads anything; dropping it closes it.
    pub input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Its end, and the means to bring it about.
    pub control: Box<dyn ProcessControl>,
    /// How much it may print, in bytes; `None` is no bound.
    pub output_bytes_max: Option<u64>,
}

/// What can be done with a running command beside reading its output.
pub trait ProcessControl: Send {
    /// Waits for the command itself to end, not for what it left running. May be dropped and
    /// called again.
    fn wait(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>>;

    /// Asks the command and all it started to end.
    fn terminate(&mut self);

    /// Asks the command alone to stop what it is doing, as Ctrl-C does.
    fn interrupt(&mut self) {
        self.terminate();
    }

    /// Kills what is left of the command and all it started, and waits until it is gone.
    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Returns what the system said without its number.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}
