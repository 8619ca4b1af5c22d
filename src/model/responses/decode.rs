//! What the server's events mean: a state machine from frames to `ResponseEvent`s.
//!
//! The type comes from the data alone, an item's `output_item.done` is the truth, and what a
//! server leaves out, repeats or invents does not stop a turn. Pure: it sees one event's data
//! at a time and knows nothing of connections. `responses/mod.rs` feeds it.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use crate::model::ResponseEvent;
use crate::model::failure::{Failure, printable_excerpt};
use crate::model::retry::FailureClass;
use crate::protocol::{CallId, ErrorKind, ResponseItem, TokenUsage};

/// How many warnings one response may cause; a server that is off is off in every frame.
const WARNINGS_MAX: u32 = 5;

/// How many messages may grow at once. Models write one; each delta looks through all.
const TEXTS_MAX: usize = 1024;

/// Decodes the frames of one answer, through as many tries as it takes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Text that came in deltas and in no item yet.
    texts: Vec<PartialText>,
    /// Reasoning that waits for the item it belongs to: alone it would stay behind when that
    /// item comes again in another try, with reasoning of its own.
    reasoning: Vec<Whole>,
    /// Names of the items that were delivered: by their ids.
    delivered_ids: HashSet<String>,
    /// What was delivered in this try, by content.
    delivered_contents: HashSet<String>,
    /// What was delivered in the tries before, by content.
    earlier_contents: HashSet<String>,
    /// Text of the messages delivered in this try.
    delivered_texts: Vec<String>,
    /// Text of the messages delivered in the tries before.
    earlier_texts: Vec<String>,
    call_delivered: bool,
    completed: bool,
    warnings: u32,
}

/// An item that is whole, and its names.
#[derive(Debug)]
struct Whole {
    item: ResponseItem,
    id: Option<String>,
    content: String,
}

/// The text of one message while it grows.
#[derive(Debug)]
struct PartialText {
    item_id: String,
    text: String,
    /// Not shown yet, because so far it repeats a message the user has already.
    held: bool,
}

/// A frame as far as deltas need it, without a copy of its text.
#[derive(Deserialize)]
struct DeltaFrame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Cow<'a, str>,
    #[serde(borrow, default)]
    item_id: Cow<'a, str>,
}

impl Decoder {
    /// Decodes one frame and appends what it says. A failure ends this try.
    pub(crate) fn decode(
        &mut self,
        data: &str,
        out: &mut VecDeque<ResponseEvent>,
    ) -> Result<(), Failure> {
        if self.completed {
            return Ok(());
        }
        if let Ok(frame) = serde_json::from_str::<DeltaFrame<'_>>(data)
            && self.take_delta(&frame, out)
        {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        match serde_json::from_str::<Value>(data) {
            Ok(frame) => self.take_frame(frame, out),
            Err(error) => {
                self.warn(format!("skipped an event that is not JSON: {error}"), out);
                Ok(())
            }
        }
    }

    /// Prepares for another try. What was delivered is not delivered again.
    pub(crate) fn restart(&mut self) {
        self.texts.clear();
        for held in self.reasoning.drain(..) {
            if let Some(id) = held.id {
                self.delivered_ids.remove(&id);
            }
            self.delivered_contents.remove(&held.content);
        }
        self.earlier_contents.extend(self.delivered_contents.drain());
        self.earlier_texts.append(&mut self.delivered_texts);
    }

    /// Returns whether the response is complete.
    pub(crate) fn is_completed(&self) -> bool {
        self.completed
    }

    /// Returns whether a tool call was delivered, so that asking again could run it twice.
    pub(crate) fn has_delivered_call(&self) -> bool {
        self.call_delivered
    }

    /// Takes a delta; returns false for every other frame.
    fn take_delta(&mut self, frame: &DeltaFrame<'_>, out: &mut VecDeque<ResponseEvent>) -> bool {
        match frame.kind.as_ref() {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.take_text(&frame.item_id, &frame.delta, out);
            }
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => {
                push_delta(out, ResponseEvent::ReasoningDelta, &frame.delta);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                push_delta(out, ResponseEvent::ArgumentsDelta, &frame.delta);
            }
            _ => return false,
        }
        true
    }

