//! `FileAccess`: the only way a tool reads files, and only those its own effect named.
//!
//! A named directory stands for all below it. Real paths are compared, so a symlink leads
//! neither out of what was named nor to what the policy hides; only regular files are opened,
//! so a FIFO or a device never holds a call. Blocking work goes to the runtime's blocking pool
//! here, and nowhere else in `tools/`. Knows no tool and no other policy. Made by the executor.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};
use tokio_util::sync::CancellationToken;

use crate::protocol::{Effect, Pattern, SandboxPolicy};
use crate::text::ansi::visible_line;
use crate::tools::ToolError;

/// Access to exactly the files one call named.
#[derive(Debug, Clone, Default)]
pub struct FileAccess {
    limits: Arc<Limits>,
}

/// What a call may read: paths as they were named, and what stays hidden.
#[derive(Debug, Default)]
struct Limits {
    named: Vec<PathBuf>,
    deny_read: Vec<Pattern>,
    home: PathBuf,
}

/// The files of one call as blocking code sees them.
#[derive(Debug, Clone)]
pub(crate) struct FileView {
    /// Real paths of what the effect named.
    named: Vec<PathBuf>,
    hidden: Gitignore,
    cancel: CancellationToken,
}

impl FileAccess {
    /// Returns access to what the effect names, less what the policy hides.
    pub fn new(effect: &Effect, policy: &SandboxPolicy, home: &Path) -> Self {
        let named = match effect {
            Effect::Read { paths } => paths.clone(),
            Effect::Write { changes } => changes
                .iter()
                .flat_map(|change| std::iter::once(&change.path).chain(&change.move_to))
                .cloned()
                .collect(),
            Effect::None
            | Effect::Run { .. }
            | Effect::Input { .. }
            | Effect::Fetch { .. }
            | Effect::Remote { .. }
            | Effect::Agent { .. } => Vec::new(),
        };
        let deny_read = policy.deny_read.clone();
        Self { limits: Arc::new(Limits { named, deny_read, home: home.to_path_buf() }) }
    }

    /// Reads a whole regular file; one that is larger than `bytes_max` is an error.
    pub(crate) async fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, ToolError> {
        let path = path.to_path_buf();
        self.blocking(move |view| {
            let file = view.open(&path)?;
            let mut bytes = Vec::new();
            file.take(bytes_max.saturating_add(1))
                .read_to_end(&mut bytes)
                .map_err(|error| io_failure(&path, &error))?;
            if bytes.len() as u64 > bytes_max {
                let shown = path.display();
                return Err(ToolError::Failed(format!("{shown} is larger than {bytes_max} bytes")));
            }
            Ok(bytes)
        })
        .await
    }

    /// Runs blocking work on the files; it is told to stop when this future is dropped.
    pub(crate) async fn blocking<T, F>(&self, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(&FileView) -> Result<T, ToolError> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        let _stop_on_drop = cancel.clone().drop_guard();
        let limits = Arc::clone(&self.limits);
        let task = tokio::task::spawn_blocking(move || work(&FileView::new(&limits, cancel)?));
        task.await
            .unwrap_or_else(|_| Err(ToolError::Failed("reading files ended unexpectedly".into())))
    }
}

impl FileView {
    fn new(limits: &Limits, cancel: CancellationToken) -> Result<Self, ToolError> {
        // A path that does not exist cannot be read; the error comes when it is opened.
        let named = limits.named.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let hidden = hidden_paths(&limits.deny_read, &limits.home)?;
        Ok(Self { named, hidden, cancel })
    }

    /// Opens a regular file for reading.
    pub(crate) fn open(&self, path: &Path) -> Result<File, ToolError> {
        let real = self.real_path(path)?;
        self.open_real(&real)
    }

    /// Opens a regular file by a path that holds no symlink, such as one found by walking.
    pub(crate) fn open_real(&self, real: &Path) -> Result<File, ToolError> {
        self.check_real(real, real)?;
        // Looking first keeps us from opening devices, where opening alone can act.
        let before = fs::symlink_metadata(real).map_err(|error| io_failure(real, &error))?;
        check_regular(real, &before)?;
        let file = File::from(open_without_links(real).map_err(|error| io_failure(real, &error))?);
        let after = file.metadata().map_err(|error| io_failure(real, &error))?;
        check_regular(real, &after)?;
        Ok(file)
    }

    /// Returns the real path of a file or directory that the call may read.
    pub(crate) fn real_path(&self, path: &Path) -> Result<PathBuf, ToolError> {
        // The path as written is judged first, so that nobody learns what exists behind it.
        self.check_shown(path, path)?;
        let real = fs::canonicalize(path).map_err(|error| io_failure(path, &error))?;
        self.check_real(&real, path)?;
        Ok(real)
    }

    /// Returns whether the policy hides this path.
    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        // A rule for directories only would not hide a file of that name; ours have no such form.
        path.is_absolute() && self.hidden.matched_path_or_any_parents(path, true).is_ignore()
    }

    /// Fails once the call was stopped.
    pub(crate) fn check_running(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() { Err(ToolError::Interrupted) } else { Ok(()) }
    }

    fn check_shown(&self, path: &Path, shown: &Path) -> Result<(), ToolError> {
        if self.is_hidden(path) {
            return Err(ToolError::Denied(format!("{} is hidden by deny_read", shown.display())));
        }
        Ok(())
    }

    fn check_real(&self, real: &Path, shown: &Path) -> Result<(), ToolError> {
        self.check_shown(real, shown)?;
        if is_process_file(real) {
            // Our own environment and memory, with the user's keys, are files down there.
            return Err(ToolError::Denied(format!("{} belongs to a process", shown.display())));
        }
        if self.named.iter().any(|named| real.starts_with(named)) {
            return Ok(());
        }
        Err(ToolError::Denied(format!("{} leads outside what was asked for", shown.display())))
    }
}

