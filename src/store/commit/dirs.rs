//! The directories of a commit: opened once, beneath the roots, and known again.
//!
//! A directory is opened through directories alone, so no link leads out. What is done in it is
//! done on its descriptor, so swapping a directory for another in between gets nothing out; a
//! directory that has to be opened again must be the same one. Knows no change and no step.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::store::commit::disk::{Disk, is_nowhere};

/// Directories kept open at one time; a process may have a thousand descriptors.
const OPEN_MAX: usize = 200;

/// A directory's place in `Dirs`.
pub(super) type DirId = usize;

/// A file system: a directory on it, open.
pub(super) type System = (DirId, Arc<OwnedFd>);

/// What tells one directory from another: device and number.
type Identity = (i128, u64);

/// All directories of one commit.
#[derive(Debug)]
pub(super) struct Dirs<'d> {
    pub(super) disk: &'d Disk,
    roots: Vec<Root>,
    known: Vec<Known>,
    ids: HashMap<PathBuf, DirId>,
    open: HashMap<DirId, Arc<OwnedFd>>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    fd: Option<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// Since it was first opened.
    identity: Option<Identity>,
}

impl<'d> Dirs<'d> {
    /// Returns the directories below these roots; none is opened yet.
    pub(super) fn new(disk: &'d Disk, roots: &[PathBuf]) -> Self {
        let mut roots: Vec<Root> =
            roots.iter().map(|path| Root { path: path.clone(), fd: None }).collect();
        // The deepest root that holds a path is the one it is opened from.
        roots.sort_by_key(|root| std::cmp::Reverse(root.path.components().count()));
        Self { disk, roots, known: Vec::new(), ids: HashMap::new(), open: HashMap::new() }
    }

    /// Returns whether a path is below a root by its text, and nothing in it leads up.
    pub(super) fn holds(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| is_below(path, &root.path))
    }

    /// Returns whether this is a root, which is there whatever happens.
    pub(super) fn is_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.path == path)
    }

    /// Returns a directory's id; it is not opened.
    pub(super) fn id(&mut self, path: &Path) -> DirId {
        if let Some(id) = self.ids.get(path) {
            return *id;
        }
        let id = self.known.len();
        self.known.push(Known { path: path.to_owned(), identity: None });
        self.ids.insert(path.to_owned(), id);
        id
    }

    /// Returns a directory's path.
    pub(super) fn path(&self, id: DirId) -> &Path {
        self.known.get(id).map_or(Path::new(""), |known| &known.path)
    }

    /// Returns the path of a name in a directory.
    pub(super) fn path_of(&self, id: DirId, name: &OsStr) -> PathBuf {
        self.path(id).join(name)
    }

    /// Returns all paths, in the order of their ids.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.known.iter().map(|known| known.path.as_path())
    }

    /// Returns the paths of the roots.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Opens a directory, or returns it when it is open.
    pub(super) fn fd(&mut self, id: DirId) -> io::Result<Arc<OwnedFd>> {
        if let Some(fd) = self.open.get(&id) {
            return Ok(Arc::clone(fd));
        }
        let path = self.path(id).to_owned();
        let fd = Arc::new(self.open_path(&path)?);
        let stat = self.disk.stat_open(&*fd)?;
        let identity = (i128::from(stat.st_dev), stat.st_ino);
        if let Some(known) = self.known.get_mut(id) {
            if known.identity.is_some_and(|before| before != identity) {
                return Err(io::Error::other("another directory has taken its place"));
            }
            known.identity = Some(identity);
        }
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        self.open.insert(id, Arc::clone(&fd));
        Ok(fd)
    }

    /// Returns an open directory of each file system that these are on, and with each the id.
    pub(super) fn systems(
        &mut self,
        ids: impl IntoIterator<Item = DirId>,
    ) -> Result<Vec<System>, (DirId, io::Error)> {
        let mut systems: Vec<(i128, System)> = Vec::new();
        for id in ids {
            let known = self.known.get(id).and_then(|known| known.identity);
            let is_met = |device: i128| systems.iter().any(|(other, _)| *other == device);
            if known.is_some_and(|(device, _)| is_met(device)) {
                continue;
            }
            match self.fd(id) {
                Ok(fd) => {
                    let known = self.known.get(id).and_then(|known| known.identity);
                    let device = known.map_or(-1, |(device, _)| device);
                    if !systems.iter().any(|(other, _)| *other == device) {
                        systems.push((device, (id, fd)));
                    }
                }
                // One that was taken away: the one above knows.
                Err(error) if is_nowhere(&error) => {}
                Err(error) => return Err((id, error)),
            }
        }
        Ok(systems.into_iter().map(|(_, system)| system).collect())
    }

    /// Forgets a directory that was removed, so that one made in its place is taken for it.
    pub(super) fn forget(&mut self, path: &Path) {
        let Some(id) = self.ids.get(path) else { return };
        self.open.remove(id);
        if let Some(known) = self.known.get_mut(*id) {
            known.identity = None;
        }
    }

    fn open_path(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let holds = |root: &&mut Root| path == root.path || is_below(path, &root.path);
        let root = self.roots.iter_mut().find(holds);
        let root = root.ok_or_else(|| io::Error::other("not below a root"))?;
        let fd = match &root.fd {
            Some(fd) => Arc::clone(fd),
            None => {
                let fd = Arc::new(self.disk.open_root(&root.path)?);
                root.fd = Some(Arc::clone(&fd));
                fd
            }
        };
        let below = path.strip_prefix(&root.path).unwrap_or(path);
        self.disk.open_beneath(&fd, below)
    }
}

/// Returns whether a path is strictly below a directory, by its text.
fn is_below(path: &Path, root: &Path) -> bool {
    path.strip_prefix(root).is_ok_and(|below| {
        let mut names = below.components().peekable();
        names.peek().is_some() && names.all(|name| matches!(name, Component::Normal(_)))
    })
}
