//! Serves a command's proxy: accepts, checks, looks names up, connects, says each attempt.
//!
//! It connects to the addresses it has checked and to no others. Whether the user's list names a
//! host is its own to say; what follows from that, its attempt line judges, by rules that are
//! not known here. Knows no session. Called by `runner.rs`, and dropped with its command.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::protocol::{Decision, DecisionAction, HostRule};
use crate::sandbox::proxy::parse::{Action, Rejection, Request, find_head_end, parse_head};
use crate::sandbox::proxy::relay::{relay, send_body};
use crate::sandbox::proxy::{AttemptLine, Verdict, Wanted};
use crate::text::hosts::{Host, HostPattern, is_public};

/// A longer head is no program's.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// After a refusal, bytes that are read so that its text arrives.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// How long and how many.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Connections at one time; more wait.
    connections: usize,
    /// How long a request may take to arrive.
    head: Duration,
    /// How long a name or a connection may take.
    connect: Duration,
    /// How long a connection may be silent.
    idle: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 64,
    head: Duration::from_secs(10),
    connect: Duration::from_secs(15),
    idle: Duration::from_secs(300),
};

/// Who looks names up.
#[derive(Debug)]
enum Names {
    /// This machine.
    System,
    /// A table.
    #[cfg(test)]
    Table(Vec<(String, Vec<IpAddr>)>),
}

/// A proxy for one command.
#[derive(Debug)]
pub(crate) struct Proxy {
    allowed: Vec<HostPattern>,
    names: Names,
    attempts: AttemptLine,
    bounds: Bounds,
}

impl Proxy {
    /// Returns a proxy to these hosts. A rule that is none allows nothing; the configuration
    /// has said so.
    pub(crate) fn new(allowed: &[HostRule], attempts: AttemptLine) -> Self {
        let allowed = allowed.iter().filter_map(|rule| HostPattern::parse(&rule.0).ok()).collect();
        Self { allowed, names: Names::System, attempts, bounds: BOUNDS }
    }

