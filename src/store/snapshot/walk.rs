//! Looks at a workspace: what is there, and which of it must be read.
//!
//! A name whose metadata is what it was is taken as it was, so a tree that did not change costs
//! one look at each name. Nothing is opened but directories; links are never followed, other
//! file systems never entered, git's own never looked at. Knows no packs: what must be read is
//! a list of `Job`s. Called by `record.rs`.

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
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
/// How often the clock is looked at.
const CLOCK_EVERY: u64 = 1024;
/// Directories in directories; each costs an open file while it is walked.
const DEPTH_MAX: usize = 200;
/// File systems round times to the kernel's tick; what changed within it may change unseen.
const TICK_NS: i64 = 50_000_000;
/// Some round to two seconds, which shows in times that are whole seconds.
const COARSE_TICK_NS: i64 = 2_000_000_000;

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
    /// A directory.
    Dir { name: Box<[u8]>, mode: u32, draft: Draft },
    /// A file that must be read; its place in the list of jobs.
    Job { name: Box<[u8]>, job: usize },
}

/// Where a directory is in the walk.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// The rules of its parent, and its name there; `None` for the root.
    above: Option<(&'a Rules<'a>, &'a [u8])>,
    depth: usize,
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
    entries: u64,
    entries_max: u64,
    path: Vec<u8>,
    pub(super) jobs: Vec<Job>,
    /// Bytes of ignored files that are kept already.
    pub(super) ignored_bytes: u64,
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
        Self {
            own_state: own.map(|own| (own.st_dev, own.st_ino)),
            is_placeholder,
            stop: Arc::default(),
            started: Instant::now(),
            device: 0,
            root: PathBuf::new(),
            entries: 0,
            entries_max,
            path: Vec::new(),
            jobs: Vec::new(),
            ignored_bytes: 0,
        }
    }

    /// Walks a root, given how it was before.
    pub(super) fn run(&mut self, root: &Path, before: Option<&Arc<Dir>>) -> Result<Draft, Off> {
        if root.parent().is_none() {
            return Err(Off::Unreadable("it is the whole file system".to_owned()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())?;
        self.device = rustix::fs::fstat(&fd)?.st_dev;
        self.root = root.to_path_buf();
        self.directory(fd, before, Place { above: None, depth: 0 })
    }

    /// Takes one directory in. `fd` is open on it.
    fn directory(
        &mut self,
        fd: OwnedFd,
        before: Option<&Arc<Dir>>,
        place: Place<'_>,
    ) -> Result<Draft, Off> {
        let (names, dir) = read_names(fd)?;
        let fd = dir.fd()?;
        let has_rules = names.iter().any(|name| name.as_c_str() == c".gitignore");
        let rules = match place.above {
            Some((above, name)) => above.below(name, has_rules),
            None => Rules::of_root(&self.root),
        };
        let mut entries = Vec::with_capacity(names.len());
        let mut is_same = true;
        for name in names {
            self.count()?;
            let known = before.and_then(|before| before.find(name.as_bytes()));
            let place = Place { above: Some((&rules, b"")), depth: place.depth };
            // What went away meanwhile is not there.
            let Some(entry) = self.entry(fd, name, known, place)? else { continue };
            is_same &= is_unchanged(&entry, known);
            entries.push(entry);
        }
        match before.filter(|before| is_same && before.entries.len() == entries.len()) {
            Some(before) => Ok(Draft::Same(Arc::clone(before))),
            None => Ok(Draft::New(before.cloned(), entries)),
        }
    }

    /// Looks at one name of the directory that `parent` is open on, and `place` speaks of.
    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        name: CString,
        known: Known<'_>,
        place: Place<'_>,
    ) -> Result<Option<DraftEntry>, Off> {
        let stat = match rustix::fs::statat(parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            // It is there all the same.
            Err(_) => return Ok(Some(done(&name, Node::Other(Other::Unreadable)))),
        };
        if (self.is_placeholder)(stat.st_mode, stat.st_uid) && is_empty(parent, &name, &stat) {
            return Ok(None);
        }
        if is_git_name(name.as_bytes()) {
            return Ok(Some(done(&name, Node::Other(Other::Git))));
        }
        let now = stat_of(&stat);
        if is_temp_name(name.as_bytes()) {
            return Ok(None);
        }
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.subdirectory(parent, &name, (&now, known), place)?,
            FileType::RegularFile => Some(self.file(name, &now, known, place)),
            FileType::Symlink => look_at_link(parent, name, &now, known),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Some(done(&name, Node::Other(Other::Special))),
        })
    }

    fn subdirectory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CString,
        (stat, known): (&Stat, Known<'_>),
        place: Place<'_>,
    ) -> Result<Option<DraftEntry>, Off> {
        let other = |other| Ok(Some(done(name, Node::Other(other))));
        if self.own_state == Some((stat.dev, stat.ino)) {
            return other(Other::Own);
        }
        if stat.dev != self.device {
            return other(Other::Mount);
        }
        if place.depth >= DEPTH_MAX {
            return other(Other::TooDeep);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(_) => return other(Other::Unreadable),
        };
        let before = match known.map(|(_, known)| &known.node) {
            Some(Node::Dir { dir, .. }) => dir.as_ref(),
            Some(Node::File { .. } | Node::Link { .. } | Node::Other(_)) | None => None,
        };
        let above = place.above.map(|(rules, _)| (rules, name.as_bytes()));
        let length = self.path.len();
        self.path.extend_from_slice(name.as_bytes());
        self.path.push(b'/');
        let draft = self.directory(fd, before, Place { above, depth: place.depth + 1 })?;
        self.path.truncate(length);
        Ok(Some(DraftEntry::Dir { name: name.as_bytes().into(), mode: stat.mode & 0o7777, draft }))
    }

    fn file(
        &mut self,
        name: CString,
        stat: &Stat,
        known: Known<'_>,
        place: Place<'_>,
    ) -> DraftEntry {
        if let Some((at, known)) = known.filter(|(_, known)| known.stat.as_ref() == Some(stat)) {
            if let (true, Node::File { size, content, .. }) = (known.is_ignored, &known.node) {
                self.ignored_bytes += content.object().map_or(0, |_| *size);
            }
            return DraftEntry::Known(at);
        }
        let is_ignored = place.above.is_some_and(|(rules, _)| rules.ignore_file(name.as_bytes()));
        let mut path = self.path.clone();
        path.extend_from_slice(name.as_bytes());
        let job = self.jobs.len();
        let name = name.into_bytes().into();
        self.jobs.push(Job {
            path: CString::new(path).unwrap_or_default(),
            stat: *stat,
            is_ignored,
        });
        DraftEntry::Job { name, job }
    }

    fn count(&mut self) -> Result<(), Off> {
        self.entries += 1;
        if self.entries > self.entries_max {
            return Err(Off::TooMany);
        }
        if self.entries.is_multiple_of(CLOCK_EVERY)
            && (self.started.elapsed() > WALK_AT_MOST || self.stop.load(Ordering::Relaxed))
        {
            return Err(Off::TooSlow);
        }
        Ok(())
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
fn is_empty(parent: BorrowedFd<'_>, name: &CString, stat: &rustix::fs::Stat) -> bool {
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

fn done(name: &CString, node: Node) -> DraftEntry {
    let name = name.as_bytes().into();
    DraftEntry::Done(Entry { name, node, stat: None, is_ignored: false })
}

fn look_at_link(
    parent: BorrowedFd<'_>,
    name: CString,
    now: &Stat,
    known: Known<'_>,
) -> Option<DraftEntry> {
    if let Some((at, _)) = known.filter(|(_, known)| known.stat.as_ref() == Some(now)) {
        return Some(DraftEntry::Known(at));
    }
    let target = match rustix::fs::readlinkat(parent, &name, Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT) => return None,
        Err(_) => return Some(done(&name, Node::Other(Other::Unreadable))),
    };
    Some(DraftEntry::Done(Entry {
        name: name.into_bytes().into(),
        node: Node::Link { target: target.into_bytes().into() },
        stat: is_settled(now, now_ns()).then_some(*now),
        is_ignored: false,
    }))
}

fn is_unchanged(entry: &DraftEntry, known: Known<'_>) -> bool {
    let Some((_, known)) = known else { return false };
    match entry {
        DraftEntry::Known(_) => true,
        DraftEntry::Done(entry) => entry == known,
        DraftEntry::Job { .. } | DraftEntry::Dir { draft: Draft::New(..), .. } => false,
        DraftEntry::Dir { mode, draft: Draft::Same(now), .. } => match &known.node {
            Node::Dir { mode: was, dir: Some(dir), .. } => mode == was && Arc::ptr_eq(dir, now),
            Node::Dir { .. } | Node::File { .. } | Node::Link { .. } | Node::Other(_) => false,
        },
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
