//! The runner of systems without a sandbox of ours. On macOS a command goes through the system's
//! own `sandbox-exec`; elsewhere it runs what the user let out of the sandbox, and refuses the
//! rest.
//!
//! Knows no plan and no helper. A command gets a process group of its own, and ending it means
//! ending the group; what leaves the group is out of reach here. Takes the place of `runner.rs`,
//! `helper.rs` and all they use on all systems but Linux.

use std::ffi::OsString;
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

use crate::protocol::{Pattern, SandboxLevel, SandboxMode, SandboxPolicy};
use crate::sandbox::profile::{Profile, ProfileFacts, build_profile};
use crate::sandbox::{
    CommandRunner, ExecRequest, ExitState, LevelReport, Process, ProcessControl, ResourceLimits,
    SandboxError, in_words,
};

const REASON: &str = "there is no sandbox for this system yet";

/// The system's own way to confine a program; by this path alone.
const SEATBELT: &str = "/usr/bin/sandbox-exec";

const SEATBELT_REASON: &str = "Seatbelt confines files and network; processes that leave their \
    group are not ended, and memory and disk are not bounded";

/// How long a killed command may take to be gone; a hung disk can hold it for ever.
const KILL_MAX: Duration = Duration::from_secs(3);

/// Returns how well commands can be confined here, and why not fully.
pub fn level() -> (SandboxLevel, Option<String>) {
    if cfg!(target_os = "macos") && std::path::Path::new(SEATBELT).exists() {
        return (SandboxLevel::Reduced, Some(SEATBELT_REASON.to_owned()));
    }
    (SandboxLevel::None, Some(REASON.to_owned()))
}

/// Returns the same under any policy.
pub fn level_under(_policy: &SandboxPolicy, _env: &[(String, String)]) -> LevelReport {
    let (level, reason) = level();
    LevelReport { level, reason, exposed: None }
}

/// Returns no memory: here it is not bounded.
pub fn load_memory_bytes() -> u64 {
    0
}

/// Returns what the reduced level does not stop, a clause each.
pub fn open_at_reduced_level() -> &'static [&'static str] {
    &["processes that leave their group", "use of memory, disk and processes"]
}

/// Returns `None`: without a sandbox there is no helper to act as.
pub fn run_if_asked() -> Option<ExitCode> {
    None
}

/// What holds for all commands of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerSettings {
    /// What a command may use up; of it, only the output is bounded here.
    pub limits: ResourceLimits,
    /// No more than this is made use of, whatever the machine could do.
    pub level_max: SandboxLevel,
}

/// Starts commands on this machine.
#[derive(Debug, Clone)]
pub struct LocalRunner {
    settings: RunnerSettings,
}

impl LocalRunner {
    /// Returns a runner. The helper is for systems with a sandbox of ours.
    pub fn new(helper: PathBuf) -> Self {
        let limits = ResourceLimits::for_memory(load_memory_bytes());
        Self::with(helper, RunnerSettings { limits, level_max: SandboxLevel::Full })
    }

    /// Returns a runner with settings of its own.
    pub fn with(_helper: PathBuf, settings: RunnerSettings) -> Self {
        Self { settings }
    }

    /// Starts a command with our own standard streams instead of an output to be read.
    pub fn spawn_passing(
        &self,
        request: &ExecRequest,
    ) -> Result<Box<dyn ProcessControl>, SandboxError> {
        let mut command = self.build(request)?;
        let child = command.spawn().map_err(|error| in_spawning(request, &error))?;
        Ok(Box::new(Group::new(child)))
    }

    /// Says in plain words what a command would get, a line each.
    pub fn explain(&self, request: &ExecRequest) -> Result<Vec<String>, SandboxError> {
        let confined = confining(request).map(|policy| profile_of(policy).text);
        let text = confined.unwrap_or_else(|| "nothing confines the command".to_owned());
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Returns the command, confined as it is to be, with our own streams.
    fn build(&self, request: &ExecRequest) -> Result<Command, SandboxError> {
        let Some((program, arguments)) = request.argv.split_first() else {
            return Err(SandboxError::NotFound { program: String::new() });
        };
        check_directory(&request.cwd)?;
        let mut command = match confining(request) {
            None => Command::new(program),
            Some(policy) => {
                if level().0.min(self.settings.level_max) == SandboxLevel::None {
                    return Err(SandboxError::Unavailable(REASON.to_owned()));
                }
                let Profile { text, parameters } = profile_of(policy);
                let mut command = Command::new(SEATBELT);
                command.arg("-p").arg(text);
                for (name, path) in parameters {
                    let mut definition = OsString::from(format!("-D{name}="));
                    definition.push(path);
                    command.arg(definition);
                }
                command.arg("--").arg(program);
                command
            }
        };
        command
            .args(arguments)
            .current_dir(&request.cwd)
            .env_clear()
            .envs(request.env.iter().map(|(name, value)| (name, value)))
            .process_group(0);
        Ok(command)
    }
}

/// Returns the policy of a command that is to be confined.
fn confining(request: &ExecRequest) -> Option<&SandboxPolicy> {
    request.sandbox.as_ref().filter(|policy| policy.mode != SandboxMode::DangerFullAccess)
}

fn profile_of(policy: &SandboxPolicy) -> Profile {
    let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
    let home = std::env::home_dir().unwrap_or_default();
    let hidden = policy.deny_read.iter().filter_map(|Pattern(text)| {
        let path = match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(text),
        };
        real(&path)
    });
    let temporary = [PathBuf::from("/tmp"), std::env::temp_dir()];
    build_profile(
        policy,
        &ProfileFacts {
            roots: policy.roots.iter().filter_map(real).collect(),
            temporary: temporary.iter().filter_map(real).collect(),
            hidden: hidden.collect(),
            closed: policy.deny_write.iter().filter_map(real).collect(),
        },
    )
}

fn check_directory(cwd: &std::path::Path) -> Result<(), SandboxError> {
    let reason = match std::fs::metadata(cwd) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => "Not a directory".to_owned(),
        Err(error) => in_words(&error),
    };
    Err(SandboxError::BadDirectory { cwd: cwd.to_owned(), reason })
}

fn in_spawning(request: &ExecRequest, error: &io::Error) -> SandboxError {
    let program = request.argv.first().cloned().unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => SandboxError::NotFound { program },
        _ => SandboxError::Spawn(format!("{program}: {}", in_words(error))),
    }
}

impl CommandRunner for LocalRunner {
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError> {
        let mut command = self.build(&request)?;
        start(&mut command, self.settings.limits.output_bytes_max)
            .map_err(|error| in_spawning(&request, &error))
    }
}

fn start(command: &mut Command, output_bytes_max: Option<u64>) -> io::Result<Process> {
    let (output, output_end) = io::pipe()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(output_end.try_clone()?))
        .stderr(Stdio::from(output_end))
        .spawn()?;
    Ok(Process {
        control: Box::new(Group::new(child)),
        input: None,
        output: Box::new(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?),
        output_bytes_max,
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

    fn interrupt(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::INT);
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
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child, group }
    }

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
/// Nothing is put in the way of commands here.
pub(crate) fn is_placeholder(_mode: u32, _uid: u32) -> bool {
    false
}
