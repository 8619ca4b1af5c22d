//! The helper: this binary, executed again to start one command and to outlive none of it.
//!
//! The helper stays as supervisor; its one child confines itself and becomes the command.
//! Orphans come to the supervisor, so it can end all a command started, whatever sessions they
//! made. It knows one thread, no runtime and no command line parser.
//!
//! Standard input is the plan as JSON, standard output is the command's, standard error is a
//! socket to `runner.rs`. Over it goes one line per event: `X code`, `S signal`, or an error
//! (`N`, `D`, `U`, `P`) before them; back come `T` (ask all to end) and the end of stream
//! (kill all), which the system sends by itself when the program is gone.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};

use crate::sandbox::plan::{Confinement, SandboxPlan};
use crate::sandbox::seccomp::Sockets;
use crate::sandbox::{in_words, landlock, process_tree, seccomp};

/// The first argument that makes this binary the helper.
pub(crate) const HELPER_ARGUMENT: &str = "__sandbox";

/// Bytes of a plan. The longest list of grants is far below it.
const PLAN_BYTES_MAX: u64 = 64 << 20;

/// Where programs are looked for when the environment does not say.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the program asks of the supervisor.
pub(crate) const TERMINATE: u8 = b'T';

/// Acts as the helper when this process was started as one; else returns `None` at once.
/// Must be called first in `main`, before any thread.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != HELPER_ARGUMENT {
        return None;
    }
    Some(match supervise(&args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Why the command was not executed, as it goes over the socket.
struct Refusal {
    kind: char,
    text: String,
}

fn supervise(argv: &[OsString]) -> std::io::Result<()> {
    close_inherited_descriptors();
    let control = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    let mut text = Vec::new();
    std::io::stdin().lock().take(PLAN_BYTES_MAX).read_to_end(&mut text)?;
    let plan: SandboxPlan = serde_json::from_slice(&text)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;

    // Away from the terminal: its Ctrl-C is for the program, which tells us in its own words.
    rustix::process::setsid()?;
    set_child_subreaper()?;
    let supervisor = rustix::process::getpid();
    // SAFETY: this process has one thread, so the child may go on as any program.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refusal = run_command(&plan, argv, supervisor);
        send_line(&control, &format!("{} {}", refusal.kind, refusal.text));
        // SAFETY: `_exit` ends the process; nothing of ours must run at its end.
        unsafe { libc::_exit(127) }
    }
    if child < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let Some(child) = Pid::from_raw(child) else {
        return Err(std::io::Error::other("fork gave no process"));
    };
    // Only the command's side holds its output open.
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    watch(&control, child)
}

/// Waits for the command and for the program, until nothing is left to wait for.
fn watch(control: &File, child: Pid) -> std::io::Result<()> {
    let pidfd = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    let mut running = true;
    loop {
        let mut fds = vec![PollFd::new(control, PollFlags::IN)];
        if running {
            fds.push(PollFd::new(&pidfd, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let asked = !fds.first().is_none_or(|fd| fd.revents().is_empty());
        let ended = !fds.get(1).is_none_or(|fd| fd.revents().is_empty());
        if ended {
            let (status, others_left) = process_tree::reap_all(child);
            if let Some(status) = status {
                running = false;
                send_line(control, &status.to_line());
            }
            if !running && !others_left {
                return Ok(());
            }
        }
        if asked && !obey(control) {
            process_tree::kill_all();
            return Ok(());
        }
    }
}

/// Does what the program asks; `false` when all is to end now.
fn obey(mut control: &File) -> bool {
    let mut bytes = [0_u8; 16];
    match control.read(&mut bytes) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            if bytes.iter().take(count).any(|byte| *byte == TERMINATE) {
                process_tree::terminate_all();
            }
            true
        }
    }
}

fn send_line(mut control: &File, line: &str) {
    // When the program is gone, the next poll says so.
    let _ = control.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
}

/// Becomes the command; returns only when that failed.
fn run_command(plan: &SandboxPlan, argv: &[OsString], supervisor: Pid) -> Refusal {
    let prepared = prepare(plan, supervisor).and_then(|()| {
        plan.confinement
            .as_ref()
            .map_or(Ok(()), confine)
            .map_err(|text| Refusal { kind: 'U', text })
    });
    match prepared {
        Ok(()) => execute(argv, &plan.env),
        Err(refusal) => refusal,
    }
}

fn prepare(plan: &SandboxPlan, supervisor: Pid) -> Result<(), Refusal> {
    let spawn = |error: rustix::io::Errno| Refusal { kind: 'P', text: in_words(&error.into()) };
    rustix::process::setsid().map_err(spawn)?;
    rustix::stdio::dup2_stderr(rustix::stdio::stdout()).map_err(spawn)?;
    reset_signals();
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, no_core).map_err(spawn)?;
    rustix::process::chdir(&plan.cwd)
        .map_err(|error| Refusal { kind: 'D', text: in_words(&error.into()) })?;
    // Set for the free command too: without the supervisor nobody would end it.
    set_parent_death_signal().map_err(|text| Refusal { kind: 'P', text })?;
    if rustix::process::getppid() != Some(supervisor) {
        return Err(Refusal { kind: 'P', text: "the helper was killed".to_owned() });
    }
    Ok(())
}

/// Confines this process, from the widest to the narrowest; the order matters.
fn confine(confinement: &Confinement) -> Result<(), String> {
    set_no_new_privileges()?;
    drop_capabilities(confinement.keep_mode_override)?;
    // Dropping capabilities may forget it.
    set_parent_death_signal()?;
    landlock::restrict_files(confinement)?;
    seccomp::restrict_calls(match confinement.network {
        true => Sockets::Open,
        false if landlock::confines_sockets() => Sockets::Local,
        false => Sockets::Paired,
    })
}

/// Executes the command, looking for it as a shell does; returns only when that failed.
fn execute(argv: &[OsString], env: &[(String, String)]) -> Refusal {
    let Some(program) = argv.first() else {
        return Refusal { kind: 'N', text: String::new() };
    };
    let mut denied = None;
    let path = env.iter().rfind(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value);
    let candidates: Vec<_> = if program.as_bytes().contains(&b'/') {
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
            let mut script = vec![OsString::from("/bin/sh"), candidate.into_os_string()];
            script.extend(argv.iter().skip(1).cloned());
            error = replace_process(Path::new("/bin/sh"), &script, env);
        }
        if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
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

/// Sees to it that the command gets none of the descriptors our caller left open.
fn close_inherited_descriptors() {
    // SAFETY: only marks descriptors; on a kernel without the call nothing happens, and those
    // kernels are without the Landlock that we promise, too.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Makes orphans below this process its children.
pub(crate) fn set_child_subreaper() -> std::io::Result<()> {
    // SAFETY: the call takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn set_parent_death_signal() -> Result<(), String> {
    // SAFETY: the call takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

fn set_no_new_privileges() -> Result<(), String> {
    // SAFETY: the call takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
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

/// Drops root's powers, all but the one over file modes where the workspace needs it.
fn drop_capabilities(keep_mode_override: bool) -> Result<(), String> {
    const CAP_DAC_OVERRIDE: u32 = 1;
    const VERSION_3: u32 = 0x2008_0522;
    const NUMBER_MAX: u32 = 63;
    let kept = if keep_mode_override { 1_u32 << CAP_DAC_OVERRIDE } else { 0 };
    for number in 0..=NUMBER_MAX {
        if number == CAP_DAC_OVERRIDE && keep_mode_override {
            continue;
        }
        // SAFETY: the call takes plain numbers. It fails past the last capability, and for a
        // user who may not, who has none to lose and can gain none.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    // SAFETY: the call takes plain numbers; kernels without ambient sets have none to clear.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = [VERSION_3, 0];
    let held = if rustix::process::geteuid().is_root() { kept } else { 0 };
    // Effective, permitted, inheritable, for the lower and the upper 32 numbers.
    let sets = [held, held, 0, 0, 0, 0];
    // SAFETY: the header and the two triples have the layout of version 3.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(format!("capabilities: {}", std::io::Error::last_os_error())),
    }
}
