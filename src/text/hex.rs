//! Bytes as hexadecimal digits: how hashes stand in logs, names and files.
//!
//! Knows nothing of what is hashed. Called by whoever makes a hash.

/// Returns the bytes as lower-case hexadecimal digits.
pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
