//! Gathers what a plan must know of this machine: real paths, what is to be protected, and what
//! lies beside hidden ones.
//!
//! Reads directories and changes nothing; judges nothing. Called by `runner.rs` per command,
//! since files come and go.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::protocol::{SandboxMode, SandboxPolicy};
use crate::sandbox::SandboxError;
use crate::sandbox::environment::matches_glob;
use crate::sandbox::linux::landlock::confines_sockets;
use crate::sandbox::linux::local_sockets::load_local_sockets;
use crate::sandbox::linux::overlay::{MountPoint, TMP};
use crate::sandbox::linux::plan::{Facts, Layers, parse_hidden_paths};
use crate::sandbox::linux::repositories::{Protected, Walks, find_missing};

/// Entries of one directory above a hidden path. Each is a grant of its own, about 3 µs.
const DIRECTORY_ENTRIES_MAX: usize = 16_384;

/// Directories of the system's services, where they keep their sockets.
const SERVICE_DIRECTORIES: [&str; 2] = ["/run", "/var/run"];

/// What lies there and programs need to see: how names are looked up, and the system's own
/// programs where they are kept there.
const SERVICE_FILES: [&str; 4] =
    ["/etc/resolv.conf", "/etc/localtime", "/run/current-system", "/run/opengl-driver"];

/// What Landlock alone keeps from being read beside what the user hides: disks, and what only
/// serves to attack the kernel. The devices that programs need are granted one by one.
const KERNEL_HIDDEN: [&str; 5] =
    ["/dev", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing"];

/// Whose facts are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// The policy.
    pub(crate) policy: &'a SandboxPolicy,
    /// The user's home directory.
    pub(crate) home: &'a Path,
    /// The environment of the command.
    pub(crate) env: &'a [(String, String)],
    /// Where it runs.
    pub(crate) cwd: &'a Path,
    /// What confines it.
    pub(crate) layers: Layers,
}

/// Reads what the plan for this policy must know.
pub(crate) fn load_facts(question: &Question<'_>, walks: &Walks) -> Result<Facts, SandboxError> {
    let policy = question.policy;
    let roots: Vec<PathBuf> = policy.roots.iter().filter_map(|path| real(path)).collect();
    let foreign_roots =
        rustix::process::geteuid().is_root() && roots.iter().any(|root| is_foreign(root));
    let facts = Facts {
        hidden: find_hidden(policy, question.home),
        closed: policy.deny_write.iter().filter_map(|path| real(path)).collect(),
        roots,
        foreign_roots,
        layers: question.layers,
        ..Facts::default()
    };
    match question.layers.namespaces {
        Some(_) => load_view_facts(facts, question, walks),
        None => load_landlock_facts(facts, question),
    }
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path.to_str().is_some())
}

fn find_hidden(policy: &SandboxPolicy, home: &Path) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = parse_hidden_paths(&policy.deny_read, home)
        .iter()
        .flat_map(|path| expand_name(path))
        .filter_map(|path| real(&path))
        .collect();
    hidden.sort();
    hidden.dedup();
    hidden
}

/// Reads what a view of the system of its own needs.
fn load_view_facts(
    facts: Facts,
    question: &Question<'_>,
    walks: &Walks,
) -> Result<Facts, SandboxError> {
    let policy = question.policy;
    let is_writing = policy.mode == SandboxMode::WorkspaceWrite;
    let Protected { present, mut missing } = match is_writing {
        true => walks.find(&facts.roots, policy.git)?,
        false => Protected::default(),
    };
    let replaced: Vec<PathBuf> = SERVICE_DIRECTORIES
        .iter()
        .map(PathBuf::from)
        .filter(|it| real(it).as_ref() == Some(it))
        .collect();
    let exposed = SERVICE_FILES.iter().filter_map(|path| real(Path::new(path))).collect();
    let sockets = match confines_sockets() && question.layers.landlock {
        true => Vec::new(),
        false => {
            let own = [TMP, "/dev"].map(Path::new);
            let own: Vec<&Path> =
                own.into_iter().chain(replaced.iter().map(PathBuf::as_path)).collect();
            load_local_sockets(&own, &facts.roots)
        }
    };
    missing.extend(policy.deny_write.iter().filter_map(|path| find_missing_above(path)));
    missing.sort();
    missing.dedup();
    Ok(Facts {
        cwd: real(question.cwd).filter(|cwd| cwd.parent().is_some()).map(|cwd| find_shown(&cwd)),
        protected: present,
        missing,
        sockets,
        replaced,
        exposed,
        ..facts
    })
}

