//! One change within a file, kept as the stretch of the patch's text that says it.
//!
//! A body is split into lines each time it is walked, so that a patch of a hundred megabytes
//! costs its own text and little more. Knows no file. Made by the parsers, read by `find.rs`
//! and `edit.rs`.

use bytes::Bytes;

/// One change within a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The lines after `@@`, each narrowing down the place.
    pub(crate) anchors: Vec<Bytes>,
    /// Context, removed and added lines.
    pub(crate) body: Body,
    /// Whether the change stands at the end of the file.
    pub(crate) end_of_file: bool,
    /// How many lines of the file stand above the place, where a unified diff says so.
    pub(crate) named_line: Option<usize>,
    /// The line of the patch text it starts at, from 1.
    pub(crate) patch_line: usize,
}

/// The lines of a chunk, or of an added file, with their markers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Body {
    /// Whole lines of the patch.
    pub(super) text: Bytes,
    /// Whether the CR at the end of each line is the patch's own and not the file's.
    pub(super) is_crlf: bool,
    /// Empty lines of context that the end of the text has lost.
    pub(super) lost_blanks: usize,
}

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Stays.
    Context,
    /// Goes.
    Remove,
    /// Comes.
    Add,
}

/// One line of a chunk, without its marker and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLine<'a> {
    /// What happens to it.
    pub(crate) kind: LineKind,
    /// Its text.
    pub(crate) text: &'a [u8],
    /// Whether the patch says that no newline ends it.
    pub(crate) is_open: bool,
}

impl ChunkLine<'_> {
    /// Returns whether the file has the line before the change.
    pub(crate) fn is_old(&self) -> bool {
        self.kind != LineKind::Add
    }
}

impl Body {
    /// Returns the lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = ChunkLine<'_>> {
        let mut rest = &self.text[..];
        let mut lost = self.lost_blanks;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                lost = lost.checked_sub(1)?;
                return Some(ChunkLine { kind: LineKind::Context, text: b"", is_open: false });
            }
            let line = self.take_line(&mut rest);
            let is_open = rest.first() == Some(&b'\\');
            if is_open {
                self.take_line(&mut rest);
            }
            let (kind, text) = match line {
                [b'+', text @ ..] => (LineKind::Add, text),
                [b'-', text @ ..] => (LineKind::Remove, text),
                [b' ', text @ ..] => (LineKind::Context, text),
                // The blank that marks an empty line of context is easily lost.
                text => (LineKind::Context, text),
            };
            Some(ChunkLine { kind, text, is_open })
        })
    }

    fn take_line<'a>(&self, rest: &mut &'a [u8]) -> &'a [u8] {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        *rest = after.get(1..).unwrap_or(b"");
        if self.is_crlf { line.strip_suffix(b"\r").unwrap_or(line) } else { line }
    }

    /// Returns the content of a file made of these lines alone.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.text.len());
        for line in self.lines() {
            content.extend_from_slice(line.text);
            if !line.is_open {
                content.push(b'\n');
            }
        }
        content
    }
}

impl Chunk {
    pub(super) fn only_adds(&self) -> bool {
        self.body.lines().all(|line| line.kind == LineKind::Add)
    }
}
