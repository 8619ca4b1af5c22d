//! Works out how to take steps back: what becomes what, what stands in the way, what is left.
//!
//! What a step left behind is compared with what is there now, path by path. What someone
//! changed since is a conflict, never overwritten unasked. What the store does not hold is never
//! removed or replaced, whatever is asked: such a file goes back only where it came from. Looks
//! at the disk, changes nothing. Done by `restore.rs`; called by `agent/restore.rs`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::btree_map;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use crate::protocol::FileChange;
use crate::protocol::SnapshotId;
use crate::store::snapshot::compare::Change;
use crate::store::snapshot::compare::is_same_thing;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::moved::find_moved;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::restore::RestoreError;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::tree::Other;

/// A file that leads to a repository elsewhere is never larger.
const GITFILE_BYTES_MAX: u64 = 4096;

/// One step to take back: the state before it and the state after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The state before.
    pub(crate) from: SnapshotId,
    /// The state after; `None` when the step was cut off, so that all that differs is its.
    pub(crate) to: Option<SnapshotId>,
    /// Of a step that was cut off: what changed later than this, in nanoseconds since 1970, is
    /// somebody else's.
    pub(crate) until_ns: Option<i64>,
}

/// What taking steps back means for the tree as it is now.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The state now.
    pub(crate) now: SnapshotId,
    pub(super) moves: Vec<Move>,
    pub(super) renames: Vec<Rename>,
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
pub(super) struct Move {
    pub(super) path: PathBuf,
    pub(super) now: Option<Entry>,
    pub(super) goal: Option<Node>,
}

/// A file that is not kept, and goes back to the name it had.
#[derive(Debug, Clone)]
pub(super) struct Rename {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    /// What is at `from` now.
    pub(super) now: Node,
    /// Which file it is: device, inode, size, and time of its last change.
    pub(super) file: FileKey,
    /// Whether another one has to leave the name first.
    pub(super) follows: bool,
}

/// Tells one file from another, moved or not: device, inode, size and time of the last change.
pub(super) type FileKey = (u64, u64, u64, i64);

/// What is known of one path over all steps.
pub(super) struct Wish {
    expected: Option<Node>,
    pub(super) goal: Option<Node>,
    /// Someone else changed it between two of the steps.
    is_disturbed: bool,
    /// Something there was not looked into, at the beginning or the end of a step.
    closed: Option<Other>,
    until_ns: Option<i64>,
}

/// What is to happen with one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is what it shall be.
    Same,
    Go,
    Conflict,
    Left(String),
    /// The same, and nothing can be put there, for what is above it stays.
    Barred(String),
}

/// What a path means for those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// Nothing.
    Open,
    /// They stay with it, and are not named.
    Closed,
    /// They cannot be made, and are named.
    Barred,
}

/// One path with what is wished for it and what is to happen.
pub(super) struct Item<'a> {
    pub(super) path: &'a Path,
    pub(super) wish: &'a Wish,
    pub(super) now: Option<&'a Entry>,
    pub(super) verdict: Verdict,
}

/// All that steps wish for.
struct Wishes {
    by_path: BTreeMap<PathBuf, Wish>,
    /// What looks like the repository that a step moved away.
    repositories: BTreeSet<PathBuf>,
}

impl Plan {
    /// Returns whether it changes anything, or would if nothing stood in the way.
    pub(crate) fn is_something(&self) -> bool {
        !(self.moves.is_empty() && self.renames.is_empty() && self.conflicts.is_empty())
    }

    /// Returns what would change, without diffs.
    pub(crate) fn changes(&self) -> Vec<FileChange> {
        let moves = self.moves.iter().map(|step| {
            let before = step.now.as_ref().map(|entry| entry.node.clone());
            Change { path: step.path.clone(), before, after: step.goal.clone() }
        });
        let renames = self.renames.iter().flat_map(|rename| {
            let is = Some(rename.now.clone());
            [
                Change { path: rename.from.clone(), before: is.clone(), after: None },
                Change { path: rename.to.clone(), before: None, after: is },
            ]
        });
        let mut changes: Vec<Change> = moves.chain(renames).collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        crate::store::snapshot::render::shown_changes(&changes)
            .map(crate::store::snapshot::render::render_change)
            .collect()
    }
}

