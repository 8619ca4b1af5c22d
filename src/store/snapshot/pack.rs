//! `Packs`: the store's objects in a few append-only files.
//!
//! Each process appends to a pack file of its own, which its lock says; reading needs no lock.
//! A `.idx` file beside a pack repeats the headers with their places, so that opening need not
//! walk the pack; what it lacks is read from the pack itself, and a record that is not whole
//! ends the pack. So a process may die at any moment. Knows no trees. Called by `record.rs`.

use std::collections::HashMap;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::TryLockError;
use std::hash::BuildHasherDefault;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::atomic::PRIVATE_MODE;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::error::io_error;
use crate::store::snapshot::object::HEADER_BYTES;
use crate::store::snapshot::object::Header;
use crate::store::snapshot::object::IdHasher;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::object::Record;

/// A pack that has grown so large is not appended to: pruning rewrites whole packs.
const PACK_BYTES_MAX: u64 = 256 << 20;
/// Records are collected up to this size before they are written.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of one entry of an index: a place and a header.
const INDEX_ENTRY_BYTES: usize = 8 + HEADER_BYTES;

/// Objects, and where they are.
pub(super) type Places = HashMap<ObjectId, Place, BuildHasherDefault<IdHasher>>;

/// All packs of one workspace.
#[derive(Debug)]
pub(super) struct Packs {
    dir: PathBuf,
    files: Vec<Pack>,
    /// What the packs held when they were opened; threads that read files look into it.
    known: Arc<Places>,
    /// What came since.
    added: Places,
    writer: Option<Appender>,
}

#[derive(Debug)]
struct Pack {
    path: PathBuf,
    file: File,
    /// Where its last whole record ends.
    end: u64,
}

/// Where an object is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pack: usize,
    offset: u64,
    header: Header,
}

/// The pack this process appends to. Its file is locked.
#[derive(Debug)]
struct Appender {
    pack: usize,
    file: File,
    /// Records that are not written yet.
    waiting: Vec<u8>,
    /// Index entries that are not written yet.
    index: Vec<u8>,
    is_synced: bool,
}

impl Packs {
    /// Opens the packs below a directory, which exists.
    pub(super) fn open(dir: &Path) -> Result<Self, SnapshotError> {
        let mut packs = Self {
            dir: dir.to_path_buf(),
            files: Vec::new(),
            known: Arc::default(),
            added: Places::default(),
            writer: None,
        };
        let mut known = Places::default();
        for path in pack_paths(dir).map_err(io_error("read", dir))? {
            let Ok(file) = File::open(&path) else { continue };
            let number = packs.files.len();
            known.reserve(index_entries(&path));
            let end = read_pack(&path, &file, |offset, header| {
                known.insert(header.id, Place { pack: number, offset, header });
            })
            .map_err(io_error("read", &path))?;
            packs.files.push(Pack { path, file, end });
        }
        packs.known = Arc::new(known);
        Ok(packs)
    }

    /// Returns whether an object is there.
    pub(super) fn holds(&self, id: ObjectId) -> bool {
        self.place(id).is_some()
    }

    /// Returns what was there when the packs were opened.
    pub(super) fn known(&self) -> Arc<Places> {
        Arc::clone(&self.known)
    }

    /// Returns an object's header.
    pub(super) fn header(&self, id: ObjectId) -> Option<Header> {
        self.place(id).map(|place| place.header)
    }

    /// Returns every object's header.
    pub(super) fn headers(&self) -> impl Iterator<Item = &Header> {
        self.known.values().chain(self.added.values()).map(|place| &place.header)
    }

