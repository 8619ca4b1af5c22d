//! `LocalRunner`: starts a command through the helper and speaks with its supervisor.
//!
//! Knows no timeouts and keeps no output: that is `run.rs`. The protocol is described in
//! `helper.rs`. Needs a tokio runtime around it.

use std::collections::BTreeSet;
use std::fs::File;
use std::future::Future;
use std::io::{Seek, SeekFrom, Write};
use std::net::TcpListener as StdTcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::net::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::protocol::{Network, SandboxLevel, SandboxMode, SandboxPolicy};
use crate::sandbox::linux::explain::explain_plan;
use crate::sandbox::linux::exposure;
use crate::sandbox::linux::facts::{Question, load_facts};
use crate::sandbox::linux::helper::{HELPER_ARGUMENT, INTERRUPT, TERMINATE};
use crate::sandbox::linux::plan::{Facts, SandboxPlan, build_plan};
use crate::sandbox::linux::private_tmp::PrivateTmp;
use crate::sandbox::linux::privileges::adopt_orphans;
use crate::sandbox::linux::probe::findings;
use crate::sandbox::linux::process_tree::kill_orphans;
use crate::sandbox::linux::pty::await_terminal;
use crate::sandbox::linux::repositories::Walks;
use crate::sandbox::linux::streams::{receive_bytes, send_descriptors};
use crate::sandbox::linux::watch::load_memory_bytes;
use crate::sandbox::proxy::Proxy;
use crate::sandbox::{
    CommandRunner, ExecRequest, ExitState, Input, LevelReport, LimitHit, Process, ProcessControl,
    ResourceLimits, SandboxError, in_words,
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

/// What holds for all commands of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerSettings {
    /// What a confined command may use up.
    pub limits: ResourceLimits,
    /// No more than this is made use of, whatever the machine could do.
    pub level_max: SandboxLevel,
}

impl Default for RunnerSettings {
    fn default() -> Self {
        let limits = ResourceLimits::for_memory(load_memory_bytes());
        Self { limits, level_max: SandboxLevel::Full }
    }
}

/// Starts commands on this machine.
#[derive(Debug, Clone)]
pub struct LocalRunner {
    helper: PathBuf,
    settings: RunnerSettings,
    memory: Arc<Memory>,
}

/// What one session's commands share.
#[derive(Debug, Default)]
struct Memory {
    walks: Walks,
    /// Their `/tmp`, once one needed it; removed with the last runner of the session.
    tmp: Mutex<Option<PrivateTmp>>,
}

impl LocalRunner {
    /// Returns a runner whose helper is this program; `/proc/self/exe` in the program itself.
    pub fn new(helper: PathBuf) -> Self {
        Self::with(helper, RunnerSettings::default())
    }

    /// Returns a runner with settings of its own.
    pub fn with(helper: PathBuf, settings: RunnerSettings) -> Self {
        Self { helper, settings, memory: Arc::default() }
    }

    /// Starts a command with our own standard streams instead of an output to be read.
    pub fn spawn_passing(
        &self,
        request: &ExecRequest,
    ) -> Result<Box<dyn ProcessControl>, SandboxError> {
        let plan = SandboxPlan { streams_passed: true, ..self.plan(request)? };
        let streams = own_streams().map_err(|error| SandboxError::Spawn(describe(&error)))?;
        let ends = HelperEnds { stdout: Stdio::null(), streams: Some(streams) };
        Ok(Box::new(self.start(request, &plan, ends)?))
    }

    /// Says in plain words what a command would get, a line each.
    pub fn explain(&self, request: &ExecRequest) -> Result<Vec<String>, SandboxError> {
        Ok(explain_plan(&self.plan(request)?))
    }

    fn plan(&self, request: &ExecRequest) -> Result<SandboxPlan, SandboxError> {
        let confining =
            request.sandbox.as_ref().filter(|it| it.mode != SandboxMode::DangerFullAccess);
        let facts = match confining {
            Some(policy) => self.load_facts(policy, request)?,
            None => Facts::default(),
        };
        let place = (request.cwd.clone(), request.env.clone());
        Ok(build_plan(confining, &facts, self.settings.limits, place))
    }

