//! The session file: durable events as JSON lines, each naming the hash of the line before.
//!
//! Knows nothing of what events mean. One `write` per record, at once; `fdatasync` runs on one
//! thread of its own, so that who need not wait does not. A file has one writer: the lock is
//! on the file itself and dies with the process. The path follows from the id, whose first
//! bits are a time, so finding a session never needs an index. Called by `agent/bus.rs`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::Seq;
use crate::protocol::SessionId;
use crate::store::atomic::{PRIVATE_MODE, create_private_folders};
use crate::text::hex::encode_hex;

/// How often a lock is tried, and the pause between: a program that is just being started holds
/// what this one had open until it begins.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// A line of our own is never longer; what is longer was not written by us and is skipped.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Why a session file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NotFound(String),
    /// Not one line of its file can be read.
    #[error("nothing can be read in {}", .0.display())]
    Empty(PathBuf),
    /// Another process has it open.
    #[error("session {0} is open in another process")]
    Locked(SessionId),
    /// The file system refused.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

/// The writing end of a session file. Holds its lock.
#[derive(Debug)]
pub(crate) struct SessionFile {
    path: PathBuf,
    file: Arc<File>,
    seq: u64,
    prev_hash: String,
    unsynced: bool,
    syncer: Option<mpsc::Sender<SyncJob>>,
    /// Whether a sync failed that was done here, for want of a thread.
    has_failed: bool,
}

/// A session file as read, for resuming and listing.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The events this version knows, in order.
    pub(crate) events: Vec<Event>,
    /// Lines that could not be read; they stay in the file.
    pub(crate) bad_lines: u64,
    /// Lines of kinds that a later version writes; they stay in the file.
    pub(crate) unknown_lines: u64,
    /// Lines since the last repair that do not follow from the line before them: something
    /// else changed the file.
    pub(crate) broken_links: u64,
    /// Bytes of an unfinished last line, set aside.
    pub(crate) torn_bytes: u64,
}

/// How long a sync that nobody waits for may wait for company. A server takes longer to answer,
/// so it still overlaps with the request; one that is waited for comes at once, and takes the
/// others with it.
const GROUP_DELAY: Duration = Duration::from_millis(25);

/// Told whether all records so far are on disk.
pub(crate) type Synced = oneshot::Sender<bool>;

enum SyncJob {
    /// The name of a new file.
    Directory(PathBuf),
    /// All records so far.
    Records(Arc<File>, Option<Synced>),
}

impl SessionFile {
    /// Creates the file of a new session. Its directories are made with mode 0700.
    pub(crate) fn create(state: &Path, id: SessionId) -> Result<Self, SessionFileError> {
        let path = path_of(state, id);
        let directory = path.parent().unwrap_or(state);
        create_private_folders(directory).map_err(io("create", directory))?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        set_private_mode(&mut options);
        let file = options.open(&path).map_err(io("create", &path))?;
        lock(&file, id)?;
        let job = SyncJob::Directory(directory.to_path_buf());
        let mut created = Self::new(path, file, 0, String::new());
        created.send(job);
        Ok(created)
    }

    /// Opens an earlier session's file for writing and reads it. A torn last line is moved to
    /// a `.torn` file beside it; the caller then appends `EventMsg::Repaired`.
    pub(crate) fn open(state: &Path, id: SessionId) -> Result<(Self, Loaded), SessionFileError> {
        let path = path_of(state, id);
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SessionFileError::NotFound(id.to_string()));
            }
            Err(error) => return Err(io("open", &path)(error)),
        };
        lock(&file, id)?;
        let torn_bytes = set_torn_tail_aside(&file, &path).map_err(io("repair", &path))?;
        let mut scan = scan(&file).map_err(io("read", &path))?;
        if scan.loaded.events.is_empty() {
            return Err(SessionFileError::Empty(path));
        }
        scan.loaded.torn_bytes = torn_bytes;
        Ok((Self::new(path, file, scan.last_seq, scan.last_hash), scan.loaded))
    }

    fn new(path: PathBuf, file: File, seq: u64, prev_hash: String) -> Self {
        Self {
            path,
            file: Arc::new(file),
            seq,
            prev_hash,
            unsynced: false,
            syncer: None,
            has_failed: false,
        }
    }

    /// Returns where the file is.
    #[cfg(test)]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the place and hash that the next durable event carries.
    pub(crate) fn next(&self) -> (Seq, &str) {
        (Seq(self.seq.saturating_add(1)), &self.prev_hash)
    }

    /// Writes a durable event at once. The caller has put `next` into it.
    pub(crate) fn append(&mut self, event: &Event) -> Result<(), SessionFileError> {
        let mut line = serde_json::to_vec(event)
            .map_err(|error| io("encode for", &self.path)(std::io::Error::other(error)))?;
        let hash = line_hash(&line);
        line.push(b'\n');
        (&*self.file).write_all(&line).map_err(io("write to", &self.path))?;
        self.seq = self.seq.saturating_add(1);
        self.prev_hash = hash;
        self.unsynced = true;
        Ok(())
    }

    /// Begins to bring all records to disk, and tells `done` when they are there.
    pub(crate) fn sync(&mut self, done: Option<Synced>) {
        // With nothing new there is nothing to begin; who waits still waits for what is under way.
        if done.is_some() || std::mem::take(&mut self.unsynced) {
            self.unsynced = false;
            self.send(SyncJob::Records(Arc::clone(&self.file), done));
        }
    }

    /// Brings all records to disk before it returns; for callers without a runtime.
    pub(crate) fn sync_now(&self) -> Result<(), SessionFileError> {
        self.file.sync_data().map_err(io("sync", &self.path))
    }

    fn send(&mut self, job: SyncJob) {
        let syncer = self.syncer.get_or_insert_with(spawn_syncer);
        if let Err(mpsc::SendError(job)) = syncer.send(job) {
            // The thread could not be made: the caller does the work, nothing is skipped.
            Group::default().take(job).sync(&mut self.has_failed);
        }
    }
}

