//! What turns did to the files, taken back: by the whole binary, in every kind of workspace.
//!
//! Trees are compared by every byte, mode and link, read by code of the test's own; git's own
//! files are compared as bytes, so that nothing of them is touched by an undo. What else undo
//! must not lose is in `undo_edges.rs`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::run::{RUN_AT_MOST, Stdin, start};
use crate::support::scene::{
    FREE, LOOK_EVERY, Scene, Tree, assert_same, end, git, make_project, patch, read_tree, say,
    shell, write,
};

/// The turn of the issue: everything a bad command can do, in one turn.
fn disaster() -> Vec<Value> {
    let build = "mkdir -p target/obj && cd target/obj && \
                 i=0; while [ $i -lt 5000 ]; do echo \"object $i\" > o$i; i=$((i+1)); done; \
                 ln -s o1 latest; chmod 700 o2; mkdir -p ../none/at/all";
    vec![
        shell("rm -rf src", "c1"),
        end(),
        shell("sed -i s/hello/HELLO/ notes.txt && chmod 755 notes.txt && rm secret.env", "c2"),
        end(),
        shell("git checkout . || true", "c3"),
        end(),
        shell(build, "c4"),
        end(),
        json!({"say": "All done."}),
        end(),
    ]
}

fn play_disaster(scene: &Scene) {
    let work = &scene.directory;
    let before = read_tree(work, false);
    let ended = scene.turn(FREE, &disaster());
    assert!(ended.stderr.contains("`gimlet undo` takes its file changes back"), "{ended:?}");
    let after = read_tree(work, false);
    assert!(after.len() > before.len() + 4_900, "the build ran");
    let git_before = read_tree(work, true);
    let told = scene.ok(&["undo"]);
    assert!(told.starts_with("Undid turn 1: "), "{told}");
    assert_same(&read_tree(work, false), &before, "after undo");
    assert_same(&read_tree(work, true), &git_before, "git's own after undo");
    let told = scene.ok(&["redo"]);
    assert!(told.starts_with("Redid turn 1: "), "{told}");
    assert_same(&read_tree(work, false), &after, "after redo");
    assert_same(&read_tree(work, true), &git_before, "git's own after redo");
    scene.ok(&["undo"]);
    assert_same(&read_tree(work, false), &before, "after the second undo");
}

#[test]
fn a_disaster_is_undone_in_a_plain_directory() {
    let scene = Scene::new();
    make_project(&scene.directory);
    play_disaster(&scene);
}

#[test]
fn a_disaster_is_undone_in_a_git_repository() {
    let scene = Scene::new();
    let work = scene.directory.clone();
    git(&work, &["init", "-q"]);
    make_project(&work);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-qm", "one"]);
    // Something in the stash, something staged, something neither.
    write(work.join("notes.txt"), "stashed\n", 0o644);
    git(&work, &["stash"]);
    write(work.join("staged.txt"), "staged\n", 0o644);
    git(&work, &["add", "staged.txt"]);
    write(work.join("src/main.rs"), "fn main() { edited() }\n", 0o644);
    write(work.join("untracked.txt"), "never seen by git\n", 0o644);
    play_disaster(&scene);
    let stash = fs::read(work.join(".git/refs/stash"));
    assert!(stash.is_ok(), "the stash is where it was");
}

#[test]
fn a_disaster_is_undone_in_a_repository_without_commits() {
    let scene = Scene::new();
    git(&scene.directory, &["init", "-q"]);
    make_project(&scene.directory);
    git(&scene.directory, &["add", "notes.txt"]);
    play_disaster(&scene);
}

#[test]
fn a_disaster_is_undone_in_a_worktree() {
    let mut scene = Scene::new();
    let main = scene.directory.join("main");
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q"]);
    make_project(&main);
    git(&main, &["add", "-A"]);
    git(&main, &["commit", "-qm", "one"]);
    git(&main, &["worktree", "add", "-q", "../tree"]);
    let main_before = (read_tree(&main, false), read_tree(&main, true));
    scene.directory = scene.directory.join("tree");
    // What git does not check out.
    write(scene.at("secret.env"), "KEY=other\n", 0o600);
    play_disaster(&scene);
    assert_same(&read_tree(&main, false), &main_before.0, "the main tree");
    let refs = |tree: &Tree| -> Tree {
        let is_ref =
            |path: &PathBuf| path.starts_with(".git/refs") || path.starts_with(".git/logs");
        tree.iter().filter(|(path, _)| is_ref(path)).map(|(p, s)| (p.clone(), s.clone())).collect()
    };
    assert_same(&refs(&read_tree(&main, true)), &refs(&main_before.1), "its refs and reflog");
}

