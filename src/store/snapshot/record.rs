//! `SnapshotStore`: records the state of a workspace's roots, and reads recorded ones.
//!
//! A snapshot is an object that names each root's tree, so all of it stands in the packs. A
//! shared lock on the store keeps it from being pruned while it is open. Blocking. Knows no
//! calls and no sessions. Called by `worker.rs` and by subcommands through `agent/restore.rs`.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use sha2::Digest as _;
use sha2::Sha256;

use crate::protocol::SnapshotId;
use crate::store::atomic::create_private_folders;
use crate::store::snapshot::PlaceholderTest;
use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::cache::encode_cache;
use crate::store::snapshot::cache::load_cache;
use crate::store::snapshot::content::Kept;
use crate::store::snapshot::content::keep_files;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::error::io_error;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::pack::Packs;
use crate::store::snapshot::pack::private_options;
use crate::store::snapshot::prune;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::walk::Draft;
use crate::store::snapshot::walk::DraftEntry;
use crate::store::snapshot::walk::ENTRIES_MAX;
use crate::store::snapshot::walk::Task;
use crate::store::snapshot::walk::Walk;
use crate::store::snapshot::wire::Reader;
use crate::store::snapshot::wire::Writer;
use crate::text::hex::encode_hex;

/// Roots of one workspace; a snapshot with more is none of ours.
const ROOTS_MAX: u64 = 10_000;

/// What a store is opened for.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotSpec {
    /// The state directory.
    pub(crate) state: PathBuf,
    /// The workspace, then other writable roots, all real paths.
    pub(crate) roots: Vec<PathBuf>,
    /// Bounds.
    pub(crate) limits: SnapshotLimits,
    /// Tells what is no part of the workspace.
    pub(crate) is_placeholder: PlaceholderTest,
}

/// The snapshots of one workspace.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    spec: SnapshotSpec,
    dir: PathBuf,
    /// Shared by all that use the store; held for as long as it is open.
    lock: File,
    pub(super) packs: Packs,
    roots: Vec<Root>,
    /// The snapshot that was taken last, and the trees it names.
    last: Option<(SnapshotId, Vec<RootTree>)>,
    /// Set when nobody wants any more what is being recorded.
    pub(super) stop: Arc<AtomicBool>,
    /// Bytes of the packs when they were pruned last.
    pruned_at_bytes: u64,
    /// Files that were read the last time.
    #[cfg(test)]
    jobs: usize,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// The tree as it was seen last.
    tree: Option<Arc<Dir>>,
    is_cached: bool,
}

/// A snapshot, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Seconds since 1970.
    pub(super) taken: u64,
    pub(super) roots: Vec<RootTree>,
}

/// One root of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RootTree {
    pub(super) path: PathBuf,
    /// The tree; `None` when it could not be recorded.
    pub(super) tree: Option<ObjectId>,
}

/// What came of recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The snapshot; `None` when no root could be recorded.
    pub(crate) snapshot: Option<SnapshotId>,
    /// Roots that could not be recorded, and why.
    pub(crate) off: Vec<(PathBuf, String)>,
}

impl SnapshotStore {
    /// Opens the store of a workspace, which is made if need be.
    pub(crate) fn open(spec: SnapshotSpec) -> Result<Self, SnapshotError> {
        let all = spec.state.join("snapshots");
        let dir = all.join(workspace_key(spec.roots.first()));
        let packs_dir = dir.join("packs");
        create_private_folders(&packs_dir).map_err(io_error("create", &packs_dir))?;
        let lock = open_lock(&dir)?;
        // Who prunes holds it for a moment; a file system without locks has nobody to wait for.
        let _ = lock.lock_shared();
        let packs = Packs::open(&packs_dir)?;
        let roots = outer_roots(&spec.roots)
            .into_iter()
            .map(|path| Root { path, tree: None, is_cached: false })
            .collect();
        Ok(Self {
            spec,
            dir,
            lock,
            packs,
            roots,
            last: None,
            stop: Arc::default(),
            pruned_at_bytes: 0,
            #[cfg(test)]
            jobs: 0,
        })
    }

    /// Records the state of all roots and brings it to disk.
    pub(crate) fn take(&mut self) -> Result<Taken, SnapshotError> {
        let taken = self.try_take();
        if taken.is_err() {
            // What was not written is not known, so neither is what refers to it.
            self.last = None;
            for root in &mut self.roots {
                root.tree = None;
            }
        }
        taken
    }

