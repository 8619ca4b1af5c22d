//! Finds files that the store does not hold where steps have moved them to.
//!
//! Such a file has no copy, so it can only go back as it is, under the name it had; and where it
//! cannot, it must stay: it is all there is. A file is known again by device, inode, size and
//! time. Looks at the disk, changes nothing. Called by `take_back.rs`.

use std::collections::HashMap;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::store::snapshot::take_back::FileKey;
use crate::store::snapshot::take_back::Item;
use crate::store::snapshot::take_back::Rename;
use crate::store::snapshot::take_back::Verdict;
use crate::store::snapshot::tree::Content;
use crate::store::snapshot::tree::Node;

/// Returns the files that go back to their names, in the order in which each finds its name
/// free; they are no longer among what is left. One that cannot go back stays.
pub(super) fn find_moved(items: &mut [Item<'_>]) -> Vec<Rename> {
    let pairs = find_pairs(items);
    let mut waiting: Vec<Rename> = Vec::new();
    for (from, to) in &pairs {
        let (Some(source), Some(target)) = (items.get(*from), items.get(*to)) else { continue };
        let (Some(now), Some(file)) = (source.now, key_now(source.path)) else { continue };
        let goes = matches!(source.wish.goal, None | Some(Node::File { .. }))
            && source.wish.goal.as_ref().is_none_or(|goal| key_of(goal).is_some());
        let to_is_file = target.now.is_some();
        if goes {
            waiting.push(Rename {
                from: source.path.to_path_buf(),
                to: target.path.to_path_buf(),
                now: now.node.clone(),
                file,
                follows: to_is_file,
            });
        }
    }
    let renames = put_in_order(waiting);
    let gone: HashSet<&Path> = renames.iter().map(|rename| rename.from.as_path()).collect();
    let come: HashSet<&Path> = renames.iter().map(|rename| rename.to.as_path()).collect();
    for (from, to) in pairs {
        let target = items.get(to).map(|item| item.path.display().to_string());
        if let Some(source) = items.get_mut(from)
            && !gone.contains(source.path)
            && source.verdict != Verdict::Same
        {
            let name = target.unwrap_or_default();
            source.verdict = Verdict::Left(format!("it is all there is of {name}"));
        }
    }
    for item in items.iter_mut() {
        if gone.contains(item.path) && item.wish.goal.is_none() || come.contains(item.path) {
            item.verdict = Verdict::Same;
        }
    }
    renames
}

/// Returns which item holds the file that another is to be.
fn find_pairs(items: &[Item<'_>]) -> Vec<(usize, usize)> {
    let is_left = |item: &&Item<'_>| matches!(item.verdict, Verdict::Left(_));
    let lost = |item: &Item<'_>| item.wish.goal.as_ref().and_then(key_of);
    if !items.iter().filter(is_left).any(|item| lost(item).is_some()) {
        return Vec::new();
    }
    let mut places: HashMap<FileKey, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let is_file = matches!(item.now.map(|now| &now.node), Some(Node::File { .. }));
        let key = if is_file { key_now(item.path) } else { None };
        // Of two names of one file the one that is to go.
        if let Some(key) = key.filter(|key| item.wish.goal.is_none() || !places.contains_key(key)) {
            places.insert(key, at);
        }
    }
    let targets = items.iter().enumerate().filter(|(_, item)| is_left(item));
    let pair = |(to, item): (usize, &Item<'_>)| {
        let from = *places.get(&lost(item)?)?;
        (from != to).then_some((from, to))
    };
    let mut taken = HashSet::new();
    targets.filter_map(pair).filter(|(from, _)| taken.insert(*from)).collect()
}

/// Orders renames so that each finds its name free; leaves out those that go round in a circle.
fn put_in_order(mut waiting: Vec<Rename>) -> Vec<Rename> {
    let mut ordered: Vec<Rename> = Vec::with_capacity(waiting.len());
    let mut free: HashSet<std::path::PathBuf> = HashSet::new();
    loop {
        let (ready, rest): (Vec<Rename>, Vec<Rename>) =
            waiting.into_iter().partition(|one| !one.follows || free.contains(&one.to));
        if ready.is_empty() {
            return ordered;
        }
        free.extend(ready.iter().map(|one| one.from.clone()));
        ordered.extend(ready);
        waiting = rest;
    }
}

/// Returns which file this was, when its bytes are not kept.
fn key_of(node: &Node) -> Option<FileKey> {
    match node {
        Node::File { size, content: Content::NotKept { changed_ns, file, .. }, .. } => {
            Some((file.0, file.1, *size, *changed_ns)).filter(|key| key.1 != 0)
        }
        Node::File { .. } | Node::Link { .. } | Node::Dir { .. } | Node::Other(_) => None,
    }
}

/// Returns which file is there now.
fn key_now(path: &Path) -> Option<FileKey> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let changed = metadata.mtime().saturating_mul(1_000_000_000);
    let changed = changed.saturating_add(metadata.mtime_nsec());
    metadata.is_file().then(|| (metadata.dev(), metadata.ino(), metadata.len(), changed))
}
