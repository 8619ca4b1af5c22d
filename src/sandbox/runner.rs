//! `LocalRunner`: starts a command through the helper and speaks with its supervisor.
//!
//! Knows no timeouts and keeps no output: that is `run.rs`. The protocol is described in
//! `helper.rs`. Needs a tokio runtime around it.

use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::net::Shutdown;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::sandbox::facts::load_facts;
use crate::sandbox::helper::{HELPER_ARGUMENT, TERMINATE, set_child_subreaper};
use crate::sandbox::plan::{Facts, SandboxPlan, build_plan};
use crate::sandbox::process_tree::kill_orphans;
use crate::sandbox::{
    CommandRunner, ExecRequest, ExitState, Process, ProcessControl, SandboxError,
};

/// Bytes of a line from the supervisor; the longest names a program and a reason.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// How long the supervisor may take to kill all; it gives up by itself before.
const SUPERVISOR_EXIT_MAX: Duration = Duration::from_secs(3);

/// Makes this process the one that orphans come to, once.
static ADOPTION: Once = Once::new();

/// Supervisors that were started and not yet seen to end. One that vanishes with its `Process`
/// stays in here, since it has killing to do still.
static SUPERVISORS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Starts commands on this machine.
#[derive(Debug, Clone)]
pub struct LocalRunner {
    helper: PathBuf,
}

impl LocalRunner {
    /// Returns a runner whose helper is this program; `/proc/self/exe` in the program itself.
    pub fn new(helper: PathBuf) -> Self {
        Self { helper }
    }
}

impl CommandRunner for LocalRunner {
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError> {
        let facts = match &request.sandbox {
            Some(policy) => {
                let home = std::env::home_dir().unwrap_or_default();
                let tmpdir = request.env.iter().find(|(name, _)| name == "TMPDIR");
                load_facts(policy, &home, tmpdir.map(|(_, value)| value.as_str()))?
            }
            None => Facts::default(),
        };
        let plan = build_plan(
            request.sandbox.as_ref(),
            &facts,
            (request.cwd.clone(), request.env.clone()),
        );
        start(&self.helper, &request, &plan).map_err(|error| SandboxError::Spawn(describe(&error)))
    }
}

fn describe(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::E2BIG) => "its arguments are too long".to_owned(),
        _ => error.to_string(),
    }
}

fn start(helper: &PathBuf, request: &ExecRequest, plan: &SandboxPlan) -> std::io::Result<Process> {
    // A file in memory rather than a pipe: it takes a plan of any size at once.
    let mut input = File::from(rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?);
    input.write_all(&serde_json::to_vec(plan)?)?;
    input.seek(SeekFrom::Start(0))?;
    let (output, output_end) = std::io::pipe()?;
    let (control, control_end) = StdUnixStream::pair()?;
    control.set_nonblocking(true)?;
    // Where a supervisor is killed, by a command that nothing confines, what it left comes to us.
    // A kernel that refuses leaves it to the system's first process, as it was.
    ADOPTION.call_once(|| drop(set_child_subreaper()));
    // Held until the new one is in: none may take it for an orphan meanwhile.
    let mut supervisors = lock_supervisors();
    let child = Command::new(helper)
        .arg(HELPER_ARGUMENT)
        .args(&request.argv)
        .env_clear()
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output_end))
        .stderr(Stdio::from(OwnedFd::from(control_end)))
        .spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    supervisors.extend(pid);
    drop(supervisors);
    Ok(Process {
        output: Box::new(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?),
        control: Box::new(Supervisor {
            socket: UnixStream::from_std(control)?,
            child,
            pid,
            received: Vec::new(),
            cwd: request.cwd.clone(),
        }),
    })
}

/// Our end of the line to the supervisor. Dropping it closes the socket, upon which the
/// supervisor kills all; tokio collects the supervisor.
struct Supervisor {
    socket: UnixStream,
    child: Child,
    pid: Option<i32>,
    received: Vec<u8>,
    cwd: PathBuf,
}

impl ProcessControl for Supervisor {
    fn wait(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>> {
        Box::pin(self.receive_end())
    }

    fn terminate(&mut self) {
        // A full socket means that it was asked often enough.
        let _ = self.socket.try_write(&[TERMINATE]);
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // It may be gone already, which is what we want.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        Box::pin(async {
            let ended = tokio::time::timeout(SUPERVISOR_EXIT_MAX, self.child.wait()).await;
            if ended.is_err() {
                let _ = self.child.start_kill();
            }
            // One that ended well has left nothing behind.
            if !matches!(ended, Ok(Ok(status)) if status.success()) {
                let _ = self.child.wait().await;
                let _ = tokio::task::spawn_blocking(|| kill_orphans(lock_supervisors)).await;
            }
            if let Some(pid) = self.pid {
                lock_supervisors().remove(&pid);
            }
        })
    }
}

fn lock_supervisors() -> MutexGuard<'static, BTreeSet<i32>> {
    // Nothing panics while it is held, and the list would be whole still.
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Supervisor {
    async fn receive_end(&mut self) -> Result<ExitState, SandboxError> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.drain(..=end).collect::<Vec<u8>>();
                let line = String::from_utf8_lossy(&line);
                if let Some(result) = parse_line(line.trim_end(), &self.cwd) {
                    return result;
                }
                continue;
            }
            if self.socket.readable().await.is_err() || self.received.len() > LINE_BYTES_MAX {
                return Err(self.explain_silence().await);
            }
            let mut bytes = [0_u8; 1024];
            match self.socket.try_read(&mut bytes) {
                Ok(0) => return Err(self.explain_silence().await),
                Ok(count) => self.received.extend(bytes.iter().take(count)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(self.explain_silence().await),
            }
        }
    }

    /// Says why a supervisor is gone without a word of how the command ended. Only one that gave
    /// up by itself surely never started it.
    async fn explain_silence(&mut self) -> SandboxError {
        match tokio::time::timeout(SUPERVISOR_EXIT_MAX, self.child.wait()).await {
            Ok(Ok(status)) if status.code().is_some() => {
                SandboxError::Spawn("the helper ended early".to_owned())
            }
            Ok(_) | Err(_) => SandboxError::SupervisorKilled,
        }
    }
}

/// Reads a line of the supervisor; `None` for what is no line of its.
fn parse_line(line: &str, cwd: &std::path::Path) -> Option<Result<ExitState, SandboxError>> {
    let (kind, text) = line.split_once(' ')?;
    let text = text.to_owned();
    Some(match kind {
        "X" => Ok(ExitState { code: Some(text.parse().ok()?), signal: None }),
        "S" => Ok(ExitState { code: None, signal: Some(text.parse().ok()?) }),
        "N" => Err(SandboxError::NotFound { program: text }),
        "D" => Err(SandboxError::BadDirectory { cwd: cwd.to_owned(), reason: text }),
        "U" => Err(SandboxError::Unavailable(text)),
        "P" => Err(SandboxError::Spawn(text)),
        _ => return None,
    })
}
