//! Works out the steps of a commit: looks at every path, checks it, and changes nothing.
//!
//! Order comes from here: what goes is taken away first, then directories go and come, then
//! files are put in place, and mode bits that would hinder come last. Called by `perform.rs`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, RawMode, Stat};

use crate::store::commit::dirs::{DirId, Dirs};
use crate::store::commit::disk::{Attributes, Disk, is_nowhere, kind_of, mode_of};
use crate::store::commit::step::{Act, Stamp, Step};
use crate::store::commit::{Change, CommitError, Mode, New, Old};

/// Bytes compared at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What a directory's owner needs to change what is in it.
const WRITE_AND_SEARCH: RawMode = 0o300;

/// The steps of a commit with what belongs to each.
#[derive(Debug, Default)]
pub(super) struct Prepared<'c, 'a> {
    pub(super) tasks: Vec<Task<'c, 'a>>,
    pub(super) notes: Vec<String>,
}

/// A step, the change it comes from, and what it goes by.
#[derive(Debug)]
pub(super) struct Task<'c, 'a> {
    pub(super) step: Step,
    /// None for a directory that is made because something shall be in it.
    pub(super) change: Option<&'c Change<'a>>,
    /// Of a new file: whose mode, owner and attributes it takes.
    pub(super) model: Option<Model>,
}

/// What a new file takes over from an old one.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) stat: Stat,
    pub(super) attributes: Attributes,
}

/// What is at a path.
struct Found {
    stat: Stat,
    attributes: Attributes,
}

/// Whether a directory is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is.
    There,
    /// The commit makes it.
    Coming,
}

/// Looks at all paths and returns the steps.
pub(super) fn prepare<'c, 'a>(
    changes: &'c [Change<'a>],
    dirs: &mut Dirs<'_>,
    opens_directories: bool,
) -> Result<Prepared<'c, 'a>, CommitError> {
    let mut by_path = HashMap::with_capacity(changes.len());
    for change in changes {
        if !dirs.holds(&change.path) {
            return Err(CommitError::Outside { path: change.path.clone() });
        }
        if by_path.insert(change.path.as_path(), change).is_some() {
            return Err(CommitError::Twice { path: change.path.clone() });
        }
    }
    let mut preparer = Preparer {
        dirs,
        by_path,
        standing: HashMap::new(),
        steps: Vec::with_capacity(changes.len()),
        notes: Vec::new(),
    };
    for change in changes {
        preparer.add(change)?;
    }
    if opens_directories {
        preparer.open_directories();
    }
    Ok(preparer.finish())
}

struct Preparer<'c, 'a, 'd, 'x> {
    dirs: &'x mut Dirs<'d>,
    by_path: HashMap<&'c Path, &'c Change<'a>>,
    standing: HashMap<PathBuf, Standing>,
    steps: Vec<(Rank, Task<'c, 'a>)>,
    notes: Vec<String>,
}

/// When a step is done; within the same, by depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    OpenMode,
    Take,
    RemoveDir(std::cmp::Reverse<usize>),
    MakeDir(usize),
    Move,
    File,
    CloseMode,
    DropDir(std::cmp::Reverse<usize>),
}