    fn try_take(&mut self) -> Result<Taken, SnapshotError> {
        let mut trees = Vec::with_capacity(self.roots.len());
        let mut off = Vec::new();
        for number in 0..self.roots.len() {
            let Some(path) = self.roots.get(number).map(|root| root.path.clone()) else { continue };
            let tree = match self.take_root(number)? {
                Ok(tree) => Some(tree),
                Err(reason) => {
                    off.push((path.clone(), reason));
                    None
                }
            };
            trees.push(RootTree { path, tree });
        }
        if trees.iter().all(|root| root.tree.is_none()) {
            return Ok(Taken { snapshot: None, off });
        }
        if let Some((id, last)) = &self.last
            && *last == trees
        {
            return Ok(Taken { snapshot: Some(id.clone()), off });
        }
        let snapshot = Snapshot { taken: now_seconds(), roots: trees };
        let id = self.packs.add(ObjectKind::Snapshot, &snapshot.encode())?;
        self.packs.sync()?;
        let id = SnapshotId(id.to_hex());
        self.last = Some((id.clone(), snapshot.roots));
        Ok(Taken { snapshot: Some(id), off })
    }

    /// Reads a snapshot.
    pub(crate) fn load(&self, id: &SnapshotId) -> Result<Snapshot, SnapshotError> {
        let bad = || SnapshotError::BadId(id.to_string());
        let object = ObjectId::parse(id.as_str()).ok_or_else(bad)?;
        let bytes = self.packs.read(object)?;
        Snapshot::decode(&bytes).ok_or(SnapshotError::Damaged(object))
    }

    /// Reads a directory, without what is below it.
    pub(super) fn load_dir(&self, id: ObjectId) -> Result<Arc<Dir>, SnapshotError> {
        let bytes = self.packs.read(id)?;
        Dir::decode(id, &bytes).map(Arc::new).ok_or(SnapshotError::Damaged(id))
    }

    /// Hands out a file's bytes piece by piece.
    pub(super) fn read_content(
        &self,
        content: Content,
        out: &mut dyn std::io::Write,
    ) -> Result<(), SnapshotError> {
        let chunks = match content {
            Content::Whole(id) => vec![id],
            Content::Chunks(list) => {
                let bytes = self.packs.read(list)?;
                let (ids, rest) = bytes.as_chunks::<32>();
                if !rest.is_empty() {
                    return Err(SnapshotError::Damaged(list));
                }
                ids.iter().map(|id| ObjectId(*id)).collect()
            }
            Content::NotKept { .. } => return Ok(()),
        };
        for id in chunks {
            let bytes = self.packs.read(id)?;
            out.write_all(&bytes).map_err(io_error("write", Path::new("the restored file")))?;
        }
        Ok(())
    }

    /// Writes down what was seen, so that the next process need not read every file.
    pub(crate) fn save_cache(&mut self) {
        self.packs.save_index();
        let generation = prune::generation(&self.dir);
        for number in 0..self.roots.len() {
            let path = self.cache_path(number);
            let basis = self.cache_basis(number, generation);
            let Some(root) = self.roots.get_mut(number) else { continue };
            if let Some(tree) = root.tree.as_ref().filter(|_| !root.is_cached) {
                // A cache that could not be written costs time, nothing else.
                root.is_cached = write_whole(&path, &encode_cache(&basis, tree)).is_ok();
            }
        }
    }

    /// Makes room when the store has outgrown its bound; keeps what `pinned` names. Nothing
    /// happens while another process has the store open.
    pub(crate) fn prune_if_due(&mut self, pinned: &[SnapshotId]) -> Result<(), SnapshotError> {
        let is_first = self.pruned_at_bytes == 0;
        if is_first {
            prune::drop_old_stores(&self.dir, &self.spec.limits);
            prune::drop_old_notes(&self.dir, &self.spec.limits);
        }
        let bytes = self.packs.bytes();
        let is_due = prune::is_due(bytes, self.pruned_at_bytes, &self.spec.limits)
            || (is_first && prune::has_old(&self.packs, &self.spec.limits, pinned));
        self.pruned_at_bytes = self.pruned_at_bytes.max(1);
        if !is_due {
            return Ok(());
        }
        let _ = self.lock.unlock();
        let pinned: Vec<SnapshotId> =
            pinned.iter().chain(self.last.iter().map(|(id, _)| id)).cloned().collect();
        let (mut result, mut is_looked_through) = (Ok(()), false);
        if self.lock.try_lock().is_ok() {
            result = prune::prune(&mut self.packs, &self.dir, &self.spec.limits, &pinned);
            is_looked_through = true;
            let _ = self.lock.unlock();
        }
        let _ = self.lock.lock_shared();
        self.packs = Packs::open(&self.dir.join("packs"))?;
        if is_looked_through {
            self.pruned_at_bytes = self.packs.bytes().max(1);
        }
        result
    }

