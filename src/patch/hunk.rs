//! Reads the hunks of a unified diff.
//!
//! The numbers in a hunk's header say how far it goes. Where they are wrong but the text
//! leaves no doubt, the text counts; where a part may be missing, that is an error. Knows no
//! file names. Called by `unified.rs`.

use crate::patch::PatchError;
use crate::patch::chunk::{Body, Chunk, LineKind};
use crate::patch::grammar::{is_body_line, is_open_mark};
use crate::patch::reader::{Reader, is_blank, quoted};

/// Empty lines of context that the end of a text may have lost.
const LOST_BLANKS_MAX: u64 = 3;

/// What the header of a hunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HunkRange {
    old_start: usize,
    old_count: u64,
    new_count: u64,
}

/// How a hunk that was read by its numbers ended.
enum End {
    /// After just as many lines as they say.
    Right,
    /// More lines follow, or another part of the diff.
    Other,
    /// With the text; so many old and new lines are missing.
    Cut(u64, u64),
}

/// Reads the hunks that follow, up to something else.
pub(super) fn read_hunks(reader: &mut Reader) -> Result<Vec<Chunk>, PatchError> {
    let mut chunks = Vec::new();
    while let Some(line) = reader.peek().filter(|line| line.starts_with(b"@@")) {
        if line.starts_with(b"@@@") {
            return Err(combined(reader));
        }
        chunks.push(read_hunk(reader)?);
        // Blank lines may divide hunks.
        let mut ahead = reader.clone();
        ahead.skip_blank();
        if ahead.peek().is_some_and(|line| line.starts_with(b"@@")) {
            *reader = ahead;
        }
    }
    Ok(chunks)
}

pub(super) fn combined(reader: &Reader) -> PatchError {
    reader.error("this is a combined diff of a merge, which names no file to change; send a plain one, as `git diff` of two commits makes")
}

fn read_hunk(reader: &mut Reader) -> Result<Chunk, PatchError> {
    let patch_line = reader.line();
    let header = reader.peek().unwrap_or(b"");
    let range = parse_range(header);
    let mut anchors = Vec::new();
    if range.is_none() {
        let Some(section) = section_of(header) else {
            let found = quoted(header);
            return Err(reader.error(format!("expected `@@ -a,b +c,d @@`, found {found}")));
        };
        // Some write no numbers, but the line above the change.
        if !section.is_empty() {
            let start = reader.at() + 2 + usize::from(header.starts_with(b"@@ "));
            anchors.push(reader.cut(start..start + section.len()));
        }
    }
    reader.skip();
    let Some(range) = range else {
        let body = read_to_next_part(reader);
        let chunk = Chunk { anchors, body, end_of_file: false, named_line: None, patch_line };
        return not_empty(reader, chunk);
    };
    let body = read_counted(reader, range)?;
    // Without old lines, the number is that of the line above.
    let above = usize::from(range.old_count > 0);
    let named_line = Some(range.old_start.saturating_sub(above));
    not_empty(reader, Chunk { anchors, body, end_of_file: false, named_line, patch_line })
}

fn not_empty(reader: &Reader, chunk: Chunk) -> Result<Chunk, PatchError> {
    if chunk.body.text.is_empty() {
        return Err(
            reader.error("the hunk is empty; expected lines that begin with ` `, `+` or `-`")
        );
    }
    Ok(chunk)
}

/// Reads as many lines as the header says, or up to the next part when it is wrong.
fn read_counted(reader: &mut Reader, range: HunkRange) -> Result<Body, PatchError> {
    let start = reader.clone();
    match take_counted(reader, range) {
        End::Right => Ok(reader.body_from(start.at())),
        End::Cut(old, new) if old == new && old <= LOST_BLANKS_MAX => {
            let mut body = reader.body_from(start.at());
            body.lost_blanks = usize::try_from(old).unwrap_or(0);
            Ok(body)
        }
        End::Cut(old, new) => {
            let problem = format!(
                "the text ends within a hunk: its header counts {} old and {} new lines, of which {old} and {new} are missing; is the diff cut off?",
                range.old_count, range.new_count
            );
            Err(reader.error(problem))
        }
        End::Other => {
            let stopped = reader.line();
            *reader = start.clone();
            let body = read_to_next_part(reader);
            let (old, new) = counts(&body);
            let is_doubtful = body.lines().any(|line| {
                let begins = |with: &[u8]| line.text.starts_with(with);
                (line.kind == LineKind::Remove && begins(b"-- "))
                    || (line.kind == LineKind::Add && begins(b"++ "))
            });
            if is_doubtful || reader.line() < stopped {
                let problem = format!(
                    "the hunk's header counts {} old and {} new lines, but {old} and {new} follow",
                    range.old_count, range.new_count
                );
                return Err(start.error(problem));
            }
            Ok(body)
        }
    }
}

