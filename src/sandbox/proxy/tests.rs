//! The proxy on loopback: a server that stands for the internet, clients that lie.
//!
//! Names come from a table. No test waits for a time to pass; bounds are short where one is met.

use tokio::io::AsyncRead;

use super::*;
use crate::protocol::DecisionAction;
use crate::sandbox::proxy::{Attempt, AttemptsHeard, HostJudge, HostQuestion, attempt_line};

/// What becomes of hosts that are not listed.
type Answer = fn(&str) -> bool;

/// Denies what begins with `denied` and the address ::7, and asks for what is not listed.
fn judge() -> HostJudge {
    Arc::new(|Wanted { host, is_listed }| {
        let action = match is_listed {
            _ if host.starts_with("denied") || host.starts_with("[::7]") => DecisionAction::Deny,
            true => DecisionAction::Allow,
            false => DecisionAction::Ask,
        };
        let reason = match action {
            DecisionAction::Deny => "a rule denies it".to_owned(),
            _ => format!("{host} is not among allowed_hosts"),
        };
        Decision { action, reason, rule: None }
    })
}

struct Stage {
    proxy: SocketAddr,
    server: SocketAddr,
    attempts: Arc<std::sync::Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

const QUICK: Bounds = Bounds {
    connections: 2,
    head: Duration::from_millis(200),
    connect: Duration::from_secs(10),
    idle: Duration::from_millis(300),
};

async fn local() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}

/// A server that says what it was sent, up to the end of a head and what came with it.
async fn serve_echo(listener: TcpListener) {
    let mut served = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        served.spawn(async move {
            let mut bytes = vec![0; 4096];
            let mut all = Vec::new();
            while let Ok(count) = stream.read(&mut bytes).await {
                all.extend_from_slice(&bytes[..count]);
                let complete = find_head_end(&all).is_some_and(|end| {
                    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
                    let length = head.split("content-length: ").nth(1);
                    let length = length.and_then(|text| text.split("\r\n").next()?.parse().ok());
                    all.len() >= end + length.unwrap_or(0_usize)
                });
                if complete || count == 0 {
                    break;
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await;
            let _ = stream.write_all(&all).await;
        });
    }
}

impl Stage {
    /// A proxy that allows these hosts, where `PORT` stands for the server's port. `name.test`
    /// and everything below is at the server.
    async fn new(allowed: &[&str], bounds: Bounds, answer: Answer) -> Self {
        let (listener, upstream) = (local().await, local().await);
        let (proxy, server) = (listener.local_addr().unwrap(), upstream.local_addr().unwrap());
        let port = server.port().to_string();
        let (attempts, heard) = attempt_line(judge());
        let AttemptsHeard { attempts: mut told, mut questions } = heard;
        let allowed: Vec<HostPattern> = allowed
            .iter()
            .map(|text| HostPattern::parse(&text.replace("PORT", &port)).unwrap())
            .collect();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let table = vec![
            ("name.test".to_owned(), vec![address("127.0.0.1")]),
            ("sub.name.test".to_owned(), vec![address("127.0.0.1")]),
            ("mixed.test".to_owned(), vec![address("10.255.255.1"), address("127.0.0.1")]),
            ("rebind.test".to_owned(), vec![address("::ffff:127.0.0.1")]),
            ("metadata.test".to_owned(), vec![address("169.254.169.254")]),
            ("denied.test".to_owned(), vec![address("127.0.0.1")]),
            ("alias.test".to_owned(), vec![address("::7")]),
        ];
        let server_of = Proxy { allowed, names: Names::Table(table), attempts, bounds };
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_echo(upstream));
        tasks.spawn(server_of.serve(listener));
        let (asked, question_port) = (Arc::clone(&log), port.clone());
        tasks.spawn(async move {
            while let Some(HostQuestion { host, answer: tx, .. }) = questions.recv().await {
                let host = host.replace(&question_port, "PORT");
                let yes = answer(&host);
                asked.lock().unwrap().push(format!("asked {host}: {yes}"));
                let _ = tx.send(yes);
            }
        });
        tasks.spawn(async move {
            while let Some(Attempt { host, verdict }) = told.recv().await {
                let host = host.replace(&port, "PORT");
                let line = match verdict {
                    Verdict::Allowed => format!("allowed {host}"),
                    Verdict::Refused { .. } => format!("refused {host}"),
                };
                kept.lock().unwrap().push(line);
            }
        });
        Self { proxy, server, attempts: log, tasks }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Sends bytes, where `PORT` stands for the server's port, and returns all that comes back.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        let text = text.replace("PORT", &self.server.port().to_string());
        stream.write_all(text.as_bytes()).await.unwrap();
        read_all(stream).await
    }

    fn attempts(&self) -> Vec<String> {
        self.attempts.lock().unwrap().clone()
    }
}

