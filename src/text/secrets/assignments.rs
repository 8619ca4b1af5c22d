//! Secrets that are known by what stands before them: a name and `=` or `:`, an
//! `Authorization` header, the password in a URL.
//!
//! A name alone says little, so the value must look as no word, path or piece of code does.
//! Called by `find.rs`.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::find::{Finding, is_placeholder};

/// No value is longer.
const VALUE_BYTES_MAX: usize = 512;
/// Bytes a name may go on for behind the word that tells.
const NAME_BYTES_MAX: usize = 40;
/// A value must be at least this long.
const VALUE_BYTES_MIN: usize = 8;

/// The words that tell, and what their values are called.
const WORDS: [(&str, &str); 23] = [
    ("password", "password"),
    ("passwd", "password"),
    ("passphrase", "password"),
    ("passwort", "password"),
    ("pwd", "password"),
    ("db_pass", "password"),
    ("_pass", "password"),
    ("secret", "secret"),
    ("token", "token"),
    ("api_key", "api-key"),
    ("api-key", "api-key"),
    ("apikey", "api-key"),
    ("access_key", "access-key"),
    ("access-key", "access-key"),
    ("accesskey", "access-key"),
    ("accountkey", "access-key"),
    ("private_key", "private-key"),
    ("signing_key", "signing-key"),
    ("encryption_key", "encryption-key"),
    ("master_key", "master-key"),
    ("credential", "credential"),
    ("bearer ", "bearer-token"),
    ("basic ", "basic-auth"),
];

/// A name that goes on like this names something about a secret.
const HARMLESS_ENDS: &[&str] = &[
    "age",
    "algorithm",
    "arn",
    "author",
    "budget",
    "class",
    "config",
    "count",
    "counter",
    "dir",
    "endpoint",
    "env",
    "expires",
    "expiration",
    "expiry",
    "field",
    "file",
    "filename",
    "format",
    "hash",
    "header",
    "hint",
    "id",
    "index",
    "input",
    "kind",
    "label",
    "len",
    "length",
    "limit",
    "link",
    "location",
    "manager",
    "max",
    "message",
    "min",
    "name",
    "page",
    "path",
    "pattern",
    "policy",
    "prefix",
    "provider",
    "ref",
    "regex",
    "reset",
    "rule",
    "rules",
    "scope",
    "service",
    "size",
    "source",
    "status",
    "store",
    "suffix",
    "text",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "user",
    "validator",
    "var",
    "variable",
    "version",
];

static STARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = WORDS.iter().map(|(word, _)| *word);
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
});

/// Adds the secrets of a line that are known by what stands before them.
pub(super) fn find(line: &str, found: &mut Vec<Finding>) {
    find_in_urls(line, found);
    let Some(starts) = &*STARTS else { return };
    for hit in starts.find_overlapping_iter(line) {
        let Some((word, kind)) = WORDS.get(hit.pattern().as_usize()) else { continue };
        let range = match *word {
            "bearer " | "basic " => header_value(line, hit.range()),
            _ => assigned_value(line, hit.range()),
        };
        if let Some(range) = range {
            found.push(Finding { range, kind: (*kind).into() });
        }
    }
}

/// Returns whether a line holds a word after which a secret may follow.
pub(super) fn may_follow(line: &str) -> bool {
    line.contains("://") || STARTS.as_ref().is_some_and(|starts| starts.is_match(line))
}

fn header_value(line: &str, word: Range<usize>) -> Option<Range<usize>> {
    let before = line.as_bytes().get(..word.start)?.last();
    if before.is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let rest = line.as_bytes().get(word.end..)?;
    let length = rest.iter().take(4096).take_while(|byte| is_part(**byte)).count();
    let range = word.end..word.end + length;
    let value = line.get(range.clone())?;
    let is_secret = length >= 16 && !is_placeholder(value) && !is_wordy(value);
    is_secret.then_some(range)
}

/// The place of a value, and how it was written.
struct Value {
    range: Range<usize>,
    is_quoted: bool,
    /// Whether the name and the value touch the sign between them.
    is_tight: bool,
}

