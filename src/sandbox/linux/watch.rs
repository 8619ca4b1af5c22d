//! Holds a command and all it started to its limits.
//!
//! The kernel holds what it can hold for a single process; a watch over all of them ends a
//! command with the name of the bound. Knows no policy. Used by `init.rs` and `helper.rs`,
//! which watch, and by `command.rs`, which sets what the kernel holds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};

use crate::sandbox::{LimitHit, ResourceKind, ResourceLimits};

/// Until the first look, and between those of the first second: what goes wrong at once is
/// seen at once.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Between later looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Looks in the first second.
const FIRST_LOOKS: u32 = 10;

/// Returns how much memory this machine has, in bytes.
pub fn load_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    #[allow(clippy::useless_conversion, reason = "its width depends on the processor")]
    let total = u64::from(info.totalram);
    total.saturating_mul(unit)
}

/// Sets what the kernel holds for each process of a command.
pub(crate) fn restrict_process(limits: &ResourceLimits) -> Result<(), rustix::io::Errno> {
    // Each process may have what all may have together, and a little: so it is the watch that
    // ends one that grows, and the kernel one that takes too much at once.
    let memory = limits.memory_bytes_max.map(|bytes| bytes.saturating_add(bytes / 4));
    for (resource, bound) in [
        (Resource::Data, memory),
        (Resource::Nofile, limits.open_files_max),
        (Resource::Fsize, limits.disk_bytes_max),
    ] {
        let Some(bound) = bound else { continue };
        let now = rustix::process::getrlimit(resource);
        let least = now.maximum.map_or(bound, |maximum| maximum.min(bound));
        // Programs that keep descriptors in sets of bits need the lower bound they began with.
        let current = now.current.map_or(least, |current| current.min(least));
        let current = if resource == Resource::Nofile { current } else { least };
        let bound = Rlimit { current: Some(current), maximum: Some(least) };
        rustix::process::setrlimit(resource, bound)?;
    }
    Ok(())
}

/// Looks now and then at what a command uses up.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: ResourceLimits,
    looks: u32,
    /// Free bytes of the disk it works on, when it began.
    free_bytes: Option<u64>,
    place: PathBuf,
}

impl Watch {
    /// Returns a watch for what starts now in a directory.
    pub(crate) fn new(limits: &ResourceLimits, place: &Path) -> Self {
        Self {
            limits: *limits,
            looks: 0,
            free_bytes: load_free_bytes(place),
            place: place.to_owned(),
        }
    }

    /// Returns how long to wait for the next look.
    pub(crate) fn pause(&self) -> Duration {
        if self.looks < FIRST_LOOKS { FIRST_PAUSE } else { PAUSE }
    }

    /// Looks at these processes; returns the bound they are beyond.
    pub(crate) fn look(&mut self, processes: impl Iterator<Item = Pid>) -> Option<LimitHit> {
        self.looks = self.looks.saturating_add(1);
        let mut used = Usage::default();
        for pid in processes {
            let path = format!("/proc/{}/status", pid.as_raw_nonzero());
            // It may have ended meanwhile.
            used.add(&std::fs::read_to_string(path).unwrap_or_default());
        }
        let free = load_free_bytes(&self.place).zip(self.free_bytes);
        let disk = free.map_or(0, |(now, then)| then.saturating_sub(now));
        let Usage { private, shared, threads } = used;
        [
            (ResourceKind::Memory, private.saturating_add(shared), self.limits.memory_bytes_max),
            (ResourceKind::Processes, threads, self.limits.processes_max),
            (ResourceKind::Disk, disk, self.limits.disk_bytes_max),
        ]
        .into_iter()
        .find_map(|(kind, used, bound)| {
            bound.filter(|bound| used > *bound).map(|value| LimitHit { kind, value })
        })
    }
}

fn load_free_bytes(place: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(place).ok()?;
    Some(stat.f_bfree.saturating_mul(stat.f_frsize))
}

/// What processes use, as far as `/proc` tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    private: u64,
    /// The most that one maps of what it may share with others: a sum would count it often.
    shared: u64,
    threads: u64,
}

impl Usage {
    /// Adds what a process's `status` says.
    fn add(&mut self, status: &str) {
        for line in status.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let number = value.split_whitespace().next().and_then(|it| it.parse::<u64>().ok());
            let number = number.unwrap_or_default();
            match name {
                "RssAnon" => {
                    self.private = self.private.saturating_add(number.saturating_mul(1024));
                }
                "RssShmem" => self.shared = self.shared.max(number.saturating_mul(1024)),
                "Threads" => self.threads = self.threads.saturating_add(number),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_adds_up_and_shared_memory_does_not() {
        let mut used = Usage::default();
        used.add("Name:\ta: b\nRssAnon:\t  10 kB\nRssShmem:\t 7 kB\nThreads:\t2\n");
        used.add("RssAnon:\t1 kB\nRssShmem:\t8 kB\nThreads:\t1\nRssFile:\t99 kB\n");
        assert_eq!(used, Usage { private: 11 << 10, shared: 8 << 10, threads: 3 });
    }
}
