//! Pruning: old snapshots go when a store outgrows its bound or they are too old.
//!
//! The newest are kept, with all they name, by copying their records into one new pack; then
//! the old packs go. Dying in between leaves objects twice, never none. Runs under the store's
//! exclusive lock, so nobody counts on what goes. Called by `record.rs`.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use std::time::SystemTime;

use crate::protocol::SnapshotId;
use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::error::SnapshotError;
use crate::store::snapshot::error::io_error;
use crate::store::snapshot::object::HEADER_BYTES;
use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::pack::Packs;
use crate::store::snapshot::pack::index_path;
use crate::store::snapshot::pack::private_options;
use crate::store::snapshot::record::Snapshot;
use crate::store::snapshot::record::now_seconds;
use crate::store::snapshot::record::open_lock;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Node;

/// How much of the bound is left after pruning, in percent: so that it is not due at once again.
const KEEP_PERCENT: u64 = 75;
/// A store beyond its bound is looked at again when it has grown by this part of the bound.
const GROWTH_PARTS: u64 = 8;
/// What frees less than this part of a store is not worth writing it anew.
const FREED_PARTS: u64 = 16;
/// How the names of notes begin that tell how long a process lived.
pub(super) const NOTE_PREFIX: &str = "alive-";
const DAY_SECONDS: u64 = 86_400;

