//! A command's own terminal: made on the command's side of the sandbox, used on ours.
//!
//! The command's process makes it in its own view of the system, so that `tty` and `/dev/tty`
//! hold there and no terminal of the user's is in reach; our end travels back over the line
//! that is the helper's standard output. Knows no plan and no tool. `command.rs` makes it,
//! `runner.rs` takes our end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::pty::OpenptFlags;
use tokio::io::{DuplexStream, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::sandbox::TerminalSize;
use crate::sandbox::linux::streams::{receive_descriptors, send_descriptors};

/// Bytes that wait between a terminal and its reader, each way; then the command waits.
const RELAY_BYTES: usize = 64 * 1024;

/// Makes a terminal, sends its other end over our standard output, and makes it the streams of
/// this process, which leads a new session, and its controlling terminal.
pub(crate) fn enter_terminal(size: TerminalSize) -> io::Result<()> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let other_end = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&other_end)?;
    // Not by its name: where the other end comes from, there may be no such name.
    let terminal = rustix::pty::ioctl_tiocgptpeer(&other_end, flags)?;
    let TerminalSize { rows: ws_row, columns: ws_col } = size;
    let size = rustix::termios::Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size)?;
    send_descriptors(rustix::stdio::stdout(), &[other_end.as_fd()])?;
    rustix::process::ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

/// Returns our end of a terminal that will come over `line`; until then nothing is read from
/// it. Needs a tokio runtime around it.
pub(crate) fn await_terminal(line: StdUnixStream) -> io::Result<DuplexStream> {
    line.set_nonblocking(true)?;
    let line = UnixStream::from_std(line)?;
    let (ours, far) = tokio::io::duplex(RELAY_BYTES);
    // It ends when the terminal closes, which the end of the command brings about, or when
    // nobody reads any more. What goes wrong is the end of the output.
    tokio::spawn(async move { drop(relay(line, far).await) });
    Ok(ours)
}

async fn relay(line: UnixStream, far: DuplexStream) -> io::Result<()> {
    let reading = receive_terminal(&line).await?;
    drop(line);
    rustix::io::ioctl_fionbio(&reading, true)?;
    let writing = reading.try_clone()?;
    // Pipes only by name: what these types do, a terminal does as well.
    let mut output = pipe::Receiver::from_owned_fd_unchecked(reading)?;
    let mut input = pipe::Sender::from_owned_fd_unchecked(writing)?;
    let (mut from_us, mut to_us) = tokio::io::split(far);
    let type_in = async {
        // Nothing more to type is no reason not to read on.
        let _ = tokio::io::copy(&mut from_us, &mut input).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // A terminal that closed is an error to read from.
        copied = tokio::io::copy(&mut output, &mut to_us) => copied.map(drop),
        () = type_in => Ok(()),
    }
}

async fn receive_terminal(line: &UnixStream) -> io::Result<OwnedFd> {
    loop {
        line.readable().await?;
        match line.try_io(Interest::READABLE, || receive_descriptors::<1>(line)) {
            Ok([terminal]) => return Ok(terminal),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
