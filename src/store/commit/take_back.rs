//! Takes the steps of a commit back, after a failure here or after a kill somewhere else.
//!
//! A name that somebody else has changed since is left as it is, and said. Nothing is removed
//! that is not surely a new file of the commit. Called by `perform.rs` and `recover.rs`.

use std::io;
use std::ops::Range;

use crate::store::commit::CommitError;
use crate::store::commit::disk::{Disk, is_nowhere, is_unsupported, mode_of};
use crate::store::commit::step::{Act, Stamp, Step, aside_name, count_opens};
use crate::store::commit::work::{Ends, State, Work, is_one};

impl Work<'_> {
    /// Takes everything back after a failure, and returns what to say of it.
    pub(super) fn give_up(mut self, cause: CommitError) -> CommitError {
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
        let (opens, begun) = (count_opens(&self.steps), self.begun.min(self.steps.len()));
        broken |= self.take_all_back(opens..begun, &mut left);
        let renamed = begun > opens;
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index).cloned() else { continue };
            let dropped = match step.act {
                Act::Put | Act::Swap => self.drop_new(index, &step, renamed.into()),
                Act::Take => Ok(()),
                Act::Move
                | Act::MakeDir
                | Act::RemoveDir { .. }
                | Act::DropDir
                | Act::SetMode { .. } => {
                    continue;
                }
            };
            broken |= dropped.and_then(|()| self.drop_twin(index, &step)).is_err();
        }
        // Only now may directories be closed again.
        broken |= self.take_all_back(0..opens.min(begun), &mut left);
        if renamed && !broken && self.sync_dirs().is_err() {
            broken = true;
        }
        (left, broken)
    }

    /// Takes some steps back, last first; returns whether the system refused something.
    fn take_all_back(&mut self, range: Range<usize>, left: &mut Vec<String>) -> bool {
        let mut broken = false;
        for index in range.rev() {
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
        broken
    }

    /// Takes one step back; returns a sentence when somebody else's change is in the way.
    fn take_back(&mut self, index: usize, step: &Step) -> io::Result<Option<String>> {
        if step.act.is_last() {
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
            (Act::Move, State::Done | State::NotDone) => self.take_move_back(&ends, step),
            (Act::Put | Act::Take | Act::Move, State::Overtaken) => Ok(self.overtaken(&ends, step)),
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

    /// Gives a moved file its name back, and leaves it where it is when somebody has the name.
    fn take_move_back(&mut self, ends: &Ends, step: &Step) -> io::Result<Option<String>> {
        let disk = self.dirs.disk;
        let (name, to) = (ends.name(step), ends.aside(&step.to));
        let at_to = disk.stat(to.dir, to.name)?;
        if at_to.as_ref().map(Stamp::new) != step.old {
            return Ok(None);
        }
        if is_one(&disk.stat(name.dir, name.name)?, &at_to) {
            // It has both names, where renaming takes two calls.
            return disk.unlink(to).map(|()| None);
        }
        match disk.rename_new(to, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(self.overtaken(ends, step))
            }
            done => done.map(|()| None),
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
        let is_spared = stamp == step.old || self.spared.contains(&index);
        if is_spared || renamed == Renamed::Maybe && stamp != new {
            return Ok(());
        }
        disk.unlink(ends.temp())
    }

    /// Puts back old files of a record that does not say that anything was renamed. Such a
    /// record is true unless the disk lost a part of it, and then it must do no harm.
    /// Returns what could not be put back, one sentence each.
    pub(super) fn put_old_back(&mut self) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        for index in (0..self.steps.len()).rev() {
            let step = self.steps.get(index).filter(|step| step.act == Act::Move).cloned();
            if let Some(step) = step {
                left.extend(self.take_back(index, &step)?);
            }
        }
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
                    left.push(self.put_one_back(index, &step, &ends)?);
                }
                (Act::Take, Some(_)) if !is_one(&at_name, &Some(at_temp)) => {
                    left.extend(self.overtaken(&ends, &step));
                }
                (_, _) => {}
            }
        }
        Ok(left)
    }

    /// Puts an old file back where another stands, which may be new, or the user's by now: it
    /// stays, under a temporary name.
    fn put_one_back(&mut self, index: usize, step: &Step, ends: &Ends) -> io::Result<String> {
        let disk = self.dirs.disk;
        let aside = aside_name(&ends.temp);
        match disk.exchange(ends.temp(), ends.name(step)) {
            Err(error) if is_unsupported(&error) => {
                disk.rename_new(ends.name(step), ends.aside(&aside))?;
                disk.rename_new(ends.temp(), ends.name(step))?;
                disk.rename_new(ends.aside(&aside), ends.temp())?;
            }
            done => done?,
        }
        self.spared.push(index);
        let path = self.dirs.path_of(step.dir, &step.name);
        let temp = self.dirs.path_of(step.temp_dir, &ends.temp);
        Ok(format!("{}: what stood there is in {}", path.display(), temp.display()))
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
