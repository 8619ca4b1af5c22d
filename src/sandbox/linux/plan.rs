//! `SandboxPlan`: exactly what the helper does before it executes a command. Pure.
//!
//! A policy and facts about this machine go in, lists of paths come out. With namespaces,
//! mounts say what is writable and hidden (`overlay.rs`) and Landlock stands behind them.
//! Without, Landlock stands alone; it only ever allows, so a hidden path is hidden by granting
//! all its neighbours instead of their common directory.
//! Called by `runner.rs`; carried out by `helper.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::{Network, Pattern, SandboxMode, SandboxPolicy};
use crate::sandbox::linux::overlay::{MountPoint, Overlay, TMP, build_overlays, opens_all};
use crate::sandbox::proxy::proxy_env;
use crate::sandbox::{ResourceLimits, TerminalSize};

/// Files below `/dev` that programs expect to write, and that hold nothing.
///
/// No terminals: another program's could be typed into or read.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The terminals that a command makes itself, where all that there are, are its own.
const OWN_TERMINALS: [&str; 2] = ["/dev/ptmx", "/dev/pts"];

/// What confines commands on this machine, and what of it a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layers {
    /// Namespaces, and of which kind.
    pub(crate) namespaces: Option<Namespaces>,
    /// Whether Landlock keeps what we promise of it.
    pub(crate) landlock: bool,
}

/// Who makes the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Namespaces {
    /// A user namespace of their own.
    OfUser,
    /// Root itself, where there are no user namespaces or root needs its power over file modes.
    OfRoot,
}

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
    /// What confines.
    pub(crate) layers: Layers,
    /// Where the command runs, real; `None` where it cannot be entered.
    pub(crate) cwd: Option<PathBuf>,
    /// What is there below the roots and makes programs run others: `.git` and its like.
    pub(crate) protected: Vec<PathBuf>,
    /// The same that is not there, at the top of each root.
    pub(crate) missing: Vec<MountPoint>,
    /// Sockets of other programs.
    pub(crate) sockets: Vec<PathBuf>,
    /// Directories of the system that are there, and each sandbox's own.
    pub(crate) replaced: Vec<PathBuf>,
    /// What of them programs need to see.
    pub(crate) exposed: Vec<PathBuf>,
    /// The session's own temporary directory.
    pub(crate) private_tmp: Option<PathBuf>,
    /// Whether someone takes note of what goes through a proxy; without, there is none.
    pub(crate) attempts_heard: bool,
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
    /// Whether it has the streams that come over the line, instead of an output pipe.
    #[serde(default)]
    pub(crate) streams_passed: bool,
    /// The terminal it makes itself; the helper's output is the line for our end of it.
    #[serde(default)]
    pub(crate) terminal: Option<TerminalSize>,
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
    /// Whether single hosts are reached, through a proxy on its own loopback.
    pub(crate) proxied: bool,
    /// Whether root keeps its power over file modes.
    pub(crate) keep_mode_override: bool,
    /// Whether Landlock must hold.
    pub(crate) landlock: bool,
    /// Its own view of the system, where there are namespaces.
    pub(crate) view: Option<View>,
    /// What it may use up.
    pub(crate) limits: ResourceLimits,
}

/// A view of the system of its own: namespaces and what is mounted in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Who makes it.
    pub(crate) namespaces: Namespaces,
    /// Whether all is writable but for overlays; else nothing is but for overlays.
    pub(crate) all_writable: bool,
    /// To be made outside before, and taken away after.
    pub(crate) mount_points: Vec<MountPoint>,
    /// What is otherwise than outside, directories before what lies below them.
    pub(crate) overlays: Vec<Overlay>,
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
    limits: ResourceLimits,
    (cwd, mut env): (PathBuf, Vec<(String, String)>),
) -> SandboxPlan {
    let confinement = policy
        .filter(|policy| policy.mode != SandboxMode::DangerFullAccess)
        .map(|policy| build_confinement(policy, facts, limits));
    if confinement.as_ref().is_some_and(|confinement| confinement.view.is_some()) {
        // The directory that was meant is not there any more.
        env.retain(|(name, _)| !matches!(name.as_str(), "TMPDIR" | "TMP" | "TEMP"));
        env.push(("TMPDIR".to_owned(), TMP.to_owned()));
    }
    if confinement.as_ref().is_some_and(|confinement| confinement.proxied) {
        let proxied: Vec<_> = proxy_env().collect();
        env.retain(|(name, _)| proxied.iter().all(|(proxy, _)| proxy != name));
        env.extend(proxied);
    }
    SandboxPlan { cwd, env, confinement, streams_passed: false, terminal: None }
}

