//! The hunks of a patch: named, shown, and taken or left one by one.
//!
//! `<file>.0` is what happens to a file as a whole: it comes, goes or moves. `<file>.1` and on
//! are its changes in order. Files count from 1. Pure; a selection is again the text of a patch,
//! made of stretches of the first one, so it is judged and applied as any other. Called by
//! `tools/apply_patch.rs`.

use crate::patch::grammar::{BEGIN, END};
use crate::patch::{FileAction, FilePatch, Form, Patch};
use crate::protocol::{Hunk, HunkId};

/// A stretch of a file's part of the patch.
struct Part<'a> {
    id: HunkId,
    /// The lines that name the file.
    header: &'a [u8],
    /// The lines of this hunk; empty where the header says all.
    body: &'a [u8],
}

/// Returns every hunk in the order of the text, each with its file's header.
pub(crate) fn hunks(patch: &Patch) -> Vec<Hunk> {
    let files = patch.files.iter().zip(1..);
    let parts = files.flat_map(|(file, number)| {
        split(patch.form, file, number).into_iter().map(move |part| (file, part))
    });
    parts
        .map(|(file, Part { id, header, body })| {
            let mut text = Vec::with_capacity(header.len() + body.len());
            push_lines(&mut text, header);
            push_lines(&mut text, body);
            let text = String::from_utf8_lossy(&text).into_owned();
            Hunk { id, path: file.path.clone(), text }
        })
        .collect()
}

/// Returns the text of a patch of these hunks alone; `None` when nothing is left of it, or what
/// is left is no text.
pub(crate) fn select(patch: &Patch, keep: &[HunkId]) -> Option<String> {
    let mut text = Vec::new();
    for (file, number) in patch.files.iter().zip(1..) {
        let parts = split(patch.form, file, number).into_iter();
        for (place, part) in parts.filter(|part| keep.contains(&part.id)).enumerate() {
            if place == 0 {
                push_lines(&mut text, part.header);
            }
            push_lines(&mut text, part.body);
        }
    }
    if text.is_empty() {
        return None;
    }
    let text = String::from_utf8(text).ok()?;
    Some(match patch.form {
        Form::Unified => text,
        // The first line tells whose the CR at the end of each line is.
        Form::Chunks if has_own_crs(patch) => format!("{BEGIN}\r\n{text}{END}\r\n"),
        Form::Chunks => format!("{BEGIN}\n{text}{END}\n"),
    })
}

/// Returns a file's hunks.
fn split(form: Form, file: &FilePatch, number: usize) -> Vec<Part<'_>> {
    let id = |place: usize| HunkId(format!("{number}.{place}"));
    let whole = || vec![Part { id: id(0), header: &file.text, body: b"" }];
    let FileAction::Update { move_to, chunks, .. } = &file.action else { return whole() };
    // In a diff, what happens to the whole file cannot be told from its header.
    let is_more = move_to.is_some() || file.executable.is_some();
    if chunks.is_empty() || (form == Form::Unified && is_more) {
        return whole();
    }
    let starts: Vec<usize> =
        chunks.iter().map(|chunk| chunk.patch_line.saturating_sub(file.patch_line)).collect();
    let mut stretches = cut_at_lines(&file.text, &starts).into_iter();
    let mut header = stretches.next().unwrap_or_default();
    let mut parts = Vec::new();
    if move_to.is_some() {
        let (name, target) = header.split_at(end_of_line(header));
        header = name;
        parts.push(Part { id: id(0), header, body: target });
    }
    parts.extend(stretches.zip(1..).map(|(body, place)| Part { id: id(place), header, body }));
    parts
}

/// Cuts a text before each of these lines, which count from 0 and rise.
fn cut_at_lines<'a>(text: &'a [u8], lines: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts = Vec::with_capacity(lines.len() + 1);
    let (mut from, mut at, mut line) = (0, 0, 0);
    for wanted in lines {
        while line < *wanted && at < text.len() {
            at += end_of_line(text.get(at..).unwrap_or_default());
            line += 1;
        }
        cuts.push(text.get(from..at).unwrap_or_default());
        from = at;
    }
    cuts.push(text.get(from..).unwrap_or_default());
    cuts
}

/// Returns where the line after the first one begins.
fn end_of_line(text: &[u8]) -> usize {
    memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1)
}

