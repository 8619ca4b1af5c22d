//! `SandboxPlan`: exactly what the helper does before it executes a command. Pure.
//!
//! A policy and facts about this machine go in, lists of paths come out. This is the seam at
//! which a fuller sandbox is planned later. Landlock only ever allows, so a hidden path is
//! hidden by granting all its neighbours instead of their common directory.
//! Called by `runner.rs`; carried out by `helper.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::{Network, Pattern, SandboxMode, SandboxPolicy};

/// Files below `/dev` that programs expect to write, and that hold nothing.
///
/// No terminals: another program's could be typed into or read. A pseudo-terminal of its own a
/// command does not get, either.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What this machine has to say about a policy, gathered by `facts.rs`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Facts {
    /// The writable roots that exist, real.
    pub(crate) roots: Vec<PathBuf>,
    /// Temporary directories, real.
    pub(crate) temporary: Vec<PathBuf>,
    /// Hidden paths that exist, real.
    pub(crate) hidden: Vec<PathBuf>,
    /// Directories that exist, real, and that no tool changes unasked.
    pub(crate) closed: Vec<PathBuf>,
    /// The children of every directory above a hidden path, without symbolic links: what a
    /// link points to is granted, or not, by its own place.
    pub(crate) listings: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Whether we are root and some root is someone else's, so that writing there needs root's
    /// power over file modes.
    pub(crate) foreign_roots: bool,
}

/// What the helper does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SandboxPlan {
    /// Where the command runs.
    pub(crate) cwd: PathBuf,
    /// The command's environment. The helper itself has none: what it loads is nobody's choice.
    pub(crate) env: Vec<(String, String)>,
    /// How it is confined; `None` leaves it free.
    pub(crate) confinement: Option<Confinement>,
}

/// How a command is confined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// Read and executed, with all below.
    pub(crate) read: Vec<PathBuf>,
    /// Listed only, with all below.
    pub(crate) list: Vec<PathBuf>,
    /// Written, with all below.
    pub(crate) write: Vec<PathBuf>,
    /// Devices: read, written and controlled.
    pub(crate) devices: Vec<PathBuf>,
    /// Whether the network is open.
    pub(crate) network: bool,
    /// Whether root keeps its power over file modes.
    pub(crate) keep_mode_override: bool,
}

/// Returns the paths a policy hides, as far as they are plain paths.
///
/// The last name may hold a `*`, for `facts.rs` to expand. A pattern with another wildcard names
/// no place that could be left out of a grant, but for a trailing `/*` or `/**`; file tools
/// honour it, this level of the sandbox cannot.
pub(crate) fn parse_hidden_paths(patterns: &[Pattern], home: &Path) -> Vec<PathBuf> {
    patterns.iter().filter_map(|Pattern(text)| parse_hidden_path(text, home)).collect()
}

fn parse_hidden_path(text: &str, home: &Path) -> Option<PathBuf> {
    let plain = text.strip_suffix("/**").or_else(|| text.strip_suffix("/*")).unwrap_or(text);
    let directory = plain.rsplit_once('/').map_or("", |(directory, _)| directory);
    if plain.contains(['?', '[', '{']) || directory.contains('*') {
        return None;
    }
    let path = match plain.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(plain),
    };
    (path.is_absolute() && path.parent().is_some()).then_some(path)
}

/// Builds the plan for a command under a policy; no policy leaves it free.
pub(crate) fn build_plan(
    policy: Option<&SandboxPolicy>,
    facts: &Facts,
    (cwd, env): (PathBuf, Vec<(String, String)>),
) -> SandboxPlan {
    let confinement = policy
        .filter(|policy| policy.mode != SandboxMode::DangerFullAccess)
        .map(|policy| build_confinement(policy, facts));
    SandboxPlan { cwd, env, confinement }
}

fn build_confinement(policy: &SandboxPolicy, facts: &Facts) -> Confinement {
    let write = build_write_grants(policy, facts);
    let (read, list) = build_read_grants(facts, &write);
    Confinement {
        read,
        list,
        write,
        devices: DEVICES.iter().map(PathBuf::from).collect(),
        // Single hosts need a proxy, which this level does not have: closed is the safe side.
        network: policy.network == Network::On,
        keep_mode_override: facts.foreign_roots,
    }
}

/// Returns the hidden paths that a command can read all the same, and those of `closed` that it
/// can change: they lie below a writable directory, of which nothing can be left out.
pub(crate) fn find_exposed<'a>(
    policy: &SandboxPolicy,
    facts: &'a Facts,
) -> (Vec<&'a Path>, Vec<&'a Path>) {
    let write = build_write_grants(policy, facts);
    let is_writable = |path: &&PathBuf| write.iter().any(|writable| path.starts_with(writable));
    let exposed = |paths: &'a [PathBuf]| {
        paths.iter().filter(is_writable).map(PathBuf::as_path).collect::<Vec<_>>()
    };
    (exposed(&facts.hidden), exposed(&facts.closed))
}

fn build_write_grants(policy: &SandboxPolicy, facts: &Facts) -> Vec<PathBuf> {
    let mut write = Vec::new();
    if policy.mode == SandboxMode::WorkspaceWrite {
        write.extend(facts.roots.iter().cloned());
        write.push(PathBuf::from("/dev/shm"));
        if policy.tmp {
            write.extend(facts.temporary.iter().cloned());
        }
    }
    write
}

