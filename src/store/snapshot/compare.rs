//! Compares two snapshots: which paths differ, and how.
//!
//! Directories with the same hash are not entered, so the cost follows what changed. A root
//! that one side could not record is not compared. Knows no session. Called by `worker.rs`,
//! `render.rs` and `restore.rs`.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::record::Snapshot;
use crate::store::snapshot::record::SnapshotStore;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;

/// One path that differs. Of a directory that came or went, all below it is named as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// What was there; `None` when nothing was.
    pub(crate) before: Option<Node>,
    /// What is there now; `None` when nothing is.
    pub(crate) after: Option<Node>,
}

impl SnapshotStore {
    /// Returns what differs between two snapshots, parents before what is in them.
    pub(crate) fn compare(
        &self,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<Vec<Change>, SnapshotError> {
        let mut changes = Vec::new();
        for root in &after.roots {
            if let (Some(old), Some(new)) = (before.tree(&root.path), root.tree)
                && old != new
            {
                let (old, new) = (self.load_dir(old)?, self.load_dir(new)?);
                self.compare_dirs(&root.path, (Some(&old), Some(&new)), &mut changes)?;
            }
        }
        Ok(changes)
    }

    fn compare_dirs(
        &self,
        path: &Path,
        (old, new): (Option<&Dir>, Option<&Dir>),
        changes: &mut Vec<Change>,
    ) -> Result<(), SnapshotError> {
        let none: &[Entry] = &[];
        let mut old = old.map_or(none, |dir| &dir.entries).iter().peekable();
        let mut new = new.map_or(none, |dir| &dir.entries).iter().peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name.cmp(&b.name),
            };
            let was = if order == Ordering::Greater { None } else { old.next() };
            let is = if order == Ordering::Less { None } else { new.next() };
            let Some(name) = was.or(is).map(|entry| &entry.name) else { return Ok(()) };
            let path = path.join(OsStr::from_bytes(name));
            self.compare_nodes(&path, was.map(|e| &e.node), is.map(|e| &e.node), changes)?;
        }
    }

    fn compare_nodes(
        &self,
        path: &Path,
        was: Option<&Node>,
        is: Option<&Node>,
        changes: &mut Vec<Change>,
    ) -> Result<(), SnapshotError> {
        if let (Some(was), Some(is)) = (was, is)
            && was.is_same(is)
        {
            return Ok(());
        }
        let is_thing_same = matches!((was, is), (Some(was), Some(is)) if was.is_same_thing(is));
        if !is_thing_same {
            let (before, after) = (was.map(Node::without_memory), is.map(Node::without_memory));
            changes.push(Change { path: path.to_path_buf(), before, after });
        }
        let (old, new) = (self.directory_of(was)?, self.directory_of(is)?);
        if old.is_some() || new.is_some() {
            self.compare_dirs(path, (old.as_deref(), new.as_deref()), changes)?;
        }
        Ok(())
    }

    fn directory_of(&self, node: Option<&Node>) -> Result<Option<Arc<Dir>>, SnapshotError> {
        match node {
            Some(Node::Dir { dir: Some(dir), .. }) => Ok(Some(Arc::clone(dir))),
            Some(Node::Dir { id, dir: None, .. }) => self.load_dir(*id).map(Some),
            Some(Node::File { .. } | Node::Link { .. } | Node::Other(_)) | None => Ok(None),
        }
    }

    /// Returns the entry of a path in the tree that was seen last.
    pub(super) fn look_up(&self, path: &Path) -> Option<&Entry> {
        let roots = self.root_paths();
        let root = roots.iter().find(|root| path.starts_with(root))?;
        let mut dir = Some(self.seen(root)?);
        let mut found = None;
        for part in path.strip_prefix(root).ok()?.components() {
            let entry = dir?.find(part.as_os_str().as_bytes())?.1;
            dir = match &entry.node {
                Node::Dir { dir, .. } => dir.as_ref(),
                Node::File { .. } | Node::Link { .. } | Node::Other(_) => None,
            };
            found = Some(entry);
        }
        found
    }
}

impl Node {
    /// Returns whether both are the same, what is in a directory left aside.
    pub(super) fn is_same_thing(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dir { mode: a, .. }, Self::Dir { mode: b, .. }) => a == b,
            (a, b) => a.is_same(b),
        }
    }

    fn without_memory(&self) -> Self {
        match self {
            Self::Dir { mode, id, .. } => Self::Dir { mode: *mode, id: *id, dir: None },
            Self::File { .. } | Self::Link { .. } | Self::Other(_) => self.clone(),
        }
    }
}

/// Returns whether both are the same thing, or both nothing.
pub(super) fn is_same_thing(a: Option<&Node>, b: Option<&Node>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.is_same_thing(b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
