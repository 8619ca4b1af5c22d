//! The vault: which token stands for which secret, in this process.
//!
//! The same secret has the same token for as long as the vault lives, wherever it turns up
//! again. What is masked comes back exactly, also text that only looks like a token; a token
//! of another process is an error, never text. Held by `agent/masking.rs`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::find::{Finding, Lines, find_all, merge};
use super::{assignments, token};

/// Secrets that are remembered; what hides more is a list of them, and none comes back.
const SECRETS_MAX: usize = 4096;
/// A shorter value is looked for at its own place alone.
const EXACT_BYTES_MIN: usize = 8;
/// A shorter value is found again only as a word of its own.
const ANYWHERE_BYTES_MIN: usize = 16;
/// Letters of what a secret is called.
const KIND_BYTES_MAX: usize = 32;

/// A secret that is known before it turns up.
#[derive(Clone, PartialEq, Eq)]
pub struct KnownSecret {
    /// Where it comes from: a variable's name.
    pub name: String,
    /// The secret. `Debug` does not show it.
    pub value: String,
}

/// A token that stands for nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownToken(pub(crate) String);

/// Secrets and their tokens.
pub(crate) struct Vault {
    nonce: String,
    secrets: Vec<Secret>,
    numbers: HashMap<String, usize>,
    /// Finds secrets that were seen before; `None` while there are none.
    exact: Option<Exact>,
}

struct Secret {
    value: String,
    token: String,
}

/// Finds values, by their place among the secrets.
struct Exact {
    values: AhoCorasick,
    secrets_count: usize,
}

