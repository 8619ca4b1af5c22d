//! What is left of a run that died, and how the next one goes on from it.
//!
//! The session file is read as bytes, by the rules its readers rely on: one event a line, each
//! naming the hash of the line before. A run is killed only when something shows how far it
//! has come. Knows nothing of what sessions do else; that is the matter of `sessions.rs`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::run::{Ended, House, RUN_AT_MOST, Running, Stdin, run, start};

/// How often the file is looked at while a run is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

fn write_script(house: &House, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(house.root().join("script.jsonl"), text).unwrap();
}

/// Returns the arguments of a run of the script.
fn exec(house: &House, more: &[&str]) -> Vec<String> {
    let script = house.root().join("script.jsonl").display().to_string();
    let fixed = ["exec", "--json", "--driver", "fake", "--script", &script];
    fixed.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn shell(cmd: &str, call_id: &str) -> Value {
    json!({"call": {"name": "exec_command", "arguments": {"cmd": cmd}, "call_id": call_id}})
}

fn end() -> Value {
    json!({"end": {}})
}

/// Returns the only session file of a house.
fn session_file(house: &House) -> Option<PathBuf> {
    let mut folders = vec![house.home().join("sessions")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|kind| kind == "jsonl") => return Some(path),
                _ => {}
            }
        }
    }
    None
}

fn read_session(house: &House) -> String {
    session_file(house).and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default()
}

/// Waits until the session file holds the text.
fn wait_for(house: &House, text: &str) {
    let started = Instant::now();
    while !read_session(house).contains(text) {
        assert!(started.elapsed() < RUN_AT_MOST, "`{text}` never came: {}", read_session(house));
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Starts a run and sends it a signal when its file holds the text; returns how it ended.
fn signal_when(house: &House, text: &str, signal: Signal) -> Ended {
    let (running, _pipe): (Running, _) =
        start(house.command(exec(house, &["do it"])), Stdin::Nothing);
    wait_for(house, text);
    running.signal(signal);
    running.wait()
}

/// Starts a run and ends it as a power cut would.
fn kill_when(house: &House, text: &str) {
    assert_eq!(signal_when(house, text, Signal::KILL).code, 137);
}

fn go_on(house: &House) -> Ended {
    run(house.command(exec(house, &["resume", "--last", "go on"])), Stdin::Nothing)
}

/// Checks places and hashes of every line; returns the events.
fn check_chain(log: &str) -> Vec<Value> {
    let (mut hash, mut events) = (String::new(), Vec::new());
    for (n, line) in log.lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(event["seq"], n + 1, "places have no gaps: {line}");
        assert_eq!(event["prev_hash"], hash.as_str(), "the chain is broken at {line}");
        let digest = Sha256::digest(line);
        hash = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        events.push(event);
    }
    assert!(log.is_empty() || log.ends_with('\n'), "the last line is whole");
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["msg"]["type"].as_str().unwrap()).collect()
}

/// Returns the events of one kind that belong to a call.
fn of_call<'a>(events: &'a [Value], kind: &str, call_id: &str) -> Vec<&'a Value> {
    let is = |e: &&Value| e["msg"]["type"] == kind && e["call_id"] == call_id;
    events.iter().filter(is).collect()
}

#[test]
fn a_killed_run_is_mended_and_gone_on_with() {
    let house = House::new();
    // The first call has ended, the second runs, the third has not begun: a patch runs alone.
    let patch = "*** Begin Patch\n*** Add File: never.txt\n+never\n*** End Patch\n";
    write_script(
        &house,
        &[
            shell("echo done", "c1"),
            end(),
            shell("sleep 300", "c2"),
            json!({"custom": {"name": "apply_patch", "input": patch, "call_id": "c3"}}),
            end(),
        ],
    );
    kill_when(&house, "\"call_id\":\"c2\",\"msg\":{\"type\":\"tool_call_begin\"");
    let before = read_session(&house);
    write_script(
        &house,
        &[
            json!({"expect": {"input_contains": "done", "last_output_contains": "interrupted"}}),
            json!({"say": "I go on."}),
            end(),
        ],
    );
    let ended = go_on(&house);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("I go on."), "{ended:?}");

    let log = read_session(&house);
    assert!(log.starts_with(&before), "what was written is never changed");
    let events = check_chain(&log);
    for call in ["c1", "c2", "c3"] {
        let items = of_call(&events, "item_completed", call);
        assert_eq!(items.len(), 2, "{call}: one call and one output: {items:#?}");
        assert_eq!(of_call(&events, "tool_call_end", call).len(), 1, "{call} ends once");
    }
    assert_eq!(of_call(&events, "tool_call_end", "c1")[0]["msg"]["outcome"], "completed");
    assert_eq!(of_call(&events, "tool_call_end", "c2")[0]["msg"]["outcome"], "interrupted");
    let ends: Vec<&Value> =
        events.iter().filter(|e| e["msg"]["type"] == "turn_ended").map(|e| &e["msg"]).collect();
    assert_eq!(ends[0]["outcome"], json!({"kind": "interrupted", "cause": "crash"}));
    assert_eq!(ends[1]["outcome"], json!({"kind": "completed"}));
    assert!(!house.workspace().join("never.txt").exists());
}

