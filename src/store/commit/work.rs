//! A commit in flight: its steps, their names on the disk, and what can be seen of them.
//!
//! What a step has done is read from the disk, not remembered, so that this process and one
//! that recovers after a kill know the same. Done by `perform.rs`, taken back by
//! `take_back.rs`, tidied up by `finish.rs`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use crate::store::commit::dirs::{DirId, Dirs, System};
use crate::store::commit::disk::{At, is_nowhere, kind_of, mode_of};
use crate::store::commit::journal::Journal;
use crate::store::commit::step::{Act, Stamp, Step, temp_name};

/// New files, or directories, that are open at one time to be waited for together.
pub(super) const TOGETHER_MAX: usize = 128;

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
    /// Steps whose temporary names are not to be removed.
    pub(super) spared: Vec<usize>,
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
pub(super) struct Ends {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) temp_dir: Arc<OwnedFd>,
    pub(super) temp: OsString,
}

impl Ends {
    pub(super) fn name<'a>(&'a self, step: &'a Step) -> At<'a> {
        At { dir: &self.dir, name: &step.name }
    }

    pub(super) fn temp(&self) -> At<'_> {
        At { dir: &self.temp_dir, name: &self.temp }
    }

    pub(super) fn aside<'a>(&'a self, name: &'a OsStr) -> At<'a> {
        At { dir: &self.temp_dir, name }
    }
}

impl Work<'_> {
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
            Act::Move => {
                let at_to = disk.stat(&ends.temp_dir, &step.to)?;
                let is_it = |stat: &Option<Stat>| stat.as_ref().map(Stamp::new) == step.old;
                match (is_it(&at_to), is_it(&at_name)) {
                    (true, false) => State::Done,
                    // It has both names where renaming takes two calls.
                    (_, true) => State::NotDone,
                    (false, false) => State::Overtaken,
                }
            }
            // Both names may be of one file where renaming takes two calls.
            Act::Take if is_one(&at_name, &at_temp) => State::NotDone,
            // Something else may be there by now, and the old file be gone for good.
            Act::Take
                if at_temp.is_none()
                    && step.old.is_none_or(|old| at_name.as_ref().map(Stamp::new) == Some(old))
                    && at_name.is_some() =>
            {
                State::NotDone
            }
            Act::Take if at_temp.is_none() => State::Done,
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

    pub(super) fn ends(&mut self, index: usize, step: &Step) -> io::Result<Ends> {
        let dir = self.dirs.fd(step.dir)?;
        let temp_dir = if step.temp_dir == step.dir {
            Arc::clone(&dir)
        } else {
            self.dirs.fd(step.temp_dir)?
        };
        Ok(Ends { dir, temp_dir, temp: temp_name(&self.commit, index) })
    }

    /// Is `ends` where only the temporary name counts.
    pub(super) fn temp_ends(&mut self, index: usize, step: &Step) -> io::Result<Ends> {
        let temp_dir = self.dirs.fd(step.temp_dir)?;
        Ok(Ends { dir: Arc::clone(&temp_dir), temp_dir, temp: temp_name(&self.commit, index) })
    }

    pub(super) fn open_dir_of(&mut self, step: &Step) -> io::Result<Arc<OwnedFd>> {
        let path = self.dirs.path_of(step.dir, &step.name);
        let id = self.dirs.id(&path);
        self.dirs.fd(id)
    }

    /// Returns the file systems to sync whole: those of the directories that are picked, when
    /// the commit is a large one; else none.
    pub(super) fn systems(
        &mut self,
        pick: impl Fn(&Step) -> Option<DirId>,
    ) -> Result<Vec<System>, (PathBuf, io::Error)> {
        if self.steps.len() <= self.dirs.disk.each_max {
            return Ok(Vec::new());
        }
        let systems = self.dirs.systems(self.steps.iter().filter_map(pick));
        systems.map_err(|(id, error)| (self.dirs.path(id).to_owned(), error))
    }

    /// Waits until all names are on disk.
    pub(super) fn sync_dirs(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let systems = self.systems(|step| Some(step.dir))?;
        for (id, dir) in &systems {
            let synced = self.dirs.disk.sync_whole(dir);
            synced.map_err(|error| (self.dirs.path(*id).to_owned(), error))?;
        }
        if !systems.is_empty() {
            return Ok(());
        }
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
            let open: Vec<BorrowedFd<'_>> = open.iter().map(|fd| fd.as_fd()).collect();
            let synced = self.dirs.disk.sync_each(&open);
            synced.map_err(|error| (path.unwrap_or_default(), error))?;
        }
        Ok(())
    }
}

/// Returns whether two names are of one file.
pub(super) fn is_one(one: &Option<Stat>, other: &Option<Stat>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        (Some(_) | None, _) => false,
    }
}
