//! The command's own side: what its process does to itself before it becomes the command.
//!
//! Runs in a child of the helper, with one thread, and comes back only when something failed.
//! Knows nothing of what watches it. Called by `helper.rs` and, in namespaces, by `init.rs`.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit};

use crate::sandbox::in_words;
use crate::sandbox::linux::landlock;
use crate::sandbox::linux::plan::{Confinement, SandboxPlan};
use crate::sandbox::linux::privileges;
use crate::sandbox::linux::pty;
use crate::sandbox::linux::seccomp::{self, Reach, Sockets};
use crate::sandbox::linux::watch::restrict_process;

/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why the command was not executed, as it goes over the line.
pub(crate) struct Refusal {
    pub(crate) kind: char,
    pub(crate) text: String,
}

impl Refusal {
    /// This machine cannot confine the command as the plan promises.
    pub(crate) fn unavailable(text: String) -> Self {
        Self { kind: 'U', text }
    }

    fn system(error: &std::io::Error) -> Self {
        Self { kind: 'P', text: in_words(error) }
    }

    /// Returns the line that says so.
    pub(crate) fn to_line(&self) -> String {
        format!("{} {}", self.kind, self.text)
    }
}

/// What is to be executed.
pub(crate) struct Errand<'a> {
    /// How.
    pub(crate) plan: &'a SandboxPlan,
    /// Program and arguments.
    pub(crate) argv: &'a [OsString],
    /// Streams that came over the line, where they did.
    pub(crate) streams: Option<&'a [OwnedFd; 3]>,
}

impl Errand<'_> {
    /// Puts another file in the place of the streams that were passed: only the command's side
    /// holds them open.
    pub(crate) fn leave_streams(&self, null: impl AsFd) -> std::io::Result<()> {
        for stream in self.streams.into_iter().flatten() {
            let (null, stream) = (null.as_fd().as_raw_fd(), stream.as_raw_fd());
            // SAFETY: both are open, and what the second one was nobody here uses any more.
            if unsafe { libc::dup3(null, stream, libc::O_CLOEXEC) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Becomes the command; returns only when that failed. It dies with its parent.
pub(crate) fn become_command(errand: &Errand<'_>, parent: Pid) -> Refusal {
    let plan = errand.plan;
    let prepared = prepare(errand, parent).and_then(|()| {
        plan.confinement.as_ref().map_or(Ok(()), confine).map_err(Refusal::unavailable)
    });
    match prepared {
        Ok(()) => execute(errand.argv, &plan.env),
        Err(refusal) => refusal,
    }
}

fn prepare(errand: &Errand<'_>, parent: Pid) -> Result<(), Refusal> {
    let spawn = |error: rustix::io::Errno| Refusal::system(&error.into());
    rustix::process::setsid().map_err(spawn)?;
    match (errand.streams, errand.plan.terminal) {
        (_, Some(size)) => pty::enter_terminal(size)
            .map_err(|error| Refusal { kind: 'P', text: no_terminal(&error) })?,
        (Some([input, output, errors]), None) => {
            rustix::stdio::dup2_stdin(input).map_err(spawn)?;
            rustix::stdio::dup2_stdout(output).map_err(spawn)?;
            rustix::stdio::dup2_stderr(errors).map_err(spawn)?;
        }
        (None, None) => rustix::stdio::dup2_stderr(rustix::stdio::stdout()).map_err(spawn)?,
    }
    reset_signals();
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, no_core).map_err(spawn)?;
    rustix::process::chdir(&errand.plan.cwd)
        .map_err(|error| Refusal { kind: 'D', text: in_words(&error.into()) })?;
    // Set for the free command too: without the supervisor nobody would end it.
    privileges::die_with_parent().map_err(|error| Refusal::system(&error))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(Refusal { kind: 'P', text: "the helper was killed".to_owned() });
    }
    Ok(())
}

fn no_terminal(error: &std::io::Error) -> String {
    format!("no terminal can be made: {}", in_words(error))
}

/// Confines this process, from the widest to the narrowest; the order matters.
fn confine(confinement: &Confinement) -> Result<(), String> {
    privileges::forgo_new().map_err(|error| error.to_string())?;
    privileges::drop_capabilities(confinement.keep_mode_override)
        .map_err(|error| format!("capabilities: {error}"))?;
    // Dropping capabilities may forget it.
    privileges::die_with_parent().map_err(|error| error.to_string())?;
    restrict_process(&confinement.limits).map_err(|error| format!("limits: {error}"))?;
    if confinement.landlock {
        landlock::restrict_files(confinement)?;
    }
    let reach = match confinement.view {
        Some(_) => Reach::OwnProcesses,
        None => Reach::AllProcesses,
    };
    seccomp::restrict_calls(choose_sockets(confinement), reach)
}

fn choose_sockets(confinement: &Confinement) -> Sockets {
    // A private network is as good as none, and programs test themselves over its loopback.
    if confinement.network || confinement.view.is_some() {
        Sockets::Open
    } else if landlock::confines_sockets() {
        Sockets::Local
    } else {
        Sockets::Paired
    }
}

/// Executes the command, looking for it as a shell does; returns only when that failed.
fn execute(argv: &[OsString], env: &[(String, String)]) -> Refusal {
    let Some(program) = argv.first() else {
        return Refusal { kind: 'N', text: String::new() };
    };
    let mut denied = None;
    let path = env.iter().rfind(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value);
    let is_named = program.as_bytes().contains(&b'/');
    let candidates: Vec<_> = if is_named {
        vec![Path::new(program).to_owned()]
    } else {
        // An empty entry means the working directory, which is the repository's: left out.
        std::env::split_paths(path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(program))
            .collect()
    };
    for candidate in candidates {
        let mut error = replace_process(&candidate, argv, env);
        if error.raw_os_error() == Some(libc::ENOEXEC) {
            let mut script = vec![OsString::from("/bin/sh"), candidate.clone().into_os_string()];
            script.extend(argv.iter().skip(1).cloned());
            error = replace_process(Path::new("/bin/sh"), &script, env);
        }
        // In a directory of the PATH that we may not enter, there is nothing for us.
        let is_there = is_named || candidate.exists();
        if is_there && !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
            denied = Some(error);
        }
    }
    let name = program.to_string_lossy();
    match denied {
        Some(error) => Refusal { kind: 'P', text: format!("{name}: {}", in_words(&error)) },
        None => Refusal { kind: 'N', text: name.into_owned() },
    }
}

fn replace_process(program: &Path, argv: &[OsString], env: &[(String, String)]) -> std::io::Error {
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    let program = text(program.as_os_str().as_bytes());
    let argv: Vec<CString> = argv.iter().map(|argument| text(argument.as_bytes())).collect();
    let env: Vec<CString> =
        env.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes())).collect();
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|item| item.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&argv), pointers(&env));
    // SAFETY: all three point to texts that end in NUL and live until the call returns, and
    // both lists end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    std::io::Error::last_os_error()
}

/// Undoes what Rust's start and our caller did to signals: a command begins with none ignored
/// or blocked.
fn reset_signals() {
    for signal in 1..32 {
        // SAFETY: the default action is valid for each; the two that cannot be set are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the set before `sigprocmask` reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}