/// Returns where a session's file is, by its id alone.
pub(crate) fn path_of(state: &Path, id: SessionId) -> PathBuf {
    let seconds = id.0.get_timestamp().map_or(0, |time| time.to_unix().0);
    let day = i64::try_from(seconds).ok().and_then(|s| DateTime::<Utc>::from_timestamp(s, 0));
    let day = day.unwrap_or_default().format("%Y/%m/%d").to_string();
    state.join("sessions").join(day).join(format!("{id}.jsonl"))
}

/// Reads a session without taking its lock or mending anything: it may be open elsewhere.
pub(crate) fn read(state: &Path, id: SessionId) -> Result<Loaded, SessionFileError> {
    let path = path_of(state, id);
    let file = File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SessionFileError::NotFound(id.to_string()),
        _ => io("open", &path)(error),
    })?;
    Ok(scan(&file).map_err(io("read", &path))?.loaded)
}

/// Finds the newest session, of this directory or of any.
pub(crate) fn find_last(state: &Path, cwd: Option<&Path>) -> Option<SessionId> {
    find_newest(state, cwd, Some)
}

/// Asks the sessions of a directory, or of any, newest first, until one gives an answer.
pub(crate) fn find_newest<T>(
    state: &Path,
    cwd: Option<&Path>,
    mut ask: impl FnMut(SessionId) -> Option<T>,
) -> Option<T> {
    let root = state.join("sessions");
    for year in sorted_descending(&root) {
        for month in sorted_descending(&year) {
            for day in sorted_descending(&month) {
                let found = sorted_descending(&day).into_iter().find_map(|path| {
                    let id = SessionId::parse(path.file_name()?.to_str()?.strip_suffix(".jsonl")?)?;
                    let matches = cwd.is_none_or(|cwd| first_cwd(&path).as_deref() == Some(cwd));
                    matches.then(|| ask(id)).flatten()
                });
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

/// Returns the files of all sessions, newest first.
pub(crate) fn find_all(state: &Path) -> Vec<PathBuf> {
    let below =
        |paths: Vec<PathBuf>| paths.iter().flat_map(|path| sorted_descending(path)).collect();
    let days: Vec<PathBuf> = below(below(sorted_descending(&state.join("sessions"))));
    let files = days.iter().flat_map(|day| sorted_descending(day));
    files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
}

fn sorted_descending(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

/// Reads the directory out of a file's first line.
fn first_cwd(path: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let reader = BufReader::new(File::open(path).ok()?);
    reader.take(1 << 20).read_until(b'\n', &mut line).ok()?;
    match serde_json::from_slice::<Event>(&line).ok()?.msg {
        EventMsg::SessionStarted { cwd, .. } => Some(cwd),
        _ => None,
    }
}

struct Scan {
    loaded: Loaded,
    last_seq: u64,
    last_hash: String,
}

fn scan(mut file: &File) -> std::io::Result<Scan> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut loaded = Loaded::default();
    let (mut last_seq, mut last_hash) = (0, String::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let before = std::mem::replace(&mut last_hash, line_hash(&line));
        match serde_json::from_slice::<Event>(&line) {
            Ok(event) => {
                if let EventMsg::Repaired { .. } = event.msg {
                    loaded.broken_links = 0;
                } else if event.prev_hash != before {
                    loaded.broken_links += 1;
                }
                last_seq = last_seq.max(event.seq.0);
                loaded.events.push(event);
            }
            Err(_) => match serde_json::from_slice::<Unknown>(&line) {
                Ok(unknown) => {
                    last_seq = last_seq.max(unknown.seq);
                    loaded.unknown_lines += 1;
                }
                Err(_) => loaded.bad_lines += 1,
            },
        }
    }
    Ok(Scan { loaded, last_seq, last_hash })
}

/// The frame of an event whose kind this version does not know.
#[derive(serde::Deserialize)]
struct Unknown {
    seq: u64,
    #[serde(rename = "msg")]
    _msg: serde_json::Map<String, serde_json::Value>,
}

/// Moves the bytes after the last line end to a `.torn` file, and returns how many.
fn set_torn_tail_aside(mut file: &File, path: &Path) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    let mut end = length;
    let mut block = vec![0; 1 << 16];
    let whole = loop {
        if end == 0 {
            break 0;
        }
        let start = end.saturating_sub(block.len() as u64);
        let size = usize::try_from(end - start).unwrap_or(block.len());
        let Some(part) = block.get_mut(..size) else { break end };
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            break start + at as u64 + 1;
        }
        end = start;
    };
    if whole == length {
        return Ok(0);
    }
    file.seek(SeekFrom::Start(whole))?;
    let mut aside = OpenOptions::new();
    aside.append(true).create(true);
    set_private_mode(&mut aside);
    let mut aside = aside.open(path.with_extension("jsonl.torn"))?;
    std::io::copy(&mut &*file, &mut aside)?;
    aside.write_all(b"\n")?;
    aside.sync_all()?;
    file.set_len(whole)?;
    Ok(length - whole)
}

fn line_hash(line: &[u8]) -> String {
    encode_hex(&Sha256::digest(line))
}

fn lock(file: &File, id: SessionId) -> Result<(), SessionFileError> {
    for _ in 1..LOCK_TRIES {
        match file.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            // A file system without locks (some network mounts) is no reason not to work.
            Ok(()) | Err(std::fs::TryLockError::Error(_)) => return Ok(()),
        }
    }
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Err(SessionFileError::Locked(id)),
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => Ok(()),
    }
}

