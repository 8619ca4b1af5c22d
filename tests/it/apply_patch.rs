//! `gimlet apply-patch` from outside: what it prints, what it ends with, what it leaves behind.
//!
//! Cases are folders of `tests/fixtures/apply_patch/`: `patch.txt` goes to stdin, `workspace/`
//! and `tree.txt` (lines of `support/tree.rs`) are the tree, `args.txt` holds options, one a
//! line, and `expected/` is written for you. A case without `expected/tree.txt` leaves every
//! byte as it was. What is generated, too large or no text is made below.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;
use proptest::prelude::*;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::cases::play_all;
use crate::support::normalise;
use crate::support::run::{Ended, House, Stdin, copy_folder, run, start};
use crate::support::tree::{self, Tree};

#[test]
fn cases_go_as_expected() {
    play_all("apply_patch", 20, play);
}

fn play(case: &Path) {
    let house = House::new();
    let start = case.join("workspace");
    if start.is_dir() {
        copy_folder(&start, &house.workspace());
    }
    tree::make(&house.workspace(), &fs::read_to_string(case.join("tree.txt")).unwrap_or_default());
    let args = fs::read_to_string(case.join("args.txt")).unwrap_or_default();
    let before = tree::take(&house.root());
    let command = house.command(std::iter::once("apply-patch").chain(args.lines()));
    let ended = run(command, Stdin::Bytes(&fs::read(case.join("patch.txt")).unwrap()));
    check_end(&ended);
    let expected = case.join("expected");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let _ = fs::remove_dir_all(&expected);
        fs::create_dir_all(&expected).unwrap();
    }
    let root = house.root();
    expect_file![expected.join("stdout.txt")].assert_eq(&normalise::text(&ended.stdout, &root));
    expect_file![expected.join("stderr.txt")].assert_eq(&normalise::text(&ended.stderr, &root));
    expect_file![expected.join("exit.txt")].assert_eq(&format!("{}\n", ended.code));
    let after = tree::take(&house.root());
    let is_changed = without_state(&after) != without_state(&before);
    if is_changed || expected.join("tree.txt").exists() {
        expect_file![expected.join("tree.txt")]
            .assert_eq(&tree::render(&tree::take(&house.workspace())));
    }
    if ended.code != 0 || args.contains("--dry-run") {
        assert_same(&before, &after, &ended);
    }
    check_no_temps(&after);
}

