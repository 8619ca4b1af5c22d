//! `approvals.json`: what the user allowed for a project or always, until it is revoked.
//!
//! Read at each question and written whole, so what one process grants or revokes another sees
//! at its next question; a lock file keeps two writers apart. A file that is damaged, newer or
//! open to others allows nothing and is an error. Called by `agent/approvals.rs` and
//! `gimlet approvals`.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::Grant;
use crate::store::atomic::{create_private_folders, write_private};

/// The version of the file.
const VERSION: u32 = 1;
/// Each is a person's answer; who has more has not looked at them in years.
const GRANTS_MAX: usize = 1_000;
/// One grant. A longer script is asked about each time.
const GRANT_BYTES_MAX: usize = 32 * 1024;
/// The file. Larger than what we would write is not ours.
const FILE_BYTES_MAX: u64 = 40 << 20;

/// How often the lock is tried and how long between: whoever holds it writes one small file, and
/// a session waits for it. Tests share their machine with others.
const LOCK_TRIES_MAX: u32 = if cfg!(test) { 3_000 } else { 50 };
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why approvals cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApprovalsError {
    /// The file or its directory cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what we wrote.
    #[error("{} is damaged, so it allows nothing: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Others could have written it.
    #[error("{} can be changed by others, so it allows nothing", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the lock and does not let go.
    #[error("{} is held by another process", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// It holds as many as it may.
    #[error("{} holds {GRANTS_MAX} approvals already", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// This one is too long to keep.
    #[error("what was allowed is too long to remember")]
    TooLong,
}

impl ApprovalsError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::File { .. } => Some("check its permissions and the free space".to_owned()),
            Self::Damaged { .. } => Some(
                "mend it, or run `gimlet approvals clear` to set it aside and begin anew"
                    .to_owned(),
            ),
            Self::Exposed { path } => {
                Some(format!("look at what is in it, then: chmod 600 {}", path.display()))
            }
            Self::Full { .. } => {
                Some("`gimlet approvals list` shows them, `revoke ID` takes one back".to_owned())
            }
            Self::Busy { .. } => Some("end the process that holds it, then try again".to_owned()),
            Self::TooLong => None,
        }
    }
}

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalsFile {
    version: u32,
    grants: Vec<Grant>,
}

/// What a clearing did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cleared {
    /// This many grants are gone.
    Grants(usize),
    /// The file was damaged and lies here now.
    SetAside(PathBuf),
}

/// Returns all lasting grants, oldest first.
pub(crate) fn load(state: &Path) -> Result<Vec<Grant>, ApprovalsError> {
    let path = approvals_path(state);
    let damaged = |message: String| ApprovalsError::Damaged { path: path.clone(), message };
    let Some(bytes) = read(&path)? else { return Ok(Vec::new()) };
    // The version first: what a later one writes need not be damaged to be foreign.
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if version != VERSION {
        return Err(damaged(format!("its version is {version}, not {VERSION}")));
    }
    let file: ApprovalsFile =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if file.grants.len() > GRANTS_MAX {
        return Err(damaged(format!("it holds more than {GRANTS_MAX} approvals")));
    }
    Ok(file.grants)
}

/// Keeps a grant; one with the same id is there already.
pub(crate) fn add(state: &Path, grant: Grant) -> Result<(), ApprovalsError> {
    let bytes = serde_json::to_vec(&grant).map_err(|error| write_error(state, error.into()))?;
    if bytes.len() > GRANT_BYTES_MAX {
        return Err(ApprovalsError::TooLong);
    }
    let _lock = lock(state)?;
    let mut grants = load(state)?;
    if grants.iter().any(|known| known.id == grant.id) {
        return Ok(());
    }
    if grants.len() >= GRANTS_MAX {
        return Err(ApprovalsError::Full { path: approvals_path(state) });
    }
    grants.push(grant);
    save(state, grants)
}