fn io<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(std::io::Error) -> SessionFileError + use<'a> {
    move |error| SessionFileError::Io { action, path: path.to_path_buf(), error }
}

fn set_private_mode(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, PRIVATE_MODE);
    #[cfg(not(unix))]
    let _ = options;
}

fn spawn_syncer() -> mpsc::Sender<SyncJob> {
    let (tx, rx) = mpsc::channel::<SyncJob>();
    // When no thread can be made, the receiver is dropped and `send` does the work itself.
    let thread = std::thread::Builder::new().name("session-sync".to_owned()).stack_size(64 << 10);
    let _ = thread.spawn(move || {
        // The kernel reports a failure to write back once. Nobody may be waiting just then, so it
        // is remembered: a record that was lost once is never said to be on disk.
        let mut has_failed = false;
        while let Ok(job) = rx.recv() {
            let mut group = Group::default().take(job);
            let deadline = Instant::now() + GROUP_DELAY;
            while group.may_wait() {
                let left = deadline.saturating_duration_since(Instant::now());
                match rx.recv_timeout(left) {
                    Ok(job) => group = group.take(job),
                    Err(_) => break,
                }
            }
            while let Ok(job) = rx.try_recv() {
                group = group.take(job);
            }
            group.sync(&mut has_failed);
        }
    });
    tx
}

/// Jobs that one `fdatasync` serves.
#[derive(Default)]
struct Group {
    file: Option<Arc<File>>,
    waiting: Vec<Synced>,
}

impl Group {
    fn take(mut self, job: SyncJob) -> Self {
        match job {
            SyncJob::Directory(directory) => {
                if let Ok(directory) = File::open(directory) {
                    // Without it the file's name may be lost with the power, its content not.
                    let _ = directory.sync_all();
                }
            }
            SyncJob::Records(file, done) => {
                self.file = Some(file);
                self.waiting.extend(done);
            }
        }
        self
    }

    fn may_wait(&self) -> bool {
        self.file.is_some() && self.waiting.is_empty()
    }

