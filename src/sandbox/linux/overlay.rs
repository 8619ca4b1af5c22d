//! Overlays: which paths a command sees otherwise than they are. Pure.
//!
//! With a mount namespace, all is read-only and these are laid on top, directories before what
//! lies below them: writable roots, what stays protected inside those, hidden paths, and private
//! places instead of shared ones. Part of the plan; built for `plan.rs`, laid by `namespaces.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::{SandboxMode, SandboxPolicy};
use crate::sandbox::linux::plan::Facts;

/// Where every program leaves files and sockets for others; a command gets its own.
pub(crate) const TMP: &str = "/tmp";

/// Directories that are new in each sandbox and empty but for what is exposed: sockets of the
/// system's and the user's services lie there.
const SEALED: [&str; 2] = ["/run", "/var/run"];

/// Directories that `namespaces.rs` makes itself, before any overlay.
const MADE: [&str; 2] = ["/dev", "/proc"];

/// One path that is otherwise than outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overlay {
    /// Where, absolute and real.
    #[serde(with = "raw_path")]
    pub(crate) at: PathBuf,
    /// How.
    pub(crate) kind: OverlayKind,
}

/// How a path is otherwise than outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OverlayKind {
    /// Itself, writable.
    Writable,
    /// Itself, read-only, inside a place that is replaced.
    Exposed,
    /// Itself, read-only, inside a writable one.
    Protected,
    /// Itself, writable, and not to be moved: what is protected or hidden below it goes by its
    /// path, and would be gone from there.
    Pinned,
    /// Nothing that could be read.
    Hidden,
    /// A new and empty directory, read-only.
    Sealed,
    /// Another directory, writable.
    From(PathBuf),
}

/// A path that is protected though it is not there: made outside, empty, as something to lay an
/// overlay on, and taken away after the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct MountPoint {
    /// Where, absolute; its directory is real.
    #[serde(with = "raw_path")]
    pub(crate) path: PathBuf,
    /// Whether it is a directory, not a file.
    pub(crate) directory: bool,
}

impl OverlayKind {
    /// Returns whether nothing below is what it is outside.
    fn replaces(&self) -> bool {
        matches!(self, Self::Hidden | Self::Sealed | Self::From(_))
    }
}

/// Returns all overlays of a policy, directories before what lies below them.
pub(crate) fn build_overlays(policy: &SandboxPolicy, facts: &Facts) -> Vec<Overlay> {
    let wanted = collect_overlays(policy, facts);
    let all_writable = opens_all(policy, facts);
    let mut kept: BTreeMap<PathBuf, OverlayKind> = BTreeMap::new();
    for (at, kind) in wanted {
        let around = at.ancestors().skip(1).find_map(|above| kept.get(above));
        let is_made = MADE.iter().any(|made| at.starts_with(made));
        let is_replaced = around.map_or(is_made, OverlayKind::replaces);
        let is_writable =
            around.map_or(all_writable && !is_made, |it| *it == OverlayKind::Writable);
        let is_needed = match kind {
            OverlayKind::Writable | OverlayKind::Sealed | OverlayKind::From(_) => true,
            OverlayKind::Exposed => is_replaced,
            OverlayKind::Protected => is_writable,
            OverlayKind::Hidden => !is_replaced,
            OverlayKind::Pinned => false,
        };
        if is_needed {
            kept.insert(at, kind);
        }
    }
    let pinned: BTreeSet<PathBuf> =
        kept.iter().flat_map(|(at, kind)| find_pins(at, kind, &kept, all_writable)).collect();
    kept.extend(pinned.into_iter().map(|at| (at, OverlayKind::Pinned)));
    unseal_ancestors(kept)
}

/// Returns the writable directories above a protected or hidden path that a command could move
/// away with it, to put others in their place for commands to come.
fn find_pins(
    at: &Path,
    kind: &OverlayKind,
    kept: &BTreeMap<PathBuf, OverlayKind>,
    all_writable: bool,
) -> Vec<PathBuf> {
    if !matches!(kind, OverlayKind::Protected | OverlayKind::Hidden | OverlayKind::Sealed) {
        return Vec::new();
    }
    let mut pins = Vec::new();
    for above in at.ancestors().skip(1) {
        let is_writable = match kept.get(above) {
            Some(kind) => *kind == OverlayKind::Writable,
            None if above.parent().is_some() => {
                pins.push(above.to_owned());
                continue;
            }
            None => all_writable,
        };
        return if is_writable { pins } else { Vec::new() };
    }
    Vec::new()
}

/// Returns whether the whole tree is a writable root.
pub(crate) fn opens_all(policy: &SandboxPolicy, facts: &Facts) -> bool {
    policy.mode == SandboxMode::WorkspaceWrite
        && facts.roots.iter().any(|root| root.parent().is_none())
}

/// Returns every wish by its path; of two for one path the one that is put in later holds.
fn collect_overlays(policy: &SandboxPolicy, facts: &Facts) -> BTreeMap<PathBuf, OverlayKind> {
    let is_writing = policy.mode == SandboxMode::WorkspaceWrite;
    let mut wanted = BTreeMap::new();
    for sealed in SEALED.iter().map(PathBuf::from).filter(|path| facts.replaced.contains(path)) {
        wanted.insert(sealed, OverlayKind::Sealed);
    }
    let tmp = facts.private_tmp.clone().filter(|_| is_writing && policy.tmp);
    wanted.insert(PathBuf::from(TMP), tmp.map_or(OverlayKind::Sealed, OverlayKind::From));
    let own = facts.closed.iter().filter(|closed| {
        // A workspace inside a directory of ours was chosen on purpose.
        !facts.roots.iter().any(|root| root.starts_with(closed))
    });
    let missing = facts.missing.iter().map(|point| &point.path);
    for path in facts.protected.iter().chain(own).chain(missing).filter(|_| is_writing) {
        wanted.insert(path.clone(), OverlayKind::Protected);
    }
    for path in facts.hidden.iter().chain(&facts.sockets) {
        wanted.insert(path.clone(), OverlayKind::Hidden);
    }
    for path in facts.exposed.iter().chain(&facts.cwd) {
        wanted.entry(path.clone()).or_insert(OverlayKind::Exposed);
    }
    for root in facts.roots.iter().filter(|root| root.parent().is_some()) {
        let kind = if is_writing { OverlayKind::Writable } else { OverlayKind::Exposed };
        wanted.insert(root.clone(), kind);
    }
    wanted
}

