//! Properties of patches that no table can hold, and what hostile ones may cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::patch::apply::{apply_within, budget_for};
use crate::patch::index::Budget;
use crate::patch::tests::{BASE, Tree, run, shown};
use crate::patch::{FileAction, LineKind, PatchError, parse};
use crate::text::diff::unified_bytes;

/// Bytes that make lines, and now and then anything.
fn any_bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => Just(b'\n'),
        2 => Just(b'\r'),
        4 => prop::sample::select(&b"ab -+@\\"[..]),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..max)
}

/// Two files that share most of their lines.
fn two_files() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let change = (any::<prop::sample::Index>(), 0..4_usize, any_bytes(12));
    (any_bytes(160), prop::collection::vec(change, 0..5)).prop_map(|(old, changes)| {
        let mut new = old.clone();
        for (at, gone, come) in changes {
            let at = at.index(new.len() + 1);
            let end = new.len().min(at + gone);
            new.splice(at..end, come);
        }
        (old, new)
    })
}

fn tree_of(bytes: &[u8]) -> Tree {
    Tree::from([(PathBuf::from("f"), bytes.to_vec())])
}

/// Renders the difference of two texts as chunks.
fn chunks_of(old: &str, new: &str) -> String {
    let diff = String::from_utf8(unified_bytes(old.as_bytes(), new.as_bytes(), "f", "f")).unwrap();
    let mut text = String::new();
    for line in diff.lines().skip(2) {
        if line.starts_with("@@") {
            text.push_str("@@\n");
        } else if !line.starts_with('\\') {
            let _ = writeln!(text, "{line}");
        }
    }
    format!("*** Begin Patch\n*** Update File: f\n{text}*** End Patch\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_diff_of_any_bytes_makes_the_one_the_other((old, new) in two_files()) {
        prop_assume!(old != new);
        let diff = unified_bytes(&old, &new, "a/f", "b/f");
        let after = run(&diff, &tree_of(&old)).map(|tree| shown(&tree));
        prop_assert_eq!(after, Ok(shown(&tree_of(&new))), "{}", String::from_utf8_lossy(&diff));
    }

    #[test]
    fn a_diff_makes_and_deletes_any_file(content in any_bytes(80)) {
        prop_assume!(!content.is_empty());
        let made = run(unified_bytes(b"", &content, "/dev/null", "b/f"), &Tree::new());
        prop_assert_eq!(made.map(|tree| shown(&tree)), Ok(shown(&tree_of(&content))));
        let deleted = run(unified_bytes(&content, b"", "a/f", "/dev/null"), &tree_of(&content));
        prop_assert_eq!(deleted, Ok(Tree::new()));
    }

    /// Lines that all differ leave no doubt about the place, so the text comes out whole.
    #[test]
    fn chunks_make_the_one_text_the_other(
        count in 1..40_usize,
        changes in prop::collection::vec((0..40_usize, 0..3_usize, 0..3_usize), 1..6),
        is_open: bool,
        crlf: bool,
    ) {
        let mut lines: Vec<String> = (0..count).map(|at| format!("line {at}")).collect();
        let file = |lines: &[String]| {
            let end = if crlf { "\r\n" } else { "\n" };
            let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
            let ended = if is_open { text.strip_suffix(end).unwrap_or(&text) } else { &text };
            ended.to_owned()
        };
        let old = file(&lines);
        for (number, (at, gone, come)) in changes.into_iter().enumerate() {
            let at = at % (lines.len() + 1);
            let end = lines.len().min(at + gone);
            lines.splice(at..end, (0..come).map(|line| format!("new {number} {line}")));
        }
        let new = file(&lines);
        // Where the last line goes and none comes in its place, the one above keeps its end.
        let last_goes = old.lines().last().is_some_and(|last| !new.lines().any(|it| it == last));
        let last_comes = new.lines().last().is_some_and(|last| last.starts_with("new"));
        // A file of one line that nothing ends does not show how its lines end.
        prop_assume!(!crlf || old.contains('\r'));
        prop_assume!(old != new && !new.is_empty() && !(is_open && last_goes && !last_comes));
        let patch = chunks_of(&old.replace('\r', ""), &new.replace('\r', ""));
        let after = run(&patch, &tree_of(old.as_bytes())).map(|tree| shown(&tree));
        prop_assert_eq!(after, Ok(shown(&tree_of(new.as_bytes()))), "{}", patch);
    }

    #[test]
    fn no_text_and_no_bytes_panic(
        body in "(?s)((\\*\\*\\* (Add File|Delete File|Update File|Move to): ?[ab]?|\\*\\*\\* End of File|@@ ?[ab]?|[ +-][ab]?|.{0,3})\r?\n){0,12}",
        bytes in any_bytes(40),
    ) {
        let _ = parse(&body);
        let before = Tree::from([("a".into(), bytes.clone()), ("b".into(), bytes)]);
        let _ = run(format!("*** Begin Patch\n{body}*** End Patch"), &before);
    }

    #[test]
    fn no_diff_and_no_bytes_panic(
        body in "(?s)((diff --git a/[ab] b/[ab]|--- (a/a|/dev/null)|\\+\\+\\+ (b/[ab]|/dev/null)|@@ -[0-9](,[0-9])? \\+[0-9] @@|rename (from|to) [ab]|(old|new|deleted file|new file) mode 100(644|755)|[ +-][ab]?|\\\\ No|-- |.{0,3})\r?\n){0,14}",
        bytes in any_bytes(40),
    ) {
        let before = Tree::from([("a".into(), bytes.clone()), ("b".into(), bytes)]);
        let _ = run(&body, &before);
        let _ = run(format!("--- a/a\n+++ b/a\n@@ -1 +1 @@\n{body}"), &before);
    }

    /// One line in the middle of arbitrary bytes is replaced; all others keep every byte.
    #[test]
    fn untouched_bytes_stay(above in any_bytes(60), below in any_bytes(60), crlf: bool) {
        let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
        let wrap = |middle: &str| {
            [&above, &b"\n"[..], middle.as_bytes(), end, &below].concat()
        };
        let text = "*** Begin Patch\n*** Update File: f\n-a line to find\n+instead\n*** End Patch";
        let after = run(text, &tree_of(&wrap("a line to find"))).unwrap();
        prop_assert_eq!(&after[Path::new("f")], &wrap("instead"));
    }
}

