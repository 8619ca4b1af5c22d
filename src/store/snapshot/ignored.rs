//! `Rules`: which names a project ignores, by the `.gitignore` files on the way.
//!
//! Rules are read when the first name asks for them: a tree that did not change never does.
//! Each directory's rules refer to those of its parent. Knows nothing of git but these files,
//! and opens nothing but regular ones. Called by `walk.rs`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

use ignore::Match;
use ignore::gitignore::Gitignore;
use ignore::gitignore::GitignoreBuilder;
use rustix::fs::Mode;
use rustix::fs::OFlags;

/// A larger file of rules is not read: nobody writes one.
const RULES_BYTES_MAX: u64 = 1 << 20;
/// The file of rules.
const FILE_NAME: &str = ".gitignore";

/// The rules that hold in one directory.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    parent: Option<&'a Rules<'a>>,
    path: PathBuf,
    has_file: bool,
    own: OnceLock<Vec<Gitignore>>,
    is_ignored: OnceLock<bool>,
}

impl<'a> Rules<'a> {
    /// Returns the rules of a workspace's root, with those of the repository around it.
    pub(super) fn of_root(path: &Path) -> Self {
        Self {
            parent: None,
            path: path.to_path_buf(),
            has_file: true,
            own: OnceLock::new(),
            is_ignored: OnceLock::from(false),
        }
    }

    /// Returns the rules of a directory below; `has_file` says whether it holds a file of rules.
    pub(super) fn below(&'a self, name: &[u8], has_file: bool) -> Rules<'a> {
        Self {
            parent: Some(self),
            path: self.path.join(OsStr::from_bytes(name)),
            has_file,
            own: OnceLock::new(),
            is_ignored: OnceLock::new(),
        }
    }

    /// Returns whether the project ignores a file in this directory.
    pub(super) fn ignore_file(&self, name: &[u8]) -> bool {
        self.is_ignored() || self.decide(&self.path.join(OsStr::from_bytes(name)), false)
    }

    fn is_ignored(&self) -> bool {
        *self.is_ignored.get_or_init(|| {
            self.parent.is_some_and(|above| above.is_ignored() || above.decide(&self.path, true))
        })
    }

    /// Asks the nearest rules first; the first that say something decide.
    fn decide(&self, path: &Path, is_dir: bool) -> bool {
        for rules in self.own() {
            match rules.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        self.parent.is_some_and(|parent| parent.decide(path, is_dir))
    }

    fn own(&self) -> &[Gitignore] {
        self.own.get_or_init(|| match (self.parent, self.has_file) {
            (None, _) => root_rules(&self.path),
            (Some(_), true) => read_rules(&self.path, &self.path.join(FILE_NAME)),
            (Some(_), false) => Vec::new(),
        })
    }
}

/// Returns the rules of a root and of the directories above it, up to the repository's own.
fn root_rules(root: &Path) -> Vec<Gitignore> {
    let mut rules = Vec::new();
    let top = root.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
    for dir in root.ancestors() {
        rules.extend(read_rules(dir, &dir.join(FILE_NAME)));
        if top.is_none_or(|top| top == dir) {
            rules.extend(read_rules(dir, &dir.join(".git/info/exclude")));
            break;
        }
    }
    rules
}

fn read_rules(base: &Path, file: &Path) -> Vec<Gitignore> {
    let Some(bytes) = read_small(file) else { return Vec::new() };
    let mut builder = GitignoreBuilder::new(base);
    for line in bytes.split(|byte| *byte == b'\n') {
        // A line that is no pattern ignores nothing, as for git.
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let _ = builder.add_line(None, &line);
    }
    builder.build().ok().into_iter().collect()
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let looked = std::fs::metadata(path).ok()?;
    if !looked.is_file() || looked.len() > RULES_BYTES_MAX {
        return None;
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(RULES_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
