//! Descriptors that travel over a line between the program and its helper.
//!
//! The caller's own streams go in; a terminal that a command makes and the listener of its
//! proxy come back. They travel as such, so that nothing but them is inherited. Used by
//! `runner.rs`, `helper.rs`, `init.rs` and `pty.rs`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Sends descriptors, three at most.
pub(crate) fn send_descriptors(line: impl AsFd, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !buffer.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("no room for so many streams"));
    }
    rustix::net::sendmsg(line, &[IoSlice::new(b"F")], &mut buffer, SendFlags::empty())?;
    Ok(())
}

/// Receives exactly as many as `send_descriptors` has sent.
pub(crate) fn receive_descriptors<const COUNT: usize>(
    line: impl AsFd,
) -> io::Result<[OwnedFd; COUNT]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(line, &mut [IoSliceMut::new(&mut byte)], &mut buffer, flags)?;
    let fds: Vec<OwnedFd> = buffer
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    fds.try_into().map_err(|_| io::Error::other("other streams were expected"))
}

/// Sends the listener of a proxy, as a line of its own.
pub(crate) fn send_listener(line: impl AsFd, listener: BorrowedFd<'_>) -> io::Result<()> {
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