    fn load_facts(
        &self,
        policy: &SandboxPolicy,
        request: &ExecRequest,
    ) -> Result<Facts, SandboxError> {
        let findings = findings().at_most(self.settings.level_max);
        let is_too_little = findings.level().min(self.settings.level_max) == SandboxLevel::None;
        if is_too_little {
            let none = "nothing confines commands here".to_owned();
            return Err(SandboxError::Unavailable(findings.reason().unwrap_or(none)));
        }
        let question = Question {
            policy,
            home: &std::env::home_dir().unwrap_or_default(),
            env: &request.env,
            cwd: &request.cwd,
            layers: findings.layers,
        };
        let mut facts = load_facts(&question, &self.memory.walks)?;
        facts.attempts_heard = request.attempts.is_some();
        let is_writing = policy.mode == SandboxMode::WorkspaceWrite && policy.tmp;
        if findings.layers.namespaces.is_some() && is_writing {
            facts.private_tmp = Some(self.private_tmp()?);
        }
        Ok(facts)
    }

    /// Returns the session's own `/tmp`, made when it is first needed or was removed meanwhile.
    fn private_tmp(&self) -> Result<PathBuf, SandboxError> {
        let mut tmp = self.memory.tmp.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = tmp.as_ref().and_then(PrivateTmp::path) {
            return Ok(path);
        }
        let made = PrivateTmp::make(&std::env::temp_dir()).map_err(|error| {
            SandboxError::Unavailable(format!("no temporary directory: {}", in_words(&error)))
        })?;
        let path = made.path();
        *tmp = Some(made);
        path.ok_or_else(|| SandboxError::Unavailable("no temporary directory".to_owned()))
    }

    fn start(
        &self,
        request: &ExecRequest,
        plan: &SandboxPlan,
        ends: HelperEnds,
    ) -> Result<Supervisor, SandboxError> {
        start(&self.helper, request, plan, ends)
            .map_err(|error| SandboxError::Spawn(describe(&error)))
    }
}

impl CommandRunner for LocalRunner {
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError> {
        self.spawn_with(request, Input::Empty)
    }

    fn spawn_with(&self, request: ExecRequest, input: Input) -> Result<Process, SandboxError> {
        let mut plan = self.plan(&request)?;
        match input {
            Input::Empty => {}
            Input::Pipe => plan.streams_passed = true,
            Input::Terminal(size) => plan.terminal = Some(size),
        }
        let (ends, wires) =
            lay_wires(input).map_err(|error| SandboxError::Spawn(describe(&error)))?;
        let supervisor = self.start(&request, &plan, ends)?;
        Ok(Process {
            control: Box::new(supervisor),
            output: wires.output,
            input: wires.input,
            output_bytes_max: self.settings.limits.output_bytes_max,
        })
    }

    fn level_under(&self, policy: &SandboxPolicy, env: &[(String, String)]) -> LevelReport {
        exposure::level_within(self.settings.level_max, policy, env)
    }
}

fn describe(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::E2BIG) => "its arguments are too long".to_owned(),
        _ => error.to_string(),
    }
}

/// What the helper gets: its output, and streams that go over the line.
struct HelperEnds {
    stdout: Stdio,
    streams: Option<[OwnedFd; 3]>,
}

/// Our ends of what a command prints and reads.
struct Wires {
    output: Box<dyn AsyncRead + Send + Unpin>,
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
}

fn lay_wires(input: Input) -> std::io::Result<(HelperEnds, Wires)> {
    if let Input::Terminal(_) = input {
        let (line, helper_end) = StdUnixStream::pair()?;
        let (output, input) = tokio::io::split(await_terminal(line)?);
        let stdout = Stdio::from(OwnedFd::from(helper_end));
        let wires = Wires { output: Box::new(output), input: Some(Box::new(input)) };
        return Ok((HelperEnds { stdout, streams: None }, wires));
    }
    let (output, output_end) = std::io::pipe()?;
    let output = Box::new(pipe::Receiver::from_owned_fd(output.into())?);
    if input == Input::Empty {
        let ends = HelperEnds { stdout: Stdio::from(output_end), streams: None };
        return Ok((ends, Wires { output, input: None }));
    }
    let (input_end, input) = std::io::pipe()?;
    let input = Box::new(pipe::Sender::from_owned_fd(input.into())?);
    let streams = [input_end.into(), output_end.try_clone()?.into(), output_end.into()];
    let ends = HelperEnds { stdout: Stdio::null(), streams: Some(streams) };
    Ok((ends, Wires { output, input: Some(input) }))
}

fn own_streams() -> std::io::Result<[OwnedFd; 3]> {
    Ok([
        std::io::stdin().as_fd().try_clone_to_owned()?,
        std::io::stdout().as_fd().try_clone_to_owned()?,
        std::io::stderr().as_fd().try_clone_to_owned()?,
    ])
}

