//! The contract with shells and scripts: arguments in; stdout, stderr and an exit code out.
//!
//! Everything here runs the binary against the mock server. Bad input is a table; streams,
//! signals and the SDK's own argv are a test each. What a session does inside is the matter of
//! `sessions.rs`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::run::{Ended, House, RUN_AT_MOST, Stdin, run, start};
use crate::support::server::{End, Reply, Server};
use crate::support::sse::Response;

/// Returns a server that says one thing to each request.
fn saying(text: &'static str) -> Server {
    Server::start(0, move |n, _| Reply::sse(Response::new(n).message(text).stream()))
}

fn house_with(server: &Server) -> House {
    let house = House::new();
    house.use_server(&server.base_url());
    house
}

/// Returns all of the last request's input as text.
fn last_input(server: &Server) -> String {
    server.requests().last().expect("a request arrived").json()["input"].to_string()
}

fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).collect()
}

fn assert_no_panic(ended: &Ended) {
    assert!(!ended.hung, "it had to be killed: {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    assert_ne!(ended.code, 101, "{ended:?}");
}

// ---------------------------------------------------------------- bad input

/// What is wrong, and what must come of it.
struct Bad {
    name: &'static str,
    config: &'static str,
    args: &'static [&'static str],
    codes: &'static [i32],
    /// What stderr must name; `|` separates alternatives.
    words: &'static [&'static str],
}

const BAD: &[Bad] = &[
    Bad { name: "no prompt", config: "", args: &["exec"], codes: &[2], words: &["prompt"] },
    Bad {
        name: "no key",
        config: "",
        args: &["exec", "hi"],
        codes: &[5],
        words: &["OPENAI_API_KEY", "gimlet login"],
    },
    Bad {
        name: "unknown provider",
        config: "",
        args: &["exec", "-c", "model_provider=nowhere", "hi"],
        codes: &[2],
        words: &["nowhere"],
    },
    Bad {
        name: "unreachable server",
        config: UNREACHABLE,
        args: &["exec", "hi"],
        codes: &[1],
        words: &["127.0.0.1:1"],
    },
    Bad {
        name: "bad TOML",
        config: "model = \"m\"\nmodel_provider = \n",
        args: &["exec", "hi"],
        codes: &[2],
        words: &["config.toml", "config.toml:2:|line 2"],
    },
    Bad {
        name: "wrong type in TOML",
        config: "max_steps = \"many\"\n",
        args: &["exec", "hi"],
        codes: &[2],
        words: &["max_steps"],
    },
    Bad {
        name: "bad -c",
        config: "",
        args: &["exec", "-c", "nonsense", "hi"],
        codes: &[2],
        words: &["nonsense"],
    },
    Bad {
        name: "wrong type in -c",
        config: "",
        args: &["exec", "-c", "max_steps=\"many\"", "hi"],
        codes: &[2],
        words: &["max_steps", "command line"],
    },
    Bad {
        name: "unknown setting to explain",
        config: "",
        args: &["config", "explain", "nonsense"],
        codes: &[2],
        words: &["nonsense"],
    },
    Bad {
        name: "missing image",
        config: UNREACHABLE,
        args: &["exec", "-i", "nowhere.png", "hi"],
        codes: &[2],
        words: &["nowhere.png"],
    },
    Bad {
        name: "an image that is none",
        config: UNREACHABLE,
        args: &["exec", "-i", "text.txt", "hi"],
        codes: &[2],
        words: &["text.txt"],
    },
    Bad {
        name: "missing schema",
        config: UNREACHABLE,
        args: &["exec", "--output-schema", "nowhere.json", "hi"],
        codes: &[2],
        words: &["nowhere.json"],
    },
    Bad {
        name: "schema that is not JSON",
        config: UNREACHABLE,
        args: &["exec", "--output-schema", "text.txt", "hi"],
        codes: &[2],
        words: &["text.txt"],
    },
    Bad {
        name: "schema that is not a schema",
        config: UNREACHABLE,
        args: &["exec", "--output-schema", "bad_schema.json", "hi"],
        codes: &[2],
        words: &["bad_schema.json"],
    },
    Bad {
        name: "not a directory",
        config: UNREACHABLE,
        args: &["exec", "-C", "text.txt", "hi"],
        codes: &[2],
        words: &["text.txt"],
    },
    Bad {
        name: "unknown option",
        config: "",
        args: &["exec", "--sandbx", "hi"],
        codes: &[2],
        words: &["--sandbx"],
    },
    Bad {
        name: "unknown sandbox mode",
        config: "",
        args: &["exec", "-s", "open", "hi"],
        codes: &[2],
        words: &["open", "workspace-write"],
    },
    Bad {
        name: "unknown profile",
        config: "",
        args: &["exec", "-p", "nowhere", "hi"],
        codes: &[2],
        words: &["nowhere"],
    },
    Bad {
        name: "unknown session",
        config: UNREACHABLE,
        args: &["exec", "resume", "01a1fd0d-043f-7c81-b79a-636f3f116ff1", "hi"],
        codes: &[2],
        words: &["01a1fd0d"],
    },
    Bad {
        name: "no session to go on with",
        config: UNREACHABLE,
        args: &["exec", "resume", "--last", "hi"],
        codes: &[2],
        words: &["session"],
    },
    Bad {
        name: "no session id",
        config: UNREACHABLE,
        args: &["exec", "resume", "yesterday", "hi"],
        codes: &[2],
        words: &["yesterday"],
    },
    Bad {
        name: "no place for the last message",
        config: UNREACHABLE,
        args: &["exec", "-o", "nowhere/last.txt", "hi"],
        codes: &[2],
        words: &["nowhere/last.txt"],
    },
    Bad {
        name: "a directory for the last message",
        config: UNREACHABLE,
        args: &["exec", "-o", ".", "hi"],
        codes: &[2],
        words: &["directory"],
    },
    Bad {
        name: "a prompt of blanks",
        config: UNREACHABLE,
        args: &["exec", "  "],
        codes: &[2],
        words: &["empty", "gimlet exec"],
    },
    Bad {
        name: "missing script",
        config: "",
        args: &["exec", "--driver", "fake", "--script", "nowhere.jsonl", "hi"],
        codes: &[1],
        words: &["nowhere.jsonl"],
    },
    Bad {
        name: "execpolicy without a command",
        config: "",
        args: &["execpolicy", "check"],
        codes: &[2],
        words: &["CMD"],
    },
    Bad {
        name: "execpolicy with rules that are none",
        config: "",
        args: &["execpolicy", "check", "--rules", "text.txt", "--", "ls"],
        codes: &[2],
        words: &["text.txt:1", "[[rule]]"],
    },
    Bad {
        name: "execpolicy with rules that are not there",
        config: "",
        args: &["execpolicy", "check", "--rules", "none.toml", "--", "ls"],
        codes: &[2],
        words: &["none.toml"],
    },
    Bad {
        name: "bare command without a terminal",
        config: "",
        args: &[],
        codes: &[2],
        words: &["gimlet exec"],
    },
];