impl SnapshotStore {
    /// Works out how to take steps back, the newest given first. Records the state now.
    pub(crate) fn plan(&mut self, steps: &[Step], force: Force) -> Result<Plan, RestoreError> {
        let taken = self.take()?;
        let Some(now) = taken.snapshot else {
            let reason = taken.off.into_iter().map(|(_, reason)| reason).next();
            return Err(RestoreError::Off(reason.unwrap_or_default()));
        };
        let wishes = self.collect_wishes(steps, &now)?;
        let mut items = self.judge(&wishes, force);
        let renames = find_moved(&mut items);
        let mut plan =
            Plan { now, moves: Vec::new(), renames, conflicts: Vec::new(), left: Vec::new() };
        keep_what_holds_something(&mut items, &plan.renames);
        for item in items {
            let path = item.path.to_path_buf();
            match item.verdict {
                Verdict::Same => {}
                Verdict::Left(reason) | Verdict::Barred(reason) => plan.left.push((path, reason)),
                Verdict::Conflict => plan.conflicts.push(path),
                Verdict::Go => plan.moves.push(Move {
                    path,
                    now: item.now.cloned(),
                    goal: item.wish.goal.clone(),
                }),
            }
        }
        clear_directories(&mut plan, force);
        Ok(plan)
    }

    /// Follows each path from the newest step back to the oldest.
    fn collect_wishes(&self, steps: &[Step], now: &SnapshotId) -> Result<Wishes, SnapshotError> {
        let mut by_path: BTreeMap<PathBuf, Wish> = BTreeMap::new();
        let (mut appeared, mut is_repository_gone) = (Vec::new(), false);
        for step in steps {
            let from = self.load(&step.from)?;
            let to = self.load(step.to.as_ref().unwrap_or(now))?;
            for Change { path, before, after } in self.compare(&from, &to)? {
                is_repository_gone |= before == Some(Node::Other(Other::Git));
                if let (None, Some(node)) = (&before, &after) {
                    appeared.push((path.clone(), node.clone()));
                }
                let closed = closed_of(before.as_ref()).or(closed_of(after.as_ref()));
                let until_ns = step.until_ns;
                match by_path.entry(path) {
                    btree_map::Entry::Vacant(place) => {
                        let (expected, goal) = (after, before);
                        place.insert(Wish {
                            expected,
                            goal,
                            is_disturbed: false,
                            closed,
                            until_ns,
                        });
                    }
                    btree_map::Entry::Occupied(mut place) => {
                        let wish = place.get_mut();
                        wish.is_disturbed |= !is_same_thing(wish.goal.as_ref(), after.as_ref());
                        wish.goal = before;
                        wish.closed = wish.closed.or(closed);
                        wish.until_ns = wish.until_ns.or(until_ns);
                    }
                }
            }
        }
        let mut repositories = BTreeSet::new();
        for (path, node) in appeared.into_iter().filter(|_| is_repository_gone) {
            if self.looks_like_repository(&node)? {
                repositories.insert(path);
            }
        }
        Ok(Wishes { by_path, repositories })
    }

    /// Returns whether this could be what `.git` was.
    fn looks_like_repository(&self, node: &Node) -> Result<bool, SnapshotError> {
        match node {
            Node::Dir { id, .. } => {
                let dir = self.load_dir(*id)?;
                Ok([&b"HEAD"[..], b"objects", b"refs"].iter().all(|name| dir.find(name).is_some()))
            }
            Node::File { size, content, .. } if *size <= GITFILE_BYTES_MAX => {
                let mut bytes = Vec::new();
                self.read_content(*content, &mut bytes)?;
                Ok(bytes.starts_with(b"gitdir: "))
            }
            Node::File { .. } | Node::Link { .. } | Node::Other(_) => Ok(false),
        }
    }

    /// Decides path by path, parents before what is below them.
    fn judge<'a>(&'a self, wishes: &'a Wishes, force: Force) -> Vec<Item<'a>> {
        let mut items = Vec::with_capacity(wishes.by_path.len());
        let mut shut: Option<(&Path, Below)> = None;
        for (path, wish) in &wishes.by_path {
            let now = self.look_up(path);
            let above = shut.filter(|(above, _)| path.starts_with(above));
            let verdict = match above {
                Some((_, Below::Closed)) => continue,
                Some((above, _)) => {
                    let reason = format!("{} is left as it is", above.display());
                    let is_same = is_same_thing(now.map(|now| &now.node), wish.goal.as_ref());
                    if is_same { Verdict::Same } else { Verdict::Barred(reason) }
                }
                None => {
                    let is_repository = wishes.repositories.contains(path);
                    let (verdict, below) = decide(path, wish, now, (force, is_repository));
                    shut = (below != Below::Open).then_some((path, below));
                    verdict
                }
            };
            items.push(Item { path, wish, now, verdict });
        }
        items
    }
}

fn closed_of(node: Option<&Node>) -> Option<Other> {
    match node {
        Some(Node::Other(other)) => Some(*other),
        Some(Node::File { .. } | Node::Link { .. } | Node::Dir { .. }) | None => None,
    }
}