#[test]
fn a_nested_repository_and_a_subdirectory_of_one_are_workspaces_too() {
    let mut scene = Scene::new();
    let outer = scene.directory.clone();
    git(&outer, &["init", "-q"]);
    write(outer.join(".gitignore"), "huge.bin\n", 0o644);
    let inner = outer.join("below/nested");
    make_project(&inner);
    git(&inner, &["init", "-q"]);
    git(&inner, &["add", "-A"]);
    git(&inner, &["commit", "-qm", "one"]);
    scene.directory = outer.join("below");
    let before = read_tree(&outer, false);
    let git_before = read_tree(&outer, true);
    scene.turn(
        FREE,
        &[&[shell("rm -rf nested/src nested/notes.txt", "c1"), end()][..], &say("ok")].concat(),
    );
    scene.ok(&["undo"]);
    assert_same(&read_tree(&outer, false), &before, "after undo");
    assert_same(&read_tree(&outer, true), &git_before, "git's own");
}

#[test]
fn a_killed_turn_is_undone_and_said_to_be_cut_off() {
    let scene = Scene::new();
    make_project(&scene.directory);
    let before = read_tree(&scene.directory, false);
    let script = scene.write_script(&[
        shell("rm -rf src; echo x > new.txt; touch ready; sleep 300", "c1"),
        end(),
    ]);
    let mut args = vec!["exec", "--driver", "fake", "--script", &script];
    args.extend(FREE);
    args.push("do it");
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    scene.wait_for("snapshot_taken");
    let started = Instant::now();
    while !scene.at("ready").exists() {
        assert!(started.elapsed() < RUN_AT_MOST, "the command never ran");
        std::thread::sleep(LOOK_EVERY);
    }
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, 137);
    let shown = scene.ok(&["changes", "--stat"]);
    assert!(shown.contains("(it never ended)") && shown.contains("A new.txt"), "{shown}");
    let ended = scene.gimlet(&["undo"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("a call of that turn never ended"), "{ended:?}");
    assert_same(&read_tree(&scene.directory, false), &before, "after undo");
    // The next run mends the log, and the model is told.
    let told = json!({"expect": {"input_contains": "undid the file changes of turn 1"}});
    scene.next_turn(&[&[told][..], &say("I see.")].concat());
    scene.ok(&["redo"]);
    assert_eq!(scene.read("new.txt"), "x\n");
}

#[test]
fn what_the_user_changed_since_is_not_overwritten_unasked() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    write(scene.at("b.txt"), "b\n", 0o644);
    let call = shell("echo A > a.txt; echo B > b.txt; mkdir out; echo x > out/x", "c1");
    scene.turn(&[], &[&[call, end()][..], &say("ok")].concat());
    write(scene.at("a.txt"), "mine\n", 0o644);
    write(scene.at("out/mine"), "mine too\n", 0o644);
    write(scene.at("unrelated.txt"), "stays\n", 0o644);
    let refused = scene.gimlet(&["undo"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("  a.txt\n"), "{refused:?}");
    assert!(refused.stderr.contains("1 file changed since; nothing was done"), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!((scene.read("a.txt"), scene.read("b.txt")), ("mine\n".into(), "B\n".into()));
    let refused: Value = serde_json::from_str(&scene.gimlet(&["undo", "--json"]).stdout).unwrap();
    assert_eq!(refused["ok"], false);
    assert!(refused["conflicts"][0].as_str().unwrap().ends_with("/a.txt"), "{refused}");
    // A dry run is just that, also with --force.
    scene.ok(&["undo", "--force", "--dry-run"]);
    assert_eq!(scene.read("a.txt"), "mine\n");
    scene.ok(&["undo", "--force"]);
    assert_eq!((scene.read("a.txt"), scene.read("b.txt")), ("a\n".into(), "b\n".into()));
    assert!(!scene.at("out/x").exists(), "what the turn made is gone");
    assert_eq!(scene.read("out/mine"), "mine too\n", "what the user put beside it is not");
    assert_eq!(scene.read("unrelated.txt"), "stays\n");
    scene.ok(&["redo"]);
    assert_eq!((scene.read("a.txt"), scene.read("b.txt")), ("mine\n".into(), "B\n".into()));
    assert_eq!(scene.read("out/x"), "x\n");
}

#[test]
fn edits_between_two_calls_are_the_users() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    // The second run is another turn; what happens in between is not part of either.
    scene.turn(&[], &[&[shell("echo one > one.txt", "c1"), end()][..], &say("ok")].concat());
    write(scene.at("a.txt"), "edited\n", 0o644);
    scene.next_turn(&[&[shell("echo two > two.txt", "c2"), end()][..], &say("ok")].concat());
    scene.ok(&["undo", "1"]);
    assert!(!scene.at("one.txt").exists() && !scene.at("two.txt").exists());
    assert_eq!(scene.read("a.txt"), "edited\n");
}