    fn take_text(&mut self, item_id: &str, delta: &str, out: &mut VecDeque<ResponseEvent>) {
        let earlier = &self.earlier_texts;
        let repeats = |text: &str| earlier.iter().any(|known| known.starts_with(text));
        // Nearly always the last one grows.
        let place = self.texts.iter().rposition(|partial| partial.item_id == item_id);
        if place.is_none() && self.texts.len() >= TEXTS_MAX {
            return self.warn("skipped text of too many messages at once".to_owned(), out);
        }
        let partial = match place.and_then(|place| self.texts.get_mut(place)) {
            Some(partial) => partial,
            None => self.texts.push_mut(PartialText {
                item_id: item_id.to_owned(),
                text: String::new(),
                held: !earlier.is_empty(),
            }),
        };
        partial.text.push_str(delta);
        if !partial.held {
            push_delta(out, ResponseEvent::TextDelta, delta);
        } else if !repeats(&partial.text) {
            partial.held = false;
            push_delta(out, ResponseEvent::TextDelta, &partial.text);
        }
    }

    fn take_frame(
        &mut self,
        mut frame: Value,
        out: &mut VecDeque<ResponseEvent>,
    ) -> Result<(), Failure> {
        let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "response.created" => {
                let id = frame.pointer("/response/id").and_then(Value::as_str).unwrap_or_default();
                out.push_back(ResponseEvent::Created { response_id: id.to_owned() });
            }
            "response.output_text.done" => self.take_whole_text(&frame, out),
            // The parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" if !is_first_part(&frame) => {
                push_delta(out, ResponseEvent::ReasoningDelta, "\n\n");
            }
            "response.reasoning_summary.delta" => {
                let delta = frame.get("delta");
                let text = delta.and_then(|delta| delta.get("text").unwrap_or(delta).as_str());
                push_delta(out, ResponseEvent::ReasoningDelta, text.unwrap_or_default());
            }
            "response.output_item.done" => {
                let item = frame.get_mut("item").map(Value::take).unwrap_or_default();
                self.take_item(item, false, out);
            }
            "response.completed" | "response.done" => {
                let response = frame.get_mut("response").map(Value::take).unwrap_or_default();
                return self.take_completed(response, out);
            }
            "response.failed" => {
                let error = frame.pointer("/response/error").or_else(|| frame.get("error"));
                return Err(Failure::from_error_value(error.unwrap_or(&Value::Null), None));
            }
            "response.incomplete" => return Err(incomplete(&frame)),
            "error" => {
                let error = frame.get("error").filter(|error| !error.is_null());
                return Err(Failure::from_error_value(error.unwrap_or(&frame), None));
            }
            "" => return self.take_untyped(&frame, out),
            // Types that say nothing we need, and types of a later day.
            _ => {}
        }
        Ok(())
    }

    /// Takes a message's whole text, for servers that send no deltas.
    fn take_whole_text(&mut self, frame: &Value, out: &mut VecDeque<ResponseEvent>) {
        let field = |key: &str| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        let (item_id, text) = (field("item_id"), field("text"));
        if !text.is_empty() && !self.texts.iter().any(|partial| partial.item_id == item_id) {
            self.take_text(item_id, text, out);
        }
    }

    fn take_untyped(
        &mut self,
        frame: &Value,
        out: &mut VecDeque<ResponseEvent>,
    ) -> Result<(), Failure> {
        match frame.get("error").filter(|error| !error.is_null()) {
            Some(error) => Err(Failure::from_error_value(error, None)),
            None => {
                self.warn("skipped an event without a type".to_owned(), out);
                Ok(())
            }
        }
    }

    /// Delivers an item unless it was delivered before. An item of the final list is also
    /// known by its content, because some servers name it anew there.
    fn take_item(&mut self, item: Value, is_final: bool, out: &mut VecDeque<ResponseEvent>) {
        if item.get("type").and_then(Value::as_str).is_none() {
            self.warn("skipped an item without a type".to_owned(), out);
            return;
        }
        let Ok(mut item) = serde_json::from_value::<ResponseItem>(item) else {
            self.warn("skipped an item that could not be read".to_owned(), out);
            return;
        };
        self.settle_text(&mut item);
        complete_call_id(&mut item);
        let content = content_key(&item);
        let id = id_key(&item);
        let known_here = match &id {
            Some(id) if !is_final => self.delivered_ids.contains(id),
            Some(id) => {
                self.delivered_ids.contains(id) || self.delivered_contents.contains(&content)
            }
            None => self.delivered_contents.contains(&content),
        };
        if known_here {
            return;
        }
        if self.earlier_contents.contains(&content) {
            // What led to it has its place already.
            self.reasoning.clear();
            return;
        }
        self.deliver(Whole { item, id, content }, out);
    }

    fn deliver(&mut self, whole: Whole, out: &mut VecDeque<ResponseEvent>) {
        self.delivered_ids.extend(whole.id.clone());
        self.delivered_contents.insert(whole.content.clone());
        if matches!(whole.item, ResponseItem::Reasoning(_)) {
            self.reasoning.push(whole);
            return;
        }
        self.release_reasoning(out);
        self.call_delivered |= whole.item.call_id().is_some();
        self.delivered_texts.extend(whole.item.assistant_message());
        out.push_back(ResponseEvent::ItemDone(whole.item));
    }

    fn release_reasoning(&mut self, out: &mut VecDeque<ResponseEvent>) {
        out.extend(self.reasoning.drain(..).map(|held| ResponseEvent::ItemDone(held.item)));
    }

    /// Takes away the deltas that an item makes good; a message that came empty gets them.
    fn settle_text(&mut self, item: &mut ResponseItem) {
        let Some(text) = item.assistant_message() else { return };
        let by_id = |partial: &PartialText| {
            partial.item_id.is_empty() || item.id() == Some(partial.item_id.as_str())
        };
        let place = self.texts.iter().position(by_id);
        let place = place.or_else(|| self.texts.iter().position(|partial| partial.text == text));
        let Some(place) = place else { return };
        let partial = self.texts.remove(place);
        if text.is_empty() {
            *item = ResponseItem::assistant_text(item.id().map(str::to_owned), partial.text);
        }
    }

    fn take_completed(
        &mut self,
        mut response: Value,
        out: &mut VecDeque<ResponseEvent>,
    ) -> Result<(), Failure> {
        // Some servers end a failed or incomplete response with the usual event.
        match response.get("status").and_then(Value::as_str) {
            Some("failed") => {
                let error = response.get("error").unwrap_or(&Value::Null);
                return Err(Failure::from_error_value(error, None));
            }
            Some("incomplete") => return Err(incomplete(&response)),
            _ => {}
        }
        if let Some(Value::Array(items)) = response.get_mut("output").map(Value::take) {
            for item in items {
                self.take_item(item, true, out);
            }
        }
        for partial in std::mem::take(&mut self.texts) {
            if partial.text.is_empty() {
                continue;
            }
            let id = Some(partial.item_id).filter(|id| !id.is_empty());
            let item = ResponseItem::assistant_text(id, partial.text);
            let (id, content) = (id_key(&item), content_key(&item));
            if !self.earlier_contents.contains(&content) {
                self.deliver(Whole { item, id, content }, out);
            }
        }
        self.release_reasoning(out);
        let usage = response.get_mut("usage").map(Value::take).unwrap_or_default();
        out.push_back(ResponseEvent::Completed { usage: TokenUsage::from(usage) });
        self.completed = true;
        Ok(())
    }

    fn warn(&mut self, message: String, out: &mut VecDeque<ResponseEvent>) {
        self.warnings += 1;
        if self.warnings <= WARNINGS_MAX {
            out.push_back(ResponseEvent::Warning(message));
        }
    }
}