/// Returns how often a store was pruned; a cache holds only for the same number.
pub(super) fn generation(dir: &Path) -> u64 {
    std::fs::read_to_string(dir.join("generation"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns whether a store has outgrown its bound, and grown since it was looked at last.
pub(super) fn is_due(bytes: u64, last_bytes: u64, limits: &SnapshotLimits) -> bool {
    let step = limits.keep_bytes_max / GROWTH_PARTS;
    bytes > limits.keep_bytes_max && (last_bytes <= 1 || bytes > last_bytes.saturating_add(step))
}

/// Returns whether a store holds snapshots that are older than they are kept.
pub(super) fn has_old(packs: &Packs, limits: &SnapshotLimits, pinned: &[SnapshotId]) -> bool {
    let oldest = oldest_kept(limits);
    packs.headers().filter(|header| header.kind == ObjectKind::Snapshot).any(|header| {
        let is_pinned = pinned.iter().any(|pin| ObjectId::parse(pin.as_str()) == Some(header.id));
        let snapshot = packs.read(header.id).ok().and_then(|bytes| Snapshot::decode(&bytes));
        !is_pinned && snapshot.is_some_and(|snapshot| snapshot.taken < oldest)
    })
}

fn oldest_kept(limits: &SnapshotLimits) -> u64 {
    now_seconds().saturating_sub(limits.keep_days_max.saturating_mul(DAY_SECONDS))
}

/// Keeps the newest snapshots and drops the others. The caller holds the exclusive lock and
/// opens the packs anew afterwards.
pub(super) fn prune(
    packs: &mut Packs,
    dir: &Path,
    limits: &SnapshotLimits,
    pinned: &[SnapshotId],
) -> Result<(), SnapshotError> {
    packs.sync()?;
    // Others may have added to the packs since they were opened here.
    *packs = Packs::open(&dir.join("packs"))?;
    let (live, live_bytes) = choose_live(packs, limits, pinned)?;
    // To write all of it again for next to nothing would be done again and again.
    let freed = packs.bytes().saturating_sub(live_bytes);
    if freed <= packs.bytes() / FREED_PARTS {
        return Ok(());
    }
    let old = packs.paths();
    remove_leftovers(&dir.join("packs"));
    // First of all nobody may trust a cache that names what goes.
    let number = (generation(dir) + 1).to_string();
    let path = dir.join("generation");
    crate::store::atomic::write_private(&path, number.as_bytes())
        .map_err(io_error("write", &path))?;
    write_pack(packs, dir, &live)?;
    for path in old {
        let _ = std::fs::remove_file(index_path(&path));
        std::fs::remove_file(&path).map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// Removes what a pruning left that died.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "tmp") {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes notes of processes that died long ago.
pub(super) fn drop_old_notes(dir: &Path, limits: &SnapshotLimits) {
    let age = Duration::from_secs(limits.keep_days_max.saturating_mul(DAY_SECONDS));
    let Some(oldest) = SystemTime::now().checked_sub(age) else { return };
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let is_note = entry.file_name().as_encoded_bytes().starts_with(NOTE_PREFIX.as_bytes());
        let noted = entry.metadata().and_then(|note| note.modified());
        if is_note && noted.is_ok_and(|noted| noted < oldest) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes the stores of other workspaces that nobody used for as long as snapshots are kept.
pub(super) fn drop_old_stores(own: &Path, limits: &SnapshotLimits) {
    let Some(entries) = own.parent().and_then(|all| std::fs::read_dir(all).ok()) else { return };
    let age = Duration::from_secs(limits.keep_days_max.saturating_mul(DAY_SECONDS));
    let Some(oldest) = SystemTime::now().checked_sub(age) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let used = std::fs::metadata(path.join("packs")).and_then(|packs| packs.modified());
        if path == own || !used.is_ok_and(|used| used < oldest) || has_newer_pack(&path, oldest) {
            continue;
        }
        // Someone may have begun to use it just now.
        let Ok(lock) = open_lock(&path) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn has_newer_pack(store: &Path, oldest: SystemTime) -> bool {
    let Ok(packs) = std::fs::read_dir(store.join("packs")) else { return false };
    packs
        .flatten()
        .any(|pack| pack.metadata().and_then(|pack| pack.modified()).is_ok_and(|at| at >= oldest))
}

/// Returns the objects to keep: what pinned snapshots name, then the newest others while there
/// is room.
fn choose_live(
    packs: &Packs,
    limits: &SnapshotLimits,
    pinned: &[SnapshotId],
) -> Result<(HashSet<ObjectId>, u64), SnapshotError> {
    let ids: Vec<ObjectId> = packs
        .headers()
        .filter(|header| header.kind == ObjectKind::Snapshot)
        .map(|header| header.id)
        .collect();
    let mut snapshots = Vec::new();
    for id in ids {
        if let Some(snapshot) = packs.read(id).ok().and_then(|bytes| Snapshot::decode(&bytes)) {
            let is_pinned = pinned.iter().any(|pin| ObjectId::parse(pin.as_str()) == Some(id));
            snapshots.push((is_pinned, snapshot.taken, id, snapshot));
        }
    }
    snapshots.sort_unstable_by_key(|(is_pinned, taken, id, _)| (!is_pinned, u64::MAX - taken, *id));
    let oldest = oldest_kept(limits);
    let room = limits.keep_bytes_max / 100 * KEEP_PERCENT;
    let (mut live, mut bytes) = (HashSet::new(), 0_u64);
    for (at, (is_pinned, taken, id, snapshot)) in snapshots.into_iter().enumerate() {
        if !is_pinned && at > 0 && (bytes > room || taken < oldest) {
            break;
        }
        mark(packs, id, &mut live, &mut bytes)?;
        for tree in snapshot.roots.iter().filter_map(|root| root.tree) {
            // A tree with a hole restores nothing; the rest of the snapshot may.
            let _ = mark_tree(packs, tree, &mut live, &mut bytes);
        }
    }
    Ok((live, bytes))
}

fn mark_tree(
    packs: &Packs,
    tree: ObjectId,
    live: &mut HashSet<ObjectId>,
    bytes: &mut u64,
) -> Result<(), SnapshotError> {
    let mut waiting = vec![tree];
    while let Some(id) = waiting.pop() {
        if live.contains(&id) {
            continue;
        }
        let content = packs.read(id)?;
        mark(packs, id, live, bytes)?;
        let Some(dir) = Dir::decode(id, &content) else { continue };
        for entry in &dir.entries {
            match &entry.node {
                Node::Dir { id, .. } => waiting.push(*id),
                Node::File { content, .. } => {
                    if let Some(id) = content.object() {
                        mark_content(packs, id, live, bytes)?;
                    }
                }
                Node::Link { .. } | Node::Other(_) => {}
            }
        }
    }
    Ok(())
}

fn mark_content(
    packs: &Packs,
    id: ObjectId,
    live: &mut HashSet<ObjectId>,
    bytes: &mut u64,
) -> Result<(), SnapshotError> {
    let Some(header) = packs.header(id).filter(|_| !live.contains(&id)) else { return Ok(()) };
    if header.kind == ObjectKind::Chunks {
        let list = packs.read(id)?;
        for chunk in list.as_chunks::<32>().0 {
            if packs.holds(ObjectId(*chunk)) {
                mark(packs, ObjectId(*chunk), live, bytes)?;
            }
        }
    }
    mark(packs, id, live, bytes)
}

fn mark(
    packs: &Packs,
    id: ObjectId,
    live: &mut HashSet<ObjectId>,
    bytes: &mut u64,
) -> Result<(), SnapshotError> {
    let header = packs.header(id).ok_or(SnapshotError::Missing(id))?;
    if live.insert(id) {
        *bytes += HEADER_BYTES as u64 + u64::from(header.stored_bytes);
    }
    Ok(())
}

/// Copies the records of live objects into a new pack and brings it to disk.
fn write_pack(packs: &Packs, dir: &Path, live: &HashSet<ObjectId>) -> Result<(), SnapshotError> {
    let folder = dir.join("packs");
    let path = folder.join(format!("{}.pack", uuid::Uuid::now_v7().as_simple()));
    let temp = path.with_extension("tmp");
    let file = private_options().create_new(true).open(&temp).map_err(io_error("create", &temp))?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    for id in live {
        let record = packs.read_record(*id)?;
        out.write_all(&record.header.encode())
            .and_then(|()| out.write_all(&record.payload))
            .map_err(io_error("write", &temp))?;
    }
    let file = out.into_inner().map_err(|error| io_error("write", &temp)(error.into_error()))?;
    file.sync_all().map_err(io_error("sync", &temp))?;
    std::fs::rename(&temp, &path).map_err(io_error("rename", &temp))?;
    File::open(&folder).and_then(|dir| dir.sync_all()).map_err(io_error("sync", &folder))
}
