//! The Seatbelt profile of a policy: what `sandbox-exec` on macOS is told. Pure.
//!
//! Everything is denied but what is listed; paths are parameters, so that no name can end a
//! rule. Knows no process and no system. Called by `unconfined.rs` on macOS.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::policy::PROTECTED;
use crate::protocol::{Network, SandboxMode, SandboxPolicy};

/// A profile and the values of its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The rules.
    pub(crate) text: String,
    /// Names and paths for `-D`.
    pub(crate) parameters: Vec<(String, PathBuf)>,
}

/// What this machine has to say about a policy. All real: Seatbelt sees no links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProfileFacts {
    /// The writable roots that exist.
    pub(crate) roots: Vec<PathBuf>,
    /// Temporary directories.
    pub(crate) temporary: Vec<PathBuf>,
    /// Hidden paths that exist.
    pub(crate) hidden: Vec<PathBuf>,
    /// Directories that no tool changes unasked.
    pub(crate) closed: Vec<PathBuf>,
}

/// What every command gets: processes of its own, the system's facts, files to be read, and
/// devices that hold nothing. No services but those without which names of users and hosts are
/// unknown: others open documents and run programs outside.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center"))
(allow file-read*)
(allow file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$"))
"#;

/// What an open network needs beside the sockets: the settings of the resolver, and trust.
const NETWORK: &str = r#"(allow network-outbound)
(allow network-inbound)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent"))
"#;

/// Builds the profile of a policy that confines.
pub(crate) fn build_profile(policy: &SandboxPolicy, facts: &ProfileFacts) -> Profile {
    let mut profile = Profile { text: BASE.to_owned(), parameters: Vec::new() };
    if policy.mode == SandboxMode::WorkspaceWrite {
        let temporary = facts.temporary.iter().filter(|_| policy.tmp);
        for root in facts.roots.iter().chain(temporary) {
            let name = profile.name("ROOT", root);
            let protected: String = PROTECTED.iter().map(|name| exclude(name)).collect();
            profile.add(&format!(
                "(allow file-write* (require-all (subpath (param \"{name}\")){protected}))"
            ));
        }
    }
    // What is closed or hidden goes by its path: none above it may be moved away.
    let paths: BTreeSet<&Path> =
        facts.closed.iter().chain(&facts.hidden).map(AsRef::as_ref).collect();
    let above: BTreeSet<&Path> = paths.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let is_writable = |path: &&Path| facts.roots.iter().any(|root| path.starts_with(root));
    let is_writing = policy.mode == SandboxMode::WorkspaceWrite;
    for above in above.into_iter().filter(is_writable).filter(|_| is_writing) {
        let name = profile.name("ABOVE", above);
        profile.add(&format!("(deny file-write-unlink (literal (param \"{name}\")))"));
    }
    for closed in &facts.closed {
        let name = profile.name("CLOSED", closed);
        profile.add(&format!("(deny file-write* (subpath (param \"{name}\")))"));
    }
    // The later rule holds, so what is hidden stays hidden below a root.
    for hidden in &facts.hidden {
        let name = profile.name("HIDDEN", hidden);
        profile.add(&format!("(deny file-read* file-write* (subpath (param \"{name}\")))"));
    }
    // Single hosts need a proxy, which there is not: closed is the safe side.
    if policy.network == Network::On {
        profile.text.push_str(NETWORK);
    }
    profile
}

impl Profile {
    fn name(&mut self, kind: &str, path: &Path) -> String {
        let name = format!("{kind}_{}", self.parameters.len());
        self.parameters.push((name.clone(), path.to_owned()));
        name
    }

    fn add(&mut self, rule: &str) {
        let _ = writeln!(self.text, "{rule}");
    }
}

/// Returns a condition against a name wherever it is on a path, in any case: the file system
/// makes no difference.
fn exclude(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        let (lower, upper) = (letter.to_ascii_lowercase(), letter.to_ascii_uppercase());
        let _ = match letter {
            '.' => write!(pattern, "\\."),
            _ => write!(pattern, "[{lower}{upper}]"),
        };
    }
    format!("\n  (require-not (regex #\"/{pattern}(/|$)\"))")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::protocol::GitAccess;

    fn policy(mode: SandboxMode, network: Network) -> SandboxPolicy {
        SandboxPolicy {
            mode,
            roots: Vec::new(),
            network,
            deny_read: Vec::new(),
            deny_write: Vec::new(),
            git: GitAccess::Ask,
            tmp: true,
        }
    }

    fn facts() -> ProfileFacts {
        ProfileFacts {
            roots: vec!["/Users/u/w".into()],
            temporary: vec!["/private/tmp".into()],
            hidden: vec!["/Users/u/.ssh".into()],
            closed: vec!["/Users/u/.gimlet".into()],
        }
    }

    /// Returns what a profile adds to the base.
    fn added(mode: SandboxMode, network: Network) -> String {
        let Profile { text, parameters } = build_profile(&policy(mode, network), &facts());
        let rules = text.strip_prefix(BASE).unwrap().to_owned();
        let values = parameters.iter().map(|(name, path)| format!("{name}={}\n", path.display()));
        format!("{rules}{}", values.collect::<String>())
    }

    #[test]
    fn reading_writes_nothing() {
        expect![[r#"
            (deny file-write* (subpath (param "CLOSED_0")))
            (deny file-read* file-write* (subpath (param "HIDDEN_1")))
            CLOSED_0=/Users/u/.gimlet
            HIDDEN_1=/Users/u/.ssh
        "#]]
        .assert_eq(&added(SandboxMode::ReadOnly, Network::Off));
    }

    #[test]
    fn a_workspace_is_written_but_for_what_is_protected_in_it() {
        expect![[r#"
            (allow file-write* (require-all (subpath (param "ROOT_0"))
              (require-not (regex #"/\.[gG][iI][tT](/|$)"))
              (require-not (regex #"/\.[gG][iI][mM][lL][eE][tT](/|$)"))
              (require-not (regex #"/\.[cC][oO][dD][eE][xX](/|$)"))
              (require-not (regex #"/\.[aA][gG][eE][nN][tT][sS](/|$)"))))
            (allow file-write* (require-all (subpath (param "ROOT_1"))
              (require-not (regex #"/\.[gG][iI][tT](/|$)"))
              (require-not (regex #"/\.[gG][iI][mM][lL][eE][tT](/|$)"))
              (require-not (regex #"/\.[cC][oO][dD][eE][xX](/|$)"))
              (require-not (regex #"/\.[aA][gG][eE][nN][tT][sS](/|$)"))))
            (deny file-write* (subpath (param "CLOSED_2")))
            (deny file-read* file-write* (subpath (param "HIDDEN_3")))
            (allow network-outbound)
            (allow network-inbound)
            (allow system-socket)
            (allow mach-lookup
              (global-name "com.apple.SystemConfiguration.configd")
              (global-name "com.apple.trustd.agent"))
            ROOT_0=/Users/u/w
            ROOT_1=/private/tmp
            CLOSED_2=/Users/u/.gimlet
            HIDDEN_3=/Users/u/.ssh
        "#]]
        .assert_eq(&added(SandboxMode::WorkspaceWrite, Network::On));
    }

    #[test]
    fn a_path_cannot_end_a_rule() {
        let facts = ProfileFacts { roots: vec!["/w\"))(allow default)".into()], ..facts() };
        let profile = build_profile(&policy(SandboxMode::WorkspaceWrite, Network::Off), &facts);
        assert!(!profile.text.contains("allow default"));
    }
}