fn counts(body: &Body) -> (usize, usize) {
    let old = body.lines().filter(|line| line.kind != LineKind::Add).count();
    let new = body.lines().filter(|line| line.kind != LineKind::Remove).count();
    (old, new)
}

fn take_counted(reader: &mut Reader, range: HunkRange) -> End {
    let (mut old, mut new) = (range.old_count, range.new_count);
    while old > 0 || new > 0 {
        let Some(line) = reader.peek() else { return End::Cut(old, new) };
        let (of_old, of_new) = match line {
            [b'-', ..] => (1, 0),
            [b'+', ..] => (0, 1),
            [b'\\', b' ', ..] => (0, 0),
            line if is_body_line(line) => (1, 1),
            _ => return End::Other,
        };
        if of_old > old || of_new > new {
            // Blank lines between the parts of a text are none of its lines.
            return End::Other;
        }
        (old, new) = (old - of_old, new - of_new);
        reader.skip();
    }
    if reader.peek().is_some_and(is_open_mark) {
        reader.skip();
    }
    let follows = reader.peek().unwrap_or(b"");
    let goes_on = matches!(follows, [b'+' | b'-' | b' ', ..])
        && !is_signature(follows)
        && !is_file_header(reader)
        && !is_blank(follows);
    if goes_on { End::Other } else { End::Right }
}

/// Reads all lines that can be part of a hunk, but blank ones at its end.
fn read_to_next_part(reader: &mut Reader) -> Body {
    let start = reader.at();
    let mut end = reader.clone();
    while let Some(line) = reader.peek() {
        let is_part = is_body_line(line) || (reader.at() > start && is_open_mark(line));
        if !is_part || is_signature(line) || is_file_header(reader) {
            break;
        }
        let is_filled = !line.is_empty();
        reader.skip();
        if is_filled {
            end = reader.clone();
        }
    }
    *reader = end;
    reader.body_from(start)
}

/// Returns whether the line is the one that begins what mail programs put at the end.
fn is_signature(line: &[u8]) -> bool {
    line == b"-- " || line == b"--"
}

/// Returns whether the names of another file follow.
pub(super) fn is_file_header(reader: &Reader) -> bool {
    let mut ahead = reader.clone();
    for begin in [&b"--- "[..], b"+++ ", b"@@"] {
        if !ahead.peek().is_some_and(|line| line.starts_with(begin)) {
            return false;
        }
        ahead.skip();
    }
    true
}

/// Reads `@@ -a,b +c,d @@`, as far as it says numbers.
fn parse_range(header: &[u8]) -> Option<HunkRange> {
    let rest = header.strip_prefix(b"@@ -")?;
    let (old_start, old_count, rest) = parse_numbers(rest)?;
    let rest = rest.strip_prefix(b" +")?;
    let (_, new_count, rest) = parse_numbers(rest)?;
    rest.strip_prefix(b" @@")?;
    Some(HunkRange { old_start: usize::try_from(old_start).ok()?, old_count, new_count })
}

pub(super) fn is_hunk_header(line: &[u8]) -> bool {
    parse_range(line).is_some()
}

/// Reads a number and, behind a comma, a count, which is 1 when it is not there.
fn parse_numbers(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = parse_number(text)?;
    match rest.strip_prefix(b",") {
        Some(rest) => parse_number(rest).map(|(count, rest)| (start, count, rest)),
        None => Some((start, 1, rest)),
    }
}

fn parse_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    // Line numbers are added to; none is larger than what memory could hold.
    (number <= u64::from(u32::MAX)).then_some((number, rest))
}

/// Returns the text after `@@` of a header without numbers; `None` if it has some that are wrong.
fn section_of(header: &[u8]) -> Option<&[u8]> {
    let rest = header.strip_prefix(b"@@")?;
    let text = rest.strip_prefix(b" ").unwrap_or(rest);
    let is_garbled = text.starts_with(b"-") && text.get(1).is_some_and(u8::is_ascii_digit);
    let text = text.strip_suffix(b"@@").unwrap_or(text).trim_ascii_end();
    let says_nothing = matches!(text, b"" | b"..." | b"-,+" | b"-0,0 +0,0");
    (!is_garbled).then_some(if says_nothing { b"" } else { text })
}