    fn sync(self, has_failed: &mut bool) {
        *has_failed |= self.file.is_some_and(|file| file.sync_data().is_err());
        for done in self.waiting {
            let _ = done.send(!*has_failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{EVENT_VERSION, TurnId, WarningKind};

    fn id() -> SessionId {
        SessionId(uuid::Uuid::now_v7())
    }

    fn append(file: &mut SessionFile, session: SessionId, message: &str) {
        let (seq, prev_hash) = file.next();
        let event = Event {
            v: EVENT_VERSION,
            seq,
            prev_hash: prev_hash.to_owned(),
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            session,
            turn: TurnId(0),
            parent: None,
            response_id: None,
            call_id: None,
            msg: EventMsg::Warning {
                kind: WarningKind::Other,
                message: message.to_owned(),
                hint: None,
            },
        };
        file.append(&event).unwrap();
    }

    #[test]
    fn what_was_written_is_read_and_chained() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        append(&mut file, session, "one");
        append(&mut file, session, "two");
        let text = std::fs::read(file.path()).unwrap();
        let first = text.split(|byte| *byte == b'\n').next().unwrap();
        drop(file);
        let (file, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!(loaded.events.len(), 2);
        assert_eq!(loaded.events[1].prev_hash, line_hash(first));
        assert_eq!(file.next().0, Seq(3));
    }

    #[test]
    fn a_torn_tail_is_set_aside_and_the_rest_goes_on() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        append(&mut file, session, "one");
        let path = file.path().to_path_buf();
        drop(file);
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        raw.write_all(b"{\"v\":1,\"seq\":2,\"prev").unwrap();
        let (mut file, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!((loaded.events.len(), loaded.torn_bytes), (1, 20));
        append(&mut file, session, "two");
        drop(file);
        let (_, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!((loaded.events.len(), loaded.torn_bytes), (2, 0));
        let torn = std::fs::read(path.with_extension("jsonl.torn")).unwrap();
        assert_eq!(torn, b"{\"v\":1,\"seq\":2,\"prev\n");
    }

    #[test]
    fn bad_and_unknown_lines_are_passed_over() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        append(&mut file, session, "one");
        let path = file.path().to_path_buf();
        drop(file);
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        raw.write_all(b"garbage\n{\"v\":9,\"seq\":7,\"msg\":{\"type\":\"hologram\"}}\n").unwrap();
        let (file, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!((loaded.events.len(), loaded.bad_lines, loaded.unknown_lines), (1, 1, 1));
        assert_eq!(file.next().0, Seq(8));
    }

    #[test]
    fn the_last_number_there_is_stops_nothing() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        append(&mut file, session, "one");
        let path = file.path().to_path_buf();
        drop(file);
        let mut raw = OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(raw, "{{\"v\":9,\"seq\":{},\"msg\":{{\"type\":\"hologram\"}}}}", u64::MAX)
            .unwrap();
        let (mut file, _) = SessionFile::open(state.path(), session).unwrap();
        append(&mut file, session, "two");
        drop(file);
        let (_, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!((loaded.events.len(), loaded.unknown_lines), (2, 1));
    }

    #[test]
    fn a_changed_line_is_noticed_until_it_is_said() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        for message in ["one", "two", "three"] {
            append(&mut file, session, message);
        }
        let path = file.path().to_path_buf();
        drop(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!(loaded.broken_links, 0);
        std::fs::write(&path, text.replace("two", "2.0")).unwrap();
        let (_, loaded) = SessionFile::open(state.path(), session).unwrap();
        assert_eq!((loaded.events.len(), loaded.broken_links), (3, 1));
    }

    #[test]
    fn a_second_writer_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let _file = SessionFile::create(state.path(), session).unwrap();
        let second = SessionFile::open(state.path(), session);
        assert!(matches!(second, Err(SessionFileError::Locked(_))), "{second:?}");
        let other = SessionFile::open(state.path(), id());
        assert!(matches!(other, Err(SessionFileError::NotFound(_))), "{other:?}");
    }

    #[test]
    fn the_last_session_of_a_directory_is_found() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(find_last(state.path(), None), None);
        let session = id();
        drop(SessionFile::create(state.path(), session).unwrap());
        assert_eq!(find_last(state.path(), None), Some(session));
        assert_eq!(find_last(state.path(), Some(Path::new("/nowhere"))), None);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_sync_answers_whether_or_not_there_is_work() {
        let state = tempfile::tempdir().unwrap();
        let session = id();
        let mut file = SessionFile::create(state.path(), session).unwrap();
        for _ in 0..2 {
            let (tx, rx) = oneshot::channel();
            file.sync(Some(tx));
            assert!(rx.await.unwrap());
            append(&mut file, session, "more");
            let (tx, rx) = oneshot::channel();
            file.sync(Some(tx));
            assert!(rx.await.unwrap());
        }
    }
}
