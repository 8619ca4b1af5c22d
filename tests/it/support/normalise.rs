//! The one place that blanks what differs from run to run: ids, times, hashes, sizes, paths.
//!
//! `text` works on any text; `events` on a log of our own events, where it also leaves out
//! what is for display only and puts what runs at the same time into the order of the calls.
//! What can be checked instead of blanked is checked here: the places in the file.

use std::path::Path;

use serde_json::{Value, json};

/// Numbers that time or the machine decides.
const NUMBERS: &[&str] = &[
    "duration_ms",
    "body_bytes",
    "shared_bytes",
    "total_bytes",
    "items",
    "shared_items",
    "total_items",
];
/// Events for display only: how many there are depends on the moment.
const DISPLAY_ONLY: &[&str] = &["item_delta", "tool_call_delta"];

/// Returns the text with everything accidental replaced by a word in brackets.
pub(crate) fn text(text: &str, root: &Path) -> String {
    let text = text.replace(&root.display().to_string(), "[ROOT]");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let starts = !out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let found = if starts { accidental(rest) } else { None };
        let (length, word) = found.unwrap_or((c.len_utf8(), ""));
        out.push_str(if found.is_some() { word } else { &rest[..length] });
        rest = &rest[length..];
    }
    out
}

/// Returns the length and the name of something accidental at the start of `rest`.
fn accidental(rest: &str) -> Option<(usize, &'static str)> {
    let hex = |c: char| c.is_ascii_hexdigit();
    let run = |test: fn(char) -> bool| rest.chars().take_while(|c| test(*c)).count();
    if shaped(rest, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", hex) {
        return Some((36, "[ID]"));
    }
    if shaped(rest, "0000-00-00T00:00:00", |c| c.is_ascii_digit()) {
        let tail = rest[19..].find(|c: char| !(c.is_ascii_digit() || ".:+Z".contains(c)));
        return Some((tail.map_or(rest.len(), |at| 19 + at), "[TIME]"));
    }
    let digits = run(|c| c.is_ascii_hexdigit());
    if digits >= 32 {
        return Some((digits, "[HASH]"));
    }
    let number = run(|c| c.is_ascii_digit() || c == '.');
    let after = rest.get(number..).unwrap_or_default();
    let unit = after.strip_prefix(' ').unwrap_or(after);
    let end =
        |word: &str| unit.strip_prefix(word).is_some_and(|t| !t.starts_with(char::is_alphanumeric));
    let word = ["seconds", "second", "ms", "s"].into_iter().find(|word| number > 0 && end(word))?;
    Some((rest.len() - unit.len() + word.len(), "[DURATION]"))
}

fn shaped(text: &str, shape: &str, is_part: impl Fn(char) -> bool) -> bool {
    let fits = |(c, s): (char, char)| if s == 'x' || s == '0' { is_part(c) } else { c == s };
    text.len() >= shape.len() && text.chars().zip(shape.chars()).all(fits)
}

/// Returns a log of our own events, one a line, without what is accidental.
///
/// # Panics
/// When a line is not an event, or places and hashes do not form a chain.
pub(crate) fn events(log: &str, root: &Path) -> String {
    let mut events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}")))
        .collect();
    check_chain(&events);
    events.retain(|event| !DISPLAY_ONLY.contains(&kind(event)));
    let mut out = String::new();
    for mut event in in_order_of_calls(events) {
        let kept = event.as_object_mut().unwrap();
        for gone in ["v", "seq", "prev_hash", "at", "session", "response_id"] {
            kept.shift_remove(gone);
        }
        blank(&mut event);
        out += &text(&event.to_string(), root);
        out.push('\n');
    }
    out
}

fn kind(event: &Value) -> &str {
    event["msg"]["type"].as_str().unwrap_or_default()
}

/// Checks that places never jump and that hashes have the shape of hashes.
fn check_chain(events: &[Value]) {
    let durable = events.iter().filter(|e| !DISPLAY_ONLY.contains(&kind(e)));
    let mut last: Option<u64> = None;
    for event in durable {
        let seq = event["seq"].as_u64().unwrap_or_else(|| panic!("no seq in {event}"));
        if let Some(last) = last {
            // Not every kind is durable: one that is not repeats the place before it.
            assert!(seq == last || seq == last + 1, "seq {seq} after {last}: {event}");
        }
        last = Some(seq);
        let hash = event["prev_hash"].as_str().unwrap_or_default();
        assert!(hash.len() == 64 || hash.is_empty(), "odd prev_hash: {event}");
    }
}

