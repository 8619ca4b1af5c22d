//! What turns did to the files, taken back: by the whole binary, in every kind of workspace.
//!
//! Trees are compared by every byte, mode and link, read by code of the test's own; git's own
//! files are compared as bytes, so that nothing of them is touched by an undo. Knows the store
//! of snapshots only as a directory that grows or does not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::run::{Ended, House, RUN_AT_MOST, Stdin, copy_program, run, start};

/// Path → kind, mode and content.
type Tree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// How often something is looked at that another process does.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The user that nobody is.
const ORDINARY_USER: u32 = 65_534;

const FREE: &[&str] = &["-s", "danger-full-access"];

/// Reads a tree; what is git's own is read with `of_git` alone.
fn read_tree(root: &Path, of_git: bool) -> Tree {
    let (mut tree, mut folders) = (Tree::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let is_git = path.components().any(|part| part.as_os_str() == ".git");
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let seen = if metadata.is_dir() {
                folders.push(path.clone());
                ('d', mode, Vec::new())
            } else if metadata.is_symlink() {
                ('l', 0, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
            } else if metadata.is_file() {
                ('f', mode, fs::read(&path).unwrap())
            } else {
                ('o', mode, Vec::new())
            };
            if is_git == of_git {
                tree.insert(path.strip_prefix(root).unwrap().to_owned(), seen);
            }
        }
    }
    tree
}

fn assert_same(is: &Tree, was: &Tree, what: &str) {
    let differs = |(path, seen): &(&PathBuf, &(char, u32, Vec<u8>)), other: &Tree| {
        other.get(*path) != Some(seen)
    };
    let now: Vec<_> = is.iter().filter(|one| differs(one, was)).map(|(path, _)| path).collect();
    let before: Vec<_> = was.iter().filter(|one| differs(one, is)).map(|(path, _)| path).collect();
    assert!(now.is_empty() && before.is_empty(), "{what}: now {now:?}, before {before:?}");
}