fn check_end(ended: &Ended) {
    assert!(!ended.hung, "it had to be killed: {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    assert!((0..=2).contains(&ended.code), "{ended:?}");
}

/// Leaves out what lies in the house beside the workspace because the program ran.
fn without_state(tree: &Tree) -> Tree {
    let is_user = |path: &PathBuf| !path.starts_with("gimlet");
    tree.iter()
        .filter(|(path, _)| is_user(path))
        .map(|(path, e)| (path.clone(), e.clone()))
        .collect()
}

fn assert_same(before: &Tree, after: &Tree, ended: &Ended) {
    let (before, after) = (without_state(before), without_state(after));
    assert!(
        before == after,
        "the tree changed: {ended:?}\nbefore:\n{}after:\n{}",
        tree::render(&before),
        tree::render(&after)
    );
}

fn check_no_temps(tree: &Tree) {
    let is_temp = |path: &&PathBuf| path.display().to_string().contains(".gimlet-");
    assert_eq!(tree.keys().find(is_temp), None, "a temporary file was left");
}

/// Applies a patch from stdin, and returns the end.
fn apply(house: &House, patch: &[u8]) -> Ended {
    let ended = run(house.command(["apply-patch"]), Stdin::Bytes(patch));
    check_end(&ended);
    ended
}

/// Applies a patch that must be refused with these words and leave all as it was.
fn refuse(house: &House, patch: &[u8], words: &str) {
    let before = tree::take(&house.root());
    let ended = apply(house, patch);
    assert_eq!(ended.code, 1, "{ended:?}");
    let shown: String = ended.stderr.chars().take(2000).collect();
    assert!(ended.stderr.contains(words), "no {words:?} in {shown:?}");
    assert!(ended.stderr.len() < 20_000, "{} bytes of error", ended.stderr.len());
    assert_eq!(ended.stdout, "");
    assert_same(&before, &tree::take(&house.root()), &ended);
}

fn patch_of(body: &str) -> Vec<u8> {
    format!("*** Begin Patch\n{body}*** End Patch\n").into_bytes()
}

fn house_with(name: &str, content: &str) -> House {
    let house = House::new();
    fs::write(house.workspace().join(name), content).unwrap();
    house
}

// ---------------------------------------------------------------- how it is called

/// Returns the program by another name, in a folder of the house.
fn by_name(house: &House, name: &str) -> Command {
    let link = house.root().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gimlet"), &link).unwrap();
    let mut command = Command::new(link);
    command.current_dir(house.workspace()).env_clear().env("HOME", house.root().join("home"));
    command.env("GIMLET_HOME", house.home());
    command
}

#[test]
fn the_name_apply_patch_is_the_command() {
    let text = String::from_utf8(patch_of("*** Update File: f\n@@\n-a\n+b\n")).unwrap();
    for name in ["apply_patch", "applypatch"] {
        for on_stdin in [true, false] {
            let house = house_with("f", "a\n");
            let mut command = by_name(&house, name);
            let stdin = if on_stdin { Stdin::Text(&text) } else { Stdin::Nothing };
            if !on_stdin {
                command.arg(&text);
            }
            let ended = run(command, stdin);
            check_end(&ended);
            assert_eq!(ended.code, 0, "{ended:?}");
            assert_eq!(ended.stdout, "Success. Updated the following files:\nM f\n");
            assert_eq!(ended.stderr, "");
            assert_eq!(fs::read(house.workspace().join("f")).unwrap(), b"b\n");
        }
    }
}

#[test]
fn the_name_apply_patch_has_the_codes_that_scripts_know() {
    let call = |args: &[&str], stdin| {
        let house = house_with("f", "a\n");
        let mut command = by_name(&house, "apply_patch");
        let ended = run(
            {
                command.args(args);
                command
            },
            stdin,
        );
        check_end(&ended);
        assert_eq!(ended.stdout, "");
        (ended.code, ended.stderr)
    };
    let (code, said) = call(&[], Stdin::Nothing);
    assert!(code == 2 && said.contains("there is no patch"), "{code}: {said}");
    let (code, said) = call(&["a", "b"], Stdin::Nothing);
    assert!(code == 2 && said.contains("one argument"), "{code}: {said}");
    // No option is one under this name: the argument is the patch, whatever it is.
    for arg in ["", "--help", "--version", "__sandbox"] {
        let (code, said) = call(&[arg], Stdin::Text("ignored"));
        assert!(code == 1 && said.contains("*** Begin Patch"), "{arg:?}: {code}: {said}");
    }
    let missing = String::from_utf8(patch_of("*** Delete File: nope\n")).unwrap();
    let (code, said) = call(&[], Stdin::Text(&missing));
    assert!(code == 1 && said.contains("nope"), "{code}: {said}");
}

#[test]
fn the_patch_may_be_the_argument() {
    let text = String::from_utf8(patch_of("*** Update File: f\n@@\n-a\n+b\n")).unwrap();
    // What is on stdin is not looked at, not even when it never ends.
    for stdin in [Stdin::Nothing, Stdin::Text("other"), Stdin::Open] {
        let house = house_with("f", "a\n");
        let ended = run(house.command(["apply-patch", &text]), stdin);
        check_end(&ended);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        assert_eq!(fs::read(house.workspace().join("f")).unwrap(), b"b\n");
    }
    let house = house_with("f", "a\n");
    let ended = run(house.command(["apply-patch", "-"]), Stdin::Text(&text));
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn wrong_usage_ends_with_2() {
    let table: [(&[&str], &str); 7] = [
        (&["apply-patch"], "there is no patch"),
        (&["apply-patch", "--json"], "there is no patch"),
        (&["apply-patch", "--dryrun"], "--dryrun"),
        (&["apply-patch", "a", "b"], "unexpected argument"),
        (&["apply-patch", "-C", "nowhere", "x"], "nowhere"),
        (&["apply-patch", "-C", "f", "x"], "no directory"),
        (&["-C", "nowhere", "apply-patch", "x"], "nowhere"),
    ];
    for (args, words) in table {
        let house = house_with("f", "a\n");
        let before = tree::take(&house.root());
        let ended = run(house.command(args), Stdin::Nothing);
        check_end(&ended);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        let said = if args.contains(&"--json") { &ended.stdout } else { &ended.stderr };
        assert!(said.contains(words), "{args:?}: {ended:?}");
        assert_same(&before, &tree::take(&house.root()), &ended);
    }
}

#[test]
fn a_file_below_a_file_is_refused_before_anything_is_tried() {
    let house = house_with("a", "one\n");
    let patch = patch_of("*** Add File: a/b\n+x\n");
    let text = String::from_utf8(patch.clone()).unwrap();
    let dry = run(house.command(["apply-patch", "--dry-run"]), Stdin::Text(&text));
    assert_eq!(dry.code, 1, "{dry:?}");
    assert!(dry.stderr.contains("a is no directory"), "{dry:?}");
    refuse(&house, &patch, "a is no directory");
    // One that makes room is applied.
    let patch = patch_of("*** Delete File: a\n*** Add File: a/b\n+x\n");
    assert_eq!(apply(&house, &patch).code, 0);
    assert_eq!(fs::read_to_string(house.workspace().join("a/b")).unwrap(), "x\n");
}

#[test]
fn an_absolute_path_inside_is_as_good_as_a_relative_one() {
    let house = house_with("f", "a\n");
    let path = house.workspace().canonicalize().unwrap().join("f");
    let ended =
        apply(&house, &patch_of(&format!("*** Update File: {}\n@@\n-a\n+b\n", path.display())));
    assert_eq!((ended.code, ended.stdout.lines().last()), (0, Some("M f")), "{ended:?}");
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let house = house_with("f", "a\n");
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" apply-patch | true; exit 0", env!("CARGO_BIN_EXE_gimlet")]);
    command.current_dir(house.workspace()).env("GIMLET_HOME", house.home());
    let ended = run(command, Stdin::Bytes(&patch_of("*** Update File: f\n@@\n-a\n+b\n")));
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(fs::read(house.workspace().join("f")).unwrap(), b"b\n");
}

