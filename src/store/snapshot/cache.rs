//! The cache of what was seen last: a root's tree with the metadata of each file.
//!
//! It only saves time: a cache that is torn, of another version or of other bounds counts as
//! none, and then every file is read. Reads and writes one file; what is in a tree is
//! `tree.rs`. Called by `record.rs`.

use std::path::Path;
use std::sync::Arc;

use crate::store::snapshot::object::checksum;
use crate::store::snapshot::tree::Dir;
use crate::store::snapshot::tree::Entry;
use crate::store::snapshot::tree::Node;
use crate::store::snapshot::tree::Stat;
use crate::store::snapshot::tree::decode_node;
use crate::store::snapshot::tree::encode_node;
use crate::store::snapshot::wire::Reader;
use crate::store::snapshot::wire::Writer;

/// The beginning of the file, which names the format and its version.
const MAGIC: &[u8; 8] = b"gimseen2";
/// Directories in directories; a walk goes no deeper.
const DEPTH_MAX: usize = 256;

/// Returns the bytes of a cache; `basis` says what must be the same for it to hold.
pub(super) fn encode_cache(basis: &[u8], dir: &Dir) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.raw(MAGIC);
    writer.string(basis);
    encode_dir(&mut writer, dir);
    let mut bytes = writer.into_bytes();
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// Reads a cache; `None` when it does not hold.
pub(super) fn decode_cache(basis: &[u8], bytes: &[u8]) -> Option<Arc<Dir>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if checksum(body).to_le_bytes() != *sum {
        return None;
    }
    let mut reader = Reader::new(body);
    if reader.array()? != *MAGIC || reader.string()? != basis {
        return None;
    }
    decode_dir(&mut reader, 0)
}

/// Loads a cache from its file.
pub(super) fn load_cache(path: &Path, basis: &[u8]) -> Option<Arc<Dir>> {
    decode_cache(basis, &std::fs::read(path).ok()?)
}

fn encode_dir(writer: &mut Writer, dir: &Dir) {
    writer.raw(&dir.id.0);
    writer.number(dir.entries.len() as u64);
    for entry in &dir.entries {
        encode_node(writer, &entry.name, &entry.node);
        let has_stat = u8::from(entry.stat.is_some());
        writer.byte(has_stat | (u8::from(entry.is_ignored) << 1));
        if let Some(stat) = &entry.stat {
            writer.number(stat.dev);
            writer.number(stat.ino);
            writer.number(stat.size);
            writer.number(u64::from(stat.mode));
            writer.signed(stat.mtime_ns);
            writer.signed(stat.ctime_ns.wrapping_sub(stat.mtime_ns));
        }
        if let Node::Dir { dir, .. } = &entry.node {
            writer.byte(u8::from(dir.is_some()));
            if let Some(dir) = dir {
                encode_dir(writer, dir);
            }
        }
    }
}

fn decode_dir(reader: &mut Reader<'_>, depth: usize) -> Option<Arc<Dir>> {
    if depth > DEPTH_MAX {
        return None;
    }
    let id = crate::store::snapshot::object::ObjectId(reader.array()?);
    let mut entries = Vec::new();
    for _ in 0..reader.number()? {
        let (name, mut node) = decode_node(reader)?;
        let flags = reader.byte()?;
        let stat = if flags & 1 == 1 { Some(decode_stat(reader)?) } else { None };
        if let Node::Dir { dir, .. } = &mut node
            && reader.byte()? == 1
        {
            *dir = Some(decode_dir(reader, depth + 1)?);
        }
        entries.push(Entry { name, node, stat, is_ignored: flags & 2 == 2 });
    }
    Some(Arc::new(Dir { id, entries }))
}

fn decode_stat(reader: &mut Reader<'_>) -> Option<Stat> {
    let (dev, ino, size) = (reader.number()?, reader.number()?, reader.number()?);
    let mode = reader.number32()?;
    let mtime_ns = reader.signed()?;
    let ctime_ns = mtime_ns.wrapping_add(reader.signed()?);
    Some(Stat { dev, ino, size, mode, mtime_ns, ctime_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::snapshot::object::ObjectId;
    use crate::store::snapshot::tree::Content;
    use proptest::prelude::*;

    fn tree() -> Arc<Dir> {
        let stat = Stat { dev: 1, ino: 2, size: 3, mode: 0o100_644, mtime_ns: -5, ctime_ns: 7 };
        let entry = |name: &[u8], node, stat, is_ignored| Entry {
            name: name.into(),
            node,
            stat,
            is_ignored,
        };
        let content = Content::Whole(ObjectId([7; 32]));
        let file = Node::File { mode: 0o644, size: 3, content };
        let below = Arc::new(Dir::new(vec![entry(b"x\xff\n", file.clone(), Some(stat), true)]));
        let node = Node::Dir { mode: 0o755, id: below.id, dir: Some(below) };
        Arc::new(Dir::new(vec![entry(b"d", node, None, false), entry(b"f", file, None, false)]))
    }

    #[test]
    fn a_cache_is_read_as_it_was_written() {
        let bytes = encode_cache(b"basis", &tree());
        assert_eq!(decode_cache(b"basis", &bytes), Some(tree()));
        assert_eq!(decode_cache(b"other", &bytes), None);
        for cut in 0..bytes.len() {
            assert_eq!(decode_cache(b"basis", &bytes[..cut]), None, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let mut body = MAGIC.to_vec();
            body.extend_from_slice(&[0]);
            body.extend_from_slice(&bytes);
            let sum = checksum(&body);
            body.extend_from_slice(&sum.to_le_bytes());
            let _ = decode_cache(b"", &body);
        }
    }
}
