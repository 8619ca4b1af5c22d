//! Runners over `tests/fixtures/{sse,request}/responses`, and the properties fixtures cannot
//! say: chunk boundaries, retries, limits. `client_tests.rs` speaks to a real socket.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::expect_file;
use futures_util::StreamExt;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::catalog::{PatchTool, ShellTool, lookup};
use crate::model::failure::{EXCERPT_BYTES_MAX, Failure, printable_excerpt};
use crate::model::fake::FakeDriver;
use crate::model::responses::decode::Decoder;
use crate::model::responses::encode::encode;
use crate::model::retry::{FailureClass, RetryDecision, RetryLimits, RetryState, decide_retry};
use crate::model::sse::{EVENT_BYTES_MAX, SseError, SseGuard};
use crate::model::{Driver, DriverError, ResponseEvent};
use crate::protocol::{
    EncodedItem, ErrorKind, ModelName, ModelSettings, Prompt, ResponseItem, ToolChoice, ToolSpec,
};

/// Everything a stream led to: events and, at the end, the failure.
type Decoded = (VecDeque<ResponseEvent>, Option<Failure>);

fn fixture_folders(kind: &str) -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
    let entries = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(!folders.is_empty(), "no fixtures in {}", root.display());
    folders
}

fn decode_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut guard = SseGuard::default();
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    let mut events = VecDeque::new();
    let mut framed = Ok(());
    for chunk in chunks {
        framed = framed.and_then(|()| guard.feed(chunk, &mut frames));
    }
    framed = framed.and_then(|()| guard.finish(&mut frames));
    for frame in frames {
        if let Err(failure) = decoder.decode(&frame, &mut events) {
            return (events, Some(failure));
        }
    }
    let cut = (!decoder.is_completed()).then(|| Failure::cut("the stream ended early"));
    (events, framed.err().map(|error| Failure::cut(error.to_string())).or(cut))
}

pub(crate) fn event_json(event: &ResponseEvent) -> Value {
    match event {
        ResponseEvent::Sent { body_bytes, .. } => json!({ "sent": body_bytes }),
        ResponseEvent::Created { response_id } => json!({ "created": response_id }),
        ResponseEvent::TextDelta(text) => json!({ "text": text }),
        ResponseEvent::ReasoningDelta(text) => json!({ "reasoning": text }),
        ResponseEvent::ArgumentsDelta(text) => json!({ "arguments": text }),
        ResponseEvent::ItemDone(item) => json!({ "item": item }),
        ResponseEvent::Completed { usage } => json!({ "completed": usage }),
        ResponseEvent::Restarted { attempt, attempts_max, delay_ms, reason } => json!({
            "restarted": { "attempt": attempt, "attempts_max": attempts_max,
                           "delay_ms": delay_ms, "reason": reason }
        }),
        ResponseEvent::Warning(message) => json!({ "warning": message }),
    }
}

fn failure_json(failure: &Failure) -> Value {
    let DriverError { kind, message, hint, retryable } = &failure.error;
    json!({ "failure": { "kind": kind, "message": message, "hint": hint,
                         "retryable": retryable, "retry_after_ms": failure.retry_after_ms } })
}

#[test]
fn streams_decode_as_expected_wherever_they_are_cut() {
    for folder in fixture_folders("sse/responses") {
        let stream = std::fs::read(folder.join("stream.sse")).unwrap();
        let whole = decode_chunks([stream.as_slice()]);
        let mut lines: Vec<Value> = whole.0.iter().map(event_json).collect();
        lines.extend(whole.1.as_ref().map(failure_json));
        let shown: String = lines.iter().map(|line| format!("{line}\n")).collect();
        expect_file![folder.join("expected.jsonl")].assert_eq(&shown);
        for chunk_bytes in [1, 7] {
            let cut = decode_chunks(stream.chunks(chunk_bytes));
            assert_eq!(cut, whole, "{} in chunks of {chunk_bytes}", folder.display());
        }
        // Each decode costs time; chunks of one byte have cut every place already.
        for place in (0..stream.len()).step_by(1 + stream.len() / 40) {
            let (head, tail) = stream.split_at(place);
            assert_eq!(decode_chunks([head, tail]), whole, "{} at {place}", folder.display());
        }
    }
}

/// A prompt as a fixture file says it.
#[derive(Deserialize)]
struct PromptFile {
    settings: ModelSettings,
    instructions: String,
    input: Vec<ResponseItem>,
    tools: Vec<ToolSpec>,
    tool_choice: ToolChoice,
    parallel_tool_calls: bool,
    output_schema: Option<Value>,
}