    /// Serves until it is dropped; all its connections end with it.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let proxy = Arc::new(self);
        let places = Arc::new(Semaphore::new(proxy.bounds.connections));
        let mut connections = JoinSet::new();
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors, or a client that is gone: others may still come.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let proxy = Arc::clone(&proxy);
            connections.spawn(async move {
                proxy.serve_one(stream).await;
                drop(place);
            });
        }
    }

    async fn serve_one(&self, mut client: TcpStream) {
        let result = match timeout(self.bounds.head, read_head(&mut client)).await {
            Ok(Ok(Some((head, rest)))) => match parse_head(&head) {
                Ok(request) => self.carry_out(request, &mut client, rest).await,
                Err(rejection) => Err(rejection),
            },
            // A client that went away is told nothing.
            Ok(Ok(None) | Err(_)) => return,
            Err(_) => {
                Err(Rejection { status: 408, message: "the request took too long".to_owned() })
            }
        };
        if let Err(rejection) = result {
            let _ = timeout(self.bounds.head, reject(&mut client, &rejection)).await;
        }
    }

    async fn carry_out(
        &self,
        request: Request,
        client: &mut TcpStream,
        rest: Vec<u8>,
    ) -> Result<(), Rejection> {
        let Request { host, port, action } = request;
        let addresses = self.admit(&host, port).await?;
        let mut server = self.connect(&host, &addresses).await?;
        // From here on a failure is the end of the connection, which both sides see.
        let _ = match action {
            Action::Tunnel => {
                let accepted = async {
                    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                    server.write_all(&rest).await
                };
                match accepted.await {
                    Ok(()) => relay(client, &mut server, self.bounds.idle).await,
                    Err(error) => Err(error),
                }
            }
            Action::Forward { head, body_bytes } => match server.write_all(&head).await {
                Ok(()) => {
                    send_body(client, &mut server, (&rest, body_bytes), self.bounds.idle).await
                }
                Err(error) => Err(error),
            },
        };
        Ok(())
    }

    /// Returns the addresses that may be connected to, once the host is allowed.
    async fn admit(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Rejection> {
        let shown = format!("{host}:{port}");
        let listed = self.allowed.iter().any(|pattern| pattern.covers(host, port));
        if let Err(reason) = self.decide(&shown, listed).await {
            return Err(self.refuse(&shown, reason).await);
        }
        // Told before the name is looked up, which alone may say something to somebody.
        if !self.attempts.tell(&shown, Verdict::Allowed).await {
            return Err(forbidden(format!("nobody takes note of connections to {shown}")));
        }
        let found = self.look_up(host).await?;
        match self.choose(&shown, &found, port) {
            Ok(open) => Ok(open),
            Err(reason) => Err(self.refuse(&shown, reason).await),
        }
    }

    /// Judges an attempt, and asks where the judgement says so; the error says why not.
    async fn decide(&self, shown: &str, is_listed: bool) -> Result<(), String> {
        let decision = self.attempts.judge(Wanted { host: shown, is_listed });
        match decision.action {
            DecisionAction::Allow
            | DecisionAction::AllowReadOnly
            | DecisionAction::AllowUnsandboxed => Ok(()),
            DecisionAction::Deny => Err(decision.reason),
            DecisionAction::Ask | DecisionAction::AskUnsandboxed => {
                let reason = decision.reason.clone();
                match self.attempts.ask(shown, decision).await {
                    true => Ok(()),
                    false => Err(reason),
                }
            }
        }
    }

    /// Returns those addresses of an allowed host that may be connected to; the error says why
    /// there are none. What is denied by its address is denied by every name of it.
    fn choose(&self, shown: &str, found: &[IpAddr], port: u16) -> Result<Vec<SocketAddr>, String> {
        let mut refused = None;
        let mut open = Vec::new();
        for address in found {
            let host = format!("{}:{port}", Host::Address(*address));
            let named = self.allowed.iter().any(|pattern| pattern.names(*address, port));
            // Its name is allowed, so that no list names its address says nothing.
            let Decision { action, reason, .. } =
                self.attempts.judge(Wanted { host: &host, is_listed: true });
            let closed = if action == DecisionAction::Deny {
                Some(format!("{shown} is at {host}: {reason}"))
            } else if !named && !is_public(*address) {
                Some(format!(
                    "{shown} is at {}, which is no public address; allowed_hosts must name that address itself",
                    Host::Address(*address)
                ))
            } else {
                None
            };
            match closed {
                Some(reason) => {
                    refused.get_or_insert(reason);
                }
                None => open.push(SocketAddr::new(*address, port)),
            }
        }
        open.truncate(ADDRESSES_MAX);
        match open.is_empty() {
            true => Err(refused.unwrap_or_else(|| format!("{shown} has no address"))),
            false => Ok(open),
        }
    }

    /// Tells of an attempt that is refused, and returns what the command is told.
    async fn refuse(&self, shown: &str, reason: String) -> Rejection {
        self.attempts.tell(shown, Verdict::Refused { reason: reason.clone() }).await;
        forbidden(reason)
    }

    async fn look_up(&self, host: &Host) -> Result<Vec<IpAddr>, Rejection> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        match &self.names {
            Names::System => {
                let found =
                    timeout(self.bounds.connect, tokio::net::lookup_host((name.as_str(), 0)));
                match found.await {
                    Ok(Ok(found)) => Ok(found.map(|address| address.ip().to_canonical()).collect()),
                    Ok(Err(_)) | Err(_) => Err(unreachable(format!("{name} cannot be looked up"))),
                }
            }
            #[cfg(test)]
            Names::Table(table) => Ok(table
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, addresses)| addresses.clone())
                .unwrap_or_default()),
        }
    }

    async fn connect(&self, host: &Host, addresses: &[SocketAddr]) -> Result<TcpStream, Rejection> {
        for address in addresses {
            if let Ok(Ok(stream)) = timeout(self.bounds.connect, TcpStream::connect(address)).await
            {
                return Ok(stream);
            }
        }
        Err(unreachable(format!("{host} does not answer")))
    }
}

/// Reads up to the end of a head; `None` when the client goes away before. What follows the
/// head comes with it.
async fn read_head(client: &mut TcpStream) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = find_head_end(&bytes) {
            let rest = bytes.split_off(end);
            return Ok(Some((bytes, rest)));
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            // Not the end of one, so it is refused as one.
            return Ok(Some((bytes, Vec::new())));
        }
        let room = (HEAD_BYTES_MAX - bytes.len()) as u64;
        if (&mut *client).take(room).read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// Says no in HTTP, and reads what is still coming: a connection that is closed on unread bytes
/// loses its last words.
async fn reject(client: &mut TcpStream, rejection: &Rejection) -> std::io::Result<()> {
    let Rejection { status, message } = rejection;
    let body = format!("gimlet: {message}\n");
    let answer = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        reason_phrase(*status),
        body.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await?;
    tokio::io::copy(&mut client.take(DRAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        403 => "Forbidden by the sandbox",
        408 => "Request Timeout",
        411 => "Length Required",
        502 => "Bad Gateway",
        _ => "Bad Request",
    }
}

fn forbidden(message: String) -> Rejection {
    Rejection { status: 403, message }
}

fn unreachable(message: String) -> Rejection {
    Rejection { status: 502, message }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
