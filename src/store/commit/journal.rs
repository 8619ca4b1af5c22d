//! The journal: one small file for each commit in flight, locked while its process lives.
//!
//! Three lines, each with its checksum: `plan` before anything is made, `ready` once all new
//! files are made and before the first rename, `done` after the last. A line that does not
//! check out counts as not written. Knows what a line holds, not what is done about it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::store::atomic::{PRIVATE_MODE, create_private_folders};
use crate::store::commit::dirs::Dirs;
use crate::store::commit::disk::Disk;
use crate::store::commit::step::{Act, Stamp, Step, raw_name};
use crate::text::hex::encode_hex;

/// The form this version writes and reads.
const VERSION: u32 = 1;

/// A record of our own is never larger: that is some two million files.
const RECORD_BYTES_MAX: u64 = 512 << 20;

/// What a set-aside record's name ends with.
const ASIDE: &str = "aside";

/// Tries for a record's file; each is a new name, so a second is rare and a third a fault.
const NAME_TRIES: usize = 8;

/// The open record of a commit in flight.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

/// What a record tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    version: u32,
    /// The commit, as it stands in temporary names.
    pub(super) commit: String,
    roots: Vec<Name>,
    dirs: Vec<Name>,
    pub(super) steps: Vec<Step>,
}

/// A path in a record.
#[derive(Debug, Serialize, Deserialize)]
struct Name(#[serde(with = "raw_name")] OsString);

/// How far a commit came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing has been renamed.
    Planned,
    /// All new files are there, with these stamps; renames may have begun.
    Ready(Vec<Option<Stamp>>),
    /// All is renamed; the old files may have been removed.
    Done(Vec<Option<Stamp>>),
}

/// A record, read.
#[derive(Debug)]
pub(super) enum Record {
    /// A commit that its process left unfinished.
    Unfinished(Plan, Progress),
    /// The process died before it wrote a whole first line, and so before it did anything.
    Empty,
    /// Not of this version, or not ours.
    Foreign,
}

impl Plan {
    /// Returns the plan of these steps.
    pub(super) fn new(commit: String, dirs: &Dirs<'_>, steps: Vec<Step>) -> Self {
        let names = |paths: &mut dyn Iterator<Item = &Path>| {
            paths.map(|path| Name(path.as_os_str().to_owned())).collect()
        };
        let (roots, dirs) = (names(&mut dirs.roots()), names(&mut dirs.paths()));
        Self { version: VERSION, commit, roots, dirs, steps }
    }

    /// Returns the roots.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|name| PathBuf::from(&name.0)).collect()
    }

    /// Returns the directories, in the order of their ids.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|name| Path::new(&name.0))
    }
}

