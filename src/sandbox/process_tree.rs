//! Ending all that a command started, from its supervisor or in its place.
//!
//! As the supervisor adopts orphans, all of it is below the supervisor for ever; `/proc` says
//! what. Killing is repeated until nothing is left, since a process may fork meanwhile.
//! Called by `helper.rs`, which has one thread; and by `runner.rs` when a command that nothing
//! confined killed its supervisor, whose orphans come to the program then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

/// Rounds of killing before a process that cannot die (a hung disk) is left behind.
const ROUNDS_MAX: u32 = 500;

/// The pause between rounds.
const ROUND_PAUSE: Duration = Duration::from_millis(2);

/// How the command itself ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EndStatus {
    Exited(i32),
    Signalled(i32),
}

impl EndStatus {
    /// Returns the line that goes to the program.
    pub(crate) fn to_line(self) -> String {
        match self {
            Self::Exited(code) => format!("X {code}"),
            Self::Signalled(signal) => format!("S {signal}"),
        }
    }
}

/// Collects all children that have ended; returns how `child` did, when it is among them, and
/// whether others are left.
pub(crate) fn reap_all(child: Pid) -> (Option<EndStatus>, bool) {
    let mut found = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid == child {
                    found = to_end_status(status);
                }
            }
            Ok(None) => return (found, true),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (found, false),
        }
    }
}

fn to_end_status(status: WaitStatus) -> Option<EndStatus> {
    let exited = status.exit_status().map(EndStatus::Exited);
    exited.or_else(|| status.terminating_signal().map(EndStatus::Signalled))
}

/// Asks all below this process to end.
pub(crate) fn terminate_all() {
    for pid in load_descendants() {
        send(pid, Signal::TERM);
        // A stopped process ends only once it goes on.
        send(pid, Signal::CONT);
    }
}

/// Kills all below this process, until nothing is left.
pub(crate) fn kill_all() {
    for _ in 0..ROUNDS_MAX {
        let pids = load_descendants();
        // First stopped, so that none forks while the others are being killed.
        for pid in &pids {
            send(*pid, Signal::STOP);
        }
        for pid in pids.into_iter().chain(load_descendants()) {
            send(pid, Signal::KILL);
        }
        let (_, others_left) = reap_all(Pid::INIT);
        if !others_left {
            return;
        }
        std::thread::sleep(ROUND_PAUSE);
    }
}

/// Kills what dead supervisors have left to this process, until nothing is left.
///
/// Whatever a command starts is in a session that its supervisor or itself has made. So what is
/// below this process in another session than ours is an orphan, unless it is a supervisor. Their
/// list is held for one round at a time, as commands that start meanwhile need it too.
pub(crate) fn kill_orphans<L>(lock_supervisors: impl Fn() -> L)
where
    L: Deref<Target = BTreeSet<i32>>,
{
    let me = rustix::process::getpid().as_raw_nonzero().get();
    // Not by `getsid`: where the session's leader is outside our pid namespace, its number is 0.
    let stat = std::fs::read("/proc/self/stat").unwrap_or_default();
    let Some((_, session)) = parse_stat(&stat) else { return };
    for _ in 0..ROUNDS_MAX {
        // Taken before looking: one that starts in between would pass for an orphan.
        let supervisors = lock_supervisors();
        let processes = load_processes();
        let orphans: Vec<i32> = processes
            .get(&me)
            .into_iter()
            .flatten()
            .filter(|child| child.session != session && !supervisors.contains(&child.pid))
            .map(|child| child.pid)
            .collect();
        drop(supervisors);
        if orphans.is_empty() {
            return;
        }
        let pids = find_below(&processes, &orphans);
        let roots = orphans.iter().filter_map(|pid| Pid::from_raw(*pid));
        for pid in roots.clone().chain(pids) {
            send(pid, Signal::KILL);
        }
        for pid in roots {
            // It may take a moment to die; then the next round collects it.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(ROUND_PAUSE);
    }
}

fn send(pid: Pid, signal: Signal) {
    // It may have ended by itself meanwhile.
    let _ = rustix::process::kill_process(pid, signal);
}

/// A process, as `/proc` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    session: i32,
}

/// Returns all living processes below this one, as `/proc` has them now.
pub(crate) fn load_descendants() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    find_below(&load_processes(), &[me])
}

/// Returns all processes by their parents.
fn load_processes() -> BTreeMap<i32, Vec<Process>> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some((parent, session)) = parse_stat(&stat) {
            children.entry(parent).or_default().push(Process { pid, session });
        }
    }
    children
}

fn find_below(children: &BTreeMap<i32, Vec<Process>>, roots: &[i32]) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut next = roots.to_vec();
    while let Some(pid) = next.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            found.extend(Pid::from_raw(child.pid));
            next.push(child.pid);
        }
    }
    found
}

/// Returns parent and session in a line of `/proc/PID/stat`, whose second field may hold anything.
fn parse_stat(stat: &[u8]) -> Option<(i32, i32)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    Some((parent, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse_stat;

    #[test]
    fn a_process_may_have_any_name() {
        assert_eq!(parse_stat(b"12 (a) 1 (b) S 7 12 13 0"), Some((7, 13)));
        assert_eq!(parse_stat(b"2 (first in its namespace) S 0 0 0 0"), Some((0, 0)));
        assert_eq!(parse_stat(b"12 (sh"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