#[test]
fn a_run_killed_while_the_model_speaks_is_gone_on_with() {
    let house = House::new();
    write_script(&house, &[json!({"delta": "half a"}), json!({"delay_ms": 300_000}), end()]);
    kill_when(&house, "request_started");
    write_script(
        &house,
        &[json!({"expect": {"input_contains": "do it"}}), json!({"say": "I go on."}), end()],
    );
    let ended = go_on(&house);
    assert_eq!(ended.code, 0, "{ended:?}");
    let events = check_chain(&read_session(&house));
    let kinds = kinds(&events);
    assert_eq!(kinds.iter().filter(|kind| **kind == "turn_ended").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "session_started").count(), 2, "{kinds:?}");
}

#[test]
fn an_interrupted_run_leaves_a_whole_log_and_is_gone_on_with() {
    for (signal, code, cause) in [
        (Signal::INT, 130, "interrupt"),
        (Signal::TERM, 143, "terminate"),
        (Signal::HUP, 129, "hangup"),
    ] {
        let house = House::new();
        write_script(&house, &[shell("sleep 300", "c1"), end()]);
        let ended = signal_when(&house, "tool_call_begin", signal);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.stderr.starts_with("error: interrupted\n  hint: "), "{ended:?}");
        let events = check_chain(&read_session(&house));
        assert_eq!(of_call(&events, "tool_call_end", "c1")[0]["msg"]["outcome"], "interrupted");
        assert_eq!(of_call(&events, "item_completed", "c1").len(), 2, "a call and its output");
        let last = &events.last().unwrap()["msg"];
        assert_eq!(last["outcome"], json!({"kind": "interrupted", "cause": cause}));

        write_script(
            &house,
            &[
                json!({"expect": {"last_output_contains": "interrupted"}}),
                json!({"say": "I go on."}),
                end(),
            ],
        );
        assert_eq!(go_on(&house).code, 0);
        check_chain(&read_session(&house));
    }
}

