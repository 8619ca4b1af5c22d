//! Earlier messages of the user, of all sessions: a file of JSON strings, one a line.
//!
//! For `up` and Ctrl-R. Private to the user; the oldest are passed over. Called by `run.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of the file's end that are read.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Messages that are offered.
const MESSAGES_MAX: usize = 1_000;
/// Bytes of a message that is kept; a longer one is a document, not something to send again.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Returns the messages, oldest first. What cannot be read is passed over.
pub(super) fn load_messages(path: &Path) -> Vec<String> {
    let Ok(bytes) = read_end(path) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let messages: Vec<String> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let older = messages.len().saturating_sub(MESSAGES_MAX);
    messages.into_iter().skip(older).collect()
}

fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds a message, in one write, so that sessions side by side do not mix.
pub(super) fn append_message(path: &Path, text: &str) -> io::Result<()> {
    if text.len() > MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let mut line = serde_json::to_string(text)?;
    line.push('\n');
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_in_order_and_a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        assert_eq!(load_messages(&path), Vec::<String>::new());
        append_message(&path, "one\ntwo").unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"\"torn\n")
            .unwrap();
        append_message(&path, "three").unwrap();
        append_message(&path, &"x".repeat(MESSAGE_BYTES_MAX + 1)).unwrap();
        assert_eq!(load_messages(&path), ["one\ntwo", "three"]);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
