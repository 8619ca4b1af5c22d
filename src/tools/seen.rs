//! What the model has seen of which file, so that it can be told when a file changed since.
//!
//! Holds one hash for a path, in memory: a session that is resumed begins with none, and then
//! says nothing until a file is read again. Knows no tool. Filled by `read_file` and by edits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

/// Files remembered. One more, and all are forgotten: what was read that long ago is stale in
/// other ways.
const FILES_MAX: usize = 20_000;

/// The files a session's model has seen; clones share them. The default remembers nothing, for
/// where there is no model.
#[derive(Debug, Clone, Default)]
pub struct SeenFiles {
    hashes: Option<Arc<Mutex<HashMap<PathBuf, Hash>>>>,
}

/// A file's content as it was seen.
type Hash = [u8; 32];

/// The hash of a file while it is read.
#[derive(Debug, Default)]
pub(crate) struct Seeing(Sha256);

impl Seeing {
    /// Takes in the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl SeenFiles {
    /// Returns an empty memory.
    pub fn new() -> Self {
        Self { hashes: Some(Arc::default()) }
    }

    /// Remembers what was seen of a file, by its real path; its bytes come in parts.
    pub(crate) fn note(&self, path: &Path, parts: &[&[u8]]) {
        if self.hashes.is_some() {
            let mut seeing = Seeing::default();
            parts.iter().for_each(|part| seeing.update(part));
            self.note_read(path, seeing);
        }
    }

    /// Remembers a file that was read piece by piece to its end.
    pub(crate) fn note_read(&self, path: &Path, seeing: Seeing) {
        self.put(path, seeing.0.finalize().into());
    }

    /// Forgets a file.
    pub(crate) fn forget(&self, path: &Path) {
        if let Some(mut hashes) = self.lock() {
            hashes.remove(path);
        }
    }

    /// Returns whether a file was seen and holds something else now.
    pub(crate) fn differs(&self, path: &Path, bytes: &[u8]) -> bool {
        let seen = self.lock().and_then(|hashes| hashes.get(path).copied());
        seen.is_some_and(|seen| seen != hash(bytes))
    }

    fn put(&self, path: &Path, hash: Hash) {
        let Some(mut hashes) = self.lock() else { return };
        if hashes.len() >= FILES_MAX && !hashes.contains_key(path) {
            hashes.clear();
        }
        hashes.insert(path.to_owned(), hash);
    }

    fn lock(&self) -> Option<MutexGuard<'_, HashMap<PathBuf, Hash>>> {
        // A map that another thread left in the middle of an insert is still a map.
        self.hashes.as_ref().map(|map| map.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}
