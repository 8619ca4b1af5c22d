//! Reads the files that a walk found changed, and makes records of them.
//!
//! On as many threads as help. A file that changes while it is read is read again; one that
//! will not hold still is kept as it was read, and read again the next time. Large files are
//! kept in chunks, so that memory stays bounded. Knows no directories. Called by `record.rs`.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use rustix::fs::Mode;
use rustix::fs::OFlags;

use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::error::io_error;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::object::Record;
use crate::store::snapshot::pack::Packs;
use crate::store::snapshot::pack::Places;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::NotKept;
use crate::store::snapshot::tree::Stat;
use crate::store::snapshot::walk::Job;
use crate::store::snapshot::walk::is_settled;
use crate::store::snapshot::walk::now_ns;
use crate::store::snapshot::walk::stat_of;

/// A larger file is kept in parts of this size.
pub(super) const CHUNK_BYTES: usize = 4 << 20;
/// How often a file that changes while it is read is read anew.
const TRIES: u32 = 3;
/// With fewer files a second thread costs more than it saves.
const THREADS_FROM: usize = 64;
/// More threads than this wait for the disk, and the caller's machine has other work.
const THREADS_MAX: usize = 4;
/// Records on their way from the readers to the writer.
const RECORDS_WAITING: usize = 16;

/// What was read of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) content: Content,
    /// Its metadata, when the next look may trust it.
    pub(super) stat: Option<Stat>,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) size: u64,
}

/// What readers tell the writer.
enum Said {
    Record(Record),
    Kept(usize, Kept),
}

/// Where readers send records.
struct Sink<'a> {
    known: &'a Places,
    send: &'a dyn Fn(Said) -> bool,
    /// Set when nobody wants what is read any more.
    stop: &'a AtomicBool,
}

/// Reads the files of a walk into the packs; the answers are in the order of the jobs.
pub(super) fn keep_files(
    packs: &mut Packs,
    root: &Path,
    jobs: &[Job],
    (ignored_bytes, limits): (u64, &SnapshotLimits),
    stop: &AtomicBool,
) -> Result<Vec<Kept>, SnapshotError> {
    let mut kept = judge_sizes(jobs, ignored_bytes, limits);
    let undecided = kept.iter().enumerate().filter(|(_, kept)| kept.is_none());
    let wanted: Vec<usize> = undecided.map(|(at, _)| at).collect();
    if wanted.is_empty() {
        return Ok(kept.into_iter().flatten().collect());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(root, flags, Mode::empty())
        .map_err(|error| io_error("open", root)(error.into()))?;
    let known = packs.known();
    let threads = if wanted.len() < THREADS_FROM { 1 } else { thread_count() };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (tx, rx) = mpsc::sync_channel::<Said>(RECORDS_WAITING);
        for _ in 0..threads {
            let (tx, known, next, wanted) = (tx.clone(), &known, &next, &wanted);
            let fd = &fd;
            scope.spawn(move || {
                let send = |said| tx.send(said).is_ok();
                let sink = Sink { known, send: &send, stop };
                while let Some(at) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(job) = jobs.get(*at) else { return };
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let read = keep_file(std::os::fd::AsFd::as_fd(fd), job, &sink);
                    if !send(Said::Kept(*at, read)) {
                        return;
                    }
                }
            });
        }
        drop(tx);
        for said in rx {
            match said {
                Said::Record(record) => packs.append(&record)?,
                Said::Kept(at, read) => {
                    if let Some(slot) = kept.get_mut(at) {
                        *slot = Some(read);
                    }
                }
            }
        }
        Ok::<(), SnapshotError>(())
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(SnapshotError::Stopped);
    }
    let unread = |(slot, job): (Option<Kept>, &Job)| {
        slot.unwrap_or_else(|| not_kept(&job.stat, NotKept::Unreadable))
    };
    Ok(kept.into_iter().zip(jobs).map(unread).collect())
}

