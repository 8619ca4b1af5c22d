//! `Dir`: a directory as the store knows it, and its bytes.
//!
//! Pure. Names are bytes, sorted, and never lead anywhere: what a stored tree says is used to
//! write files, so a name with a slash, `..` or `.git` is refused when read. Entries carry the
//! metadata of the moment besides, which is no part of the bytes. Called by `walk.rs`,
//! `record.rs` and `compare.rs`.

use std::sync::Arc;

use crate::store::snapshot::object::ObjectId;
use crate::store::snapshot::object::ObjectKind;
use crate::store::snapshot::wire::Reader;
use crate::store::snapshot::wire::Writer;

/// A directory: its entries, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dir {
    /// The name its bytes have in the store.
    pub(super) id: ObjectId,
    pub(super) entries: Vec<Entry>,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Box<[u8]>,
    pub(super) node: Node,
    /// How the file looked when it was read; `None` when the next look must read it again.
    pub(super) stat: Option<Stat>,
    /// Whether the project ignores it, so that a bound holds for it.
    pub(super) is_ignored: bool,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Bytes.
        size: u64,
        /// The bytes themselves, or why they are not kept.
        content: Content,
    },
    /// A symbolic link.
    Link {
        /// Where it points to.
        target: Box<[u8]>,
    },
    /// A directory.
    Dir {
        /// Permission bits.
        mode: u32,
        /// Its bytes' name.
        id: ObjectId,
        /// What is in it, where it is in memory.
        dir: Option<Arc<Dir>>,
    },
    /// Something that is noted and never opened.
    Other(Other),
}

/// A file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// One object.
    Whole(ObjectId),
    /// An object that lists others.
    Chunks(ObjectId),
    /// Not kept. Which file it is, and the time of its last change, stand for the bytes.
    NotKept {
        /// Why not.
        why: NotKept,
        /// Nanoseconds since 1970.
        changed_ns: i64,
        /// Device and inode: by them it is found again where it was moved to.
        file: (u64, u64),
    },
}

/// Why a file's bytes are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NotKept {
    /// The project ignores it, and it is beyond the bounds for such.
    Ignored = 1,
    /// No file so large is kept.
    TooLarge = 2,
    /// It cannot be read.
    Unreadable = 3,
    /// With it the store would outgrow its bound at once.
    OverBudget = 4,
}

/// What is noted and never opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Other {
    /// A FIFO, a socket or a device.
    Special = 1,
    /// Git's own.
    Git = 2,
    /// Another file system.
    Mount = 3,
    /// A directory that cannot be read.
    Unreadable = 4,
    /// A directory too far down.
    TooDeep = 5,
    /// Our own state.
    Own = 6,
}

/// What tells without reading whether a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
}

impl Dir {
    /// Returns a directory of these entries, which are sorted here.
    pub(super) fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let id = ObjectId::of(ObjectKind::Tree, &encode_tree(&entries));
        Self { id, entries }
    }

    /// Returns the directory's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_tree(&self.entries)
    }

    /// Reads a directory; `None` when the bytes are none.
    pub(super) fn decode(id: ObjectId, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut entries: Vec<Entry> = Vec::new();
        while !reader.is_at_end() {
            let entry = decode_entry(&mut reader)?;
            if entries.last().is_some_and(|last| last.name >= entry.name) {
                return None;
            }
            entries.push(entry);
        }
        Some(Self { id, entries })
    }

    /// Returns the entry with this name, and its place.
    pub(super) fn find(&self, name: &[u8]) -> Option<(usize, &Entry)> {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.entries.get(at).map(|entry| (at, entry))
    }
}

impl Node {
    /// Returns whether both are the same thing with the same content.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dir { mode: a, id: x, .. }, Self::Dir { mode: b, id: y, .. }) => {
                a == b && x == y
            }
            (a, b) => a == b,
        }
    }
}

impl Content {
    /// Returns the object that holds it, if it is kept.
    pub(super) fn object(self) -> Option<ObjectId> {
        match self {
            Self::Whole(id) | Self::Chunks(id) => Some(id),
            Self::NotKept { .. } => None,
        }
    }
}

impl NotKept {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Ignored, Self::TooLarge, Self::Unreadable, Self::OverBudget]
            .into_iter()
            .find(|w| *w as u8 == byte)
    }

    /// Says why.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Ignored => "ignored by the project and beyond the bound for such files",
            Self::TooLarge => "too large to be kept",
            Self::Unreadable => "it could not be read",
            Self::OverBudget => "there is more than the store of snapshots may hold",
        }
    }
}

impl Other {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Special, Self::Git, Self::Mount, Self::Unreadable, Self::TooDeep, Self::Own]
            .into_iter()
            .find(|other| *other as u8 == byte)
    }

    /// Says what it is.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Special => "no regular file",
            Self::Git => "git's own",
            Self::Mount => "another file system",
            Self::Unreadable => "a directory that could not be read",
            Self::TooDeep => "too far down",
            Self::Own => "Gimlet's own state",
        }
    }
}

const FILE_WHOLE: u8 = 1;
const FILE_CHUNKS: u8 = 2;
const FILE_NOT_KEPT: u8 = 3;
const LINK: u8 = 4;
const DIR: u8 = 5;
const OTHER: u8 = 6;
/// As `FILE_NOT_KEPT`, which an earlier version wrote, and which file it is besides.
const FILE_NOT_KEPT_AT: u8 = 7;

fn encode_tree(entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::default();
    for entry in entries {
        encode_node(&mut writer, &entry.name, &entry.node);
    }
    writer.into_bytes()
}