#[test]
fn turns_are_undone_one_by_one_and_redone_in_order() {
    let scene = Scene::new();
    write(scene.at("n"), "0\n", 0o644);
    let step = |n: u32| [&[shell(&format!("echo {n} > n"), "c"), end()][..], &say("ok")].concat();
    scene.turn(&[], &step(1));
    scene.next_turn(&step(2));
    scene.next_turn(&step(3));
    let mut seen = Vec::new();
    for word in ["undo", "undo", "redo", "redo", "undo", "undo", "undo"] {
        scene.ok(&[word]);
        seen.push(scene.read("n"));
    }
    assert_eq!(seen.concat(), "2\n1\n2\n3\n2\n1\n0\n");
    let none = scene.gimlet(&["undo"]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.contains("there is nothing to undo"), "{none:?}");
    for _ in 0..3 {
        scene.ok(&["redo"]);
    }
    assert_eq!(scene.read("n"), "3\n");
    let none = scene.gimlet(&["redo"]);
    assert!(none.stderr.contains("there is nothing to redo"), "{none:?}");
    scene.ok(&["undo", "2"]);
    assert_eq!(scene.read("n"), "1\n");
    let none = scene.gimlet(&["undo", "3"]);
    assert!(none.stderr.contains("there is nothing to undo in turn 3"), "{none:?}");
}

#[test]
fn the_model_is_told_what_was_undone() {
    let scene = Scene::new();
    scene.turn(&[], &[&[shell("echo x > made.txt", "c1"), end()][..], &say("ok")].concat());
    scene.ok(&["undo"]);
    let told = json!({"expect": {"input_contains": "<files_restored>\nThe user undid the file changes of turn 1 and of any later turn. These files changed:\nD made.txt\n</files_restored>"}});
    scene.next_turn(&[&[told][..], &say("I see.")].concat());
    // Once is enough: the note is part of the conversation.
    let log = fs::read_to_string(&scene.logs()[0]).unwrap();
    scene.next_turn(&say("Still here."));
    let later = fs::read_to_string(&scene.logs()[0]).unwrap();
    let count = |log: &str| log.matches("<files_restored>").count();
    assert_eq!((count(&log), count(&later)), (1, 1));
}

#[test]
fn ignored_files_come_back_within_their_bounds_and_are_named_beyond() {
    let scene = Scene::new();
    scene.house.write_config(
        "[snapshots]\nignored_file_bytes_max = 1000\nignored_total_bytes_max = 1500\nfile_bytes_max = 5000\n",
    );
    write(scene.at(".gitignore"), "*.bin\ncache/\n", 0o644);
    write(scene.at("small.bin"), "s".repeat(600), 0o644);
    write(scene.at("cache/deep/medium"), "m".repeat(800), 0o644);
    write(scene.at("cache/more"), "x".repeat(900), 0o644);
    write(scene.at("large.bin"), "l".repeat(1001), 0o644);
    write(scene.at("huge.txt"), "h".repeat(5001), 0o644);
    let call = shell("rm -rf small.bin cache large.bin huge.txt", "c1");
    scene.turn(&[], &[&[call, end()][..], &say("ok")].concat());
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!(scene.read("small.bin"), "s".repeat(600));
    assert_eq!(scene.read("cache/deep/medium"), "m".repeat(800));
    let left = |name: &str| -> String {
        let all = told["left"].as_array().unwrap().iter();
        let of = |one: &&Value| one["path"].as_str().unwrap().ends_with(name);
        all.clone().find(of).unwrap_or_else(|| panic!("{name}: {told}"))["reason"].to_string()
    };
    assert!(left("large.bin").contains("ignored by the project"), "{told}");
    assert!(left("cache/more").contains("ignored by the project"), "{told}");
    assert!(left("huge.txt").contains("too large to be kept"), "{told}");
    assert!(!scene.at("large.bin").exists() && !scene.at("huge.txt").exists());
}

#[test]
fn a_turn_that_only_looks_costs_nothing_and_some_sessions_keep_nothing() {
    let looks = [&[shell("ls", "c1"), end()][..], &say("ok")].concat();
    let writes = [&[shell("echo x > x.txt", "c1"), end()][..], &say("ok")].concat();
    for (args, script) in [
        (&[][..], &looks),
        (&["-s", "read-only"], &writes),
        (&["--ephemeral"], &writes),
        (&["-c", "snapshots.enabled=false"], &writes),
    ] {
        let scene = Scene::new();
        let ended = scene.turn(args, script);
        assert!(!scene.house.home().join("snapshots").exists(), "{args:?}");
        assert!(!ended.stderr.contains("gimlet undo"), "{args:?}: {ended:?}");
    }
}

