//! The caller's own streams, handed over the line to the helper.
//!
//! Descriptors travel as such, so that nothing but them is inherited. The same way a terminal
//! that a helper makes can travel back. Used by `runner.rs` and `helper.rs`.

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
