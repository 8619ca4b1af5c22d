//! Plays whole sessions: a script for the model, a prompt, a workspace; then compares what came out.
//!
//! A case is a folder of `tests/fixtures/session/`; `tests/README.md` says what is in it. The
//! runner knows nothing of the program but its command line, so the cases would survive a
//! program written anew. `UPDATE_EXPECT=1 cargo test` writes the expectations.

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use expect_test::expect_file;
use serde_json::Value;

use crate::support::cases::play_all;
use crate::support::normalise;
use crate::support::run::{Ended, House, Stdin, copy_folder, run};

/// A tree as text: path from its root → content.
type Tree = BTreeMap<String, Vec<u8>>;

#[test]
fn sessions_go_as_expected() {
    if let Some(why) = cannot_confine() {
        println!("SKIPPED: {why}, so no command runs and sessions go otherwise");
        return;
    }
    play_all("session", 25, play);
}

/// Returns why commands cannot be confined here, by the program's own word.
fn cannot_confine() -> Option<String> {
    let house = House::new();
    let script = house.root().join("script.jsonl");
    fs::write(&script, "{\"say\":\"hi\"}\n{\"end\":{}}\n").unwrap();
    let script = script.display().to_string();
    let ended = house.run(&["exec", "--events", "--driver", "fake", "--script", &script, "hi"]);
    let none = |event: &Value| event["type"] == "sandbox_level" && event["level"] == "none";
    let levels = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let level = levels.map(|event| event["msg"].clone()).find(none)?;
    Some(format!("no Landlock here ({})", level["reason"].as_str().unwrap_or("no reason given")))
}

/// Plays one case and compares.
fn play(case: &Path) {
    let mut house = House::new();
    for line in fs::read_to_string(case.join("env.txt")).unwrap_or_default().lines() {
        let (name, value) = line.split_once('=').unwrap();
        house.set_env(name, value);
    }
    let start = case.join("workspace");
    if start.is_dir() {
        copy_folder(&start, &house.workspace());
    }
    if let Ok(config) = fs::read_to_string(case.join("config.toml")) {
        house.write_config(&config);
    }
    if let Ok(rules) = fs::read_to_string(case.join("rules.toml")) {
        house.write_rules(&rules);
    }
    let before = read_tree(&house.workspace());
    // `then/` is a second run that goes on with the session of the first.
    let runs: Vec<Ended> = [(case.to_owned(), false), (case.join("then"), true)]
        .into_iter()
        .filter(|(part, _)| part.join("script.jsonl").is_file())
        .map(|(part, resumes)| play_part(&house, &part, resumes))
        .collect();
    let root = house.root();
    let all = |part: fn(&Ended) -> String| runs.iter().map(part).collect::<Vec<_>>().join("");
    let expected = case.join("expected");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(&expected).unwrap();
    }
    let log = all(|run| run.stdout.clone());
    let context = || format!("{}\nstderr:\n{}", case.display(), all(|run| run.stderr.clone()));
    let events = catch_unwind(|| normalise::events(&log, &root))
        .unwrap_or_else(|_| panic!("not a log of events: {}", context()));
    runs.iter().for_each(|run| check_calls(&run.stdout));
    expect_file![expected.join("events.jsonl")].assert_eq(&events);
    expect_file![expected.join("exit.txt")].assert_eq(&all(|run| format!("{}\n", run.code)));
    let message = fs::read_to_string(house.root().join("last.txt")).unwrap_or_default();
    expect_file![expected.join("last_message.txt")].assert_eq(&normalise::text(&message, &root));
    let after = read_tree(&house.workspace());
    compare_trees(&expected.join("workspace"), &before, &after);
    assert!(runs.iter().all(|run| !run.hung), "had to be killed: {}", context());
    assert!(!context().contains("panicked at"), "{}", context());
}

/// Checks what holds of any session: each call has one output, one end and at most one begin,
/// in that order from the back, and the turn's end comes last, but for the ends of commands
/// that were left running.
fn check_calls(log: &str) {
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places = |is: &dyn Fn(&Value) -> bool| -> Vec<usize> {
        events.iter().enumerate().filter(|(_, event)| is(event)).map(|(at, _)| at).collect()
    };
    let is_call = |item: &Value| {
        item["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("_call") && kind != "web_search_call")
    };
    for event in events.iter().filter(|event| is_call(&event["msg"]["item"])) {
        let id = &event["msg"]["item"]["call_id"];
        let of_kind = |kind| places(&|e| e["call_id"] == *id && e["msg"]["type"] == kind);
        let (begins, ends) = (of_kind("tool_call_begin"), of_kind("tool_call_end"));
        let outputs = places(&|e| {
            let item = &e["msg"]["item"];
            item["call_id"] == *id && item["type"].as_str().unwrap_or("").ends_with("_output")
        });
        assert_eq!((ends.len(), outputs.len()), (1, 1), "ends and outputs of {id}: {log}");
        assert!(begins.len() <= 1, "{id} begins more than once: {log}");
        assert!(begins.first().is_none_or(|begin| *begin < ends[0]), "{id} ends first: {log}");
        assert!(ends[0] < outputs[0], "{id} is told before it ends: {log}");
    }
    let mut last = events.iter().rev().filter(|event| event["msg"]["type"] != "process_ended");
    if let Some(last) = last.next() {
        assert_eq!(last["msg"]["type"], "turn_ended", "{log}");
    }
}

/// Runs `exec` once, the events on stdout and the last message in `last.txt`.
fn play_part(house: &House, part: &Path, resumes: bool) -> Ended {
    let script = part.join("script.jsonl");
    let last = house.root().join("last.txt");
    let mut args: Vec<String> =
        ["exec", "--driver", "fake", "--events", "--script"].map(str::to_owned).into();
    args.push(script.display().to_string());
    args.extend(["-o".to_owned(), last.display().to_string()]);
    let more = fs::read_to_string(part.join("args.txt")).unwrap_or_default();
    args.extend(more.lines().map(str::to_owned));
    if resumes {
        args.extend(["resume", "--last"].map(str::to_owned));
    }
    let prompt = fs::read_to_string(part.join("prompt.txt"));
    args.push(prompt.as_deref().unwrap_or("Go on.").trim_end().to_owned());
    run(house.command(args), Stdin::Nothing)
}

/// Compares the tree with `expected`; a folder that is not there means "as it was".
fn compare_trees(expected: &Path, before: &Tree, after: &Tree) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let _ = fs::remove_dir_all(expected);
        if after != before {
            for (path, content) in after {
                let path = expected.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
        }
        return;
    }
    let wanted = if expected.is_dir() { read_tree(expected) } else { before.clone() };
    let shown = |tree: &Tree| -> BTreeMap<String, String> {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        tree.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect()
    };
    assert_eq!(shown(after), shown(&wanted), "the workspace (left) is not as expected (right)");
}

fn read_tree(root: &Path) -> Tree {
    let (mut tree, mut folders) = (Tree::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                tree.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    tree
}
