//! Secrets in text: found, replaced by stable tokens, and put back.
//!
//! Pure and linear in the length of the text. A secret is never longer than a line, so that
//! lines can be judged as they come; a private key is one secret a line. Knows no tool, no
//! model and no file; tokens and their secrets live in a `Vault`, in memory alone. Called by
//! `agent/masking.rs`, and by tools where they cut text.

mod assignments;
mod find;
mod shapes;
mod stream;
mod token;
mod vault;

pub(crate) use stream::MaskedStream;
pub use vault::KnownSecret;
pub(crate) use vault::{UnknownToken, Vault};

/// Bytes next to a cut that are left out: the part of a secret that a cut leaves behind has
/// lost what it is known by. No secret that is looked for is longer.
const CUT_BYTES_MAX: usize = 4096;
/// Where a line of data is cut, a longer run of letters is data, unless it begins as a secret.
const CUT_WORD_BYTES_MAX: usize = 256;

/// Returns the text before a cut without the word that the cut went through.
pub(crate) fn before_cut(text: &str) -> &str {
    let start = text.len().saturating_sub(CUT_BYTES_MAX);
    let start = text.ceil_char_boundary(start);
    let near = text.get(start..).unwrap_or_default();
    let word = near.rfind(char::is_whitespace).map_or(start, |at| start + at + 1);
    text.get(..text.ceil_char_boundary(word)).unwrap_or_default()
}

/// Returns the text after a cut without the word that the cut went through.
pub(crate) fn after_cut(text: &str) -> &str {
    let end = text.floor_char_boundary(CUT_BYTES_MAX.min(text.len()));
    let near = text.get(..end).unwrap_or_default();
    let word = near.find(char::is_whitespace).unwrap_or(end);
    text.get(word..).unwrap_or_default()
}

/// Returns the beginning of a line that is cut, without the word that the cut went through
/// where that may be the beginning of a secret.
pub(crate) fn line_before_cut(line: &str) -> &str {
    let word = line.rfind(|c: char| c.is_whitespace()).map_or(0, |at| at + 1);
    let word = line.ceil_char_boundary(word);
    let (kept, last) = line.split_at_checked(word).unwrap_or((line, ""));
    let may_be_secret = last.len() <= CUT_WORD_BYTES_MAX || shapes::holds_beginning(last);
    if may_be_secret { kept } else { line }
}

/// Returns whether a variable's name says that its value is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 14] = [
        "KEY",
        "APIKEY",
        "KEYS",
        "TOKEN",
        "TOKENS",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "PASS",
        "PAT",
        "CREDENTIALS",
        "CREDENTIAL",
    ];
    let name = name.to_ascii_uppercase();
    name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
        || ["TOKEN", "SECRET", "PASSWORD", "APIKEY"].iter().any(|word| name.ends_with(word))
}

#[cfg(test)]
mod tests;
