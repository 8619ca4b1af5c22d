//! `read_file`: numbered lines of a text file, or a range of them.
//!
//! Reads as a stream, so that a file of any size costs bounded memory and time. Knows no
//! session and no screen.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::protocol::{Effect, ToolCall, ToolOutput, ToolSafety, ToolSpec};
use crate::text;
use crate::tools::files::{FileView, io_failure, resolve_path, shown_path};
use crate::tools::schema::{count_or_text, function_spec, parse_arguments};
use crate::tools::seen::{Seeing, SeenFiles};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Lines of one answer when the call does not say.
const LINES_DEFAULT: u64 = 2000;
/// Bytes of one line; longer ones are data, not text someone wrote.
const LINE_BYTES_MAX: usize = 2000;
/// Bytes looked at to tell text from binary.
const PROBE_BYTES: usize = 8 * 1024;
/// Bytes read of one file to reach a range and to count what is left: about a second.
const SCAN_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Room for the closing note within the output's bound.
const NOTE_BYTES: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(alias = "file_path")]
    path: String,
    /// First line, from 1.
    #[serde(default, deserialize_with = "count_or_text")]
    offset: Option<u64>,
    /// Number of lines, default 2000.
    #[serde(default, deserialize_with = "count_or_text")]
    limit: Option<u64>,
}

/// The `read_file` tool.
#[derive(Debug)]
pub(crate) struct ReadFile;

/// Which lines to read, checked.
#[derive(Debug)]
struct Range {
    path: PathBuf,
    shown: String,
    first: u64,
    limit: u64,
    output_bytes_max: usize,
}

/// Lines gathered so far.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// The last line in `text`, 0 before the first.
    last: u64,
    /// Lines seen in all.
    seen: u64,
    full: bool,
}

impl ToolHandler for ReadFile {
    fn spec(&self) -> ToolSpec {
        function_spec::<Args>(
            "read_file",
            "Reads a text file; each line comes as number, tab, text.",
        )
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety::reads_files()
    }

    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError> {
        Ok(Effect::Read { paths: vec![parse(call, cwd)?.path] })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let mut range = parse(call, &cx.turn.cwd)?;
            range.output_bytes_max = cx.turn.output_bytes_max.saturating_sub(NOTE_BYTES);
            let seen = cx.seen.clone();
            let text = cx.files.blocking(move |view| read_range(view, &range, &seen)).await?;
            Ok(ToolOutput::text(text))
        })
    }
}

/// Returns a line as text, cut where it is too long, with the omitted amount named.
///
/// `line` may be only the beginning of a line of `whole_bytes`, but more than `bytes_max`.
pub(crate) fn clip_line(line: &[u8], whole_bytes: usize, bytes_max: usize) -> String {
    if whole_bytes <= bytes_max {
        return String::from_utf8_lossy(line).into_owned();
    }
    let mut end = bytes_max.min(line.len());
    // A letter is not cut in two; its later bytes begin with the bits 10.
    while end > 0 && line.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
        end -= 1;
    }
    let kept = String::from_utf8_lossy(line.get(..end).unwrap_or_default());
    // The beginning of a secret would not be known for one.
    let shown = text::secrets::line_before_cut(&kept);
    format!("{shown}… [{} more bytes]", whole_bytes - end + kept.len() - shown.len())
}

fn parse(call: &ToolCall, cwd: &Path) -> Result<Range, ToolError> {
    let args: Args = parse_arguments(call)?;
    let path = resolve_path(cwd, &args.path)?;
    if args.limit == Some(0) {
        return Err(ToolError::InvalidArguments("limit is at least 1".to_owned()));
    }
    Ok(Range {
        shown: shown_path(&path, cwd),
        path,
        // Zero is what a model writes that counts from zero.
        first: args.offset.unwrap_or(1).max(1),
        limit: args.limit.unwrap_or(LINES_DEFAULT),
        output_bytes_max: usize::MAX,
    })
}

