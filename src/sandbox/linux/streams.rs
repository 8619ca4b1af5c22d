//! Descriptors that travel over the line to the helper and back: the caller's own streams in,
//! the listener of a command's proxy out.
//!
//! They travel as such, so that nothing but them is inherited. The same way a terminal that a
//! helper makes can travel back. Used by `runner.rs`, `helper.rs` and `init.rs`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Sends three streams.
pub(crate) fn send_streams(line: &UnixStream, streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !buffer.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(io::Error::other("no room for three streams"));
    }
    rustix::net::sendmsg(line, &[IoSlice::new(b"F")], &mut buffer, SendFlags::empty())?;
    Ok(())
}

/// Receives what `send_streams` has sent.
pub(crate) fn receive_streams(line: &File) -> io::Result<[OwnedFd; 3]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(line.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut buffer, flags)?;
    let fds: Vec<OwnedFd> = buffer
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    fds.try_into().map_err(|_| io::Error::other("three streams were expected"))
}

/// Sends the listener of a proxy, as a line of its own.
pub(crate) fn send_listener(line: &File, listener: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    let fds = [listener];
    if !buffer.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a listener"));
    }
    rustix::net::sendmsg(line, &[IoSlice::new(b"B \n")], &mut buffer, SendFlags::empty())?;
    Ok(())
}

/// Reads bytes of a line, and a descriptor where one comes with them.
pub(crate) fn receive_bytes(
    line: impl AsFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received =
        rustix::net::recvmsg(line.as_fd(), &mut [IoSliceMut::new(bytes)], &mut buffer, flags)?;
    let fd = buffer.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((received.bytes, fd))
}