    /// Returns the bytes the store takes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|pack| pack.end).sum()
    }

    /// Returns an object's content.
    pub(super) fn read(&self, id: ObjectId) -> Result<Vec<u8>, SnapshotError> {
        let place = self.place(id).ok_or(SnapshotError::Missing(id))?;
        let payload = self.read_payload(place)?;
        place.header.open(payload).ok_or(SnapshotError::Damaged(id))
    }

    /// Returns an object as it is stored.
    pub(super) fn read_record(&self, id: ObjectId) -> Result<Record, SnapshotError> {
        let place = self.place(id).ok_or(SnapshotError::Missing(id))?;
        let payload = self.read_payload(place)?;
        Ok(Record { header: place.header, payload })
    }

    /// Adds an object, unless it is there.
    pub(super) fn add(
        &mut self,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<ObjectId, SnapshotError> {
        let id = ObjectId::of(kind, content);
        if !self.holds(id) {
            self.append(&Record::new(kind, id, content))?;
        }
        Ok(id)
    }

    /// Adds a record, unless its object is there.
    pub(super) fn append(&mut self, record: &Record) -> Result<(), SnapshotError> {
        if self.holds(record.header.id) {
            return Ok(());
        }
        self.open_writer()?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Some(pack) = self.files.get_mut(writer.pack) else { return Ok(()) };
        let header = record.header.encode();
        writer.waiting.extend_from_slice(&header);
        writer.waiting.extend_from_slice(&record.payload);
        writer.index.extend_from_slice(&pack.end.to_le_bytes());
        writer.index.extend_from_slice(&header);
        writer.is_synced = false;
        let place = Place { pack: writer.pack, offset: pack.end, header: record.header };
        pack.end += (header.len() + record.payload.len()) as u64;
        self.added.insert(record.header.id, place);
        if writer.waiting.len() >= WRITE_BYTES { self.write_waiting() } else { Ok(()) }
    }

    /// Brings all objects to disk.
    pub(super) fn sync(&mut self) -> Result<(), SnapshotError> {
        self.write_waiting()?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Some(pack) = self.files.get(writer.pack) else { return Ok(()) };
        if !writer.is_synced {
            writer.file.sync_data().map_err(io_error("sync", &pack.path))?;
            writer.is_synced = true;
        }
        Ok(())
    }

    /// Writes the index of what was added. It only saves time, so it is not synced.
    pub(super) fn save_index(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let Some(pack) = self.files.get(writer.pack) else { return };
        if writer.waiting.is_empty() && !writer.index.is_empty() {
            let mut options = private_options();
            let file = options.append(true).open(index_path(&pack.path));
            if file.is_ok_and(|mut file| io::Write::write_all(&mut file, &writer.index).is_ok()) {
                writer.index.clear();
            }
        }
    }

    /// Returns the paths of all packs.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|pack| pack.path.clone()).collect()
    }

    fn place(&self, id: ObjectId) -> Option<Place> {
        self.added.get(&id).or_else(|| self.known.get(&id)).copied()
    }

    fn read_payload(&self, place: Place) -> Result<Vec<u8>, SnapshotError> {
        let missing = SnapshotError::Missing(place.header.id);
        let Some(pack) = self.files.get(place.pack) else { return Err(missing) };
        let mut payload = vec![0; place.header.stored_bytes as usize];
        let offset = place.offset + HEADER_BYTES as u64;
        if let Some(waiting) = self.find_waiting(place.pack, offset) {
            let bytes = waiting.get(..payload.len()).ok_or(missing)?;
            payload.copy_from_slice(bytes);
            return Ok(payload);
        }
        match pack.file.read_exact_at(&mut payload, offset) {
            Ok(()) => Ok(payload),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(missing),
            Err(error) => Err(io_error("read", &pack.path)(error)),
        }
    }

    /// Returns what is not written yet of a pack, from a place on.
    fn find_waiting(&self, pack: usize, offset: u64) -> Option<&[u8]> {
        let writer = self.writer.as_ref().filter(|writer| writer.pack == pack)?;
        let start = self.files.get(pack)?.end - writer.waiting.len() as u64;
        writer.waiting.get(usize::try_from(offset.checked_sub(start)?).ok()?..)
    }

    fn write_waiting(&mut self) -> Result<(), SnapshotError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Some(pack) = self.files.get_mut(writer.pack) else { return Ok(()) };
        if writer.waiting.is_empty() {
            return Ok(());
        }
        let start = pack.end - writer.waiting.len() as u64;
        match writer.file.write_all_at(&writer.waiting, start) {
            Ok(()) => {
                writer.waiting.clear();
                Ok(())
            }
            Err(error) => {
                // What is half written is cut off, and nothing that was to be there is known.
                let _ = writer.file.set_len(start);
                pack.end = start;
                let number = writer.pack;
                self.added.retain(|_, place| place.pack != number || place.offset < start);
                let path = pack.path.clone();
                self.writer = None;
                Err(io_error("write", &path)(error))
            }
        }
    }

    /// Finds a pack that nobody appends to, or makes one.
    fn open_writer(&mut self) -> Result<(), SnapshotError> {
        if self.writer.is_some() {
            return Ok(());
        }
        for number in 0..self.files.len() {
            if self.reopen(number) {
                return Ok(());
            }
        }
        let path = self.dir.join(format!("{}.pack", uuid::Uuid::now_v7().as_simple()));
        let mut options = private_options();
        let file = options.create_new(true).read(true).open(&path);
        let file = file.map_err(io_error("create", &path))?;
        // A file system without locks has nobody to keep out.
        let _ = file.try_lock();
        let reader = File::open(&path).map_err(io_error("open", &path))?;
        let pack = self.files.len();
        self.files.push(Pack { path, file: reader, end: 0 });
        self.writer = Some(Appender::new(pack, file));
        // Without it a power cut may lose the name of the new pack with all it holds.
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", &self.dir))
    }

    /// Takes an earlier pack for appending; says whether that went well.
    fn reopen(&mut self, number: usize) -> bool {
        let Some(pack) = self.files.get_mut(number) else { return false };
        if pack.end >= PACK_BYTES_MAX {
            return false;
        }
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&pack.path) else {
            return false;
        };
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_))) {
            return false;
        }
        // Another process may have added to it since it was opened here.
        let added = &mut self.added;
        let mut index = Vec::new();
        let end = cut_index(&pack.path, &file).and_then(|covered| {
            scan_records(&file, covered, |offset, header| {
                index.extend_from_slice(&offset.to_le_bytes());
                index.extend_from_slice(&header.encode());
                added.insert(header.id, Place { pack: number, offset, header });
            })
        });
        let Ok(end) = end else { return false };
        pack.end = end;
        if file.set_len(end).is_err() {
            return false;
        }
        self.writer = Some(Appender { index, ..Appender::new(number, file) });
        true
    }
}