#[test]
fn the_configuration_is_not_needed() {
    let house = house_with("f", "a\n");
    house.write_config("this is no [ configuration");
    let mut command = house.command(["apply-patch"]);
    command.env_remove("HOME").env_remove("GIMLET_HOME");
    let ended = run(command, Stdin::Bytes(&patch_of("*** Update File: f\n@@\n-a\n+b\n")));
    assert_eq!(ended.code, 0, "{ended:?}");
}

// ---------------------------------------------------------------- bad input

#[test]
fn a_patch_of_100_mb_without_end_is_refused() {
    let mut patch = b"*** Begin Patch\n*** Add File: f\n".to_vec();
    patch.resize(100 * 1024 * 1024, b'+');
    refuse(&House::new(), &patch, "*** End Patch");
    patch.resize(160 * 1024 * 1024, b'+');
    refuse(&House::new(), &patch, "bytes");
}

#[test]
fn input_without_end_is_refused() {
    let house = House::new();
    let mut command = Command::new("sh");
    command.args(["-c", "yes '+x' | \"$0\" apply-patch", env!("CARGO_BIN_EXE_gimlet")]);
    command.current_dir(house.workspace()).env("GIMLET_HOME", house.home());
    let ended = run(command, Stdin::Nothing);
    check_end(&ended);
    assert!(ended.code == 1 && ended.stderr.contains("bytes"), "{ended:?}");
}

