//! Makes the new files of a commit under temporary names, beside where they will stand.
//!
//! A new file takes mode, owner and attributes of the old one where that is permitted; until
//! it has them nobody else can read it. Called by `perform.rs`, before anything is renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::RawMode;

use crate::store::commit::dirs::System;
use crate::store::commit::disk::{Disk, mode_of};
use crate::store::commit::prepare::{Model, Task};
use crate::store::commit::step::Stamp;
use crate::store::commit::work::{TOGETHER_MAX, Work};
use crate::store::commit::{Change, CommitError, Content, Execute, Mode, New};

/// A new file before it has its mode.
const OWNER_ONLY: RawMode = 0o600;

/// A new file of no model: the umask is the user's word on it.
const BY_UMASK: RawMode = 0o666;

/// Mode bits that only make sense with the owner they were given for.
const SET_ID: RawMode = 0o6000;

/// Parts of a file that are written with one call; systems take no more.
const PARTS_MAX: usize = 1024;

/// A new file under its temporary name.
#[derive(Debug)]
struct Made {
    /// By which it is known again.
    stamp: Stamp,
    /// The file, to be waited for; a link has no content.
    file: Option<File>,
    /// What could not be kept.
    lost: Option<String>,
}

impl Work<'_> {
    /// Makes all new files, and waits until they and the record of them are on disk.
    pub(super) fn make_all(
        &mut self,
        tasks: &[Task<'_, '_>],
        notes: &mut Vec<String>,
    ) -> Result<(), CommitError> {
        let brings = |(_, task): &(usize, &Task<'_, '_>)| task.step.act.brings();
        // Open before anything is written: syncing reports what failed since.
        let systems = self.systems(|step| step.act.brings().then_some(step.temp_dir));
        let systems =
            systems.map_err(|(path, error)| CommitError::io(&path, "open the directory")(error))?;
        let disk = self.dirs.disk;
        let mut files = Vec::new();
        for (index, task) in tasks.iter().enumerate().filter(brings) {
            let Some(change) = task.change else { continue };
            // The directory it will stand in may be yet to come.
            let ends = self
                .temp_ends(index, &task.step)
                .map_err(CommitError::io(&change.path, "open its directory"))?;
            let temp = (&*ends.temp_dir, &*ends.temp);
            let made = make(disk, temp, (change, task.model.as_ref()))?;
            notes.extend(made.lost);
            files.extend(made.file.filter(|_| systems.is_empty()));
            if let Some(place) = self.stamps.get_mut(index) {
                *place = Some(made.stamp);
            }
            if files.len() >= TOGETHER_MAX {
                disk.sync_each(&borrow(&files)).map_err(CommitError::io(&change.path, "sync"))?;
                files.clear();
            }
        }
        self.sync_new(&borrow(&files), &systems)
    }

    /// Waits until the new files and the record are on disk. No name is changed before, so it
    /// does no harm if the record gets there first.
    fn sync_new(&self, files: &[BorrowedFd<'_>], systems: &[System]) -> Result<(), CommitError> {
        let disk = self.dirs.disk;
        let path = self.dirs.path(0);
        let mut to_sync = files.to_vec();
        let folder;
        if let Some(journal) = &self.journal {
            let written = journal.ready(disk, &self.stamps);
            written.map_err(CommitError::io(path, "write the journal for"))?;
            // One rename is whole or not at all, whatever the record says.
            if self.steps.len() > 1 {
                folder = journal
                    .open_folder(disk)
                    .map_err(CommitError::io(path, "write the journal for"))?;
                to_sync.extend([journal.as_fd(), folder.as_fd()]);
            }
        }
        disk.sync_each(&to_sync).map_err(CommitError::io(path, "sync"))?;
        for (id, dir) in systems {
            disk.sync_whole(dir).map_err(CommitError::io(self.dirs.path(*id), "sync"))?;
        }
        Ok(())
    }
}

fn borrow(files: &[File]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(AsFd::as_fd).collect()
}

