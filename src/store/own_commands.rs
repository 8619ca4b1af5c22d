//! The directory of commands that every command finds on its `PATH`: this program by the name
//! that models give it in scripts.
//!
//! It lies in the state directory, which no command writes: what is planted on a `PATH` may run
//! unconfined one day. One directory per program file, so that two versions do not take each
//! other's links. Knows nothing of environments or sandboxes. Called by `cli/engine.rs`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::store::atomic::create_private_folders;
use crate::text::hex::encode_hex;

/// The names.
pub(crate) const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

/// Bytes of the hash in the directory's name; programs on one machine are few.
const HASH_BYTES: usize = 8;

/// Returns the directory whose commands are links to `program`, and makes it where it lacks.
pub(crate) fn link_commands(state: &Path, program: &Path) -> io::Result<PathBuf> {
    let hash = Sha256::digest(program.as_os_str().as_encoded_bytes());
    let name = encode_hex(hash.get(..HASH_BYTES).unwrap_or(&hash));
    let directory = state.join("commands").join(name);
    let is_linked = |name| fs::read_link(directory.join(name)).is_ok_and(|to| to == program);
    if NAMES.iter().all(is_linked) {
        return Ok(directory);
    }
    create_private_folders(&directory)?;
    for name in NAMES {
        // Renamed into place: a session that runs beside us finds the old link or the new one.
        let temp = tempfile::Builder::new()
            .prefix(name)
            .make_in(&directory, |path| std::os::unix::fs::symlink(program, path))?;
        temp.into_temp_path().persist(directory.join(name)).map_err(|error| error.error)?;
    }
    Ok(directory)
}

/// Returns whether a program was called by one of the names.
pub(crate) fn is_own_name(name: &OsStr) -> bool {
    NAMES.iter().any(|own| name == *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_once_and_mended() {
        let dir = tempfile::tempdir().unwrap();
        let (state, program) = (dir.path().join("state"), Path::new("/opt/gimlet"));
        let directory = link_commands(&state, program).unwrap();
        assert_eq!(directory.parent().unwrap(), state.join("commands"));
        fs::remove_file(directory.join("apply_patch")).unwrap();
        fs::write(directory.join("apply_patch"), "something else").unwrap();
        assert_eq!(link_commands(&state, program).unwrap(), directory);
        let mut found: Vec<_> = fs::read_dir(&directory).unwrap().map(|e| e.unwrap()).collect();
        found.sort_by_key(fs::DirEntry::file_name);
        let names: Vec<_> = found.iter().map(fs::DirEntry::file_name).collect();
        assert_eq!(names, NAMES);
        for entry in found {
            assert_eq!(fs::read_link(entry.path()).unwrap(), program);
        }
        let other = link_commands(&state, Path::new("/opt/other")).unwrap();
        assert_ne!(other, directory);
    }

    #[test]
    fn only_the_exact_names_are_ours() {
        assert!(is_own_name(OsStr::new("apply_patch")) && is_own_name(OsStr::new("applypatch")));
        assert!(!is_own_name(OsStr::new("gimlet")) && !is_own_name(OsStr::new("apply-patch")));
    }
}