#[test]
fn a_patch_of_100_000_hunks_ends() {
    let content: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
    let house = house_with("f", &content);
    let mut body = "*** Update File: f\n".to_owned();
    for n in 0..100_000 {
        body.push_str(&format!("@@\n-line {n}\n+LINE {n}\n"));
    }
    let ended = apply(&house, &patch_of(&body));
    assert_eq!(ended.code, 0, "{ended:?}");
    let expected = content.replace("line", "LINE");
    assert!(fs::read_to_string(house.workspace().join("f")).unwrap() == expected);
    body.push_str("@@\n-no such line\n+x\n");
    fs::write(house.workspace().join("f"), &content).unwrap();
    refuse(&house, &patch_of(&body), "no such line");
}

#[test]
fn bytes_that_are_no_patch_are_refused() {
    let garbage: Vec<u8> =
        (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let house = house_with("f", "a\n");
    refuse(&house, &garbage, "error: ");
    refuse(&house, &[0; 4096], "error: ");
    refuse(&house, b"\n\n  \n", "error: ");
    refuse(&house, &std::fs::read(env!("CARGO_BIN_EXE_gimlet")).unwrap()[..200_000], "error: ");
}

#[test]
fn names_that_cannot_be_are_refused() {
    let house = house_with("f", "a\n");
    let long = "d/".repeat(2500);
    for (path, words) in [
        (format!("{long}x"), "5001 bytes"),
        ("n".repeat(5000), "5000 bytes"),
        ("n".repeat(300), "too long"),
        ("f/x".to_owned(), "is no directory"),
        ("\0".to_owned(), "error: "),
        (".".to_owned(), "error: "),
        ("/".to_owned(), "outside"),
        ("..".to_owned(), "outside"),
    ] {
        refuse(&house, &patch_of(&format!("*** Add File: {path}\n+x\n")), words);
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let house = house_with("f", "a\n");
    let at = house.workspace();
    fs::create_dir_all(at.join("folder/inner")).unwrap();
    tree::make_fifo(&at.join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/null", at.join("null")).unwrap();
    std::os::unix::fs::symlink("nowhere", at.join("broken")).unwrap();
    std::os::unix::fs::symlink("loop", at.join("loop")).unwrap();
    for name in ["folder", "pipe", "socket", "null", "broken", "loop"] {
        for body in ["*** Update File: {}\n@@\n-a\n+b\n", "*** Add File: {}\n+x\n"] {
            // A file beside it, to see that all is left alone.
            let body = format!("*** Update File: f\n@@\n-a\n+b\n{}", body.replace("{}", name));
            refuse(&house, &patch_of(&body), name);
        }
    }
    for name in ["folder", "pipe", "socket"] {
        refuse(&house, &patch_of(&format!("*** Delete File: {name}\n")), name);
        let body = format!("*** Update File: f\n*** Move to: {name}\n@@\n-a\n+b\n");
        refuse(&house, &patch_of(&body), name);
    }
}

#[test]
fn folders_that_cannot_be_written_are_named() {
    if rustix::process::geteuid().is_root() {
        println!("SKIPPED: root writes where modes say nobody does");
        return;
    }
    let house = house_with("f", "a\n");
    tree::make(&house.workspace(), "folder closed\n");
    fs::write(house.workspace().join("closed/g"), "a\n").unwrap();
    tree::make(&house.workspace(), "mode 0555 closed\n");
    for body in [
        "*** Update File: f\n@@\n-a\n+b\n*** Update File: closed/g\n@@\n-a\n+b\n",
        "*** Update File: f\n@@\n-a\n+b\n*** Add File: closed/new\n+x\n",
        "*** Update File: f\n@@\n-a\n+b\n*** Delete File: closed/g\n",
        "*** Update File: f\n@@\n-a\n+b\n*** Add File: closed/deep/new\n+x\n",
    ] {
        refuse(&house, &patch_of(body), "closed");
    }
    tree::make(&house.workspace(), "mode 0755 closed\n");
}

#[test]
fn json_says_the_same_for_bytes_that_are_no_text() {
    let house = House::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(house.workspace().join(name)).unwrap();
    let mut command = house.command(["apply-patch", "--json", "-C"]);
    command.arg(name);
    let ended = run(command, Stdin::Bytes(&patch_of("*** Add File: f\n+x\n")));
    check_end(&ended);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&said["ok"], &said["changes"][0]["path"]), (&Value::Bool(true), &"f".into()));
    let ended = run(house.command(["apply-patch", "--json"]), Stdin::Bytes(b"\xff\xfe"));
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said["ok"], Value::Bool(false), "{ended:?}");
    assert_eq!(ended.stderr, "");
}

