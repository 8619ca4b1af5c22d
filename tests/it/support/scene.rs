//! A workspace that turns change, as tests of undo need it: trees read and compared by every
//! byte, mode and link, a script for the next run, and another user to run it as.
//!
//! Knows the store of snapshots only as a directory that grows or does not.

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

use serde_json::{Value, json};

use super::run::{Ended, House, RUN_AT_MOST, Stdin, copy_program, run};

/// Path → kind, mode and content.
pub(crate) type Tree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

/// How often something is looked at that another process does.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The user that nobody is.
pub(crate) const ORDINARY_USER: u32 = 65_534;

pub(crate) const FREE: &[&str] = &["-s", "danger-full-access"];

/// Reads a tree; what is git's own is read with `of_git` alone.
pub(crate) fn read_tree(root: &Path, of_git: bool) -> Tree {
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

pub(crate) fn assert_same(is: &Tree, was: &Tree, what: &str) {
    let differs = |(path, seen): &(&PathBuf, &(char, u32, Vec<u8>)), other: &Tree| {
        other.get(*path) != Some(seen)
    };
    let now: Vec<_> = is.iter().filter(|one| differs(one, was)).map(|(path, _)| path).collect();
    let before: Vec<_> = was.iter().filter(|one| differs(one, is)).map(|(path, _)| path).collect();
    assert!(now.is_empty() && before.is_empty(), "{what}: now {now:?}, before {before:?}");
}

pub(crate) fn write(path: PathBuf, text: impl AsRef<[u8]>, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Puts a small project with all kinds of files into a directory.
pub(crate) fn make_project(root: &Path) {
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

pub(crate) fn git(directory: &Path, args: &[&str]) {
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

pub(crate) fn shell(cmd: &str, id: &str) -> Value {
    json!({"call": {"name": "exec_command", "arguments": {"cmd": cmd}, "call_id": id}})
}

pub(crate) fn patch(text: &str, id: &str) -> Value {
    json!({"custom": {"name": "apply_patch", "input": text, "call_id": id}})
}

pub(crate) fn end() -> Value {
    json!({"end": {}})
}

pub(crate) fn say(text: &str) -> [Value; 2] {
    [json!({"say": text}), end()]
}

/// Waits for what another process does.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < RUN_AT_MOST, "it never was so");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A house, and the script of its next run.
pub(crate) struct Scene {
    pub(crate) house: House,
    pub(crate) directory: PathBuf,
    /// Who runs it, where not the one who tests.
    pub(crate) user: Option<u32>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let house = House::new();
        let directory = house.workspace();
        Self { house, directory, user: None }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_else(|_| "(not there)".to_owned())
    }

    pub(crate) fn write_script(&self, lines: &[Value]) -> String {
        let script = self.house.root().join("script.jsonl");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&script, text).unwrap();
        script.display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
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

    pub(crate) fn gimlet(&self, args: &[&str]) -> Ended {
        let ended = run(self.command(args), Stdin::Nothing);
        assert!(!ended.hung && !ended.stderr.contains("panicked"), "{ended:?}");
        ended
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ended = self.gimlet(args);
        assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
        ended.stdout
    }

    /// Plays a script as one turn of `exec`.
    pub(crate) fn turn(&self, more: &[&str], lines: &[Value]) -> Ended {
        let script = self.write_script(lines);
        let mut args = vec!["exec", "--driver", "fake", "--script", &script];
        args.extend(more);
        args.push("do it");
        let ended = self.gimlet(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    }

    /// Plays a script as the next turn of the last session.
    pub(crate) fn next_turn(&self, lines: &[Value]) -> Ended {
        let script = self.write_script(lines);
        let args = ["exec", "--driver", "fake", "--script", &script, "resume", "--last", "go on"];
        let ended = self.gimlet(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    }

    pub(crate) fn logs(&self) -> Vec<PathBuf> {
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

    /// Gives all to an ordinary user, who then runs everything: the rights of root hide what
    /// rights are about. Says whether there is such a user here.
    pub(crate) fn become_ordinary(&mut self) -> bool {
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

    pub(crate) fn wait_for(&self, text: &str) {
        let started = Instant::now();
        let log = || self.logs().iter().map(|log| fs::read_to_string(log).unwrap()).collect();
        while !Iterator::any(&mut std::iter::once::<String>(log()), |log| log.contains(text)) {
            assert!(started.elapsed() < RUN_AT_MOST, "`{text}` never came: {}", log());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

pub(crate) fn told_to_be_left(told: &Value, name: &str) -> String {
    let all = told["left"].as_array().unwrap().iter();
    let mut of = all.filter(|one| one["path"].as_str().unwrap().ends_with(name));
    of.next().unwrap_or_else(|| panic!("{name}: {told}"))["reason"].as_str().unwrap().to_owned()
}
