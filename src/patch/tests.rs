//! Runs `tests/fixtures/patch/*` and holds the properties that no table can.
//!
//! A case is a folder: `patch.txt`, the files before in `input/`, and either the files after
//! in `expected/` or the message in `error.txt`. A case without files may lack `input/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::patch::apply::{apply_within, budget_for};
use crate::patch::detect::Found;
use crate::patch::render::render_file;
use crate::patch::{
    Chunk, ChunkLine, FileAction, FilePatch, Patch, PatchError, apply, detect, parse,
};
use crate::protocol::{ChangeKind, CommandLine};

const BASE: &str = "/project";

type Tree = BTreeMap<PathBuf, Vec<u8>>;

#[test]
fn every_fixture_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/patch");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 45, "only {} cases were found", cases.len());
    for case in cases {
        let text = fs::read_to_string(case.join("patch.txt"))
            .unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        let before = read_tree(&case.join("input"));
        match (run(&text, &before), case.join("error.txt").exists()) {
            (Err(error), _) => {
                expect_test::expect_file![case.join("error.txt")].assert_eq(&format!("{error}\n"));
                assert!(!case.join("expected").exists(), "{} has two ends", case.display());
            }
            (Ok(after), false) => {
                let expected = read_tree(&case.join("expected"));
                assert_eq!(shown(&after), shown(&expected), "{}", case.display());
            }
            (Ok(after), true) => panic!("{} did not fail: {:?}", case.display(), shown(&after)),
        }
    }
}

/// Applies a patch to a tree with relative paths.
fn run(text: &str, before: &Tree) -> Result<Tree, PatchError> {
    let base = Path::new(BASE);
    let patch = parse(text)?;
    let files = patch
        .paths(base)
        .into_iter()
        .map(|path| {
            let bytes = before.get(path.strip_prefix(base).unwrap_or(&path)).cloned();
            (path, bytes)
        })
        .collect();
    let applied = apply(&patch, base, &files)?;
    let mut after = before.clone();
    for write in applied.writes {
        let path = write.path.strip_prefix(base).unwrap_or(&write.path).to_owned();
        assert_eq!(write.old.as_ref(), before.get(&path), "old bytes of {}", path.display());
        match write.content {
            Some(bytes) => after.insert(path, bytes),
            None => after.remove(&path),
        };
    }
    Ok(after)
}

fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_owned();
                // Git keeps no empty folder: an empty tree holds this file alone.
                if name != Path::new(".gitkeep") {
                    tree.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    tree
}

fn shown(tree: &Tree) -> BTreeMap<String, String> {
    let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
    tree.iter().map(|(path, bytes)| (path.display().to_string(), escaped(bytes))).collect()
}

#[test]
fn changes_are_known_from_the_text_alone() {
    let patch = parse(
        "*** Begin Patch\n*** Add File: new/a\n+x\n*** Delete File: ./b\n*** Update File: c\n\
         *** Move to: ../up/d\n@@ fn f\n-old\n+new\n*** End Patch",
    )
    .unwrap();
    let changes = patch.changes(Path::new("/project/sub"));
    let short: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_str().unwrap(), change.kind, change.move_to.as_deref()))
        .collect();
    assert_eq!(
        short,
        [
            ("/project/sub/new/a", ChangeKind::Add, None),
            ("/project/sub/b", ChangeKind::Delete, None),
            ("/project/sub/c", ChangeKind::Update, Some(Path::new("/project/up/d"))),
        ]
    );
    assert_eq!(changes[2].diff, "*** Update File: c\n*** Move to: ../up/d\n@@ fn f\n-old\n+new\n");
}

#[test]
fn a_move_names_where_it_came_from_and_notes_tell_what_was_odd() {
    let base = Path::new(BASE);
    let patch = parse(
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n-  x\n+y\n*** Add File: c\n+new\n\
         *** End Patch",
    )
    .unwrap();
    let files = BTreeMap::from([
        (base.join("a"), Some(b"x\n".to_vec())),
        (base.join("b"), None),
        (base.join("c"), Some(b"there\n".to_vec())),
    ]);
    let applied = apply(&patch, base, &files).unwrap();
    assert_eq!(applied.writes[0].content, None);
    assert_eq!(applied.writes[1].moved_from, Some(base.join("a")));
    assert_eq!(applied.writes[1].content.as_deref(), Some(&b"y\n"[..]));
    assert_eq!(applied.notes.len(), 2, "{:?}", applied.notes);
}

