//! A value as one line of JSON that is safe to show.
//!
//! JSON itself only escapes the old control characters. What else could move a cursor, hide
//! or reorder text leaves as `\u202e` too: a reader of JSON gets the same value, and a
//! terminal shows what is there. Called by `exec/run.rs` and `exec/mod.rs`.

use std::fmt::Write;

use serde::Serialize;

use crate::text::ansi::is_invisible;

/// Returns a value as one line, its newline included.
pub(crate) fn encode_line(value: &impl Serialize) -> String {
    // Our own types always serialise: all keys are text.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    // Only strings of a JSON text hold such characters, so each can stand escaped in place.
    if !line.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) && line.chars().any(is_odd) {
        line = escape(&line);
    }
    line.push('\n');
    line
}

fn is_odd(character: char) -> bool {
    character.is_control() || is_invisible(character)
}

fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if is_odd(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped_and_the_value_stays() {
        let odd = "a\u{9b}2Jb\u{202e}c\u{200b}d\u{7f}e\u{e0041}f\u{1b}[m é 語 \u{1f600} \"\\";
        let line = encode_line(&json!({ "text": odd }));
        let body = line.strip_suffix('\n').unwrap();
        assert!(!body.chars().any(is_odd), "{line}");
        assert!(body.contains("a\\u009b2Jb\\u202ec\\u200bd\\u007fe\\udb40\\udc41f\\u001b[m é 語"));
        let back: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["text"], odd);
    }
}
