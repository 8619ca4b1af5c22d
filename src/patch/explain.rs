//! Says why a chunk has no place, and what in the file nearly is one, so that the next try fits.
//!
//! Only for messages; never decides where a patch lands. Bounded in work and in size. Called
//! by `apply.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use similar::{Algorithm, ChangeTag, capture_diff_slices};

use crate::patch::chunk::{Chunk, ChunkLine, LineKind};
use crate::patch::find::{Cursor, Finder, Miss, Wanted};
use crate::patch::level::fold;
use crate::patch::lines::Lines;
use crate::patch::{FilePatch, PatchError};

/// Lines of a chunk that are looked for once more.
const LINES_LOOKED_FOR_MAX: usize = 10_000;

/// Lines shown of what was looked for, and of the nearest place.
const LINES_SHOWN_MAX: usize = 12;

/// Lines of the file shown beside as many as were looked for.
const LINES_BETWEEN_MAX: usize = 3;

/// Characters shown of one line.
const LINE_CHARS_MAX: usize = 160;

/// Characters shown of a long line before the first one that differs.
const LEAD_CHARS: usize = 40;

/// Lines of the chunk whose places are counted.
const LINES_COUNTED_MAX: usize = 64;

/// Places of one line that are counted: one that is everywhere says nothing.
const PLACES_COUNTED_MAX: usize = 1_000;

/// Lines of the file that are compared letter by letter.
const LINES_COMPARED_MAX: usize = 1_000_000;

/// Returns the error for a chunk that has no place.
pub(super) fn explain(
    lines: &Lines<'_>,
    file: &FilePatch,
    (chunk, number): (&Chunk, usize),
    miss: Miss,
) -> PatchError {
    let (path, patch_line) = (file.path.clone(), chunk.patch_line);
    let old = || chunk.body.lines().filter(ChunkLine::is_old).map(|line| line.text);
    let old_count = old().count();
    let old: Vec<&[u8]> = old().take(LINES_LOOKED_FOR_MAX).collect();
    match miss {
        Miss::Short(line_count) => {
            let named = chunk.named_line.unwrap_or(0);
            let problem = format!(
                "chunk {number} adds lines below line {named}, but the file has {}",
                plural(line_count, "line")
            );
            PatchError::Refused { path, patch_line, problem }
        }
        Miss::Anchor(index, from) => {
            let anchor = chunk.anchors.get(index).map_or(&b""[..], |anchor| anchor);
            let above = stands_at(lines, &[anchor]).filter(|at| *at < from);
            let nearest = match above {
                Some(at) => {
                    format!("\nIt is at line {}, above that; chunks go in file order.", at + 1)
                }
                None => render_nearest(lines, &[anchor]),
            };
            PatchError::NoAnchor {
                path,
                chunk: number,
                patch_line,
                place: below(from),
                anchor: clipped(anchor, 0),
                nearest,
            }
        }
        Miss::Text(from) => {
            let above = (old_count == old.len()).then(|| stands_at(lines, &old)).flatten();
            let above = above.filter(|at| *at < from);
            let place = match above {
                Some(at) => format!(
                    " after line {from} (they are at line {}; chunks go in file order)",
                    at + 1
                ),
                None => below(from),
            };
            let lost = chunk.body.lost_blanks;
            let nearest = match (above, made_already(lines, chunk)) {
                _ if lost > 0 => format!(
                    "\nThe text ends {} before the hunk's header says; is the diff cut off?",
                    plural(lost, "line")
                ),
                (Some(_), _) => String::new(),
                (None, Some(at)) => {
                    let shown = at + 1;
                    format!("\nWhat the chunk would make is there already, at line {shown}.")
                }
                (None, None) => render_nearest(lines, &old),
            };
            let wanted = render_wanted(&old, old_count);
            PatchError::NoMatch { path, chunk: number, patch_line, place, wanted, nearest }
        }
    }
}

fn below(from: usize) -> String {
    if from == 0 { String::new() } else { format!(" after line {from}") }
}

pub(super) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn stands_at(lines: &Lines<'_>, texts: &[&[u8]]) -> Option<usize> {
    let wanted: Vec<Wanted<'_>> = texts.iter().map(|text| Wanted::anchor(text)).collect();
    if wanted.is_empty() {
        return None;
    }
    Finder::new(lines, Cursor::default()).first_place(&wanted, 0)
}

/// Returns where the file has what the chunk would make, if that says anything.
fn made_already(lines: &Lines<'_>, chunk: &Chunk) -> Option<usize> {
    let new = || chunk.body.lines().filter(|line| line.kind != LineKind::Remove);
    let telling = |line: ChunkLine<'_>| line.kind == LineKind::Add && fold(line.text).len() > 2;
    let texts: Vec<&[u8]> = new().map(|line| line.text).take(LINES_LOOKED_FOR_MAX).collect();
    let is_whole = texts.len() < LINES_LOOKED_FOR_MAX;
    (is_whole && new().any(telling)).then(|| stands_at(lines, &texts)).flatten()
}

