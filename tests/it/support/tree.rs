//! Trees: made from a few lines of text, and taken down whole to compare and to show.
//!
//! A fixture cannot hold links, modes, FIFOs or empty folders, so `make` makes them from lines.
//! `take` reads all there is by `lstat`, follows no link and opens nothing but regular files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    kind: &'static str,
    mode: u32,
    /// Content, or where a link leads.
    bytes: Vec<u8>,
}

/// Everything below a folder, by path from there.
pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Returns all that is below a folder.
pub(crate) fn take(root: &Path) -> Tree {
    let (mut tree, mut folders) = (Tree::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let kind = found.file_type();
            let (kind, bytes) = if kind.is_dir() {
                folders.push(path.clone());
                ("folder", Vec::new())
            } else if kind.is_symlink() {
                ("link", fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
            } else if kind.is_file() {
                // A test may have taken its own right to read it away.
                ("file", fs::read(&path).unwrap_or_default())
            } else {
                (if kind.is_fifo() { "fifo" } else { "other" }, Vec::new())
            };
            let name = path.strip_prefix(root).unwrap().to_owned();
            tree.insert(name, Entry { kind, mode: found.mode() & 0o7777, bytes });
        }
    }
    tree
}

/// Returns a tree as text. Of modes only what the umask leaves alone: who may execute.
pub(crate) fn render(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, entry) in tree {
        let path = path.as_os_str().as_bytes().escape_ascii();
        let _ = match entry.kind {
            "file" => {
                let mark = if entry.mode & 0o100 == 0 { "" } else { " x" };
                let lines = entry.bytes.split_inclusive(|byte| *byte == b'\n');
                let lines = lines.map(|line| format!("    {}\n", line.escape_ascii()));
                writeln!(
                    text,
                    "file{mark} {path}\n{}",
                    lines.collect::<String>().trim_end_matches('\n')
                )
            }
            "link" => writeln!(text, "link {path} -> {}", entry.bytes.escape_ascii()),
            kind => writeln!(text, "{kind} {path}"),
        };
    }
    text
}

/// Makes what the lines say: `folder PATH`, `link PATH -> TARGET`, `mode OCTAL PATH`,
/// `fifo PATH`. `[ROOT]` stands for the folder above the tree.
pub(crate) fn make(root: &Path, lines: &str) {
    let above = root.parent().unwrap().display().to_string();
    for line in lines.lines() {
        let line = line.replace("[ROOT]", &above);
        let (verb, rest) = line.split_once(' ').unwrap();
        match verb {
            "folder" => fs::create_dir_all(root.join(rest)).unwrap(),
            "link" => {
                let (path, target) = rest.split_once(" -> ").unwrap();
                symlink(target, root.join(path)).unwrap();
            }
            "mode" => {
                let (mode, path) = rest.split_once(' ').unwrap();
                let mode = u32::from_str_radix(mode, 8).unwrap();
                fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
            }
            "fifo" => make_fifo(&root.join(rest)),
            _ => panic!("{line}: not a line of a tree"),
        }
    }
}

/// Makes a FIFO.
pub(crate) fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}