    /// Notes that the process lives which watches what changes since a state.
    pub(super) fn note_alive(&self, since: &SnapshotId) {
        // Without it what changed last counts as somebody else's after a kill.
        if let Ok(file) = private_options().open(self.alive_path(since)) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// Forgets about it.
    pub(super) fn drop_alive(&self, since: &SnapshotId) {
        let _ = std::fs::remove_file(self.alive_path(since));
    }

    /// Returns until when a process, gone by now, is known to have watched since a state, in
    /// nanoseconds since 1970.
    pub(crate) fn last_alive_ns(&self, since: &SnapshotId) -> Option<i64> {
        let at = std::fs::metadata(self.alive_path(since)).and_then(|note| note.modified()).ok()?;
        let at = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(at.as_nanos()).ok()
    }

    fn alive_path(&self, since: &SnapshotId) -> PathBuf {
        let mut name = String::from(prune::NOTE_PREFIX);
        name.extend(since.as_str().chars().filter(char::is_ascii_hexdigit).take(64));
        self.dir.join(name)
    }

    /// Returns the tree of a root as it was seen last.
    pub(super) fn seen(&self, path: &Path) -> Option<&Arc<Dir>> {
        self.roots.iter().find(|root| root.path == path)?.tree.as_ref()
    }

    /// Returns how many files were read the last time.
    #[cfg(test)]
    pub(super) fn count_jobs(&self) -> usize {
        self.jobs
    }

    /// Returns the state directory.
    pub(super) fn state(&self) -> &Path {
        &self.spec.state
    }

    /// Returns the roots that are recorded.
    pub(crate) fn root_paths(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }

    fn take_root(&mut self, number: usize) -> Result<Result<ObjectId, String>, SnapshotError> {
        if self.roots.get(number).is_some_and(|root| root.tree.is_none()) {
            let basis = self.cache_basis(number, prune::generation(&self.dir));
            let tree = load_cache(&self.cache_path(number), &basis);
            // After a power cut the packs may lack what the cache names.
            let tree = tree.filter(|tree| self.packs.holds(tree.id));
            if let Some(root) = self.roots.get_mut(number) {
                root.is_cached = tree.is_some();
                root.tree = tree;
            }
        }
        let Some(root) = self.roots.get_mut(number) else {
            return Ok(Err("it is not there".to_owned()));
        };
        let mut walk = Walk::new(&self.spec.state, ENTRIES_MAX, self.spec.is_placeholder);
        walk.stop = Arc::clone(&self.stop);
        let (draft, jobs) = match walk.run(&root.path, root.tree.as_ref()) {
            Ok(looked) => looked,
            Err(_) if self.stop.load(Ordering::Relaxed) => return Err(SnapshotError::Stopped),
            Err(off) => return Ok(Err(off.reason())),
        };
        let (jobs, ignored) = (&jobs[..], walk.ignored_bytes());
        #[cfg(test)]
        {
            self.jobs = jobs.len();
        }
        let kept = keep_files(
            &mut self.packs,
            &root.path,
            jobs,
            (ignored, &self.spec.limits),
            &self.stop,
        )?;
        let tree = match draft {
            Draft::Same(tree) => tree,
            Draft::New(before, entries) => {
                root.is_cached = false;
                build_dir(&mut self.packs, before.as_deref(), entries, (&kept, jobs))?
            }
        };
        let id = tree.id;
        root.tree = Some(tree);
        Ok(Ok(id))
    }

    fn cache_path(&self, number: usize) -> PathBuf {
        self.dir.join(format!("seen-{}", workspace_key(self.roots.get(number).map(|r| &r.path))))
    }

    /// What a cache holds for: the root, the bounds, and packs from which nothing was pruned.
    fn cache_basis(&self, number: usize, generation: u64) -> Vec<u8> {
        let limits = &self.spec.limits;
        let mut writer = Writer::default();
        let path = self.roots.get(number).map(|root| root.path.as_os_str().as_bytes());
        writer.string(path.unwrap_or_default());
        for bound in [
            limits.file_bytes_max,
            limits.ignored_file_bytes_max,
            limits.ignored_total_bytes_max,
            generation,
        ] {
            writer.number(bound);
        }
        writer.into_bytes()
    }
}

impl Snapshot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.taken);
        writer.number(self.roots.len() as u64);
        for root in &self.roots {
            writer.string(root.path.as_os_str().as_bytes());
            writer.byte(u8::from(root.tree.is_some()));
            if let Some(id) = root.tree {
                writer.raw(&id.0);
            }
        }
        writer.into_bytes()
    }

    /// Reads a snapshot; `None` when the bytes are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let taken = reader.number()?;
        let count = reader.number().filter(|count| *count <= ROOTS_MAX)?;
        let mut roots = Vec::new();
        for _ in 0..count {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(reader.string()?));
            let tree = match reader.byte()? {
                0 => None,
                _ => Some(ObjectId(reader.array()?)),
            };
            roots.push(RootTree { path, tree });
        }
        (path_list_is_sound(&roots) && reader.is_at_end()).then_some(Self { taken, roots })
    }

    /// Returns the roots it was taken of.
    pub(crate) fn root_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().map(|root| root.path.clone())
    }

    /// Returns the tree of a root.
    pub(super) fn tree(&self, path: &Path) -> Option<ObjectId> {
        self.roots.iter().find(|root| root.path == path)?.tree
    }
}

