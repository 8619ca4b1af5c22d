//! Builds Responses streams event by event, strictly as OpenAI's own types have them.
//!
//! A `Response` is a list of output items; `stream` gives the server-sent events of all of
//! them in order, from `response.created` to `response.completed`. Knows nothing of HTTP.
//! Used by `tests/it` and, by path, by `tests/bench`.

use std::fmt::Write;

use serde_json::{Value, json};

/// One response under construction.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    id: String,
    items: Vec<Item>,
    usage: Value,
}

#[derive(Debug, Clone)]
struct Item {
    /// The item as it is when done.
    done: Value,
    /// Its text, arguments or input, in the pieces in which it is streamed.
    pieces: Vec<String>,
}

/// Writes events with their running number.
struct Writer {
    text: String,
    next: u64,
}

impl Response {
    /// Returns a response without items; `n` makes its ids differ from those of others.
    pub(crate) fn new(n: usize) -> Self {
        let usage = json!({
            "input_tokens": 120, "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
            "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 150
        });
        Self { id: format!("resp_{n:04}"), items: Vec::new(), usage }
    }

    /// Adds an assistant message, streamed word by word.
    pub(crate) fn message(self, text: &str) -> Self {
        let pieces = text.split_inclusive(' ').map(str::to_owned).collect();
        self.message_in_pieces(pieces)
    }

    /// Adds one message of `count` deltas, about 220 bytes of stream each.
    pub(crate) fn many_deltas(self, count: usize) -> Self {
        self.message_in_pieces((0..count).map(|n| format!("{:03} ", n % 1000)).collect())
    }

    fn message_in_pieces(self, pieces: Vec<String>) -> Self {
        let part = json!({"type": "output_text", "text": pieces.concat(), "annotations": [], "logprobs": []});
        let id = self.item_id("msg");
        let done = json!({
            "type": "message", "id": id, "role": "assistant",
            "status": "completed", "content": [part]
        });
        self.with(Item { done, pieces })
    }

    /// Adds a reasoning item with one summary part.
    pub(crate) fn reasoning(self, summary: &str) -> Self {
        let done = json!({
            "type": "reasoning", "id": self.item_id("rs"), "encrypted_content": "gAAAAA==",
            "summary": [{"type": "summary_text", "text": summary}]
        });
        self.with(Item { done, pieces: vec![summary.to_owned()] })
    }

    /// Adds a function call.
    pub(crate) fn function_call(self, name: &str, arguments: &Value) -> Self {
        let arguments = arguments.to_string();
        let done = json!({
            "type": "function_call", "id": self.item_id("fc"), "call_id": self.item_id("call"),
            "name": name, "arguments": arguments, "status": "completed"
        });
        self.with(Item { done, pieces: vec![arguments] })
    }

    /// Adds a call with free text.
    pub(crate) fn custom_call(self, name: &str, input: &str) -> Self {
        let done = json!({
            "type": "custom_tool_call", "id": self.item_id("ctc"), "call_id": self.item_id("call"),
            "name": name, "input": input
        });
        self.with(Item { done, pieces: input.split_inclusive('\n').map(str::to_owned).collect() })
    }

    /// Adds a call of the server's own shell tool.
    pub(crate) fn local_shell_call(self, argv: &[&str]) -> Self {
        let done = json!({
            "type": "local_shell_call", "id": self.item_id("lsh"), "call_id": self.item_id("call"),
            "status": "completed", "action": {"type": "exec", "command": argv, "env": {}}
        });
        self.with(Item { done, pieces: Vec::new() })
    }

    /// Returns the whole stream.
    pub(crate) fn stream(&self) -> String {
        let mut out = Writer { text: String::new(), next: 0 };
        out.event("response.created", json!({"response": self.object("in_progress")}));
        out.event("response.in_progress", json!({"response": self.object("in_progress")}));
        for (index, item) in self.items.iter().enumerate() {
            item.write(index, &mut out);
        }
        out.event("response.completed", json!({"response": self.object("completed")}));
        out.text
    }