#[test]
fn a_file_that_moves_twice_comes_from_where_it_began() {
    let base = Path::new(BASE);
    let patch = parse(
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Update File: b\n-x\n+y\n\
         *** Update File: b\n*** Move to: c\n*** End Patch",
    )
    .unwrap();
    let files = BTreeMap::from([(base.join("a"), Some(b"x\n".to_vec()))]);
    let writes = apply(&patch, base, &files).unwrap().writes;
    let short: Vec<_> =
        writes.iter().map(|write| (&write.path, &write.content, &write.moved_from)).collect();
    assert_eq!(
        short,
        [
            (&base.join("a"), &None, &None),
            (&base.join("c"), &Some(b"y\n".to_vec()), &Some(base.join("a"))),
        ]
    );
}

#[test]
fn detect_finds_calls_that_are_nothing_but_a_patch() {
    let patch = "*** Begin Patch\n*** Delete File: it's\n*** End Patch\n";
    let found = [
        format!("apply_patch <<'EOF'\n{patch}EOF"),
        format!("apply_patch <<EOF\n{patch}EOF\n"),
        format!("applypatch << \"PATCH\"\n{patch}PATCH\n\n"),
        format!("  apply_patch<<\\EOF\n{patch}EOF\n"),
        format!("apply_patch <<-'EOF'\n{}\tEOF\n", patch.replace("***", "\t***")),
        format!("apply_patch \"{patch}\""),
        format!("apply_patch '{}'", patch.replace('\'', "'\\''")),
    ];
    for script in found {
        let expected = Some(Found { patch: patch.to_owned(), workdir: None });
        assert_eq!(detect(&shell(&script)), expected, "{script}");
        let argv = ["/bin/bash", "-lc", &script].map(str::to_owned).to_vec();
        assert_eq!(detect(&CommandLine::Argv { argv }), expected, "{script}");
    }
    let script = format!("cd 'my dir'/src && apply_patch <<'EOF'\n{patch}EOF");
    assert_eq!(detect(&shell(&script)).unwrap().workdir.as_deref(), Some("my dir/src"));
    let argv = vec!["apply_patch".to_owned(), patch.to_owned()];
    assert_eq!(detect(&CommandLine::Argv { argv }).unwrap().patch, patch);
}

#[test]
fn detect_leaves_everything_else_to_the_shell() {
    let scripts = [
        "",
        "ls",
        "apply_patch",
        "apply_patch_now 'x'",
        "apply_patch 'x' && ls",
        "apply_patch 'x'; ls",
        "apply_patch \"$PATCH\"",
        "apply_patch \"`cat p`\"",
        "apply_patch $(cat p)",
        "apply_patch < p",
        "apply_patch 'x' > out",
        "cat p | apply_patch",
        "cd $HOME && apply_patch 'x'",
        "cd ~ && apply_patch 'x'",
        "cd - && apply_patch 'x'",
        "cd a || apply_patch 'x'",
        "cd a && cd b && apply_patch 'x'",
        "FOO=1 apply_patch 'x'",
        "apply_patch 'never closed",
        "apply_patch <<'EOF'\nx",
        "apply_patch <<'EOF'\nx\nEOF\nls",
        "apply_patch <<'EOF' | cat\nx\nEOF",
        "apply_patch <<'EOF' && ls\nx\nEOF",
        "apply_patch <<<'x'",
    ];
    for script in scripts {
        assert_eq!(detect(&shell(script)), None, "{script}");
    }
    let argv = |words: &[&str]| CommandLine::Argv {
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    assert_eq!(detect(&argv(&["apply_patch"])), None);
    assert_eq!(detect(&argv(&["python", "-c", "apply_patch 'x'"])), None);
    assert_eq!(detect(&argv(&["bash", "-c", "apply_patch 'x'", "more"])), None);
}

fn shell(script: &str) -> CommandLine {
    CommandLine::Shell { program: "/bin/bash".into(), login: true, script: script.to_owned() }
}

fn print(patch: &Patch) -> String {
    let files: String = patch.files.iter().map(render_file).collect();
    format!("*** Begin Patch\n{files}*** End Patch\n")
}

/// Forgets where chunks stood in the text.
fn without_places(mut patch: Patch) -> Patch {
    for file in &mut patch.files {
        if let FileAction::Update { chunks, .. } = &mut file.action {
            chunks.iter_mut().for_each(|chunk| chunk.patch_line = 0);
        }
    }
    patch
}

fn any_line() -> impl Strategy<Value = ChunkLine> {
    let text = "[ -~é]{0,12}";
    prop_oneof![
        text.prop_map(ChunkLine::Context),
        text.prop_map(ChunkLine::Remove),
        text.prop_map(ChunkLine::Add),
    ]
}

fn any_chunk() -> impl Strategy<Value = Chunk> {
    let anchors = prop::collection::vec("[a-z(){}][a-z(){} ]{0,8}", 0..3);
    (anchors, prop::collection::vec(any_line(), 1..6), any::<bool>()).prop_map(
        |(anchors, lines, end_of_file)| Chunk { anchors, lines, end_of_file, patch_line: 0 },
    )
}

fn any_file() -> impl Strategy<Value = FilePatch> {
    let added = prop::collection::vec("[ -~é]{0,12}\n", 0..5)
        .prop_map(|lines| FileAction::Add { content: lines.concat() });
    let updated = (
        prop::option::of("[a-z]{1,5}/[a-z]{1,5}".prop_map(PathBuf::from)),
        prop::collection::vec(any_chunk(), 1..4),
    )
        .prop_map(|(move_to, chunks)| FileAction::Update { move_to, chunks });
    ("[a-z]{1,3}", prop_oneof![added, Just(FileAction::Delete), updated])
        .prop_map(|(path, action)| FilePatch { path: PathBuf::from(path), action })
}

proptest! {
    #[test]
    fn reading_what_was_written_gives_the_same(
        files in prop::collection::vec(any_file(), 1..5),
    ) {
        let patch = Patch { files };
        let read = parse(&print(&patch)).map(without_places);
        prop_assert_eq!(read, Ok(patch));
    }

    #[test]
    fn no_text_and_no_bytes_panic(
        body in "(?s)((\\*\\*\\* (Add File|Delete File|Update File|Move to): ?[ab]?|\\*\\*\\* End of File|@@ ?[ab]?|[ +-][ab]?|.{0,3})\r?\n){0,12}",
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(b'b'), any::<u8>()], 0..40),
    ) {
        let _ = parse(&body);
        let before = Tree::from([("a".into(), bytes.clone()), ("b".into(), bytes)]);
        let _ = run(&format!("*** Begin Patch\n{body}*** End Patch"), &before);
    }

    /// One line in the middle of arbitrary bytes is replaced; all others keep every byte.
    #[test]
    fn untouched_bytes_stay(
        above in prop::collection::vec(any::<u8>(), 0..60),
        below in prop::collection::vec(any::<u8>(), 0..60),
        crlf in any::<bool>(),
    ) {
        let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
        let wrap = |middle: &str| {
            [&above, &b"\n"[..], middle.as_bytes(), end, &below].concat()
        };
        let before = Tree::from([("f".into(), wrap("a line to find"))]);
        let text = "*** Begin Patch\n*** Update File: f\n-a line to find\n+instead\n*** End Patch";
        let after = run(text, &before).unwrap();
        prop_assert_eq!(&after[Path::new("f")], &wrap("instead"));
    }
}