fn path_list_is_sound(roots: &[RootTree]) -> bool {
    roots.iter().all(|root| root.path.is_absolute())
}

/// Makes directories of a draft, with what was read for it, and adds them to the packs.
fn build_dir(
    packs: &mut Packs,
    before: Option<&Dir>,
    drafts: Vec<DraftEntry>,
    (kept, jobs): (&[Kept], &[crate::store::snapshot::walk::Job]),
) -> Result<Arc<Dir>, SnapshotError> {
    let mut entries = Vec::with_capacity(drafts.len());
    for draft in drafts {
        entries.extend(match draft {
            DraftEntry::Known(at) => before.and_then(|dir| dir.entries.get(at)).cloned(),
            DraftEntry::Done(entry) => Some(entry),
            DraftEntry::Dir { name, mode, stat, draft } => {
                let dir = match draft {
                    Draft::Same(dir) => dir,
                    Draft::New(before, drafts) => {
                        build_dir(packs, before.as_deref(), drafts, (kept, jobs))?
                    }
                };
                let node = Node::Dir { mode, id: dir.id, dir: Some(dir) };
                Some(Entry { name, node, stat, is_ignored: false })
            }
            DraftEntry::Job { job: Task::New(_), .. } => None,
            DraftEntry::Job { name, job: Task::At(job) } => {
                let read = kept.get(job).zip(jobs.get(job));
                read.map(|(kept, job)| Entry {
                    name,
                    node: Node::File { mode: kept.mode, size: kept.size, content: kept.content },
                    stat: kept.stat,
                    is_ignored: job.is_ignored,
                })
            }
        });
    }
    let dir = Dir::new(entries);
    if !packs.holds(dir.id) {
        packs.add(ObjectKind::Tree, &dir.encode())?;
    }
    Ok(Arc::new(dir))
}

/// Returns the roots that lie below no other, the workspace first.
fn outer_roots(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut outer: Vec<PathBuf> = Vec::new();
    for root in roots {
        let is_inner = roots.iter().any(|other| other != root && root.starts_with(other));
        if !is_inner && !outer.contains(root) {
            outer.push(root.clone());
        }
    }
    outer
}

/// Returns the name of a workspace's folder: the hash of its path.
pub(super) fn workspace_key(path: Option<&PathBuf>) -> String {
    let path = path.map(|path| path.as_os_str().as_bytes()).unwrap_or_default();
    let mut key = encode_hex(&Sha256::digest(path));
    key.truncate(32);
    key
}

/// Opens the file whose lock says who uses a store.
pub(super) fn open_lock(dir: &Path) -> Result<File, SnapshotError> {
    let path = dir.join("lock");
    private_options().read(true).open(&path).map_err(io_error("open", &path))
}

/// Writes a file of ours whole or not at all; not synced, for it only saves time.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temp = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = private_options().truncate(true).open(&temp)?;
    std::io::Write::write_all(&mut file, bytes)?;
    drop(file);
    std::fs::rename(&temp, path)
}

pub(super) fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}
