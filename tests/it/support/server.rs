//! A mock Responses server on loopback: plays replies, remembers what it was asked and when.
//!
//! Plain HTTP/1.1 with keep-alive on `std::net`, one thread a connection; it knows nothing of
//! the program under test. Each `POST …/responses` takes the next reply; anything else is a
//! 404 and takes none. Used by `tests/it` and, by path, by `tests/bench`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of one HTTP chunk: what a real server's TLS record holds.
const CHUNK_BYTES: usize = 16 * 1024;
/// A request above this is refused; the largest of our tests is far below.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What the server answers to one request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Pieces of the body, each after its delay.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) end: End,
}

#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) delay: Duration,
    pub(crate) bytes: Arc<[u8]>,
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP says; the connection stays open.
    Whole,
    /// The connection is closed in the middle of the body.
    Cut,
    /// Nothing more is sent and the connection stays open until the client goes.
    Silent,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
    /// When its first byte was read.
    pub(crate) arrived: Instant,
    /// When the last byte of its reply was handed to the kernel.
    pub(crate) answered: Option<Instant>,
}

/// Chooses the reply to the n-th request, from 0.
type Choose = dyn Fn(usize, &Request) -> Reply + Send + Sync;

struct Shared {
    choose: Box<Choose>,
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
    connections: AtomicUsize,
    closing: AtomicBool,
}

/// A running server; dropping it stops listening.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Reply {
    /// Returns a stream of server-sent events.
    pub(crate) fn sse(text: impl Into<Vec<u8>>) -> Self {
        let mut reply = Self::status(200, text);
        reply.headers = vec![header("content-type", "text/event-stream")];
        reply
    }

    /// Returns any status with a JSON body.
    pub(crate) fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let bytes: Vec<u8> = body.into();
        let piece = Piece { delay: Duration::ZERO, bytes: bytes.into() };
        let headers = vec![header("content-type", "application/json")];
        Self { status, headers, pieces: vec![piece], end: End::Whole }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(header(name, value));
        self
    }

    /// Adds a piece that is sent after a pause.
    pub(crate) fn then(mut self, delay: Duration, text: impl Into<Vec<u8>>) -> Self {
        let bytes: Vec<u8> = text.into();
        self.pieces.push(Piece { delay, bytes: bytes.into() });
        self
    }

    pub(crate) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Server {
    /// Starts a server that plays the replies in order; one request too many is a 500.
    pub(crate) fn playing(replies: Vec<Reply>) -> Self {
        Self::start(0, move |n, _| {
            let missing = || Reply::status(400, r#"{"error":{"message":"the script is over"}}"#);
            replies.get(n).cloned().unwrap_or_else(missing)
        })
    }

    /// Starts a server on a port (0 for any) that chooses each reply.
    pub(crate) fn start(
        port: u16,
        choose: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            choose: Box::new(choose),
            requests: Mutex::default(),
            changed: Condvar::new(),
            connections: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.closing.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                // An error here is the client's going away, which many tests want.
                thread::spawn(move || stream.and_then(|stream| serve(&shared, stream, number)));
            }
        });
        Self { address, shared }
    }

    /// Returns what belongs into `base_url`.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the requests so far, in the order they arrived.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Returns the requests since the last call and forgets them.
    pub(crate) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }

    /// Waits until `count` requests have arrived; returns whether they did.
    pub(crate) fn wait_for_requests(&self, count: usize, at_most: Duration) -> bool {
        let requests = self.shared.requests.lock().unwrap();
        let few = |requests: &mut Vec<Request>| requests.len() < count;
        let (requests, _) = self.shared.changed.wait_timeout_while(requests, at_most, few).unwrap();
        requests.len() >= count
    }

    /// Returns how many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // The accepting thread sleeps in `accept`; one connection wakes it.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(shared: &Shared, stream: TcpStream, connection: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    while let Some(request) = read_request(&mut reader, &mut writer, connection)? {
        if request.method != "POST" || !request.path.contains("/responses") {
            let reply = Reply::status(404, r#"{"error":{"message":"not here"}}"#);
            write_reply(&mut writer, &reply)?;
            continue;
        }
        let (n, reply) = {
            let mut requests = shared.requests.lock().unwrap();
            let n = requests.len();
            let reply = (shared.choose)(n, &request);
            requests.push(request);
            shared.changed.notify_all();
            (n, reply)
        };
        let written = write_reply(&mut writer, &reply);
        if let Some(request) = shared.requests.lock().unwrap().get_mut(n) {
            request.answered = Some(Instant::now());
        }
        written?;
        match reply.end {
            End::Whole => {}
            End::Cut => return writer.shutdown(std::net::Shutdown::Both),
            // Reading ends when the client has closed its side.
            End::Silent => return reader.read_to_end(&mut Vec::new()).map(drop),
        }
    }
    Ok(())
}

/// Reads one request; `None` when the client has closed the connection.
fn read_request(
    reader: &mut BufReader<TcpStream>,
    writer: &mut TcpStream,
    connection: usize,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let arrived = Instant::now();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request =
        Request { method, path, headers, body: Vec::new(), connection, arrived, answered: None };
    if request.header("expect").is_some() {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if request.header("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        request.body = read_chunked(reader)?;
    } else {
        let length = request.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
        request.body = read_exactly(reader, length)?;
    }
    Ok(Some(request))
}

fn read_chunked(reader: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        body.extend(read_exactly(reader, length)?);
        reader.read_line(&mut String::new())?;
        if length == 0 || body.len() > BODY_BYTES_MAX {
            return Ok(body);
        }
    }
}

fn read_exactly(reader: &mut BufReader<TcpStream>, length: usize) -> std::io::Result<Vec<u8>> {
    let mut body = vec![0; length.min(BODY_BYTES_MAX)];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn write_reply(writer: &mut TcpStream, reply: &Reply) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    // Head, pieces without a pause and the end go out in as few writes as possible.
    let mut pending = head.into_bytes();
    for piece in &reply.pieces {
        if !piece.delay.is_zero() {
            writer.write_all(&pending)?;
            pending.clear();
            thread::sleep(piece.delay);
        }
        for chunk in piece.bytes.chunks(CHUNK_BYTES) {
            pending.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            pending.extend_from_slice(chunk);
            pending.extend_from_slice(b"\r\n");
            if pending.len() >= CHUNK_BYTES {
                writer.write_all(&pending)?;
                pending.clear();
            }
        }
    }
    if reply.end == End::Whole {
        pending.extend_from_slice(b"0\r\n\r\n");
    }
    writer.write_all(&pending)
}