// ---------------------------------------------------------------- killed

/// When the program is killed: as soon as so many files stand beside their targets, or so many
/// targets are changed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Temps(usize),
    Changed(usize),
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_tree_or_the_new_one() {
    const FILES: usize = 40;
    let mut was_killed = 0;
    for moment in [
        Moment::Temps(1),
        Moment::Temps(FILES / 2),
        Moment::Temps(FILES),
        Moment::Changed(1),
        Moment::Changed(FILES / 2),
        Moment::Changed(FILES),
    ] {
        let house = House::new();
        let work = house.workspace();
        let mut body = String::new();
        for n in 0..FILES {
            fs::write(work.join(format!("f{n:02}")), "old\n").unwrap();
            body.push_str(&format!("*** Update File: f{n:02}\n@@\n-old\n+new\n"));
        }
        let before = tree::take(&work);
        let patch = String::from_utf8(patch_of(&body)).unwrap();
        let (running, _pipe) = start(house.command(["apply-patch", &patch]), Stdin::Nothing);
        while running.is_alive() {
            // Names come and go meanwhile, so nothing here insists on any.
            let names = fs::read_dir(&work).unwrap().filter_map(|e| Some(e.ok()?.file_name()));
            let is_temp = |name: &OsString| name.as_bytes().starts_with(b".gimlet-");
            let (temps, targets): (Vec<_>, Vec<_>) = names.partition(is_temp);
            let is_new = |name: &&OsString| fs::read(work.join(name)).is_ok_and(|b| b == b"new\n");
            let count = match moment {
                Moment::Temps(_) => temps.len(),
                Moment::Changed(_) => targets.iter().filter(is_new).count(),
            };
            let (Moment::Temps(wanted) | Moment::Changed(wanted)) = moment;
            if count >= wanted {
                running.signal(Signal::KILL);
                break;
            }
        }
        was_killed += usize::from(running.wait().code == 137);
        // The next patch settles what was left, whatever it is for.
        let ended = apply(&house, &patch_of("*** Add File: later\n+x\n"));
        assert_eq!(ended.code, 0, "{moment:?}: {ended:?}");
        let mut after = tree::take(&work);
        after.remove(Path::new("later"));
        let is_new = fs::read(work.join("f00")).unwrap() == b"new\n";
        if !is_new {
            assert!(after == before, "{moment:?}: {ended:?}\n{}", tree::render(&after));
        }
        let whole = tree::render(&before).replace("old", "new");
        assert!(
            !is_new || tree::render(&after) == whole,
            "{moment:?}: {ended:?}\n{}",
            tree::render(&after)
        );
    }
    assert!(was_killed > 0, "it always ended before it could be killed");
}

// ---------------------------------------------------------------- whatever comes

/// A tree to patch: some of these names, with a few lines each.
fn any_tree() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let content = proptest::collection::vec("[ab]{0,2}(\r?\n|\n)", 0..6).prop_map(|l| l.concat());
    let files = NAMES.map(|name| (Just(name), content.clone())).to_vec();
    proptest::sample::subsequence(files, 0..=NAMES.len()).prop_flat_map(|files| files)
}

/// One part of a patch as numbers: what happens, to which file, at which line, to which other.
type Part = (u8, usize, usize, usize);