const UNREACHABLE: &str = "model_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
                           base_url = \"http://127.0.0.1:1/v1\"\nrequest_max_retries = 0\nstream_max_retries = 0\n";

#[test]
fn bad_input_ends_with_one_clear_line_and_its_code() {
    let mut wrong = Vec::new();
    for bad in BAD {
        let house = House::new();
        house.write_config(bad.config);
        let files =
            [("text.txt", "not an image\n"), ("bad_schema.json", "{\"type\": \"nonsense\"}\n")];
        for (name, text) in files {
            fs::write(house.workspace().join(name), text).unwrap();
        }
        let ended = house.run(bad.args);
        if let Some(why) = judge(bad, &ended) {
            wrong.push(format!("{}: {why}\n{ended:?}", bad.name));
        }
        let left = fs::read_dir(house.workspace()).unwrap().count();
        assert_eq!(left, files.len(), "{}: something was left in the workspace", bad.name);
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), BAD.len(), wrong.join("\n"));
}

/// Returns what is not as it should be.
fn judge(bad: &Bad, ended: &Ended) -> Option<String> {
    if ended.hung || ended.stderr.contains("panicked") {
        return Some("it hung or panicked".to_owned());
    }
    if !bad.codes.contains(&ended.code) {
        return Some(format!("code {}, not {:?}", ended.code, bad.codes));
    }
    if !ended.stdout.is_empty() {
        return Some("stdout is for results".to_owned());
    }
    let named = |word: &&&str| word.split('|').any(|word| ended.stderr.contains(word));
    if let Some(word) = bad.words.iter().find(|word| !named(word)) {
        return Some(format!("stderr does not name `{word}`"));
    }
    let errors =
        ended.stderr.lines().filter(|line| line.trim_start().starts_with("error: ")).count();
    if errors != 1 {
        return Some(format!("{errors} lines begin with `error: `, not one"));
    }
    let helps = ["hint: ", "Usage: ", "tip: ", "For more information"];
    let helped = ended
        .stderr
        .lines()
        .any(|line| helps.iter().any(|help| line.trim_start().starts_with(help)));
    (!helped).then(|| "there is no hint".to_owned())
}