impl Appender {
    fn new(pack: usize, file: File) -> Self {
        Self { pack, file, waiting: Vec::new(), index: Vec::new(), is_synced: true }
    }
}

/// Returns the path of a pack's index.
pub(super) fn index_path(pack: &Path) -> PathBuf {
    pack.with_extension("idx")
}

/// Returns how many objects a pack's index names, by its size.
fn index_entries(pack: &Path) -> usize {
    let bytes = index_path(pack).metadata().map_or(0, |found| found.len());
    usize::try_from(bytes).unwrap_or(0) / INDEX_ENTRY_BYTES
}

/// Returns options that make files nobody else reads.
pub(super) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(PRIVATE_MODE);
    options
}

fn pack_paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Reads a pack's headers, from its index as far as that goes; returns where the pack ends.
fn read_pack(path: &Path, file: &File, mut found: impl FnMut(u64, Header)) -> io::Result<u64> {
    let index = std::fs::read(index_path(path)).unwrap_or_default();
    let covered = read_index(&index, file.metadata()?.len(), &mut found);
    scan_records(file, covered, found)
}

/// Cuts off what an index says beyond its pack; returns how much of the pack it covers.
fn cut_index(path: &Path, file: &File) -> io::Result<u64> {
    let path = index_path(path);
    let index = std::fs::read(&path).unwrap_or_default();
    let mut entries = 0_u64;
    let covered = read_index(&index, file.metadata()?.len(), &mut |_, _| entries += 1);
    let length = entries * INDEX_ENTRY_BYTES as u64;
    if length < index.len() as u64 {
        OpenOptions::new().write(true).open(&path)?.set_len(length)?;
    }
    Ok(covered)
}

