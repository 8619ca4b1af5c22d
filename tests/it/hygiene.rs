//! Escapes from outside: planted wherever text comes in, and looked for wherever it goes out.
//!
//! `exec` runs in its three formats, then every subcommand that quotes something. A terminal
//! gets marks in their place, a reader of JSON the same value escaped, a file of `-o` the bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::support::run::{Ended, House, Stdin, run};
use crate::support::server::{Reply, Server};
use crate::support::sse::Response;

/// All kinds at once: CSI, OSC 52, DCS, a lone BEL, C1, a bidirectional override, a zero-width
/// space, a tag, a carriage return, and a line of its own.
const EVIL: &str =
    "E\u{1b}[2J\u{1b}]52;c;QQ==\u{7}\u{1b}P1\u{1b}\\\u{9b}31m\u{202e}\u{200b}\u{e0041}\rV";

fn assert_clean(ended: &Ended, context: &str) {
    assert!(!ended.hung && !ended.stderr.contains("panicked"), "{context}: {ended:?}");
    let odd = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{202e}' | '\u{200b}' | '\u{e0041}')
    };
    for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        let bad = text.lines().find(|line| line.contains(odd));
        assert_eq!(bad, None, "{context}: {name}");
    }
}

/// A server whose every word is evil.
fn evil_server() -> Server {
    Server::start(0, |n, _| {
        let response = Response::new(n).reasoning(&format!("why {EVIL}"));
        let response = match n {
            0 => response
                .message(&format!("first {EVIL}"))
                .function_call("exec_command", &json!({"cmd": format!("printf 'a\\033[2J\\302\\233b\\r\\n'; echo '{EVIL}'; exit 3")}))
                .function_call("exec_command", &json!({"cmd": "true", "justification": EVIL, "sandbox_permissions": "require_escalated"}))
                .function_call("read_file", &json!({"path": format!("no {EVIL}")}))
                .function_call("grep_files", &json!({"pattern": "needle"}))
                .function_call("list_dir", &json!({"path": "."}))
                .function_call(&format!("tool {EVIL}"), &json!({EVIL: EVIL}))
                .function_call("update_plan", &json!({"explanation": EVIL, "plan": [{"step": EVIL, "status": "pending"}]}))
                .custom_call("apply_patch", &format!("*** Begin Patch\n*** Add File: p {}\n+{EVIL}\n*** End Patch", EVIL.replace('\r', "")))
                .custom_call("apply_patch", &format!("*** Begin Patch\n*** Update File: none\n@@ {EVIL}\n-x\n+y\n*** End Patch")),
            _ => response.message(&format!("last {EVIL}")),
        };
        Reply::sse(response.stream())
    })
}

fn evil_house(server: &Server) -> House {
    let house = House::new();
    house.use_server(&server.base_url());
    let name = EVIL.replace('\r', "");
    let config = fs::read_to_string(house.home().join("config.toml")).unwrap();
    let key = json!(format!("key {name}"));
    house.write_config(&format!(
        "{key} = 1\nmodel_reasoning_effort = \"low\"\n{config}[mcp_servers.bad]\ncommand = \"/nowhere/{0}\"\n",
        "\\u001b[2J"
    ));
    fs::create_dir_all(house.workspace().join(".git")).unwrap();
    let head = format!("ref: refs/heads/{name}\n");
    fs::write(house.workspace().join(".git/HEAD"), head).unwrap();
    fs::write(house.workspace().join("AGENTS.md"), format!("Rules {EVIL}\n")).unwrap();
    fs::write(house.workspace().join(format!("file {name}")), "needle\n").unwrap();
    let bytes = OsStr::from_bytes(b"bytes \xff\x9b31m");
    fs::write(house.workspace().join(bytes), "needle\n").unwrap();
    house
}

