//! Does the steps of a commit, or takes them back.
//!
//! What a step has done is read from the disk, not remembered: taking back after a failure and
//! recovering after a kill are the same work. A name that somebody else has changed since is
//! left as it is. Called by `commit` and by `recover.rs`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use crate::store::commit::dirs::{DirId, Dirs};
use crate::store::commit::disk::{At, Disk, is_nowhere, is_unsupported, kind_of, mode_of};
use crate::store::commit::journal::{Journal, Plan};
use crate::store::commit::make::make;
use crate::store::commit::prepare::{Task, check_content, prepare};
use crate::store::commit::step::{Act, Stamp, Step, aside_name, temp_name};
use crate::store::commit::{Change, CommitError, Committed, Site};

/// New files, or directories, that are open at one time to be waited for together.
const TOGETHER_MAX: usize = 128;

/// Is `commit` on this way to the system.
pub(super) fn commit_on(
    disk: &Disk,
    changes: &[Change<'_>],
    site: &Site<'_>,
) -> Result<Committed, CommitError> {
    let mut dirs = Dirs::new(disk, site.roots);
    let prepared = prepare(changes, &mut dirs)?;
    let mut notes = prepared.notes;
    if prepared.tasks.is_empty() {
        return Ok(Committed { notes });
    }
    let steps: Vec<Step> = prepared.tasks.iter().map(|task| task.step.clone()).collect();
    let commit = uuid::Uuid::now_v7().simple().to_string();
    let mut journal = None;
    if let Some(directory) = site.journal {
        let plan = Plan::new(commit.clone(), &dirs, steps.clone());
        journal = match Journal::begin(disk, directory, &plan) {
            Ok(journal) => Some(journal),
            // Within a sandbox, say. One rename needs none; for more it is worth a word.
            Err(error) if is_refused(&error) => {
                if steps.len() > 1 {
                    notes.push(format!(
                        "no journal could be kept in {} ({error}); had this been killed midway, \
                         some files would have changed and others not",
                        directory.display()
                    ));
                }
                None
            }
            Err(error) => return Err(CommitError::io(directory, "write the journal in")(error)),
        };
    }
    let stamps = vec![None; steps.len()];
    let mut work = Work { dirs, commit, steps, stamps, journal, begun: 0 };
    match work.run(&prepared.tasks, site, &mut notes) {
        Ok(()) => {
            notes.extend(work.finish());
            Ok(Committed { notes })
        }
        Err(cause) => Err(work.give_up(cause)),
    }
}

/// A commit in flight.
#[derive(Debug)]
pub(super) struct Work<'d> {
    pub(super) dirs: Dirs<'d>,
    pub(super) commit: String,
    pub(super) steps: Vec<Step>,
    /// Of the new file of each step.
    pub(super) stamps: Vec<Option<Stamp>>,
    pub(super) journal: Option<Journal>,
    /// How many steps may have done something.
    pub(super) begun: usize,
}

/// What can be seen of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It was not done.
    NotDone,
    /// It was done.
    Done,
    /// It was done, and somebody changed the name since.
    Overtaken,
}

/// The two names of a step, ready for calls.
struct Ends {
    dir: Arc<OwnedFd>,
    temp_dir: Arc<OwnedFd>,
    temp: std::ffi::OsString,
}

impl Ends {
    fn name<'a>(&'a self, step: &'a Step) -> At<'a> {
        At { dir: &self.dir, name: &step.name }
    }

    fn temp(&self) -> At<'_> {
        At { dir: &self.temp_dir, name: &self.temp }
    }

    fn aside<'a>(&'a self, name: &'a OsStr) -> At<'a> {
        At { dir: &self.temp_dir, name }
    }
}

