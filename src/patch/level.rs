//! How alike two lines are: byte for byte, or with less and less of them counting.
//!
//! Only ever compares; what a patch writes never goes through here. Every level takes in the
//! one before it, so one key per line finds the places of all. Called by `lines.rs`,
//! `index.rs` and `explain.rs`.

use std::borrow::Cow;

/// How alike two lines are, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Byte for byte.
    Exact,
    /// White space at the end does not count.
    End,
    /// White space at both ends does not count.
    Trimmed,
    /// Nor do kinds of dash, quote and space, nor bytes that are no text.
    Folded,
}

/// Returns how alike two lines without their ends are.
pub(super) fn compare(left: &[u8], right: &[u8]) -> Option<Level> {
    if left == right {
        return Some(Level::Exact);
    }
    if left.trim_ascii_end() == right.trim_ascii_end() {
        return Some(Level::End);
    }
    if left.trim_ascii() == right.trim_ascii() {
        return Some(Level::Trimmed);
    }
    (fold(left) == fold(right)).then_some(Level::Folded)
}

/// Returns what of a line counts at the last level.
pub(super) fn fold(text: &[u8]) -> Cow<'_, [u8]> {
    let text = text.trim_ascii();
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let folded: String = String::from_utf8_lossy(text).chars().filter_map(fold_char).collect();
    Cow::Owned(folded.trim_ascii().as_bytes().to_vec())
}

/// Returns the ASCII sign that a model is likely to write for this character, or nothing for
/// one that nobody sees.
fn fold_char(character: char) -> Option<char> {
    Some(match character {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => '-',
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{FF07}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{00AB}' | '\u{00BB}' | '\u{FF02}' => '"',
        '\u{00A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => ' ',
        '\u{FEFF}' | '\u{200B}' => return None,
        other => other,
    })
}

/// Returns a hash of what of a line counts at the last level.
pub(super) fn hash_line(text: &[u8]) -> u32 {
    let text = text.trim_ascii();
    // Nearly every line is ASCII, and then trimming was all: one pass for both questions.
    match mix_all(text) {
        (hash, seen) if seen & NOT_ASCII == 0 => hash,
        _ => hash(&fold(text)),
    }
}

/// Returns a hash of these bytes. What is found by a hash is always compared, so one that
/// collides costs time alone.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    mix_all(bytes).0
}

/// The bits that no ASCII character has.
const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Mixes sixteen bytes at a time, the last of them maybe twice: a file of a hundred thousand
/// lines is hashed in a millisecond. Returns the hash, and all bits of all bytes together.
fn mix_all(bytes: &[u8]) -> (u32, u64) {
    const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];
    let mut state = FACTORS[1] ^ bytes.len() as u64;
    let mut seen = 0;
    let mut mix = |low: u64, high: u64| {
        seen |= low | high;
        let product = u128::from(low ^ FACTORS[0]) * u128::from(high ^ state);
        let (low, high) = halves(&product.to_le_bytes());
        state = low ^ high;
    };
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (low, high) = halves(block);
        mix(low, high);
    }
    match (tail, bytes.last_chunk::<16>()) {
        ([], Some(_)) => {}
        (_, Some(last)) => {
            let (low, high) = halves(last);
            mix(low, high);
        }
        (_, None) => {
            let (low, high) = short_halves(bytes);
            mix(low, high);
        }
    }
    // The upper half, which every bit has reached.
    let hash = state.wrapping_mul(FACTORS[0]) >> 32;
    (u32::try_from(hash).unwrap_or_default(), seen)
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let (low, high) = block.split_at(8);
    let word = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
    (word(low), word(high))
}

/// Returns fewer than sixteen bytes as two words, without a loop: their ends overlap.
fn short_halves(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into());
    }
    let at = |at: usize| bytes.get(at).copied().map_or(0, u64::from);
    (at(0) | at(1) << 8, at(2))
}

/// Returns the ends of the words in a folded line: where a model may stop writing it.
pub(super) fn word_ends(text: &[u8]) -> impl Iterator<Item = usize> {
    let is_word = |at: usize| {
        text.get(at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80 || *byte == b'_')
    };
    (1..=text.len()).filter(move |end| is_word(end - 1) && !is_word(*end))
}

/// Returns whether a folded line begins with these words.
pub(super) fn begins_with_words(line: &[u8], prefix: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80 || *byte == b'_')
    };
    let next = line.get(prefix.len());
    line.starts_with(prefix) && !(is_word(prefix.last()) && is_word(next))
}
