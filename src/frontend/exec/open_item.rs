//! `OpenItem`: a command, a patch or a remote call between its start and its end.
//!
//! Knows the shape of these three items and collects a command's output within bounds. Pure.
//! Called by `thread_events.rs`, which decides when an item starts and ends.

use serde_json::{Map, Value, json};

use crate::protocol::{
    CallOutcome, ChangeKind, CommandLine, ContentItem, Effect, FileChange, ToolOutput,
};
use crate::text::truncate::bound;

/// Each half of `aggregated_output`: a reader that expects the peer's 1 MiB gets no more.
const OUTPUT_HALF_BYTES_MAX: usize = 512 * 1024;

/// An `item.updated` comes at most once a second or for so much new output.
const UPDATE_STEP_BYTES: usize = 4 * 1024;

/// An `item.updated` shows the end of the output so far, so that all updates together cost
/// about what the output itself does.
const UPDATE_BYTES_MAX: usize = 4 * 1024;

/// Why a call failed is for a person to read.
const REASON_BYTES_MAX: usize = 4 * 1024;

/// An item that was started and not completed.
#[derive(Debug)]
pub(in crate::frontend::exec) struct OpenItem {
    id: String,
    detail: Detail,
}

/// How a call ended, as an item shows it.
#[derive(Debug)]
pub(in crate::frontend::exec) struct CallEnd<'a> {
    pub(in crate::frontend::exec) outcome: CallOutcome,
    pub(in crate::frontend::exec) output: &'a ToolOutput,
    /// Set when the call ended by more than its own result: refused, timed out, invalid.
    pub(in crate::frontend::exec) code: Option<&'a str>,
}

#[derive(Debug)]
enum Detail {
    Command { command: String, output: Collected, shown: Shown },
    Files { changes: Value },
    Remote { server: String, tool: String, arguments: Value },
}

/// What the last update showed.
#[derive(Debug, Default)]
struct Shown {
    bytes: usize,
    second: String,
}

/// A command's output: its beginning and its end.
#[derive(Debug, Default)]
struct Collected {
    head: String,
    tail: String,
    omitted_bytes: usize,
}

impl OpenItem {
    /// Returns the item of a call with this effect; `None` when such calls have none.
    pub(in crate::frontend::exec) fn new(id: String, effect: &Effect) -> Option<Self> {
        let detail = match effect {
            Effect::Run { command, .. } => Detail::Command {
                command: command_string(command),
                output: Collected::default(),
                shown: Shown::default(),
            },
            Effect::Write { changes } => {
                Detail::Files { changes: changes.iter().map(change_value).collect() }
            }
            Effect::Remote { server, tool, arguments, .. } => Detail::Remote {
                server: server.clone(),
                tool: tool.clone(),
                arguments: arguments.clone(),
            },
            Effect::None
            | Effect::Read { .. }
            | Effect::Input { .. }
            | Effect::Fetch { .. }
            | Effect::Agent { .. } => return None,
        };
        Some(Self { id, detail })
    }

    /// Returns the item of a patch that could not be read, so that nobody knows its files.
    pub(in crate::frontend::exec) fn unread_patch(id: String) -> Self {
        Self { id, detail: Detail::Files { changes: json!([]) } }
    }

    /// Returns the item of what a command changed.
    pub(in crate::frontend::exec) fn changed_files(id: String, changes: &[FileChange]) -> Self {
        Self { id, detail: Detail::Files { changes: changes.iter().map(change_value).collect() } }
    }

    /// Returns the item as it is when it did what it says.
    pub(in crate::frontend::exec) fn done(&self) -> Value {
        let output = ToolOutput::text("");
        self.ended(&CallEnd { outcome: CallOutcome::Completed, output: &output, code: None })
    }

    /// Returns the item as it starts.
    pub(in crate::frontend::exec) fn in_progress(&self) -> Value {
        match &self.detail {
            Detail::Command { command, .. } => self.value(json!({
                "command": command, "aggregated_output": "", "exit_code": null,
                "status": "in_progress",
            })),
            Detail::Files { changes } => {
                self.value(json!({"changes": changes, "status": "in_progress"}))
            }
            Detail::Remote { server, tool, arguments } => self.value(json!({
                "server": server, "tool": tool, "arguments": arguments,
                "result": null, "error": null, "status": "in_progress",
            })),
        }
    }

    /// Takes more output of a command, and returns the item when it is time to show it.
    pub(in crate::frontend::exec) fn add_output(&mut self, text: &str, at: &str) -> Option<Value> {
        let Detail::Command { command, output, shown } = &mut self.detail else { return None };
        output.push(text);
        let total = output.total_bytes();
        // The first 19 characters of a time are its second.
        let second = at.get(..19).unwrap_or(at);
        if total < shown.bytes + UPDATE_STEP_BYTES && shown.second == second {
            return None;
        }
        *shown = Shown { bytes: total, second: second.to_owned() };
        let body = json!({
            "command": command, "aggregated_output": output.end(UPDATE_BYTES_MAX),
            "exit_code": null, "status": "in_progress",
        });
        Some(self.value(body))
    }