fn read_range(view: &FileView, range: &Range, seen: &SeenFiles) -> Result<String, ToolError> {
    let real = view.real_path(&range.path)?;
    let file = view.open_real(&real)?;
    let size = file.metadata().map_err(|error| io_failure(&range.path, &error))?.len();
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let probe = reader.fill_buf().map_err(|error| io_failure(&range.path, &error))?;
    if probe.iter().take(PROBE_BYTES).any(|byte| *byte == 0) {
        return Ok(format!("{} is a binary file, {size} bytes", range.shown));
    }
    let mut seeing = Seeing::default();
    let (page, at_end) = read_page(view, range, (&mut reader, &mut seeing))?;
    if at_end {
        seen.note_read(&real, seeing);
    }
    finish(range, page, at_end)
}

/// Reads lines until the end, or until reading on only to count would take too long.
fn read_page(
    view: &FileView,
    range: &Range,
    (reader, seeing): (&mut BufReader<File>, &mut Seeing),
) -> Result<(Page, bool), ToolError> {
    let mut page = Page::default();
    let mut line = Vec::new();
    let mut scanned = 0;
    loop {
        view.check_running()?;
        line.clear();
        let length = read_line(reader, &mut line, seeing)
            .map_err(|error| io_failure(&range.path, &error))?;
        let Some(length) = length else { return Ok((page, true)) };
        page.seen += 1;
        page.take(range, &line, length);
        scanned += length as u64 + 1;
        if scanned >= SCAN_BYTES_MAX {
            return Ok((page, false));
        }
    }
}

/// Reads one line, keeping only its beginning; returns its whole length without the line end,
/// `None` at the end of the file.
fn read_line(
    reader: &mut BufReader<File>,
    line: &mut Vec<u8>,
    seeing: &mut Seeing,
) -> io::Result<Option<usize>> {
    let mut length = 0;
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok((length > 0).then_some(length));
        }
        let end = memchr::memchr(b'\n', chunk);
        let text = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        // A little more than is shown, so that a cut sees whether it splits a letter.
        let room = (LINE_BYTES_MAX + 4).saturating_sub(line.len()).min(text.len());
        line.extend_from_slice(text.get(..room).unwrap_or_default());
        length += text.len();
        let used = end.map_or(chunk.len(), |at| at + 1);
        seeing.update(chunk.get(..used).unwrap_or_default());
        reader.consume(used);
        if end.is_some() || length as u64 >= SCAN_BYTES_MAX {
            return Ok(Some(length));
        }
    }
}

impl Page {
    /// Takes the line just read into the page, when it belongs there and there is room.
    fn take(&mut self, range: &Range, line: &[u8], length: usize) {
        if self.full || self.seen < range.first {
            return;
        }
        if self.seen - range.first >= range.limit {
            self.full = true;
            return;
        }
        let bare = if length == line.len() { line.strip_suffix(b"\r") } else { None };
        let text = match bare {
            Some(bare) => clip_line(bare, bare.len(), LINE_BYTES_MAX),
            None => clip_line(line, length, LINE_BYTES_MAX),
        };
        let number = self.seen.to_string();
        // The first line always fits: an answer without any would be asked for again and again.
        if self.last > 0 && self.text.len() + number.len() + text.len() + 2 > range.output_bytes_max
        {
            self.full = true;
            return;
        }
        let _ = writeln!(self.text, "{number}\t{text}");
        self.last = self.seen;
    }
}

