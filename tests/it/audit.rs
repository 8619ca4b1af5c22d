//! `gimlet audit`: what it says of a real session, and of a log that was damaged.
//!
//! That any damage is found is a property in `src/store/chain.rs`; here is the command.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::run::House;

const SCRIPT: &str = r#"{"call": {"name": "exec_command", "arguments": {"cmd": "echo hi"}}}
{"call": {"name": "exec_command", "arguments": {"cmd": "touch /x", "sandbox_permissions": "require_escalated", "justification": "because"}}}
{"custom": {"name": "apply_patch", "input": "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch"}}
{"call": {"name": "nothing", "arguments": {}}}
{"end": {}}
{"say": "done"}
{"end": {}}
"#;

/// Returns a house with one session, and its log.
fn house() -> (House, PathBuf) {
    let house = House::new();
    let log = play(&house);
    (house, log)
}

fn play(house: &House) -> PathBuf {
    let script = house.root().join("script.jsonl");
    fs::write(&script, SCRIPT).unwrap();
    let script = script.display().to_string();
    let ended = house.run(&["exec", "--events", "--driver", "fake", "--script", &script, "hi"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let event: Value = serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap();
    let id = event["session"].as_str().unwrap();
    let all = walk(&house.home().join("sessions"));
    all.into_iter().find(|path| path.to_string_lossy().contains(id)).unwrap()
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn it_says_who_ran_what_and_by_whose_word() {
    let (house, log) = house();
    let id = log.file_stem().unwrap().to_string_lossy().into_owned();
    let ended = house.run(&["audit", &id]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    for words in [
        "    command   echo hi\n",
        "    in        ",
        "    policy    allowed by policy\n",
        "    policy    must be approved, outside the sandbox by policy: it wants to leave the sandbox: because\n",
        "    decision  declined: nobody is here to be asked\n",
        "    outcome   declined (denied)",
        "    outcome   completed, exit 0, ",
        "    changed   new new.txt  +1 -0\n",
        "    policy    not judged: the call did not come to run\n",
        "whole: ",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    let by_prefix = house.run(&["audit", &id[..12]]);
    let by_path = house.run(&["audit", &log.display().to_string()]);
    let last = house.run(&["audit"]);
    assert_eq!([&by_prefix.stdout, &by_path.stdout, &last.stdout], [&ended.stdout; 3]);
}

#[test]
fn programs_get_an_object_a_record() {
    let (house, _) = house();
    let ended = house.run(&["audit", "last", "--json"]);
    let records: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = |at: usize| records.iter().filter(|r| r["type"] == "call").nth(at).unwrap();
    assert_eq!(call(0)["data"]["effect"]["command"]["script"], "echo hi");
    assert_eq!(call(0)["data"]["exit_code"], 0);
    assert_eq!(call(1)["data"]["decision"]["action"], "ask_unsandboxed");
    assert_eq!(call(1)["data"]["answer"]["kind"], "declined");
    assert_eq!(call(1)["data"]["outcome"], "declined");
    assert!(
        records.iter().all(|r| r["type"] == "chain" || r["hash"].as_str().unwrap().len() == 64)
    );
    let end = records.last().unwrap();
    assert_eq!((&end["type"], &end["whole"]), (&"chain".into(), &true.into()));
}

#[test]
fn damage_is_named_and_a_repair_is_told_apart() {
    let (house, log) = house();
    let whole = house.run(&["audit", "verify"]);
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""), "{whole:?}");
    let hash = whole.stdout.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(house.run(&["audit", "verify", "--last-hash", &hash]).code, 0);

    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("echo hi", "echo ho", 1)).unwrap();
    let changed = house.run(&["audit", "verify", "last"]);
    assert_eq!(changed.code, 1, "{changed:?}");
    assert!(changed.stdout.contains("DAMAGED"), "{changed:?}");
    assert!(changed.stderr.contains("it does not follow from line"), "{changed:?}");
    assert_eq!(house.run(&["audit"]).code, 1);

    // The end cut off is found by the hash that was kept, and by nothing else.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&log, lines[..lines.len() - 1].concat()).unwrap();
    assert_eq!(house.run(&["audit", "verify"]).code, 0);
    let cut = house.run(&["audit", "verify", "--last-hash", &hash]);
    assert_eq!(cut.code, 1, "{cut:?}");

    // What a crash leaves is no damage, and neither is what the next run makes of it.
    fs::write(&log, format!("{text}{{\"v\":1,\"seq")).unwrap();
    let torn = house.run(&["audit", "verify"]);
    assert_eq!(torn.code, 0, "{torn:?}");
    assert!(torn.stderr.contains("11 bytes after the last whole line"), "{torn:?}");
    let script = house.root().join("more.jsonl");
    fs::write(&script, "{\"say\":\"more\"}\n{\"end\":{}}\n").unwrap();
    let script = script.display().to_string();
    let resumed =
        house.run(&["exec", "--driver", "fake", "--script", &script, "resume", "--last", "on"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let repaired = house.run(&["audit", "verify"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert!(repaired.stderr.contains("repair: line "), "{repaired:?}");
    assert!(repaired.stderr.contains("11 bytes set aside"), "{repaired:?}");
}

#[test]
fn a_session_is_found_by_its_beginning_and_all_are_checked() {
    let (house, first) = house();
    let second = play(&house);
    let id = first.file_stem().unwrap().to_string_lossy().into_owned();
    let several = house.run(&["audit", &id[..6]]);
    assert_eq!(several.code, 2, "{several:?}");
    assert!(several.stderr.contains("2 sessions begin with"), "{several:?}");
    assert_eq!(house.run(&["audit", "verify", "--all"]).stdout.lines().count(), 2);
    let text = fs::read_to_string(&second).unwrap();
    fs::write(&second, text.replacen("echo hi", "echo ho", 1)).unwrap();
    let all = house.run(&["audit", "verify", "--all"]);
    assert_eq!(all.code, 1, "{all:?}");
    assert_eq!(all.stdout.matches("DAMAGED").count(), 1, "{all:?}");
    for (args, code) in [
        (&["audit", "0000000"][..], 2),
        (&["audit", "ab"], 2),
        (&["audit", "/nowhere.jsonl"], 1),
        (&["audit", "/dev/zero"], 1),
        (&["audit", "verify", "--all", "last"], 2),
    ] {
        let ended = house.run(args);
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains("error: "), "{ended:?}");
    }
    let empty = House::new();
    assert_eq!(empty.run(&["audit"]).code, 2);
    assert_eq!(empty.run(&["audit", "verify", "--all"]).code, 0);
}
