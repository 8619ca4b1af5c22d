//! Runs `tests/fixtures/patch/*` and what a folder cannot say.
//!
//! A case is a folder: `patch.txt`, the files before in `input/`, and either the files after
//! in `expected/` or the message in `error.txt`. A case without files may lack `input/`.
//! `notes.txt` has what is said of a patch that fits, and which files become executable.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::patch::detect::Found;
use crate::patch::{FileWrite, PatchError, apply, detect, parse, parse_bytes};
use crate::protocol::{ChangeKind, CommandLine};

pub(super) const BASE: &str = "/project";

pub(super) type Tree = BTreeMap<PathBuf, Vec<u8>>;

#[test]
fn every_fixture_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/patch");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 150, "only {} cases were found", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let text = fs::read(case.join("patch.txt"))
            .unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        let before = read_tree(&case.join("input"));
        let error = case.join("error.txt");
        match run_noting(text, &before) {
            Err(found) => {
                expect_test::expect_file![error].assert_eq(&format!("{found}\n"));
                if case.join("expected").exists() {
                    wrong.push(format!("{} has two ends", case.display()));
                }
            }
            Ok((after, notes)) => {
                let (after, expected) = (shown(&after), shown(&read_tree(&case.join("expected"))));
                if error.exists() || after != expected {
                    wrong.push(format!("{}: {after:?}, not {expected:?}", case.display()));
                    continue;
                }
                if !notes.is_empty() || case.join("notes.txt").exists() {
                    expect_test::expect_file![case.join("notes.txt")].assert_eq(&notes);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Applies a patch to a tree with relative paths.
pub(super) fn run(text: impl AsRef<[u8]>, before: &Tree) -> Result<Tree, PatchError> {
    run_noting(text.as_ref().to_vec(), before).map(|(after, _)| after)
}

/// Applies a patch; returns the tree after it and what is said of it, a line each.
fn run_noting(text: Vec<u8>, before: &Tree) -> Result<(Tree, String), PatchError> {
    let base = Path::new(BASE);
    let patch = parse_bytes(text)?;
    let relative = |path: &Path| path.strip_prefix(base).unwrap_or(path).to_owned();
    let files: BTreeMap<PathBuf, Option<&[u8]>> = patch
        .paths(base)
        .into_iter()
        .map(|path| {
            let bytes = before.get(&relative(&path)).map(Vec::as_slice);
            (path, bytes)
        })
        .collect();
    let applied = apply(&patch, base, &files)?;
    let mut after = before.clone();
    let mut notes: String = applied.notes.iter().map(|note| format!("{note}\n")).collect();
    for FileWrite { path, content, old, executable, .. } in applied.writes {
        let path = relative(&path);
        assert_eq!(old, before.get(&path).map(Vec::as_slice), "old bytes of {}", path.display());
        if let Some(executable) = executable {
            notes.push_str(&format!("{} executable: {executable}\n", path.display()));
        }
        match content {
            Some(content) => after.insert(path, content.to_bytes().into_owned()),
            None => after.remove(&path),
        };
    }
    Ok((after, notes))
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

pub(super) fn shown(tree: &Tree) -> BTreeMap<String, String> {
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
    assert!(applied.writes[1].content.as_ref().unwrap().is(b"y\n"));
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
    let new = super::Content::whole(b"y\n".to_vec());
    assert_eq!(
        short,
        [(&base.join("a"), &None, &None), (&base.join("c"), &Some(new), &Some(base.join("a"))),]
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
    let inner = script.replace('\'', "'\\''");
    let nested = format!("cd /top && bash -lc '{inner}'");
    assert_eq!(detect(&shell(&nested)).unwrap().workdir.as_deref(), Some("/top/my dir/src"));
    for words in [
        vec!["apply_patch", patch],
        vec!["bash", "-l", "-c", &script],
        vec!["zsh", "-euc", &script],
        vec!["bash", "--login", "-c", &script],
    ] {
        let argv = words.into_iter().map(str::to_owned).collect();
        assert_eq!(detect(&CommandLine::Argv { argv }).unwrap().patch, patch);
    }
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
        "bash -lc 'ls'",
        "bash -lc \"apply_patch 'x'\" && ls",
        "bash -lc \"apply_patch 'x'\" zero one",
        "bash script.sh",
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
    assert_eq!(detect(&argv(&["bash", "-nc", "apply_patch 'x'"])), None);
    assert_eq!(detect(&argv(&["bash", "-e", "apply_patch 'x'"])), None);
}

fn shell(script: &str) -> CommandLine {
    CommandLine::Shell { program: "/bin/bash".into(), login: true, script: script.to_owned() }
}
