//! Bytes of our own records: numbers of variable length and length-prefixed strings.
//!
//! Pure. A reader never trusts a length: what does not fit gives `None`, and nothing is
//! allocated beyond the bytes that are there. Knows none of the records. Called by `object.rs`,
//! `tree.rs`, `cache.rs` and `record.rs`.

/// Collects bytes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

/// Takes bytes off the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl Writer {
    /// Returns what was written.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes one byte.
    pub(super) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Writes a number, small ones in few bytes.
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.bytes.push(low_bits(value));
    }

    /// Writes a number that may be negative.
    pub(super) fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    /// Writes bytes as they are; the reader must know how many.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a length and as many bytes.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }
}

/// Returns the lowest seven bits.
fn low_bits(value: u64) -> u8 {
    let [byte, ..] = value.to_le_bytes();
    byte & 0x7f
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns whether all was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads one byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part.leading_zeros() < shift {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number that fits 32 bits.
    pub(super) fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads a number that may be negative.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Reads so many bytes.
    pub(super) fn raw(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads an array of bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    /// Reads a length and as many bytes.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.raw(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, signed: i64, text: Vec<u8>) {
            let mut writer = Writer::default();
            writer.number(number);
            writer.signed(signed);
            writer.string(&text);
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.signed(), Some(signed));
            prop_assert_eq!(reader.string(), Some(text.as_slice()));
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.number().is_some() {}
            let mut reader = Reader::new(&bytes);
            while reader.string().is_some_and(|text| !text.is_empty()) {}
        }
    }
}