fn build_read_grants(facts: &Facts, write: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let root = PathBuf::from("/");
    if facts.hidden.is_empty() {
        return (vec![root], Vec::new());
    }
    let touches_hidden = |path: &Path| facts.hidden.iter().any(|hidden| hidden.starts_with(path));
    let below_hidden = |path: &Path| facts.hidden.iter().any(|hidden| path.starts_with(hidden));
    let mut read: Vec<PathBuf> = facts
        .listings
        .iter()
        .filter(|(directory, _)| !below_hidden(directory))
        .flat_map(|(_, children)| children)
        .filter(|child| !touches_hidden(child))
        .cloned()
        .collect();
    // A workspace inside a hidden directory was chosen on purpose.
    read.extend(facts.roots.iter().filter(|path| below_hidden(path)).cloned());
    // What a command writes it must be able to read, also under a name that is not there yet.
    // So nothing stays hidden below a writable directory; `find_exposed` tells what.
    read.extend(write.iter().filter(|path| touches_hidden(path)).cloned());
    (read, vec![root])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::GitAccess;

    fn policy(mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy {
            mode,
            roots: vec![PathBuf::from("/w")],
            network: Network::Off,
            deny_read: Vec::new(),
            deny_write: Vec::new(),
            git: GitAccess::Ask,
            tmp: true,
        }
    }

    fn place(cwd: &str) -> (PathBuf, Vec<(String, String)>) {
        (cwd.into(), Vec::new())
    }

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_hidden_path_is_left_out_and_its_neighbours_are_not() {
        let facts = Facts {
            hidden: paths(&["/home/u/.ssh"]),
            listings: BTreeMap::from([
                ("/".into(), paths(&["/usr", "/home"])),
                ("/home".into(), paths(&["/home/u", "/home/v"])),
                ("/home/u".into(), paths(&["/home/u/.ssh", "/home/u/src"])),
            ]),
            ..Facts::default()
        };
        let plan = build_plan(Some(&policy(SandboxMode::ReadOnly)), &facts, place("/w"));
        let confinement = plan.confinement.unwrap();
        assert_eq!(confinement.read, paths(&["/usr", "/home/v", "/home/u/src"]));
        assert_eq!(confinement.list, paths(&["/"]));
        assert!(confinement.write.is_empty());
    }

    #[test]
    fn only_workspace_write_grants_writes_and_single_hosts_stay_closed() {
        let facts =
            Facts { roots: paths(&["/w"]), temporary: paths(&["/tmp"]), ..Facts::default() };
        let mut policy = policy(SandboxMode::WorkspaceWrite);
        policy.network = Network::Hosts(Vec::new());
        let confinement = build_plan(Some(&policy), &facts, place("/w")).confinement.unwrap();
        assert_eq!(confinement.write, paths(&["/w", "/dev/shm", "/tmp"]));
        assert_eq!(confinement.read, paths(&["/"]));
        assert!(!confinement.network);
    }

    #[test]
    fn what_is_hidden_below_a_writable_directory_is_told_and_breaks_nothing() {
        let facts = Facts {
            roots: paths(&["/home/u"]),
            temporary: paths(&["/tmp"]),
            hidden: paths(&["/etc/shadow", "/home/u/.ssh"]),
            closed: paths(&["/home/u/.config/gimlet"]),
            listings: BTreeMap::from([
                ("/".into(), paths(&["/etc", "/home", "/tmp"])),
                ("/etc".into(), paths(&["/etc/hosts", "/etc/shadow"])),
                ("/home".into(), paths(&["/home/u"])),
                ("/home/u".into(), paths(&["/home/u/.ssh", "/home/u/a"])),
            ]),
            ..Facts::default()
        };
        let writing = policy(SandboxMode::WorkspaceWrite);
        let confinement = build_plan(Some(&writing), &facts, place("/w")).confinement.unwrap();
        assert_eq!(confinement.read, paths(&["/tmp", "/etc/hosts", "/home/u/a", "/home/u"]));
        let (read, written) = find_exposed(&writing, &facts);
        assert_eq!(read, [Path::new("/home/u/.ssh")]);
        assert_eq!(written, [Path::new("/home/u/.config/gimlet")]);

        let reading = policy(SandboxMode::ReadOnly);
        let confinement = build_plan(Some(&reading), &facts, place("/w")).confinement.unwrap();
        assert_eq!(confinement.read, paths(&["/tmp", "/etc/hosts", "/home/u/a"]));
        assert!(confinement.write.is_empty());
        assert!(!confinement.devices.iter().any(|path| path.starts_with("/dev/shm")));
        assert_eq!(find_exposed(&reading, &facts), (Vec::new(), Vec::new()));
    }

    #[test]
    fn full_access_is_not_confined() {
        let policy = policy(SandboxMode::DangerFullAccess);
        assert_eq!(build_plan(Some(&policy), &Facts::default(), place("/")).confinement, None);
        assert_eq!(build_plan(None, &Facts::default(), place("/")).confinement, None);
    }

    #[test]
    fn hidden_paths_are_plain_paths() {
        let patterns: Vec<Pattern> = [
            "~/.ssh",
            "/etc/shadow",
            "~/.aws/**",
            "/c/*.toml",
            "**/.env",
            "/a*/b",
            "relative",
            "/",
        ]
        .iter()
        .map(|text| Pattern((*text).to_owned()))
        .collect();
        assert_eq!(
            parse_hidden_paths(&patterns, Path::new("/home/u")),
            paths(&["/home/u/.ssh", "/etc/shadow", "/home/u/.aws", "/c/*.toml"])
        );
    }
}