/// Makes a hidden directory an empty one where something below it is shown all the same: what
/// is hidden has no room for a mount point.
fn unseal_ancestors(kept: BTreeMap<PathBuf, OverlayKind>) -> Vec<Overlay> {
    let above: BTreeSet<PathBuf> =
        kept.keys().flat_map(|path| path.ancestors().skip(1)).map(Path::to_owned).collect();
    let unseal = |(at, kind)| match kind {
        OverlayKind::Hidden if above.contains(&at) => Overlay { at, kind: OverlayKind::Sealed },
        kind => Overlay { at, kind },
    };
    kept.into_iter().map(unseal).collect()
}

/// Paths as text, or as their bytes where they are none: a name that is no text must not be a
/// way around an overlay.
mod raw_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Raw {
        Text(PathBuf),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(out),
            None => path.as_os_str().as_bytes().serialize(out),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        Ok(match Raw::deserialize(input)? {
            Raw::Text(path) => path,
            Raw::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::protocol::{GitAccess, Network};

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    fn policy(mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy {
            mode,
            roots: Vec::new(),
            network: Network::Off,
            deny_read: Vec::new(),
            deny_write: Vec::new(),
            git: GitAccess::Ask,
            tmp: true,
        }
    }

    fn shown(mode: SandboxMode, facts: &Facts) -> Vec<String> {
        build_overlays(&policy(mode), facts)
            .iter()
            .map(|overlay| format!("{} {:?}", overlay.at.display(), overlay.kind))
            .collect()
    }

    #[test]
    fn a_workspace_is_writable_but_for_what_is_protected_in_it() {
        let facts = Facts {
            roots: paths(&["/home/u/w"]),
            protected: paths(&["/home/u/w/.git", "/home/u/w/sub/.git", "/elsewhere/.git"]),
            missing: vec![MountPoint { path: "/home/u/w/.codex".into(), directory: true }],
            hidden: paths(&["/home/u/.ssh", "/home/u/w/secret"]),
            replaced: paths(&["/run"]),
            private_tmp: Some("/tmp/own".into()),
            ..Facts::default()
        };
        assert_eq!(
            shown(SandboxMode::WorkspaceWrite, &facts),
            [
                "/home/u/.ssh Hidden",
                "/home/u/w Writable",
                "/home/u/w/.codex Protected",
                "/home/u/w/.git Protected",
                "/home/u/w/secret Hidden",
                "/home/u/w/sub Pinned",
                "/home/u/w/sub/.git Protected",
                "/run Sealed",
                "/tmp From(\"/tmp/own\")",
            ]
        );
        assert_eq!(
            shown(SandboxMode::ReadOnly, &facts),
            ["/home/u/.ssh Hidden", "/home/u/w/secret Hidden", "/run Sealed", "/tmp Sealed"]
        );
    }

    #[test]
    fn a_workspace_shows_where_its_surroundings_are_replaced() {
        let facts = Facts {
            roots: paths(&["/tmp/w", "/home/u/.ssh/w", "/dev/shm/w"]),
            cwd: Some("/tmp/other".into()),
            hidden: paths(&["/home/u/.ssh", "/tmp/secret", "/home/u/.ssh/id", "/run/s"]),
            exposed: paths(&["/run/resolv.conf", "/usr/resolv.conf"]),
            replaced: paths(&["/run"]),
            private_tmp: Some("/tmp/own".into()),
            ..Facts::default()
        };
        assert_eq!(
            shown(SandboxMode::WorkspaceWrite, &facts),
            [
                "/dev/shm/w Writable",
                "/home/u/.ssh Sealed",
                "/home/u/.ssh/w Writable",
                "/run Sealed",
                "/run/resolv.conf Exposed",
                "/tmp From(\"/tmp/own\")",
                "/tmp/other Exposed",
                "/tmp/w Writable",
            ]
        );
    }

    #[test]
    fn a_root_that_is_everything_still_protects() {
        let facts = Facts {
            roots: paths(&["/"]),
            protected: paths(&["/w/.git"]),
            closed: paths(&["/root/.config/gimlet"]),
            ..Facts::default()
        };
        let expected = [
            "/root Pinned",
            "/root/.config Pinned",
            "/root/.config/gimlet Protected",
            "/tmp Sealed",
            "/w Pinned",
            "/w/.git Protected",
        ]
        .to_vec();
        assert_eq!(
            shown(SandboxMode::WorkspaceWrite, &facts),
            // Only a workspace inside it opens a directory of ours.
            expected
        );
    }

    #[test]
    fn a_name_that_is_no_text_survives() {
        let at = PathBuf::from(std::ffi::OsString::from_vec(b"/w/\xff/.git".to_vec()));
        for at in [at, PathBuf::from("/w/.git")] {
            let overlay = Overlay { at, kind: OverlayKind::Protected };
            let text = serde_json::to_string(&overlay).unwrap();
            assert_eq!(serde_json::from_str::<Overlay>(&text).unwrap(), overlay);
        }
    }
}
