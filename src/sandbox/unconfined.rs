//! The runner of systems without a sandbox of ours: it runs what the user let out of the
//! sandbox, and refuses the rest.
//!
//! Knows no plan and no helper. A command gets a process group of its own, and ending it means
//! ending the group; what leaves the group is out of reach here. Takes the place of `runner.rs`,
//! `helper.rs` and `landlock.rs` on all systems but Linux.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::protocol::{SandboxLevel, SandboxMode, SandboxPolicy};
use crate::sandbox::{
    CommandRunner, ExecRequest, ExitState, Process, ProcessControl, SandboxError, in_words,
};

const REASON: &str = "there is no sandbox for this system yet";

/// How long a killed command may take to be gone; a hung disk can hold it for ever.
const KILL_MAX: Duration = Duration::from_secs(3);

/// Returns that commands cannot be confined here, and why.
pub fn level() -> (SandboxLevel, Option<String>) {
    (SandboxLevel::None, Some(REASON.to_owned()))
}

/// Returns the same under any policy.
pub fn level_under(_policy: &SandboxPolicy, _env: &[(String, String)]) -> LevelReport {
    let (level, reason) = level();
    LevelReport { level, reason, exposed: None }
}

/// Returns `None`: without a sandbox there is no helper to act as.
pub fn run_if_asked() -> Option<ExitCode> {
    None
}

/// Starts commands on this machine, unconfined ones only.
#[derive(Debug, Clone)]
pub struct LocalRunner;

impl LocalRunner {
    /// Returns a runner. The helper is for systems with a sandbox.
    pub fn new(_helper: PathBuf) -> Self {
        Self
    }
}

impl CommandRunner for LocalRunner {
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError> {
        let policy = request.sandbox.as_ref();
        if policy.is_some_and(|policy| policy.mode != SandboxMode::DangerFullAccess) {
            return Err(SandboxError::Unavailable(REASON.to_owned()));
        }
        let Some(program) = request.argv.first().cloned() else {
            return Err(SandboxError::NotFound { program: String::new() });
        };
        let reason = match std::fs::metadata(&request.cwd) {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => Some("Not a directory".to_owned()),
            Err(error) => Some(in_words(&error)),
        };
        if let Some(reason) = reason {
            return Err(SandboxError::BadDirectory { cwd: request.cwd, reason });
        }
        start(&program, &request).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SandboxError::NotFound { program },
            _ => SandboxError::Spawn(format!("{program}: {}", in_words(&error))),
        })
    }
}

fn start(program: &str, request: &ExecRequest) -> io::Result<Process> {
    let (output, output_end) = io::pipe()?;
    let child = Command::new(program)
        .args(request.argv.iter().skip(1))
        .current_dir(&request.cwd)
        .env_clear()
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::from(output_end.try_clone()?))
        .stderr(Stdio::from(output_end))
        .process_group(0)
        .spawn()?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    Ok(Process {
        control: Box::new(Group { child, group }),
        input: None,
        output: Box::new(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?),
    })
}

/// A command and what it started. Dropping it kills all of it.
struct Group {
    child: Child,
    /// `None` once all was killed: its number may then be someone else's.
    group: Option<Pid>,
}

impl ProcessControl for Group {
    fn wait(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>> {
        Box::pin(async {
            match self.child.wait().await {
                Ok(status) => Ok(ExitState { code: status.code(), signal: status.signal() }),
                Err(error) => Err(SandboxError::Spawn(error.to_string())),
            }
        })
    }

    fn terminate(&mut self) {
        if let Some(group) = self.group {
            // It may be gone already, which is what we want.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.kill_group();
        Box::pin(async {
            let _ = tokio::time::timeout(KILL_MAX, self.child.wait()).await;
        })
    }
}

impl Group {
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // It may be gone already, which is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_group();
    }
}