fn is_first_part(frame: &Value) -> bool {
    frame.get("summary_index").and_then(Value::as_u64).unwrap_or(0) == 0
}

fn push_delta(out: &mut VecDeque<ResponseEvent>, event: fn(String) -> ResponseEvent, delta: &str) {
    if delta.is_empty() {
        return;
    }
    let mut fresh = event(String::new());
    match (out.back_mut(), &mut fresh) {
        (Some(ResponseEvent::TextDelta(text)), ResponseEvent::TextDelta(_))
        | (Some(ResponseEvent::ReasoningDelta(text)), ResponseEvent::ReasoningDelta(_))
        | (Some(ResponseEvent::ArgumentsDelta(text)), ResponseEvent::ArgumentsDelta(_)) => {
            text.push_str(delta);
        }
        _ => out.push_back(event(delta.to_owned())),
    }
}

/// Fills a `local_shell_call`'s missing call id with its id, as older servers mean it.
fn complete_call_id(item: &mut ResponseItem) {
    if let ResponseItem::LocalShellCall(call) = item
        && call.call_id.as_str().is_empty()
        && let Some(id) = call.id.clone()
    {
        item.set_call_id(CallId(id));
    }
}

/// Names an item by what ties it together: a call by its call id, others by their id.
fn id_key(item: &ResponseItem) -> Option<String> {
    let call_id = item.call_id().map(CallId::as_str).filter(|id| !id.is_empty());
    if let Some(call_id) = call_id {
        return Some(format!("call {call_id}"));
    }
    let id = item.id().filter(|id| !id.is_empty())?;
    Some(format!("{} {id}", kind_of(item)))
}

