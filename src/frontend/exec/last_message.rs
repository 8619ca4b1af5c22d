//! Writes the final message to the file of `-o`, whole or not at all.
//!
//! Knows nothing of turns; who calls it decides whether there is a message worth keeping.
//! Called by `exec/run.rs`.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces a file's content. What is there stays when anything fails.
pub(in crate::frontend::exec) fn save_last_message(path: &Path, message: &str) -> io::Result<()> {
    // A link stays a link: its target is what the user means.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mode = match path.metadata() {
        // A device or a pipe cannot be replaced, only written to.
        Ok(metadata) if !metadata.is_file() => return std::fs::write(&path, message),
        Ok(metadata) => metadata.permissions(),
        Err(_) => Permissions::from_mode(0o666),
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(directory)?;
    file.write_all(message.as_bytes())?;
    file.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_stays() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("out.txt"), home.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_last_message(&file, "one").unwrap();
        save_last_message(&link, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        assert!(save_last_message(&home.path().join("none/out.txt"), "x").is_err());
        assert!(save_last_message(home.path(), "x").is_err());
    }
}