fn write(path: PathBuf, text: impl AsRef<[u8]>, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Puts a small project with all kinds of files into a directory.
fn make_project(root: &Path) {
    let at = |name: &str| root.join(name);
    write(at("src/main.rs"), "fn main() {}\n", 0o644);
    write(at("src/deep/er/tool.sh"), "#!/bin/sh\necho hi\n", 0o755);
    write(at("src/latin1.txt"), b"caf\xe9\r\nno newline", 0o600);
    write(at("src/empty"), "", 0o640);
    write(root.join(OsStr::from_bytes(b"src/not\xfftext\n.txt")), "odd name\n", 0o644);
    write(at("notes.txt"), "hello world\n", 0o644);
    write(at(".gitignore"), "*.log\n/secret.env\n", 0o644);
    write(at("secret.env"), "KEY=value\n", 0o600);
    write(at("run.log"), "ignored, and kept\n", 0o644);
    fs::create_dir_all(at("src/hollow/inner")).unwrap();
    fs::set_permissions(at("src/hollow"), fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("main.rs", at("src/link")).unwrap();
    std::os::unix::fs::symlink("../nowhere", at("src/broken")).unwrap();
    std::os::unix::fs::symlink("src/deep", at("dirlink")).unwrap();
}

fn git(directory: &Path, args: &[&str]) {
    let ended = Command::new("git")
        .args([
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "git {args:?}: {text}");
}

fn shell(cmd: &str, id: &str) -> Value {
    json!({"call": {"name": "exec_command", "arguments": {"cmd": cmd}, "call_id": id}})
}

fn patch(text: &str, id: &str) -> Value {
    json!({"custom": {"name": "apply_patch", "input": text, "call_id": id}})
}

fn end() -> Value {
    json!({"end": {}})
}

fn say(text: &str) -> [Value; 2] {
    [json!({"say": text}), end()]
}

/// A house, and the script of its next run.
struct Scene {
    house: House,
    directory: PathBuf,
    /// Who runs it, where not the one who tests.
    user: Option<u32>,
}

impl Scene {
    fn new() -> Self {
        let house = House::new();
        let directory = house.workspace();
        Self { house, directory, user: None }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_else(|_| "(not there)".to_owned())
    }

    fn write_script(&self, lines: &[Value]) -> String {
        let script = self.house.root().join("script.jsonl");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&script, text).unwrap();
        script.display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.house.command(args);
        if let Some(user) = self.user {
            let mut theirs = Command::new(self.house.root().join("gimlet-program/gimlet"));
            theirs.args(args).env_clear().uid(user).gid(user);
            let env = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            theirs.envs(env);
            command = theirs;
        }
        command.current_dir(&self.directory);
        command
    }

    fn gimlet(&self, args: &[&str]) -> Ended {
        let ended = run(self.command(args), Stdin::Nothing);
        assert!(!ended.hung && !ended.stderr.contains("panicked"), "{ended:?}");
        ended
    }

    fn ok(&self, args: &[&str]) -> String {
        let ended = self.gimlet(args);
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        ended.stdout
    }

    /// Plays a script as one turn of `exec`.
    fn turn(&self, more: &[&str], lines: &[Value]) -> Ended {
        let script = self.write_script(lines);
        let mut args = vec!["exec", "--driver", "fake", "--script", &script];
        args.extend(more);
        args.push("do it");
        let ended = self.gimlet(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    }

    /// Plays a script as the next turn of the last session.
    fn next_turn(&self, lines: &[Value]) -> Ended {
        let script = self.write_script(lines);
        let args = ["exec", "--driver", "fake", "--script", &script, "resume", "--last", "go on"];
        let ended = self.gimlet(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    }

    fn logs(&self) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.house.home().join("sessions")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path if path.extension().is_some_and(|kind| kind == "jsonl") => {
                        found.push(path);
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }

    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < RUN_AT_MOST, "it never was so");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Gives all to an ordinary user, who then runs everything: the rights of root hide what
    /// rights are about. Says whether there is such a user here.
    fn become_ordinary(&mut self) -> bool {
        if !rustix::process::geteuid().is_root() {
            return true;
        }
        let can = Command::new("true").uid(ORDINARY_USER).gid(ORDINARY_USER).status();
        if let Err(error) = can {
            eprintln!("SKIPPED: another user cannot be had here: {error}");
            return false;
        }
        let folder = self.house.root().join("gimlet-program");
        fs::create_dir(&folder).unwrap();
        copy_program(Path::new(env!("CARGO_BIN_EXE_gimlet")), &folder);
        let owner = format!("{ORDINARY_USER}:{ORDINARY_USER}");
        let given = Command::new("chown").arg("-R").arg(owner).arg(self.house.root()).status();
        assert!(given.unwrap().success());
        self.user = Some(ORDINARY_USER);
        true
    }

    fn wait_for(&self, text: &str) {
        let started = Instant::now();
        let log = || self.logs().iter().map(|log| fs::read_to_string(log).unwrap()).collect();
        while !Iterator::any(&mut std::iter::once::<String>(log()), |log| log.contains(text)) {
            assert!(started.elapsed() < RUN_AT_MOST, "`{text}` never came: {}", log());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

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

fn told_to_be_left(told: &Value, name: &str) -> String {
    let all = told["left"].as_array().unwrap().iter();
    let mut of = all.filter(|one| one["path"].as_str().unwrap().ends_with(name));
    of.next().unwrap_or_else(|| panic!("{name}: {told}"))["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_that_was_not_kept_is_never_removed_and_goes_back_when_it_was_moved() {
    let scene = Scene::new();
    scene.house.write_config("[snapshots]\nignored_file_bytes_max = 1000\n");
    write(scene.at(".gitignore"), "*.db\n", 0o644);
    for name in ["prod.db", "log1.db", "log2.db", "a.db", "b.db"] {
        write(scene.at(name), name.repeat(1000), 0o644);
    }
    let before = read_tree(&scene.directory, false);
    // Moved, moved into a new directory, moved on one place each, and exchanged.
    let cmd = "mv prod.db moved.db; cp moved.db copy.db; \
               mkdir -p away && mv log2.db away/log3.db && mv log1.db log2.db; \
               mv a.db t.db && mv b.db a.db && mv t.db b.db";
    scene.turn(&[], &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    let after = read_tree(&scene.directory, false);
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    for name in ["prod.db", "log1.db", "log2.db"] {
        assert_eq!(scene.read(name), name.repeat(1000), "{told}");
    }
    assert_eq!(scene.read("copy.db"), "prod.db".repeat(1000), "made anew, and no copy of it");
    assert!(told_to_be_left(&told, "copy.db").contains("could not be undone"), "{told}");
    assert!(!scene.at("moved.db").exists() && !scene.at("away").exists(), "{told}");
    // Two that changed places stay where they are: neither place is free.
    assert_eq!(
        scene.read("a.db") + &scene.read("b.db"),
        "b.db".repeat(1000) + &"a.db".repeat(1000)
    );
    told_to_be_left(&told, "/a.db");
    scene.ok(&["redo"]);
    assert_same(&read_tree(&scene.directory, false), &after, "after redo");
    scene.ok(&["undo", "--force"]);
    fs::remove_file(scene.at("copy.db")).unwrap();
    let mut now = read_tree(&scene.directory, false);
    let mut was = before;
    for tree in [&mut now, &mut was] {
        tree.retain(|path, _| path != Path::new("a.db") && path != Path::new("b.db"));
    }
    assert_same(&now, &was, "after the second undo");
}

#[test]
fn what_a_command_does_after_its_call_has_yielded_is_undone_as_well() {
    // Each waits for a file of the test's, so that it surely goes on after its call.
    let late = |n: u32| {
        let cmd = format!(
            "touch ready{n}; while [ ! -e go{n} ]; do sleep 0.01; done; rm -rf src; \
             rm go{n} ready{n}; echo late > late{n}; while [ ! -e stop ]; do sleep 0.01; done"
        );
        let args = json!({"cmd": cmd, "yield_time_ms": 250});
        json!({"call": {"name": "exec_command", "arguments": args, "call_id": format!("c{n}")}})
    };
    let wait = json!({"call": {"name": "write_stdin", "call_id": "w",
        "arguments": {"session_id": 1, "yield_time_ms": 250}}});
    let go = |n: u32| {
        shell(&format!("touch go{n}; while [ -e go{n} ]; do sleep 0.01; done; sleep 0.1"), "g")
    };
    let ends = "touch stop; sleep 0.3; rm stop";
    for (name, lines) in [
        ("the turn ends", vec![late(1), end(), go(1), end()]),
        ("another call", vec![late(1), end(), go(1), end(), shell("echo x > x", "o"), end()]),
        ("it is polled", vec![late(1), end(), go(1), end(), wait.clone(), end()]),
        ("it ends", vec![late(1), end(), go(1), end(), shell(ends, "e"), end(), wait, end()]),
    ] {
        let scene = Scene::new();
        make_project(&scene.directory);
        let before = read_tree(&scene.directory, false);
        let mut lines = lines;
        lines.extend(say("ok"));
        let ended = scene.turn(&["--json"], &lines);
        assert!(scene.at("late1").exists() && !scene.at("src").exists(), "{name}: {ended:?}");
        assert!(ended.stdout.contains("file_change"), "{name}: {ended:?}");
        scene.ok(&["undo"]);
        assert_same(&read_tree(&scene.directory, false), &before, name);
    }
}

#[test]
fn what_a_command_does_by_itself_between_two_looks_is_its_own_step() {
    // The command goes on by itself: nothing else runs while it writes.
    let cmd = "sleep 1; rm kept.txt; echo late > late.txt; sleep 60";
    let args = json!({"cmd": cmd, "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    let wait = json!({"call": {"name": "write_stdin", "call_id": "w",
        "arguments": {"session_id": 1, "yield_time_ms": 250}}});
    let pause = json!({"delay_ms": 3000});
    for (name, then) in [
        ("the turn ends", vec![]),
        ("another call", vec![shell("echo x > x", "o"), end()]),
        ("it is polled", vec![wait, end()]),
    ] {
        let scene = Scene::new();
        write(scene.at("kept.txt"), "kept\n", 0o644);
        let lines = [&[begun.clone(), end(), pause.clone()][..], &then, &say("ok")].concat();
        let ended = scene.turn(&["--json"], &lines);
        let told = ended.stdout.contains("file_change") && ended.stdout.contains("late.txt");
        assert!(told, "{name}: {ended:?}");
        let shown = scene.ok(&["changes"]);
        assert!(shown.starts_with("# turn 1, command: sleep 1; rm kept.txt"), "{name}: {shown}");
        scene.ok(&["undo"]);
        assert_eq!(scene.read("kept.txt"), "kept\n", "{name}");
        assert!(!scene.at("late.txt").exists() && !scene.at("x").exists(), "{name}");
    }
}

#[test]
fn what_a_killed_session_s_running_command_did_is_undone() {
    let scene = Scene::new();
    write(scene.at("kept.txt"), "kept\n", 0o644);
    let cmd = "while [ ! -e go ]; do sleep 0.01; done; rm kept.txt; touch done; sleep 60";
    let args = json!({"cmd": cmd, "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    let script = scene.write_script(&[begun, end(), json!({"delay_ms": 50_000}), end()]);
    let args = ["exec", "--driver", "fake", "--script", &script, "do it"];
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    scene.wait_for("process_started");
    scene.wait_for("tool_call_end");
    fs::write(scene.at("go"), "").unwrap();
    scene.wait_until(|| scene.at("done").exists());
    running.signal(Signal::KILL);
    running.wait();
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!(
        (told["cut_off"].as_bool(), scene.read("kept.txt").as_str()),
        (Some(true), "kept\n")
    );
    assert!(!scene.at("done").exists(), "{told}");
}

#[test]
fn the_sandbox_s_own_mount_points_are_nobodys_changes() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    let args = json!({"cmd": "echo b > b.txt; sleep 60", "yield_time_ms": 250});
    let begun = json!({"call": {"name": "exec_command", "arguments": args, "call_id": "c1"}});
    // While the first one runs its mount points are there, and the second is recorded.
    let lines = [&[begun, end(), shell("echo c > c.txt", "c2"), end()][..], &say("ok")].concat();
    let ended = scene.turn(&["--json"], &lines);
    for name in [".agents", ".codex", ".gimlet", ".git"] {
        let path = scene.at(name).display().to_string();
        assert!(!ended.stdout.contains(&format!("{path}\"")), "{name}: {ended:?}");
    }
    let told = scene.ok(&["undo"]);
    assert!(told.starts_with("Undid turn 1: 2 files"), "{told}");
}

#[test]
fn a_repository_that_was_moved_away_is_left_where_it_is() {
    for (name, cmd) in
        [("old-git", "mv .git old-git"), ("deep/er/g", "mkdir -p deep/er; mv .git deep/er/g")]
    {
        let scene = Scene::new();
        write(scene.at("a.txt"), "a\n", 0o644);
        git(&scene.directory, &["init", "-q"]);
        git(&scene.directory, &["add", "-A"]);
        git(&scene.directory, &["commit", "-qm", "one"]);
        let repository = read_tree(&scene.at(".git"), true);
        let cmd = format!("{cmd}; echo b > a.txt");
        scene.turn(FREE, &[&[shell(&cmd, "c1"), end()][..], &say("ok")].concat());
        let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
        assert_same(&read_tree(&scene.at(name), false), &repository, name);
        assert!(told_to_be_left(&told, name).contains("repository"), "{told}");
        assert_eq!(scene.read("a.txt"), "a\n");
        scene.gimlet(&["undo", "--force"]);
        assert!(scene.at(name).join("HEAD").exists());
    }
}

#[test]
fn a_new_turn_ends_what_could_be_redone() {
    let scene = Scene::new();
    let step = |n: u32| {
        let call = shell(&format!("echo {n} > n{n}"), "c");
        [&[call, end()][..], &say("ok")].concat()
    };
    scene.turn(&[], &step(1));
    scene.next_turn(&step(2));
    scene.ok(&["undo"]);
    scene.next_turn(&step(3));
    let refused = scene.gimlet(&["redo"]);
    assert!(refused.stderr.contains("there is nothing to redo"), "{refused:?}");
    scene.ok(&["undo"]);
    assert!(scene.at("n1").exists() && !scene.at("n2").exists() && !scene.at("n3").exists());
    scene.ok(&["undo"]);
    assert!(!scene.at("n1").exists());
}

#[test]
fn what_could_not_be_read_before_is_not_taken_for_new() {
    let mut scene = Scene::new();
    for (name, mode) in [("shut", 0o000), ("listed", 0o444), ("blind", 0o311)] {
        write(scene.at(name).join("mine.txt"), "mine\n", 0o644);
        write(scene.at(name).join("below/mine.txt"), "mine\n", 0o644);
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    write(scene.at("secret"), "mine\n", 0o000);
    write(scene.at("a.txt"), "a\n", 0o644);
    if !scene.become_ordinary() {
        return;
    }
    let cmd = "chmod 755 shut listed blind; chmod 644 secret; echo b > a.txt; echo x > shut/new";
    scene.turn(FREE, &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    for force in [&["undo", "--json"][..], &["undo", "1", "--force", "--json"]] {
        let ended = scene.gimlet(force);
        assert!(ended.stderr.is_empty(), "{ended:?}");
        let _ =
            Command::new("chmod").args(["755", "listed"]).current_dir(&scene.directory).status();
        for name in ["shut", "listed", "blind"] {
            assert_eq!(scene.read(&format!("{name}/mine.txt")), "mine\n", "{name}: {ended:?}");
            assert_eq!(scene.read(&format!("{name}/below/mine.txt")), "mine\n", "{ended:?}");
        }
        assert_eq!((scene.read("secret"), scene.read("a.txt")), ("mine\n".into(), "a\n".into()));
        if force.len() == 2 {
            let told: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert!(told_to_be_left(&told, "/shut").contains("could not be read"), "{told}");
            assert!(told_to_be_left(&told, "/secret").contains("could not be read"), "{told}");
        }
    }
}

#[test]
fn directories_that_a_turn_closed_or_made_closed_are_undone() {
    let mut scene = Scene::new();
    write(scene.at("d/a.txt"), "a\n", 0o644);
    write(scene.at("d/e/b.txt"), "b\n", 0o644);
    write(scene.at("closed/c.txt"), "c\n", 0o644);
    fs::set_permissions(scene.at("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    if !scene.become_ordinary() {
        return;
    }
    let before = read_tree(&scene.directory, false);
    let cmd = "echo x > d/a.txt; rm d/e/b.txt; echo n > d/n; chmod 500 d/e; chmod 555 d; \
               mkdir -p new/below; echo y > new/below/y; chmod 555 new/below new; \
               chmod 755 closed; echo z > closed/c.txt; echo z > closed/z; chmod 555 closed";
    scene.turn(FREE, &[&[shell(cmd, "c1"), end()][..], &say("ok")].concat());
    let after = read_tree(&scene.directory, false);
    for _ in 0..2 {
        let ended = scene.gimlet(&["undo"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
        assert_same(&read_tree(&scene.directory, false), &before, "after undo");
        let ended = scene.gimlet(&["redo"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
        assert_same(&read_tree(&scene.directory, false), &after, "after redo");
    }
    let journal = scene.house.home().join("journal");
    assert_eq!(fs::read_dir(journal).unwrap().count(), 0, "nothing is left to recover");
}

#[test]
fn after_a_kill_what_the_user_changed_later_is_a_conflict() {
    let scene = Scene::new();
    write(scene.at("a.txt"), "a\n", 0o644);
    let script = scene.write_script(&[
        shell("echo b > a.txt; echo n > new; touch ready; sleep 300", "c1"),
        end(),
    ]);
    let args = ["exec", "--driver", "fake", "--script", &script, "do it"];
    let (running, _pipe) = start(scene.command(&args), Stdin::Nothing);
    scene.wait_until(|| scene.at("ready").exists());
    running.signal(Signal::KILL);
    running.wait();
    write(scene.at("a.txt"), "mine\n", 0o644);
    write(scene.at("mine.txt"), "mine\n", 0o644);
    // As if some time had passed.
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    for name in ["a.txt", "mine.txt"] {
        fs::File::options().write(true).open(scene.at(name)).unwrap().set_modified(later).unwrap();
    }
    let refused: Value = serde_json::from_str(&scene.gimlet(&["undo", "--json"]).stdout).unwrap();
    let names: Vec<&str> = refused["conflicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["a.txt", "mine.txt"], "{refused}");
    scene.ok(&["undo", "--force"]);
    assert_eq!((scene.read("a.txt").as_str(), scene.at("new").exists()), ("a\n", false));
    scene.ok(&["redo"]);
    assert_eq!((scene.read("a.txt"), scene.read("mine.txt")), ("mine\n".into(), "mine\n".into()));
}

#[test]
fn a_session_that_goes_on_elsewhere_is_undone_there_and_here() {
    let mut scene = Scene::new();
    let (here, there) = (scene.at("here"), scene.at("there"));
    for directory in [&here, &there] {
        write(directory.join("n"), "0\n", 0o644);
    }
    let step = |n: u32| [&[shell(&format!("echo {n} > n"), "c"), end()][..], &say("ok")].concat();
    scene.directory.clone_from(&here);
    scene.turn(&[], &step(1));
    let id = scene.logs()[0].file_stem().unwrap().to_string_lossy().into_owned();
    scene.directory.clone_from(&there);
    let script = scene.write_script(&step(2));
    let args = ["exec", "--driver", "fake", "--script", &script, "resume", &id, "go on"];
    assert_eq!(scene.gimlet(&args).code, 0);
    let read = || {
        fs::read_to_string(here.join("n")).unwrap() + &fs::read_to_string(there.join("n")).unwrap()
    };
    assert_eq!(read(), "1\n2\n");
    let shown = scene.ok(&["changes", "2"]);
    assert!(shown.contains("+2"), "{shown}");
    let refused = scene.gimlet(&["undo", "1"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("another directory"), "{refused:?}");
    scene.ok(&["undo"]);
    assert_eq!(read(), "1\n0\n");
    scene.directory.clone_from(&here);
    scene.ok(&["undo"]);
    assert_eq!(read(), "0\n0\n");
    scene.ok(&["redo"]);
    assert_eq!(read(), "1\n0\n");
    scene.ok(&["redo"]);
    assert_eq!(read(), "1\n2\n");
}

#[test]
fn redo_takes_the_undo_that_was_last() {
    let scene = Scene::new();
    let step =
        |n: u32| [&[shell(&format!("echo {n} > n{n}"), "c"), end()][..], &say("ok")].concat();
    scene.turn(&[], &step(1));
    scene.turn(&[], &step(2));
    let id = |n: usize| scene.logs()[n].file_stem().unwrap().to_string_lossy().into_owned();
    scene.ok(&["undo", "--session", &id(1)]);
    scene.ok(&["undo", "--session", &id(0)]);
    let told: Value = serde_json::from_str(&scene.ok(&["redo", "--json"])).unwrap();
    assert_eq!(told["session"], id(0));
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
    scene.ok(&["redo"]);
    assert!(scene.at("n2").exists());
}

#[test]
fn a_session_that_is_none_is_said_to_be_none() {
    let scene = Scene::new();
    let id = "01a1ff69-0851-7467-ba32-fae3aff4bda4";
    for word in ["undo", "redo", "changes"] {
        let refused = scene.gimlet(&[word, "--session", id]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(
            refused.stderr.contains("no session") && refused.stderr.contains(id),
            "{refused:?}"
        );
    }
}

#[test]
fn changes_names_empty_files_and_whose_mode_changed() {
    let scene = Scene::new();
    write(scene.at("tool.sh"), "x\n", 0o644);
    write(scene.at("old"), "", 0o644);
    let call = shell("touch empty; chmod 755 tool.sh; rm old", "c1");
    scene.turn(&[], &[&[call, end()][..], &say("ok")].concat());
    let shown = scene.ok(&["changes"]);
    for wanted in [
        "diff --git a/empty b/empty\nnew file",
        "diff --git a/tool.sh b/tool.sh\nold mode 0644\nnew mode 0755",
        "diff --git a/old b/old\ndeleted file",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn a_patch_outside_of_what_is_recorded_is_named_as_not_undone() {
    let scene = Scene::new();
    let outside = scene.house.root().join("outside.txt");
    write(outside.clone(), "one\n", 0o644);
    let text = format!(
        "*** Begin Patch\n*** Update File: {}\n@@\n-one\n+two\n*** Add File: in.txt\n+in\n*** End Patch\n",
        outside.display()
    );
    scene.turn(FREE, &[&[patch(&text, "c1"), end()][..], &say("ok")].concat());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "two\n");
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert!(told_to_be_left(&told, "outside.txt").contains("outside"), "{told}");
    assert!(!scene.at("in.txt").exists());
}

#[test]
fn an_undo_that_died_before_it_could_say_so_is_known_to_be_done() {
    let scene = Scene::new();
    let step =
        |n: u32| [&[shell(&format!("echo {n} > n{n}"), "c"), end()][..], &say("ok")].concat();
    scene.turn(&[], &step(1));
    scene.next_turn(&step(2));
    scene.ok(&["undo"]);
    let log = fs::read_to_string(&scene.logs()[0]).unwrap();
    let last = log.trim_end().rfind('\n').unwrap() + 1;
    assert!(log[last..].contains("restored") && log[..last].trim_end().ends_with('}'), "{log}");
    // As if it had died between the files and the log.
    fs::write(&scene.logs()[0], &log[..last]).unwrap();
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!(told["turn"], 2, "{told}");
    assert!(told["notes"][0].as_str().unwrap().contains("done already"), "{told}");
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
    scene.ok(&["redo"]);
    assert!(scene.at("n2").exists());
    // As if it had died before: nothing was done, so it is done now.
    scene.ok(&["undo"]);
    let log = fs::read_to_string(&scene.logs()[0]).unwrap();
    let last = log.trim_end().rfind('\n').unwrap() + 1;
    fs::write(&scene.logs()[0], &log[..last]).unwrap();
    write(scene.at("n2"), "2\n", 0o644);
    let told: Value = serde_json::from_str(&scene.ok(&["undo", "--json"])).unwrap();
    assert_eq!((told["turn"].as_u64(), told["notes"].as_array().unwrap().len()), (Some(2), 0));
    assert!(scene.at("n1").exists() && !scene.at("n2").exists());
}
