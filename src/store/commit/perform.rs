//! Does the steps of a commit, one after the other.
//!
//! First all new files are made beside their names, then the names are exchanged, then all is
//! synced, and only then what was displaced goes. A failure up to there takes everything back.
//! Called by `commit`.

use std::io;
use std::ops::Range;
use std::path::Path;

use rustix::fs::FileType;

use crate::store::commit::dirs::Dirs;
use crate::store::commit::disk::{Disk, is_unsupported, kind_of};
use crate::store::commit::journal::{Journal, Plan};
use crate::store::commit::prepare::{Task, check_content, prepare};
use crate::store::commit::step::{Act, Stamp, Step, aside_name, count_opens};
use crate::store::commit::work::{Ends, Work};
use crate::store::commit::{Change, CommitError, Committed, Site};

/// Is `commit` on this way to the system.
pub(super) fn commit_on(
    disk: &Disk,
    changes: &[Change<'_>],
    site: &Site<'_>,
) -> Result<Committed, CommitError> {
    let mut dirs = Dirs::new(disk, site.roots);
    let prepared = prepare(changes, &mut dirs, site.opens_directories)?;
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
    let mut work = Work { dirs, commit, steps, stamps, journal, begun: 0, spared: Vec::new() };
    match work.run(&prepared.tasks, site, &mut notes) {
        Ok(()) => {
            notes.extend(work.finish());
            Ok(Committed { notes })
        }
        Err(cause) => Err(work.give_up(cause)),
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
        let opens = count_opens(&self.steps);
        self.perform_all(tasks, 0..opens)?;
        self.make_all(tasks, notes)?;
        if !(site.go_on)() {
            return Err(CommitError::Stopped);
        }
        self.perform_all(tasks, opens..tasks.len())?;
        self.sync_dirs().map_err(|(path, error)| CommitError::io(&path, "sync")(error))
    }

    /// Does some of the steps; what is done last waits for `finish`.
    fn perform_all(
        &mut self,
        tasks: &[Task<'_, '_>],
        range: Range<usize>,
    ) -> Result<(), CommitError> {
        for index in range {
            let Some(task) = tasks.get(index) else { continue };
            self.begun = index + 1;
            if task.step.act.is_last() {
                continue;
            }
            let path = self.dirs.path_of(task.step.dir, &task.step.name);
            self.perform(index).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => {
                    CommitError::Changed { path: path.clone() }
                }
                _ => CommitError::io(&path, verb_of(task.step.act))(error),
            })?;
            self.check_displaced(index, task, &path)?;
        }
        Ok(())
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
            Act::Move => {
                let to = ends.aside(&step.to);
                disk.rename_new(name, to)?;
                let moved = disk.stat(to.dir, to.name)?;
                if moved.as_ref().map(Stamp::new) == step.old {
                    return Ok(());
                }
                // Another file took its name just now; it is not the one to be moved.
                disk.rename_new(to, name)?;
                Err(io::ErrorKind::NotFound.into())
            }
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

/// Returns whether the system would never let this process write there.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn verb_of(act: Act) -> &'static str {
    match act {
        Act::Take => "delete",
        Act::Put => "create",
        Act::Move => "move",
        Act::Swap => "replace",
        Act::MakeDir => "create the directory",
        Act::RemoveDir { .. } | Act::DropDir => "remove the directory",
        Act::SetMode { .. } => "change the mode",
    }
}