fn decide(
    path: &Path,
    wish: &Wish,
    now: Option<&Entry>,
    (force, is_repository): (Force, bool),
) -> (Verdict, Below) {
    let (is, goal) = (now.map(|entry| &entry.node), wish.goal.as_ref());
    let closed = wish.closed.or(closed_of(is));
    let below = if closed.is_some() { Below::Closed } else { Below::Open };
    if is_same_thing(is, goal) {
        return (Verdict::Same, below);
    }
    if is_repository && is.is_some() {
        let reason = "it looks like the repository that was moved away".to_owned();
        return (Verdict::Left(reason), Below::Closed);
    }
    if let Some(other) = closed {
        return (Verdict::Left(format!("it is left alone: {}", other.reason())), below);
    }
    if let Some(Node::File { content: Content::NotKept { why, .. }, .. }) = is {
        let reason = format!("taking it away could not be undone: {}", why.reason());
        return (Verdict::Left(reason), Below::Barred);
    }
    if let Some(Node::File { content: Content::NotKept { why, .. }, .. }) = goal {
        let reason = format!("its content was not kept: {}", why.reason());
        return (Verdict::Left(reason), Below::Open);
    }
    let is_dir = matches!(is, Some(Node::Dir { .. }));
    let is_expected = is_same_thing(is, wish.expected.as_ref()) && !wish.is_disturbed;
    let is_late = !is_dir && wish.until_ns.is_some_and(|until| is_changed_after(path, until));
    let is_ours = is_expected || (is_dir && goal.is_none());
    match (!is_ours || is_late) && force == Force::No {
        true => (Verdict::Conflict, Below::Open),
        false => (Verdict::Go, Below::Open),
    }
}

/// Returns whether something was changed, or put there, later than this.
fn is_changed_after(path: &Path, until_ns: i64) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return false };
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    let changed = ns(metadata.ctime(), metadata.ctime_nsec());
    changed.max(ns(metadata.mtime(), metadata.mtime_nsec())) > until_ns
}

/// A directory stays one while something in it stays.
fn keep_what_holds_something(items: &mut [Item<'_>], renames: &[Rename]) {
    let mut staying: BTreeSet<PathBuf> = BTreeSet::new();
    for item in items.iter().filter(|item| matches!(item.verdict, Verdict::Left(_))) {
        staying.insert(item.path.to_path_buf());
    }
    staying.extend(renames.iter().map(|rename| rename.from.clone()));
    for item in items.iter_mut().filter(|item| item.verdict == Verdict::Go) {
        let Some(dir) = gives_way(item.now, item.wish.goal.as_ref()) else { continue };
        let mut below = Vec::new();
        collect_below(item.path, dir, &mut below);
        let stays = |(path, entry): &(PathBuf, Entry)| {
            let is_lost = match &entry.node {
                Node::File { content, .. } => content.object().is_none(),
                Node::Other(_) => true,
                Node::Link { .. } | Node::Dir { .. } => false,
            };
            is_lost || staying.contains(path)
        };
        if let Some((path, _)) = below.iter().find(|one| stays(one)) {
            let reason = format!("{} is in it, and stays", path.display());
            item.verdict = Verdict::Left(reason);
        }
    }
}

/// Returns the directory that must be empty before something else takes its place.
fn gives_way<'a>(now: Option<&'a Entry>, goal: Option<&Node>) -> Option<&'a Dir> {
    match (now.map(|entry| &entry.node), goal) {
        (_, None | Some(Node::Dir { .. })) => None,
        (Some(Node::Dir { dir, .. }), Some(_)) => dir.as_deref(),
        (_, Some(_)) => None,
    }
}

/// Where a directory gives way to something else, what is in it must go as well: what the
/// steps made goes anyhow, anything else is a conflict.
fn clear_directories(plan: &mut Plan, force: Force) {
    let planned: BTreeSet<PathBuf> = plan.moves.iter().map(|step| step.path.clone()).collect();
    let mut more = Vec::new();
    for step in &plan.moves {
        if let Some(dir) = gives_way(step.now.as_ref(), step.goal.as_ref()) {
            collect_below(&step.path, dir, &mut more);
        }
    }
    for (path, entry) in more {
        if planned.contains(&path) || plan.conflicts.contains(&path) {
            continue;
        }
        match force {
            Force::No => plan.conflicts.push(path),
            Force::Yes => plan.moves.push(Move { path, now: Some(entry), goal: None }),
        }
    }
}

fn collect_below(path: &Path, dir: &Dir, found: &mut Vec<(PathBuf, Entry)>) {
    for entry in &dir.entries {
        let path = path.join(OsStr::from_bytes(&entry.name));
        found.push((path.clone(), entry.clone()));
        if let Node::Dir { dir: Some(dir), .. } = &entry.node {
            collect_below(&path, dir, found);
        }
    }
}
