//! `git diff | gimlet apply-patch` with the real git, and `diff -u` with the real diff.
//!
//! Each case is a tree before and a tree after; the diff between them, applied to the first,
//! must give the second: bytes, names, executable bits. `apply_patch.rs` has the cases that
//! need no other program.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use crate::support::run::{Ended, House, Stdin, copy_folder, run};
use crate::support::tree::{self, Tree};

/// A file: name, content, whether it can be executed.
type File<'a> = (&'a [u8], &'a [u8], bool);

struct Case<'a> {
    name: &'a str,
    /// Options of `git diff`.
    options: &'a [&'a str],
    before: &'a [File<'a>],
    after: &'a [File<'a>],
}

const LINES: &[u8] = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
const CHANGED: &[u8] = b"1\n2\n3\nfour\n5\n6\n7\n8\n9\n10\n11\n12\n";

const CASES: &[Case<'_>] = &[
    Case {
        name: "a change, a new file, a deleted one",
        options: &[],
        before: &[(b"f", LINES, false), (b"gone/old", b"x\n", false)],
        after: &[(b"f", CHANGED, false), (b"new/deep/er", b"y\n", false)],
    },
    Case {
        name: "no newline at the end, on either side",
        options: &[],
        before: &[(b"a", b"1\n2", false), (b"b", b"1\n2\n", false), (b"c", b"1\n2", false)],
        after: &[(b"a", b"1\n2\n", false), (b"b", b"1\n2", false), (b"c", b"one\n2", false)],
    },
    Case {
        name: "a rename alone, and one with a change",
        options: &["-M"],
        before: &[(b"a", LINES, false), (b"b", b"q\nr\ns\nt\nu\nv\n", false)],
        after: &[(b"dir/a", CHANGED, false), (b"c", b"q\nr\ns\nt\nu\nv\n", false)],
    },
    Case {
        name: "a copy",
        options: &["-C", "--find-copies-harder"],
        before: &[(b"a", LINES, false)],
        after: &[(b"a", LINES, false), (b"b", CHANGED, false)],
    },
    Case {
        name: "modes alone, and with a change",
        options: &["-M"],
        before: &[(b"a", b"a\n", false), (b"b", b"b\n", true), (b"c", LINES, false)],
        after: &[(b"a", b"a\n", true), (b"b", b"B\n", false), (b"d", LINES, true)],
    },
    Case {
        name: "a new file that can be executed",
        options: &[],
        before: &[],
        after: &[(b"run", b"#!/bin/sh\n", true)],
    },
    Case {
        name: "empty files come and go",
        options: &[],
        before: &[(b"a", b"", false), (b"b", b"", false), (b"c", b"x\n", false)],
        after: &[(b"a", b"x\n", false), (b"c", b"", false), (b"d", b"", false)],
    },
    Case {
        name: "names with spaces, quotes, tabs, and bytes that are no text",
        options: &[],
        before: &[
            (b"a b", b"1\n", false),
            (b"q\"q", b"1\n", false),
            (b"caf\xc3\xa9", b"1\n", false),
        ],
        after: &[
            (b"a b", b"2\n", false),
            (b"q\"q", b"2\n", false),
            (b"caf\xc3\xa9", b"2\n", false),
            (b"tab\there", b"3\n", false),
            (b"latin\xe9", b"3\n", false),
        ],
    },
    Case {
        name: "bytes that are no text, and line ends of all kinds",
        options: &["--text"],
        before: &[(b"a", b"\xef\xbb\xbfcaf\xe9\r\n2\n3\r4\n\x005\n", false)],
        after: &[(b"a", b"\xef\xbb\xbfcaf\xe8\r\n2\r\n3\r4\n\x00\xff\n", false)],
    },
    Case {
        name: "no lines around the changes",
        options: &["-U0"],
        before: &[(b"f", b"a\na\na\na\na\na\n", false)],
        after: &[(b"f", b"a\na\na\nb\na\na\na\nc\n", false)],
    },
    Case {
        name: "no prefixes",
        options: &["--no-prefix"],
        before: &[(b"b/f", LINES, false)],
        after: &[(b"b/f", CHANGED, false)],
    },
    Case {
        name: "lines that look like headers",
        options: &[],
        before: &[(b"f", b"-- a/x\n++ b/x\n@@ -1 +1 @@\nq\n", false)],
        after: &[(b"f", b"++ b/x\n-- a/y\n*** End Patch\nq\n", false)],
    },
];