fn build_confinement(policy: &SandboxPolicy, facts: &Facts, limits: ResourceLimits) -> Confinement {
    let write = build_write_grants(policy, facts);
    let (read, list) = build_read_grants(facts, &write);
    let view = facts.layers.namespaces.map(|namespaces| build_view(policy, facts, namespaces));
    let terminals = OWN_TERMINALS.iter().filter(|_| view.is_some());
    Confinement {
        read,
        list,
        write,
        devices: DEVICES.iter().chain(terminals).map(PathBuf::from).collect(),
        network: policy.network == Network::On,
        // Without a network of its own, a proxy could be passed by: closed is the safe side.
        proxied: matches!(policy.network, Network::Hosts(_))
            && facts.layers.namespaces.is_some()
            && facts.attempts_heard,
        keep_mode_override: facts.foreign_roots,
        landlock: facts.layers.landlock,
        view,
        limits,
    }
}

fn build_view(policy: &SandboxPolicy, facts: &Facts, namespaces: Namespaces) -> View {
    let overlays = build_overlays(policy, facts);
    let is_laid = |point: &&MountPoint| overlays.iter().any(|overlay| overlay.at == point.path);
    let mount_points = facts.missing.iter().filter(is_laid).cloned().collect();
    View {
        // In a user namespace, root's power would end at the files of users it does not know.
        namespaces: if facts.foreign_roots { Namespaces::OfRoot } else { namespaces },
        all_writable: opens_all(policy, facts),
        mount_points,
        overlays,
    }
}

/// Returns the hidden paths that a command can read all the same, and those of `closed` that it
/// can change: they lie below a writable directory, of which nothing can be left out.
pub(crate) fn find_exposed<'a>(
    policy: &SandboxPolicy,
    facts: &'a Facts,
) -> (Vec<&'a Path>, Vec<&'a Path>) {
    if facts.layers.namespaces.is_some() {
        return (Vec::new(), Vec::new());
    }
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
        if facts.layers.namespaces.is_some() {
            write.extend(policy.tmp.then(|| PathBuf::from(TMP)));
        } else if policy.tmp {
            write.extend(facts.temporary.iter().cloned());
        }
    }
    write
}

fn build_read_grants(facts: &Facts, write: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let root = PathBuf::from("/");
    if facts.hidden.is_empty() || facts.layers.namespaces.is_some() {
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
    read.extend(write.iter().filter(|path| touches_hidden(path) || below_hidden(path)).cloned());
    (read, vec![root])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::GitAccess;

    const NO_LIMITS: ResourceLimits = ResourceLimits::NONE;

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
        let plan = build_plan(Some(&policy(SandboxMode::ReadOnly)), &facts, NO_LIMITS, place("/w"));
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
        let confinement =
            build_plan(Some(&policy), &facts, NO_LIMITS, place("/w")).confinement.unwrap();
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
        let confinement =
            build_plan(Some(&writing), &facts, NO_LIMITS, place("/w")).confinement.unwrap();
        assert_eq!(confinement.read, paths(&["/tmp", "/etc/hosts", "/home/u/a", "/home/u"]));
        let (read, written) = find_exposed(&writing, &facts);
        assert_eq!(read, [Path::new("/home/u/.ssh")]);
        assert_eq!(written, [Path::new("/home/u/.config/gimlet")]);

        let reading = policy(SandboxMode::ReadOnly);
        let confinement =
            build_plan(Some(&reading), &facts, NO_LIMITS, place("/w")).confinement.unwrap();
        assert_eq!(confinement.read, paths(&["/tmp", "/etc/hosts", "/home/u/a"]));
        assert!(confinement.write.is_empty());
        assert!(!confinement.devices.iter().any(|path| path.starts_with("/dev/shm")));
        assert_eq!(find_exposed(&reading, &facts), (Vec::new(), Vec::new()));
    }

    #[test]
    fn full_access_is_not_confined() {
        let policy = policy(SandboxMode::DangerFullAccess);
        assert_eq!(
            build_plan(Some(&policy), &Facts::default(), NO_LIMITS, place("/")).confinement,
            None
        );
        assert_eq!(build_plan(None, &Facts::default(), NO_LIMITS, place("/")).confinement, None);
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