impl<'c, 'a> Preparer<'c, 'a, '_, '_> {
    /// Looks at one change's path and adds its steps.
    fn add(&mut self, change: &'c Change<'a>) -> Result<(), CommitError> {
        let path = change.path.as_path();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(CommitError::Outside { path: path.to_owned() });
        };
        let found = match self.look(change, parent)? {
            Some(Standing::There) => self.check(change, parent, name)?,
            Some(Standing::Coming) | None => {
                check_kind(path, change.old, None)?;
                None
            }
        };
        let kind = found.as_ref().map(|found| kind_of(&found.stat));
        let depth = path.components().count();
        match (kind, change.new) {
            (None | Some(FileType::RegularFile), New::Moved(from, check)) => {
                self.push_moved(change, from, check)?;
            }
            (Some(_), New::Moved(..)) => {
                return Err(CommitError::Changed { path: path.to_owned() });
            }
            (None, New::Absent) => {}
            (None, New::File(..) | New::Symlink(_)) => self.push_file(Act::Put, change, None)?,
            (None, New::Directory(mode)) => self.push_dir(change, mode),
            // What something else takes the place of must be empty before, not at the end.
            (Some(FileType::Directory), New::Absent) if self.gives_way_above(path) => {
                let mode = found.as_ref().map_or(0o700, |found| mode_of(&found.stat));
                let rank = Rank::RemoveDir(std::cmp::Reverse(depth));
                self.push(rank, Act::RemoveDir { mode }, change);
            }
            (Some(FileType::Directory), New::Absent) => {
                self.push(Rank::DropDir(std::cmp::Reverse(depth)), Act::DropDir, change);
            }
            (Some(FileType::Directory), New::File(..) | New::Symlink(_)) => {
                let mode = found.as_ref().map_or(0o700, |found| mode_of(&found.stat));
                let rank = Rank::RemoveDir(std::cmp::Reverse(depth));
                self.push(rank, Act::RemoveDir { mode }, change);
                self.push_file(Act::Put, change, None)?;
            }
            (Some(FileType::Directory), New::Directory(mode)) => {
                let old = found.as_ref().map_or(0o700, |found| mode_of(&found.stat));
                self.push_mode(change, old, mode.unwrap_or(old));
            }
            (Some(_), New::Absent) => self.push_take(change, found.as_ref()),
            (Some(_), New::File(..) | New::Symlink(_)) => {
                self.push_file(Act::Swap, change, found)?;
            }
            (Some(_), New::Directory(mode)) => {
                self.push_take(change, found.as_ref());
                self.push_dir(change, mode);
            }
        }
        Ok(())
    }

    /// Returns whether a directory above gives way to something that is none.
    fn gives_way_above(&self, path: &Path) -> bool {
        let becomes_file =
            |change: &&&Change<'_>| matches!(change.new, New::File(..) | New::Symlink(_));
        path.ancestors().skip(1).any(|above| self.by_path.get(above).filter(becomes_file).is_some())
    }

    /// Returns how the directory of a path stands; `None` when nothing is there and nothing
    /// shall be.
    fn look(
        &mut self,
        change: &Change<'_>,
        parent: &Path,
    ) -> Result<Option<Standing>, CommitError> {
        if matches!(change.new, New::Absent) {
            // What goes needs no directory above it.
            let id = self.dirs.id(parent);
            return match self.dirs.fd(id) {
                Ok(_) => Ok(Some(Standing::There)),
                Err(error) if is_nowhere(&error) => Ok(None),
                Err(error) => Err(CommitError::io(&change.path, "open its directory")(error)),
            };
        }
        let goes = |above: &&Change<'_>| !matches!(above.new, New::Directory(_) | New::Absent);
        if let Some(above) = self.by_path.get(parent).filter(|above| goes(above)) {
            let path = above.path.clone();
            return Err(CommitError::NotRegular { path, found: "a file with something below it" });
        }
        self.stand(parent).map(Some)
    }

    /// Returns whether a directory is there, and sees to it that it will be. Goes up and down
    /// again without recursion: a path may have two thousand directories.
    fn stand(&mut self, dir: &Path) -> Result<Standing, CommitError> {
        let mut missing = Vec::new();
        let mut at = dir;
        let mut standing = loop {
            if let Some(standing) = self.standing.get(at) {
                break *standing;
            }
            let id = self.dirs.id(at);
            match (self.dirs.fd(id), at.parent()) {
                (Ok(_), _) => {
                    self.standing.insert(at.to_owned(), Standing::There);
                    break Standing::There;
                }
                (Err(error), Some(above)) if is_nowhere(&error) && !self.dirs.is_root(at) => {
                    missing.push((at, error));
                    at = above;
                }
                (Err(error), _) => return Err(CommitError::io(at, "open the directory")(error)),
            }
        };
        while let Some((dir, error)) = missing.pop() {
            self.make_way(dir, error, standing)?;
            standing = Standing::Coming;
            self.standing.insert(dir.to_owned(), standing);
        }
        Ok(standing)
    }

    /// Sees to it that a directory is made; `above` is how the one above it stands.
    fn make_way(
        &mut self,
        dir: &Path,
        error: io::Error,
        above: Standing,
    ) -> Result<(), CommitError> {
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Err(CommitError::io(dir, "open the directory")(error));
        };
        let planned = self.by_path.get(dir).map(|change| change.new);
        if above == Standing::There {
            let id = self.dirs.id(parent);
            let found = self.dirs.fd(id).and_then(|fd| self.dirs.disk.stat(&fd, name));
            let found = found.map_err(CommitError::io(dir, "look at"))?;
            // Something else is there: it must be about to go.
            if found.is_some() && planned.is_none() {
                return Err(CommitError::io(dir, "open the directory")(error));
            }
        }
        if !matches!(planned, Some(New::Directory(_))) {
            let step = self.step(Act::MakeDir, dir, parent, name);
            let depth = dir.components().count();
            self.steps.push((Rank::MakeDir(depth), Task { step, change: None, model: None }));
        }
        Ok(())
    }

    /// Checks what is at a path against what was expected.
    fn check(
        &mut self,
        change: &Change<'_>,
        parent: &Path,
        name: &OsStr,
    ) -> Result<Option<Found>, CommitError> {
        let path = &change.path;
        let id = self.dirs.id(parent);
        let fd = self.dirs.fd(id).map_err(CommitError::io(path, "open its directory"))?;
        let disk = self.dirs.disk;
        let stat = disk.stat(&fd, name).map_err(CommitError::io(path, "look at"))?;
        check_kind(path, change.old, stat.as_ref().map(kind_of))?;
        let Some(stat) = stat else { return Ok(None) };
        let file = match change.old {
            Old::Seen(_, seen) if looks_same(&stat, seen) => None,
            _ => check_content(disk, &fd, name, change)?,
        };
        let takes = matches!(change.new, New::File(_, Mode::Keep | Mode::Executable(_, None)));
        let mut attributes = Attributes::new();
        if takes && kind_of(&stat) == FileType::RegularFile {
            // Without the right to read it there is no way to keep what it has.
            let file = match file {
                Some(file) => file,
                None => disk.open_file(&fd, name).map_err(CommitError::io(path, "read"))?,
            };
            attributes = disk.attributes(&file).map_err(CommitError::io(path, "read"))?;
        }
        if kind_of(&stat) == FileType::RegularFile && stat.st_nlink > 1 {
            let others = stat.st_nlink - 1;
            let names = if others == 1 { "another name" } else { "other names" };
            if !matches!(change.new, New::Absent) {
                self.notes.push(format!(
                    "{}: this file has {names}, a hard link, which keeps the old content",
                    path.display()
                ));
            }
        }
        Ok(Some(Found { stat, attributes }))
    }

    fn push_file(
        &mut self,
        act: Act,
        change: &'c Change<'a>,
        found: Option<Found>,
    ) -> Result<(), CommitError> {
        let old = found.as_ref().map(|found| Stamp::new(&found.stat));
        let model = match change.new {
            New::File(_, Mode::Like(like) | Mode::Executable(_, Some(like))) => {
                self.model_of(like)?
            }
            New::File(_, Mode::Keep | Mode::Executable(_, None)) => found
                .filter(|found| kind_of(&found.stat) == FileType::RegularFile)
                .map(|Found { stat, attributes }| Model { stat, attributes }),
            New::File(_, Mode::Exact(_))
            | New::Absent
            | New::Symlink(_)
            | New::Directory(_)
            | New::Moved(..) => None,
        };
        let mut step = self.step_of(act, change);
        step.old = old.filter(|_| act == Act::Swap);
        self.steps.push((Rank::File, Task { step, change: Some(change), model }));
        Ok(())
    }

    /// Looks at the file whose mode and attributes another takes.
    fn model_of(&mut self, path: &Path) -> Result<Option<Model>, CommitError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let id = self.dirs.id(parent);
        let fd = self.dirs.fd(id).map_err(CommitError::io(path, "open its directory"))?;
        let disk = self.dirs.disk;
        let file = disk.open_file(&fd, name).map_err(CommitError::io(path, "read"))?;
        let stat = disk.stat_open(&file).map_err(CommitError::io(path, "look at"))?;
        let attributes = disk.attributes(&file).map_err(CommitError::io(path, "read"))?;
        Ok((kind_of(&stat) == FileType::RegularFile).then_some(Model { stat, attributes }))
    }

    fn push_moved(
        &mut self,
        change: &'c Change<'a>,
        from: &Path,
        check: &dyn Fn(&Stat) -> bool,
    ) -> Result<(), CommitError> {
        let (Some(parent), Some(name)) = (from.parent(), from.file_name()) else {
            return Err(CommitError::Outside { path: from.to_owned() });
        };
        if !self.dirs.holds(from) {
            return Err(CommitError::Outside { path: from.to_owned() });
        }
        let id = self.dirs.id(parent);
        let fd = self.dirs.fd(id).map_err(CommitError::io(from, "open its directory"))?;
        let stat = self.dirs.disk.stat(&fd, name).map_err(CommitError::io(from, "look at"))?;
        let is_it = |stat: &Stat| kind_of(stat) == FileType::RegularFile && check(stat);
        let Some(stat) = stat.filter(is_it) else {
            return Err(CommitError::Changed { path: from.to_owned() });
        };
        let mut step = self.step(Act::Move, from, parent, name);
        step.temp_dir = self.dirs.id(change.path.parent().unwrap_or(&change.path));
        step.to = change.path.file_name().unwrap_or_default().to_owned();
        step.old = Some(Stamp::new(&stat));
        self.steps.push((Rank::Move, Task { step, change: Some(change), model: None }));
        Ok(())
    }

    fn push_take(&mut self, change: &'c Change<'a>, found: Option<&Found>) {
        let mut step = self.step_of(Act::Take, change);
        step.old = found.map(|found| Stamp::new(&found.stat));
        self.steps.push((Rank::Take, Task { step, change: Some(change), model: None }));
    }

    fn push_dir(&mut self, change: &'c Change<'a>, mode: Option<RawMode>) {
        let depth = change.path.components().count();
        self.push(Rank::MakeDir(depth), Act::MakeDir, change);
        if let Some(new) = mode {
            let last = new & WRITE_AND_SEARCH != WRITE_AND_SEARCH;
            self.push(Rank::CloseMode, Act::SetMode { old: 0o700, new, last }, change);
        }
    }

    fn push_mode(&mut self, change: &'c Change<'a>, old: RawMode, new: RawMode) {
        let opens = new & WRITE_AND_SEARCH == WRITE_AND_SEARCH;
        if old != new {
            let rank = if opens { Rank::OpenMode } else { Rank::CloseMode };
            self.push(rank, Act::SetMode { old, new, last: !opens }, change);
        }
    }

    fn push(&mut self, rank: Rank, act: Act, change: &'c Change<'a>) {
        let step = self.step_of(act, change);
        self.steps.push((rank, Task { step, change: Some(change), model: None }));
    }

    fn step_of(&mut self, act: Act, change: &Change<'_>) -> Step {
        let path = change.path.as_path();
        let parent = path.parent().unwrap_or(path);
        self.step(act, path, parent, path.file_name().unwrap_or_default())
    }

    fn step(&mut self, act: Act, path: &Path, parent: &Path, name: &OsStr) -> Step {
        let temp_dir = match act {
            Act::Take | Act::Put | Act::Swap => self.temp_dir(path),
            Act::Move
            | Act::MakeDir
            | Act::RemoveDir { .. }
            | Act::DropDir
            | Act::SetMode { .. } => None,
        };
        let dir = self.dirs.id(parent);
        let temp_dir = temp_dir.unwrap_or(dir);
        Step { act, dir, name: name.to_owned(), temp_dir, to: OsString::new(), old: None }
    }

    /// Returns the nearest directory above a path that is there and stays: a temporary name in
    /// one that comes or goes would stand in the way.
    fn temp_dir(&mut self, path: &Path) -> Option<DirId> {
        for dir in path.ancestors().skip(1) {
            if self.dirs.is_root(dir) {
                return Some(self.dirs.id(dir));
            }
            let stays =
                self.by_path.get(dir).is_none_or(|above| matches!(above.new, New::Directory(_)));
            let id = self.dirs.id(dir);
            if stays
                && self.standing.get(dir) != Some(&Standing::Coming)
                && self.dirs.fd(id).is_ok()
            {
                return Some(id);
            }
        }
        None
    }

    /// Opens the directories of ours that something is done in and that are closed to us, and
    /// closes them at the end, where nobody wants other bits for them.
    fn open_directories(&mut self) {
        let is_name = |step: &Step| !matches!(step.act, Act::SetMode { .. });
        let steps = self.steps.iter().map(|(_, task)| &task.step).filter(|step| is_name(step));
        let mut ids: Vec<DirId> = steps.flat_map(|step| [step.dir, step.temp_dir]).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let path = self.dirs.path(id).to_owned();
            let Some(old) = self.closed_mode(id).filter(|_| !self.dirs.is_root(&path)) else {
                continue;
            };
            let wished = match self.by_path.get(path.as_path()).map(|change| change.new) {
                Some(New::Directory(mode)) => mode.map(|mode| mode & WRITE_AND_SEARCH),
                Some(_) | None => None,
            };
            let open = old | WRITE_AND_SEARCH;
            if wished != Some(WRITE_AND_SEARCH) {
                self.push_bits(&path, Rank::OpenMode, Act::SetMode { old, new: open, last: false });
            }
            if wished.is_none() {
                let act = Act::SetMode { old: open, new: old, last: true };
                self.push_bits(&path, Rank::CloseMode, act);
            }
        }
    }

    /// Returns the bits of a directory that is ours and closed to us.
    fn closed_mode(&mut self, id: DirId) -> Option<RawMode> {
        let fd = self.dirs.fd(id).ok()?;
        let stat = self.dirs.disk.stat_open(&*fd).ok()?;
        let user = rustix::process::geteuid();
        let is_ours = !user.is_root() && stat.st_uid == user.as_raw();
        let mode = mode_of(&stat);
        (is_ours && mode & WRITE_AND_SEARCH != WRITE_AND_SEARCH).then_some(mode)
    }

    fn push_bits(&mut self, path: &Path, rank: Rank, act: Act) {
        let parent = path.parent().unwrap_or(path);
        let step = self.step(act, path, parent, path.file_name().unwrap_or_default());
        self.steps.push((rank, Task { step, change: None, model: None }));
    }

    fn finish(mut self) -> Prepared<'c, 'a> {
        // Stable: files keep the order of the changes.
        self.steps.sort_by_key(|(rank, _)| *rank);
        let tasks = self.steps.into_iter().map(|(_, task)| task).collect();
        Prepared { tasks, notes: self.notes }
    }
}