#[test]
fn the_whole_file_system_is_no_workspace_to_undo() {
    let scene = Scene::new();
    let script =
        scene.write_script(&[&[shell("umask 022; :", "c1"), end()][..], &say("ok")].concat());
    let args = [
        "exec",
        "-C",
        "/",
        "-s",
        "danger-full-access",
        "--driver",
        "fake",
        "--script",
        &script,
        "x",
    ];
    let ended = scene.gimlet(&args);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("undo is off: /: it is the whole file system"), "{ended:?}");
    let args = [&args[..1], &["--json"], &args[1..]].concat();
    let ended = scene.gimlet(&args);
    assert!(ended.stdout.contains("undo is off: /: it is the whole file system"), "{ended:?}");
}

#[test]
fn changes_are_shown_call_by_call_with_who_made_them() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "one\ntwo\n", 0o644);
    let text = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n*** End Patch\n";
    let lines = [
        &[patch(text, "c1"), end(), shell("chmod 755 a.txt; printf '\\0' > b.bin", "c2"), end()][..],
        &say("ok"),
    ];
    let ended = scene.turn(&["--json"], &lines.concat());
    let shown = scene.ok(&["changes"]);
    let wanted = "# turn 1, patch: apply_patch\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n\
                  # turn 1, command: chmod 755 a.txt; printf '\\0' > b.bin\ndiff --git a/a.txt b/a.txt\nold mode 0644\nnew mode 0755\n";
    assert!(shown.starts_with(wanted), "{shown}");
    assert!(shown.contains("b/b.bin"), "{shown}");
    let stat = scene.ok(&["changes", "1", "--stat"]);
    assert!(stat.contains("  M a.txt  +1 −1\n"), "{stat}");
    let all: Value = serde_json::from_str(&scene.ok(&["changes", "--json"])).unwrap();
    assert_eq!(all["calls"][0]["by"], "patch", "{all}");
    assert_eq!(all["calls"][1]["by"], "command", "{all}");
    // Scripts that know Codex's events see what commands changed as well.
    let items: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "item.completed" && line["item"]["type"] == "file_change")
        .map(|line| line["item"].clone())
        .collect();
    assert_eq!(items.len(), 2, "{items:?}");
    assert_eq!(items[1]["status"], "completed");
    let kinds: Vec<&Value> =
        items[1]["changes"].as_array().unwrap().iter().map(|change| &change["kind"]).collect();
    assert_eq!(kinds, [&json!("update"), &json!("add")]);
}

#[test]
fn a_session_that_is_open_elsewhere_is_left_to_itself_and_another_is_not() {
    let scene = Scene::new();
    // It hangs until someone writes to the pipe; nobody but it ever opens that.
    let made = Command::new("mkfifo").arg(scene.at("pipe")).status().unwrap();
    assert!(made.success());
    let script = scene.write_script(&[
        shell("echo a > a.txt; touch ready; cat pipe", "c1"),
        end(),
        json!({"say": "ok"}),
        end(),
    ]);
    let mut args = vec!["exec", "--driver", "fake", "--script", &script];
    args.extend(FREE);
    args.push("do it");
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    let started = Instant::now();
    while !scene.at("ready").exists() {
        assert!(started.elapsed() < RUN_AT_MOST, "the command never ran");
        std::thread::sleep(LOOK_EVERY);
    }
    let open = scene.logs()[0].file_stem().unwrap().to_string_lossy().into_owned();
    scene.turn(FREE, &[&[shell("echo b > b.txt", "c1"), end()][..], &say("ok")].concat());
    let refused = scene.gimlet(&["undo", "--session", &open]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("is open in another process"), "{refused:?}");
    assert!(refused.stderr.contains("/undo"), "{refused:?}");
    // The other session is the newest, and both use the store at once.
    scene.ok(&["undo"]);
    assert!(!scene.at("b.txt").exists() && scene.at("a.txt").exists());
    fs::write(scene.at("pipe"), "go on\n").unwrap();
    assert_eq!(running.wait().code, 0);
    scene.ok(&["undo", "--session", &open]);
    assert!(!scene.at("a.txt").exists() && scene.at("pipe").exists());
}

#[test]
fn a_root_beside_the_workspace_is_undone_as_well() {
    let scene = Scene::new();
    let other = scene.house.root().join("other");
    write(other.join("o.txt"), "o\n", 0o644);
    let cmd = format!("echo changed > {}; echo w > w.txt", other.join("o.txt").display());
    let add = other.display().to_string();
    scene.turn(&["--add-dir", &add], &[&[shell(&cmd, "c1"), end()][..], &say("ok")].concat());
    assert_eq!(fs::read_to_string(other.join("o.txt")).unwrap(), "changed\n");
    scene.ok(&["undo"]);
    assert_eq!(fs::read_to_string(other.join("o.txt")).unwrap(), "o\n");
    assert!(!scene.at("w.txt").exists());
}