impl Work<'_> {
    /// Does everything up to the point from which there is no way back.
    fn run(
        &mut self,
        tasks: &[Task<'_, '_>],
        site: &Site<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), CommitError> {
        self.make_all(tasks, notes)?;
        if !(site.go_on)() {
            return Err(CommitError::Stopped);
        }
        for (index, task) in tasks.iter().enumerate() {
            self.begun = index + 1;
            let path = self.dirs.path_of(task.step.dir, &task.step.name);
            self.perform(index).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => {
                    CommitError::Changed { path: path.clone() }
                }
                _ => CommitError::io(&path, verb_of(task.step.act))(error),
            })?;
            self.check_displaced(index, task, &path)?;
        }
        self.sync_dirs().map_err(|(path, error)| CommitError::io(&path, "sync")(error))
    }

    /// Makes all new files, and waits until they and the record of them are on disk.
    fn make_all(
        &mut self,
        tasks: &[Task<'_, '_>],
        notes: &mut Vec<String>,
    ) -> Result<(), CommitError> {
        let disk = self.dirs.disk;
        let sync = |files: &mut Vec<File>, path: &Path| {
            let synced = disk.sync_each(files);
            files.clear();
            synced.map_err(CommitError::io(path, "sync"))
        };
        let mut files = Vec::new();
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.step.act.brings()) {
            let Some(change) = task.change else { continue };
            // The directory it will stand in may be yet to come.
            let ends = self
                .temp_ends(index, &task.step)
                .map_err(CommitError::io(&change.path, "open its directory"))?;
            let temp = (&*ends.temp_dir, &*ends.temp);
            let made = make(self.dirs.disk, temp, (change, task.model.as_ref()))?;
            notes.extend(made.lost);
            files.extend(made.file);
            if let Some(place) = self.stamps.get_mut(index) {
                *place = Some(made.stamp);
            }
            if files.len() >= TOGETHER_MAX {
                sync(&mut files, &change.path)?;
            }
        }
        let path = self.dirs.path(0).to_owned();
        sync(&mut files, &path)?;
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut written = journal.ready(disk, &self.stamps);
        // One rename is whole or not at all, whatever the record says.
        if self.steps.len() > 1 {
            written = written.and_then(|()| journal.sync(disk));
        }
        written.map_err(CommitError::io(&path, "write the journal for"))
    }

    /// Does one step.
    pub(super) fn perform(&mut self, index: usize) -> io::Result<()> {
        let Some(step) = self.steps.get(index).cloned() else { return Ok(()) };
        let ends = self.ends(index, &step)?;
        let disk = self.dirs.disk;
        let name = ends.name(&step);
        match step.act {
            Act::Take => disk.rename_new(name, ends.temp()),
            Act::Put => disk.rename_new(ends.temp(), name),
            Act::Swap => match disk.exchange(ends.temp(), name) {
                Err(error) if is_unsupported(&error) => exchange_slowly(disk, &step, &ends),
                done => done,
            },
            Act::MakeDir => match disk.make_dir(name, 0o777) {
                // Somebody made it meanwhile, which is as good if it is one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.open_dir_of(&step).map(|_| ())
                }
                made => made,
            },
            Act::RemoveDir { .. } => {
                let path = self.dirs.path_of(step.dir, &step.name);
                disk.remove_dir(name)?;
                self.dirs.forget(&path);
                Ok(())
            }
            Act::DropDir => Ok(()),
            Act::SetMode { new, .. } => {
                let dir = self.open_dir_of(&step)?;
                disk.set_mode(&*dir, new)
            }
        }
    }

    /// Checks that what a step displaced is what the caller expected.
    fn check_displaced(
        &mut self,
        index: usize,
        task: &Task<'_, '_>,
        path: &Path,
    ) -> Result<(), CommitError> {
        let Some(change) = task.change else { return Ok(()) };
        if !matches!(task.step.act, Act::Take | Act::Swap) {
            return Ok(());
        }
        let ends = self.ends(index, &task.step).map_err(CommitError::io(path, "open"))?;
        match check_content(self.dirs.disk, &ends.temp_dir, &ends.temp, change) {
            // A link where a file was, or the other way round.
            Err(CommitError::Io { source, .. }) if source.kind() != io::ErrorKind::Other => {
                let stat = self.dirs.disk.stat(&ends.temp_dir, &ends.temp);
                let kind = stat.ok().flatten().map(|stat| kind_of(&stat));
                match kind {
                    Some(FileType::RegularFile) | None => {
                        Err(CommitError::io(path, "read")(source))
                    }
                    Some(_) => Err(CommitError::Changed { path: path.to_owned() }),
                }
            }
            checked => checked.map(|_| ()),
        }
    }

    /// Removes what is left over; returns what could not be, which the next start removes.
    pub(super) fn finish(mut self) -> Option<String> {
        let disk = self.dirs.disk;
        let noted = self.journal.as_ref().map_or(Ok(()), |journal| journal.done(disk));
        if noted.is_err() {
            return Some("the journal could not be written; the next start tidies up".to_owned());
        }
        let mut cleaned = true;
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            let done = match step.act {
                Act::Take | Act::Swap => self.drop_temp(index, &step),
                Act::DropDir => self.drop_dir(&step),
                Act::Put | Act::MakeDir | Act::RemoveDir { .. } | Act::SetMode { .. } => Ok(()),
            };
            cleaned &= done.is_ok();
        }
        // The record stays while there is something left for the next start to remove.
        let removed = match self.journal.take() {
            Some(journal) if cleaned => journal.remove(disk).is_ok(),
            Some(_) => false,
            None => cleaned,
        };
        let name = temp_name(&self.commit, 0);
        (!removed).then(|| {
            format!("temporary files named like {} could not all be removed", name.display())
        })
    }

    /// Takes everything back after a failure, and returns what to say of it.
    fn give_up(mut self, cause: CommitError) -> CommitError {
        let (left, broken) = self.roll_back();
        if !broken && let Some(journal) = self.journal.take() {
            // If this fails the next start finds that there is nothing to do.
            let _ = journal.remove(self.dirs.disk);
        }
        if left.is_empty() {
            return cause;
        }
        CommitError::NotRestored { cause: Box::new(cause), left }
    }

    /// Takes back what was begun, last first, and removes the new files. Returns what is not as
    /// it was, one sentence each, and whether the system refused something.
    pub(super) fn roll_back(&mut self) -> (Vec<String>, bool) {
        let (mut left, mut broken) = (Vec::new(), false);
        for index in (0..self.begun.min(self.steps.len())).rev() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            match self.take_back(index, &step) {
                Ok(None) => {}
                Ok(Some(sentence)) => left.push(sentence),
                Err(error) => {
                    let path = self.dirs.path_of(step.dir, &step.name);
                    left.push(format!("{}: {error}", path.display()));
                    broken = true;
                }
            }
        }
        let renamed = self.begun > 0;
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            let dropped = match step.act {
                Act::Put | Act::Swap => self.drop_new(index, &step, renamed.into()),
                Act::Take => Ok(()),
                Act::MakeDir | Act::RemoveDir { .. } | Act::DropDir | Act::SetMode { .. } => {
                    continue;
                }
            };
            broken |= dropped.and_then(|()| self.drop_twin(index, &step)).is_err();
        }
        if renamed && !broken && self.sync_dirs().is_err() {
            broken = true;
        }
        (left, broken)
    }

    /// Returns what can be seen of a step.
    pub(super) fn state(&mut self, index: usize) -> io::Result<State> {
        let Some(step) = self.steps.get(index).cloned() else { return Ok(State::NotDone) };
        let disk = self.dirs.disk;
        let at_name = match self.dirs.fd(step.dir) {
            Ok(dir) => disk.stat(&dir, &step.name)?,
            // Its directory was to be made, or is gone: then the name is not there either.
            Err(error) if is_nowhere(&error) => None,
            Err(error) => return Err(error),
        };
        let ends = match self.temp_ends(index, &step) {
            Ok(ends) => ends,
            Err(error) if is_nowhere(&error) => return Ok(State::NotDone),
            Err(error) => return Err(error),
        };
        let at_temp = disk.stat(&ends.temp_dir, &ends.temp)?;
        let new = self.stamps.get(index).copied().flatten();
        let is_new = |stat: &Option<Stat>| {
            stat.as_ref().map(Stamp::new).is_some_and(|stamp| Some(stamp) == new)
        };
        let is_dir = |stat: Stat| kind_of(&stat) == FileType::Directory;
        Ok(match step.act {
            Act::Put | Act::Swap if is_new(&at_name) => State::Done,
            Act::Put | Act::Swap if is_new(&at_temp) => State::NotDone,
            Act::Put | Act::Swap => State::Overtaken,
            // Both names may be of one file where renaming takes two calls.
            Act::Take if at_name.is_some() && (at_temp.is_none() || is_one(&at_name, &at_temp)) => {
                State::NotDone
            }
            Act::Take if at_name.is_some() => State::Overtaken,
            // A file may have been there before a directory, or be there after it.
            Act::MakeDir if !at_name.is_some_and(is_dir) => State::NotDone,
            Act::RemoveDir { .. } if at_name.is_some_and(is_dir) => State::NotDone,
            Act::SetMode { new, .. } if at_name.is_none_or(|stat| mode_of(&stat) != new) => {
                State::NotDone
            }
            Act::Take
            | Act::MakeDir
            | Act::RemoveDir { .. }
            | Act::DropDir
            | Act::SetMode { .. } => State::Done,
        })
    }

    /// Takes one step back; returns a sentence when somebody else's change is in the way.
    fn take_back(&mut self, index: usize, step: &Step) -> io::Result<Option<String>> {
        if step.act == Act::DropDir {
            return Ok(None);
        }
        let ends = match self.ends(index, step) {
            Ok(ends) => ends,
            Err(error) if is_nowhere(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let state = self.state(index)?;
        let disk = self.dirs.disk;
        let name = ends.name(step);
        match (step.act, state) {
            (Act::Swap, _) => self.take_swap_back(&ends, step, state),
            (Act::Put, State::Done) => self.take_put_back(index, &ends, step),
            (Act::Take, State::Done) => match disk.rename_new(ends.temp(), name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                done => done.map(|()| None),
            },
            (Act::Put | Act::Take, State::Overtaken) => Ok(self.overtaken(&ends, step)),
            (Act::MakeDir, State::Done) => match disk.remove_dir(name) {
                // What somebody put in there stays, and the directory with it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(None),
                done => {
                    let path = self.dirs.path_of(step.dir, &step.name);
                    self.dirs.forget(&path);
                    done.map(|()| None)
                }
            },
            (Act::RemoveDir { mode }, State::Done) => {
                disk.make_dir(name, 0o700)?;
                let path = self.dirs.path_of(step.dir, &step.name);
                self.dirs.forget(&path);
                let dir = self.open_dir_of(step)?;
                disk.set_mode(&*dir, mode).map(|()| None)
            }
            (Act::RemoveDir { mode }, State::NotDone) => {
                // Taking back that was cut short: the directory is there, its mode is not.
                let dir = self.open_dir_of(step)?;
                if mode_of(&disk.stat_open(&*dir)?) != mode {
                    disk.set_mode(&*dir, mode)?;
                }
                Ok(None)
            }
            (Act::SetMode { old, .. }, State::Done) => {
                let dir = self.open_dir_of(step)?;
                disk.set_mode(&*dir, old).map(|()| None)
            }
            (_, State::NotDone | State::Overtaken) | (Act::DropDir, State::Done) => Ok(None),
        }
    }

    fn take_swap_back(
        &mut self,
        ends: &Ends,
        step: &Step,
        state: State,
    ) -> io::Result<Option<String>> {
        let disk = self.dirs.disk;
        let name = ends.name(step);
        let aside = aside_name(&ends.temp);
        let aside = ends.aside(&aside);
        let has_aside = disk.stat(aside.dir, aside.name)?.is_some();
        let has_temp = disk.stat(&ends.temp_dir, &ends.temp)?.is_some();
        match state {
            State::Done if has_temp => match disk.exchange(ends.temp(), name) {
                Err(error) if is_unsupported(&error) => {
                    disk.rename(ends.temp(), name).map(|()| None)
                }
                done => done.map(|()| None),
            },
            // Between the renames of a file system that cannot exchange.
            State::Done if has_aside => disk.rename(aside, name).map(|()| None),
            State::Done => Ok(self.overtaken(ends, step)),
            State::NotDone if has_aside => {
                // Either the file's second name, or, with the name free, the file itself.
                match disk.rename_new(aside, name) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        disk.unlink(aside).map(|()| None)
                    }
                    done => done.map(|()| None),
                }
            }
            State::NotDone => Ok(None),
            State::Overtaken => Ok(self.overtaken(ends, step)),
        }
    }

    /// Takes a new file away: first to its temporary name, so that what is removed is surely ours.
    fn take_put_back(
        &mut self,
        index: usize,
        ends: &Ends,
        step: &Step,
    ) -> io::Result<Option<String>> {
        let disk = self.dirs.disk;
        let new = self.stamps.get(index).copied().flatten();
        let at_temp = |disk: &Disk| {
            disk.stat(&ends.temp_dir, &ends.temp).map(|stat| stat.as_ref().map(Stamp::new))
        };
        if at_temp(disk)? == new {
            // It has both names, where renaming takes two calls.
            return disk.unlink(ends.name(step)).map(|()| None);
        }
        disk.rename_new(ends.name(step), ends.temp())?;
        if at_temp(disk)? == new {
            return Ok(None);
        }
        disk.rename_new(ends.temp(), ends.name(step))?;
        Ok(self.overtaken(ends, step))
    }

    /// Says that a name was changed by somebody else, and where the old content is.
    fn overtaken(&self, ends: &Ends, step: &Step) -> Option<String> {
        let path = self.dirs.path_of(step.dir, &step.name);
        let kept = self.dirs.disk.stat(&ends.temp_dir, &ends.temp).ok().flatten();
        let kept = kept.filter(|_| step.act != Act::Put).map(|_| {
            let temp = self.dirs.path_of(step.temp_dir, &ends.temp);
            format!("; what it held before is in {}", temp.display())
        });
        let kept = kept.unwrap_or_default();
        Some(format!(
            "{} was changed by another program and is left as it is{kept}",
            path.display()
        ))
    }

    /// Removes a new file that was not put in place.
    fn drop_new(&mut self, index: usize, step: &Step, renamed: Renamed) -> io::Result<()> {
        let ends = self.temp_ends(index, step)?;
        let disk = self.dirs.disk;
        let Some(stat) = disk.stat(&ends.temp_dir, &ends.temp)? else { return Ok(()) };
        let new = self.stamps.get(index).copied().flatten();
        // After the first rename an old file may have this name, and is the only copy of it.
        let stamp = Some(Stamp::new(&stat));
        if stamp == step.old || renamed == Renamed::Maybe && stamp != new {
            return Ok(());
        }
        disk.unlink(ends.temp())
    }

    /// Puts back old files of a record that does not say that anything was renamed. Such a
    /// record is true unless the disk lost a part of it, and then it must do no harm.
    /// Returns what could not be put back, one sentence each.
    pub(super) fn put_old_back(&mut self) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            if !matches!(step.act, Act::Take | Act::Swap) {
                continue;
            }
            let ends = match self.ends(index, &step) {
                Ok(ends) => ends,
                Err(error) if is_nowhere(&error) => continue,
                Err(error) => return Err(error),
            };
            let disk = self.dirs.disk;
            let Some(at_temp) = disk.stat(&ends.temp_dir, &ends.temp)? else { continue };
            let at_name = disk.stat(&ends.dir, &step.name)?;
            match (step.act, at_name) {
                (_, None) if step.act == Act::Take || Some(Stamp::new(&at_temp)) == step.old => {
                    disk.rename_new(ends.temp(), ends.name(&step))?;
                }
                (Act::Swap, Some(_)) if Some(Stamp::new(&at_temp)) == step.old => {
                    match disk.exchange(ends.temp(), ends.name(&step)) {
                        Err(error) if is_unsupported(&error) => {
                            disk.rename(ends.temp(), ends.name(&step))?;
                        }
                        done => done?,
                    }
                }
                (Act::Take, Some(_)) if !is_one(&at_name, &Some(at_temp)) => {
                    left.extend(self.overtaken(&ends, &step));
                }
                (_, _) => {}
            }
        }
        Ok(left)
    }

    /// Removes a temporary name of a file that has its own name as well.
    fn drop_twin(&mut self, index: usize, step: &Step) -> io::Result<()> {
        let ends = match self.ends(index, step) {
            Ok(ends) => ends,
            Err(error) if is_nowhere(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let disk = self.dirs.disk;
        let at_name = disk.stat(&ends.dir, &step.name)?;
        for twin in [ends.temp.clone(), aside_name(&ends.temp)] {
            if is_one(&at_name, &disk.stat(&ends.temp_dir, &twin)?) {
                disk.unlink(ends.aside(&twin))?;
            }
        }
        Ok(())
    }

    /// Removes what a process that was killed within a step may have left besides.
    pub(super) fn drop_rest(&mut self) {
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            let Ok(ends) = self.temp_ends(index, &step) else { continue };
            // What is not there needs no removing, and the rest is tried again next time.
            let _ = match step.act {
                Act::Put => self.dirs.disk.unlink(ends.temp()),
                Act::Swap => self.dirs.disk.unlink(ends.aside(&aside_name(&ends.temp))),
                _ => Ok(()),
            };
        }
    }

    fn drop_temp(&mut self, index: usize, step: &Step) -> io::Result<()> {
        let ends = self.temp_ends(index, step)?;
        match self.dirs.disk.unlink(ends.temp()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn drop_dir(&mut self, step: &Step) -> io::Result<()> {
        let Ok(dir) = self.dirs.fd(step.dir) else { return Ok(()) };
        match self.dirs.disk.remove_dir(At { dir: &dir, name: &step.name }) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::NotADirectory
                        | io::ErrorKind::DirectoryNotEmpty
                        | io::ErrorKind::ResourceBusy
                ) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    fn ends(&mut self, index: usize, step: &Step) -> io::Result<Ends> {
        let dir = self.dirs.fd(step.dir)?;
        let temp_dir = if step.temp_dir == step.dir {
            Arc::clone(&dir)
        } else {
            self.dirs.fd(step.temp_dir)?
        };
        Ok(Ends { dir, temp_dir, temp: temp_name(&self.commit, index) })
    }

    /// Is `ends` where only the temporary name counts.
    fn temp_ends(&mut self, index: usize, step: &Step) -> io::Result<Ends> {
        let temp_dir = self.dirs.fd(step.temp_dir)?;
        Ok(Ends { dir: Arc::clone(&temp_dir), temp_dir, temp: temp_name(&self.commit, index) })
    }

    fn open_dir_of(&mut self, step: &Step) -> io::Result<Arc<OwnedFd>> {
        let path = self.dirs.path_of(step.dir, &step.name);
        let id = self.dirs.id(&path);
        self.dirs.fd(id)
    }

    /// Waits until all names are on disk.
    fn sync_dirs(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let mut dirs: Vec<DirId> =
            self.steps.iter().flat_map(|step| [step.dir, step.temp_dir]).collect();
        dirs.sort_unstable();
        dirs.dedup();
        for some in dirs.chunks(TOGETHER_MAX) {
            let mut open = Vec::with_capacity(some.len());
            for dir in some {
                match self.dirs.fd(*dir) {
                    Ok(fd) => open.push(fd),
                    // One that was taken away: the one above knows.
                    Err(error) if is_nowhere(&error) => {}
                    Err(error) => return Err((self.dirs.path(*dir).to_owned(), error)),
                }
            }
            let path = some.first().map(|dir| self.dirs.path(*dir).to_owned());
            let synced = self.dirs.disk.sync_each(&open);
            synced.map_err(|error| (path.unwrap_or_default(), error))?;
        }
        Ok(())
    }
}

/// Whether renames have begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renamed {
    Not,
    Maybe,
}

impl From<bool> for Renamed {
    fn from(renamed: bool) -> Self {
        if renamed { Self::Maybe } else { Self::Not }
    }
}

/// Does an exchange in three renames, each of which leaves both files somewhere.
fn exchange_slowly(disk: &Disk, step: &Step, ends: &Ends) -> io::Result<()> {
    let aside = aside_name(&ends.temp);
    let (name, temp, aside) = (ends.name(step), ends.temp(), ends.aside(&aside));
    if disk.link(name, aside).is_err() {
        disk.rename_new(name, aside)?;
    }
    disk.rename(temp, name)?;
    disk.rename_new(aside, temp)
}

/// Returns whether two names are of one file.
fn is_one(one: &Option<Stat>, other: &Option<Stat>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        (Some(_) | None, _) => false,
    }
}

/// Returns whether the system would never let this process write there.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn verb_of(act: Act) -> &'static str {
    match act {
        Act::Take => "delete",
        Act::Put => "create",
        Act::Swap => "replace",
        Act::MakeDir => "create the directory",
        Act::RemoveDir { .. } | Act::DropDir => "remove the directory",
        Act::SetMode { .. } => "change the mode",
    }
}
