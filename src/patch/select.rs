//! The hunks of a patch: named, shown, and taken or left one by one.
//!
//! `<file>.0` is what happens to a file as a whole: it comes, goes or moves. `<file>.1` and on
//! are its changes in order. Files count from 1. Pure. A change that is taken alone lands where
//! it would have landed with the others. Called by `tools/apply_patch.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::patch::{FileAction, FilePatch, Form, Patch, absolute};
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

/// Returns the patch with these hunks alone. One that is left out still finds its place where
/// others of its file are kept, because theirs may follow from it. The error says why they
/// cannot be taken alone.
pub(crate) fn narrow(mut patch: Patch, keep: &[HunkId]) -> Result<Patch, String> {
    check_sections(&patch, keep)?;
    let mut files = std::mem::take(&mut patch.files);
    let mut number = 0;
    files.retain_mut(|file| {
        number += 1;
        let is_kept = |place: usize| keep.contains(&HunkId(format!("{number}.{place}")));
        let parts = split(patch.form, file, number);
        let kept = parts.iter().filter(|part| keep.contains(&part.id)).count();
        let is_whole = kept == parts.len();
        if kept == 0 || is_whole {
            return is_whole;
        }
        if let FileAction::Update { move_to, chunks, .. } = &mut file.action {
            if !is_kept(0) {
                *move_to = None;
            }
            let refused = chunks.iter().zip(1..).filter(|(_, place)| !is_kept(*place));
            patch.left_out.extend(refused.map(|(chunk, _)| chunk.patch_line));
        }
        true
    });
    match files.is_empty() {
        true => Err("the user took no part of it".to_owned()),
        false => Ok(Patch { files, ..patch }),
    }
}

/// Refuses to take a file's sections in part where there are several: each changes what the
/// one before has left.
fn check_sections(patch: &Patch, keep: &[HunkId]) -> Result<(), String> {
    #[derive(Default)]
    struct Named {
        sections: usize,
        kept: usize,
        hunks: usize,
    }
    let mut all: BTreeMap<PathBuf, Named> = BTreeMap::new();
    for (file, number) in patch.files.iter().zip(1..) {
        let target = match &file.action {
            FileAction::Update { move_to, .. } => move_to.as_ref(),
            FileAction::Add { .. } | FileAction::Delete => None,
        };
        let parts = split(patch.form, file, number);
        let kept = parts.iter().filter(|part| keep.contains(&part.id)).count();
        for path in std::iter::once(&file.path).chain(target) {
            let named = all.entry(absolute(Path::new(""), path)).or_default();
            named.sections += 1;
            named.kept += kept;
            named.hunks += parts.len();
        }
    }
    let is_torn = |named: &Named| named.sections > 1 && named.kept > 0 && named.kept < named.hunks;
    match all.iter().find(|(_, named)| is_torn(named)) {
        Some((path, _)) => Err(format!(
            "the patch names {} in several places, which can only be taken or left together",
            path.display()
        )),
        None => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{apply, parse};

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

    /// Returns what a file holds after these hunks of a patch.
    fn apply_alone(text: &str, before: &str, keep: &[&str]) -> Result<String, String> {
        let patch = narrow(parse(text).unwrap(), &ids(keep))?;
        let files = patch.paths(Path::new("/")).into_iter().map(|path| {
            let is_there = path == Path::new("/f");
            (path, is_there.then(|| before.as_bytes().to_vec()))
        });
        let applied = apply(&patch, Path::new("/"), &files.collect());
        let mut writes = applied.map_err(|error| error.to_string())?.writes;
        let content = writes.remove(0).content.unwrap();
        Ok(String::from_utf8(content.to_bytes().into_owned()).unwrap())
    }

    #[test]
    fn all_hunks_are_the_patch_and_none_is_nothing() {
        let patch = parse(TEXT).unwrap();
        let all: Vec<HunkId> = hunks(&patch).into_iter().map(|hunk| hunk.id).collect();
        assert_eq!(narrow(patch.clone(), &all), Ok(patch.clone()));
        for none in [&[][..], &["9.9"]] {
            assert_eq!(
                narrow(patch.clone(), &ids(none)),
                Err("the user took no part of it".to_owned())
            );
        }
    }

    #[test]
    fn a_hunk_alone_lands_where_it_would_with_the_others() {
        let file = "fn a() {\n    old\n}\nfn b() {\n    old\n}\n";
        let chunks = |second: &str| {
            format!(
                "*** Begin Patch\n*** Update File: f\n@@\n-    old\n+    one\n@@{second}\n-    old\n+    two\n*** End Patch\n"
            )
        };
        let diff =
            "--- a/f\n+++ b/f\n@@ @@\n-    old\n+    one\n@@ @@\n-    old\n+    two\n".to_owned();
        for text in [chunks(""), chunks(" }"), diff] {
            let second = apply_alone(&text, file, &["1.2"]).unwrap();
            assert_eq!(second, "fn a() {\n    old\n}\nfn b() {\n    two\n}\n", "{text}");
            let first = apply_alone(&text, file, &["1.1"]).unwrap();
            assert_eq!(first, "fn a() {\n    one\n}\nfn b() {\n    old\n}\n", "{text}");
        }
    }

    #[test]
    fn one_that_depends_on_what_was_left_out_is_refused() {
        let twice = "*** Begin Patch\n*** Update File: f\n@@\n-x\n+y\n*** Update File: ./f\n@@\n-x\n+z\n*** End Patch\n";
        for keep in [["1.1"], ["2.1"]] {
            let why = apply_alone(twice, "x\nx\n", &keep).unwrap_err();
            assert!(why.contains("the patch names f in several places"), "{why}");
        }
        assert_eq!(apply_alone(twice, "x\nx\n", &["1.1", "2.1"]).unwrap(), "y\nz\n");
        // What is left out must fit all the same.
        let wrong = "*** Begin Patch\n*** Update File: f\n@@\n-gone\n@@\n-x\n+z\n*** End Patch\n";
        assert!(apply_alone(wrong, "x\n", &["1.2"]).is_err());
    }

    #[test]
    fn a_change_without_its_files_move_stays_where_it_is() {
        let patch = parse(TEXT).unwrap();
        let kept = narrow(patch.clone(), &ids(&["2.2"])).unwrap();
        let [file] = kept.files.as_slice() else { panic!("{kept:?}") };
        let FileAction::Update { move_to: None, chunks, .. } = &file.action else {
            panic!("{file:?}")
        };
        assert_eq!((chunks.len(), kept.left_out.as_slice()), (2, &[chunks[0].patch_line][..]));
        let moved = narrow(patch, &ids(&["2.0", "3.0"])).unwrap();
        let [file, _] = moved.files.as_slice() else { panic!("{moved:?}") };
        assert!(matches!(&file.action, FileAction::Update { move_to: Some(_), .. }));
        assert_eq!(moved.left_out.len(), 2);
    }

    #[test]
    fn the_parts_of_a_diff_have_names() {
        let diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n@@ -9 +9 @@ fn x\n-b\n+B\ndiff --git a/g b/h\nsimilarity index 50%\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-c\n+C";
        let patch = parse(diff).unwrap();
        let named: Vec<String> =
            hunks(&patch).into_iter().map(|hunk| hunk.id.to_string()).collect();
        assert_eq!(named, ["1.1", "1.2", "2.0"]);
    }
}