/// Resolves a path a model wrote against the session's directory, by its text alone.
pub(crate) fn resolve_path(cwd: &Path, text: &str) -> Result<PathBuf, ToolError> {
    if text.is_empty() {
        return Err(ToolError::InvalidArguments("path is empty".to_owned()));
    }
    if text.contains('\0') {
        return Err(ToolError::InvalidArguments("path holds a NUL byte".to_owned()));
    }
    let mut path = PathBuf::new();
    for part in cwd.join(text).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => path.push(part),
        }
    }
    Ok(path)
}

/// Returns a path as the model should read it: relative where it lies below `base`, on one
/// line, whatever the name holds.
pub(crate) fn shown_path(path: &Path, base: &Path) -> String {
    let shown = |path: &Path| visible_line(&path.to_string_lossy()).into_owned();
    match path.strip_prefix(base) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => shown(rest),
        Err(_) => shown(path),
    }
}

/// Says in one line why a path could not be read.
pub(crate) fn io_failure(path: &Path, error: &io::Error) -> ToolError {
    let shown = path.to_string_lossy();
    let shown = visible_line(&shown);
    ToolError::Failed(match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist"),
        io::ErrorKind::PermissionDenied => format!("{shown} cannot be read: permission denied"),
        io::ErrorKind::NotADirectory => format!("{shown} is not a directory"),
        _ => format!("{shown} cannot be read: {error}"),
    })
}

/// Builds the matcher of hidden paths. A pattern without a slash hides that name everywhere.
fn hidden_paths(patterns: &[Pattern], home: &Path) -> Result<Gitignore, ToolError> {
    let mut builder = GitignoreBuilder::new("/");
    for Pattern(text) in patterns {
        let glob = absolute_glob(text, home);
        let mut add = |line: &str| {
            // A pattern we cannot read hides nothing, so reading stops rather than leaks.
            builder.add_line(None, line).map(|_| ()).map_err(|error| {
                ToolError::Failed(format!("deny_read holds a pattern that is no glob: {error}"))
            })
        };
        add(&glob)?;
        // A path may itself be a symlink: then what it points to is hidden as well.
        let literal = expand_home(text, home);
        if let Ok(real) = fs::canonicalize(&literal)
            && literal.is_absolute()
            && real != literal
        {
            add(&escape_glob(&real.to_string_lossy()))?;
        }
    }
    builder.build().map_err(|error| {
        ToolError::Failed(format!("deny_read holds a pattern that is no glob: {error}"))
    })
}

fn absolute_glob(text: &str, home: &Path) -> String {
    // A trailing slash would hide directories only.
    let text = if text.len() > 1 { text.trim_end_matches('/') } else { text };
    let glob = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            format!("{}{rest}", escape_glob(&home.to_string_lossy()))
        }
        _ => text.to_owned(),
    };
    let anchored = glob.starts_with('/') || glob.starts_with("**/") || !glob.contains('/');
    let glob = if anchored { glob } else { format!("**/{glob}") };
    // These two characters would turn the line into an exception or a comment.
    if glob.starts_with(['!', '#']) { format!("\\{glob}") } else { glob }
}

fn expand_home(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(text),
    }
}

fn escape_glob(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for letter in text.chars() {
        if "*?[]{}\\".contains(letter) {
            glob.push('\\');
        }
        glob.push(letter);
    }
    glob
}

fn is_process_file(real: &Path) -> bool {
    let mut parts = real.strip_prefix("/proc").into_iter().flat_map(Path::components);
    parts.next().is_some_and(|part| {
        let name = part.as_os_str().as_encoded_bytes();
        name == b"self" || name == b"thread-self" || name.iter().all(u8::is_ascii_digit)
    })
}

fn check_regular(path: &Path, metadata: &fs::Metadata) -> Result<(), ToolError> {
    let shown = path.display();
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(ToolError::Failed(format!("{shown} is a directory; list_dir shows what is in it")))
    } else {
        Err(ToolError::Failed(format!("{shown} is not a regular file")))
    }
}

/// Reads a regular file by its real path, within a bound; returns how it looked before.
pub(crate) fn read_real(real: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, fs::Metadata)> {
    let file = File::from(open_without_links(real)?);
    let found = file.metadata()?;
    if let Some(kind) = describe_other(found.file_type()) {
        return Err(io::Error::other(format!("it is {kind} now")));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len().min(bytes_max)).unwrap_or(0));
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((bytes, found))
}

/// Says what something is that is no regular file.
pub(crate) fn describe_other(kind: fs::FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_symlink() {
        Some("a symbolic link")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// Opens a path whose every part must be what it says: a link swapped in meanwhile is refused.
fn open_without_links(real: &Path) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, ResolveFlags, openat2};
        use rustix::io::Errno;
        match openat2(CWD, real, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // Old kernels and some containers lack this call; the plain one follows.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return Ok(other?),
        }
    }
    Ok(rustix::fs::open(real, flags, Mode::empty())?)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
