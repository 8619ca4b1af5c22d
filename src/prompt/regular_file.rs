//! Opens a file of an untrusted tree without being held up or led astray by it.
//!
//! A FIFO does not block, a device is not read, and the last name is not followed when it is
//! a link. Knows nothing of what the bytes mean. Called by `project_docs.rs` and
//! `environment.rs`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The beginning of a regular file.
#[derive(Debug)]
pub(in crate::prompt) struct Beginning {
    /// At most as many bytes as were asked for.
    pub(in crate::prompt) bytes: Vec<u8>,
    /// The size of the whole file.
    pub(in crate::prompt) size_bytes: u64,
}

/// Reads at most `bytes_max` bytes of a regular file that is not a link.
pub(in crate::prompt) fn read_beginning(path: &Path, bytes_max: u64) -> io::Result<Beginning> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Beginning { bytes, size_bytes: metadata.len() })
}