#[test]
fn a_home_that_cannot_be_written_is_one_clear_line() {
    let server = saying("Hello.");
    let mut house = house_with(&server);
    let blocked = house.root().join("blocked");
    fs::write(&blocked, "a file where a directory should be").unwrap();
    house.set_env("GIMLET_HOME", &blocked.join("gimlet").display().to_string());
    house.set_env("OPENAI_API_KEY", "k");
    let base = format!("openai_base_url=\"{}\"", server.base_url());
    let ended = house.run(&["exec", "-c", &base, "hi"]);
    assert_no_panic(&ended);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.starts_with("error: "), "{ended:?}");
    assert!(ended.stderr.contains("blocked"), "stderr names the place: {ended:?}");
    assert!(ended.stderr.contains("\n  hint: "), "{ended:?}");
}

// ---------------------------------------------------------------- stdin and stdout

#[test]
fn the_final_message_alone_is_on_stdout() {
    let server = saying("All is well.");
    let house = house_with(&server);
    let ended = house.run(&["exec", "-o", "last.txt", "How is it?"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "All is well.\n"), "{ended:?}");
    assert!(!ended.stderr.contains('\u{1b}'), "no colour without a terminal: {ended:?}");
    let last = fs::read_to_string(house.workspace().join("last.txt")).unwrap();
    assert_eq!(last.trim_end(), "All is well.");
}

