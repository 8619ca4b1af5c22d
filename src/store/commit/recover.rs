//! Finishes or takes back what a killed process left of its commits.
//!
//! Only records whose lock is free are touched, and only those of these roots; only names that
//! still hold what the record says. A record that cannot be read is set aside, never obeyed.
//! Called before the first write to a workspace.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::commit::dirs::Dirs;
use crate::store::commit::disk::Disk;
use crate::store::commit::journal::{Journal, Plan, Progress, Record, is_record};
use crate::store::commit::step::{Act, count_opens};
use crate::store::commit::work::{State, Work};

/// Names shown of the files of one edit.
const NAMES_SHOWN: usize = 3;

/// Finishes or takes back what is left in the journal for these roots; returns what was done,
/// one sentence for each edit. Costs one look at the directory when there is nothing.
pub(crate) fn recover(journal: &Path, roots: &[PathBuf]) -> Vec<String> {
    recover_on(&Disk::default(), journal, roots)
}

/// Is `recover` on this way to the system.
pub(super) fn recover_on(disk: &Disk, journal: &Path, roots: &[PathBuf]) -> Vec<String> {
    let entries = match disk.run(|| std::fs::read_dir(journal)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![format!("cannot read {}: {error}", journal.display())],
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_record(path))
        .collect();
    // The newest first: names are times, and a later edit stands on an earlier one.
    paths.sort_unstable_by(|one, other| other.cmp(one));
    let mut said = Vec::new();
    for path in paths {
        match recover_record(disk, &path, roots) {
            Ok(sentence) => said.extend(sentence),
            Err(error) => {
                said.push(format!(
                    "an interrupted edit could not be looked at ({}): {error}",
                    path.display()
                ));
            }
        }
    }
    said
}

fn recover_record(disk: &Disk, path: &Path, roots: &[PathBuf]) -> io::Result<Option<String>> {
    let Some(journal) = Journal::open_dead(path)? else { return Ok(None) };
    match journal.read()? {
        Record::Empty => journal.remove(disk).map(|()| None),
        Record::Foreign => {
            let aside = journal.set_aside()?;
            Ok(Some(format!(
                "a record of an interrupted edit cannot be read; nothing was done about it, it \
                 is kept as {}",
                aside.display()
            )))
        }
        Record::Unfinished(plan, progress) => {
            let is_ours = |one: &PathBuf| {
                roots.iter().any(|root| root.starts_with(one) || one.starts_with(root))
            };
            if plan.roots().iter().any(is_ours) {
                settle(disk, journal, plan, &progress).map(Some)
            } else {
                Ok(None)
            }
        }
    }
}

/// Brings the files of one record to where they all were, or all shall be.
fn settle(disk: &Disk, journal: Journal, plan: Plan, progress: &Progress) -> io::Result<String> {
    let mut dirs = Dirs::new(disk, &plan.roots());
    for path in plan.dirs() {
        dirs.id(path);
    }
    let names = shown_names(&plan, &dirs);
    let (stamps, begun) = match progress {
        Progress::Planned => {
            // Before new files were made, directories may have been opened for them.
            (vec![None; plan.steps.len()], count_opens(&plan.steps))
        }
        Progress::Ready(stamps) | Progress::Done(stamps) => (stamps.clone(), plan.steps.len()),
    };
    let Plan { commit, steps, .. } = plan;
    let mut work =
        Work { dirs, commit, steps, stamps, journal: Some(journal), begun, spared: Vec::new() };
    let is_done = match progress {
        Progress::Planned => false,
        Progress::Ready(_) => is_done(&mut work)?,
        Progress::Done(_) => true,
    };
    if is_done {
        work.drop_rest();
        let left = work.finish().map_or_else(String::new, |left| format!("; {left}"));
        return Ok(format!("finished an edit that was interrupted: {names}{left}"));
    }
    let mut left = match progress {
        Progress::Planned => work.put_old_back()?,
        Progress::Ready(_) | Progress::Done(_) => Vec::new(),
    };
    let (more, broken) = work.roll_back();
    left.extend(more);
    if broken {
        return Err(io::Error::other(left.join("; ")));
    }
    if let Some(journal) = work.journal.take() {
        journal.remove(disk)?;
    }
    let left = if left.is_empty() { String::new() } else { format!("; {}", left.join("; ")) };
    Ok(format!("took back an edit that was interrupted: {names}{left}"))
}

/// Returns whether every step was done.
fn is_done(work: &mut Work<'_>) -> io::Result<bool> {
    for index in 0..work.steps.len() {
        let is_last = work.steps.get(index).is_some_and(|step| step.act.is_last());
        if !is_last && work.state(index)? == State::NotDone {
            return Ok(false);
        }
    }
    Ok(true)
}

fn shown_names(plan: &Plan, dirs: &Dirs<'_>) -> String {
    let files = plan
        .steps
        .iter()
        .filter(|step| matches!(step.act, Act::Take | Act::Put | Act::Swap | Act::Move));
    let names: Vec<String> =
        files.map(|step| dirs.path_of(step.dir, &step.name).display().to_string()).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
