//! The helper: this binary, executed again to start one command and to outlive none of it.
//!
//! The helper stays as supervisor, outside of all namespaces. Below it is the command, or in
//! namespaces their first process (`init.rs`) and the command below that. Without namespaces,
//! orphans come to the supervisor, so it can end all a command started, whatever sessions they
//! made. It knows one thread, no runtime and no command line parser.
//!
//! Standard input is the plan as JSON, standard output is the command's (or the line for our end
//! of its terminal), standard error is a socket to `runner.rs`. Over it goes one line per event:
//! `X code`, `S signal`, `L what bound` (it ran into a limit and was killed), `B` (with the
//! listener of its proxy), or an error (`N`, `D`, `U`, `P`) instead of them, and at last what
//! the program is to close, which nobody reads; back
//! come `I` and `T` (ask it, or all, to end) and the end of stream (kill all), which the system
//! sends by itself when the program is gone.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::sandbox::in_words;
use crate::sandbox::linux::command::{Errand, Refusal, become_command};
use crate::sandbox::linux::namespaces::{IdMaps, clone_flags, fork_into};
use crate::sandbox::linux::plan::{Confinement, Namespaces, SandboxPlan, View};
use crate::sandbox::linux::streams::{receive_descriptors, send_descriptors};
use crate::sandbox::linux::transient::Transients;
use crate::sandbox::linux::watch::Watch;
use crate::sandbox::linux::{init, privileges, process_tree};

/// The first argument that makes this binary the helper.
pub(crate) const HELPER_ARGUMENT: &str = "__sandbox";

/// Bytes of a plan. The longest list of grants is far below it.
const PLAN_BYTES_MAX: u64 = 64 << 20;

/// Descriptors that the program closes for the supervisor; the line holds many more.
const LEFT_TO_PROGRAM_MAX: usize = 60;

/// What the program asks of the supervisor: to ask all to end.
pub(crate) const TERMINATE: u8 = b'T';
/// The same of the command alone, as Ctrl-C does.
pub(crate) const INTERRUPT: u8 = b'I';

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

fn supervise(argv: &[OsString]) -> io::Result<()> {
    close_inherited_descriptors();
    let control = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    let mut text = Vec::new();
    io::stdin().lock().take(PLAN_BYTES_MAX).read_to_end(&mut text)?;
    let plan: SandboxPlan = serde_json::from_slice(&text)?;
    let streams = plan.streams_passed.then(|| receive_descriptors(&control)).transpose()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;

    // Away from the terminal: its Ctrl-C is for the program, which tells us in its own words.
    rustix::process::setsid()?;
    let errand = Errand { plan: &plan, argv, streams: streams.as_ref() };
    let confinement = plan.confinement.as_ref();
    let outcome = match confinement.and_then(|it| Some((it, it.view.as_ref()?))) {
        Some(parts) => supervise_namespaces(&errand, parts, &control, &null),
        None => supervise_here(&errand, &control, &null),
    };
    if let Err(error) = &outcome {
        send_line(&control, &Refusal::unavailable(in_words(error)).to_line());
    }
    outcome
}

/// Runs the command below the first process of its own namespaces.
fn supervise_namespaces(
    errand: &Errand<'_>,
    (confinement, view): (&Confinement, &View),
    control: &File,
    null: &File,
) -> io::Result<()> {
    let transients = Transients::make(&view.mount_points)?;
    let (line, our_end) = io::pipe()?;
    let (line, our_end) = (File::from(OwnedFd::from(line)), File::from(OwnedFd::from(our_end)));
    let maps = IdMaps::of_caller();
    let (child, namespaces) = fork_into_some(view.namespaces, confinement.network)?;
    if child == 0 {
        drop(our_end);
        let view = View { namespaces, ..view.clone() };
        init::run(errand, (confinement, &view), &maps, (control, &line));
        // SAFETY: `_exit` ends the process; nothing of ours must run at its end.
        unsafe { libc::_exit(0) }
    }
    let Some(child) = Pid::from_raw(child) else {
        return Err(io::Error::other("fork gave no process"));
    };
    drop(line);
    leave_output(null)?;
    errand.leave_streams(null)?;
    let watched = watch_init(control, child, &our_end);
    if watched.is_err() {
        end_init(child);
    }
    // Only now, when nobody is left who could use their places.
    leave_to_program(control, &transients.remove());
    watched
}

/// Has the program close what is slow to close, so that it need not wait for us meanwhile.
fn leave_to_program(control: &File, files: &[File]) {
    // What does not fit into the line is closed here.
    for some in files.iter().take(LEFT_TO_PROGRAM_MAX).collect::<Vec<_>>().chunks(3) {
        let fds: Vec<_> = some.iter().map(AsFd::as_fd).collect();
        // When the program is gone, so is what it was to close.
        let _ = send_descriptors(control, &fds);
    }
}