#[test]
fn a_hostile_file_costs_a_bounded_number_of_comparisons() {
    let file = "x\n".repeat(100_000);
    let before = Tree::from([(PathBuf::from("a"), file.into_bytes())]);
    let all = " x\n".repeat(10_000);
    // The second line of each pair is there once, so the first is at every place but fits at none.
    for body in [
        format!("*** Update File: a\n{all}-y\n"),
        format!("*** Update File: a\n{all}-x\n+y\n*** End of File\n"),
        "*** Update File: a\n@@ x\n@@ y\n-x\n+y\n".to_owned(),
    ] {
        let _ = run(&format!("*** Begin Patch\n{body}*** End Patch\n"), &before);
    }
    let mut mixed = "x\n".repeat(5_000);
    mixed.push_str("y\n");
    let before = Tree::from([(PathBuf::from("a"), mixed.repeat(20).into_bytes())]);
    let body = format!("*** Update File: a\n{}-y\n", " x\n".repeat(5_001));
    let error = run(&format!("*** Begin Patch\n{body}*** End Patch\n"), &before);
    assert!(matches!(error, Err(PatchError::NoMatch { .. })), "{error:?}");
    let section = "*** Update File: a\n-x\n+x\n".repeat(2_000);
    let error = run(&format!("*** Begin Patch\n{section}*** End Patch\n"), &before);
    assert!(matches!(error, Err(PatchError::TooCostly { chunk: 1, .. })), "{error:?}");
}

/// Applies a patch to one file and returns what it holds after, and what part of the budget in
/// percent that took.
fn run_for_cost(body: &str, file: &str) -> (Result<String, PatchError>, usize) {
    let base = Path::new(BASE);
    let patch = parse(&format!("*** Begin Patch\n{body}*** End Patch\n")).unwrap();
    let files = BTreeMap::from([(base.join("a"), Some(file.as_bytes().to_vec()))]);
    let budget = budget_for(&files);
    let granted = budget.left();
    let applied = apply_within(&patch, base, &files, &budget);
    let content = applied.map(|applied| {
        assert_eq!(applied.writes.len(), 1);
        String::from_utf8(applied.writes[0].content.clone().unwrap()).unwrap()
    });
    (content, (granted - budget.left()) * 100 / granted)
}