/// Returns a tree and a patch that fits it as often as not.
fn any_case() -> impl Strategy<Value = (Vec<(&'static str, String)>, String)> {
    let names = NAMES.len() + HOSTILE.len();
    let part = (0..16_u8, 0..names + 8 * NAMES.len(), 0..6_usize, 0..names + 20);
    let parts = proptest::collection::vec(part, 1..4);
    // One in some is cut or bent.
    let bend = (0..8_u8, 0..400_usize, "[-+@* a\n]{0,3}");
    (any_tree(), parts, bend).prop_map(|(tree, parts, (bent, at, text))| {
        let parts: String = parts.iter().map(|part| part_of_patch(&tree, *part)).collect();
        let mut patch = format!("*** Begin Patch\n{parts}*** End Patch\n");
        if bent == 0 && at < patch.len() {
            patch.insert_str(at, &text);
        }
        (tree, patch)
    })
}

fn part_of_patch(tree: &[(&'static str, String)], (kind, file, line, other): Part) -> String {
    let named = |n: usize| {
        let all = NAMES.iter().chain(&HOSTILE);
        all.copied().nth(n).or_else(|| Some(tree.get(n % tree.len().max(1))?.0)).unwrap_or("new")
    };
    let (name, to) = (named(file), named(other));
    let content = tree.iter().find(|(is, _)| *is == name).map_or("", |(_, content)| content);
    let at = content.lines().nth(line % content.lines().count().max(1)).unwrap_or("c");
    match kind {
        0..=8 => format!("*** Update File: {name}\n@@\n-{at}\n+{at}x\n+y\n"),
        9 => format!("*** Update File: {name}\n@@\n {at}\n-no such line\n"),
        10 => format!("*** Update File: {name}\n*** Move to: {to}\n@@\n-{at}\n+moved\n"),
        11 => format!("*** Update File: {name}\n*** Move to: {to}\n"),
        12 => format!("*** Delete File: {name}\n"),
        13 => format!("*** Add File: {to}\n+{at}\n"),
        14 => format!("*** Add File: new/{line}\n+{at}\n"),
        _ => format!("*** Update File: {name}\n@@\n+{at}\n"),
    }
}

/// Names in trees; one is a link there, one a folder.
const NAMES: [&str; 6] = ["a", "b", "d/a", "d/e/b", "x", "d/y"];
/// Names that no patch may touch, or that are something else.
const HOSTILE: [&str; 9] =
    ["../home/k", "link", "out/k", "d", "a/b", ".git/config", "d/.Git/x", "pipe", "d/../b"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_failure_leaves_every_byte((tree, patch) in any_case()) {
        let house = House::new();
        let work = house.workspace();
        tree::make(&work, "folder d/e\nfolder .git\nlink out -> ../home\nlink link -> a\nfifo pipe\n");
        fs::write(house.root().join("home/k"), "a\n").unwrap();
        fs::write(work.join(".git/config"), "a\n").unwrap();
        for (name, content) in &tree {
            fs::write(work.join(name), content).unwrap();
        }
        let before = tree::take(&house.root());
        let dry = run(house.command(["apply-patch", "--dry-run"]), Stdin::Text(&patch));
        check_end(&dry);
        assert_same(&before, &tree::take(&house.root()), &dry);
        let ended = apply(&house, patch.as_bytes());
        let after = tree::take(&house.root());
        prop_assert!(ended.code == dry.code, "{dry:?} {ended:?}");
        if ended.code == 0 {
            let is_closed = |path: &PathBuf| path.starts_with("home") || path.starts_with("workspace/.git");
            let closed = |tree: &Tree| -> Tree {
                tree.iter().filter(|(path, _)| is_closed(path)).map(|(p, e)| (p.clone(), e.clone())).collect()
            };
            prop_assert_eq!(closed(&after), closed(&before));
        } else {
            assert_same(&before, &after, &ended);
        }
        check_no_temps(&after);
    }
}
