//! What a command and all it started may use up, and which bound it ran into.
//!
//! The kernel holds what it can hold for a single process; a watch over all of them ends a
//! command with the name of the bound. Knows no policy. Used by `init.rs` and `helper.rs`,
//! which watch, by `command.rs`, which sets what the kernel holds, and by `runner.rs`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};
use serde::{Deserialize, Serialize};

/// Until the first look, and between those of the first second: what goes wrong at once is
/// seen at once.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Between later looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Looks in the first second.
const FIRST_LOOKS: u32 = 10;

/// Bounds for a confined command and all it started. `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory of all processes together, in bytes.
    pub memory_bytes_max: Option<u64>,
    /// Processes and threads.
    pub processes_max: Option<u64>,
    /// Files that one process has open.
    pub open_files_max: Option<u64>,
    /// Disk that vanishes while it runs, and the size of a file, in bytes.
    pub disk_bytes_max: Option<u64>,
    /// Output, in bytes.
    pub output_bytes_max: Option<u64>,
}

/// A bound that a command ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitHit {
    /// Which.
    pub kind: ResourceKind,
    /// Its value.
    pub value: u64,
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// Memory of all its processes.
    Memory,
    /// Its processes and threads.
    Processes,
    /// Disk space.
    Disk,
    /// What it prints.
    Output,
}

impl ResourceLimits {
    /// No bound at all.
    pub const NONE: Self = Self {
        memory_bytes_max: None,
        processes_max: None,
        open_files_max: None,
        disk_bytes_max: None,
        output_bytes_max: None,
    };

    /// Returns the bounds of a machine with so much memory: room for a large build, and none to
    /// take the machine down.
    pub fn for_memory(total_bytes: u64) -> Self {
        const LEAST_BYTES: u64 = 2 << 30;
        Self {
            memory_bytes_max: Some((total_bytes / 4 * 3).max(LEAST_BYTES)),
            processes_max: Some(4_096),
            open_files_max: Some(16_384),
            disk_bytes_max: Some(32 << 30),
            output_bytes_max: Some(64 << 20),
        }
    }
}

/// Returns how much memory this machine has, in bytes.
pub fn load_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    #[allow(clippy::useless_conversion, reason = "its width depends on the processor")]
    let total = u64::from(info.totalram);
    total.saturating_mul(unit)
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = show_bytes(self.value);
        match self.kind {
            ResourceKind::Memory => write!(f, "it used more than {size} of memory"),
            ResourceKind::Processes => write!(f, "it had more than {} processes", self.value),
            ResourceKind::Disk => write!(f, "it filled more than {size} of disk"),
            ResourceKind::Output => write!(f, "it printed more than {size}"),
        }
    }
}

/// Returns a number of bytes in the largest unit that shows it whole.
pub(crate) fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let size = 1_u64 << shift;
        if bytes >= 10 * size || (bytes >= size && bytes.is_multiple_of(size)) {
            return format!("{} {unit}", bytes / size);
        }
    }
    format!("{bytes} bytes")
}

impl ResourceKind {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Memory, "memory"),
        (Self::Processes, "processes"),
        (Self::Disk, "disk"),
        (Self::Output, "output"),
    ];
}

impl LimitHit {
    /// Returns the line that says so to the program.
    pub(crate) fn to_line(self) -> String {
        let name = ResourceKind::NAMES.iter().find(|(kind, _)| *kind == self.kind);
        format!("L {} {}", name.map_or("", |(_, name)| name), self.value)
    }

    /// Reads what follows the `L` of such a line.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once(' ')?;
        let (kind, _) = ResourceKind::NAMES.iter().find(|(_, it)| *it == name)?;
        Some(Self { kind: *kind, value: value.parse().ok()? })
    }
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
    place: std::path::PathBuf,
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
    fn a_bound_survives_the_line() {
        for (kind, _) in ResourceKind::NAMES {
            let hit = LimitHit { kind, value: 7 };
            assert_eq!(LimitHit::parse(hit.to_line().strip_prefix("L ").unwrap()), Some(hit));
        }
        for text in ["", "memory", "memory x", "time 3"] {
            assert_eq!(LimitHit::parse(text), None, "{text}");
        }
    }

    #[test]
    fn bounds_are_said_in_plain_words() {
        let said = |kind, value| LimitHit { kind, value }.to_string();
        assert_eq!(said(ResourceKind::Memory, 8 << 30), "it used more than 8 GiB of memory");
        assert_eq!(said(ResourceKind::Output, 1_500), "it printed more than 1500 bytes");
        assert_eq!(said(ResourceKind::Disk, 3 << 19), "it filled more than 1536 KiB of disk");
        assert_eq!(said(ResourceKind::Processes, 9), "it had more than 9 processes");
    }

    #[test]
    fn private_memory_adds_up_and_shared_memory_does_not() {
        let mut used = Usage::default();
        used.add("Name:\ta: b\nRssAnon:\t  10 kB\nRssShmem:\t 7 kB\nThreads:\t2\n");
        used.add("RssAnon:\t1 kB\nRssShmem:\t8 kB\nThreads:\t1\nRssFile:\t99 kB\n");
        assert_eq!(used, Usage { private: 11 << 10, shared: 8 << 10, threads: 3 });
    }

    #[test]
    fn a_small_machine_still_builds() {
        assert_eq!(ResourceLimits::for_memory(1 << 30).memory_bytes_max, Some(2 << 30));
        assert_eq!(ResourceLimits::for_memory(16 << 30).memory_bytes_max, Some(12 << 30));
    }
}