/// Reads the entries of an index that fit a pack of this length; returns where the last ends.
fn read_index(index: &[u8], length: u64, found: &mut dyn FnMut(u64, Header)) -> u64 {
    let mut end = 0;
    for entry in index.chunks_exact(INDEX_ENTRY_BYTES) {
        let Some((offset, header)) = entry.split_first_chunk::<8>() else { break };
        let offset = u64::from_le_bytes(*offset);
        let Some(header) = Header::decode(header) else { break };
        let after = offset + HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        // An index is written in order; what leaves a gap or goes too far is read from the pack.
        if offset != end || after > length {
            break;
        }
        found(offset, header);
        end = after;
    }
    end
}

/// Reads headers in the pack itself, from `start`; returns where the last whole record ends.
fn scan_records(file: &File, start: u64, mut found: impl FnMut(u64, Header)) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut end = start;
    let mut bytes = [0; HEADER_BYTES];
    while end + HEADER_BYTES as u64 <= length {
        file.read_exact_at(&mut bytes, end)?;
        let Some(header) = Header::decode(&bytes) else { break };
        let after = end + HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        if after > length {
            break;
        }
        found(end, header);
        end = after;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packs(dir: &Path) -> Packs {
        Packs::open(dir).unwrap()
    }

    #[test]
    fn objects_come_back_with_and_without_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = packs(dir.path());
        let a = first.add(ObjectKind::Chunk, b"a").unwrap();
        let b = first.add(ObjectKind::Chunk, &b"b".repeat(1000)).unwrap();
        assert_eq!(first.read(b).unwrap(), b"b".repeat(1000));
        first.sync().unwrap();
        first.save_index();
        let c = first.add(ObjectKind::Tree, b"c").unwrap();
        first.sync().unwrap();
        // The index lacks the last one.
        let mut second = packs(dir.path());
        for (id, content) in [(a, b"a".to_vec()), (b, b"b".repeat(1000)), (c, b"c".to_vec())] {
            assert_eq!(second.read(id).unwrap(), content);
        }
        // One pack is being appended to, so the second process makes another.
        second.add(ObjectKind::Chunk, b"d").unwrap();
        second.sync().unwrap();
        assert_eq!(second.paths().len(), 2);
        drop((first, second));
        let mut third = packs(dir.path());
        third.add(ObjectKind::Chunk, b"e").unwrap();
        third.sync().unwrap();
        assert_eq!(third.paths().len(), 2);
    }

    #[test]
    fn a_torn_tail_is_cut_off_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = packs(dir.path());
        let a = first.add(ObjectKind::Chunk, b"whole").unwrap();
        first.sync().unwrap();
        let whole = first.bytes();
        let torn = first.add(ObjectKind::Chunk, b"torn").unwrap();
        first.sync().unwrap();
        first.save_index();
        let path = first.paths().remove(0);
        let length = first.bytes();
        drop(first);
        for cut in whole..length {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(cut).unwrap();
            let again = packs(dir.path());
            assert_eq!(again.read(a).unwrap(), b"whole");
            assert!(!again.holds(torn), "cut at {cut}");
            file.set_len(length).unwrap();
        }
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        let mut again = packs(dir.path());
        let next = again.add(ObjectKind::Chunk, b"next").unwrap();
        again.sync().unwrap();
        assert_eq!(packs(dir.path()).read(next).unwrap(), b"next");
        assert_eq!(packs(dir.path()).read(a).unwrap(), b"whole");
    }

    #[test]
    fn damage_is_named_and_never_handed_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = packs(dir.path());
        let id = first.add(ObjectKind::Chunk, b"content").unwrap();
        first.sync().unwrap();
        let path = first.paths().remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(packs(dir.path()).read(id), Err(SnapshotError::Damaged(_))));
    }
}
