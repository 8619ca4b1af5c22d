//! Looks at a workspace: what is there, and which of it must be read.
//!
//! A name whose metadata is what it was is taken as it was, and so are the names of such a
//! directory: a tree that did not change costs one look at each. Large parts of a tree are
//! walked by other threads. Nothing is opened but directories; links are never followed, other
//! file systems never entered, git's own never looked at. Knows no packs: what must be read is
//! a list of `Job`s. Called by `record.rs`.

use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::Scope;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use rustix::fs::AtFlags;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::store::commit::is_temp_name;
use crate::store::snapshot::PlaceholderTest;
use crate::store::snapshot::ignored::Rules;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::tree::Other;
use crate::store::snapshot::tree::Stat;
use crate::store::snapshot::tree::is_git_name;

/// The bits by which a program runs with its file's rights.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
/// Names of one root. Beyond it, as in a home directory, undo is off: it would cost too much.
pub(super) const ENTRIES_MAX: u64 = 400_000;
/// How long looking may take; a slow network mount is no place for undo.
const WALK_AT_MOST: Duration = Duration::from_secs(30);
/// How often the clock is looked at in a large directory.
const CLOCK_EVERY: usize = 1024;
/// More threads than this wait for the disk, and the caller's machine has other work.
const THREADS_MAX: usize = 3;
/// A directory of fewer names that has none below it is walked sooner than handed over.
const SHARED_FROM: usize = 64;
/// Directories in directories; each costs an open file while it is walked.
const DEPTH_MAX: usize = 200;
/// File systems round times to the kernel's tick; what changed within it may change unseen.
const TICK_NS: i64 = 50_000_000;
/// Some round to two seconds, which shows in times that are whole seconds.
const COARSE_TICK_NS: i64 = 2_000_000_000;
/// The file of a directory's own rules.
const RULES_NAME: &[u8] = b".gitignore";

/// Why a root's state is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Off {
    /// It is not there, or cannot be read.
    Unreadable(String),
    /// It holds too many names.
    TooMany,
    /// Looking took too long.
    TooSlow,
}

/// What was found in a directory.
#[derive(Debug)]
pub(super) enum Draft {
    /// All is as it was.
    Same(Arc<Dir>),
    /// Something is new since the directory was as given.
    New(Option<Arc<Dir>>, Vec<DraftEntry>),
}

/// One name of a `Draft`.
#[derive(Debug)]
pub(super) enum DraftEntry {
    /// As it was; its place in the directory as it was.
    Known(usize),
    /// It was looked at anew.
    Done(Entry),
    /// A directory, and its metadata when the next look may trust it.
    Dir { name: Box<[u8]>, mode: u32, stat: Option<Stat>, draft: Draft },
    /// A file that must be read.
    Job { name: Box<[u8]>, job: Task },
}

/// A job's place in the list of jobs, or, until the walk is over, the job.
#[derive(Debug)]
pub(super) enum Task {
    New(Box<Job>),
    At(usize),
}

/// Where a directory is in the walk.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// The rules of its parent, and its name there; `None` for the root.
    above: Option<(&'a Rules<'a>, &'a [u8])>,
    /// From the root, with a slash at the end.
    path: &'a [u8],
    depth: usize,
}

/// A directory in which names are looked at.
struct Parent<'a> {
    fd: BorrowedFd<'a>,
    rules: &'a Rules<'a>,
    path: &'a [u8],
    depth: usize,
}

/// A directory that was opened to be walked.
struct Subdirectory {
    fd: OwnedFd,
    name: Box<[u8]>,
    path: Vec<u8>,
    stat: Stat,
    before: Option<Before>,
}

/// A directory as it was.
#[derive(Debug, Clone)]
struct Before {
    dir: Arc<Dir>,
    /// Whether it has the same names still.
    has_same_names: bool,
}

/// An open directory.
enum Opened {
    Plain(OwnedFd),
    Listed(rustix::fs::Dir),
}

/// What a look at a name found.
enum Found {
    Entry(DraftEntry),
    Dir(Subdirectory),
    /// What went away meanwhile, or does not count.
    Nothing,
}

/// What is known of a name: its place in the directory as it was, and the entry there.
type Known<'a> = Option<(usize, &'a Entry)>;