/// Returns what stands for a directory that is not there yet and that no command may make: the
/// first of the directories above it that is missing too, or it itself.
fn find_missing_above(path: &Path) -> Option<MountPoint> {
    let mut missing = None;
    for above in path.ancestors() {
        match find_missing(above.to_owned(), true) {
            Some(point) => missing = Some(point),
            None if missing.is_none() && !above.exists() => {}
            None => break,
        }
    }
    let MountPoint { path, directory } = missing?;
    let place = real(path.parent()?)?;
    Some(MountPoint { path: place.join(path.file_name()?), directory })
}

/// Returns what is to be seen of a directory's surroundings: below `/tmp`, where projects are
/// tried out, all of the one it is in.
fn find_shown(cwd: &Path) -> PathBuf {
    let first = cwd.strip_prefix(TMP).ok().and_then(|below| below.components().next());
    first.map_or_else(|| cwd.to_owned(), |first| Path::new(TMP).join(first))
}

/// Reads what grants of Landlock alone need.
fn load_landlock_facts(mut facts: Facts, question: &Question<'_>) -> Result<Facts, SandboxError> {
    facts.hidden.extend(KERNEL_HIDDEN.iter().filter_map(|path| real(Path::new(path))));
    let tmpdir = question.env.iter().find(|(name, _)| name == "TMPDIR");
    let temporary: Vec<PathBuf> = [Some("/tmp"), tmpdir.map(|(_, value)| value.as_str())]
        .into_iter()
        .flatten()
        .map(Path::new)
        // A relative or root TMPDIR must not open the whole tree.
        .filter(|path| path.is_absolute() && path.parent().is_some())
        .filter_map(real)
        .filter(|path| path.parent().is_some())
        .collect();
    let mut listings = BTreeMap::new();
    for directory in facts.hidden.iter().flat_map(|path| path.ancestors().skip(1)) {
        if !listings.contains_key(directory) {
            listings.insert(directory.to_owned(), load_listing(directory)?);
        }
    }
    Ok(Facts { temporary, listings, ..facts })
}

/// Returns the paths that a path stands for whose last name may hold a `*`.
fn expand_name(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !name.contains('*') {
        return vec![path.to_owned()];
    }
    let entries = path.parent().and_then(|directory| fs::read_dir(directory).ok());
    let names = entries.into_iter().flatten().flatten().take(DIRECTORY_ENTRIES_MAX);
    let is_meant =
        |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|it| matches_glob(it, name));
    names.filter(is_meant).map(|entry| entry.path()).collect()
}

fn is_foreign(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.uid() != 0)
}

fn load_listing(directory: &Path) -> Result<Vec<PathBuf>, SandboxError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // What we cannot list, the command does not get: hiding comes first.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) => {
            return Err(SandboxError::Unavailable(format!("{}: {error}", directory.display())));
        }
    };
    let mut children = Vec::new();
    for entry in entries.flatten() {
        if children.len() >= DIRECTORY_ENTRIES_MAX {
            return Err(SandboxError::Unavailable(format!(
                "{} has too many entries beside a hidden path",
                directory.display()
            )));
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_link && entry.path().to_str().is_some() {
            children.push(entry.path());
        }
    }
    children.sort();
    Ok(children)
}