impl Journal {
    /// Begins a record. The directory is made where it lacks.
    pub(super) fn begin(disk: &Disk, directory: &Path, plan: &Plan) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, PRIVATE_MODE);
        for attempt in 0..NAME_TRIES {
            let path = directory.join(format!("{}-{attempt}", plan.commit));
            let opened = disk.run(|| options.open(&path));
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    disk.run(|| create_private_folders(directory))?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Someone who recovers may have taken the empty file for a dead one meanwhile.
            if file.try_lock().is_ok() && is_named(&file)? {
                let journal = Self { path, file };
                if let Err(error) = journal.append(disk, "plan", plan) {
                    journal.remove(&Disk::default())?;
                    return Err(error);
                }
                return Ok(journal);
            }
        }
        Err(io::Error::other("the journal is busy"))
    }

    /// Notes that all new files are there.
    pub(super) fn ready(&self, disk: &Disk, stamps: &[Option<Stamp>]) -> io::Result<()> {
        self.append(disk, "ready", &stamps)
    }

    /// Opens the folder the record is in, for its name to be waited for.
    pub(super) fn open_folder(&self, disk: &Disk) -> io::Result<File> {
        disk.run(|| File::open(self.path.parent().unwrap_or(&self.path)))
    }

    /// Notes that all is renamed.
    pub(super) fn done(&self, disk: &Disk) -> io::Result<()> {
        self.append(disk, "done", &())
    }

    /// Takes the record away: nothing is left to do.
    pub(super) fn remove(self, disk: &Disk) -> io::Result<()> {
        disk.run(|| fs::remove_file(&self.path))
    }

    /// Sets the record aside, where nobody looks at it again, and says where.
    pub(super) fn set_aside(self) -> io::Result<PathBuf> {
        let aside = self.path.with_extension(ASIDE);
        fs::rename(&self.path, &aside)?;
        Ok(aside)
    }

    /// Opens a record whose process is gone; `None` when it lives, or the record is gone.
    pub(super) fn open_dead(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            nofollow.bits().cast_signed(),
        );
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) if is_named(&file)? => Ok(Some(Self { path: path.to_owned(), file })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads the record.
    pub(super) fn read(&self) -> io::Result<Record> {
        if !self.file.metadata()?.is_file() {
            return Ok(Record::Foreign);
        }
        let mut bytes = Vec::new();
        (&self.file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
        let record = parse_record(&bytes);
        if let (Record::Unfinished(..), Some(end)) = (&record, memchr::memrchr(b'\n', &bytes)) {
            // What comes next must not be joined to a line that was cut.
            self.file.set_len(end as u64 + 1)?;
        }
        Ok(record)
    }

    fn append(&self, disk: &Disk, kind: &str, value: &impl Serialize) -> io::Result<()> {
        let line = seal_line(kind, &serde_json::to_string(value)?);
        disk.run(|| (&self.file).write_all(line.as_bytes()))
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A command that is being started holds a copy of the descriptor for a moment, and
        // with it the lock, if nobody lets go of it by word.
        let _ = self.file.unlock();
    }
}

/// Returns whether a directory entry is a record that may be looked at.
pub(super) fn is_record(path: &Path) -> bool {
    path.extension().is_none()
}

fn is_named(file: &File) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

/// Reads a record's bytes, whatever they are.
pub(super) fn parse_record(bytes: &[u8]) -> Record {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(parse_line);
    let Some(first) = lines.next() else { return Record::Empty };
    let plan = match first {
        Some(("plan", json)) => match serde_json::from_str::<Plan>(json) {
            Ok(plan) if is_sound(&plan) => plan,
            Ok(_) | Err(_) => return Record::Foreign,
        },
        // A first line that was cut: the journal is written before anything is done.
        None if !bytes.contains(&b'\n') => return Record::Empty,
        Some(_) | None => return Record::Foreign,
    };
    let whole = bytes.last() == Some(&b'\n');
    let mut lines = lines.peekable();
    let mut progress = Progress::Planned;
    while let Some(line) = lines.next() {
        let is_cut = lines.peek().is_none() && !whole;
        progress = match (line, progress) {
            (Some(("ready", json)), Progress::Planned) => match serde_json::from_str(json) {
                Ok(stamps) => Progress::Ready(stamps),
                Err(_) => return Record::Foreign,
            },
            // Who finished and could not remove all has said it again.
            (Some(("done", _)), Progress::Ready(stamps) | Progress::Done(stamps)) => {
                Progress::Done(stamps)
            }
            // A line that was cut was being written when the process died.
            (None, progress) if is_cut => progress,
            (Some(_) | None, _) => return Record::Foreign,
        };
    }
    Record::Unfinished(plan, progress)
}

/// Returns a line with its checksum.
pub(crate) fn seal_line(kind: &str, json: &str) -> String {
    format!("{} {kind} {json}\n", checksum(kind, json))
}

/// Returns the kind and the text of a whole line.
fn parse_line(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, rest) = line.split_once(' ')?;
    let (kind, json) = rest.split_once(' ')?;
    (sum == checksum(kind, json)).then_some((kind, json))
}

fn checksum(kind: &str, json: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(kind.as_bytes());
    hash.update(b" ");
    hash.update(json.as_bytes());
    encode_hex(&hash.finalize())
}

/// Returns whether a plan is one that this version could have written.
fn is_sound(plan: &Plan) -> bool {
    let dirs = plan.dirs.len();
    let is_name = |name: &OsString| {
        let mut parts = Path::new(name).components();
        matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name)
            && parts.next().is_none()
    };
    let has_names =
        |step: &Step| is_name(&step.name) && (step.act != Act::Move || is_name(&step.to));
    plan.version == VERSION
        && !plan.commit.is_empty()
        && plan.commit.bytes().all(|byte| byte.is_ascii_hexdigit())
        && plan.steps.iter().all(|step| step.dir < dirs && step.temp_dir < dirs && has_names(step))
}