/// A file that must be read.
#[derive(Debug)]
pub(super) struct Job {
    /// From the root.
    pub(super) path: CString,
    pub(super) stat: Stat,
    pub(super) is_ignored: bool,
}

/// One walk.
#[derive(Debug)]
pub(super) struct Walk {
    /// Device and inode of our own state directory.
    own_state: Option<(u64, u64)>,
    is_placeholder: PlaceholderTest,
    /// Set when nobody wants the walk any more.
    pub(super) stop: Arc<AtomicBool>,
    started: Instant,
    device: u64,
    root: PathBuf,
    entries: AtomicU64,
    entries_max: u64,
    /// Threads that could help.
    idle: AtomicUsize,
    /// Bytes of ignored files that are kept already.
    ignored_bytes: AtomicU64,
}

impl Off {
    /// Says why, in half a sentence.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreadable(error) => error.clone(),
            Self::TooMany => format!("it holds more than {ENTRIES_MAX} files"),
            Self::TooSlow => format!("looking at it takes over {} s", WALK_AT_MOST.as_secs()),
        }
    }
}

impl From<Errno> for Off {
    fn from(error: Errno) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl Walk {
    /// Returns a walk that enters all but our own state.
    pub(super) fn new(state: &Path, entries_max: u64, is_placeholder: PlaceholderTest) -> Self {
        let own = rustix::fs::stat(state).ok();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        Self {
            own_state: own.map(|own| (own.st_dev, own.st_ino)),
            is_placeholder,
            stop: Arc::default(),
            started: Instant::now(),
            device: 0,
            root: PathBuf::new(),
            entries: AtomicU64::new(0),
            entries_max,
            idle: AtomicUsize::new(threads - 1),
            ignored_bytes: AtomicU64::new(0),
        }
    }

    /// Walks a root, given how it was before; returns also what must be read.
    pub(super) fn run(
        &mut self,
        root: &Path,
        before: Option<&Arc<Dir>>,
    ) -> Result<(Draft, Vec<Job>), Off> {
        if root.parent().is_none() {
            return Err(Off::Unreadable("it is the whole file system".to_owned()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())?;
        self.device = rustix::fs::fstat(&fd)?.st_dev;
        self.root = root.to_path_buf();
        let before = before.map(|dir| Before { dir: Arc::clone(dir), has_same_names: false });
        let place = Place { above: None, path: b"", depth: 0 };
        let mut draft = self.directory(fd, before.as_ref(), place)?;
        let mut jobs = Vec::new();
        take_jobs(&mut draft, &mut jobs);
        Ok((draft, jobs))
    }

    /// Returns how many bytes of ignored files are kept already.
    pub(super) fn ignored_bytes(&self) -> u64 {
        self.ignored_bytes.load(Ordering::Relaxed)
    }

    /// Takes one directory in. `fd` is open on it.
    fn directory(
        &self,
        fd: OwnedFd,
        before: Option<&Before>,
        place: Place<'_>,
    ) -> Result<Draft, Off> {
        let listed = before.filter(|before| before.has_same_names);
        let before = before.map(|before| &before.dir);
        let (names, opened) = match listed {
            Some(_) => (Vec::new(), Opened::Plain(fd)),
            None => read_names(fd).map(|(names, dir)| (names, Opened::Listed(dir)))?,
        };
        let has_rules = match listed {
            Some(before) => before.dir.find(RULES_NAME).is_some(),
            None => names.iter().any(|name| name.as_bytes() == RULES_NAME),
        };
        let rules = match place.above {
            Some((above, name)) => above.below(name, has_rules),
            None => Rules::of_root(&self.root),
        };
        let Place { path, depth, .. } = place;
        let parent = Parent { fd: opened.fd()?, rules: &rules, path, depth };
        // Either the names as they were, each known at its place, or those just read.
        let known = listed.into_iter().flat_map(|before| before.dir.entries.iter().enumerate());
        let known = known.map(|(at, entry)| (&*entry.name, Some((at, entry))));
        let read = names.iter().map(|name| {
            let name = name.as_bytes();
            (name, before.and_then(|before| before.find(name)))
        });
        let count = listed.map_or(names.len(), |before| before.dir.entries.len());
        self.count(count)?;
        let looked = thread::scope(|scope| {
            let mut looked = Looked { walk: self, scope, entries: Vec::new(), shared: Vec::new() };
            looked.entries.reserve(count);
            looked.look_at_all(&parent, known.chain(read))?;
            looked.finish(before.map(|before| &**before))
        });
        let (entries, is_same) = looked?;
        match before.filter(|before| is_same && before.entries.len() == entries.len()) {
            Some(before) => Ok(Draft::Same(Arc::clone(before))),
            None => Ok(Draft::New(before.cloned(), entries)),
        }
    }

    /// Walks a directory that was found in another one.
    fn subdirectory(&self, found: Subdirectory, rules: &Rules<'_>, depth: usize) -> DraftResult {
        let above = Some((rules, &*found.name));
        let place = Place { above, path: &found.path, depth };
        let stat = is_settled(&found.stat, now_ns()).then_some(found.stat);
        let draft = self.directory(found.fd, found.before.as_ref(), place)?;
        Ok(DraftEntry::Dir { name: found.name, mode: found.stat.mode & 0o7777, stat, draft })
    }

    /// Looks at one name of a directory.
    fn entry(&self, parent: &Parent<'_>, name: &[u8], known: Known<'_>) -> Found {
        let stat = match rustix::fs::statat(parent.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Found::Nothing,
            // It is there all the same.
            Err(_) => return Found::Entry(done(name, Node::Other(Other::Unreadable))),
        };
        if (self.is_placeholder)(stat.st_mode, stat.st_uid) && is_empty(parent.fd, name, &stat) {
            return Found::Nothing;
        }
        if is_git_name(name) {
            return Found::Entry(done(name, Node::Other(Other::Git)));
        }
        let now = stat_of(&stat);
        if is_temp_name(name) {
            return Found::Nothing;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.open(parent, name, (&now, known)),
            FileType::RegularFile => Found::Entry(self.file(parent, name, (&now, known))),
            FileType::Symlink => look_at_link(parent.fd, name, &now, known),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Found::Entry(done(name, Node::Other(Other::Special))),
        }
    }

    /// Opens a directory, unless there is a reason not to enter it.
    fn open(&self, parent: &Parent<'_>, name: &[u8], (stat, known): (&Stat, Known<'_>)) -> Found {
        let other = |other| Found::Entry(done(name, Node::Other(other)));
        if self.own_state == Some((stat.dev, stat.ino)) {
            return other(Other::Own);
        }
        if stat.dev != self.device {
            return other(Other::Mount);
        }
        if parent.depth >= DEPTH_MAX {
            return other(Other::TooDeep);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(parent.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Found::Nothing,
            Err(_) => return other(Other::Unreadable),
        };
        let before = known.and_then(|(_, known)| {
            let Node::Dir { dir: Some(dir), .. } = &known.node else { return None };
            // Whatever comes, goes or is renamed in a directory changes its times.
            let has_same_names = known.stat.as_ref() == Some(stat);
            Some(Before { dir: Arc::clone(dir), has_same_names })
        });
        let path = [parent.path, name, b"/"].concat();
        Found::Dir(Subdirectory { fd, name: name.into(), path, stat: *stat, before })
    }

    fn file(
        &self,
        parent: &Parent<'_>,
        name: &[u8],
        (stat, known): (&Stat, Known<'_>),
    ) -> DraftEntry {
        if let Some((at, known)) = known.filter(|(_, known)| known.stat.as_ref() == Some(stat)) {
            if let (true, Node::File { size, content, .. }) = (known.is_ignored, &known.node) {
                let bytes = content.object().map_or(0, |_| *size);
                self.ignored_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            return DraftEntry::Known(at);
        }
        let is_ignored = parent.rules.ignore_file(name);
        let path = CString::new([parent.path, name].concat()).unwrap_or_default();
        let job = Task::New(Box::new(Job { path, stat: *stat, is_ignored }));
        DraftEntry::Job { name: name.into(), job }
    }

    /// Counts names that are about to be looked at.
    fn count(&self, names: usize) -> Result<(), Off> {
        let before = self.entries.fetch_add(names as u64, Ordering::Relaxed);
        if before.saturating_add(names as u64) > self.entries_max {
            return Err(Off::TooMany);
        }
        self.check_clock()
    }

    fn check_clock(&self) -> Result<(), Off> {
        let is_over = self.started.elapsed() > WALK_AT_MOST || self.stop.load(Ordering::Relaxed);
        if is_over { Err(Off::TooSlow) } else { Ok(()) }
    }

    /// Takes one of the threads that could help, when there is one.
    fn take_helper(&self) -> bool {
        let one_less = |idle: usize| idle.checked_sub(1);
        self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

/// What comes of walking a directory: an entry of the one above it.
type DraftResult = Result<DraftEntry, Off>;

/// The names of one directory, while they are looked at.
struct Looked<'scope, 'env, 'w> {
    walk: &'w Walk,
    scope: &'scope Scope<'scope, 'env>,
    entries: Vec<DraftEntry>,
    /// Directories that other threads walk, and their places among the entries.
    shared: Vec<(usize, ScopedJoinHandle<'scope, DraftResult>)>,
}

impl<'scope, 'w: 'scope> Looked<'scope, '_, 'w> {
    fn look_at_all<'n>(
        &mut self,
        parent: &'scope Parent<'scope>,
        names: impl Iterator<Item = (&'n [u8], Known<'n>)>,
    ) -> Result<(), Off> {
        for (index, (name, known)) in names.enumerate() {
            if (index + 1).is_multiple_of(CLOCK_EVERY) {
                self.walk.check_clock()?;
            }
            match self.walk.entry(parent, name, known) {
                Found::Nothing => {}
                Found::Entry(entry) => self.entries.push(entry),
                Found::Dir(found) => self.walk_or_share(parent, found)?,
            }
        }
        Ok(())
    }

    fn walk_or_share(
        &mut self,
        parent: &'scope Parent<'scope>,
        found: Subdirectory,
    ) -> Result<(), Off> {
        let (walk, rules, depth) = (self.walk, parent.rules, parent.depth + 1);
        if !found.is_large() || !walk.take_helper() {
            self.entries.push(walk.subdirectory(found, rules, depth)?);
            return Ok(());
        }
        // A thread that cannot be made must not take the directory along.
        let again = found.try_clone();
        let handle = thread::Builder::new().spawn_scoped(self.scope, move || {
            let entry = walk.subdirectory(found, rules, depth);
            walk.idle.fetch_add(1, Ordering::Relaxed);
            entry
        });
        match (handle, again) {
            (Ok(handle), _) => {
                self.shared.push((self.entries.len(), handle));
                self.entries.push(DraftEntry::Known(usize::MAX));
            }
            (Err(_), Ok(again)) => self.entries.push(walk.subdirectory(again, rules, depth)?),
            (Err(error), Err(_)) => return Err(Off::Unreadable(error.to_string())),
        }
        Ok(())
    }

    /// Waits for the other threads; returns all names, and whether they are just these.
    fn finish(mut self, before: Option<&Dir>) -> Result<(Vec<DraftEntry>, bool), Off> {
        for (at, handle) in self.shared {
            let broke = |_| Err(Off::Unreadable("a thread that looked at it broke".to_owned()));
            let entry = handle.join().unwrap_or_else(broke)?;
            if let Some(place) = self.entries.get_mut(at) {
                *place = entry;
            }
        }
        let is_same = before
            .is_some_and(|before| self.entries.iter().all(|entry| is_unchanged(entry, before)));
        Ok((self.entries, is_same))
    }
}

/// Returns whether metadata will change when the content does: a file that changed just now may
/// change again within the same tick of the file system's clock.
pub(super) fn is_settled(stat: &Stat, now_ns: i64) -> bool {
    let tick = if stat.ctime_ns % 1_000_000_000 == 0 { COARSE_TICK_NS } else { TICK_NS };
    stat.ctime_ns.saturating_add(tick) < now_ns
}

/// Returns the time as files have it.
pub(super) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the bits that a file gets again when it is restored, with its kind. A file made anew
/// is ours, and must not lend our rights where the first one lent another's.
fn restorable_mode(stat: &rustix::fs::Stat) -> u32 {
    let mut mode = stat.st_mode;
    if FileType::from_raw_mode(mode) == FileType::RegularFile {
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            mode &= !SET_USER;
        }
        if stat.st_gid != rustix::process::getegid().as_raw() {
            mode &= !SET_GROUP;
        }
    }
    mode
}

/// Returns whether nothing is in a file or a directory.
fn is_empty(parent: BorrowedFd<'_>, name: &[u8], stat: &rustix::fs::Stat) -> bool {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return stat.st_size == 0;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
        .and_then(read_names)
        .is_ok_and(|(names, _)| names.is_empty())
}

/// Returns what is compared of a file's metadata.
pub(super) fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Stat {
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: restorable_mode(stat),
        mtime_ns: ns(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        ctime_ns: ns(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0)),
    }
}

fn done(name: &[u8], node: Node) -> DraftEntry {
    DraftEntry::Done(Entry { name: name.into(), node, stat: None, is_ignored: false })
}

fn look_at_link(parent: BorrowedFd<'_>, name: &[u8], now: &Stat, known: Known<'_>) -> Found {
    if let Some((at, _)) = known.filter(|(_, known)| known.stat.as_ref() == Some(now)) {
        return Found::Entry(DraftEntry::Known(at));
    }
    let target = match rustix::fs::readlinkat(parent, name, Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT) => return Found::Nothing,
        Err(_) => return Found::Entry(done(name, Node::Other(Other::Unreadable))),
    };
    Found::Entry(DraftEntry::Done(Entry {
        name: name.into(),
        node: Node::Link { target: target.into_bytes().into() },
        stat: is_settled(now, now_ns()).then_some(*now),
        is_ignored: false,
    }))
}

fn is_unchanged(entry: &DraftEntry, before: &Dir) -> bool {
    match entry {
        DraftEntry::Known(_) => true,
        DraftEntry::Done(entry) => {
            before.find(&entry.name).is_some_and(|(_, known)| entry == known)
        }
        DraftEntry::Job { .. } | DraftEntry::Dir { draft: Draft::New(..), .. } => false,
        DraftEntry::Dir { name, mode, stat, draft: Draft::Same(now) } => {
            let Some((_, known)) = before.find(name) else { return false };
            let Node::Dir { mode: was, dir: Some(dir), .. } = &known.node else { return false };
            // Metadata that can be trusted from now on is worth keeping.
            let says_more = stat.is_some() && known.stat != *stat;
            mode == was && Arc::ptr_eq(dir, now) && !says_more
        }
    }
}

/// Moves the jobs of a draft to a list, in the order in which the names were found.
fn take_jobs(draft: &mut Draft, jobs: &mut Vec<Job>) {
    let Draft::New(_, entries) = draft else { return };
    for entry in entries {
        match entry {
            DraftEntry::Job { job, .. } => {
                let number = jobs.len();
                if let Task::New(job) = std::mem::replace(job, Task::At(number)) {
                    jobs.push(*job);
                }
            }
            DraftEntry::Dir { draft, .. } => take_jobs(draft, jobs),
            DraftEntry::Known(_) | DraftEntry::Done(_) => {}
        }
    }
}

/// Returns the names of a directory, but for itself and its parent, and the open directory.
fn read_names(fd: OwnedFd) -> Result<(Vec<CString>, rustix::fs::Dir), Errno> {
    let mut dir = rustix::fs::Dir::new(fd)?;
    let mut names = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok((names, dir))
}

impl Opened {
    fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self {
            Self::Plain(fd) => Ok(fd.as_fd()),
            Self::Listed(dir) => dir.fd(),
        }
    }
}

impl Subdirectory {
    /// Returns whether walking it takes so long that another thread is worth its while.
    fn is_large(&self) -> bool {
        let Some(before) = &self.before else { return true };
        let entries = &before.dir.entries;
        entries.len() >= SHARED_FROM
            || entries.iter().any(|entry| matches!(entry.node, Node::Dir { .. }))
    }

    fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            name: self.name.clone(),
            path: self.path.clone(),
            stat: self.stat,
            before: self.before.clone(),
        })
    }
}