fn finish(range: &Range, mut page: Page, at_end: bool) -> Result<String, ToolError> {
    if page.seen == 0 && range.first == 1 {
        return Ok(format!("{} is empty", range.shown));
    }
    if page.last == 0 {
        let (first, seen) = (range.first, page.seen);
        let lines = if at_end { format!("{seen}") } else { format!("more than {seen}") };
        let message = format!("line {first} is out of reach: {} has {lines} lines", range.shown);
        return Err(ToolError::Failed(message));
    }
    let left = page.seen - page.last;
    if left > 0 || !at_end {
        let next = page.last + 1;
        let amount = if at_end { left.to_string() } else { format!("over {left}") };
        let lines = if amount == "1" { "line" } else { "lines" };
        let _ = writeln!(page.text, "… {amount} more {lines}; continue with offset {next}");
    }
    // One trailing line end less is one token less.
    page.text.pop();
    Ok(page.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{OUTPUT_BYTES_MAX, call, run};

    async fn read(content: &[u8], arguments: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), content).unwrap();
        let output = run(&ReadFile, &call("read_file", arguments), dir.path()).await;
        let root = format!("{}/", dir.path().display());
        output
            .map(|output| output.joined_text())
            .map_err(|error| error.to_string().replace(&root, ""))
    }

    #[tokio::test]
    async fn ranges() {
        let ok = |text: &str| Ok(text.to_owned());
        let cases: [(&[u8], &str, Result<String, String>); 13] = [
            (b"a\nb\n", r#"{"path":"f"}"#, ok("1\ta\n2\tb")),
            (b"a\nb", r#"{"file_path":"./f"}"#, ok("1\ta\n2\tb")),
            (b"a\r\n\r\nb\r\n", r#"{"path":"f"}"#, ok("1\ta\n2\t\n3\tb")),
            (b"a\nb\nc\n", r#"{"path":"f","offset":2}"#, ok("2\tb\n3\tc")),
            (
                b"a\nb\nc\n",
                r#"{"path":"f","offset":0,"limit":1}"#,
                ok("1\ta\n… 2 more lines; continue with offset 2"),
            ),
            (
                b"a\nb\nc\n",
                r#"{"path":"f","offset":"2","limit":"1"}"#,
                ok("2\tb\n… 1 more line; continue with offset 3"),
            ),
            (b"", r#"{"path":"f"}"#, ok("f is empty")),
            (b"a\0b", r#"{"path":"f"}"#, ok("f is a binary file, 3 bytes")),
            (b"\xff\xfe!", r#"{"path":"f"}"#, ok("1\t\u{fffd}\u{fffd}!")),
            (
                b"a\nb\n",
                r#"{"path":"f","offset":3}"#,
                Err("line 3 is out of reach: f has 2 lines".into()),
            ),
            (
                b"",
                r#"{"path":"f","offset":3}"#,
                Err("line 3 is out of reach: f has 0 lines".into()),
            ),
            (
                b"a",
                r#"{"path":"f","limit":0}"#,
                Err("invalid arguments: limit is at least 1".into()),
            ),
            (b"a", r#"{"path":"g"}"#, Err("g does not exist".into())),
        ];
        for (content, arguments, expected) in cases {
            assert_eq!(read(content, arguments).await, expected, "{arguments}");
        }
    }

    #[tokio::test]
    async fn long_lines_are_cut_with_the_amount_named() {
        for (length, omitted) in [(2000, 0), (2001, 1), (2008, 8), (2009, 9), (300_000, 298_000)] {
            for end in ["", "\n", "\nz"] {
                let content = format!("{}{end}", "x".repeat(length));
                let text = read(content.as_bytes(), r#"{"path":"f"}"#).await.unwrap();
                let first = text.lines().next().unwrap();
                let kept = "x".repeat(2000);
                if omitted == 0 {
                    assert_eq!(first, format!("1\t{kept}"));
                } else {
                    assert_eq!(
                        first,
                        format!("1\t{kept}… [{omitted} more bytes]"),
                        "{length} {end:?}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn an_answer_is_bounded_and_says_how_to_go_on() {
        let content = "0123456789\n".repeat(10_000);
        let text = read(content.as_bytes(), r#"{"path":"f","limit":100000}"#).await.unwrap();
        assert!(text.len() <= OUTPUT_BYTES_MAX, "{}", text.len());
        let lines: Vec<_> = text.lines().collect();
        let shown = lines.len() - 1;
        let note = format!("… {} more lines; continue with offset {}", 10_000 - shown, shown + 1);
        assert_eq!(lines.last(), Some(&note.as_str()));
    }

    #[tokio::test]
    async fn directories_are_refused() {
        let error = read(b"", r#"{"path":"."}"#).await.unwrap_err();
        assert!(error.ends_with("is a directory; list_dir shows what is in it"), "{error}");
    }
}
