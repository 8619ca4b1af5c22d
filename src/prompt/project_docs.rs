//! AGENTS.md: the instruction files of the user and of the repository.
//!
//! One file per directory, from the repository's root down to the session's directory. The
//! repository is not trusted: only regular files that really lie inside it are read, their
//! size is bounded, and characters nobody sees are marked. Read once per session. Called by
//! `agent/session.rs`.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::config::ProjectDocs;
use crate::prompt::regular_file::{Beginning, read_beginning};
use crate::text::ansi::visible;

/// Names tried in each directory before the configured ones.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The user's own file counts apart from the project's; more than this is a mistake.
const USER_DOC_BYTES_MAX: u64 = 32 * 1024;

/// Directories between root and cwd; a deeper nesting is not a project.
const DIRECTORIES_MAX: usize = 64;

/// The instruction files of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InstructionFiles {
    /// What was read, in the order the model reads it.
    pub(crate) docs: Vec<InstructionFile>,
    /// What was cut, marked or refused, one line each, for the user.
    pub(crate) warnings: Vec<String>,
}

/// One instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstructionFile {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// What it says, as the model reads it.
    pub(crate) text: String,
}

/// Finds and reads the instruction files for a session in `cwd`.
pub(crate) fn load_project_docs(
    cwd: &Path,
    config_directory: &Path,
    settings: &ProjectDocs,
) -> InstructionFiles {
    let mut files = InstructionFiles::default();
    let mut user_bytes_left = USER_DOC_BYTES_MAX;
    // The user's own file may be a link into their dotfiles, wherever those are.
    files.load_first(config_directory, &NAMES, None, &mut user_bytes_left);

    let mut bytes_left = settings.bytes_max;
    if bytes_left == 0 {
        return files;
    }
    let root = find_root(cwd, &settings.root_markers);
    let Ok(real_root) = root.canonicalize() else { return files };
    let names: Vec<&str> =
        NAMES.into_iter().chain(settings.fallback_names.iter().map(String::as_str)).collect();
    for directory in directories_between(root, cwd) {
        files.load_first(directory, &names, Some(&real_root), &mut bytes_left);
    }
    files
}

impl InstructionFiles {
    /// Returns where the files lie.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.docs.iter().map(|doc| doc.path.clone()).collect()
    }

    /// Reads the first of `names` that is there. With `inside`, its real path must be there.
    fn load_first(
        &mut self,
        directory: &Path,
        names: &[&str],
        inside: Option<&Path>,
        bytes_left: &mut u64,
    ) {
        for name in names {
            // A configured name is a file's name, not a way out of the directory.
            if Path::new(name).components().ne([Component::Normal(name.as_ref())]) {
                continue;
            }
            let path = directory.join(name);
            match read_inside(&path, inside, *bytes_left) {
                Ok(beginning) => return self.add(path, &beginning, bytes_left),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.warnings.push(format!("{} was not read: {error}", path.display()));
                }
            }
        }
    }

    fn add(&mut self, path: PathBuf, beginning: &Beginning, bytes_left: &mut u64) {
        let read_bytes = beginning.bytes.len() as u64;
        *bytes_left = bytes_left.saturating_sub(read_bytes);
        let plain = plain_text(&beginning.bytes);
        let shown = visible(&plain);
        if shown != plain {
            self.warnings.push(format!(
                "{} holds control or invisible characters; the model sees them marked",
                path.display()
            ));
        }
        let mut text = shown.trim().to_owned();
        if beginning.size_bytes > read_bytes {
            let cut = beginning.size_bytes - read_bytes;
            let total = beginning.size_bytes;
            self.warnings.push(format!(
                "{} is cut: the last {cut} of its {total} bytes are over the limit",
                path.display()
            ));
            text.push_str(&format!("\n[{cut} more bytes are not shown]"));
        }
        if !text.is_empty() {
            self.docs.push(InstructionFile { path, text });
        }
    }
}

/// Returns the nearest directory upwards that holds a marker; `cwd` itself without one.
fn find_root<'a>(cwd: &'a Path, markers: &[String]) -> &'a Path {
    let has_marker =
        |dir: &&Path| markers.iter().any(|marker| dir.join(marker).symlink_metadata().is_ok());
    cwd.ancestors().find(has_marker).unwrap_or(cwd)
}

/// Returns the directories from `root` down to `cwd`, the innermost ones when there are
/// absurdly many.
fn directories_between<'a>(root: &Path, cwd: &'a Path) -> Vec<&'a Path> {
    let mut directories: Vec<&Path> = cwd
        .ancestors()
        .take_while(|directory| directory.starts_with(root))
        .take(DIRECTORIES_MAX)
        .collect();
    directories.reverse();
    directories
}

fn read_inside(path: &Path, inside: Option<&Path>, bytes_max: u64) -> io::Result<Beginning> {
    // `canonicalize` says "not found" for a link to nowhere too: then there is nothing to read.
    let real = path.canonicalize()?;
    if let Some(root) = inside {
        let below = real
            .strip_prefix(root)
            .map_err(|_| io::Error::other("it is a link to a file outside the repository"))?;
        // `.git/config` may hold a token in a URL.
        let is_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
        if below.components().any(is_git) {
            return Err(io::Error::other("it is a link into .git"));
        }
    }
    read_beginning(&real, bytes_max)
}

/// Returns the text without byte order mark, half a last character, and carriage returns at
/// line ends.
fn plain_text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let whole = match std::str::from_utf8(bytes) {
        // Nothing is wrong but that the limit fell into a character.
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()),
        Ok(_) | Err(_) => None,
    };
    String::from_utf8_lossy(whole.unwrap_or(bytes)).replace("\r\n", "\n")
}