/// Decides by size alone which files are not kept. Of ignored ones the smallest are: an `.env`
/// matters more than a build.
fn judge_sizes(jobs: &[Job], ignored_bytes: u64, limits: &SnapshotLimits) -> Vec<Option<Kept>> {
    let mut kept: Vec<Option<Kept>> = jobs
        .iter()
        .map(|job| {
            let is_large = job.stat.size > limits.file_bytes_max;
            is_large.then(|| not_kept(&job.stat, NotKept::TooLarge))
        })
        .collect();
    let mut ignored: Vec<(u64, usize)> = jobs
        .iter()
        .enumerate()
        .filter(|(_, job)| job.is_ignored)
        .map(|(at, job)| (job.stat.size, at))
        .collect();
    ignored.sort_unstable();
    let mut total = ignored_bytes;
    for (size, at) in ignored {
        let fits = size <= limits.ignored_file_bytes_max
            && total.saturating_add(size) <= limits.ignored_total_bytes_max;
        if fits {
            total += size;
        } else if let (Some(slot), Some(job)) = (kept.get_mut(at), jobs.get(at)) {
            slot.get_or_insert_with(|| not_kept(&job.stat, NotKept::Ignored));
        }
    }
    keep_budget(jobs, &mut kept, limits.keep_bytes_max);
    kept
}

/// Leaves out the largest of the files that are to be read, when all of them are more than the
/// store may ever hold: it would drop what it just took.
fn keep_budget(jobs: &[Job], kept: &mut [Option<Kept>], budget: u64) {
    let undecided =
        jobs.iter().zip(kept.iter()).enumerate().filter(|(_, (_, kept))| kept.is_none());
    let mut wanted: Vec<(u64, usize)> =
        undecided.map(|(at, (job, _))| (job.stat.size, at)).collect();
    let mut total: u64 = wanted.iter().map(|(size, _)| size).sum();
    if total <= budget {
        return;
    }
    wanted.sort_unstable();
    while let Some((size, at)) = wanted.pop().filter(|_| total > budget) {
        total -= size;
        if let (Some(slot), Some(job)) = (kept.get_mut(at), jobs.get(at)) {
            *slot = Some(not_kept(&job.stat, NotKept::OverBudget));
        }
    }
}

fn not_kept(stat: &Stat, why: NotKept) -> Kept {
    Kept {
        content: Content::NotKept { why, changed_ns: stat.mtime_ns, file: (stat.dev, stat.ino) },
        stat: is_settled(stat, now_ns()).then_some(*stat),
        mode: stat.mode & 0o7777,
        size: stat.size,
    }
}

/// Reads one file.
fn keep_file(root: BorrowedFd<'_>, job: &Job, sink: &Sink<'_>) -> Kept {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut last = None;
    for _ in 0..TRIES {
        let Ok(fd) = rustix::fs::openat(root, &job.path, flags, Mode::empty()) else { break };
        let Ok(before) = rustix::fs::fstat(&fd).map(|stat| stat_of(&stat)) else { break };
        // Another file in its place is another file's matter: a link swapped in leads nowhere.
        if (before.dev, before.ino) != (job.stat.dev, job.stat.ino) {
            break;
        }
        let started = now_ns();
        let mut file = File::from(fd);
        let Ok((content, size)) = read_content(&mut file, sink) else { break };
        let after = rustix::fs::fstat(&file).ok().map(|stat| stat_of(&stat));
        let is_still = after == Some(before) && size == before.size;
        let kept = Kept {
            content,
            stat: (is_still && is_settled(&before, started)).then_some(before),
            mode: before.mode & 0o7777,
            size,
        };
        if is_still {
            return kept;
        }
        last = Some(kept);
    }
    last.unwrap_or_else(|| Kept { stat: None, ..not_kept(&job.stat, NotKept::Unreadable) })
}

fn read_content(file: &mut File, sink: &Sink<'_>) -> io::Result<(Content, u64)> {
    let mut chunks = Vec::new();
    let mut size = 0;
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() && !chunks.is_empty() {
            break;
        }
        size += chunk.len() as u64;
        chunks.push(sink.add(ObjectKind::Chunk, &chunk)?);
        if chunk.len() < CHUNK_BYTES {
            break;
        }
    }
    match chunks.as_slice() {
        [only] => Ok((Content::Whole(*only), size)),
        chunks => {
            let list: Vec<u8> = chunks.iter().flat_map(|id| id.0).collect();
            Ok((Content::Chunks(sink.add(ObjectKind::Chunks, &list)?), size))
        }
    }
}

impl Sink<'_> {
    fn add(&self, kind: ObjectKind, content: &[u8]) -> io::Result<ObjectId> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("nobody wants it any more"));
        }
        let id = ObjectId::of(kind, content);
        if !self.known.contains_key(&id) {
            let sent = (self.send)(Said::Record(Record::new(kind, id, content)));
            if !sent {
                return Err(io::Error::other("nobody writes any more"));
            }
        }
        Ok(id)
    }
}

fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}
