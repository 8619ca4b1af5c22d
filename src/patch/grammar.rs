//! Reads the form that models are taught: `*** Begin Patch`, files, chunks, `*** End Patch`.
//!
//! Strict where a guess could change the wrong lines, lenient where models slip without
//! harm: padded markers, blank lines between files, CRLF, and line ranges after `@@`. Pure.
//! Called by `parse.rs`.

use crate::patch::chunk::{Body, Chunk};
use crate::patch::parse::last_line;
use crate::patch::reader::{Reader, is_blank, path_of, quoted, syntax};
use crate::patch::{FileAction, FilePatch, PatchError};

pub(super) const BEGIN: &str = "*** Begin Patch";
pub(super) const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
const ENVIRONMENT: &str = "*** Environment ID:";

/// Sections of a patch: each costs memory beside its text.
pub(super) const FILES_MAX: usize = 200_000;

/// Chunks of a patch.
pub(super) const CHUNKS_MAX: usize = 1_000_000;

/// Anchors of a chunk: nothing is nested deeper.
const ANCHORS_MAX: usize = 32;

/// Reads the files between the markers.
pub(super) fn read_chunked(mut reader: Reader) -> Result<Vec<FilePatch>, PatchError> {
    let first = reader.cut(reader.at()..usize::MAX);
    reader.is_crlf =
        first.split(|byte| *byte == b'\n').next().is_some_and(|it| it.ends_with(b"\r"));
    let (start, begin_line) = (reader.at(), reader.line());
    let last =
        last_line(&first).filter(|(line, at)| *at > 0 && line.trim_ascii() == END.as_bytes());
    let mut grammar = Grammar { is_ended: last.is_some(), chunks: 0, reader };
    if let Some((_, at)) = last {
        grammar.reader.end_at(start + at);
    }
    grammar.reader.skip();
    grammar.skip_environment();
    let mut files = Vec::new();
    while let Some(file) = grammar.read_file(files.last())? {
        if files.len() == FILES_MAX {
            return Err(syntax(file.patch_line, format!("more than {FILES_MAX} files")));
        }
        files.push(file);
    }
    if !grammar.is_ended {
        let above =
            last_line(&first).map_or(0, |(_, at)| memchr::memchr_iter(b'\n', &first[..at]).count());
        return Err(syntax(begin_line + above, format!("expected `{END}` after this line")));
    }
    if files.is_empty() {
        return Err(grammar.reader.error("the patch changes no file"));
    }
    Ok(files)
}

struct Grammar {
    reader: Reader,
    /// Whether the text has its end marker.
    is_ended: bool,
    chunks: usize,
}

impl Grammar {
    /// Skips the line by which some clients name where a patch belongs.
    fn skip_environment(&mut self) {
        self.reader.skip_blank();
        let line = self.reader.peek().unwrap_or(b"");
        if line.trim_ascii_start().starts_with(ENVIRONMENT.as_bytes()) {
            self.reader.skip();
        }
    }

    fn read_file(&mut self, before: Option<&FilePatch>) -> Result<Option<FilePatch>, PatchError> {
        self.reader.skip_blank();
        let (start, number) = (self.reader.at(), self.reader.line());
        let Some(line) = self.reader.peek() else { return Ok(None) };
        let header = line.trim_ascii();
        let path = |prefix: &str| {
            let name = header.strip_prefix(prefix.as_bytes())?.trim_ascii();
            Some(match name.is_empty() {
                true => Err(syntax(number, "expected a path after the colon")),
                false => path_of(number, name),
            })
        };
        let (path, action) = if let Some(path) = path(ADD) {
            self.reader.skip();
            (path?, FileAction::Add { content: self.read_added() })
        } else if let Some(path) = path(DELETE) {
            self.reader.skip();
            (path?, FileAction::Delete)
        } else if let Some(path) = path(UPDATE) {
            self.reader.skip();
            (path?, self.read_update(number)?)
        } else {
            return Err(self.unexpected(line, before));
        };
        let text = self.reader.cut(start..self.reader.at());
        let (removed, executable) = (None, None);
        Ok(Some(FilePatch { path, action, removed, executable, text, patch_line: number }))
    }

    fn unexpected(&self, line: &[u8], before: Option<&FilePatch>) -> PatchError {
        if line.trim_ascii_end() == END.as_bytes() {
            let problem = format!("text follows this `{END}`; send one patch per call");
            return self.reader.error(problem);
        }
        let hint = match before.map(|file| &file.action) {
            None if line.starts_with(b"+") || line.starts_with(b"-") || line.starts_with(b"@") => {
                "; no file is named before it"
            }
            Some(FileAction::Add { .. }) => "; every line of an added file begins with `+`",
            Some(FileAction::Delete) => "; nothing but a file header follows a deleted file",
            None | Some(FileAction::Update { .. }) => "",
        };
        self.reader.error(format!(
            "expected `{ADD} PATH`, `{DELETE} PATH`, `{UPDATE} PATH` or `{END}`, found {}{hint}",
            quoted(line)
        ))
    }

    fn read_added(&mut self) -> Body {
        let start = self.reader.at();
        let is_part =
            |line: &[u8], follows| line.starts_with(b"+") || (follows && is_open_mark(line));
        while self.reader.peek().is_some_and(|line| is_part(line, self.reader.at() > start)) {
            self.reader.skip();
        }
        self.reader.body_from(start)
    }

