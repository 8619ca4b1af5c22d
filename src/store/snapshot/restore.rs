//! Puts a state back: what one or more steps changed becomes what it was before them.
//!
//! `plan` compares what a step left behind with what is there now, path by path: what someone
//! changed since is a conflict, never overwritten unasked. `perform` hands all of it to the
//! commit engine, so that it happens all or not at all. The state before is recorded first, so
//! that nothing is lost. Knows no session. Called by `agent/restore.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::protocol::FileChange;
use crate::protocol::SnapshotId;
use crate::store::commit;
use crate::store::commit::CommitError;
use crate::store::commit::Mode;
use crate::store::commit::New;
use crate::store::commit::Old;
use crate::store::commit::Site;
use crate::store::snapshot::compare::Change;
use crate::store::snapshot::compare::is_same_thing;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::tree::NotKept;
use crate::store::snapshot::walk::stat_of;

/// One step to take back: the state before it and the state after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The state before.
    pub(crate) from: SnapshotId,
    /// The state after; `None` when the step was cut off, so that all that differs is its.
    pub(crate) to: Option<SnapshotId>,
}

/// What taking steps back means for the tree as it is now.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The state now.
    pub(crate) now: SnapshotId,
    moves: Vec<Move>,
    /// Paths that someone else changed since.
    pub(crate) conflicts: Vec<PathBuf>,
    /// Paths that stay as they are, and why.
    pub(crate) left: Vec<(PathBuf, String)>,
}

/// Whether a conflict stops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// What someone else changed stays.
    No,
    /// It is overwritten; the state before is recorded all the same.
    Yes,
}

/// One path that becomes something else.
#[derive(Debug)]
struct Move {
    path: PathBuf,
    now: Option<Entry>,
    goal: Option<Node>,
}

/// What is known of one path over all steps.
struct Wish {
    expected: Option<Node>,
    goal: Option<Node>,
    /// Someone else changed it between two of the steps.
    is_disturbed: bool,
}

impl Plan {
    /// Returns what would change, without diffs.
    pub(crate) fn changes(&self) -> Vec<FileChange> {
        let changes = self.moves.iter().map(|step| {
            let before = step.now.as_ref().map(|entry| entry.node.clone());
            Change { path: step.path.clone(), before, after: step.goal.clone() }
        });
        let changes: Vec<Change> = changes.collect();
        crate::store::snapshot::render::shown_changes(&changes)
            .map(crate::store::snapshot::render::render_change)
            .collect()
    }
}

/// Why a state was not put back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The store failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Writing failed; nothing was changed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The state now cannot be recorded, so what would be overwritten could be lost.
    #[error("the files as they are now cannot be recorded: {0}")]
    Off(String),
}

impl SnapshotStore {
    /// Works out how to take steps back, the newest given first. Records the state now.
    pub(crate) fn plan(&mut self, steps: &[Step], force: Force) -> Result<Plan, RestoreError> {
        let taken = self.take()?;
        let Some(now) = taken.snapshot else {
            let reason = taken.off.into_iter().map(|(_, reason)| reason).next();
            return Err(RestoreError::Off(reason.unwrap_or_default()));
        };
        let mut plan = Plan { now, moves: Vec::new(), conflicts: Vec::new(), left: Vec::new() };
        let wishes = self.collect_wishes(steps, &plan.now)?;
        for (path, wish) in &wishes {
            self.decide(&mut plan, path, wish, force);
        }
        clear_directories(&mut plan, force);
        Ok(plan)
    }