/// Makes the new file of one change. It is not waited for here.
fn make(
    disk: &Disk,
    (dir, temp): (&OwnedFd, &OsStr),
    (change, model): (&Change<'_>, Option<&Model>),
) -> Result<Made, CommitError> {
    let made = match change.new {
        New::File(content, mode) => {
            make_file(disk, (dir, temp), content, (mode, model)).map(|(stamp, file, kept)| {
                let lost = format!("{}: its owner could not be kept", change.path.display());
                Made { stamp, file: Some(file), lost: (kept == Owner::Lost).then_some(lost) }
            })
        }
        New::Symlink(target) => {
            make_link(disk, (dir, temp), target).map(|stamp| Made { stamp, file: None, lost: None })
        }
        New::Absent | New::Directory(_) | New::Moved(..) => Err(io::ErrorKind::InvalidInput.into()),
    };
    made.map_err(CommitError::io(&change.path, "write"))
}

/// Whether the new file has the old one's owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Kept,
    Lost,
}

fn make_file(
    disk: &Disk,
    (dir, temp): (&OwnedFd, &OsStr),
    content: Content<'_>,
    (mode, model): (Mode<'_>, Option<&Model>),
) -> io::Result<(Stamp, File, Owner)> {
    let exact = match mode {
        Mode::Exact(bits) => Some(bits),
        Mode::Keep | Mode::Like(_) | Mode::Executable(..) => {
            model.map(|model| mode_of(&model.stat))
        }
    };
    let first = if exact.is_some() { OWNER_ONLY } else { BY_UMASK };
    let file = disk.create(dir, temp, first)?;
    let mut writer = DiskWriter { disk, file: &file };
    match content {
        Content::Bytes(bytes) => writer.write_all(bytes)?,
        Content::Parts(parts) => writer.write_parts(parts)?,
        Content::Stream(stream) => stream(&mut writer)?,
    }
    let kept = give(disk, &file, exact, (mode, model))?;
    let stamp = Stamp::new(&disk.stat_open(&file)?);
    Ok((stamp, file, kept))
}

/// Gives a new file its owner, mode and attributes, in the order in which none undoes another.
fn give(
    disk: &Disk,
    file: &File,
    exact: Option<RawMode>,
    (mode, model): (Mode<'_>, Option<&Model>),
) -> io::Result<Owner> {
    let executable = match mode {
        Mode::Executable(wish, _) => Some(wish),
        Mode::Keep | Mode::Like(_) | Mode::Exact(_) => None,
    };
    if model.is_none() && exact.is_none() && executable.is_none() {
        return Ok(Owner::Kept);
    }
    let now = disk.stat_open(file)?;
    let mut kept = Owner::Kept;
    if let Some(model) = model
        && (model.stat.st_uid, model.stat.st_gid) != (now.st_uid, now.st_gid)
        && disk.set_owner(file, &model.stat).is_err()
    {
        // Another's file in a directory of ours: it becomes ours, at least in the same group.
        let _ = disk.set_group(file, &model.stat);
        kept = Owner::Lost;
    }
    let mut bits = exact.unwrap_or(mode_of(&now));
    if kept == Owner::Lost {
        bits &= !SET_ID;
    }
    match executable {
        Some(Execute::Set) => bits |= (bits & 0o444) >> 2,
        Some(Execute::Clear) => bits &= !0o111,
        None => {}
    }
    if let Some(model) = model {
        for (name, value) in &model.attributes {
            // Some belong to the system alone.
            let _ = disk.set_attribute(file, name, value);
        }
    }
    // After the attributes: an access list holds mode bits too.
    disk.set_mode(file, bits)?;
    Ok(kept)
}

fn make_link(disk: &Disk, (dir, temp): (&OwnedFd, &OsStr), target: &Path) -> io::Result<Stamp> {
    disk.symlink(target, dir, temp)?;
    let stat = disk.stat(dir, temp)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Stamp::new(&stat))
}

/// Writes through the seam.
struct DiskWriter<'a> {
    disk: &'a Disk,
    file: &'a File,
}

impl DiskWriter<'_> {
    /// Writes parts one after the other, many with one call.
    fn write_parts(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for some in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<IoSlice<'_>> = some.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            // Empty parts at the front are passed over.
            IoSlice::advance_slices(&mut left, 0);
            while !left.is_empty() {
                match self.disk.write_parts(self.file, left)? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => IoSlice::advance_slices(&mut left, written),
                }
            }
        }
        Ok(())
    }
}

impl Write for DiskWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
