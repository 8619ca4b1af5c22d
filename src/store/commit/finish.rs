//! Tidies up after a commit: removes the old files, and at last the record.
//!
//! From here there is no way back: all new names are on disk. What cannot be removed is left to
//! the next start. Called by `perform.rs` and `recover.rs`.

use std::collections::HashSet;
use std::io;

use rustix::fs::RawMode;

use crate::store::commit::disk::{At, is_nowhere};
use crate::store::commit::step::{Act, Step, aside_name, temp_name};
use crate::store::commit::work::{TOGETHER_MAX, Work};

impl Work<'_> {
    /// Removes what is left over; returns what could not be, which the next start removes.
    pub(super) fn finish(mut self) -> Option<String> {
        let disk = self.dirs.disk;
        let noted = self.journal.as_ref().map_or(Ok(()), |journal| journal.done(disk));
        if noted.is_err() {
            return Some("the journal could not be written; the next start tidies up".to_owned());
        }
        let mut cleaned = self.drop_temps();
        for step in self.steps.clone().iter().filter(|step| step.act == Act::DropDir) {
            cleaned &= self.drop_dir(step).is_ok();
        }
        // Nothing else can be done in a directory once it is closed.
        let mut notes: Vec<String> = Vec::new();
        for step in self.steps.clone() {
            if let Act::SetMode { new, last: true, .. } = step.act {
                let note = self.close(&step, new);
                cleaned &= note.is_none();
                notes.extend(note);
            }
        }
        // The record stays while there is something left for the next start to remove.
        let removed = match self.journal.take() {
            Some(journal) if cleaned => journal.remove(disk).is_ok(),
            Some(_) => false,
            None => cleaned,
        };
        let name = temp_name(&self.commit, 0);
        if !removed && notes.is_empty() {
            let name = name.display();
            notes.push(format!("temporary files named like {name} could not all be removed"));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Gives a directory its last bits; one that is gone needs none. Says it when that failed.
    fn close(&mut self, step: &Step, mode: RawMode) -> Option<String> {
        let closed = match self.open_dir_of(step) {
            Ok(dir) => self.dirs.disk.set_mode(&*dir, mode),
            Err(error) if is_nowhere(&error) => Ok(()),
            Err(error) => Err(error),
        };
        let path = self.dirs.path_of(step.dir, &step.name);
        closed.err().map(|error| format!("{}: cannot change the mode: {error}", path.display()))
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

    /// Takes the old files away, and returns whether all are gone.
    fn drop_temps(&mut self) -> bool {
        let (disk, mut cleaned) = (self.dirs.disk, true);
        let (mut names, mut open) = (Vec::new(), HashSet::new());
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index) else { continue };
            if !matches!(step.act, Act::Take | Act::Swap) {
                continue;
            }
            let id = step.temp_dir;
            match self.dirs.fd(id) {
                Ok(dir) => names.push((dir, temp_name(&self.commit, index))),
                Err(_) => cleaned = false,
            }
            open.insert(id);
            // As many as may keep their directories open.
            if open.len() >= TOGETHER_MAX {
                cleaned &= disk.unlink_each(&names);
                names.clear();
                open.clear();
            }
        }
        disk.unlink_each(&names) && cleaned
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
}