    /// Does what was planned, all or nothing; returns the state after it.
    pub(crate) fn perform(&mut self, plan: &Plan) -> Result<SnapshotId, RestoreError> {
        let roots = self.root_paths();
        let journal = self.state().join("journal");
        let checks: Vec<_> = plan
            .moves
            .iter()
            .map(|step| {
                let entry = step.now.clone();
                move |file: &File| holds(file, entry.as_ref())
            })
            .collect();
        let store = &*self;
        let streams: Vec<_> = plan
            .moves
            .iter()
            .map(|step| {
                let goal = step.goal.as_ref();
                move |out: &mut dyn io::Write| store.write_node(goal, out)
            })
            .collect();
        let changes: Vec<commit::Change<'_>> = plan
            .moves
            .iter()
            .zip(checks.iter().zip(&streams))
            .map(|(step, (check, stream))| commit::Change {
                path: step.path.clone(),
                old: old_of(step.now.as_ref(), check),
                new: new_of(step.goal.as_ref(), stream),
            })
            .collect();
        commit::commit(&changes, &Site::new(&roots, Some(&journal)))?;
        let taken = self.take()?;
        Ok(taken.snapshot.unwrap_or_else(|| plan.now.clone()))
    }

    fn write_node(&self, goal: Option<&Node>, out: &mut dyn io::Write) -> io::Result<()> {
        match goal {
            Some(Node::File { content, .. }) => {
                self.read_content(*content, out).map_err(io::Error::other)
            }
            Some(Node::Dir { .. } | Node::Link { .. } | Node::Other(_)) | None => Ok(()),
        }
    }

    /// Follows each path from the newest step back to the oldest.
    fn collect_wishes(
        &self,
        steps: &[Step],
        now: &SnapshotId,
    ) -> Result<BTreeMap<PathBuf, Wish>, SnapshotError> {
        let mut wishes: BTreeMap<PathBuf, Wish> = BTreeMap::new();
        for step in steps {
            let from = self.load(&step.from)?;
            let to = self.load(step.to.as_ref().unwrap_or(now))?;
            for Change { path, before, after } in self.compare(&from, &to)? {
                match wishes.entry(path) {
                    std::collections::btree_map::Entry::Vacant(place) => {
                        place.insert(Wish { expected: after, goal: before, is_disturbed: false });
                    }
                    std::collections::btree_map::Entry::Occupied(mut place) => {
                        let wish = place.get_mut();
                        wish.is_disturbed |= !is_same_thing(wish.goal.as_ref(), after.as_ref());
                        wish.goal = before;
                    }
                }
            }
        }
        Ok(wishes)
    }

    fn decide(&self, plan: &mut Plan, path: &Path, wish: &Wish, force: Force) {
        let now = self.look_up(path);
        let (is, goal) = (now.map(|entry| &entry.node), wish.goal.as_ref());
        if is_same_thing(is, goal) {
            return;
        }
        if let Some(reason) = why_not(is, goal, force) {
            plan.left.push((path.to_path_buf(), reason));
            return;
        }
        let is_directory_to_go = goal.is_none() && matches!(is, Some(Node::Dir { .. }));
        let is_expected = is_same_thing(is, wish.expected.as_ref()) && !wish.is_disturbed;
        if !is_expected && !is_directory_to_go && force == Force::No {
            plan.conflicts.push(path.to_path_buf());
            return;
        }
        plan.moves.push(Move {
            path: path.to_path_buf(),
            now: now.cloned(),
            goal: wish.goal.clone(),
        });
    }
}

/// Where a directory gives way to something else, what is in it must go as well: what the
/// steps made goes anyhow, anything else is a conflict.
fn clear_directories(plan: &mut Plan, force: Force) {
    let planned: std::collections::BTreeSet<PathBuf> =
        plan.moves.iter().map(|step| step.path.clone()).collect();
    let mut more = Vec::new();
    for step in &plan.moves {
        let becomes_dir = matches!(step.goal, None | Some(Node::Dir { .. }));
        let Some(Entry { node: Node::Dir { dir: Some(dir), .. }, .. }) = &step.now else {
            continue;
        };
        if !becomes_dir {
            collect_below(&step.path, dir, &mut more);
        }
    }
    for (path, entry) in more {
        if planned.contains(&path) {
            continue;
        }
        match force {
            Force::No => plan.conflicts.push(path),
            Force::Yes => plan.moves.push(Move { path, now: Some(entry), goal: None }),
        }
    }
}

