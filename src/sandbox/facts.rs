//! Gathers what a plan must know of this machine: real paths, and what lies beside hidden ones.
//!
//! Reads directories and nothing else; judges nothing. Called by `runner.rs` per command,
//! since files come and go.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::protocol::SandboxPolicy;
use crate::sandbox::SandboxError;
use crate::sandbox::environment::matches_glob;
use crate::sandbox::plan::{Facts, parse_hidden_paths};

/// Entries of one directory above a hidden path. Each is a grant of its own, about 3 µs.
const DIRECTORY_ENTRIES_MAX: usize = 16_384;

/// Reads what the plan for this policy must know.
pub(crate) fn load_facts(
    policy: &SandboxPolicy,
    home: &Path,
    tmpdir: Option<&str>,
) -> Result<Facts, SandboxError> {
    let real = |path: &Path| fs::canonicalize(path).ok().filter(|path| path.to_str().is_some());
    let mut hidden: Vec<PathBuf> = parse_hidden_paths(&policy.deny_read, home)
        .iter()
        .flat_map(|path| expand_name(path))
        .filter_map(|path| real(&path))
        .collect();
    hidden.dedup();
    let closed = policy.deny_write.iter().filter_map(|path| real(path)).collect();
    let roots: Vec<PathBuf> = policy.roots.iter().filter_map(|path| real(path)).collect();
    let temporary: Vec<PathBuf> = [Some("/tmp"), tmpdir]
        .into_iter()
        .flatten()
        .map(Path::new)
        // A relative or root TMPDIR must not open the whole tree.
        .filter(|path| path.is_absolute() && path.parent().is_some())
        .filter_map(real)
        .filter(|path| path.parent().is_some())
        .collect();
    let mut listings = BTreeMap::new();
    for directory in hidden.iter().flat_map(|path| path.ancestors().skip(1)) {
        if !listings.contains_key(directory) {
            listings.insert(directory.to_owned(), load_listing(directory)?);
        }
    }
    let foreign_roots =
        rustix::process::geteuid().is_root() && roots.iter().any(|root| is_foreign(root));
    Ok(Facts { roots, temporary, hidden, closed, listings, foreign_roots })
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