fn push_lines(text: &mut Vec<u8>, lines: &[u8]) {
    text.extend_from_slice(lines);
    if lines.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
}

fn has_own_crs(patch: &Patch) -> bool {
    patch.files.iter().any(|file| match &file.action {
        FileAction::Add { content } => content.is_crlf,
        FileAction::Delete => false,
        FileAction::Update { chunks, .. } => chunks.iter().any(|chunk| chunk.body.is_crlf),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::parse;

    const TEXT: &str = "*** Begin Patch\n*** Add File: new\n+one\n*** Update File: a\n*** Move to: b\n@@ fn x\n-old\n+new\n@@\n keep\n+more\n*** End of File\n*** Delete File: gone\n*** End Patch\n";

    fn ids(names: &[&str]) -> Vec<HunkId> {
        names.iter().map(|name| HunkId::from(*name)).collect()
    }

    #[test]
    fn every_hunk_has_a_name_and_its_file() {
        let shown: Vec<String> = hunks(&parse(TEXT).unwrap())
            .into_iter()
            .map(|hunk| format!("{} {} {:?}", hunk.id, hunk.path.display(), hunk.text))
            .collect();
        assert_eq!(
            shown,
            [
                r#"1.0 new "*** Add File: new\n+one\n""#,
                r#"2.0 a "*** Update File: a\n*** Move to: b\n""#,
                r#"2.1 a "*** Update File: a\n@@ fn x\n-old\n+new\n""#,
                r#"2.2 a "*** Update File: a\n@@\n keep\n+more\n*** End of File\n""#,
                r#"3.0 gone "*** Delete File: gone\n""#,
            ]
        );
    }

    #[test]
    fn all_hunks_are_the_patch_and_none_is_nothing() {
        let patch = parse(TEXT).unwrap();
        let all: Vec<HunkId> = hunks(&patch).into_iter().map(|hunk| hunk.id).collect();
        assert_eq!(select(&patch, &all).as_deref(), Some(TEXT));
        assert_eq!(select(&patch, &[]), None);
        assert_eq!(select(&patch, &ids(&["9.9"])), None);
    }

    #[test]
    fn a_change_without_its_files_move_stays_where_it_is() {
        let patch = parse(TEXT).unwrap();
        let kept = select(&patch, &ids(&["2.2"])).unwrap();
        let expected = "*** Begin Patch\n*** Update File: a\n@@\n keep\n+more\n*** End of File\n*** End Patch\n";
        assert_eq!(kept, expected);
        let moved = select(&patch, &ids(&["2.0", "3.0"])).unwrap();
        let expected = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: gone\n*** End Patch\n";
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_diff_is_taken_in_part_by_its_own_lines() {
        let diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n@@ -9 +9 @@ fn x\n-b\n+B\ndiff --git a/g b/h\nsimilarity index 50%\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-c\n+C";
        let patch = parse(diff).unwrap();
        let named: Vec<String> =
            hunks(&patch).into_iter().map(|hunk| hunk.id.to_string()).collect();
        assert_eq!(named, ["1.1", "1.2", "2.0"]);
        let kept = select(&patch, &ids(&["1.2"])).unwrap();
        let expected = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -9 +9 @@ fn x\n-b\n+B\n";
        assert_eq!(kept, expected);
        assert_eq!(parse(&kept).unwrap().files.len(), 1);
        let all = select(&patch, &ids(&["1.1", "1.2", "2.0"])).unwrap();
        assert_eq!(all, format!("{diff}\n"));
    }

    #[test]
    fn a_selection_means_what_its_patch_meant() {
        let wrapped = "cd sub && apply_patch <<'EOF'\n*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-x\r\n+y\r\n@@\r\n-v\r\n+w\r\n*** End Patch\r\nEOF\n";
        let patch = parse(wrapped).unwrap();
        let kept = parse(&select(&patch, &ids(&["1.2"])).unwrap()).unwrap();
        let chunk = |patch: &Patch, at: usize| match &patch.files[0].action {
            FileAction::Update { chunks, .. } => chunks[at].body.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(chunk(&kept, 0), chunk(&patch, 1));
        assert_eq!(patch.workdir.as_deref(), Some("sub"));
        assert_eq!(kept.workdir, None);
    }
}