async fn read_all(mut stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn no(_host: &str) -> bool {
    false
}

#[tokio::test]
async fn a_listed_host_is_reached_both_ways() {
    let stage = Stage::new(&["name.test:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    let tunnel = stage.say("CONNECT name.test:PORT HTTP/1.1\r\n\r\nhello\r\n\r\n").await;
    assert!(tunnel.starts_with("HTTP/1.1 200 Connection established\r\n\r\n"), "{tunnel}");
    assert!(tunnel.ends_with("\r\n\r\nhello\r\n\r\n"), "{tunnel}");
    let plain = stage.say("GET http://name.test:PORT/x HTTP/1.1\r\nHost: evil.test\r\n\r\n").await;
    let port = stage.server.port();
    let sent = format!("GET /x HTTP/1.1\r\nHost: name.test:{port}\r\nConnection: close\r\n\r\n");
    assert!(plain.ends_with(&sent), "{plain}");
    assert_eq!(stage.attempts(), ["allowed name.test:PORT", "allowed name.test:PORT"]);
}

#[tokio::test]
async fn what_is_not_listed_is_asked_and_refused() {
    let stage = Stage::new(&["*.name.test:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    for target in ["name.test:PORT", "sub.name.test:22", "evil-name.test:PORT"] {
        let answer = stage.say(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("is not among allowed_hosts"), "{answer}");
    }
    assert!(
        stage.say("CONNECT sub.name.test:PORT HTTP/1.1\r\n\r\nx\r\n\r\n").await.contains("200 OK")
    );
    assert_eq!(
        stage.attempts(),
        [
            "asked name.test:PORT: false",
            "refused name.test:PORT",
            "asked sub.name.test:22: false",
            "refused sub.name.test:22",
            "asked evil-name.test:PORT: false",
            "refused evil-name.test:PORT",
            "allowed sub.name.test:PORT",
        ]
    );
}

#[tokio::test]
async fn a_yes_lets_through_but_not_to_a_private_address() {
    let stage = Stage::new(&["127.0.0.1:PORT"], BOUNDS, |_| true).await;
    assert!(stage.say("CONNECT name.test:PORT HTTP/1.1\r\n\r\nx\r\n\r\n").await.contains("200 OK"));
    let answer = stage.say("CONNECT metadata.test:80 HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("169.254.169.254, which is no public address"), "{answer}");
    assert_eq!(
        stage.attempts(),
        [
            "asked name.test:PORT: true",
            "allowed name.test:PORT",
            "asked metadata.test:80: true",
            "allowed metadata.test:80",
            "refused metadata.test:80",
        ]
    );
}

#[tokio::test]
async fn a_listed_name_at_a_private_address_is_refused_unless_the_address_is_named() {
    let stage = Stage::new(&["*:PORT"], BOUNDS, no).await;
    for target in
        ["name.test", "rebind.test", "mixed.test", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"]
    {
        let answer = stage.say(&format!("CONNECT {target}:PORT HTTP/1.1\r\n\r\n")).await;
        assert!(answer.contains("no public address"), "{target}: {answer}");
    }
    let named = Stage::new(&["*:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    for target in ["name.test", "rebind.test", "mixed.test", "[::ffff:127.0.0.1]"] {
        let answer = named.say(&format!("CONNECT {target}:PORT HTTP/1.1\r\n\r\nx\r\n\r\n")).await;
        assert!(answer.contains("200 OK"), "{target}: {answer}");
    }
}

#[tokio::test]
async fn odd_hosts_are_no_hosts() {
    let stage = Stage::new(&["*", "127.0.0.1:PORT", "*:PORT"], BOUNDS, no).await;
    for host in
        ["127.1", "0x7f.0.0.1", "2130706433", "127.0.0.1.", "localhost%00.test", "a@127.0.0.1"]
    {
        let answer = stage.say(&format!("CONNECT {host}:PORT HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
    }
    assert!(stage.attempts().is_empty());
}

#[tokio::test]
async fn a_second_request_behind_the_first_goes_nowhere() {
    let stage = Stage::new(&["name.test:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    let answer = stage
        .say("POST http://name.test:PORT/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        .await;
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
    for smuggled in [
        "GET http://name.test:PORT/ HTTP/1.1\r\nA: b\nHost: evil.test\r\n\r\n",
        "POST http://name.test:PORT/ HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let answer = stage.say(smuggled).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(!answer.contains("evil.test"), "{answer}");
    }
}

#[tokio::test]
async fn slow_and_silent_clients_end_and_make_room() {
    let stage = Stage::new(&["name.test:PORT", "127.0.0.1:PORT"], QUICK, no).await;
    // As many as there are places: one says nothing, one never ends its head.
    let silent = stage.connect().await;
    let mut slow = stage.connect().await;
    slow.write_all(b"GET http://name.test/ HTTP/1.1\r\n").await.unwrap();
    // The next waits for a place and is served.
    let served = stage.say("CONNECT name.test:PORT HTTP/1.1\r\n\r\nx\r\n\r\n").await;
    assert!(served.contains("200 OK"), "{served}");
    assert!(read_all(silent).await.starts_with("HTTP/1.1 408 "));
    assert!(read_all(slow).await.starts_with("HTTP/1.1 408 "));
    // A tunnel in which nothing moves ends as well.
    let idle = stage.say("CONNECT name.test:PORT HTTP/1.1\r\n\r\n").await;
    assert_eq!(idle, "HTTP/1.1 200 Connection established\r\n\r\n");
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let stage = Stage::new(&["name.test:PORT"], BOUNDS, no).await;
    let long =
        format!("GET http://name.test:PORT/ HTTP/1.1\r\nA: {}\r\n", "x".repeat(HEAD_BYTES_MAX));
    let answer = stage.say(&long).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn much_goes_through_whole() {
    let stage = Stage::new(&["name.test:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    let body = "0123456789".repeat(200_000);
    let head =
        format!("POST http://name.test:PORT/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let head = head.replace("PORT", &stage.server.port().to_string());
    let stream = stage.connect().await;
    let (read, mut write) = stream.into_split();
    let send = async {
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(body.as_bytes()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(read_all(read), send);
    assert!(answer.ends_with(&body), "{} bytes came back", answer.len());
}

#[tokio::test]
async fn what_is_denied_is_refused_though_it_is_listed() {
    let stage =
        Stage::new(&["*:PORT", "127.0.0.1:PORT", "[::7]:PORT"], BOUNDS, |_| panic!("asked")).await;
    let answer = stage.say("CONNECT denied.test:PORT HTTP/1.1\r\n\r\nx\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("a rule denies it"), "{answer}");
    // Nor by another name of its address.
    let answer = stage.say("CONNECT alias.test:PORT HTTP/1.1\r\n\r\nx\r\n\r\n").await;
    assert!(answer.contains("alias.test:") && answer.contains("a rule denies it"), "{answer}");
    assert_eq!(
        stage.attempts(),
        ["refused denied.test:PORT", "allowed alias.test:PORT", "refused alias.test:PORT"]
    );
}

#[tokio::test]
async fn a_name_that_cannot_be_looked_up_is_told_of() {
    let stage = Stage::new(&["*:PORT"], BOUNDS, no).await;
    let answer = stage.say("CONNECT secret-words.test:PORT HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(
        stage.attempts(),
        ["allowed secret-words.test:PORT", "refused secret-words.test:PORT"]
    );
}

#[tokio::test]
async fn nobody_who_takes_note_is_nobody_who_allows() {
    let (attempts, heard) = attempt_line(judge());
    drop(heard);
    let proxy = Proxy::new(&[HostRule("a.test".to_owned())], attempts);
    for host in ["a.test", "b.test"] {
        let host = Host::parse(host).unwrap();
        assert_eq!(proxy.admit(&host, 443).await.unwrap_err().status, 403);
    }
}

#[tokio::test]
async fn its_connections_end_with_it() {
    let mut stage = Stage::new(&["name.test:PORT", "127.0.0.1:PORT"], BOUNDS, no).await;
    let mut open = stage.connect().await;
    let connect = format!("CONNECT name.test:{} HTTP/1.1\r\n\r\n", stage.server.port());
    open.write_all(connect.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    open.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stage.tasks.shutdown().await;
    read_all(open).await;
}
