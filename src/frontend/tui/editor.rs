//! The user's own editor on a text, as `git commit` does it.
//!
//! The text lies in a private file meanwhile, which goes away after. Called by `run.rs`, which
//! has given the terminal up before.

use std::io::{self, Write};
use std::process::Command;

/// Bytes that are taken back from an editor; nobody writes more by hand.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// Runs the editor and returns what it left.
pub(super) fn run_editor(editor: &str, text: &str) -> io::Result<String> {
    let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidInput, message);
    let words = shlex::split(editor).ok_or_else(|| invalid("it cannot be read"))?;
    let (program, arguments) = words.split_first().ok_or_else(|| invalid("it is empty"))?;
    let mut file = tempfile::Builder::new().prefix("gimlet-").suffix(".md").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let status = Command::new(program).args(arguments).arg(file.path()).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}, so nothing was taken")));
    }
    // Editors replace the file, so it is opened by its name again.
    if std::fs::metadata(file.path())?.len() > TEXT_BYTES_MAX {
        return Err(invalid("the text is too long"));
    }
    let text = String::from_utf8_lossy(&std::fs::read(file.path())?).into_owned();
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}