#[test]
fn the_prompt_comes_from_where_it_is() {
    let server = saying("Heard.");
    let house = house_with(&server);
    let cases: &[(&[&str], Stdin<'_>, &[&str])] = &[
        (&["exec", "from argv"], Stdin::Nothing, &["from argv"]),
        (&["exec"], Stdin::Text("from a pipe\n"), &["from a pipe"]),
        (&["exec", "-"], Stdin::Text("from a dash\n"), &["from a dash"]),
        (
            &["exec", "look at this"],
            Stdin::Text("piped along"),
            &["look at this", "<stdin>", "piped along"],
        ),
        (&["exec", "an open pipe says nothing"], Stdin::Open, &["an open pipe says nothing"]),
    ];
    for (args, stdin, words) in cases {
        let ended = run(house.command(*args), *stdin);
        assert_no_panic(&ended);
        assert_eq!(ended.code, 0, "{args:?} {ended:?}");
        let input = last_input(&server);
        for word in *words {
            assert!(input.contains(word), "{args:?}: `{word}` was not sent: {input}");
        }
        if !matches!(stdin, Stdin::Text(_)) {
            assert!(!input.contains("<stdin>"), "{args:?}: nothing was piped: {input}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_accident() {
    // After the first line nobody reads; the second request would never be answered.
    for format in ["--json", "--events"] {
        let call = Response::new(0).function_call("exec_command", &json!({"cmd": "echo hi"}));
        let stream = call.stream();
        let (first, rest) = stream.split_at(stream.find("\n\n").unwrap() + 2);
        let called = Reply::sse(first).then(Duration::from_millis(300), rest);
        let half = Reply::sse(Response::new(1).message("half").cut_stream()).ending(End::Silent);
        let server = Server::playing(vec![called, half]);
        let house = house_with(&server);
        let mut command = house.command(["exec", format, "hi"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with('{'), "{line}");
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{format}: {stderr}");
        let said = "error: nobody reads stdout any more, so the work was stopped\n  hint: ";
        assert!(stderr.starts_with(said), "{format}: {stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_stdout_is_no_panic() {
    let server = saying("Hello.");
    let house = house_with(&server);
    for format in [&["exec", "--json", "hi"][..], &["exec", "hi"][..]] {
        let mut command = house.command(format);
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("error: cannot write to stdout: "), "{stderr}");
        assert!(stderr.contains("\n  hint: "), "{stderr}");
    }
}

/// A run that never starts ends its stream as one that failed does.
#[test]
fn json_says_why_a_run_did_not_start() {
    let house = House::new();
    for (args, code) in [(&["exec", "--json", "hi"][..], 5), (&["exec", "--json", " "][..], 2)] {
        let ended = house.run(args);
        assert_eq!(ended.code, code, "{ended:?}");
        let types: Vec<Value> =
            json_lines(&ended.stdout).iter().map(|line| line["type"].clone()).collect();
        assert_eq!(types, ["error", "turn.failed"], "{ended:?}");
        assert!(ended.stderr.starts_with("error: "), "{ended:?}");
    }
}

// ---------------------------------------------------------------- signals

#[test]
fn a_signal_ends_the_turn_and_the_stream_says_so() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let half = Response::new(0).message("I was about to").cut_stream();
        let server = Server::playing(vec![Reply::sse(half).ending(End::Silent)]);
        let house = house_with(&server);
        let (running, _pipe) = start(house.command(["exec", "--json", "hi"]), Stdin::Nothing);
        assert!(server.wait_for_requests(1, RUN_AT_MOST), "no request came");
        running.signal(signal);
        let ended = running.wait();
        assert_no_panic(&ended);
        assert_eq!(ended.code, code, "{ended:?}");
        let events = json_lines(&ended.stdout);
        assert_eq!(events.last().unwrap()["type"], "turn.failed", "{ended:?}");
    }
}

/// Without a reader that reads, every write of the program would wait for ever.
#[test]
fn a_reader_that_stalls_keeps_no_signal_away() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let half = Response::new(0).message("I was about to").cut_stream();
        let server = Server::playing(vec![Reply::sse(half).ending(End::Silent)]);
        let house = house_with(&server);
        let (_reader, writer) = full_pipe();
        let mut command = house.command(["exec", "--json", "hi"]);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(server.wait_for_requests(1, RUN_AT_MOST), "output is waited for before the work");
        kill_process(pid, signal).unwrap();
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::spawn(move || tx.send(child.wait().unwrap()));
        let status = rx.recv_timeout(RUN_AT_MOST).inspect_err(|_| {
            let _ = kill_process(pid, Signal::KILL);
        });
        assert_eq!(status.expect("it had to be killed").code(), Some(code));
    }
}

/// Returns a pipe that takes not one byte more.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    for piece in [&[b'\n'; 4096][..], b"\n"] {
        while writer.write(piece).is_ok() {}
    }
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_leaves_no_command_behind() {
    let cmd = "echo $$ > pid; sleep 300 & echo $! > pid; wait";
    let call = Response::new(0).function_call("exec_command", &json!({"cmd": cmd}));
    let server = Server::playing(vec![Reply::sse(call.stream())]);
    let house = house_with(&server);
    // A reader of a FIFO waits for its writer, so nobody has to guess when the command runs.
    let fifo = house.workspace().join("pid");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // In namespaces of its own it would not know the numbers that we see.
    let args = ["exec", "--json", "-c", "sandbox_level_max=reduced", "hi"];
    let (running, _pipe) = start(house.command(args), Stdin::Nothing);
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let _ = tx.send(fs::read_to_string(&fifo).unwrap_or_default());
        }
    });
    let mut pids = vec![rx.recv_timeout(RUN_AT_MOST).expect("the command runs")];
    // Both lines may come to one reader.
    if pids[0].lines().count() < 2 {
        pids.push(rx.recv_timeout(RUN_AT_MOST).expect("its child runs"));
    }
    running.signal(Signal::TERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    for pid in pids.concat().lines() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        // A zombie has died; whose parent reaps it is the machine's matter.
        assert!(state.is_empty() || state.starts_with('Z'), "process {pid} still runs: {stat}");
    }
}

// ---------------------------------------------------------------- the wire

