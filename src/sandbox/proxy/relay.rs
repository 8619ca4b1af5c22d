//! Moves bytes between a client and a server, with one buffer a direction and an end to silence.
//!
//! Knows nothing of what the bytes mean. Called by `proxy/mod.rs`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes held of one direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Moves bytes both ways until both sides are done, or both were silent for as long as `idle`
/// and at most twice that.
pub(super) async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    idle: Duration,
) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let both = async {
        tokio::try_join!(
            move_bytes(client_read, server_write, &moved),
            move_bytes(server_read, client_write, &moved),
        )
    };
    tokio::select! {
        done = both => done.map(|_| ()),
        () = silence(&moved, idle) => Ok(()),
    }
}

/// Sends a request's body, of which `rest` has arrived, and then the answer back. What a client
/// sends beyond its body is not sent on: it could be a request to another host.
pub(super) async fn send_body(
    client: &mut TcpStream,
    server: &mut TcpStream,
    (rest, body_bytes): (&[u8], u64),
    idle: Duration,
) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (client_read, client_write) = client.split();
    let (server_read, mut server_write) = server.split();
    let arrived = usize::try_from(body_bytes).unwrap_or(usize::MAX).min(rest.len());
    let body = rest.get(..arrived).unwrap_or_default();
    let missing = body_bytes - arrived as u64;
    let send = async {
        server_write.write_all(body).await?;
        copy(client_read.take(missing), &mut server_write, &moved).await
    };
    let answer = move_bytes(server_read, client_write, &moved);
    let both = async {
        tokio::pin!(send, answer);
        tokio::select! {
            // A server may answer before it has read all.
            done = &mut answer => done,
            sent = &mut send => match sent {
                Ok(()) => answer.await,
                Err(error) => Err(error),
            },
        }
    };
    tokio::select! {
        done = both => done,
        () = silence(&moved, idle) => Ok(()),
    }
}

/// Moves bytes up to their end, and says the end.
async fn move_bytes(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    copy(from, &mut to, moved).await?;
    to.shutdown().await
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..count).unwrap_or_default()).await?;
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends when nothing has moved for a while.
async fn silence(moved: &AtomicU64, idle: Duration) {
    loop {
        let before = moved.load(Ordering::Relaxed);
        tokio::time::sleep(idle).await;
        if moved.load(Ordering::Relaxed) == before {
            return;
        }
    }
}
