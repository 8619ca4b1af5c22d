//! Reads unified diffs, as `git diff` and `diff -u` write them.
//!
//! What stands before a header, such as a mail or a commit message, is passed over. What
//! cannot be done byte for byte (binary files, links, merges) is refused by name. Knows no
//! file. Called by `parse.rs`.

use bytes::Bytes;

use crate::patch::chunk::{Body, Chunk, LineKind};
use crate::patch::grammar::{CHUNKS_MAX, FILES_MAX};
use crate::patch::hunk::{combined, is_file_header, is_hunk_header, read_hunks};
use crate::patch::names::{
    Side, choose, read_name, read_pair, read_side, without_first, without_prefix,
};
use crate::patch::reader::{Reader, path_of, quoted, syntax};
use crate::patch::{FileAction, FilePatch, PatchError};

const GIT: &[u8] = b"diff --git ";
const OLD: &[u8] = b"--- ";
const NEW: &[u8] = b"+++ ";

/// Returns whether the text has a header of a unified diff.
pub(super) fn has_header(reader: &Reader) -> bool {
    let mut reader = reader.clone();
    while let Some(line) = reader.peek() {
        if is_start(&reader, line) {
            return true;
        }
        reader.skip();
    }
    false
}

fn is_start(reader: &Reader, line: &[u8]) -> bool {
    line.starts_with(GIT)
        || is_combined_header(line)
        || (line.starts_with(OLD) && reader.peek_second().is_some_and(|next| next.starts_with(NEW)))
}

fn is_combined_header(line: &[u8]) -> bool {
    line.starts_with(b"diff --cc ") || line.starts_with(b"diff --combined ")
}

/// Reads every file of the diff.
pub(super) fn read_unified(mut reader: Reader) -> Result<Vec<FilePatch>, PatchError> {
    let mut files = Vec::new();
    let mut chunks = 0;
    while let Some(line) = reader.peek() {
        let (start, patch_line) = (reader.at(), reader.line());
        let header = if is_combined_header(line) {
            return Err(combined(&reader));
        } else if is_start(&reader, line) {
            // The header's own end tells whose the CR at the end of each line is.
            reader.is_crlf |= files.is_empty() && line.ends_with(b"\r");
            read_header(&mut reader)?
        } else if is_binary(line) {
            return Err(binary(&reader, line));
        } else if is_hunk_header(line) {
            return Err(reader.error("no file is named before this hunk"));
        } else {
            reader.skip();
            continue;
        };
        let hunks = read_hunks(&mut reader)?;
        chunks += hunks.len();
        if files.len() == FILES_MAX || chunks > CHUNKS_MAX {
            let problem = format!("more than {FILES_MAX} files or {CHUNKS_MAX} hunks");
            return Err(syntax(patch_line, problem));
        }
        let text = reader.cut(start..reader.at());
        files.push(header.into_file(hunks, (text, patch_line))?);
    }
    if files.is_empty() {
        return Err(reader.error("the diff changes no file"));
    }
    Ok(files)
}

fn is_binary(line: &[u8]) -> bool {
    line == b"GIT binary patch"
        || (line.starts_with(b"Binary files ") && line.ends_with(b" differ"))
}

fn binary(reader: &Reader, line: &[u8]) -> PatchError {
    reader.error(format!("a binary file cannot be changed by a diff: {}", quoted(line)))
}

/// What the lines above the hunks of a file say.
#[derive(Debug, Default)]
struct Header {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    is_new: bool,
    is_deleted: bool,
    /// The target of a renamed or copied file is `new`.
    is_renamed: bool,
    is_copied: bool,
    executable: Option<bool>,
}

fn read_header(reader: &mut Reader) -> Result<Header, PatchError> {
    let mut header = Header::default();
    let mut git_names = None;
    let is_git = reader.peek().is_some_and(|line| line.starts_with(GIT));
    if is_git {
        git_names = reader.peek().and_then(|line| line.strip_prefix(GIT)).and_then(read_pair);
        reader.skip();
        while read_git_line(reader, &mut header)? {
            reader.skip();
        }
    }
    if is_file_header(reader) || (!is_git && reader.peek().is_some_and(|it| it.starts_with(OLD))) {
        read_sides(reader, &mut header, git_names.as_ref())?;
    } else if reader.peek().is_some_and(|line| line.starts_with(b"@@")) {
        return Err(reader.error("expected `--- ` and `+++ ` with the file's names above the hunk"));
    }
    if header.old.is_none() && header.new.is_none() {
        let Some((old, new)) = git_names else {
            return Err(reader.error("the lines above do not say which file is changed"));
        };
        // Two names that are one are without prefix; others differ in it alone.
        (header.old, header.new) = match old == new {
            true => (Some(old), Some(new)),
            false => strip_known(&Side::Name(old), &Side::Name(new)),
        };
    }
    Ok(header)
}

/// Reads one of the lines below `diff --git`; returns whether it was one.
fn read_git_line(reader: &Reader, header: &mut Header) -> Result<bool, PatchError> {
    let Some(line) = reader.peek() else { return Ok(false) };
    let after = |prefix: &str| line.strip_prefix(prefix.as_bytes());
    if is_binary(line) {
        return Err(binary(reader, line));
    }
    if let Some(mode) = after("new file mode ") {
        header.is_new = true;
        header.executable = is_executable(reader, mode)?;
    } else if let Some(mode) = after("deleted file mode ") {
        header.is_deleted = true;
        is_executable(reader, mode)?;
    } else if let Some(mode) = after("new mode ") {
        header.executable = is_executable(reader, mode)?;
    } else if let Some(mode) = after("old mode ") {
        is_executable(reader, mode)?;
    } else if let Some(index) = after("index ") {
        if let Some(at) = memchr::memrchr(b' ', index) {
            is_executable(reader, index.get(at + 1..).unwrap_or(b""))?;
        }
    } else if let Some(name) = after("rename from ").or_else(|| after("rename old ")) {
        (header.is_renamed, header.old) = (true, Some(read_name(name)));
    } else if let Some(name) = after("copy from ") {
        (header.is_copied, header.old) = (true, Some(read_name(name)));
    } else if let Some(name) =
        after("rename to ").or_else(|| after("rename new ")).or_else(|| after("copy to "))
    {
        header.new = Some(read_name(name));
    } else {
        let known = after("similarity index ").or_else(|| after("dissimilarity index "));
        return Ok(known.is_some());
    }
    Ok(true)
}