fn write(root: &Path, files: &[File<'_>]) {
    for (name, content, executable) in files {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if *executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
}

/// Runs git where nobody's configuration reaches it; 1 means "there are differences".
fn git(folder: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(args);
    command.current_dir(folder).env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "git {args:?}: {said}");
    output.stdout
}

/// Makes a repository of the first tree with the second in it, and returns the diff.
fn diff_between(
    folder: &Path,
    before: &[File<'_>],
    after: &[File<'_>],
    options: &[&str],
) -> Vec<u8> {
    write(folder, before);
    git(folder, &["init", "-q"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "--allow-empty", "-m", "before"]);
    git(folder, &["rm", "-rq", "--ignore-unmatch", "."]);
    write(folder, after);
    git(folder, &["add", "-A"]);
    git(folder, &[&["diff", "--cached"], options, &["HEAD"]].concat())
}

fn apply(house: &House, diff: &[u8]) -> Ended {
    let ended = run(house.command(["apply-patch"]), Stdin::Bytes(diff));
    assert!(!ended.hung && !ended.stderr.contains("panicked"), "{ended:?}");
    ended
}

/// Returns the files of a tree; folders that a deletion left empty do not count.
fn files_of(root: &Path) -> String {
    let all = tree::take(root);
    let is_file = |path: &Path| !root.join(path).is_dir() && !path.starts_with(".git");
    let files: Tree = all.into_iter().filter(|(path, _)| is_file(path)).collect();
    tree::render(&files)
}

#[test]
fn what_git_diffs_is_applied() {
    let mut failed = Vec::new();
    for case in CASES {
        let house = House::new();
        let other = house.root().join("other");
        fs::create_dir(&other).unwrap();
        let diff = diff_between(&other, case.before, case.after, case.options);
        write(&house.workspace(), case.before);
        let ended = apply(&house, &diff);
        let (found, wanted) = (files_of(&house.workspace()), files_of(&other));
        if ended.code != 0 || found != wanted {
            let diff = String::from_utf8_lossy(&diff).into_owned();
            failed.push(format!("{}\n{ended:?}\n{diff}\n{found}\nwanted:\n{wanted}", case.name));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn a_mail_of_git_is_applied() {
    let house = House::new();
    let other = house.root().join("other");
    fs::create_dir(&other).unwrap();
    write(&other, &[(b"f", LINES, false)]);
    git(&other, &["init", "-q"]);
    git(&other, &["add", "-A"]);
    git(&other, &["commit", "-qm", "before"]);
    write(&other, &[(b"f", CHANGED, false)]);
    git(&other, &["commit", "-qam", "Say four\n\n--- as a word\nand +++ too, a\ndiff of digits"]);
    let mail = git(&other, &["format-patch", "-1", "--stdout"]);
    write(&house.workspace(), &[(b"f", LINES, false)]);
    let ended = apply(&house, &mail);
    assert_eq!(ended.code, 0, "{ended:?}\n{}", String::from_utf8_lossy(&mail));
    assert_eq!(fs::read(house.workspace().join("f")).unwrap(), CHANGED);
}

#[test]
fn what_cannot_be_applied_is_refused_whole() {
    const BEFORE: &[File<'_>] = &[(b"a", LINES, false), (b"b", b"\0\x01", false)];
    const AFTER: &[File<'_>] = &[(b"a", CHANGED, false), (b"b", b"\0\x02", false)];
    let odd = [AFTER[0], (b"new\nline", b"x\n", false)];
    // The name is what the error must say.
    let table = [
        Case { name: "binary", options: &[], before: BEFORE, after: AFTER },
        Case { name: "binary", options: &["--binary"], before: BEFORE, after: AFTER },
        Case { name: "newline", options: &[], before: &BEFORE[..1], after: &odd },
    ];
    for Case { name: words, options, before, after } in table {
        let house = House::new();
        let other = house.root().join("other");
        fs::create_dir(&other).unwrap();
        let diff = diff_between(&other, before, after, options);
        write(&house.workspace(), before);
        let was = files_of(&house.workspace());
        let ended = apply(&house, &diff);
        assert!(ended.code == 1 && ended.stderr.to_lowercase().contains(words), "{ended:?}");
        assert_eq!(files_of(&house.workspace()), was);
    }
}

#[test]
fn a_diff_applied_twice_is_refused_the_second_time() {
    let house = House::new();
    let other = house.root().join("other");
    fs::create_dir(&other).unwrap();
    let diff = diff_between(&other, &[(b"f", LINES, false)], &[(b"f", CHANGED, false)], &[]);
    write(&house.workspace(), &[(b"f", LINES, false)]);
    assert_eq!(apply(&house, &diff).code, 0);
    let was = files_of(&house.workspace());
    let ended = apply(&house, &diff);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(files_of(&house.workspace()), was);
}

#[test]
fn what_diff_says_is_applied() {
    if Command::new("diff").arg("--version").output().is_err() {
        println!("SKIPPED: there is no diff here");
        return;
    }
    let house = House::new();
    let root = house.root();
    let files: [(&str, &[File<'_>]); 2] = [
        ("old", &[(b"f", LINES, false), (b"sub/g", b"1\n2", false), (b"gone", b"x\n", false)]),
        ("new", &[(b"f", CHANGED, false), (b"sub/g", b"1\n3", false), (b"more/h", b"y\n", false)]),
    ];
    for (name, files) in files {
        fs::create_dir(root.join(name)).unwrap();
        write(&root.join(name), files);
    }
    for option in ["-ruN", "-rcN"] {
        let output =
            Command::new("diff").args([option, "old", "new"]).current_dir(&root).output().unwrap();
        // Its names begin with the two folders, of which the first part is dropped as git's is.
        copy_folder(&root.join("old"), &house.workspace());
        let was = files_of(&house.workspace());
        let text =
            String::from_utf8_lossy(&output.stdout).replace("old/", "a/").replace("new/", "b/");
        let ended = apply(&house, text.as_bytes());
        if option == "-ruN" {
            assert_eq!(ended.code, 0, "{ended:?}\n{text}");
            assert_eq!(files_of(&house.workspace()), files_of(&root.join("new")));
            let _ = fs::remove_dir_all(house.workspace());
            fs::create_dir(house.workspace()).unwrap();
        } else {
            assert_eq!(ended.code, 1, "a context diff is none of ours: {ended:?}\n{text}");
            assert_eq!(files_of(&house.workspace()), was);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_become_any_others(
        a in proptest::collection::vec(proptest::sample::select(b"ab\n\n\r\0\xe9".to_vec()), 0..60),
        b in proptest::collection::vec(proptest::sample::select(b"ab\n\n\r\0\xe9".to_vec()), 0..60),
        context in 0..4_u8,
    ) {
        let house = House::new();
        let (old, new) = (house.root().join("a"), house.root().join("b"));
        fs::write(&old, &a).unwrap();
        fs::write(&new, &b).unwrap();
        let around = format!("-U{context}");
        let diff = git(&house.root(), &["diff", "--no-index", "--text", &around, "--", "a", "b"]);
        // It names two files; ours is one.
        let text = diff.split_inclusive(|byte| *byte == b'\n').skip(4);
        let head = b"--- a/f\n+++ b/f\n".as_slice();
        let diff: Vec<u8> = std::iter::once(head).chain(text).flatten().copied().collect();
        fs::write(house.workspace().join("f"), &a).unwrap();
        prop_assume!(a != b);
        let ended = apply(&house, &diff);
        prop_assert_eq!(ended.code, 0, "{:?}\n{}", ended, diff.escape_ascii());
        prop_assert_eq!(fs::read(house.workspace().join("f")).unwrap(), b, "{}", diff.escape_ascii());
    }
}
