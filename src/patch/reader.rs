//! Walks over the lines of a patch without keeping them.
//!
//! Knows no grammar. Counts lines, cuts stretches of the text out without copying them, and
//! takes the CR off where the whole patch has CRLF ends. Called by the parsers.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;

use crate::patch::PatchError;
use crate::patch::chunk::Body;
use crate::text::ansi::visible_line;

/// A longer path is none that a system could open, and would fill every message.
const PATH_BYTES_MAX: usize = 4_095;

/// A place in the text of a patch.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    text: Bytes,
    at: usize,
    end: usize,
    line: usize,
    /// Whether the CR at the end of each line is the patch's own.
    pub(super) is_crlf: bool,
}

impl Reader {
    /// Starts at the beginning; `first_line` is its number.
    pub(super) fn new(text: Bytes, first_line: usize) -> Self {
        let end = text.len();
        Self { text, at: 0, end, line: first_line, is_crlf: false }
    }

    /// Returns the line without its end; `None` behind the last one.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        self.line_at(self.at).map(|(line, _)| line)
    }

    /// Returns the line after the next one.
    pub(super) fn peek_second(&self) -> Option<&[u8]> {
        let (_, next) = self.line_at(self.at)?;
        self.line_at(next).map(|(line, _)| line)
    }

    fn line_at(&self, at: usize) -> Option<(&[u8], usize)> {
        let rest = self.text.get(at..self.end).filter(|rest| !rest.is_empty())?;
        let bytes = memchr::memchr(b'\n', rest);
        let line = rest.get(..bytes.unwrap_or(rest.len()))?;
        let next = bytes.map_or(self.end, |bytes| at + bytes + 1);
        let line = if self.is_crlf { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        Some((line, next))
    }

    /// Goes past the line.
    pub(super) fn skip(&mut self) {
        if let Some((_, next)) = self.line_at(self.at) {
            self.at = next;
            self.line += 1;
        }
    }

    pub(super) fn skip_blank(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.skip();
        }
    }

    /// Returns the number of the line, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Ends the text at the beginning of this line.
    pub(super) fn end_at(&mut self, end: usize) {
        self.end = end.max(self.at);
    }

    /// Returns a stretch of the text.
    pub(super) fn cut(&self, range: Range<usize>) -> Bytes {
        self.text.slice(range.start.min(self.text.len())..range.end.min(self.text.len()))
    }

    /// Returns the lines from there to here as a body.
    pub(super) fn body_from(&self, start: usize) -> Body {
        Body { text: self.cut(start..self.at), is_crlf: self.is_crlf, lost_blanks: 0 }
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> PatchError {
        syntax(self.line, problem)
    }
}

pub(super) fn syntax(line: usize, problem: impl Into<String>) -> PatchError {
    PatchError::Syntax { line, problem: problem.into() }
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Returns the beginning of a line, quoted for a message.
pub(super) fn quoted(line: &[u8]) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    // A long line is not turned into text as a whole.
    let start = line.get(..SHOWN_CHARS_MAX * 4).unwrap_or(line);
    let text = String::from_utf8_lossy(start);
    let shown: String = text.trim_end().chars().take(SHOWN_CHARS_MAX).collect();
    let shown = visible_line(&shown);
    if shown.is_empty() { "an empty line".to_owned() } else { format!("`{shown}`") }
}

/// Returns the path that these bytes name.
pub(super) fn path_of(line: usize, name: &[u8]) -> Result<PathBuf, PatchError> {
    if name.is_empty() {
        return Err(syntax(line, "expected a path"));
    }
    if name.len() > PATH_BYTES_MAX {
        let problem = format!("the path has {} bytes; at most {PATH_BYTES_MAX} can be", name.len());
        return Err(syntax(line, problem));
    }
    if name.contains(&0) {
        return Err(syntax(line, "the path holds a NUL character"));
    }
    if name.contains(&b'\n') {
        return Err(syntax(line, "the path holds a newline; such a file is not patched"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
    }
    #[cfg(not(unix))]
    Ok(PathBuf::from(String::from_utf8_lossy(name).into_owned()))
}
