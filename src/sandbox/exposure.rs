//! Tells how well commands are confined under a policy, and what of it this machine cannot hold.
//!
//! Landlock only allows: what is to stay hidden or unchanged and lies below a writable directory
//! does neither. That is said when a session opens, so that nobody relies on it. Reads
//! directories as `facts.rs` does. Called by `agent/opening.rs`.

use std::path::Path;

use crate::protocol::{Network, SandboxLevel, SandboxMode, SandboxPolicy};
use crate::sandbox::LevelReport;
use crate::sandbox::facts::{Question, load_facts};
use crate::sandbox::landlock::confines_sockets;
use crate::sandbox::plan::find_exposed;
use crate::sandbox::probe::findings;
use crate::sandbox::repositories::Walks;

/// Paths that are named; of more there is only the number.
const PATHS_SHOWN_MAX: usize = 3;

/// Returns how well commands can be confined here, and why not fully.
pub fn level() -> (SandboxLevel, Option<String>) {
    let findings = findings();
    (findings.level(), findings.reason())
}

/// Returns how well commands can be confined here under a policy, and why not fully. `env` is
/// the environment of commands.
pub fn level_under(policy: &SandboxPolicy, env: &[(String, String)]) -> LevelReport {
    level_within(SandboxLevel::Full, policy, env)
}

/// Returns the same where no more than a level is to be made use of.
pub(crate) fn level_within(
    level_max: SandboxLevel,
    policy: &SandboxPolicy,
    env: &[(String, String)],
) -> LevelReport {
    let findings = findings().at_most(level_max);
    let (level, reason) = (findings.level().min(level_max), findings.reason());
    if level == SandboxLevel::None || policy.mode == SandboxMode::DangerFullAccess {
        return LevelReport { level, reason, exposed: None };
    }
    if findings.layers.namespaces.is_some() {
        let mut reasons: Vec<String> = reason.into_iter().collect();
        if !findings.layers.landlock {
            reasons.push("commands can write to named pipes outside the workspace".to_owned());
        }
        return LevelReport { level, reason: join(&reasons), exposed: None };
    }
    let home = std::env::home_dir().unwrap_or_default();
    let cwd = policy.roots.first().cloned().unwrap_or_default();
    let question = Question { policy, home: &home, env, cwd: &cwd, layers: findings.layers };
    // What cannot be found out here keeps each command from starting, and is said then.
    let facts = load_facts(&question, &Walks::default()).unwrap_or_default();
    let (read, written) = find_exposed(policy, &facts);
    let all = describe_both(&read, &written, &home);
    // Of what lies in a temporary directory nobody expects that it is kept from anyone.
    let in_roots = |path: &&Path| facts.roots.iter().any(|root| path.starts_with(root));
    let read: Vec<&Path> = read.into_iter().filter(in_roots).collect();
    let written: Vec<&Path> = written.into_iter().filter(in_roots).collect();
    let exposed = describe_both(&read, &written, &home);
    let mut reasons: Vec<String> = reason.into_iter().chain(all).collect();
    if policy.network == Network::On {
        reasons.push("with the network open, they reach the sockets of other programs".to_owned());
    } else if !confines_sockets() {
        reasons.push("with the network closed, they connect to no local socket".to_owned());
    }
    LevelReport { level, reason: join(&reasons), exposed }
}

/// What stays possible under Landlock and seccomp alone, a clause each. Tests hold that it is
/// exactly this (`tests/fixtures/escape`).
const OPEN_AT_REDUCED_LEVEL: [&str; 8] = [
    "changing mode, owner, times, attributes and flags of the user's own files anywhere",
    "changing .git and agent directories in the workspace",
    "reading hidden paths inside a writable root",
    "seeing which programs run",
    "seeing the names of hidden files",
    "reading what the kernel tells of itself in /proc",
    "shared memory and message queues of other programs",
    "leaving files in the shared /tmp",
];

/// Returns what the reduced level does not stop, a clause each.
pub fn open_at_reduced_level() -> &'static [&'static str] {
    &OPEN_AT_REDUCED_LEVEL
}

fn join(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn describe_both(read: &[&Path], written: &[&Path], home: &Path) -> Option<String> {
    let said = [describe("read", read, home), describe("change", written, home)];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn describe(verb: &str, paths: &[&Path], home: &Path) -> Option<String> {
    let shown: Vec<String> =
        paths.iter().take(PATHS_SHOWN_MAX).map(|path| show(path, home)).collect();
    let more = paths.len().saturating_sub(PATHS_SHOWN_MAX);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| {
        format!("commands can {verb} what lies inside a writable root: {}{rest}", shown.join(", "))
    })
}

fn show(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) if home.parent().is_some() => format!("~/{}", rest.display()),
        Ok(_) | Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_paths_are_named_and_counted() {
        let paths = ["/h/.ssh", "/h/.aws", "/x", "/y", "/z"].map(Path::new);
        assert_eq!(
            describe("read", &paths, Path::new("/h")).unwrap(),
            "commands can read what lies inside a writable root: ~/.ssh, ~/.aws, /x and 2 more"
        );
        assert_eq!(describe("read", &[], Path::new("/h")), None);
    }
}
