//! What a command and all it started may use up, and which bound it ran into. Pure.
//!
//! Only names, numbers and words; who holds a command to them is the system's part. Knows no
//! policy. Built by `cli` from the configuration, carried in the plan.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    fn a_small_machine_still_builds() {
        assert_eq!(ResourceLimits::for_memory(1 << 30).memory_bytes_max, Some(2 << 30));
        assert_eq!(ResourceLimits::for_memory(16 << 30).memory_bytes_max, Some(12 << 30));
    }
}