    /// Returns the item as it ended.
    pub(in crate::frontend::exec) fn ended(&self, end: &CallEnd<'_>) -> Value {
        let body = match &self.detail {
            Detail::Command { command, output, .. } => {
                let mut body = json!({
                    "command": command, "aggregated_output": output.whole(),
                    "exit_code": end.output.exit_code, "status": command_status(end.outcome),
                });
                if let Some(reason) = end.reason() {
                    // Typed readers know this field only, so the reason stands there as well
                    // when the command printed nothing.
                    if output.total_bytes() == 0 {
                        body["aggregated_output"] = reason.clone().into();
                    }
                    body["error"] = json!({"message": reason});
                }
                body
            }
            Detail::Files { changes } => {
                let mut body = json!({"changes": changes, "status": plain_status(end.outcome)});
                if end.outcome != CallOutcome::Completed {
                    let reason = end.reason().unwrap_or_else(|| end.text());
                    body["error"] = json!({"message": reason});
                }
                body
            }
            Detail::Remote { server, tool, arguments } => json!({
                "server": server, "tool": tool, "arguments": arguments,
                "result": end.code.is_none().then(|| remote_result(end.output)),
                "error": end.reason().map(|reason| json!({"message": reason})),
                "status": plain_status(end.outcome),
            }),
        };
        self.value(body)
    }

    fn value(&self, body: Value) -> Value {
        let kind = match &self.detail {
            Detail::Command { .. } => "command_execution",
            Detail::Files { .. } => "file_change",
            Detail::Remote { .. } => "mcp_tool_call",
        };
        item_value(&self.id, kind, body)
    }
}

impl CallEnd<'_> {
    /// Returns why the call ended other than by its own result.
    fn reason(&self) -> Option<String> {
        let code = self.code?;
        let text = self.text();
        Some(if text.is_empty() { code.to_owned() } else { text })
    }

    fn text(&self) -> String {
        bound(&self.output.joined_text(), REASON_BYTES_MAX)
    }
}

impl Collected {
    fn push(&mut self, text: &str) {
        let room = OUTPUT_HALF_BYTES_MAX.saturating_sub(self.head.len());
        let (first, rest) = text.split_at(text.floor_char_boundary(room));
        if self.tail.is_empty() && self.omitted_bytes == 0 {
            self.head.push_str(first);
            self.tail.push_str(rest);
        } else {
            self.tail.push_str(text);
        }
        // Cutting at twice the bound makes the moving of bytes rare.
        if self.tail.len() > 2 * OUTPUT_HALF_BYTES_MAX {
            let cut = split_end(&self.tail, OUTPUT_HALF_BYTES_MAX).0.len();
            self.tail.drain(..cut);
            self.omitted_bytes += cut;
        }
    }

    fn total_bytes(&self) -> usize {
        self.head.len() + self.omitted_bytes + self.tail.len()
    }

    fn whole(&self) -> String {
        let (_, tail) = split_end(&self.tail, OUTPUT_HALF_BYTES_MAX);
        let omitted_bytes = self.total_bytes() - self.head.len() - tail.len();
        if omitted_bytes == 0 {
            return format!("{}{tail}", self.head);
        }
        format!("{}\n[{omitted_bytes} bytes omitted]\n{tail}", self.head)
    }

    /// Returns the last bytes, and how many come before.
    fn end(&self, bytes_max: usize) -> String {
        let from_tail = self.tail.len().min(bytes_max);
        let (_, tail) = split_end(&self.tail, from_tail);
        // What was omitted lies between the halves, and then the tail alone is long enough.
        let (_, head) = split_end(&self.head, bytes_max - from_tail);
        let before = self.total_bytes() - head.len() - tail.len();
        if before == 0 {
            return format!("{head}{tail}");
        }
        format!("[{before} bytes before]\n{head}{tail}")
    }
}

/// Splits off about the last `bytes`, on a character boundary.
fn split_end(text: &str, bytes: usize) -> (&str, &str) {
    text.split_at(text.floor_char_boundary(text.len().saturating_sub(bytes)))
}

/// Returns an item: its id and type first, as readers are used to.
pub(in crate::frontend::exec) fn item_value(id: &str, kind: &str, body: Value) -> Value {
    let mut item = Map::new();
    item.insert("id".to_owned(), id.into());
    item.insert("type".to_owned(), kind.into());
    if let Value::Object(fields) = body {
        // The first of two equal keys stays: an item has one id.
        for (key, value) in fields {
            item.entry(key).or_insert(value);
        }
    }
    Value::Object(item)
}

fn command_string(command: &CommandLine) -> String {
    let argv = command.argv();
    // Quoting fails on a NUL only, which no shell could be given either.
    shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
}

fn change_value(change: &FileChange) -> Value {
    let kind = match change.kind {
        ChangeKind::Add => "add",
        ChangeKind::Delete => "delete",
        ChangeKind::Update => "update",
    };
    json!({"path": change.path.to_string_lossy(), "kind": kind})
}

fn command_status(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Declined => "declined",
        CallOutcome::Completed
        | CallOutcome::Failed
        | CallOutcome::TimedOut
        | CallOutcome::Interrupted => plain_status(outcome),
    }
}

/// The status of items whose readers know two ends only.
fn plain_status(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Completed => "completed",
        CallOutcome::Failed
        | CallOutcome::Declined
        | CallOutcome::TimedOut
        | CallOutcome::Interrupted => "failed",
    }
}

fn remote_result(output: &ToolOutput) -> Value {
    let content: Value = output.content.iter().map(remote_content).collect();
    json!({"content": content, "structured_content": output.structured})
}

/// Returns a part in MCP's own shape, which is what readers of this item expect.
fn remote_content(part: &ContentItem) -> Value {
    match part {
        ContentItem::InputText(text) | ContentItem::OutputText(text, _) => {
            json!({"type": "text", "text": text})
        }
        ContentItem::InputImage(url, _) => match parse_data_url(url) {
            Some((mime_type, data)) => {
                json!({"type": "image", "data": data, "mimeType": mime_type})
            }
            None => json!({"type": "text", "text": url}),
        },
        ContentItem::Other(value) => value.clone(),
    }
}

fn parse_data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
