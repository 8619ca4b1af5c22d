//! `ObjectId` and records: what the store keeps, named by its hash, as bytes of a pack file.
//!
//! Pure: bytes in, bytes out. A record is a header that says its lengths and its own checksum,
//! then the content, compressed where that helps. The content's hash is its name, so that
//! damage never goes unseen. Called by `pack.rs`, which owns the files.

use std::hash::Hasher;
use std::io::Read;

use flate2::Compression;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use flate2::read::DeflateEncoder;
use sha2::{Digest, Sha256};

use crate::store::snapshot::wire::Reader;
use crate::text::hex::encode_hex;

/// Bytes of a record's header.
pub(super) const HEADER_BYTES: usize = 52;
/// A larger content is refused when read: chunks are smaller, and no directory comes near.
pub(super) const OBJECT_BYTES_MAX: u32 = 64 << 20;
/// The beginning of every header, which names the format and its version.
const MAGIC: [u8; 4] = *b"GPK1";
/// What is smaller is not worth compressing.
const COMPRESS_BYTES_MIN: usize = 64;
/// Of larger contents a sample says whether compressing pays.
const SAMPLE_BYTES: usize = 16 << 10;
/// The level: contents are written while a call waits.
const LEVEL: Compression = Compression::fast();

/// The name of an object: SHA-256 of its kind and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct ObjectId(pub(super) [u8; 32]);

/// Hashes an `ObjectId` by its first bytes: it is a hash already.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(self.0, |first| u64::from_le_bytes(*first));
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ObjectKind {
    /// A file's bytes, or a part of them.
    Chunk = 1,
    /// The names of a large file's chunks.
    Chunks = 2,
    /// A directory.
    Tree = 3,
    /// The roots of a workspace at one moment.
    Snapshot = 4,
}

/// A record, ready to be written.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: ObjectId,
    pub(super) kind: ObjectKind,
    pub(super) is_compressed: bool,
    pub(super) stored_bytes: u32,
    pub(super) content_bytes: u32,
}

impl ObjectId {
    /// Returns the name of a content.
    pub(super) fn of(kind: ObjectKind, content: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update([kind as u8]);
        hash.update(content);
        Self(hash.finalize().into())
    }

    /// Returns the name in hexadecimal.
    pub(crate) fn to_hex(self) -> String {
        encode_hex(&self.0)
    }

    /// Reads the hexadecimal form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(id))
    }
}

impl std::fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl ObjectKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Chunk, Self::Chunks, Self::Tree, Self::Snapshot]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

impl Record {
    /// Returns the record of a content whose name is known.
    pub(super) fn new(kind: ObjectKind, id: ObjectId, content: &[u8]) -> Self {
        let compressed = compress(content);
        let is_compressed = compressed.is_some();
        let payload = compressed.unwrap_or_else(|| content.to_vec());
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let header = Header {
            id,
            kind,
            is_compressed,
            stored_bytes: length(&payload),
            content_bytes: length(content),
        };
        Self { header, payload }
    }
}

impl Header {
    /// Returns the header's bytes.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[self.kind as u8, u8::from(self.is_compressed), 0, 0]);
        bytes.extend_from_slice(&self.stored_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.content_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.id.0);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.try_into().unwrap_or([0; HEADER_BYTES])
    }

    /// Reads a header; `None` when it is torn or none of ours.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.get(..HEADER_BYTES)?.split_at_checked(HEADER_BYTES - 4)?;
        let mut reader = Reader::new(body);
        if reader.array()? != MAGIC || checksum(body).to_le_bytes() != sum {
            return None;
        }
        let kind = ObjectKind::from_byte(reader.byte()?)?;
        let is_compressed = reader.byte()? == 1;
        reader.raw(2)?;
        let stored_bytes = u32::from_le_bytes(reader.array()?);
        let content_bytes = u32::from_le_bytes(reader.array()?);
        let id = ObjectId(reader.array()?);
        let fits = stored_bytes <= OBJECT_BYTES_MAX && content_bytes <= OBJECT_BYTES_MAX;
        fits.then_some(Self { id, kind, is_compressed, stored_bytes, content_bytes })
    }

    /// Returns the content a payload holds; `None` when it is not what the name says.
    pub(super) fn open(&self, payload: Vec<u8>) -> Option<Vec<u8>> {
        let content = match self.is_compressed {
            false => payload,
            true => {
                let mut content = Vec::with_capacity(self.content_bytes as usize);
                let bound = u64::from(self.content_bytes) + 1;
                DeflateDecoder::new(&*payload).take(bound).read_to_end(&mut content).ok()?;
                content
            }
        };
        (ObjectId::of(self.kind, &content) == self.id).then_some(content)
    }
}

/// Returns the CRC-32 of bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Returns the content made smaller, when that pays.
fn compress(content: &[u8]) -> Option<Vec<u8>> {
    let shrinks = |from: &[u8]| -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(from.len() / 2);
        DeflateEncoder::new(from, LEVEL).read_to_end(&mut out).ok()?;
        (out.len() < from.len() / 16 * 15).then_some(out)
    };
    if content.len() < COMPRESS_BYTES_MIN {
        return None;
    }
    if content.len() > 4 * SAMPLE_BYTES {
        shrinks(content.get(..SAMPLE_BYTES)?)?;
    }
    shrinks(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_gives_its_content_back(content: Vec<u8>, times in 1_usize..200) {
            let content = content.repeat(times);
            let id = ObjectId::of(ObjectKind::Chunk, &content);
            let record = Record::new(ObjectKind::Chunk, id, &content);
            let header = Header::decode(&record.header.encode()).unwrap();
            prop_assert_eq!(header, record.header);
            prop_assert_eq!(header.open(record.payload), Some(content));
            prop_assert_eq!(ObjectId::parse(&id.to_hex()), Some(id));
        }

        #[test]
        fn a_damaged_record_is_never_believed(content: Vec<u8>, at: usize, flip in 1_u8..) {
            let id = ObjectId::of(ObjectKind::Tree, &content);
            let record = Record::new(ObjectKind::Tree, id, &content);
            let mut bytes = record.header.encode().to_vec();
            bytes.extend_from_slice(&record.payload);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let opened = Header::decode(&bytes).and_then(|h| h.open(bytes[HEADER_BYTES..].to_vec()));
            // A flip in what deflate pads is no damage; any other is found.
            prop_assert!(opened.is_none() || opened == Some(content));
        }
    }

    #[test]
    fn text_shrinks_and_noise_stays_as_it_is() {
        let text = b"the same line again and again\n".repeat(10_000);
        let id = ObjectId::of(ObjectKind::Chunk, &text);
        assert!(Record::new(ObjectKind::Chunk, id, &text).payload.len() < text.len() / 10);
        let noise: Vec<u8> = (0..5_000_u32).flat_map(|n| Sha256::digest(n.to_le_bytes())).collect();
        let record = Record::new(ObjectKind::Chunk, id, &noise);
        assert!(!record.header.is_compressed);
    }
}