#[test]
fn one_session_is_one_connection_with_a_prefix_that_never_changes() {
    let call = |n| Response::new(n).function_call("exec_command", &json!({"cmd": "echo hi"}));
    let replies = (0..3).map(|n| Reply::sse(call(n).stream()));
    let last = Reply::sse(Response::new(3).message("Done.").stream());
    let server = Server::playing(replies.chain([last]).collect());
    let house = house_with(&server);
    let ended = house.run(&["exec", "hi"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(server.connections(), 1, "connections");
    for pair in requests.windows(2) {
        let (a, b) = (pair[0].json(), pair[1].json());
        for (key, value) in a.as_object().unwrap().iter().filter(|(key, _)| *key != "input") {
            assert_eq!(value, &b[key], "`{key}` changed within a session");
        }
        let items = a["input"].as_array().unwrap();
        assert_eq!(
            items[..],
            b["input"].as_array().unwrap()[..items.len()],
            "history was rewritten"
        );
    }
    let body = requests[0].json();
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
}

#[test]
fn a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let hello = Reply::sse(Response::new(0).message("Hello.").stream());
    let error = |code| Reply::status(code, r#"{"error":{"message":"not today"}}"#);
    for (first, code, requests) in [(503, 0, 2), (429, 0, 2), (401, 5, 1), (400, 1, 1)] {
        let busy = error(first).header("retry-after", "0");
        let server = Server::playing(vec![busy, hello.clone()]);
        let house = house_with(&server);
        let ended = house.run(&["exec", "-c", "model_providers.mock.request_max_retries=2", "hi"]);
        assert_eq!(ended.code, code, "after {first}: {ended:?}");
        assert_eq!(server.requests().len(), requests, "after {first}: {ended:?}");
    }
}

// ---------------------------------------------------------------- the SDK

/// Returns the argv of `@openai/codex-sdk`, in its order.
fn sdk_argv(base_url: &str, workspace: &str, schema: &str) -> Vec<String> {
    let openai_base_url = format!("openai_base_url=\"{base_url}\"");
    let args = [
        "exec",
        "--experimental-json",
        "--config",
        "show_raw_agent_reasoning=true",
        "--config",
        &openai_base_url,
        "--model",
        "gpt-5.5",
        "--sandbox",
        "workspace-write",
        "--cd",
        workspace,
        "--add-dir",
        "/usr",
        "--skip-git-repo-check",
        "--output-schema",
        schema,
        "--config",
        "model_reasoning_effort=\"low\"",
        "--config",
        "sandbox_workspace_write.network_access=false",
        "--config",
        "web_search=\"disabled\"",
        "--config",
        "approval_policy=\"never\"",
    ];
    args.map(str::to_owned).into()
}

#[test]
fn the_sdk_is_understood_and_understands() {
    let server = saying("{\"word\":\"heron\"}");
    let mut house = House::new();
    house.set_env("CODEX_API_KEY", "sk-from-sdk");
    house.set_env("CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "codex_sdk_ts");
    let schema = house.root().join("schema.json");
    fs::write(&schema, r#"{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],"additionalProperties":false}"#).unwrap();
    let image = house.root().join("dot.png");
    fs::write(&image, DOT_PNG).unwrap();
    let argv = sdk_argv(
        &server.base_url(),
        &house.workspace().display().to_string(),
        &schema.display().to_string(),
    );
    let first = run(house.command(&argv), Stdin::Text("Say a word.\n\nAny word."));
    let thread = check_thread(&first);
    let request = server.requests()[0].clone();
    assert_eq!(request.header("authorization"), Some("Bearer sk-from-sdk"));
    assert_eq!(request.json()["text"]["format"]["type"], "json_schema");

    let mut argv = argv;
    argv.extend(["resume", &thread, "--image", &image.display().to_string()].map(str::to_owned));
    let second = run(house.command(&argv), Stdin::Text("And this?"));
    assert_eq!(check_thread(&second), thread, "the thread keeps its id");
    let input = last_input(&server);
    for word in ["Say a word.", "And this?", "data:image/png;base64,"] {
        assert!(input.contains(word), "`{word}` was not sent");
    }
}

/// Checks what the SDK depends on; returns the thread's id.
fn check_thread(ended: &Ended) -> String {
    assert_eq!(ended.code, 0, "{ended:?}");
    let events = json_lines(&ended.stdout);
    assert_eq!(events[0]["type"], "thread.started", "{ended:?}");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "turn.completed", "{ended:?}");
    for counter in
        ["input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens"]
    {
        assert!(last["usage"][counter].is_u64(), "usage.{counter}: {last}");
    }
    let message = events.iter().rfind(|e| e["item"]["type"] == "agent_message").unwrap();
    assert_eq!(message["item"]["text"], "{\"word\":\"heron\"}");
    events[0]["thread_id"].as_str().expect("thread_id is a string").to_owned()
}

/// One pixel.
const DOT_PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, 0x49, 0x44, 0x41, 0x54,
    0x78, 0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50, 0x0f, 0, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d,
    0x6a, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

// ---------------------------------------------------------------- execpolicy

#[test]
fn the_policy_answers_for_a_command_without_running_it() {
    let house = House::new();
    house.write_rules(
        "[[rule]]\naction = \"deny\"\nprogram = \"git\"\nargs = [\"push\"]\nreason = \"a person pushes\"\n\
         [[rule]]\naction = \"allow\"\nprogram = \"docker\"\nsandbox = false\n",
    );
    let table: [(&[&str], i32, &str); 8] = [
        (&["ls", "-la"], 0, "allow: it is known to only read\n"),
        (&["ls | head"], 0, "allow: it is known to only read\n"),
        (&["ls|head", "x"], 10, "ask: `ls|head` is not known to only read\n"),
        (&["touch made"], 10, "ask: `touch` is not known to only read\n"),
        (&["bash", "-lc", "ls > made"], 10, "ask: it redirects to or from a file (at byte 4)\n"),
        (
            &["ls && env git push"],
            11,
            "deny: the rule at your rules.toml:1 denies it: a person pushes\n",
        ),
        (
            &["docker", "ps"],
            0,
            "allow, outside the sandbox: the rule at your rules.toml:6 allows it\n",
        ),
        (
            &["\u{1b}[2J"],
            10,
            "ask: a control character or sign in it is not understood (at byte 1)\n",
        ),
    ];
    for (words, code, said) in table {
        let ended = house.run(&[&["execpolicy", "check", "--"], words].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (code, said), "{words:?}: {ended:?}");
    }
    assert_eq!(fs::read_dir(house.workspace()).unwrap().count(), 0);
}

#[test]
fn the_policy_answers_for_many_lines() {
    let house = House::new();
    let input = "ls\n".repeat(20_000) + "rm x\n";
    let command = house.command(["execpolicy", "check", "--stdin", "--json"]);
    let ended = run(command, Stdin::Text(&input));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let answers = json_lines(&ended.stdout);
    assert_eq!(answers.len(), 20_001);
    assert!(answers[..20_000].iter().all(|answer| answer["decision"] == "allow"));
    let last = serde_json::json!({
        "command": "rm x", "decision": "ask", "reason": "`rm` is not known to only read", "rule": null,
    });
    assert_eq!(answers[20_000], last);
}

#[test]
fn a_projects_rules_act_when_they_are_trusted_and_not_before() {
    let house = House::new();
    // A project of its own, also where the tests run inside a repository.
    for name in [".git", ".gimlet"] {
        fs::create_dir_all(house.workspace().join(name)).unwrap();
    }
    let rules = "[[rule]]\naction = \"deny\"\nprogram = \"ls\"\n";
    fs::write(house.workspace().join(".gimlet/rules.toml"), rules).unwrap();
    let check = || house.run(&["execpolicy", "check", "--", "ls"]);
    let before = check();
    assert_eq!(before.code, 0, "{before:?}");
    assert!(before.stderr.contains("you have not trusted it"), "{before:?}");
    let trusted = house.run(&["trust"]);
    assert!(
        trusted.stdout.contains(".gimlet/rules.toml says:\n  [[rule]]\n  action = \"deny\""),
        "{trusted:?}"
    );
    assert_eq!(check().code, 11);
    fs::write(house.workspace().join(".gimlet/rules.toml"), format!("{rules}# more\n")).unwrap();
    let changed = check();
    assert_eq!(changed.code, 0, "{changed:?}");
    assert!(changed.stderr.contains("changed since you trusted it"), "{changed:?}");
    fs::write(house.workspace().join(".gimlet/rules.toml"), "[[rule]]\n").unwrap();
    house.run(&["trust"]);
    let broken = check();
    assert!(broken.stderr.contains("all but reading is asked for"), "{broken:?}");
    assert_eq!(broken.code, 10, "{broken:?}");
}

#[test]
fn broken_rules_of_the_user_stop_a_run_before_it_begins() {
    let house = House::new();
    house.write_rules("[[rule]]\naction = \"deny\"\nprogram = \"rm\"\nexamples = [\"ls\"]\n");
    let ended = house.run(&["exec", "--skip-git-repo-check", "hi"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.stderr.contains("rules.toml:1: the rule does not match its example"),
        "{ended:?}"
    );
}
