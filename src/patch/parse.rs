//! Reads the text of a patch.
//!
//! Strict where a guess could change the wrong lines, lenient where models slip without
//! harm: padded markers, blank lines between files, a heredoc around the text, CRLF, and
//! line ranges after `@@`. Pure; never panics; every error names its line.

use std::path::PathBuf;

use crate::patch::{Chunk, ChunkLine, FileAction, FilePatch, Patch, PatchError};

pub(super) const BEGIN: &str = "*** Begin Patch";
pub(super) const END: &str = "*** End Patch";
pub(super) const ADD: &str = "*** Add File:";
pub(super) const DELETE: &str = "*** Delete File:";
pub(super) const UPDATE: &str = "*** Update File:";
pub(super) const MOVE: &str = "*** Move to:";
pub(super) const END_OF_FILE: &str = "*** End of File";
const ENVIRONMENT: &str = "*** Environment ID:";

/// A longer text is refused: no model writes it in one call, and matching costs time.
const PATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns the patch that the text says.
pub(crate) fn parse(text: &str) -> Result<Patch, PatchError> {
    if text.len() > PATCH_BYTES_MAX {
        return Err(PatchError::TooLarge { bytes: text.len(), bytes_max: PATCH_BYTES_MAX });
    }
    let mut lines = split_numbered(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    trim_blank(&mut lines);
    unwrap_heredoc(&mut lines);
    let end_line = check_frame(&lines)?;
    let body = lines.get(1..lines.len() - 1).unwrap_or(&[]);
    let mut reader = Reader { lines: body, at: 0, end_line };
    reader.skip_environment();
    let mut files = Vec::new();
    while let Some(file) = reader.read_file()? {
        files.push(file);
    }
    if files.is_empty() {
        return Err(syntax(end_line, "the patch changes no file"));
    }
    Ok(Patch { files })
}

/// One line with its number in the text.
type Numbered<'a> = (usize, &'a str);

/// Returns the lines. A text that is CRLF from its first line on is read as if it were LF;
/// in any other a CR belongs to the line it ends.
fn split_numbered(text: &str) -> Vec<Numbered<'_>> {
    let crlf = text
        .split_inclusive('\n')
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| line.ends_with("\r\n"));
    let clean = |line| if crlf { str::strip_suffix(line, '\r').unwrap_or(line) } else { line };
    text.split('\n').enumerate().map(|(index, line)| (index + 1, clean(line))).collect()
}

fn trim_blank(lines: &mut Vec<Numbered<'_>>) {
    while lines.last().is_some_and(|(_, line)| line.trim().is_empty()) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|(_, line)| line.trim().is_empty()).count();
    lines.drain(..blank);
}

/// Takes a heredoc that was written around the patch off.
fn unwrap_heredoc(lines: &mut Vec<Numbered<'_>>) {
    let (Some((_, first)), Some((_, last))) = (lines.first(), lines.last()) else { return };
    let Some(word) = first.trim().strip_prefix("<<") else { return };
    let word = word.trim_start_matches('-').trim().trim_matches(['\'', '"']);
    if lines.len() > 1 && !word.is_empty() && last.trim() == word {
        lines.pop();
        lines.remove(0);
        trim_blank(lines);
    }
}