/// Checks that what was found is of the expected kind.
fn check_kind(path: &Path, old: Old<'_>, found: Option<FileType>) -> Result<(), CommitError> {
    let name = match found {
        Some(FileType::RegularFile | FileType::Symlink) | None => None,
        Some(FileType::Directory) => Some("a directory"),
        Some(FileType::Fifo) => Some("a named pipe"),
        Some(FileType::Socket) => Some("a socket"),
        Some(FileType::CharacterDevice | FileType::BlockDevice) => Some("a device"),
        Some(_) => Some("something else"),
    };
    let fits = match old {
        Old::Absent => found.is_none(),
        Old::Bytes(_) | Old::Seen(..) | Old::File(_) => found == Some(FileType::RegularFile),
        Old::Symlink(_) => found == Some(FileType::Symlink),
        Old::Directory => found == Some(FileType::Directory),
        Old::Any => name.is_none() || found == Some(FileType::Directory),
    };
    match (fits, name) {
        (true, _) => Ok(()),
        (false, Some(found)) if !matches!(old, Old::Directory) => {
            Err(CommitError::NotRegular { path: path.to_owned(), found })
        }
        (false, _) => Err(CommitError::Changed { path: path.to_owned() }),
    }
}

/// Checks a file's bytes or a link's target; returns the file that was read.
pub(super) fn check_content(
    disk: &Disk,
    dir: &OwnedFd,
    name: &OsStr,
    change: &Change<'_>,
) -> Result<Option<File>, CommitError> {
    let path = &change.path;
    let changed = || CommitError::Changed { path: path.clone() };
    match change.old {
        Old::Absent | Old::Directory | Old::Any => Ok(None),
        Old::Symlink(target) => {
            let found = disk.read_link(dir, name).map_err(CommitError::io(path, "read"))?;
            if found == target.as_os_str() { Ok(None) } else { Err(changed()) }
        }
        Old::Bytes(_) | Old::Seen(..) | Old::File(_) => {
            let file = disk.open_file(dir, name).map_err(CommitError::io(path, "read"))?;
            let stat = disk.stat_open(&file).map_err(CommitError::io(path, "look at"))?;
            if kind_of(&stat) != FileType::RegularFile {
                return Err(changed());
            }
            let same =
                match change.old {
                    Old::Bytes(bytes) | Old::Seen(bytes, _) => Ok(i128::from(stat.st_size))
                        .and_then(|size| match size == bytes.len() as i128 {
                            true => holds(disk, &file, bytes),
                            false => Ok(false),
                        }),
                    Old::File(check) => check(&file),
                    Old::Absent | Old::Directory | Old::Any | Old::Symlink(_) => Ok(true),
                };
            match same.map_err(CommitError::io(path, "read"))? {
                true => Ok(Some(file)),
                false => Err(changed()),
            }
        }
    }
}

/// Returns whether a file is the one that was seen, and was not changed since as far as its
/// metadata tells.
fn looks_same(stat: &Stat, seen: &Metadata) -> bool {
    let nanos = |ns| i64::try_from(ns).unwrap_or(-1);
    (stat.st_dev, stat.st_ino) == (seen.dev(), seen.ino())
        && u64::try_from(stat.st_size) == Ok(seen.size())
        && (stat.st_mtime, nanos(stat.st_mtime_nsec)) == (seen.mtime(), seen.mtime_nsec())
        && (stat.st_ctime, nanos(stat.st_ctime_nsec)) == (seen.ctime(), seen.ctime_nsec())
}

/// Returns whether a file holds exactly these bytes, reading it piece by piece.
fn holds(disk: &Disk, file: &File, mut expected: &[u8]) -> io::Result<bool> {
    let mut piece = vec![0; PIECE_BYTES.min(expected.len() + 1)];
    loop {
        let length = disk.read(file, &mut piece)?;
        let read = piece.get(..length).unwrap_or_default();
        match expected.strip_prefix(read) {
            Some(rest) if length > 0 => expected = rest,
            Some(rest) => return Ok(rest.is_empty()),
            None => return Ok(false),
        }
    }
}