    fn read_update(&mut self, header_line: usize) -> Result<FileAction, PatchError> {
        let mut move_to = None;
        let target = self.reader.peek().and_then(|line| {
            line.trim_ascii().strip_prefix(MOVE.as_bytes()).map(<[u8]>::trim_ascii)
        });
        if let Some(name) = target {
            if name.is_empty() {
                return Err(self.reader.error("expected a path after the colon"));
            }
            move_to = Some(path_of(self.reader.line(), name)?);
            self.reader.skip();
        }
        let mut chunks = Vec::new();
        while let Some(chunk) = self.read_chunk(chunks.is_empty())? {
            self.chunks += 1;
            if self.chunks > CHUNKS_MAX {
                return Err(syntax(chunk.patch_line, format!("more than {CHUNKS_MAX} chunks")));
            }
            chunks.push(chunk);
        }
        if chunks.is_empty() && move_to.is_none() {
            return Err(syntax(header_line, "the update has no change; expected `@@` or lines"));
        }
        Ok(FileAction::Update { move_to, keeps_source: false, chunks })
    }

    /// Returns the next chunk; `None` where the file's part of the patch ends.
    fn read_chunk(&mut self, first: bool) -> Result<Option<Chunk>, PatchError> {
        // Blank lines before `@@` or a header separate; before a body they are context.
        let start = self.reader.clone();
        self.reader.skip_blank();
        match self.reader.peek() {
            None => return Ok(None),
            Some(line) if is_header(line.trim_ascii()) || is_end(line) => return Ok(None),
            Some(line) if line.starts_with(b"@@") => {}
            Some(_) if first => self.reader = start,
            Some(line) => {
                return Err(self.reader.error(format!(
                    "expected `@@`, a file header or `{END}` after `{END_OF_FILE}`, found {}",
                    quoted(line)
                )));
            }
        }
        let patch_line = self.reader.line();
        let anchors = self.read_anchors()?;
        let body = self.read_body()?;
        let end_of_file = self.reader.peek().is_some_and(is_end_of_file);
        if end_of_file {
            self.reader.skip();
        }
        if body.text.is_empty() {
            let problem = "the chunk is empty; expected lines that begin with ` `, `+` or `-`";
            return Err(self.reader.error(problem));
        }
        Ok(Some(Chunk { anchors, body, end_of_file, named_line: None, patch_line }))
    }

    fn read_anchors(&mut self) -> Result<Vec<bytes::Bytes>, PatchError> {
        let mut anchors = Vec::new();
        while let Some(line) = self.reader.peek().filter(|line| line.starts_with(b"@@")) {
            let skipped = if line.get(2) == Some(&b' ') { 3 } else { 2 };
            let anchor = line.get(skipped..).unwrap_or(b"");
            if !is_blank(anchor) && !is_line_range(anchor) {
                let start = self.reader.at() + skipped;
                anchors.push(self.reader.cut(start..start + anchor.len()));
            }
            if anchors.len() > ANCHORS_MAX {
                return Err(self.reader.error(format!("more than {ANCHORS_MAX} `@@` in a row")));
            }
            self.reader.skip();
        }
        Ok(anchors)
    }

    fn read_body(&mut self) -> Result<Body, PatchError> {
        let start = self.reader.at();
        while let Some(line) = self.reader.peek() {
            if line.starts_with(b"@@") || is_header(line) || is_end_of_file(line) || is_end(line) {
                break;
            }
            // As in a unified diff, a line may say that nothing ends the one above.
            let is_mark = self.reader.at() > start && is_open_mark(line);
            if !is_body_line(line) && !is_mark {
                let problem = "expected a line that begins with ` `, `+`, `-` or `@@`, found";
                return Err(self.reader.error(format!("{problem} {}", quoted(line))));
            }
            self.reader.skip();
        }
        Ok(self.reader.body_from(start))
    }
}

pub(super) fn is_body_line(line: &[u8]) -> bool {
    matches!(line, [] | b"\r" | [b'+' | b'-' | b' ', ..])
}

/// Returns whether the line says that no newline ends the one above.
pub(super) fn is_open_mark(line: &[u8]) -> bool {
    line.starts_with(b"\\ ")
}

fn is_end_of_file(line: &[u8]) -> bool {
    line.trim_ascii_end() == END_OF_FILE.as_bytes()
}

fn is_end(line: &[u8]) -> bool {
    line.trim_ascii_end() == END.as_bytes()
}

fn is_header(line: &[u8]) -> bool {
    [ADD, DELETE, UPDATE].iter().any(|header| line.starts_with(header.as_bytes()))
}

/// Returns whether the text after `@@` is the line range of a unified diff. Models mix the
/// two forms; the numbers are often wrong, so they are not used.
fn is_line_range(anchor: &[u8]) -> bool {
    let mut words = anchor.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let range = |word: Option<&[u8]>, sign: u8| {
        word.and_then(|word| word.strip_prefix(&[sign])).is_some_and(|numbers| {
            !numbers.is_empty() && numbers.iter().all(|it| it.is_ascii_digit() || *it == b',')
        })
    };
    range(words.next(), b'-') && range(words.next(), b'+') && words.next() == Some(b"@@")
}
