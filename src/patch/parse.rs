//! Reads the text of a patch: takes off what is wrapped around it and sees which form it has.
//!
//! The forms themselves are `grammar.rs` and `unified.rs`. Pure; never panics; every error
//! names its line.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::patch::detect::{detect_script, read_heredoc};
use crate::patch::grammar::{BEGIN, END, read_chunked};
use crate::patch::reader::{Reader, is_blank, quoted, syntax};
use crate::patch::unified::{has_header, read_unified};
use crate::patch::{FileAction, Form, Patch, PatchError};

/// A longer text is refused: it is held in memory whole.
pub(crate) const PATCH_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Returns the patch that the text says.
pub(crate) fn parse(text: &str) -> Result<Patch, PatchError> {
    parse_bytes(Bytes::copy_from_slice(text.as_bytes()))
}

/// Returns the patch that the bytes say: those of a unified diff need not be UTF-8.
pub(crate) fn parse_bytes(text: impl Into<Bytes>) -> Result<Patch, PatchError> {
    let text: Bytes = text.into();
    if text.len() > PATCH_BYTES_MAX {
        return Err(PatchError::TooLarge { bytes: text.len(), bytes_max: PATCH_BYTES_MAX });
    }
    let mark_bytes = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let Unwrapped { text, first_line, workdir } = unwrap(text.slice(mark_bytes..));
    let mut reader = Reader::new(text, first_line);
    reader.skip_blank();
    let Some(first) = reader.peek() else {
        let problem = format!("the patch is empty; it begins with `{BEGIN}`, or is a unified diff");
        return Err(syntax(1, problem));
    };
    let mut patch = if first.trim_ascii() == BEGIN.as_bytes() {
        Patch {
            files: read_chunked(reader)?,
            form: Form::Chunks,
            workdir: None,
            left_out: Vec::new(),
        }
    } else if has_header(&reader) {
        Patch {
            files: read_unified(reader)?,
            form: Form::Unified,
            workdir: None,
            left_out: Vec::new(),
        }
    } else {
        let problem =
            format!("expected `{BEGIN}` or the header of a unified diff, found {}", quoted(first));
        return Err(reader.error(problem));
    };
    if let Some(workdir) = workdir {
        move_below(&mut patch, &workdir);
        patch.workdir = Some(workdir);
    }
    Ok(patch)
}

/// A patch without what was around it.
struct Unwrapped {
    text: Bytes,
    first_line: usize,
    /// The directory that a command around it changes to.
    workdir: Option<String>,
}

/// Takes off a call of `apply_patch`, a heredoc or a code fence that stands around the patch.
fn unwrap(text: Bytes) -> Unwrapped {
    let mut reader = Reader::new(text.clone(), 1);
    reader.skip_blank();
    let first = reader.peek().unwrap_or(b"").trim_ascii().to_vec();
    let is_patch = first == BEGIN.as_bytes() || first.starts_with(b"diff ");
    if !is_patch && let Ok(script) = std::str::from_utf8(&text) {
        if let Some(found) = detect_script(script) {
            let is_heredoc = first.windows(2).any(|pair| pair == b"<<");
            let first_line = reader.line() + usize::from(is_heredoc);
            let text = Bytes::from(found.patch.into_bytes());
            return Unwrapped { text, first_line, workdir: found.workdir };
        }
        let heredoc = script.trim_start().strip_prefix("<<");
        if let Some(patch) = heredoc.and_then(read_heredoc) {
            let (text, first_line) = (Bytes::from(patch.into_bytes()), reader.line() + 1);
            return Unwrapped { text, first_line, workdir: None };
        }
    }
    let word = match (first.strip_prefix(b"<<"), first.starts_with(b"```")) {
        (Some(word), _) => heredoc_word(word),
        (None, true) => Some(b"```".to_vec()),
        (None, false) => None,
    };
    let inner = word.and_then(|word| {
        reader.skip();
        let (start, first_line) = (reader.at(), reader.line());
        let (last, end) = last_line(&text)?;
        // A shell takes the end of the text for the end of a heredoc, too.
        let end = match last.trim_ascii() == word {
            true => end,
            false if last.trim_ascii() == END.as_bytes() => text.len(),
            false => return None,
        };
        (start <= end).then(|| Unwrapped {
            text: text.slice(start..end),
            first_line,
            workdir: None,
        })
    });
    inner.unwrap_or(Unwrapped { text, first_line: 1, workdir: None })
}

fn heredoc_word(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_prefix(b"-").unwrap_or(text).trim_ascii();
    let is_quote = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\');
    let word: Vec<u8> = text.iter().copied().filter(|byte| !is_quote(byte)).collect();
    (!word.is_empty()).then_some(word)
}

/// Returns the last line that is not blank, and where it begins.
pub(super) fn last_line(text: &[u8]) -> Option<(&[u8], usize)> {
    let mut end = text.len();
    loop {
        let start = memchr::memrchr(b'\n', text.get(..end)?).map_or(0, |at| at + 1);
        let line = text.get(start..end)?;
        if !is_blank(line) {
            return Some((line, start));
        }
        end = start.checked_sub(1)?;
    }
}

fn move_below(patch: &mut Patch, workdir: &str) {
    let below = |path: &PathBuf| Path::new(workdir).join(path);
    for file in &mut patch.files {
        file.path = below(&file.path);
        if let FileAction::Update { move_to: Some(target), .. } = &mut file.action {
            *target = below(target);
        }
    }
}