/// Names an item by what it says, whatever its ids.
fn content_key(item: &ResponseItem) -> String {
    let kind = kind_of(item);
    match item {
        ResponseItem::Message(message) => format!("{kind} {}", message.text()),
        ResponseItem::FunctionCall(call) => format!("{kind} {} {}", call.name, call.arguments),
        ResponseItem::CustomToolCall(call) => format!("{kind} {} {}", call.name, call.input),
        ResponseItem::LocalShellCall(call) => format!("{kind} {:?}", call.action),
        ResponseItem::Reasoning(item) => {
            let encrypted = item.encrypted_content.as_deref().unwrap_or_default();
            format!("{kind} {} {:?} {encrypted}", item.summary_text(), item.content)
        }
        ResponseItem::WebSearchCall(call) => format!("{kind} {:?}", call.action),
        ResponseItem::FunctionCallOutput(output) | ResponseItem::CustomToolCallOutput(output) => {
            format!("{kind} {} {}", output.call_id, output.output.text())
        }
        ResponseItem::Other(value) => format!("{kind} {value}"),
    }
}

fn kind_of(item: &ResponseItem) -> &'static str {
    match item {
        ResponseItem::Message(_) => "message",
        ResponseItem::Reasoning(_) => "reasoning",
        ResponseItem::FunctionCall(_) => "function_call",
        ResponseItem::CustomToolCall(_) => "custom_tool_call",
        ResponseItem::LocalShellCall(_) => "local_shell_call",
        ResponseItem::WebSearchCall(_) => "web_search_call",
        ResponseItem::FunctionCallOutput(_) => "function_call_output",
        ResponseItem::CustomToolCallOutput(_) => "custom_tool_call_output",
        ResponseItem::Other(_) => "other",
    }
}

fn incomplete(frame: &Value) -> Failure {
    let pointers = ["/response/incomplete_details/reason", "/incomplete_details/reason"];
    let reason = pointers.iter().find_map(|path| frame.pointer(path)).and_then(Value::as_str);
    let reason = printable_excerpt(reason.unwrap_or("no reason given"));
    let message = format!("the server stopped the answer before its end: {reason}");
    match reason.as_str() {
        "max_output_tokens" => Failure::new(ErrorKind::Refused, FailureClass::Final, message)
            .with_hint("ask for less in one step; the answer reached the model's output limit"),
        _ => Failure::new(ErrorKind::Refused, FailureClass::Final, message),
    }
}