/// Reads a mode of git: regular files alone can be changed.
fn is_executable(reader: &Reader, mode: &[u8]) -> Result<Option<bool>, PatchError> {
    match mode.trim_ascii() {
        b"100755" => Ok(Some(true)),
        mode if mode.starts_with(b"100") => Ok(Some(false)),
        b"120000" => {
            Err(reader.error("the diff changes a symbolic link; only regular files are patched"))
        }
        b"160000" => {
            Err(reader.error("the diff changes a submodule; only regular files are patched"))
        }
        mode => {
            Err(reader
                .error(format!("expected a file mode such as 100644, found {}", quoted(mode))))
        }
    }
}

/// Reads the lines `--- ` and `+++ `.
fn read_sides(
    reader: &mut Reader,
    header: &mut Header,
    git_names: Option<&(Vec<u8>, Vec<u8>)>,
) -> Result<(), PatchError> {
    let side = |reader: &Reader, begin: &[u8]| {
        reader.peek().and_then(|line| line.strip_prefix(begin)).map(read_side)
    };
    let old = side(reader, OLD).unwrap_or(Side::Nothing);
    reader.skip();
    let Some(new) = side(reader, NEW) else {
        return Err(reader.error("expected `+++ ` with the file's new name"));
    };
    reader.skip();
    if !reader.peek().is_some_and(|line| line.starts_with(b"@@")) {
        return Err(reader.error("expected `@@ -a,b +c,d @@` below the file's names"));
    }
    header.is_new |= old == Side::Nothing;
    header.is_deleted |= new == Side::Nothing;
    if header.is_renamed || header.is_copied {
        return Ok(());
    }
    // Where git names a file twice alike, nothing tells its sides apart, and no folder is one.
    let is_bare = git_names.is_some_and(|(left, right)| left == right);
    let name = |side: &Side| match side {
        Side::Name(name) => Some(name.clone()),
        Side::Nothing => None,
    };
    (header.old, header.new) = match (is_bare, git_names) {
        (true, _) => (name(&old), name(&new)),
        (false, Some(_)) => strip_known(&old, &new),
        (false, None) => without_prefix(&old, &new),
    };
    Ok(())
}

/// Takes the first folder off, which is known to tell the sides apart.
fn strip_known(old: &Side, new: &Side) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let strip = |side: &Side| match side {
        Side::Name(name) => Some(without_first(name).unwrap_or(name).to_vec()),
        Side::Nothing => None,
    };
    (strip(old), strip(new))
}

impl Header {
    /// Puts the file's part together.
    fn into_file(
        self,
        mut hunks: Vec<Chunk>,
        (text, patch_line): (Bytes, usize),
    ) -> Result<FilePatch, PatchError> {
        let (old, new) = (self.old.clone(), self.new.clone());
        let missing = || syntax(patch_line, "the header does not name the file");
        let file = |name: Vec<u8>, action| {
            let path = path_of(patch_line, &name)?;
            let (executable, text) = (self.executable, text.clone());
            Ok(FilePatch { path, action, removed: None, executable, text, patch_line })
        };
        if self.is_new || self.is_deleted {
            let kind = if self.is_new { LineKind::Add } else { LineKind::Remove };
            let body = whole_file(&mut hunks, kind)?;
            if self.is_new {
                let name = new.or(old).ok_or_else(missing)?;
                return file(name, FileAction::Add { content: body });
            }
            let mut file = file(old.or(new).ok_or_else(missing)?, FileAction::Delete)?;
            (file.removed, file.executable) = (Some(body), None);
            return Ok(file);
        }
        let (old, new) = (old.ok_or_else(missing)?, new.ok_or_else(missing)?);
        if self.is_renamed || self.is_copied {
            let move_to = Some(path_of(patch_line, &new)?);
            let keeps_source = self.is_copied;
            return file(old, FileAction::Update { move_to, keeps_source, chunks: hunks });
        }
        if hunks.is_empty() && self.executable.is_none() {
            return Err(syntax(patch_line, "the header is followed by no change"));
        }
        let action = FileAction::Update { move_to: None, keeps_source: false, chunks: hunks };
        file(choose(old, new), action)
    }
}

/// Returns the one hunk of a file that comes or goes, and so has lines of one kind only.
fn whole_file(hunks: &mut Vec<Chunk>, kind: LineKind) -> Result<Body, PatchError> {
    let Some(hunk) = hunks.pop() else { return Ok(Body::default()) };
    if let Some(second) = hunks.first() {
        let line = second.patch_line.max(hunk.patch_line);
        return Err(syntax(line, "a file that comes or goes has one hunk; here is another"));
    }
    if hunk.body.lines().any(|line| line.kind != kind) {
        let sign = if kind == LineKind::Add { '+' } else { '-' };
        let problem =
            format!("the file comes or goes, so every line of its hunk begins with `{sign}`");
        return Err(syntax(hunk.patch_line, problem));
    }
    Ok(hunk.body)
}
