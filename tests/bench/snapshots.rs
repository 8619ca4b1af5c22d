//! What recording the state of a tree costs, beside `git status --ignored` on the same tree.
//!
//! Seen from outside: a session of one command that writes, less one of a command that only
//! reads, which records nothing. So the figure is all that a turn pays for being undoable: the
//! state before, and what changed after. Cold is the first session of all, warm a later one
//! after ten changes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::measure::{self, Run};
use crate::table::{median, shown};

/// What `--only` calls it.
pub(crate) const NAME: &str = "snapshot of 50,000 files";

const FILES: usize = 50_000;
const CHANGES: usize = 10;
/// Of `git status`, warm.
const GOAL: f64 = 2.0;

/// Measures and prints.
pub(crate) fn run(gimlet: &Path, rounds: usize, shrink: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = Tree { root: folder.path(), files: (FILES / shrink).max(CHANGES) };
    tree.write();
    let (mut cold, mut warm, mut status) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        eprintln!("{NAME}: round {round} of {rounds}");
        let _ = fs::remove_dir_all(tree.root.join("home"));
        // The first session also makes the state directory; this one takes that off the figure.
        tree.play(gimlet, "true");
        let first = tree.play(gimlet, "touch part0/new") - tree.play(gimlet, "ls");
        tree.change(round);
        let later = tree.play(gimlet, "rm part0/new") - tree.play(gimlet, "ls");
        tree.git(&["status", "--ignored", "--porcelain"]);
        tree.change(round + rounds + 1);
        let git = tree.git(&["status", "--ignored", "--porcelain"]);
        if round > 0 {
            cold.push(first);
            warm.push(later);
            status.push(git);
        }
    }
    let (cold, warm, status) = (median(&cold), median(&warm), median(&status));
    let ratio = warm.zip(status).map(|(warm, status)| warm / status);
    let verdict = if ratio.is_some_and(|ratio| ratio > GOAL) { ", missed" } else { "" };
    let row =
        |what: &str, figure, goal: &str| println!("{what:<38} {:>10}  {goal}", shown(figure, 2));
    println!("\n{NAME}, {CHANGES} changed");
    row("cold (ms)", cold, "");
    row("warm (ms)", warm, &format!("git status x {GOAL}{verdict}"));
    row("git status --ignored (ms)", status, "");
    row("warm to git status", ratio, "");
}

struct Tree<'a> {
    root: &'a Path,
    files: usize,
}

impl Tree<'_> {
    fn write(&self) {
        for file in 0..self.files {
            let path = self.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("file {file}\n").repeat(20)).unwrap();
        }
        fs::write(self.root.join("workspace/.gitignore"), "part7/\n").unwrap();
        self.git(&["init", "-q"]);
        self.git(&["add", "-A"]);
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        self.git(&[&who[..], &["commit", "-qm", "all"]].concat());
    }

    fn path(&self, file: usize) -> std::path::PathBuf {
        self.root.join(format!("workspace/part{}/sub{}/file{file}.txt", file % 20, file % 200))
    }

    fn change(&self, round: usize) {
        for n in 0..CHANGES {
            let file = n * (self.files / CHANGES);
            fs::write(self.path(file), format!("changed in round {round}\n")).unwrap();
        }
    }

    /// Runs git, and returns how long it took.
    fn git(&self, args: &[&str]) -> f64 {
        let started = measure::now_ns();
        let status = Command::new("git")
            .args(args)
            .current_dir(self.root.join("workspace"))
            .env("HOME", self.root)
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "git {args:?}");
        ms(measure::now_ns() - started)
    }

    /// Runs a session of one command, and returns how long it took.
    fn play(&self, gimlet: &Path, command: &str) -> f64 {
        let home = self.root.join("home");
        fs::create_dir_all(&home).unwrap();
        let call =
            serde_json::json!({"call": {"name": "exec_command", "arguments": {"cmd": command}}});
        let script = format!("{call}\n{{\"end\":{{}}}}\n{{\"say\":\"done\"}}\n{{\"end\":{{}}}}\n");
        let path = home.join("script.jsonl");
        fs::write(&path, script).unwrap();
        let path = path.display().to_string();
        let args = ["exec", "--driver", "fake", "--script", &path, "go"];
        let home = home.display().to_string();
        let env = [("GIMLET_HOME", home.as_str()), ("HOME", &home)];
        let run: Run = measure::run(self.root, gimlet, &args, &env);
        let said = || fs::read_to_string(self.root.join("stderr.txt")).unwrap_or_default();
        assert_eq!(run.code, 0, "{command}: {}", said());
        ms(run.ended_ns - run.started_ns)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}