/// A session that cannot start fails, and says so to readers of JSON as well.
fn assert_never_started(ended: &Ended) {
    let first = ended.stdout.lines().next().unwrap_or_default();
    let last = ended.stdout.lines().last().unwrap_or_default();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(first.starts_with(r#"{"type":"error""#), "{ended:?}");
    assert!(last.starts_with(r#"{"type":"turn.failed""#), "{ended:?}");
}

#[test]
fn a_session_that_is_open_elsewhere_is_left_alone() {
    let house = House::new();
    write_script(&house, &[shell("sleep 300", "c1"), end()]);
    let args = exec(&house, &["do it"]);
    let (running, _pipe) = start(house.command(args), Stdin::Nothing);
    wait_for(&house, "tool_call_begin");
    let before = read_session(&house);
    let second = go_on(&house);
    assert_never_started(&second);
    assert!(second.stderr.contains("is open in another process\n  hint: "), "{second:?}");
    assert_eq!(read_session(&house), before);
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code, 143);
}

#[test]
fn a_torn_line_is_set_aside_and_said() {
    let house = House::new();
    write_script(&house, &[json!({"say": "Hello."}), end()]);
    run(house.command(exec(&house, &["do it"])), Stdin::Nothing);
    let file = session_file(&house).unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{whole}{{\"v\":1,\"seq\":9")).unwrap();
    let ended = go_on(&house);
    assert_eq!(ended.code, 0, "{ended:?}");
    let log = read_session(&house);
    assert!(log.starts_with(&whole));
    assert!(kinds(&check_chain(&log)).contains(&"repaired"));
}

#[test]
fn a_file_of_nothing_but_garbage_is_an_error_and_stays() {
    let house = House::new();
    write_script(&house, &[json!({"say": "Hello."}), end()]);
    run(house.command(exec(&house, &["do it"])), Stdin::Nothing);
    let file = session_file(&house).unwrap();
    fs::write(&file, "not a session\n").unwrap();
    let id = file.file_stem().unwrap().to_string_lossy().into_owned();
    let ended = run(house.command(exec(&house, &["resume", &id, "hi"])), Stdin::Nothing);
    assert_never_started(&ended);
    assert!(ended.stderr.starts_with("error: nothing can be read in "), "{ended:?}");
    assert!(ended.stderr.contains("\n  hint: "), "{ended:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "not a session\n");
}

#[test]
fn a_call_is_in_the_file_before_its_command_runs() {
    let house = House::new();
    let cmd = "umask 022; grep -rc tool_call_begi[n] \"$SESSIONS\" | grep -v ':0$' | sed 's/.*:/begun: /'";
    // The pattern does not match its own text, which the file holds as well.
    let cmd = cmd.replace("$SESSIONS", &house.home().join("sessions").display().to_string());
    write_script(
        &house,
        &[
            shell(&cmd, "c1"),
            end(),
            json!({"expect": {"last_output_contains": "begun: 1"}}),
            shell(&cmd, "c2"),
            end(),
            json!({"expect": {"last_output_contains": "begun: 2"}}),
            json!({"say": "Both were there."}),
            end(),
        ],
    );
    let args = exec(&house, &["-s", "danger-full-access", "do it"]);
    let ended = run(house.command(args), Stdin::Nothing);
    assert_eq!(ended.code, 0, "{ended:?}");
    check_chain(&read_session(&house));
}

/// Returns a run whose files may not grow beyond some 32 KiB, as on a disk that fills up.
fn run_on_a_small_disk(house: &House, args: &[String]) -> Ended {
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut command = house.command(args);
    let program = command.get_program().to_owned();
    let mut small = Command::new("sh");
    small.arg("-c").arg(script).arg(program).args(command.get_args());
    small.current_dir(house.workspace()).env_clear();
    small.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command = small;
    run(command, Stdin::Nothing)
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run_before_anything_else_happens() {
    for early in [true, false] {
        let house = House::new();
        let long = "x".repeat(40 << 10);
        write_script(
            &house,
            &[
                json!({"say": long}),
                shell("echo x > ran.txt", "c1"),
                end(),
                json!({"say": "never reached"}),
                end(),
            ],
        );
        if early {
            // These are in the very first line.
            fs::write(house.home().join("long.md"), &long).unwrap();
            house.write_config("model_instructions_file = \"long.md\"\n");
        }
        let ended = run_on_a_small_disk(&house, &exec(&house, &["do it"]));
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains("error: cannot write to "), "{ended:?}");
        assert_eq!(ended.stderr.matches("error: ").count(), 1, "{ended:?}");
        assert!(ended.stderr.contains("\n  hint: free some space"), "{ended:?}");
        assert!(ended.stdout.lines().last().unwrap().contains("turn.failed"), "{ended:?}");
        assert!(!house.workspace().join("ran.txt").exists(), "it ran unseen: {ended:?}");
        // What fits is whole, but for a torn last line that the next run sets aside.
        let log = read_session(&house);
        let whole = log.rfind('\n').map_or(0, |at| at + 1);
        assert_eq!(check_chain(&log[..whole]).is_empty(), early);
    }
}

/// A process that was killed while it wrote files leaves a record; the next one that is about to
/// write goes by it first, and says so.
#[test]
fn what_a_killed_edit_left_is_cleared_before_the_next_write() {
    let house = House::new();
    let root = fs::canonicalize(house.workspace()).unwrap();
    let commit = "0123456789abcdef0123456789abcdef";
    let left = root.join(format!(".gimlet-{commit}-0"));
    fs::write(&left, "half").unwrap();
    let plan = json!({
        "version": 1, "commit": commit, "roots": [root], "dirs": [root],
        "steps": [{"act": "put", "dir": 0, "name": "new.txt", "temp_dir": 0}],
    });
    let digest = Sha256::digest(format!("plan {plan}"));
    let sum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let journal = house.home().join("journal");
    fs::create_dir_all(&journal).unwrap();
    fs::write(journal.join(format!("{commit}-0")), format!("{sum} plan {plan}\n")).unwrap();
    write_script(&house, &[shell("touch written", "c1"), end(), json!({"say": "Done."}), end()]);
    let ended = run(house.command(exec(&house, &["do it"])), Stdin::Nothing);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!left.exists());
    assert_eq!(fs::read_dir(&journal).unwrap().count(), 0);
    let session = read_session(&house);
    let said = format!("took back an edit that was interrupted: {}/new.txt", root.display());
    assert!(session.contains(&said), "{session}");
    let first = |word: &str| session.find(word).unwrap();
    assert!(first(&said) < first("tool_call_end"), "{session}");
}