#[test]
fn no_format_of_exec_lets_an_escape_through() {
    for format in [&[][..], &["--json"], &["--events"], &["--color", "never"]] {
        let server = evil_server();
        let house = evil_house(&server);
        let file = house.root().join("last.txt").display().to_string();
        let mut args = vec!["exec", "-o", file.as_str()];
        args.extend(format);
        args.push("hi");
        let ended = house.run(&args);
        assert_clean(&ended, &format!("{format:?}"));
        assert_eq!(ended.code, 0, "{ended:?}");
        // A file is exact: who asked for it gets what the model said.
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("last {EVIL}"));
        let lines =
            || ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        match format {
            ["--json"] => {
                let said = |event: Value| event["item"]["text"] == format!("last {EVIL}");
                assert!(lines().any(said), "{}", ended.stdout);
            }
            ["--events"] => {
                let said = |event: Value| event["msg"]["last_message"] == format!("last {EVIL}");
                assert!(lines().any(said), "{}", ended.stdout);
            }
            _ => {
                assert!(ended.stdout.starts_with("last E␛[2J␛]52;c;QQ==␇"), "{}", ended.stdout);
                for words in ["first E␛[2J", "key E", "AGENTS.md holds", "no E␛", "± p E␛"] {
                    assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
                }
            }
        }
        for args in [&["audit"][..], &["audit", "--json"], &["audit", "verify"]] {
            let ended = house.run(args);
            assert_clean(&ended, &format!("{args:?}"));
            assert_eq!(ended.code, 0, "{ended:?}");
        }
    }
}

#[test]
fn what_a_server_says_in_an_error_is_cleaned() {
    for (status, body) in [
        (400, json!({"error": {"message": EVIL, "code": EVIL, "type": EVIL}}).to_string()),
        (500, EVIL.to_owned()),
        (401, format!("<html>{EVIL}</html>")),
    ] {
        for format in [&[][..], &["--json"], &["--events"]] {
            let reply = Reply::status(status, body.clone());
            let server = Server::start(0, move |_, _| reply.clone());
            let house = House::new();
            house.use_server(&server.base_url());
            let mut args = vec!["exec"];
            args.extend(format);
            args.push("hi");
            let mut command = house.command(args);
            command.env("GIMLET_LOG", "gimlet=trace,debug");
            let ended = run(command, Stdin::Nothing);
            assert_clean(&ended, &format!("{status} {format:?}"));
            assert_ne!(ended.code, 0);
        }
    }
}

#[test]
fn no_subcommand_lets_an_escape_through() {
    let house = House::new();
    let evil = EVIL.replace('\r', "");
    let dir = house.root().join(format!("dir {evil}"));
    fs::create_dir_all(dir.join(".gimlet")).unwrap();
    fs::create_dir_all(dir.join(".git")).unwrap();
    let quoted = json!(evil).to_string();
    let text = format!(
        "model = {quoted}\n{quoted} = {quoted}\n[mcp_servers.{quoted}]\ncommand = {quoted}\n"
    );
    // TOML has no surrogates: the tag is left out.
    let text = text.replace(['\u{e0041}', '\u{9b}'], "").replace('\u{202e}', "\\u202E");
    fs::write(dir.join(".gimlet/config.toml"), text).unwrap();
    let dir = dir.display().to_string();
    let set = format!("x{evil}=1");
    let rows: &[&[&str]] = &[
        &["trust", &dir],
        &["trust", "--list"],
        &["-C", &dir, "config", "path"],
        &["-C", &dir, "config", "explain", "model"],
        &["config", "explain", &evil],
        &["-c", &set, "config", "path"],
        &["-p", &evil, "config", "path"],
        &["-C", &evil, "exec", "hi"],
        &["-C", &evil, "exec", "--json", "hi"],
        &["exec", "-i", &evil, "hi"],
        &["exec", "--output-schema", &evil, "hi"],
        &["exec", "-o", "/nowhere/\u{1b}[2J/x", "hi"],
        &["exec", "resume", &evil, "hi"],
        &["exec", "--sandbox", &evil, "hi"],
        &[&evil],
        &["exec", "-c", &evil, "hi"],
        &["-c", &format!("model_provider={evil}"), "login", "status"],
        &["audit", &evil],
        &["audit", "verify", &format!("/{evil}")],
    ];
    for args in rows {
        let ended = house.run(args);
        assert_clean(&ended, &format!("{args:?}"));
    }
}