/// Checks the first and the last line and returns the number of the last.
fn check_frame(lines: &[Numbered<'_>]) -> Result<usize, PatchError> {
    let (Some(&(first_line, first)), Some(&(last_line, last))) = (lines.first(), lines.last())
    else {
        return Err(syntax(1, "the patch is empty; it begins with `*** Begin Patch`"));
    };
    if first.trim() != BEGIN {
        return Err(syntax(first_line, &format!("expected `{BEGIN}`, found {}", quoted(first))));
    }
    if lines.len() == 1 || last.trim() != END {
        return Err(syntax(last_line, &format!("expected `{END}` after this line")));
    }
    let body = lines.get(1..lines.len() - 1).unwrap_or(&[]);
    if let Some(&(line, _)) = body.iter().find(|(_, line)| line.trim_end() == END) {
        return Err(syntax(line, &format!("text follows this `{END}`; send one patch per call")));
    }
    Ok(last_line)
}

struct Reader<'a> {
    lines: &'a [Numbered<'a>],
    at: usize,
    end_line: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Numbered<'a>> {
        self.lines.get(self.at).copied()
    }

    /// Returns the line's number, or that of the patch's last line.
    fn line(&self) -> usize {
        self.peek().map_or(self.end_line, |(number, _)| number)
    }

    fn skip_blank(&mut self) {
        while self.peek().is_some_and(|(_, line)| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// Skips the line by which some clients name where a patch belongs.
    fn skip_environment(&mut self) {
        self.skip_blank();
        if self.peek().is_some_and(|(_, line)| line.trim_start().starts_with(ENVIRONMENT)) {
            self.at += 1;
        }
    }

    fn read_file(&mut self) -> Result<Option<FilePatch>, PatchError> {
        self.skip_blank();
        let Some((number, line)) = self.peek() else { return Ok(None) };
        self.at += 1;
        let header = line.trim();
        if let Some(path) = header.strip_prefix(ADD) {
            let path = path_of(number, path)?;
            return Ok(Some(FilePatch { path, action: self.read_added() }));
        }
        if let Some(path) = header.strip_prefix(DELETE) {
            return Ok(Some(FilePatch {
                path: path_of(number, path)?,
                action: FileAction::Delete,
            }));
        }
        if let Some(path) = header.strip_prefix(UPDATE) {
            let path = path_of(number, path)?;
            let action = self.read_update(number)?;
            return Ok(Some(FilePatch { path, action }));
        }
        let problem = format!(
            "expected `{ADD} PATH`, `{DELETE} PATH`, `{UPDATE} PATH` or `{END}`, found {}{}",
            quoted(line),
            if line.starts_with(['+', '-', ' ', '@']) {
                "; no file is named before it"
            } else {
                ""
            }
        );
        Err(syntax(number, &problem))
    }

    fn read_added(&mut self) -> FileAction {
        let mut content = String::new();
        while let Some(added) = self.peek().and_then(|(_, line)| line.strip_prefix('+')) {
            content.push_str(added);
            content.push('\n');
            self.at += 1;
        }
        FileAction::Add { content }
    }

    fn read_update(&mut self, header_line: usize) -> Result<FileAction, PatchError> {
        let mut move_to = None;
        if let Some((number, line)) = self.peek()
            && let Some(path) = line.trim().strip_prefix(MOVE)
        {
            move_to = Some(path_of(number, path)?);
            self.at += 1;
        }
        let mut chunks = Vec::new();
        while let Some(chunk) = self.read_chunk(chunks.is_empty())? {
            chunks.push(chunk);
        }
        if chunks.is_empty() && move_to.is_none() {
            return Err(syntax(header_line, "the update has no change; expected `@@` or lines"));
        }
        Ok(FileAction::Update { move_to, chunks })
    }

    /// Returns the next chunk; `None` where the file's part of the patch ends.
    fn read_chunk(&mut self, first: bool) -> Result<Option<Chunk>, PatchError> {
        // Blank lines before `@@` or a header separate; before a body they are context.
        let start = self.at;
        self.skip_blank();
        match self.peek() {
            None => return Ok(None),
            Some((_, line)) if is_header(line.trim()) => return Ok(None),
            Some((_, line)) if line.starts_with("@@") => {}
            Some(_) if first => self.at = start,
            Some((number, line)) => {
                let problem = format!(
                    "expected `@@`, a file header or `{END}` after `{END_OF_FILE}`, found {}",
                    quoted(line)
                );
                return Err(syntax(number, &problem));
            }
        }
        let patch_line = self.line();
        let anchors = self.read_anchors();
        let lines = self.read_body()?;
        let end_of_file = self.peek().is_some_and(|(_, line)| line.trim_end() == END_OF_FILE);
        if end_of_file {
            self.at += 1;
        }
        if lines.is_empty() {
            return Err(syntax(
                self.line(),
                "the chunk is empty; expected lines that begin with ` `, `+` or `-`",
            ));
        }
        Ok(Some(Chunk { anchors, lines, end_of_file, patch_line }))
    }

    fn read_anchors(&mut self) -> Vec<String> {
        let mut anchors = Vec::new();
        while let Some(anchor) = self.peek().and_then(|(_, line)| line.strip_prefix("@@")) {
            self.at += 1;
            let anchor = anchor.strip_prefix(' ').unwrap_or(anchor);
            if !anchor.trim().is_empty() && !is_line_range(anchor) {
                anchors.push(anchor.to_owned());
            }
        }
        anchors
    }

    fn read_body(&mut self) -> Result<Vec<ChunkLine>, PatchError> {
        let mut lines = Vec::new();
        while let Some((number, line)) = self.peek() {
            if line.starts_with("@@") || is_header(line) || line.trim_end() == END_OF_FILE {
                break;
            }
            lines.push(parse_chunk_line(number, line)?);
            self.at += 1;
        }
        Ok(lines)
    }
}

fn parse_chunk_line(number: usize, line: &str) -> Result<ChunkLine, PatchError> {
    if let Some(added) = line.strip_prefix('+') {
        return Ok(ChunkLine::Add(added.to_owned()));
    }
    if let Some(removed) = line.strip_prefix('-') {
        return Ok(ChunkLine::Remove(removed.to_owned()));
    }
    if let Some(context) = line.strip_prefix(' ') {
        return Ok(ChunkLine::Context(context.to_owned()));
    }
    if line.is_empty() || line == "\r" {
        // Models drop the blank that marks an empty line of context.
        return Ok(ChunkLine::Context(String::new()));
    }
    let problem =
        format!("expected a line that begins with ` `, `+`, `-` or `@@`, found {}", quoted(line));
    Err(syntax(number, &problem))
}

fn is_header(line: &str) -> bool {
    [ADD, DELETE, UPDATE].iter().any(|header| line.starts_with(header))
}

/// Returns whether the text after `@@` is the line range of a unified diff. Models mix the
/// two forms; the numbers are often wrong, so they are not used.
fn is_line_range(anchor: &str) -> bool {
    let mut words = anchor.split_whitespace();
    let range = |word: Option<&str>, sign: char| {
        word.and_then(|word| word.strip_prefix(sign)).is_some_and(|numbers| {
            !numbers.is_empty() && numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
        })
    };
    range(words.next(), '-') && range(words.next(), '+') && words.next() == Some("@@")
}

fn path_of(line: usize, text: &str) -> Result<PathBuf, PatchError> {
    let path = text.trim();
    if path.is_empty() {
        return Err(syntax(line, "expected a path after the colon"));
    }
    if path.contains('\0') {
        return Err(syntax(line, "the path holds a NUL character"));
    }
    Ok(PathBuf::from(path))
}

fn syntax(line: usize, problem: &str) -> PatchError {
    PatchError::Syntax { line, problem: problem.to_owned() }
}

/// Returns the beginning of a line, quoted for a message.
fn quoted(line: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let shown: String = line.trim_end().chars().take(SHOWN_CHARS_MAX).collect();
    if shown.is_empty() { "an empty line".to_owned() } else { format!("`{shown}`") }
}