/// Returns a file of 1,000 functions of 100 lines, and the same with one line changed in each.
fn large_file(signature: impl Fn(usize) -> String) -> (String, String) {
    let text = |value: &str| -> String {
        let filler: String = (0..98).map(|line| format!("    step({line})\n")).collect();
        let function = |at| {
            format!(
                "{}\n{filler}    return {}\n",
                signature(at),
                value.replace('#', &at.to_string())
            )
        };
        (0..1_000).map(function).collect()
    };
    (text("old_#"), text("new_#"))
}

#[test]
fn a_large_honest_patch_is_cheap() {
    let named = |at| format!("def fn_{at}(a, b):");
    let (before, after) = large_file(named);
    let changes = |head: &dyn Fn(usize) -> String| -> String {
        let change = |at| format!("{}-    return old_{at}\n+    return new_{at}\n", head(at));
        (0..1_000).map(change).collect()
    };
    let one_section = |body: String| format!("*** Update File: a\n{body}");
    let sections = changes(&|_| "*** Update File: a\n".to_owned());
    let upwards: Vec<&str> = sections.split("*** Update File: a\n").skip(1).collect();
    let upwards: String =
        upwards.iter().rev().map(|change| format!("*** Update File: a\n{change}")).collect();
    for body in [
        one_section(changes(&|at| format!("@@ def fn_{at}\n"))),
        sections,
        upwards,
        changes(&|at| format!("*** Update File: a\n@@ def fn_{at}(\n")),
        changes(&|at| format!("*** Update File: ./a\n@@ def fn_{at}(a, b):\n     step(97)\n")),
    ] {
        let (found, percent) = run_for_cost(&body, &before);
        assert!(found.as_ref() == Ok(&after), "{:.300}", format!("{found:?}"));
        // The last change is at the end of the file, for which that is read once more.
        assert!(percent < 25, "{percent} % for {body:.60}");
    }
    let (before, after) =
        large_file(|at| if at == 0 { "class Big(Base):".into() } else { named(at) });
    let body = one_section(changes(&|_| "@@ class Big\n".to_owned()));
    let (found, percent) = run_for_cost(&body, &before);
    assert!(found.as_ref() == Ok(&after), "{:.300}", format!("{found:?}"));
    assert!(percent < 15, "{percent} %");
}

#[test]
fn lines_that_are_everywhere_end_a_patch_of_many_sections() {
    let file = "x\n".repeat(400_000);
    let body = "*** Update File: a\n-x\n+y\n".repeat(1_000);
    let (found, percent) = run_for_cost(&body, &file);
    assert!(matches!(found, Err(PatchError::TooCostly { .. })), "{percent} %");
    // Every anchor is the beginning of every line, and each is another one.
    let file = format!("{}\n", "x".repeat(60)).repeat(10_000);
    let anchors: String = (1..60).map(|count| format!("@@ {}\n", "x".repeat(count))).collect();
    let body = format!("*** Update File: a\n{anchors}-{}\n", "x".repeat(60)).repeat(500);
    let (found, percent) = run_for_cost(&body, &file);
    assert!(matches!(found, Err(PatchError::TooCostly { .. })), "{percent} %");
}

fn few_lines(max: usize) -> impl Strategy<Value = Vec<ChunkLine>> {
    let line = prop_oneof![
        3 => "[a-f]".prop_map(ChunkLine::Context),
        3 => "[a-f]".prop_map(ChunkLine::Remove),
        2 => "[a-g]".prop_map(ChunkLine::Add),
    ];
    prop::collection::vec(line, 1..max)
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
                vec![ChunkLine::Remove(old.to_owned()), ChunkLine::Add(format!("{old}{at}"))]
            } else {
                chunk
            };
            let text: String = chunk.iter().map(|line| match line {
                ChunkLine::Context(line) => format!(" {line}\n"),
                ChunkLine::Remove(line) => format!("-{line}\n"),
                ChunkLine::Add(line) => format!("+{line}\n"),
            }).collect();
            format!("*** Update File: a\n{anchor}{text}")
        }).collect();
        let frame = |body: &str| format!("*** Begin Patch\n{body}*** End Patch\n");
        let before = Tree::from([(PathBuf::from("a"), file.clone().into_bytes())]);
        let mut one_by_one = Ok(before.clone());
        // What does not fit is left out, or hardly a patch would come to its end.
        let mut fitting = String::new();
        for section in &sections {
            let Ok(tree) = &one_by_one else { break };
            if let Ok(next) = run(&frame(section), tree) {
                one_by_one = Ok(next);
                fitting.push_str(section);
            } else {
                let all = run(&frame(&format!("{fitting}{section}")), &before);
                prop_assert!(all.is_err());
            }
        }
        if !fitting.is_empty() {
            prop_assert_eq!(run(&frame(&fitting), &before).map(|tree| shown(&tree)), one_by_one.map(|tree| shown(&tree)));
        }
    }
}