    /// Returns the stream without its terminal event, as a cut connection leaves it.
    pub(crate) fn cut_stream(&self) -> String {
        let mut whole = self.stream();
        whole.truncate(whole.rfind("event: response.completed").unwrap_or(whole.len()));
        whole
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.id.trim_start_matches("resp_"), self.items.len())
    }

    fn with(mut self, item: Item) -> Self {
        self.items.push(item);
        self
    }

    fn object(&self, status: &str) -> Value {
        let done = status == "completed";
        let output: Vec<&Value> = self.items.iter().filter(|_| done).map(|i| &i.done).collect();
        json!({
            "id": self.id, "object": "response", "created_at": 1_790_000_000, "status": status,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "model": "mock-model", "output": output, "parallel_tool_calls": true,
            "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "usage": if done { self.usage.clone() } else { Value::Null }
        })
    }
}

impl Item {
    fn write(&self, index: usize, out: &mut Writer) {
        let mut added = self.done.clone();
        let kind = self.done["type"].as_str().unwrap_or_default();
        match kind {
            "message" => {
                added["status"] = "in_progress".into();
                added["content"] = json!([]);
            }
            "reasoning" => added["summary"] = json!([]),
            "function_call" => {
                added["status"] = "in_progress".into();
                added["arguments"] = "".into();
            }
            "custom_tool_call" => added["input"] = "".into(),
            _ => added["status"] = "in_progress".into(),
        }
        out.event("response.output_item.added", json!({"output_index": index, "item": added}));
        match kind {
            "message" => self.write_text(index, out),
            "reasoning" => self.write_summary(index, out),
            "function_call" => {
                let fixed = json!({"arguments": self.pieces.concat(), "name": self.done["name"]});
                self.write_input(index, "response.function_call_arguments", &fixed, out);
            }
            "custom_tool_call" => {
                let fixed = json!({"input": self.pieces.concat()});
                self.write_input(index, "response.custom_tool_call_input", &fixed, out);
            }
            _ => {}
        }
        out.event("response.output_item.done", json!({"output_index": index, "item": self.done}));
    }

    fn id(&self) -> &str {
        self.done["id"].as_str().unwrap_or_default()
    }

    fn write_text(&self, index: usize, out: &mut Writer) {
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let place = json!({"item_id": self.id(), "output_index": index, "content_index": 0});
        let whole = self.pieces.concat();
        out.event("response.content_part.added", merged(&place, json!({"part": part("")})));
        for piece in &self.pieces {
            out.text_delta(self.id(), index, piece);
        }
        out.event(
            "response.output_text.done",
            merged(&place, json!({"text": whole, "logprobs": []})),
        );
        out.event("response.content_part.done", merged(&place, json!({"part": part(&whole)})));
    }

    fn write_summary(&self, index: usize, out: &mut Writer) {
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        let place = json!({"item_id": self.id(), "output_index": index, "summary_index": 0});
        let whole = self.pieces.concat();
        let name = "response.reasoning_summary";
        out.event(&format!("{name}_part.added"), merged(&place, json!({"part": part("")})));
        for piece in &self.pieces {
            out.event(&format!("{name}_text.delta"), merged(&place, json!({"delta": piece})));
        }
        out.event(&format!("{name}_text.done"), merged(&place, json!({"text": whole})));
        out.event(&format!("{name}_part.done"), merged(&place, json!({"part": part(&whole)})));
    }

    fn write_input(&self, index: usize, name: &str, done: &Value, out: &mut Writer) {
        let place = json!({"item_id": self.id(), "output_index": index});
        for piece in &self.pieces {
            out.event(&format!("{name}.delta"), merged(&place, json!({"delta": piece})));
        }
        out.event(&format!("{name}.done"), merged(&place, done.clone()));
    }
}

impl Writer {
    fn event(&mut self, name: &str, fields: Value) {
        let head = json!({"type": name, "sequence_number": self.next});
        self.next += 1;
        let _ = write!(self.text, "event: {name}\ndata: {}\n\n", merged(&head, fields));
    }

    /// Writes the frequent event without building a value for it.
    fn text_delta(&mut self, item: &str, index: usize, text: &str) {
        let (number, text) = (self.next, Value::from(text));
        self.next += 1;
        let _ = write!(
            self.text,
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
             \"sequence_number\":{number},\"item_id\":\"{item}\",\"output_index\":{index},\
             \"content_index\":0,\"delta\":{text},\"logprobs\":[]}}\n\n"
        );
    }
}

fn merged(base: &Value, more: Value) -> Value {
    let mut all = base.clone();
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}