/// Takes back the grant with this id, and returns it if there was one.
pub(crate) fn revoke(state: &Path, id: &str) -> Result<Vec<Grant>, ApprovalsError> {
    let _lock = lock(state)?;
    let (revoked, kept): (Vec<_>, Vec<_>) =
        load(state)?.into_iter().partition(|grant| grant.id == id);
    if !revoked.is_empty() {
        save(state, kept)?;
    }
    Ok(revoked)
}

/// Takes all back. A file that cannot be read is set aside, so that nothing is lost.
pub(crate) fn clear(state: &Path) -> Result<Cleared, ApprovalsError> {
    let _lock = lock(state)?;
    match load(state) {
        Ok(grants) => {
            if !grants.is_empty() {
                save(state, Vec::new())?;
            }
            Ok(Cleared::Grants(grants.len()))
        }
        Err(ApprovalsError::Damaged { path, .. } | ApprovalsError::Exposed { path }) => {
            let aside = path.with_extension("json.damaged");
            std::fs::rename(&path, &aside).map_err(|source| ApprovalsError::File {
                action: "set aside",
                path,
                source,
            })?;
            Ok(Cleared::SetAside(aside))
        }
        Err(error) => Err(error),
    }
}

/// Returns where the grants are.
pub(crate) fn approvals_path(state: &Path) -> PathBuf {
    state.join("approvals.json")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ApprovalsError> {
    let failed = |source| ApprovalsError::File { action: "read", path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // A pipe put in its place would block for ever.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        let message = "it is not a regular file of a sensible size".to_owned();
        return Err(ApprovalsError::Damaged { path: path.to_owned(), message });
    }
    if is_exposed(&metadata) {
        return Err(ApprovalsError::Exposed { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Returns whether someone else could have written the file.
#[cfg(unix)]
fn is_exposed(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let us = rustix::process::geteuid().as_raw();
    metadata.mode() & 0o022 != 0 || (metadata.uid() != us && metadata.uid() != 0)
}

#[cfg(not(unix))]
fn is_exposed(_metadata: &std::fs::Metadata) -> bool {
    false
}

fn save(state: &Path, grants: Vec<Grant>) -> Result<(), ApprovalsError> {
    let file = ApprovalsFile { version: VERSION, grants };
    let write = || {
        let mut bytes = serde_json::to_vec_pretty(&file)?;
        bytes.push(b'\n');
        write_private(&approvals_path(state), &bytes)
    };
    write().map_err(|error: io::Error| write_error(state, error))
}

/// Waits until no other process writes. The lock ends with the file handle.
fn lock(state: &Path) -> Result<File, ApprovalsError> {
    lock_within(state, LOCK_TRIES_MAX)
}

fn lock_within(state: &Path, tries_max: u32) -> Result<File, ApprovalsError> {
    let path = state.join("approvals.lock");
    let open = || {
        create_private_folders(state)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            // A pipe put in its place would block for ever, a link make a file elsewhere.
            let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
            options.mode(0o600).custom_flags(flags.bits().cast_signed());
        }
        let file = options.open(&path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file")),
        }
    };
    let failed = |source| ApprovalsError::File { action: "lock", path: path.clone(), source };
    let file = open().map_err(failed)?;
    for _ in 0..tries_max {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    Err(ApprovalsError::Busy { path })
}

fn write_error(state: &Path, source: io::Error) -> ApprovalsError {
    ApprovalsError::File { action: "write", path: approvals_path(state), source }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{AnswerScope, GrantKey, SessionId};

    fn grant(number: usize) -> Grant {
        Grant {
            id: format!("{number:08x}"),
            scope: AnswerScope::Always,
            project: None,
            key: GrantKey::Host { host: format!("h{number}.test:443") },
            at: "2026-01-01T00:00:00Z".to_owned(),
            session: SessionId(uuid::Uuid::nil()),
            rule: None,
        }
    }

    #[test]
    fn grants_are_kept_once_privately_and_revoked() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("a/state");
        assert_eq!(load(&state).unwrap(), []);
        add(&state, grant(1)).unwrap();
        add(&state, grant(2)).unwrap();
        add(&state, grant(1)).unwrap();
        assert_eq!(load(&state).unwrap(), [grant(1), grant(2)]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&approvals_path(&state)), 0o600);
        }
        assert_eq!(revoke(&state, "00000001").unwrap(), [grant(1)]);
        assert_eq!(revoke(&state, "0000").unwrap(), []);
        assert_eq!(clear(&state).unwrap(), Cleared::Grants(1));
        assert_eq!(load(&state).unwrap(), []);
    }

    #[test]
    fn a_file_we_did_not_write_allows_nothing_and_is_not_lost() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path();
        let path = approvals_path(state);
        let whole = serde_json::json!({"version": 1, "grants": [grant(1)]}).to_string();
        let cases = [
            "",
            "[]",
            "{\"version\":1",
            "{\"version\":2,\"grants\":[]}",
            "{\"grants\":[]}",
            &whole.replace("\"host\":", "\"hosts\":"),
            &whole.replace("\"always\"", "\"for_ever\""),
            &whole.replacen('{', "{\"extra\":1,", 1),
        ];
        for text in cases {
            write_private(&path, text.as_bytes()).unwrap();
            let error = load(state).unwrap_err();
            assert!(matches!(error, ApprovalsError::Damaged { .. }), "{text}: {error}");
            assert!(error.hint().unwrap().contains("clear"));
            assert!(matches!(add(state, grant(2)), Err(ApprovalsError::Damaged { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let Cleared::SetAside(aside) = clear(state).unwrap() else { panic!("not set aside") };
        assert_eq!(std::fs::read_to_string(aside).unwrap(), cases[cases.len() - 1]);
        assert_eq!(load(state).unwrap(), []);
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_others_can_write_allows_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let state = tempfile::tempdir().unwrap();
        add(state.path(), grant(1)).unwrap();
        let open = std::fs::Permissions::from_mode(0o620);
        std::fs::set_permissions(approvals_path(state.path()), open).unwrap();
        assert!(matches!(load(state.path()), Err(ApprovalsError::Exposed { .. })));
    }

    #[test]
    fn who_holds_the_lock_is_not_waited_for_for_ever() {
        let state = tempfile::tempdir().unwrap();
        let held = lock(state.path()).unwrap();
        let error = lock_within(state.path(), 2).unwrap_err();
        assert!(matches!(error, ApprovalsError::Busy { .. }), "{error}");
        drop(held);
        assert!(lock_within(state.path(), 1).is_ok());
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_that_is_no_file_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("approvals.lock");
        let refused = || {
            let error = add(state.path(), grant(1)).unwrap_err();
            assert!(matches!(error, ApprovalsError::File { action: "lock", .. }), "{error}");
        };
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        refused();
        // Also one that somebody reads.
        let reader = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let reader = rustix::fs::open(&path, reader, mode).unwrap();
        refused();
        drop(reader);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        refused();
    }

    #[test]
    fn there_is_an_end_to_how_many_and_how_long() {
        let state = tempfile::tempdir().unwrap();
        save(state.path(), (0..GRANTS_MAX).map(grant).collect()).unwrap();
        let error = add(state.path(), grant(GRANTS_MAX)).unwrap_err();
        assert!(matches!(error, ApprovalsError::Full { .. }), "{error}");
        add(state.path(), grant(1)).unwrap();
        let host = "x".repeat(GRANT_BYTES_MAX);
        let long = Grant { key: GrantKey::Host { host }, ..grant(5_000) };
        assert!(matches!(add(state.path(), long), Err(ApprovalsError::TooLong)));
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || {
                    for number in 0..10 {
                        add(state, grant(writer * 100 + number)).unwrap();
                    }
                });
            }
        });
        assert_eq!(load(state).unwrap().len(), 40);
    }
}
