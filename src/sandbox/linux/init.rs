//! The first process of a command's namespaces: it lays the view, starts the command, collects
//! what ends, and takes all with it when it ends itself.
//!
//! It is out of the command's reach: it has no powers, nobody may look into it, and signals
//! from inside do not end it. One thread. Knows no policy; the protocol is that of `helper.rs`,
//! whose child it is.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use crate::sandbox::LimitHit;
use crate::sandbox::linux::command::{Errand, Refusal, become_command};
use crate::sandbox::linux::helper::{INTERRUPT, TERMINATE, send_line};
use crate::sandbox::linux::namespaces::{IdMaps, lay_view, raise_loopback};
use crate::sandbox::linux::plan::{Confinement, Namespaces, View};
use crate::sandbox::linux::streams::send_listener;
use crate::sandbox::linux::watch::Watch;
use crate::sandbox::linux::{privileges, process_tree};
use crate::sandbox::proxy;

/// Runs a command as its first process; all that is left of it ends with this process. What
/// came of it went over `control`; `line` brings what is asked, and its end is the end.
pub(crate) fn run(
    errand: &Errand<'_>,
    (confinement, view): (&Confinement, &View),
    maps: &IdMaps,
    (control, line): (&File, &File),
) {
    let started = enter(confinement, view, maps).map_err(Refusal::unavailable).and_then(|()| {
        if confinement.proxied {
            open_proxy(control);
        }
        start(errand, control).map_err(|error| Refusal::unavailable(error.to_string()))
    });
    match started {
        Ok((command, ends)) => {
            let watch = Watch::new(&confinement.limits, &errand.plan.cwd);
            // What goes wrong here ends the command: nobody would watch it.
            drop(tend(command, watch, control, (line, &ends)));
        }
        Err(refusal) => send_line(control, &refusal.to_line()),
    }
}

/// Goes into the namespaces and gives up what made them.
fn enter(confinement: &Confinement, view: &View, maps: &IdMaps) -> Result<(), String> {
    let in_step = |step: &'static str| move |error: io::Error| format!("{step}: {error}");
    privileges::die_with_parent().map_err(in_step("the helper"))?;
    if view.namespaces == Namespaces::OfUser {
        maps.write().map_err(in_step("the user namespace"))?;
    }
    lay_view(view, confinement.limits.processes_max)?;
    if !confinement.network {
        raise_loopback();
    }
    privileges::forgo_new().map_err(in_step("privileges"))?;
    privileges::drop_capabilities(confinement.keep_mode_override)
        .map_err(in_step("capabilities"))?;
    privileges::die_with_parent().map_err(in_step("the helper"))?;
    privileges::close_to_others().map_err(in_step("the helper"))
}

/// Listens where the command looks for its proxy, and hands the listener out to who serves it:
/// a socket stays in the network it was made in. Without a loopback there is no way out at all.
fn open_proxy(control: &File) {
    if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, proxy::PORT)) {
        // When the program is gone, the next poll says so.
        let _ = send_listener(control, listener.as_fd());
    }
}

/// Starts the command; returns it and what tells of ends.
fn start(errand: &Errand<'_>, control: &File) -> io::Result<(Pid, File)> {
    let ends = watch_children()?;
    // SAFETY: this process has one thread, so the child may go on as any program.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refusal = become_command(errand, Pid::INIT);
        send_line(control, &refusal.to_line());
        // SAFETY: `_exit` ends the process; nothing of ours must run at its end.
        unsafe { libc::_exit(127) }
    }
    let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
        return Err(io::Error::last_os_error());
    };
    // Only the command's side holds its output open.
    rustix::stdio::dup2_stdout(rustix::stdio::stdin())?;
    rustix::stdio::dup2_stderr(rustix::stdio::stdin())?;
    errand.leave_streams(rustix::stdio::stdin())?;
    Ok((child, ends))
}

/// Returns a descriptor that is readable when a child has ended.
fn watch_children() -> io::Result<File> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the set before anything reads it.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Waits for the command and for what is asked, until nothing is left to wait for.
fn tend(
    command: Pid,
    mut watch: Watch,
    control: &File,
    (line, ends): (&File, &File),
) -> io::Result<()> {
    let mut running = true;
    let mut next_look = Instant::now() + watch.pause();
    loop {
        let mut fds = [PollFd::new(line, PollFlags::IN), PollFd::new(ends, PollFlags::IN)];
        let pause = next_look.saturating_duration_since(Instant::now());
        match poll(&mut fds, Timespec::try_from(pause).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [asked, ended] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            let mut ends = ends;
            // Only that there was one matters; what it was comes from waiting.
            while matches!(ends.read(&mut [0; 4_096]), Ok(count) if count > 0) {}
            let (status, others_left) = process_tree::reap_all(command);
            if let Some(status) = status {
                running = false;
                send_line(control, &status.to_line());
            }
            if !running && !others_left {
                return Ok(());
            }
        }
        if asked && !obey(line, command) {
            return Ok(());
        }
        if Instant::now() >= next_look {
            if let Some(hit) = look(&mut watch) {
                send_line(control, &hit.to_line());
                return Ok(());
            }
            next_look = Instant::now() + watch.pause();
        }
    }
}

/// Looks at all processes of the namespace but this one.
fn look(watch: &mut Watch) -> Option<LimitHit> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    watch.look(pids.filter(|pid| *pid > 1).filter_map(Pid::from_raw))
}

/// Does what is asked; `false` when all is to end now.
fn obey(mut line: &File, command: Pid) -> bool {
    let mut bytes = [0_u8; 16];
    let Ok(count @ 1..) = line.read(&mut bytes) else { return false };
    for byte in bytes.iter().take(count) {
        match *byte {
            TERMINATE => {
                signal_all(libc::SIGTERM);
                // A stopped process ends only once it goes on.
                signal_all(libc::SIGCONT);
            }
            INTERRUPT => {
                // It may have ended by itself meanwhile.
                let _ = rustix::process::kill_process_group(command, Signal::INT);
            }
            _ => {}
        }
    }
    true
}

fn signal_all(signal: libc::c_int) {
    // SAFETY: the call takes plain numbers; from here, "all" are those of this namespace.
    unsafe { libc::kill(-1, signal) };
}
