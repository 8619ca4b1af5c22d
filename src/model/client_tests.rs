//! The Responses driver against a real socket: retries, cuts, refusals, connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{Provider, ProviderKey, WireApi};
use crate::model::factory::factory;
use crate::model::tests::{event_json, small_prompt};
use crate::model::{DriverError, ResponseEvent};
use crate::protocol::{ErrorKind, ModelName};

/// What the server does with one request.
enum Reply {
    /// A whole HTTP response with this head and body; the connection stays open.
    Whole(&'static str, String),
    /// The beginning of a stream, then the connection closes.
    Cut(String),
    /// The beginning of a stream, then comments without end.
    Murmur(String),
    /// Not a byte.
    Silence,
}

/// A server with one reply per request, and what it was asked.
struct Server {
    base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

const OK: &str = "200 OK\r\ncontent-type: text/event-stream";

async fn serve(replies: Vec<Reply>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let replies = Arc::new(Mutex::new(replies.into_iter()));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let connections = Arc::new(Mutex::new(0));
    let server = Server { base_url, requests: requests.clone(), connections: connections.clone() };
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            *connections.lock().unwrap() += 1;
            let (replies, requests) = (replies.clone(), requests.clone());
            tokio::spawn(async move {
                let mut socket = socket;
                while let Some(request) = read_request(&mut socket).await {
                    requests.lock().unwrap().push(request);
                    let Some(reply) = replies.lock().unwrap().next() else { return };
                    if !answer(&mut socket, reply).await {
                        return;
                    }
                }
            });
        }
    });
    server
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        let mut chunk = [0; 4096];
        match socket.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Answers, and returns whether the connection lives on.
async fn answer(socket: &mut TcpStream, reply: Reply) -> bool {
    let chunked = |body: &str| format!("{:x}\r\n{body}\r\n", body.len());
    let head = format!("HTTP/1.1 {OK}\r\ntransfer-encoding: chunked\r\n\r\n");
    match reply {
        Reply::Whole(head, body) => {
            let length = body.len();
            let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
            socket.write_all(text.as_bytes()).await.is_ok()
        }
        Reply::Cut(body) => {
            let _ = socket.write_all((head + &chunked(&body)).as_bytes()).await;
            false
        }
        Reply::Murmur(body) => {
            let mut text = head + &chunked(&body);
            while socket.write_all(text.as_bytes()).await.is_ok() {
                text = chunked(": still here\n\n");
                tokio::task::yield_now().await;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            false
        }
        Reply::Silence => {
            let mut rest = [0; 1];
            let _ = socket.read(&mut rest).await;
            false
        }
    }
}

fn provider(base_url: &str) -> Provider {
    Provider {
        name: "test".to_owned(),
        base_url: base_url.to_owned(),
        wire_api: WireApi::Responses,
        key: ProviderKey::Found {
            key: "sk-secret-abcd1234".to_owned(),
            source: "X_KEY".to_owned(),
        },
        headers: BTreeMap::from([("x-team".to_owned(), "blue".to_owned())]),
        query: BTreeMap::from([("version".to_owned(), "2 b".to_owned())]),
        request_retries_max: 2,
        stream_retries_max: 2,
        stream_idle_timeout_ms: 5_000,
        script: None,
    }
}

type Asked = Vec<Result<ResponseEvent, DriverError>>;

async fn ask(provider: Provider) -> Asked {
    let driver = factory(provider).driver(&ModelName::from("gpt-5.5")).unwrap();
    driver.stream(small_prompt()).collect().await
}

fn shown(asked: &Asked) -> Vec<Value> {
    let show = |event: &Result<_, DriverError>| match event {
        Ok(event) => event_json(event),
        Err(error) => json!({"error": error.message}),
    };
    // The first event is always the announcement of the body.
    asked.iter().skip(1).map(show).collect()
}

fn last_error(asked: &Asked) -> &DriverError {
    asked.last().unwrap().as_ref().unwrap_err()
}

fn frames(frames: &[Value]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

fn message_done(text: &str) -> Value {
    json!({"type": "response.output_item.done", "item": {"type": "message", "id": text,
           "role": "assistant", "content": [{"type": "output_text", "text": text}]}})
}

fn call_done() -> Value {
    json!({"type": "response.output_item.done", "item": {"type": "function_call", "id": "fc",
           "call_id": "c1", "name": "exec_command", "arguments": "{}"}})
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "r", "usage": {"input_tokens": 1}}})
}

fn good() -> Reply {
    Reply::Whole(OK, frames(&[message_done("ok"), completed()]))
}

fn has_restart(shown: &[Value], reason: &str) -> bool {
    let mut reasons = shown.iter().filter_map(|event| event["restarted"]["reason"].as_str());
    reasons.any(|given| given.contains(reason))
}

