//! Which local sockets other programs have open under a path.
//!
//! Read-only mounts do not keep a command from connecting to one, and few kernels' Landlock
//! does; so they are hidden. Reads `/proc/net/unix`. Called by `facts.rs`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Sockets that are hidden one by one. A program that opens as many on purpose is none of the
/// user's.
const SOCKETS_MAX: usize = 1_024;

/// Returns the real paths of sockets that are open now, but for those below directories that
/// each sandbox has for itself, unless a root lies there.
pub(crate) fn load_local_sockets(replaced: &[&Path], roots: &[PathBuf]) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = parse_paths(&String::from_utf8_lossy(&table))
        .filter(|path| {
            !replaced.iter().any(|directory| path.starts_with(directory))
                || roots.iter().any(|root| path.starts_with(root))
        })
        .filter(|path| {
            std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
        })
        .filter_map(|path| std::fs::canonicalize(path).ok())
        .take(SOCKETS_MAX)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the absolute paths in a table of sockets, the eighth column; abstract names begin
/// with an `@`, and most sockets have none.
fn parse_paths(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().skip(1).filter_map(|line| {
        let start = line.find(" /")?;
        line.get(start + 1..).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_with_a_path_are_named() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            ffff: 00000002 00000000 00010000 0001 01 20 /var/lib/a b.sock\n\
            ffff: 00000002 00000000 00010000 0001 01 21 @/tmp/abstract\n\
            ffff: 00000003 00000000 00000000 0001 03 22\n\
            ffff: 00000002 00000000 00000000 0002 01 23 relative\n";
        assert_eq!(parse_paths(table).collect::<Vec<_>>(), [Path::new("/var/lib/a b.sock")]);
    }

    #[test]
    fn a_socket_that_is_open_is_found_and_a_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(load_local_sockets(&[], &[]).contains(&path));
        let around = directory.path().canonicalize().unwrap();
        assert!(!load_local_sockets(&[&around], &[]).contains(&path));
        assert!(load_local_sockets(&[&around], std::slice::from_ref(&around)).contains(&path));
        drop(listener);
        assert!(!load_local_sockets(&[], &[]).contains(&path));
    }
}