fn assigned_value(line: &str, word: Range<usize>) -> Option<Range<usize>> {
    let value = locate_value(line, &word)?;
    let text = line.get(value.range.clone())?;
    let named = line.get(word)?.trim_matches(['_', '-']).to_ascii_lowercase();
    // `password=password1` hands a variable on.
    let is_named_after = text.to_ascii_lowercase().contains(&named);
    let is_secret = text.len() >= VALUE_BYTES_MIN
        && !is_named_after
        && !is_placeholder(text)
        && !is_code(text)
        && !is_hash_or_time(text)
        && !is_wordy(text)
        && is_random_enough(text, &value);
    is_secret.then_some(value.range)
}

/// Finds the value that is given to the name around the word.
fn locate_value(line: &str, word: &Range<usize>) -> Option<Value> {
    let bytes = line.as_bytes();
    let at = |place: usize| bytes.get(place).copied().unwrap_or(b'\n');
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let rest = bytes.get(word.end..)?;
    let length = rest.iter().take(NAME_BYTES_MAX + 1).take_while(|byte| is_name(**byte)).count();
    if length > NAME_BYTES_MAX || !goes_on_well(line.get(word.end..word.end + length)?) {
        return None;
    }
    let mut place = word.end + length;
    let is_flag = is_flag(line, word.start);
    let name_end = place;
    while matches!(at(place), b'"' | b'\'' | b'`' | b']' | b'\\') && place < name_end + 4 {
        place += 1;
    }
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t');
    let skip = |mut place: usize| {
        let end = place + 16;
        while place < end && is_space(at(place)) {
            place += 1;
        }
        place
    };
    let sign = skip(place);
    let mut value = sign;
    while matches!(at(value), b'=' | b':' | b'>') && value < sign + 3 {
        value += 1;
    }
    if value == sign && !(is_flag && sign > place) {
        return None;
    }
    let begin = skip(value);
    let is_tight = sign == place && begin == value;
    Some(cut_value(line, begin, is_tight))
}

/// Returns where the value ends that begins here.
fn cut_value(line: &str, begin: usize, is_tight: bool) -> Value {
    let bytes = line.as_bytes();
    let escaped = bytes.get(begin) == Some(&b'\\');
    let open = begin + usize::from(escaped);
    let quote = bytes.get(open).copied().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    let Some(quote) = quote else {
        let rest = bytes.get(begin..).unwrap_or_default();
        let ends = |byte: &u8| {
            byte.is_ascii_whitespace() || b"\"'`,;)]}<>|".contains(byte) || !byte.is_ascii()
        };
        let length = rest.iter().take(VALUE_BYTES_MAX).take_while(|byte| !ends(byte)).count();
        let text = line.get(begin..begin + length).unwrap_or_default();
        // In a query, `&` begins the next parameter.
        let parameter = text.rsplit_once('=').and_then(|(before, _)| before.find('&'));
        let text = text.get(..parameter.unwrap_or(length)).unwrap_or_default();
        let length = text.trim_end_matches(['.', '\\', ':', '!', '?']).len();
        return Value { range: begin..begin + length, is_quoted: false, is_tight };
    };
    let start = open + 1;
    let rest = bytes.get(start..).unwrap_or_default();
    let mut length = 0;
    while let Some(byte) = rest.get(length) {
        let ends = *byte == quote || escaped && *byte == b'\\';
        if ends || length >= VALUE_BYTES_MAX {
            break;
        }
        length += if *byte == b'\\' { 2 } else { 1 };
    }
    let end = line.floor_char_boundary((start + length).min(line.len()));
    Value { range: start.min(end)..end, is_quoted: true, is_tight }
}

/// Returns whether a name is a command's option, whose value may follow a space.
fn is_flag(line: &str, word: usize) -> bool {
    let before = line.get(..word).unwrap_or_default();
    let name = before.rsplit([' ', '\t', '"', '\'']).next().unwrap_or_default();
    name.starts_with("--")
}