/// Holds back what belongs to a call until its output is part of the conversation: outputs
/// keep the order of the calls, what leads to them may run at the same time.
fn in_order_of_calls(events: Vec<Value>) -> Vec<Value> {
    let (mut held, mut out): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for event in events {
        let item = &event["msg"]["item"];
        let is_output = item["type"].as_str().is_some_and(|t| t.ends_with("_output"));
        if kind(&event) == "item_completed" && is_output {
            let id = item["call_id"].clone();
            let (own, others): (Vec<_>, Vec<_>) =
                held.into_iter().partition(|e| e["call_id"] == id);
            out.extend(own);
            held = others;
            out.push(event);
        } else if event.get("call_id").is_some_and(Value::is_string)
            && kind(&event) != "item_completed"
        {
            held.push(event);
        } else if kind(&event) == "turn_ended" {
            out.append(&mut held);
            out.push(event);
        } else {
            out.push(event);
        }
    }
    out.append(&mut held);
    out
}

/// Blanks values that are ours to change or the machine's to decide.
fn blank(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(blank),
        Value::Object(all) => {
            let is = |all: &serde_json::Map<String, Value>, t: &str| {
                all.get("type").is_some_and(|v| v == t)
            };
            // What is hidden by default grows, and is no session's matter.
            if all.contains_key("deny_read") {
                all.insert("deny_read".to_owned(), "[HIDDEN]".into());
            }
            if is(all, "sandbox_level") {
                all.insert("level".to_owned(), "[LEVEL]".into());
                all.insert("reason".to_owned(), Value::Null);
            }
            if all.contains_key("outside") && all.contains_key("level") {
                all.insert("level".to_owned(), "[LEVEL]".into());
            }
            if is(all, "session_started") {
                all.insert("gimlet_version".to_owned(), "[VERSION]".into());
            }
            for (name, value) in all.iter_mut() {
                match (name.as_str(), &*value) {
                    ("prefix", Value::Object(_)) => *value = "[SHARE]".into(),
                    ("instructions", Value::String(_)) => *value = "[INSTRUCTIONS]".into(),
                    ("text", Value::String(s)) if s.contains("<environment_context>") => {
                        *value = "[ENVIRONMENT]".into();
                    }
                    ("tools", Value::Array(tools)) => *value = tool_names(tools),
                    (name, Value::Number(_)) if NUMBERS.contains(&name) => *value = json!(0),
                    _ => blank(value),
                }
            }
        }
        // How a refused write is put depends on the sandbox's level.
        Value::String(text) if text.contains("Read-only file system") => {
            *text = text.replace("Read-only file system", "Permission denied");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn tool_names(tools: &[Value]) -> Value {
    tools.iter().map(|t| t.get("name").or(t.get("kind")).cloned().unwrap_or_default()).collect()
}

#[test]
fn accidents_are_blanked_and_words_are_not() {
    let root = Path::new("/tmp/house-Ab12");
    let cases = [
        ("01a1fd0d-043f-7c81-b79a-636f3f116ff1 x", "[ID] x"),
        ("at 2026-11-21T10:00:00.123Z, yes", "at [TIME], yes"),
        ("Wall time: 0.0123 s", "Wall time: [DURATION]"),
        ("12ms and 3 seconds and 4 spoons", "[DURATION] and [DURATION] and 4 spoons"),
        ("/tmp/house-Ab12/workspace/a.txt", "[ROOT]/workspace/a.txt"),
        ("deadbeef is short; a1 s", "deadbeef is short; a1 s"),
    ];
    for (given, wanted) in cases {
        assert_eq!(text(given, root), wanted);
    }
}

#[test]
fn what_runs_at_the_same_time_is_put_in_the_order_of_the_calls() {
    let event = |seq: u64, id: Option<&str>, msg: Value| {
        json!({"v":1,"seq":seq,"prev_hash":"","at":"t","call_id":id,"msg":msg}).to_string()
    };
    let output = |id: &str| json!({"type":"item_completed","item":{"type":"function_call_output","call_id":id}});
    let log = [
        event(1, Some("b"), json!({"type":"tool_call_end","duration_ms":7})),
        event(1, None, json!({"type":"item_delta","text":"x"})),
        event(2, Some("a"), json!({"type":"tool_call_end"})),
        event(3, Some("a"), output("a")),
        event(4, Some("b"), output("b")),
    ];
    let normal = events(&log.join("\n"), Path::new("/none"));
    let order: Vec<_> =
        normal.lines().map(|l| if l.contains("\"a\"") { 'a' } else { 'b' }).collect();
    assert_eq!(order, ['a', 'a', 'b', 'b']);
    assert!(normal.contains(r#""duration_ms":0"#));
}