#[derive(Debug, Clone)]
struct TestLine(LineKind, String);

fn few_lines(max: usize) -> impl Strategy<Value = Vec<TestLine>> {
    let line = prop_oneof![
        3 => "[a-f]".prop_map(|text| TestLine(LineKind::Context, text)),
        3 => "[a-f]".prop_map(|text| TestLine(LineKind::Remove, text)),
        2 => "[a-g]".prop_map(|text| TestLine(LineKind::Add, text)),
    ];
    prop::collection::vec(line, 1..max)
}

fn render_lines(lines: &[TestLine]) -> String {
    let sign = |kind| match kind {
        LineKind::Context => ' ',
        LineKind::Remove => '-',
        LineKind::Add => '+',
    };
    lines.iter().map(|TestLine(kind, text)| format!("{}{text}\n", sign(*kind))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Sections of one file do what as many patches do, one after the other.
    #[test]
    fn sections_are_patches_in_a_row(
        file in "([a-f ]|[a-f]{1,2}\r?|[g-z])(\n([a-f] ?|[g-z]|[a-f]{2}\r?)){4,30}\n?",
        sections in prop::collection::vec(
            (prop::option::of("[a-f]"), few_lines(4), 0..12_usize, any::<bool>()), 1..6),
    ) {
        let lines: Vec<&str> = file.lines().collect();
        let sections: Vec<String> = sections.into_iter().map(|(anchor, chunk, at, fits)| {
            // Half of them take lines that the file has, so that many do fit.
            let old = lines[(at * 3) % lines.len()].trim_end();
            let anchor = anchor.map_or("@@\n".to_owned(), |anchor| format!("@@ {anchor}\n"));
            let chunk = if fits {
                let line = |kind, text: String| TestLine(kind, text);
                vec![line(LineKind::Remove, old.to_owned()), line(LineKind::Add, format!("{old}{at}"))]
            } else {
                chunk
            };
            format!("*** Update File: a\n{anchor}{}", render_lines(&chunk))
        }).collect();
        let frame = |body: &str| format!("*** Begin Patch\n{body}*** End Patch\n");
        let before = Tree::from([(PathBuf::from("a"), file.clone().into_bytes())]);
        let mut one_by_one = Ok(before.clone());
        // What does not fit is left out, or hardly a patch would come to its end.
        let mut fitting = String::new();
        for section in &sections {
            let Ok(tree) = &one_by_one else { break };
            if let Ok(next) = run(frame(section), tree) {
                one_by_one = Ok(next);
                fitting.push_str(section);
            } else {
                let all = run(frame(&format!("{fitting}{section}")), &before);
                prop_assert!(all.is_err());
            }
        }
        if !fitting.is_empty() {
            let at_once = run(frame(&fitting), &before).map(|tree| shown(&tree));
            prop_assert_eq!(at_once, one_by_one.map(|tree| shown(&tree)));
        }
    }
}

// ---- What a patch costs, in steps.

/// Applies a patch to one file and returns what it holds after, and how many steps that took.
fn run_for_steps(text: &str, file: &str) -> (Result<String, PatchError>, usize) {
    let base = Path::new(BASE);
    let patch = parse(text).unwrap();
    let files = BTreeMap::from([(base.join("a"), Some(file.as_bytes()))]);
    let budget = budget_for(&patch, &files);
    let granted = budget.left();
    let applied = apply_within(&patch, base, &files, &budget);
    let content = applied.map(|applied| {
        assert_eq!(applied.writes.len(), 1);
        let content = applied.writes[0].content.as_ref().unwrap();
        String::from_utf8(content.to_bytes().into_owned()).unwrap()
    });
    (content, granted - budget.left())
}

fn frame(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

/// Returns a file of 1,000 functions of 100 lines, and the same with one line changed in each.
fn large_file(signature: impl Fn(usize) -> String) -> (String, String) {
    let text = |value: &str| -> String {
        let filler: String = (0..98).map(|line| format!("    step({line})\n")).collect();
        let function = |at: usize| {
            let value = value.replace('#', &at.to_string());
            format!("{}\n{filler}    return {value}\n", signature(at))
        };
        (0..1_000).map(function).collect()
    };
    (text("old_#"), text("new_#"))
}

#[test]
fn a_large_honest_patch_takes_few_steps_per_line() {
    let named = |at| format!("def fn_{at}(a, b):");
    let (before, after) = large_file(named);
    let changes = |head: &dyn Fn(usize) -> String| -> String {
        let change = |at| format!("{}-    return old_{at}\n+    return new_{at}\n", head(at));
        (0..1_000).map(change).collect()
    };
    let one_section = |body: String| frame(&format!("*** Update File: a\n{body}"));
    let sections = changes(&|_| "*** Update File: a\n".to_owned());
    let upwards: Vec<&str> = sections.split("*** Update File: a\n").skip(1).collect();
    let upwards: String =
        upwards.iter().rev().map(|change| format!("*** Update File: a\n{change}")).collect();
    let diff = unified_bytes(before.as_bytes(), after.as_bytes(), "a/a", "b/a");
    let lines = 100_000;
    for (text, per_line) in [
        (String::from_utf8(diff).unwrap(), 2),
        (one_section(changes(&|_| "@@\n".to_owned())), 10),
        (one_section(changes(&|at| format!("@@ def fn_{at}\n"))), 60),
        (frame(&sections), 20),
        (frame(&upwards), 20),
        (frame(&changes(&|at| format!("*** Update File: a\n@@ def fn_{at}(\n"))), 60),
        (
            frame(&changes(&|at| {
                format!("*** Update File: ./a\n@@ def fn_{at}(a, b):\n     step(97)\n")
            })),
            60,
        ),
    ] {
        let (found, steps) = run_for_steps(&text, &before);
        assert!(found.as_ref() == Ok(&after), "{:.300}", format!("{found:?}"));
        assert!(steps < per_line * lines, "{steps} steps for {text:.80}");
    }
    let (before, after) =
        large_file(|at| if at == 0 { "class Big(Base):".into() } else { named(at) });
    let (found, steps) =
        run_for_steps(&one_section(changes(&|_| "@@ class Big\n".to_owned())), &before);
    assert!(found.as_ref() == Ok(&after), "{:.300}", format!("{found:?}"));
    assert!(steps < 40 * lines, "{steps} steps");
}

#[test]
fn thousands_of_sections_of_a_file_of_equal_lines_are_done() {
    let file = "x\n".repeat(100_000);
    for (section, after) in [
        ("-x\n+x\n", file.clone()),
        ("-x\n+y\n", { format!("{}{}", "y\n".repeat(5_000), "x\n".repeat(95_000)) }),
    ] {
        let text = frame(&format!("*** Update File: a\n{section}").repeat(5_000));
        let (found, steps) = run_for_steps(&text, &file);
        assert!(found.as_ref() == Ok(&after), "{:.300}", format!("{found:?}"));
        assert!(steps < 40_000_000, "{steps} steps for {section:?}");
    }
}

#[test]
fn a_chunk_that_nearly_fits_everywhere_takes_a_few_steps_per_line() {
    let file = "x\ny\n".repeat(50_000);
    let nearly = " x\n y\n".repeat(5_000);
    let mixed = format!("{}y\n", "x\n".repeat(5_000)).repeat(20);
    let table = [
        // The first fits nowhere, as two lines in a row are nowhere equal.
        (format!("{nearly} x\n-x\n"), &file, false),
        (format!("{nearly}-x\n"), &file, true),
        (format!("{}-y\n", " x\n".repeat(5_001)), &mixed, false),
        (format!("{}-y\n", " x\n".repeat(5_000)), &mixed, true),
        (format!("{}-x\n+z\n*** End of File\n", " x\n".repeat(4_000)), &mixed, true),
    ];
    for (body, file, fits) in table {
        let (found, steps) = run_for_steps(&frame(&format!("*** Update File: a\n{body}")), file);
        assert_eq!(found.is_ok(), fits, "{:.100}", format!("{found:?}"));
        assert!(steps < 2_500_000, "{steps} steps for {body:.20}");
    }
}

#[test]
fn a_patch_that_takes_too_many_steps_ends_with_an_error() {
    let line = "x".repeat(60);
    let file = format!("{line}\n").repeat(2_000);
    // Every anchor is the beginning of every line but no word of it, and each is another one.
    let anchors: String = (1..30).map(|count| format!("@@ {}\n", "x".repeat(count))).collect();
    let near = format!(" {line}\n").repeat(500);
    for body in [
        format!("*** Update File: a\n{anchors}-{line}\n").repeat(50),
        format!("*** Update File: a\n{near}-{line}\n+{line}\n").repeat(3_000),
    ] {
        let base = Path::new(BASE);
        let patch = parse(&frame(&body)).unwrap();
        let files = BTreeMap::from([(base.join("a"), Some(file.as_bytes()))]);
        let found = apply_within(&patch, base, &files, &Budget::new(100_000));
        let is_bounded =
            matches!(found, Err(PatchError::TooCostly { .. } | PatchError::NoAnchor { .. }));
        assert!(is_bounded, "{:.200}", format!("{found:?}"));
    }
}

#[test]
fn a_patch_of_a_hundred_thousand_hunks_is_read_and_done() {
    let file: String = (0..100_000).map(|at| format!("line {at}\n")).collect();
    let hunks: String = (0..100_000).map(|at| format!("@@\n-line {at}\n+row {at}\n")).collect();
    let (found, steps) = run_for_steps(&frame(&format!("*** Update File: a\n{hunks}")), &file);
    assert_eq!(found.map(|text| text.len()), Ok(file.len() - 100_000));
    assert!(steps < 12_000_000, "{steps} steps");
}

#[test]
fn two_thousand_files_are_changed() {
    let names: Vec<PathBuf> = (0..2_000).map(|at| PathBuf::from(format!("dir/file{at}"))).collect();
    let before: Tree = names.iter().map(|name| (name.clone(), b"old\n".to_vec())).collect();
    let change = |name: &PathBuf| format!("*** Update File: {}\n-old\n+new\n", name.display());
    let body: String = names.iter().map(change).collect();
    let after = run(frame(&body), &before).unwrap();
    assert!(after.len() == 2_000 && after.values().all(|bytes| bytes == b"new\n"));
}

#[test]
fn what_is_too_large_is_refused_before_it_is_kept() {
    let anchors = "@@ a\n".repeat(100);
    let text = frame(&format!("*** Update File: a\n{anchors}-x\n"));
    assert!(matches!(parse(&text), Err(PatchError::Syntax { line: 35, .. })), "{:?}", parse(&text));
    let long = format!("*** Add File: {}\n+x\n", "a/".repeat(2_500));
    assert!(matches!(parse(&frame(&long)), Err(PatchError::Syntax { line: 2, .. })));
    let sections = "*** Delete File: a\n".repeat(200_001);
    assert!(matches!(parse(&frame(&sections)), Err(PatchError::Syntax { .. })));
}

#[test]
fn a_chunk_remembers_its_lines_without_copying_them() {
    let text = frame("*** Update File: a\n-x\n+y\n");
    let patch = parse(&text).unwrap();
    let FileAction::Update { chunks, .. } = &patch.files[0].action else { panic!("no update") };
    let kinds: Vec<_> = chunks[0].body.lines().map(|line| (line.kind, line.text)).collect();
    assert_eq!(kinds, [(LineKind::Remove, &b"x"[..]), (LineKind::Add, b"y")]);
}