/// Returns whether a name with this end still names the secret itself.
fn goes_on_well(end: &str) -> bool {
    let first = end.bytes().next();
    // "tokens" and "tokenizer" are other words; "tokenValue" is not.
    if first.is_some_and(|byte| byte.is_ascii_lowercase()) {
        return false;
    }
    let mut words = String::new();
    for letter in end.chars() {
        if letter.is_ascii_uppercase() && words.ends_with(|c: char| c.is_ascii_lowercase()) {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    !words.split(['_', '-', '.']).any(|word| HARMLESS_ENDS.contains(&word))
}

/// Returns whether a text is an expression, a reference or a path, and no value itself.
fn is_code(text: &str) -> bool {
    const SIGNS: [&str; 10] =
        ["$", "(", "{{", "%(", "process.env", "os.environ", "env.", "->", "::", "://"];
    text.contains(char::is_whitespace)
        || text.starts_with(['<', '@', '&', '*', '{', '['])
        || SIGNS.iter().any(|sign| text.contains(sign)) && !text.contains(['!', '#', '^'])
        || text.starts_with(['$', '('])
        || ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start))
            && text.split('/').all(|part| part.len() < 24)
}

fn is_hash_or_time(text: &str) -> bool {
    let is_hash = ["sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "sha512:", "md5:"];
    let digits = |byte: u8| byte.is_ascii_digit() || b"-:.,+_TZ".contains(&byte);
    is_hash.iter().any(|start| text.starts_with(start)) || text.bytes().all(digits)
}

/// Returns whether a text is made of words and short numbers, as names and paths are.
pub(super) fn is_wordy(text: &str) -> bool {
    let parts = text.split(['-', '_', '.', '/', ':', '+', '=', '~', '@', ' ']);
    parts.filter(|part| !part.is_empty()).all(|part| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = part.len() - letters.len();
        // Upper and lower case change places a few times in a word, many times by chance.
        let changes = letters
            .as_bytes()
            .windows(2)
            .filter(|two| matches!(two, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()))
            .count();
        let is_number = letters.is_empty() && digits <= 4;
        let is_version = letters.len() <= 1 && digits <= 2;
        let is_word = digits == 0 && letters.chars().all(char::is_alphabetic);
        is_number || is_version || is_word && changes * 5 <= letters.len()
    })
}

/// Returns whether a value is no identifier and no simple word.
fn is_random_enough(text: &str, value: &Value) -> bool {
    let count = |test: fn(&u8) -> bool| text.bytes().filter(test).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    let signs = text.len() - digits - letters;
    let mut seen = [false; 256];
    text.bytes().for_each(|byte| {
        if let Some(place) = seen.get_mut(usize::from(byte)) {
            *place = true;
        }
    });
    let distinct = seen.iter().filter(|seen| **seen).count();
    let changes_case = text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_mixed = letters > 0 && digits + signs > 0 || changes_case;
    // In code, `token = next2` is a variable.
    let is_identifier = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_variable = !value.is_quoted && !value.is_tight && is_identifier && digits < 2;
    distinct >= 6 && is_mixed && !is_variable
}

/// Adds the passwords of `scheme://user:password@host`.
fn find_in_urls(line: &str, found: &mut Vec<Finding>) {
    for start in memchr::memmem::find_iter(line.as_bytes(), "://") {
        let begin = start + 3;
        let rest = line.as_bytes().get(begin..).unwrap_or_default();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>`\\".contains(byte);
        let length = rest.iter().take(VALUE_BYTES_MAX).take_while(|byte| !ends(byte)).count();
        let Some(authority) = line.get(begin..begin + length) else { continue };
        let Some((info, _)) = authority.rsplit_once('@') else { continue };
        let Some((user, password)) = info.split_once(':') else { continue };
        let from = begin + user.len() + 1;
        if is_url_password(user, password) {
            let range = from..from + password.len();
            found.push(Finding { range, kind: "url-password".into() });
        }
    }
}

fn is_url_password(user: &str, password: &str) -> bool {
    const COMMON: [&str; 10] =
        ["pass", "password", "passwd", "pwd", "secret", "token", "test", "user", "admin", "root"];
    password.len() >= 4
        && !password.eq_ignore_ascii_case(user)
        && !COMMON.contains(&password.to_ascii_lowercase().as_str())
        && !is_placeholder(password)
        && !password.contains(['$', '{', '}', '(', ')', '%', '[', ']', '*'])
}