impl From<PromptFile> for Prompt {
    fn from(file: PromptFile) -> Self {
        Self {
            settings: file.settings,
            instructions: file.instructions.into(),
            input: file.input.into_iter().map(|item| Arc::new(EncodedItem::new(item))).collect(),
            tools: file.tools.into(),
            tool_choice: file.tool_choice,
            parallel_tool_calls: file.parallel_tool_calls,
            output_schema: file.output_schema,
        }
    }
}

/// Returns a prompt with one message and one tool.
pub(crate) fn small_prompt() -> Prompt {
    let path = "tests/fixtures/request/responses/asks_with_one_message/prompt.json";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let file: PromptFile = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    file.into()
}

#[test]
fn prompts_encode_as_expected() {
    for folder in fixture_folders("request/responses") {
        let file = std::fs::read(folder.join("prompt.json")).unwrap();
        let file: PromptFile = serde_json::from_slice(&file).unwrap();
        let body = encode(&file.into());
        // Pretty for review; the order of keys is kept, so it shows the bytes' order.
        let body: Value = serde_json::from_slice(&body).unwrap();
        let shown = serde_json::to_string_pretty(&body).unwrap() + "\n";
        expect_file![folder.join("expected.json")].assert_eq(&shown);
    }
}

#[test]
fn a_longer_conversation_keeps_the_bytes_before_it() {
    let mut prompt = small_prompt();
    let short = encode(&prompt);
    assert_eq!(encode(&prompt), short);
    prompt.input.push(Arc::new(EncodedItem::new(ResponseItem::user_text("more"))));
    let long = encode(&prompt);
    let end_of_input = short.windows(10).position(|bytes| bytes == br#"],"tools":"#).unwrap();
    assert_eq!(long[..end_of_input], short[..end_of_input]);
    assert!(long.ends_with(&short[end_of_input..]));
}

#[test]
fn an_event_that_never_ends_is_refused() {
    let mut guard = SseGuard::default();
    let chunk = vec![b'x'; 1 << 20];
    let mut fed = Ok(());
    for _ in 0..=EVENT_BYTES_MAX >> 20 {
        fed = fed.and_then(|()| guard.feed(&chunk, &mut Vec::new()));
    }
    assert_eq!(fed, Err(SseError::EventTooLong));
}

#[test]
fn an_event_of_endless_lines_is_refused() {
    let mut guard = SseGuard::default();
    let chunk = b"data: 0123456789\n".repeat(64 << 10);
    let mut fed = Ok(());
    for _ in 0..=EVENT_BYTES_MAX >> 20 {
        fed = fed.and_then(|()| guard.feed(&chunk, &mut Vec::new()));
    }
    assert_eq!(fed, Err(SseError::EventTooLong));
}

#[test]
fn a_response_that_never_ends_is_refused() {
    let mut guard = SseGuard::default();
    let chunk = format!(": {}\n\n", "still here ".repeat(100)).repeat(900);
    let mut fed = Ok(());
    for _ in 0..80 {
        fed = fed.and_then(|()| guard.feed(chunk.as_bytes(), &mut Vec::new()));
    }
    assert_eq!(fed, Err(SseError::ResponseTooLong));
}

#[test]
fn an_event_as_long_as_an_image_arrives() {
    let text = "a".repeat(12 << 20);
    let stream = format!("data: {text}\n\ndata: b\n\n");
    let mut frames = Vec::new();
    let mut guard = SseGuard::default();
    for chunk in stream.as_bytes().chunks(16 << 10) {
        guard.feed(chunk, &mut frames).unwrap();
    }
    assert_eq!(frames, [text, "b".to_owned()]);
}

fn item_done(item: &Value) -> String {
    json!({"type": "response.output_item.done", "item": item}).to_string()
}

fn text_delta(item_id: &str, delta: &str) -> String {
    json!({"type": "response.output_text.delta", "item_id": item_id, "delta": delta}).to_string()
}

#[test]
fn what_was_delivered_before_a_cut_is_not_delivered_again() {
    let message = |id: &str, text: &str| {
        item_done(&json!({"type": "message", "id": id, "role": "assistant",
                          "content": [{"type": "output_text", "text": text}]}))
    };
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    for frame in [text_delta("a", "One"), message("a", "One"), text_delta("b", "Tw")] {
        decoder.decode(&frame, &mut events).unwrap();
    }
    decoder.restart();
    events.clear();
    let again = [
        text_delta("x", "O"),
        text_delta("x", "ne"),
        message("x", "One"),
        text_delta("y", "Two"),
        message("y", "Two"),
    ];
    for frame in again {
        decoder.decode(&frame, &mut events).unwrap();
    }
    let shown: Vec<Value> = events.iter().map(event_json).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert_eq!(shown[0], json!({"text": "Two"}));
    assert_eq!(shown[1]["item"]["id"], "y");
}

#[test]
fn reasoning_of_a_try_that_was_cut_is_not_delivered() {
    let reasoning = |id: &str| {
        item_done(&json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": id}))
    };
    let call = |id: &str| {
        item_done(&json!({"type": "function_call", "call_id": id, "name": "f", "arguments": id}))
    };
    let completed = json!({"type": "response.completed", "response": {}}).to_string();
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    decoder.decode(&reasoning("r1"), &mut events).unwrap();
    assert_eq!(events, [], "its item is still to come");
    decoder.restart();
    // The same server may well use the same name again.
    for frame in [reasoning("r1"), call("c"), reasoning("r2"), completed] {
        decoder.decode(&frame, &mut events).unwrap();
    }
    let ids: Vec<Value> = events
        .iter()
        .map(event_json)
        .filter(|event| event.get("item").is_some())
        .map(|event| [&event["item"]["id"], &event["item"]["call_id"]].map(Clone::clone).into())
        .collect();
    assert_eq!(ids, [json!(["r1", null]), json!([null, "c"]), json!(["r2", null])]);
}

#[test]
fn text_of_endless_messages_is_bounded() {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    for number in 0..1030 {
        decoder.decode(&text_delta(&format!("m{number}"), "x"), &mut events).unwrap();
    }
    let completed = json!({"type": "response.completed", "response": {}}).to_string();
    decoder.decode(&completed, &mut events).unwrap();
    let items = events.iter().filter(|event| event_json(event).get("item").is_some()).count();
    assert_eq!(items, 1024);
}

#[test]
fn reasoning_that_nobody_kept_is_not_sent() {
    let mut prompt = small_prompt();
    let without = encode(&prompt);
    let reasoning = |fields: Value| {
        let mut item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Arc::new(EncodedItem::new(serde_json::from_value(item).unwrap()))
    };
    for lost in [json!({}), json!({"encrypted_content": ""}), json!({"content": []})] {
        prompt.input.push(reasoning(lost));
    }
    assert_eq!(encode(&prompt), without);
    let open = json!({"content": [{"type": "reasoning_text", "text": "hm"}]});
    for kept in [json!({"encrypted_content": "gAAA"}), open] {
        prompt.input.push(reasoning(kept));
        let body = String::from_utf8(encode(&prompt)).unwrap();
        assert!(body.contains("rs_1"), "{body}");
        prompt.input.pop();
    }
}

const LIMITS: RetryLimits = RetryLimits { request_retries_max: 4, stream_retries_max: 5 };

#[test]
fn the_retry_table() {
    use FailureClass::{Connect, Final, RateLimited, Status, Stream};
    let cases: [(FailureClass, Option<u64>, Option<u64>); 20] = [
        (Connect, None, Some(200)),
        (Stream, None, Some(200)),
        (RateLimited, Some(1500), Some(1500)),
        (Final, None, None),
        (Final, Some(1), None),
        (Status(429), None, Some(200)),
        (Status(429), Some(3000), Some(3000)),
        (Status(429), Some(0), Some(0)),
        (Status(500), None, Some(200)),
        (Status(503), Some(60_000), Some(60_000)),
        (Status(529), None, Some(200)),
        (Status(408), None, Some(200)),
        (Status(301), None, None),
        (Status(400), None, None),
        (Status(401), None, None),
        (Status(403), None, None),
        (Status(404), None, None),
        (Status(413), None, None),
        (Status(422), Some(1), None),
        (Status(501), None, None),
    ];
    for (class, retry_after_ms, delay_ms) in cases {
        let mut state = RetryState::default();
        let decision = decide_retry(&mut state, class, retry_after_ms, LIMITS, 0.5);
        let got = match decision {
            RetryDecision::Retry { delay_ms, attempt: 1, .. } => Some(delay_ms),
            _ => None,
        };
        assert_eq!(got, delay_ms, "{class:?} {retry_after_ms:?}");
    }
}

#[test]
fn retries_double_their_wait_and_end() {
    let mut state = RetryState::default();
    let mut decide = |class| decide_retry(&mut state, class, None, LIMITS, 0.5);
    let mut waits = Vec::new();
    while let RetryDecision::Retry { delay_ms, .. } = decide(FailureClass::Status(500)) {
        waits.push(delay_ms);
    }
    assert_eq!(waits, [200, 400, 800, 1600]);
    // A stream that breaks afterwards has tries of its own, and they end as well.
    assert!(matches!(decide(FailureClass::Stream), RetryDecision::Retry { attempt: 1, .. }));
    for _ in 0..4 {
        decide(FailureClass::Stream);
    }
    assert_eq!(decide(FailureClass::Stream), RetryDecision::GiveUp);
}

#[test]
fn a_wait_of_a_day_is_named_instead_of_waited() {
    let mut state = RetryState::default();
    let class = FailureClass::Status(429);
    let decision = decide_retry(&mut state, class, Some(86_400_000), LIMITS, 0.0);
    assert_eq!(decision, RetryDecision::WaitTooLong { wait_ms: 86_400_000 });
}

#[test]
fn all_waits_together_end() {
    let limits = RetryLimits { request_retries_max: u32::MAX, stream_retries_max: u32::MAX };
    let mut state = RetryState::default();
    let mut total_ms = 0;
    while let RetryDecision::Retry { delay_ms, .. } =
        decide_retry(&mut state, FailureClass::Status(503), Some(50_000), limits, 0.9)
    {
        total_ms += delay_ms;
    }
    assert_eq!(total_ms, 150_000);
}

#[test]
fn the_catalogue_knows_families_and_guesses_nothing() {
    let of = |name: &str| lookup(&ModelName::from(name));
    assert_eq!(of("gpt-5.5").apply_patch, PatchTool::Freeform);
    assert_eq!(of("gpt-5.1-codex-max").verbosity, None);
    assert_eq!((of("gpt-5.5").verbosity, of("gpt-5.3-codex").verbosity), (Some("low"), None));
    assert_eq!(of("gpt-5.2-chat-latest").verbosity, None);
    assert_eq!((of("gpt-5-pro").reasoning, of("gpt-5").reasoning), (Some("high"), Some("medium")));
    assert_eq!((of("o1").reasoning, of("o1-mini").reasoning), (Some("medium"), None));
    assert_eq!(of("ft:gpt-4.1-2025-04-14:me::x1"), of("gpt-4.1"));
    assert_eq!(of("openai/gpt-5.5"), of("gpt-5.5"));
    assert_eq!(of("codex-mini-latest").shell, ShellTool::LocalShell);
    assert_eq!(of("gpt-oss:20b").reasoning, Some("medium"));
    assert!(!of("Qwen3-Coder").images);
    let unknown = of("my-model");
    assert_eq!((unknown.context_window, unknown.reasoning), (None, None));
    assert_eq!((unknown.shell, unknown.apply_patch), (ShellTool::ExecCommand, PatchTool::Function));
}

fn play(script: &str) -> Vec<Vec<Result<ResponseEvent, DriverError>>> {
    let driver = FakeDriver::from_text(script).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let requests = script.lines().filter(|line| line.contains("\"end\"")).count() + 1;
    (0..requests)
        .map(|_| runtime.block_on(driver.stream(small_prompt()).collect::<Vec<_>>()))
        .collect()
}

#[test]
fn a_script_is_played_one_response_per_request() {
    let script = r#"
{"expect":{"items":1,"input_contains":"hello","tools_include":["exec_command"],"model":"gpt-5.5"}}
{"reasoning_delta":"hm"}
{"call":{"name":"exec_command","arguments":{"cmd":"ls"}}}
{"custom":{"name":"apply_patch","input":"*** Begin Patch","call_id":"mine"}}
{"shell":["ls"]}
{"delay_ms":1}
{"end":{"usage":{"input_tokens":5}}}
{"restart":{"reason":"cut"}}
{"say":"done"}
{"end":{}}"#;
    let played = play(script);
    let shown: Vec<Value> =
        played[0].iter().map(|event| event_json(event.as_ref().unwrap())).collect();
    assert_eq!(shown[1], json!({"created": "resp_1"}));
    assert_eq!(shown[3]["item"]["call_id"], "call_1_1");
    assert_eq!(shown[3]["item"]["arguments"], r#"{"cmd":"ls"}"#);
    assert_eq!(shown[4]["item"]["call_id"], "mine");
    assert_eq!(shown[5]["item"]["action"]["command"], json!(["ls"]));
    assert_eq!(shown[6]["completed"]["input_tokens"], 5);
    assert_eq!(played[1].len(), 6);
    let error = played[2].last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.message, "the script has no response for request 3");
}

#[test]
fn a_script_says_what_it_expected() {
    let cases = [
        (r#"{"items":2}"#, "wanted 2 items, got 1"),
        (r#"{"input_contains":"bye"}"#, "no item contains `bye`"),
        (r#"{"last_output_contains":"x"}"#, "wanted an output with `x`, got none"),
        (r#"{"tools_include":["shell"]}"#, "wanted the tool `shell`, got exec_command"),
        (r#"{"tools_exclude":["exec_command"]}"#, "wanted no tool `exec_command`"),
        (r#"{"model":"o3"}"#, "wanted model `o3`, got `gpt-5.5`"),
    ];
    for (expect, message) in cases {
        let played = play(&format!("{{\"expect\":{expect}}}\n{{\"end\":{{}}}}"));
        let error = played[0].last().unwrap().as_ref().unwrap_err();
        assert!(error.message.contains(message), "{}", error.message);
    }
}

#[test]
fn a_script_that_cannot_be_read_names_its_line() {
    let cases = [
        ("{\"say\":\"a\"}\n{\"sing\":\"a\"}\n", "line 2 of the script"),
        ("{\"expect\":{\"colour\":1}}", "line 1 of the script"),
        ("{\"say\":\"a\"}", "no `end` or `fail`"),
    ];
    for (script, message) in cases {
        let error = FakeDriver::from_text(script).unwrap_err();
        assert!(error.message.contains(message), "{}", error.message);
    }
}

fn failure_of(error: &Value, status: Option<u16>) -> (ErrorKind, bool) {
    let failure = Failure::from_error_value(error, status);
    (failure.error.kind, failure.error.retryable)
}

#[test]
fn errors_are_judged_by_code_then_message_then_status() {
    let cases = [
        (json!({"code": "insufficient_quota"}), Some(429), (ErrorKind::RateLimit, false)),
        (json!({"code": "rate_limit_exceeded"}), Some(429), (ErrorKind::RateLimit, true)),
        (json!({"code": "rate_limit_exceeded"}), Some(400), (ErrorKind::RateLimit, false)),
        (json!({"type": "rate_limit_error"}), Some(429), (ErrorKind::RateLimit, true)),
        (
            json!({"message": "maximum context length is 8"}),
            Some(400),
            (ErrorKind::ContextFull, false),
        ),
        (json!({"code": "no_db_connection"}), Some(400), (ErrorKind::Credentials, false)),
        (json!({"message": "Invalid API key"}), Some(400), (ErrorKind::Credentials, false)),
        (json!({"type": "invalid_request_error"}), Some(400), (ErrorKind::Refused, false)),
        (json!({"type": "server_error"}), Some(400), (ErrorKind::Server, false)),
        (json!({"code": 503}), None, (ErrorKind::Server, true)),
        (json!({"code": "x"}), Some(502), (ErrorKind::Server, true)),
        (Value::Null, None, (ErrorKind::Server, true)),
    ];
    for (error, status, judged) in cases {
        assert_eq!(failure_of(&error, status), judged, "{error} {status:?}");
    }
}

#[test]
fn a_servers_words_are_one_bounded_line() {
    assert_eq!(printable_excerpt("a\u{1b}[2J\r\n\tb\u{202e}c  "), "a [2J b c");
    let long = printable_excerpt(&"ä".repeat(5000));
    assert!(long.len() <= EXCERPT_BYTES_MAX + '…'.len_utf8() && long.ends_with('…'));
}

/// Bytes that look like a stream now and then.
fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data:{\"type\":\"response.output_text.delta\",\"delta\":\"x\"}".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"event: x".to_vec()),
        Just(b":".to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_break_the_guard_or_the_decoder(
        bytes in stream_bytes(),
        cuts in prop::collection::vec(1usize..20, 1..20),
    ) {
        let whole = decode_chunks([bytes.as_slice()]);
        let mut chunks = Vec::new();
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            chunks.push(head);
            rest = tail;
        }
        prop_assert_eq!(decode_chunks(chunks), whole);
    }

    #[test]
    fn no_frame_breaks_the_decoder(frame in "\\PC{0,200}") {
        let _ = Decoder::default().decode(&frame, &mut VecDeque::new());
    }
}
