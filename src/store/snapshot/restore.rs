//! Puts a state back, as it was planned (`take_back.rs`).
//!
//! All of it is handed to the commit engine, so that it happens all or not at all. Knows no
//! session. Called by `agent/restore.rs`.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::protocol::SnapshotId;
use crate::store::commit;
use crate::store::commit::CommitError;
use crate::store::commit::Mode;
use crate::store::commit::New;
use crate::store::commit::Old;
use crate::store::commit::Site;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::take_back::Plan;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::walk::stat_of;

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

/// What came of a restore.
#[derive(Debug)]
pub(crate) struct Restored {
    /// The state after it.
    pub(crate) after: SnapshotId,
    /// What is to be said of it, one line each.
    pub(crate) notes: Vec<String>,
}

impl SnapshotStore {
    /// Does what was planned, all or nothing; returns the state after it.
    pub(crate) fn perform(&mut self, plan: &Plan) -> Result<Restored, RestoreError> {
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
        let is_file: Vec<_> = plan
            .renames
            .iter()
            .map(|rename| {
                move |stat: &rustix::fs::Stat| {
                    let stat = stat_of(stat);
                    (stat.dev, stat.ino, stat.size, stat.mtime_ns) == rename.file
                }
            })
            .collect();
        let renames = plan.renames.iter().zip(&is_file).map(|(rename, check)| commit::Change {
            path: rename.to.clone(),
            old: if rename.follows { Old::Any } else { Old::Absent },
            new: New::Moved(&rename.from, check),
        });
        let moves =
            plan.moves.iter().zip(checks.iter().zip(&streams)).map(|(step, (check, stream))| {
                commit::Change {
                    path: step.path.clone(),
                    old: old_of(step.now.as_ref(), check),
                    new: new_of(step.goal.as_ref(), stream),
                }
            });
        let changes: Vec<commit::Change<'_>> = renames.chain(moves).collect();
        let site = Site { opens_directories: true, ..Site::new(&roots, Some(&journal)) };
        let notes = commit::commit(&changes, &site)?.notes;
        let taken = self.take()?;
        Ok(Restored { after: taken.snapshot.unwrap_or_else(|| plan.now.clone()), notes })
    }

    fn write_node(&self, goal: Option<&Node>, out: &mut dyn io::Write) -> io::Result<()> {
        match goal {
            Some(Node::File { content, .. }) => {
                self.read_content(*content, out).map_err(io::Error::other)
            }
            Some(Node::Dir { .. } | Node::Link { .. } | Node::Other(_)) | None => Ok(()),
        }
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