/// Returns the lines that were looked for, indented.
fn render_wanted(wanted: &[&[u8]], count: usize) -> String {
    let mut text = String::new();
    for line in wanted.iter().take(LINES_SHOWN_MAX) {
        let _ = writeln!(text, "    {}", clipped(line, 0));
    }
    if count > LINES_SHOWN_MAX {
        let _ = writeln!(text, "    … {} more lines", count - LINES_SHOWN_MAX);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Returns the most similar place as a short diff, or nothing when none is similar.
fn render_nearest(lines: &Lines<'_>, wanted: &[&[u8]]) -> String {
    if lines.len() == 0 {
        return "\nThe file is empty.".to_owned();
    }
    let nearest = nearest_by_lines(lines, wanted).or_else(|| nearest_by_letters(lines, wanted));
    let Some(start) = nearest else { return String::new() };
    let wanted = wanted.get(..wanted.len().min(LINES_SHOWN_MAX)).unwrap_or(wanted);
    // Lines that the file has between them are part of the place.
    let diffs = [0, LINES_BETWEEN_MAX].map(|between| {
        let end = (start + wanted.len() + between).min(lines.len());
        let there: Vec<&[u8]> = (start..end).map(|at| lines.text(at)).collect();
        short_diff(wanted, &there)
    });
    let changed = |diff: &Vec<(char, String)>| diff.iter().filter(|(sign, _)| *sign != ' ').count();
    let diff = diffs.into_iter().min_by_key(changed).unwrap_or_default();
    let mut text = format!(
        "\nThe nearest place is at line {} (`-` is in the patch, `+` in the file):",
        start + 1
    );
    for (sign, line) in diff {
        let _ = write!(text, "\n    {sign}{line}");
    }
    text
}

/// Returns the lines of a diff; such as the file has below the place are left out.
fn short_diff(wanted: &[&[u8]], there: &[&[u8]]) -> Vec<(char, String)> {
    let keys = |lines: &[&[u8]]| lines.iter().map(|line| fold(line).into_owned()).collect();
    let (old, new): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (keys(wanted), keys(there));
    let operations = capture_diff_slices(Algorithm::Myers, &old, &new);
    let changes: Vec<_> =
        operations.iter().flat_map(|operation| operation.iter_changes(&old, &new)).collect();
    let mut shown = Vec::new();
    let mut there_shown = 0;
    for change in &changes {
        let from = |lines: &[&[u8]], index: Option<usize>| {
            let line = index.and_then(|at| lines.get(at)).copied().unwrap_or(b"");
            let other = index.and_then(|at| {
                if lines.len() == wanted.len() { there.get(at) } else { wanted.get(at) }
            });
            clipped(line, other.map_or(0, |other| shared_head(line, other)))
        };
        let (old_at, new_at) = (change.old_index(), change.new_index());
        shown.push(match change.tag() {
            ChangeTag::Equal => (' ', from(there, new_at)),
            ChangeTag::Delete => ('-', from(wanted, old_at)),
            ChangeTag::Insert => ('+', from(there, new_at)),
        });
        there_shown += usize::from(change.tag() != ChangeTag::Delete);
    }
    while there_shown > wanted.len() && shown.last().is_some_and(|(sign, _)| *sign == '+') {
        shown.pop();
        there_shown -= 1;
    }
    shown
}

/// Returns the start that has most of the wanted lines where they should be.
fn nearest_by_lines(lines: &Lines<'_>, wanted: &[&[u8]]) -> Option<usize> {
    let mut alike: BTreeMap<usize, usize> = BTreeMap::new();
    for (offset, text) in wanted.iter().enumerate().take(LINES_COUNTED_MAX) {
        // Lines such as `}` are everywhere and say nothing.
        if fold(text).len() < 2 {
            continue;
        }
        let hash = Wanted::anchor(text).hash();
        let mut next = lines.next_with(hash, 0);
        for _ in 0..PLACES_COUNTED_MAX {
            let Some(at) = next else { break };
            if let Some(start) = at.checked_sub(offset) {
                *alike.entry(start).or_default() += 1;
            }
            next = lines.next_with(hash, at + 1);
        }
    }
    let best = alike.into_iter().max_by_key(|(start, count)| (*count, std::cmp::Reverse(*start)));
    best.map(|(start, _)| start)
}

/// Returns the place whose line shares most letters with the longest of the wanted lines.
fn nearest_by_letters(lines: &Lines<'_>, wanted: &[&[u8]]) -> Option<usize> {
    let longest = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim_ascii().len());
    let (offset, longest) = longest.map(|(offset, line)| (offset, fold(line)))?;
    let (score, at) = (0..lines.len().min(LINES_COMPARED_MAX))
        .map(|at| (shared_letters(&longest, &fold(lines.text(at))), at))
        .max_by_key(|&(score, at)| (score, std::cmp::Reverse(at)))?;
    (score > 0 && score * 2 >= longest.len()).then(|| at.saturating_sub(offset))
}

/// Returns how many bytes two lines share at their beginning and at their end.
fn shared_letters(left: &[u8], right: &[u8]) -> usize {
    let shorter = left.len().min(right.len());
    let head = shared_head(left, right);
    let ends = left.iter().rev().zip(right.iter().rev());
    head + ends.take(shorter - head).take_while(|(a, b)| a == b).count()
}

fn shared_head(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

/// Returns a line to show: where it is too long, the part around the first byte that differs.
fn clipped(line: &[u8], differs_at: usize) -> String {
    let line_text = String::from_utf8_lossy(line);
    let chars = line_text.chars().count();
    if chars <= LINE_CHARS_MAX {
        return line_text.into_owned();
    }
    let before = line.get(..differs_at).unwrap_or(line);
    let before = String::from_utf8_lossy(before).chars().count();
    let skipped = match before + LEAD_CHARS > LINE_CHARS_MAX {
        true => before.saturating_sub(LEAD_CHARS).min(chars - LINE_CHARS_MAX),
        false => 0,
    };
    let mut shown = String::new();
    shown.push_str(if skipped > 0 { "…" } else { "" });
    shown.extend(line_text.chars().skip(skipped).take(LINE_CHARS_MAX));
    shown.push_str(if skipped + LINE_CHARS_MAX < chars { "…" } else { "" });
    shown
}
