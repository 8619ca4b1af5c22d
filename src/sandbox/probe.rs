//! Finds out what confines commands on this machine, by trying it once.
//!
//! A child is started in new namespaces and does the steps that systems refuse; it touches
//! nothing of ours and ends at once. Knows no policy. Called when a session opens and before
//! its first command, whichever comes first.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use crate::protocol::SandboxLevel;
use crate::sandbox::landlock;
use crate::sandbox::mount_calls::{Extent, READ_ONLY, TAMED, make_private, restrict_path};
use crate::sandbox::namespaces::{IdMaps, clone_flags, fork_into, mount_processes};
use crate::sandbox::plan::{Layers, Namespaces};
use crate::sandbox::seccomp;

/// What confines commands here, and why it is not all there could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The layers.
    pub(crate) layers: Layers,
    /// Why there are no namespaces.
    namespaces_reason: Option<String>,
    /// Why there is no Landlock.
    landlock_reason: Option<String>,
}

/// Steps of the child, as its exit code says which one failed.
const STEPS: [&str; 5] = [
    "user namespaces are refused here",
    "mounts in a namespace are refused here",
    "a new /proc cannot be mounted here",
    "this kernel cannot make mounts read-only at once (before 5.12)",
    "the probe was killed",
];

/// Returns what confines commands here. The first call takes about a millisecond.
pub(crate) fn findings() -> &'static Findings {
    static FINDINGS: OnceLock<Findings> = OnceLock::new();
    FINDINGS.get_or_init(probe)
}

impl Findings {
    /// Returns what is left of these when no more than a level is wanted.
    pub(crate) fn at_most(&self, level: SandboxLevel) -> Self {
        let mut left = self.clone();
        if level < SandboxLevel::Full && left.layers.landlock {
            left.layers.namespaces = None;
            left.namespaces_reason =
                Some("namespaces are switched off by configuration".to_owned());
        }
        left
    }

    /// Returns the level that these make.
    pub(crate) fn level(&self) -> SandboxLevel {
        match (self.layers.namespaces, self.layers.landlock) {
            (Some(_), true) => SandboxLevel::Full,
            (Some(_), false) | (None, true) => SandboxLevel::Reduced,
            (None, false) => SandboxLevel::None,
        }
    }

    /// Says why the level is not the full one.
    pub(crate) fn reason(&self) -> Option<String> {
        let reasons = [&self.namespaces_reason, &self.landlock_reason];
        let reasons: Vec<&str> = reasons.into_iter().flatten().map(String::as_str).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

fn probe() -> Findings {
    let landlock_reason = landlock::find_obstacle();
    if !seccomp::is_supported() {
        let reason = Some("no system call filter on this processor".to_owned());
        let layers = Layers { namespaces: None, landlock: false };
        return Findings { layers, namespaces_reason: reason, landlock_reason: None };
    }
    let landlock = landlock_reason.is_none();
    let (namespaces, namespaces_reason) = match try_namespaces(Namespaces::OfUser) {
        Ok(()) => (Some(Namespaces::OfUser), None),
        Err(_) if try_namespaces(Namespaces::OfRoot).is_ok() => (Some(Namespaces::OfRoot), None),
        Err(reason) => (None, Some(reason)),
    };
    Findings { layers: Layers { namespaces, landlock }, namespaces_reason, landlock_reason }
}

/// Starts a child in namespaces of a kind; an error says which step the system refused.
fn try_namespaces(namespaces: Namespaces) -> Result<(), String> {
    // Made before the child is: of several threads' child, only plain calls are sure to work.
    let maps = IdMaps::of_caller();
    let refused = |step: usize, error: Option<&io::Error>| {
        let step = STEPS.get(step).copied().unwrap_or_default();
        match error {
            Some(error) => format!("{step}: {}", super::in_words(error)),
            None => step.to_owned(),
        }
    };
    // Without a signal at its end, so that nobody else waits for it.
    let child =
        fork_into(clone_flags(namespaces, false), 0).map_err(|error| refused(0, Some(&error)))?;
    if child == 0 {
        let failed = try_steps(namespaces, &maps).err().unwrap_or_default();
        // SAFETY: ends this process at once; nothing of the program's may run in it.
        unsafe { libc::_exit(failed) };
    }
    let mut status = 0;
    loop {
        // SAFETY: waits for our own child; the status is written before the call returns.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
        if waited == child {
            break;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(refused(4, None));
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, code) => Err(refused(usize::try_from(code - 1).unwrap_or_default(), None)),
        (false, _) => Err(refused(4, None)),
    }
}

/// Does in new namespaces what a view needs; the number of the step that failed, from 1.
fn try_steps(namespaces: Namespaces, maps: &IdMaps) -> Result<(), i32> {
    if namespaces == Namespaces::OfUser {
        maps.write().map_err(|_| 1)?;
    }
    make_private().map_err(|_| 2)?;
    mount_processes(Path::new("/proc")).map_err(|_| 3)?;
    restrict_path(Path::new("/"), READ_ONLY | TAMED, Extent::All).map_err(|_| 4)
}