/// Writes a name and what it stands for.
pub(super) fn encode_node(writer: &mut Writer, name: &[u8], node: &Node) {
    match node {
        Node::File { mode, size, content } => {
            writer.byte(match content {
                Content::Whole(_) => FILE_WHOLE,
                Content::Chunks(_) => FILE_CHUNKS,
                Content::NotKept { .. } => FILE_NOT_KEPT_AT,
            });
            writer.string(name);
            writer.number(u64::from(*mode));
            writer.number(*size);
            match content {
                Content::Whole(id) | Content::Chunks(id) => writer.raw(&id.0),
                Content::NotKept { why, changed_ns, file } => {
                    writer.byte(*why as u8);
                    writer.signed(*changed_ns);
                    writer.number(file.0);
                    writer.number(file.1);
                }
            }
        }
        Node::Link { target } => {
            writer.byte(LINK);
            writer.string(name);
            writer.string(target);
        }
        Node::Dir { mode, id, .. } => {
            writer.byte(DIR);
            writer.string(name);
            writer.number(u64::from(*mode));
            writer.raw(&id.0);
        }
        Node::Other(other) => {
            writer.byte(OTHER);
            writer.string(name);
            writer.byte(*other as u8);
        }
    }
}

fn decode_entry(reader: &mut Reader<'_>) -> Option<Entry> {
    let (name, node) = decode_node(reader)?;
    Some(Entry { name, node, stat: None, is_ignored: false })
}

/// Reads a name and what it stands for; a name that leads elsewhere is refused.
pub(super) fn decode_node(reader: &mut Reader<'_>) -> Option<(Box<[u8]>, Node)> {
    let kind = reader.byte()?;
    let name = reader.string()?;
    let node = match kind {
        FILE_WHOLE | FILE_CHUNKS | FILE_NOT_KEPT | FILE_NOT_KEPT_AT => {
            let mode = reader.number32()?;
            let size = reader.number()?;
            let content = match kind {
                FILE_WHOLE => Content::Whole(ObjectId(reader.array()?)),
                FILE_CHUNKS => Content::Chunks(ObjectId(reader.array()?)),
                _ => Content::NotKept {
                    why: NotKept::from_byte(reader.byte()?)?,
                    changed_ns: reader.signed()?,
                    file: match kind {
                        FILE_NOT_KEPT_AT => (reader.number()?, reader.number()?),
                        _ => (0, 0),
                    },
                },
            };
            Node::File { mode, size, content }
        }
        LINK => Node::Link { target: reader.string()?.into() },
        DIR => {
            let mode = reader.number32()?;
            Node::Dir { mode, id: ObjectId(reader.array()?), dir: None }
        }
        OTHER => Node::Other(Other::from_byte(reader.byte()?)?),
        _ => return None,
    };
    let is_plain = !name.is_empty() && name != b"." && name != b"..";
    let is_whole = memchr::memchr2(b'/', 0, name).is_none();
    let is_git = is_git_name(name) && !matches!(node, Node::Other(_));
    (is_plain && is_whole && !is_git).then(|| (name.into(), node))
}

/// Returns whether a name is git's own, whatever its case: file systems may not tell apart.
pub(super) fn is_git_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content() -> impl Strategy<Value = Content> {
        prop_oneof![
            any::<[u8; 32]>().prop_map(|id| Content::Whole(ObjectId(id))),
            any::<[u8; 32]>().prop_map(|id| Content::Chunks(ObjectId(id))),
            any::<(i64, (u64, u64))>().prop_map(|(changed_ns, file)| Content::NotKept {
                why: NotKept::TooLarge,
                changed_ns,
                file
            }),
        ]
    }

    fn node() -> impl Strategy<Value = Node> {
        prop_oneof![
            (any::<u32>(), any::<u64>(), content()).prop_map(|(mode, size, content)| Node::File {
                mode,
                size,
                content
            }),
            any::<Vec<u8>>().prop_map(|target| Node::Link { target: target.into() }),
            (any::<u32>(), any::<[u8; 32]>()).prop_map(|(mode, id)| Node::Dir {
                mode,
                id: ObjectId(id),
                dir: None
            }),
            Just(Node::Other(Other::Special)),
        ]
    }

    proptest! {
        #[test]
        fn a_directory_is_read_as_it_was_written(
            entries in proptest::collection::btree_map("[^/\0]{1,8}", node(), 0..20),
        ) {
            let entries = entries.into_iter().filter(|(name, _)| {
                name != "." && name != ".." && !is_git_name(name.as_bytes())
            });
            let entries = entries.map(|(name, node)| {
                Entry { name: name.into_bytes().into(), node, stat: None, is_ignored: false }
            });
            let dir = Dir::new(entries.collect());
            prop_assert_eq!(Dir::decode(dir.id, &dir.encode()), Some(dir));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = Dir::decode(ObjectId::default(), &bytes);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", ".", "..", "a/b", "/etc", "a\0b", ".git", ".GIT"] {
            let mut writer = Writer::default();
            encode_node(&mut writer, name.as_bytes(), &Node::Link { target: b"x"[..].into() });
            assert_eq!(Dir::decode(ObjectId::default(), &writer.into_bytes()), None, "{name:?}");
        }
    }

    #[test]
    fn entries_out_of_order_or_twice_are_refused() {
        for names in [["b", "a"], ["a", "a"]] {
            let mut writer = Writer::default();
            for name in names {
                encode_node(&mut writer, name.as_bytes(), &Node::Other(Other::Special));
            }
            assert_eq!(Dir::decode(ObjectId::default(), &writer.into_bytes()), None);
        }
    }
}