fn collect_below(path: &Path, dir: &Dir, found: &mut Vec<(PathBuf, Entry)>) {
    use std::os::unix::ffi::OsStrExt as _;
    for entry in &dir.entries {
        let path = path.join(std::ffi::OsStr::from_bytes(&entry.name));
        found.push((path.clone(), entry.clone()));
        if let Node::Dir { dir: Some(dir), .. } = &entry.node {
            collect_below(&path, dir, found);
        }
    }
}

/// Returns why a path cannot become what it was, or must not.
fn why_not(is: Option<&Node>, goal: Option<&Node>, force: Force) -> Option<String> {
    let not_kept = |why: NotKept| format!("its content was not kept: {}", why.reason());
    match (is, goal) {
        (_, Some(Node::File { content: Content::NotKept { why, .. }, .. })) => Some(not_kept(*why)),
        (_, Some(Node::Other(other))) | (Some(Node::Other(other)), _) => {
            Some(format!("it is left alone: {}", other.reason()))
        }
        (Some(Node::File { content: Content::NotKept { why, .. }, .. }), _) => {
            // What the project ignores can be made again; anything else would be lost.
            let is_safe = *why == NotKept::Ignored || force == Force::Yes;
            (!is_safe).then(|| format!("taking it away could not be undone: {}", why.reason()))
        }
        _ => None,
    }
}

fn old_of<'a>(now: Option<&'a Entry>, check: &'a dyn Fn(&File) -> io::Result<bool>) -> Old<'a> {
    use std::os::unix::ffi::OsStrExt as _;
    match now.map(|entry| &entry.node) {
        None => Old::Absent,
        Some(Node::File { .. }) => Old::File(check),
        Some(Node::Link { target }) => Old::Symlink(Path::new(std::ffi::OsStr::from_bytes(target))),
        Some(Node::Dir { .. }) => Old::Directory,
        Some(Node::Other(_)) => Old::Any,
    }
}

fn new_of<'a>(
    goal: Option<&'a Node>,
    stream: &'a dyn Fn(&mut dyn io::Write) -> io::Result<()>,
) -> New<'a> {
    use std::os::unix::ffi::OsStrExt as _;
    match goal {
        None | Some(Node::Other(_)) => New::Absent,
        Some(Node::File { mode, .. }) => {
            New::File(commit::Content::Stream(stream), Mode::Exact(*mode))
        }
        Some(Node::Link { target }) => New::Symlink(Path::new(std::ffi::OsStr::from_bytes(target))),
        Some(Node::Dir { mode, .. }) => New::Directory(Some(*mode)),
    }
}

/// Returns whether a file is still what was seen: by its metadata, else by its bytes.
fn holds(file: &File, seen: Option<&Entry>) -> io::Result<bool> {
    let Some(Entry { node: Node::File { content, size, mode }, stat, .. }) = seen else {
        return Ok(false);
    };
    let now = rustix::fs::fstat(file).map(|now| stat_of(&now))?;
    if now.size != *size || now.mode & 0o7777 != *mode {
        return Ok(false);
    }
    match content {
        Content::NotKept { changed_ns, .. } => Ok(now.mtime_ns == *changed_ns),
        Content::Whole(_) | Content::Chunks(_) if *stat == Some(now) => Ok(true),
        Content::Whole(_) | Content::Chunks(_) => hashes_to(file, *content),
    }
}

fn hashes_to(mut file: &File, content: Content) -> io::Result<bool> {
    use std::io::Read as _;
    let mut ids = Vec::new();
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        let bytes = crate::store::snapshot::content::CHUNK_BYTES;
        (&mut file).take(bytes as u64).read_to_end(&mut chunk)?;
        if chunk.is_empty() && !ids.is_empty() {
            break;
        }
        ids.push(ObjectId::of(ObjectKind::Chunk, &chunk));
        if chunk.len() < bytes {
            break;
        }
    }
    Ok(match content {
        Content::Whole(id) => ids == [id],
        Content::Chunks(id) => {
            let list: Vec<u8> = ids.iter().flat_map(|id| id.0).collect();
            ObjectId::of(ObjectKind::Chunks, &list) == id
        }
        Content::NotKept { .. } => false,
    })
}