#[tokio::test]
async fn a_request_says_who_asks() {
    let server = serve(vec![good()]).await;
    let asked = ask(provider(&server.base_url)).await;
    assert_eq!(shown(&asked).len(), 2);
    let request = server.requests.lock().unwrap()[0].clone();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    for line in [
        "POST /v1/responses?version=2+b HTTP/1.1",
        "authorization: Bearer sk-secret-abcd1234",
        "accept: text/event-stream",
        "content-type: application/json",
        "originator: gimlet",
        "x-team: blue",
        "session-id: 0198c0de-0000-7000-8000-000000000001",
        concat!("user-agent: gimlet/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(head.lines().any(|given| given == line), "no `{line}` in\n{head}");
    }
    assert!(!head.contains("accept-encoding"), "{head}");
    assert!(body.starts_with(r#"{"model":"gpt-5.5","instructions":"#));
    let Ok(ResponseEvent::Sent { body_bytes, body_hash }) = &asked[0] else { panic!() };
    assert_eq!((*body_bytes, body_hash.len()), (body.len() as u64, 64));
}

#[tokio::test]
async fn requests_share_one_connection() {
    let server = serve(vec![good(), good(), good()]).await;
    let drivers = factory(provider(&server.base_url));
    for _ in 0..3 {
        let driver = drivers.driver(&ModelName::from("gpt-5.5")).unwrap();
        // Dropped as soon as the response is complete, as the agent does.
        let mut stream = driver.stream(small_prompt());
        while let Some(event) = stream.next().await {
            if matches!(event.unwrap(), ResponseEvent::Completed { .. }) {
                break;
            }
        }
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let busy = || Reply::Whole("429 Too Many Requests\r\nretry-after: 0", "slow".to_owned());
    let server = serve(vec![busy(), busy(), good()]).await;
    let asked = ask(provider(&server.base_url)).await;
    let shown = shown(&asked);
    assert!(has_restart(&shown, "HTTP 429 Too Many Requests"), "{shown:?}");
    assert_eq!(shown.len(), 4);
    assert_eq!(shown[1]["restarted"]["attempt"], 2);
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_failing_server_is_given_up_with_its_words() {
    let broken = || {
        let body = r#"{"error":{"message":"disk full","type":"server_error","code":null}}"#;
        Reply::Whole("500 Internal Server Error\r\nretry-after-ms: 1", body.to_owned())
    };
    let server = serve(vec![broken(), broken(), broken(), broken()]).await;
    let asked = ask(provider(&server.base_url)).await;
    let error = last_error(&asked);
    assert_eq!(error.kind, ErrorKind::Server);
    assert!(error.message.starts_with("HTTP 500 Internal Server Error from http://127"));
    assert!(error.message.ends_with("/v1/responses: disk full"), "{}", error.message);
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn refusals_are_final_and_say_why() {
    let quota = r#"{"error":{"message":"no quota","code":"insufficient_quota"}}"#;
    let full = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let key = "Wrong key sk-secret-abcd1234\u{1b}[31m given";
    let cases = [
        ("401 Unauthorized", key, ErrorKind::Credentials, "the key from X_KEY (…1234)"),
        ("403 Forbidden", "", ErrorKind::Credentials, "the key from X_KEY (…1234)"),
        ("404 Not Found", "<html>no</html>", ErrorKind::Refused, "check `base_url`"),
        ("400 Bad Request", r#"{"error":"bad"}"#, ErrorKind::Refused, ""),
        ("400 Bad Request", full, ErrorKind::ContextFull, "start a new session"),
        ("413 Payload Too Large", "", ErrorKind::Refused, ""),
        ("422 Unprocessable Entity", "", ErrorKind::Refused, ""),
        ("429 Too Many Requests", quota, ErrorKind::RateLimit, "check the plan"),
        ("429 Too Many Requests\r\nretry-after: 86400", "", ErrorKind::RateLimit, "wait 86400 s"),
        ("302 Found\r\nlocation: http://127.0.0.1:9/", "", ErrorKind::Refused, ""),
    ];
    for (status, body, kind, hint) in cases {
        let server = serve(vec![Reply::Whole(status, body.to_owned())]).await;
        let asked = ask(provider(&server.base_url)).await;
        let error = last_error(&asked);
        assert_eq!(error.kind, kind, "{status}: {error:?}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{error:?}");
        assert!(!error.message.contains("sk-secret") && !error.message.contains('\u{1b}'));
        assert!(!error.message.contains("version="), "{error:?}");
        assert_eq!(server.requests.lock().unwrap().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_cut_stream_is_asked_again_without_repeats() {
    let cut = Reply::Cut(frames(&[message_done("one")]));
    let whole = Reply::Whole(OK, frames(&[message_done("one"), message_done("two"), completed()]));
    let server = serve(vec![cut, whole]).await;
    let shown = shown(&ask(provider(&server.base_url)).await);
    assert!(has_restart(&shown, "the connection broke off"), "{shown:?}");
    let items: Vec<&Value> = shown.iter().filter_map(|event| event["item"].get("id")).collect();
    assert_eq!(items, ["one", "two"]);
    assert_eq!(shown.last().unwrap()["completed"]["input_tokens"], 1);
}

#[tokio::test]
async fn a_stream_cut_after_a_call_is_not_asked_again() {
    let server = serve(vec![Reply::Cut(frames(&[call_done()])), good()]).await;
    let shown = shown(&ask(provider(&server.base_url)).await);
    assert_eq!(shown[0]["item"]["call_id"], "c1");
    assert!(shown[1]["warning"].as_str().unwrap().contains("going on with the tool calls"));
    assert_eq!(shown[2]["completed"]["input_tokens"], 0);
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_stream_that_ends_without_completing_is_given_up_in_the_end() {
    let early = || Reply::Whole(OK, "data: [DONE]\n\n".to_owned());
    let server = serve(vec![early(), early(), early(), early()]).await;
    let asked = ask(provider(&server.base_url)).await;
    assert_eq!(last_error(&asked).kind, ErrorKind::Stream);
    assert_eq!(server.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn comments_alone_do_not_keep_a_stream_alive() {
    let murmur = Reply::Murmur(frames(&[message_done("one")]));
    let server = serve(vec![murmur, good()]).await;
    let mut provider = provider(&server.base_url);
    provider.stream_idle_timeout_ms = 60;
    let shown = shown(&ask(provider).await);
    assert!(has_restart(&shown, "the server said nothing for 60 ms"), "{shown:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = serve(vec![Reply::Silence, Reply::Silence]).await;
    let mut provider = provider(&server.base_url);
    provider.stream_idle_timeout_ms = 30;
    provider.request_retries_max = 1;
    let asked = ask(provider).await;
    assert!(last_error(&asked).message.contains("within 30 ms"), "{asked:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let mut provider = provider(&base_url);
    provider.request_retries_max = 1;
    let asked = ask(provider).await;
    let error = last_error(&asked);
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.message.starts_with(&format!("cannot reach {base_url}/responses: ")));
    assert!(error.message.contains("refused"), "{}", error.message);
    assert!(error.hint.is_some());
    assert_eq!(asked.len(), 3);
}

#[tokio::test]
async fn a_secure_server_needs_no_preparation_by_the_caller() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("https://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let mut provider = provider(&base_url);
    provider.request_retries_max = 0;
    let asked = ask(provider).await;
    // Without any CA certificate on the machine it fails earlier, and says so.
    let error = last_error(&asked);
    assert!(matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Internal), "{error:?}");
}

#[tokio::test]
async fn drivers_of_one_factory_share_their_script() {
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), "{\"say\":\"1\"}\n{\"end\":{}}\n{\"say\":\"2\"}\n{\"end\":{}}\n")
        .unwrap();
    let mut provider = provider("");
    provider.script = Some(script.path().to_owned());
    let drivers = factory(provider.clone());
    for text in ["1", "2"] {
        let driver = drivers.driver(&ModelName::from(text)).unwrap();
        let asked: Asked = driver.stream(small_prompt()).collect().await;
        assert_eq!(shown(&asked)[1], json!({ "text": text }));
    }
    provider.script = Some("/nowhere/script.jsonl".into());
    let error = factory(provider).driver(&ModelName::from("m")).err().unwrap();
    assert!(error.message.starts_with("cannot read /nowhere/script.jsonl"), "{error:?}");
}

#[test]
fn a_provider_that_cannot_be_asked_says_why() {
    let driver = |provider: Provider| {
        let made = factory(provider).driver(&ModelName::from("m"));
        made.err().map(|error| (error.kind, error.message, error.hint.unwrap_or_default()))
    };
    let mut missing = provider("http://localhost/v1");
    missing.key = ProviderKey::Missing { looked_at: vec!["A_KEY".to_owned(), "B_KEY".to_owned()] };
    let (kind, message, hint) = driver(missing).unwrap();
    assert_eq!(kind, ErrorKind::Credentials);
    assert_eq!(message, "no key for provider `test`");
    assert_eq!(hint, "set A_KEY or B_KEY, or run `gimlet login`");

    for base_url in ["", "localhost:1/v1", "file:///etc", "http://"] {
        let (kind, message, _) = driver(provider(base_url)).unwrap();
        assert_eq!(kind, ErrorKind::Refused, "{base_url}");
        assert!(message.starts_with("the base URL of provider `test` is not valid"));
    }
    let mut split_key = provider("http://localhost/v1");
    split_key.key = ProviderKey::Found { key: "a\nb".to_owned(), source: "A_KEY".to_owned() };
    assert_eq!(driver(split_key).unwrap().0, ErrorKind::Credentials);
    let mut no_key = provider("http://localhost/v1");
    no_key.key = ProviderKey::NotNeeded;
    assert_eq!(driver(no_key), None);
}