fn start(
    helper: &PathBuf,
    request: &ExecRequest,
    plan: &SandboxPlan,
    ends: HelperEnds,
) -> std::io::Result<Supervisor> {
    // A file in memory rather than a pipe: it takes a plan of any size at once.
    let mut input = File::from(rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?);
    input.write_all(&serde_json::to_vec(plan)?)?;
    input.seek(SeekFrom::Start(0))?;
    let (control, control_end) = StdUnixStream::pair()?;
    if let Some(streams) = &ends.streams {
        send_descriptors(&control, &streams.each_ref().map(AsFd::as_fd))?;
    }
    control.set_nonblocking(true)?;
    // Where a supervisor is killed, by a command that nothing confines, what it left comes to us.
    // A kernel that refuses leaves it to the system's first process, as it was.
    ADOPTION.call_once(|| drop(adopt_orphans()));
    // Held until the new one is in: none may take it for an orphan meanwhile.
    let mut supervisors = lock_supervisors();
    let child = Command::new(helper)
        .arg(HELPER_ARGUMENT)
        .args(&request.argv)
        .env_clear()
        .stdin(Stdio::from(input))
        .stdout(ends.stdout)
        .stderr(Stdio::from(OwnedFd::from(control_end)))
        .spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    supervisors.extend(pid);
    drop(supervisors);
    let supervisor = Supervisor {
        socket: Some(UnixStream::from_std(control)?),
        child,
        pid,
        received: Vec::new(),
        cwd: request.cwd.clone(),
        proxy: build_proxy(request, plan),
        serving: JoinSet::new(),
    };
    Ok(supervisor)
}

/// Returns the proxy of a command that is to have one.
fn build_proxy(request: &ExecRequest, plan: &SandboxPlan) -> Option<Proxy> {
    plan.confinement.as_ref().filter(|confinement| confinement.proxied)?;
    match &request.sandbox.as_ref()?.network {
        Network::Hosts(hosts) => Some(Proxy::new(hosts, request.attempts.clone()?)),
        Network::Off | Network::On => None,
    }
}

/// Our end of the line to the supervisor. Dropping it closes the socket, upon which the
/// supervisor kills all; tokio collects the supervisor.
struct Supervisor {
    /// Open until the supervisor is gone.
    socket: Option<UnixStream>,
    child: Child,
    pid: Option<i32>,
    received: Vec<u8>,
    cwd: PathBuf,
    /// The command's proxy, until its listener has come.
    proxy: Option<Proxy>,
    /// The proxy at work; it ends with this.
    serving: JoinSet<()>,
}

impl ProcessControl for Supervisor {
    fn wait(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>> {
        Box::pin(self.receive_end())
    }

    fn terminate(&mut self) {
        // A full socket means that it was asked often enough.
        let _ = self.socket.as_ref().map(|socket| socket.try_write(&[TERMINATE]));
    }

    fn interrupt(&mut self) {
        let _ = self.socket.as_ref().map(|socket| socket.try_write(&[INTERRUPT]));
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // It may be gone already, which is what we want.
        if let Some(socket) = &self.socket {
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
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
            // What the supervisor left in it is slow to close.
            let socket = self.socket.take();
            drop(tokio::task::spawn_blocking(|| drop(socket)));
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
            let Some(socket) = &self.socket else { return Err(self.explain_silence().await) };
            if socket.readable().await.is_err() || self.received.len() > LINE_BYTES_MAX {
                return Err(self.explain_silence().await);
            }
            let mut bytes = [0_u8; 1024];
            let read = || receive_bytes(socket, &mut bytes);
            match socket.try_io(Interest::READABLE, read) {
                Ok((0, _)) => return Err(self.explain_silence().await),
                Ok((count, listener)) => {
                    self.received.extend(bytes.iter().take(count));
                    self.serve_proxy(listener);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(self.explain_silence().await),
            }
        }
    }

    /// Serves the command's proxy on a listener in its own network.
    fn serve_proxy(&mut self, listener: Option<OwnedFd>) {
        let Some(listener) = listener.map(StdTcpListener::from) else { return };
        let Some(proxy) = self.proxy.take() else { return };
        let listener =
            listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        // One that cannot be served is closed, and the command reaches nothing.
        if let Ok(listener) = listener {
            self.serving.spawn(proxy.serve(listener));
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
        "L" => Err(SandboxError::LimitReached(LimitHit::parse(&text)?)),
        _ => return None,
    })
}