/// Starts the first process of namespaces. Root that may not make them by itself has those of
/// a user.
fn fork_into_some(wanted: Namespaces, network: bool) -> io::Result<(i32, Namespaces)> {
    let fork = |kind| fork_into(clone_flags(kind, network), libc::SIGCHLD).map(|pid| (pid, kind));
    match fork(wanted) {
        Err(error) if wanted == Namespaces::OfRoot => fork(Namespaces::OfUser).map_err(|_| error),
        result => result,
    }
}

/// Waits for the first process and for the program.
fn watch_init(control: &File, child: Pid, line: &File) -> io::Result<()> {
    let pidfd = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    loop {
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [asked, ended] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            end_init(child);
            return Ok(());
        }
        if asked {
            match read_wishes(control) {
                // It may have ended by itself meanwhile.
                Some(wishes) => drop((&*line).write_all(&wishes)),
                None => {
                    end_init(child);
                    return Ok(());
                }
            }
        }
    }
}

/// Kills the first process, and with it all of its namespace; returns when they are gone.
fn end_init(child: Pid) {
    // It may have ended by itself meanwhile; its number is ours until it was waited for.
    let _ = rustix::process::kill_process(child, Signal::KILL);
    while matches!(
        rustix::process::waitpid(Some(child), WaitOptions::empty()),
        Err(rustix::io::Errno::INTR)
    ) {}
}

/// Runs the command as a child of this process.
fn supervise_here(errand: &Errand<'_>, control: &File, null: &File) -> io::Result<()> {
    privileges::adopt_orphans()?;
    let supervisor = rustix::process::getpid();
    // SAFETY: this process has one thread, so the child may go on as any program.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refusal = become_command(errand, supervisor);
        send_line(control, &refusal.to_line());
        // SAFETY: `_exit` ends the process; nothing of ours must run at its end.
        unsafe { libc::_exit(127) }
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(child) = Pid::from_raw(child) else {
        return Err(io::Error::other("fork gave no process"));
    };
    leave_output(null)?;
    errand.leave_streams(null)?;
    let limits = errand.plan.confinement.as_ref().map(|confinement| &confinement.limits);
    watch(control, child, limits.map(|limits| Watch::new(limits, &errand.plan.cwd)))
}

/// Lets go of the command's output: only its own side holds it open.
fn leave_output(null: &File) -> io::Result<()> {
    rustix::stdio::dup2_stdout(null)?;
    Ok(rustix::stdio::dup2_stderr(null)?)
}

/// Waits for the command and for the program, until nothing is left to wait for.
fn watch(control: &File, child: Pid, mut limits: Option<Watch>) -> io::Result<()> {
    let pidfd = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    let mut running = true;
    let mut next_look = limits.as_ref().map(|watch| Instant::now() + watch.pause());
    loop {
        let mut fds = vec![PollFd::new(control, PollFlags::IN)];
        if running {
            fds.push(PollFd::new(&pidfd, PollFlags::IN));
        }
        let pause = next_look.map(|at| at.saturating_duration_since(Instant::now()));
        match poll(&mut fds, pause.and_then(|it| Timespec::try_from(it).ok()).as_ref()) {
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
        if asked && !obey(control, child) {
            process_tree::kill_all();
            return Ok(());
        }
        if let Some(watch) = limits.as_mut().filter(|_| next_look <= Some(Instant::now())) {
            if let Some(hit) = watch.look(process_tree::load_descendants().into_iter()) {
                send_line(control, &hit.to_line());
                process_tree::kill_all();
                return Ok(());
            }
            next_look = Some(Instant::now() + watch.pause());
        }
    }
}

/// Does what the program asks; `false` when all is to end now.
fn obey(control: &File, child: Pid) -> bool {
    let Some(wishes) = read_wishes(control) else { return false };
    if wishes.contains(&INTERRUPT) {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process_group(child, Signal::INT);
    }
    if wishes.contains(&TERMINATE) {
        process_tree::terminate_all();
    }
    true
}

/// Reads what the program asks; `None` when it is gone or wants all to end.
fn read_wishes(mut control: &File) -> Option<Vec<u8>> {
    let mut bytes = [0_u8; 16];
    match control.read(&mut bytes) {
        Ok(0) | Err(_) => None,
        Ok(count) => Some(bytes.into_iter().take(count).collect()),
    }
}

/// Tells the program.
pub(crate) fn send_line(mut control: &File, line: &str) {
    // When the program is gone, the next poll says so.
    let _ = control.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
}

/// Sees to it that the command gets none of the descriptors our caller left open.
fn close_inherited_descriptors() {
    // SAFETY: only marks descriptors; on a kernel without the call nothing happens, and those
    // kernels are without the Landlock that we promise, too.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}