impl Vault {
    /// Returns a vault whose tokens end in a word drawn from `seed`, which is to be random.
    pub(crate) fn new(seed: u64, known: &[KnownSecret]) -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
        let letter = |place: usize| {
            let index = seed >> (5 * place) & 31;
            LETTERS.get(usize::try_from(index).unwrap_or(0)).map_or('a', |byte| char::from(*byte))
        };
        let nonce = (0..token::NONCE_BYTES).map(letter).collect();
        let mut vault = Self { nonce, secrets: Vec::new(), numbers: HashMap::new(), exact: None };
        for KnownSecret { name, value } in known {
            let kind = kind_of(name);
            for line in value.lines().map(str::trim) {
                if line.len() >= EXACT_BYTES_MIN && !line.contains("-----") && !is_path(line) {
                    vault.learn(line, &kind);
                }
            }
        }
        vault
    }

    /// Returns the text with a token in the place of each secret.
    pub(crate) fn mask<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        self.mask_found(text, find_all(text))
    }

    /// Masks the next line of a text that comes line by line.
    pub(super) fn mask_line<'a>(&mut self, line: &'a str, lines: &mut Lines) -> Cow<'a, str> {
        self.mask_found(line, lines.find(line))
    }

    /// Returns whether a secret may hold a blank.
    pub(super) fn holds_blanks(&self) -> bool {
        self.secrets.iter().any(|secret| secret.value.contains(char::is_whitespace))
    }

    /// Returns the text with each token replaced by what `write` makes of its secret; `None`
    /// when there is none.
    pub(crate) fn unmask<E: From<UnknownToken>>(
        &self,
        text: &str,
        mut write: impl FnMut(&mut String, &str, &str) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let mut out = String::new();
        let mut end = 0;
        for form in token::find(text) {
            let secret = self.secret_of(form.text);
            let secret = secret.ok_or_else(|| UnknownToken(form.text.to_owned()))?;
            out.push_str(text.get(end..form.range.start).unwrap_or_default());
            write(&mut out, &secret.value, form.text)?;
            end = form.range.end;
        }
        if end == 0 {
            return Ok(None);
        }
        out.push_str(text.get(end..).unwrap_or_default());
        Ok(Some(out))
    }

    fn mask_found<'a>(&mut self, text: &'a str, mut found: Vec<Finding>) -> Cow<'a, str> {
        let mut ours: Vec<Range<usize>> = Vec::new();
        for form in token::find(text) {
            if self.secret_of(form.text).is_some() {
                ours.push(form.range);
            } else {
                found.push(Finding { range: form.range, kind: "text".into() });
            }
        }
        found.retain(|finding| !overlaps(&ours, &finding.range));
        found.sort_by_key(|finding| finding.range.start);
        for finding in &found {
            self.learn(text.get(finding.range.clone()).unwrap_or_default(), &finding.kind);
        }
        self.push_exact(text, &ours, &mut found);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|finding| (finding.range.start, std::cmp::Reverse(finding.range.end)));
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for Finding { range, kind } in merge(found) {
            masked.push_str(text.get(end..range.start).unwrap_or_default());
            end = range.end;
            masked.push_str(&self.learn(text.get(range).unwrap_or_default(), &kind));
        }
        masked.push_str(text.get(end..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// Remembers a secret and returns its token.
    fn learn(&mut self, value: &str, kind: &str) -> String {
        if let Some(secret) = self.numbers.get(value).and_then(|place| self.secrets.get(*place)) {
            return secret.token.clone();
        }
        if self.secrets.len() >= SECRETS_MAX {
            return token::render(0, kind, &self.nonce);
        }
        let token = token::render(self.secrets.len() + 1, kind, &self.nonce);
        self.numbers.insert(value.to_owned(), self.secrets.len());
        self.secrets.push(Secret { value: value.to_owned(), token: token.clone() });
        token
    }

    /// Adds the places of secrets that were seen before.
    fn push_exact(&mut self, text: &str, ours: &[Range<usize>], found: &mut Vec<Finding>) {
        let count = self.secrets.len();
        if self.exact.as_ref().is_none_or(|exact| exact.secrets_count < count) && count > 0 {
            self.exact = self.build_exact();
        }
        let Some(exact) = &self.exact else { return };
        for hit in exact.values.find_iter(text) {
            let stands_alone = |at: Option<&u8>| !at.is_some_and(u8::is_ascii_alphanumeric);
            let bytes = text.as_bytes();
            let before = hit.start().checked_sub(1).and_then(|at| bytes.get(at));
            let is_word = stands_alone(before) && stands_alone(bytes.get(hit.end()));
            let is_long = hit.len() >= ANYWHERE_BYTES_MIN;
            if (is_long || is_word) && !overlaps(ours, &hit.range()) {
                found.push(Finding { range: hit.range(), kind: "secret".into() });
            }
        }
    }

    fn build_exact(&self) -> Option<Exact> {
        // What is too short is replaced by a pattern that is in no text.
        let values = self.secrets.iter().map(|secret| match secret.value.len() {
            0..EXACT_BYTES_MIN => b"\xff".as_slice(),
            _ => secret.value.as_bytes(),
        });
        let values =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values).ok()?;
        Some(Exact { values, secrets_count: self.secrets.len() })
    }

    fn secret_of(&self, token: &str) -> Option<&Secret> {
        let number = token.split(':').nth(1)?.parse::<usize>().ok()?;
        let secret = self.secrets.get(number.checked_sub(1)?)?;
        (secret.token == token).then_some(secret)
    }
}

fn overlaps(ranges: &[Range<usize>], range: &Range<usize>) -> bool {
    // They come in order and do not overlap.
    let next = ranges.partition_point(|other| other.end <= range.start);
    ranges.get(next).is_some_and(|other| other.start < range.end)
}

/// Returns what a variable's value is called in a token.
fn kind_of(name: &str) -> String {
    let letters = name.bytes().map(|byte| match byte {
        b'_' | b'.' | b'-' => '-',
        byte => char::from(byte.to_ascii_lowercase()),
    });
    let kind: String =
        letters.filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(KIND_BYTES_MAX).collect();
    if kind.is_empty() { "secret".to_owned() } else { kind }
}

/// Returns whether a value names a place: `SSH_KEY=/home/me/.ssh/id` is no secret.
fn is_path(value: &str) -> bool {
    let starts = ["/", "~/", "./"].iter().any(|start| value.starts_with(start));
    starts && assignments::is_wordy(value)
}

impl std::fmt::Debug for KnownSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}
