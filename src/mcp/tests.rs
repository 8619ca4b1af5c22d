//! The client against a real server process, and the naming table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::config::McpServer;
use crate::mcp::{McpClient, McpError, build_description, build_tool_names, connect};
use crate::protocol::ContentItem;

/// The example `mcp_stdio`, which lies beside the test programs.
fn server_program() -> String {
    let tests: PathBuf = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples/mcp_stdio");
    assert!(program.exists(), "{} is missing; `cargo t` builds it", program.display());
    program.to_str().unwrap().to_owned()
}

pub(crate) fn server(arguments: &[&str]) -> McpServer {
    let mut command = vec![server_program()];
    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    McpServer {
        command,
        env: BTreeMap::from([("FROM_CONFIG".to_owned(), "1".to_owned())]),
        env_vars: Vec::new(),
        cwd: None,
        startup_timeout_ms: 20_000,
        tool_timeout_ms: 20_000,
        required: false,
        enabled_tools: None,
        disabled_tools: Vec::new(),
    }
}

pub(crate) async fn start(server: &McpServer) -> Result<McpClient, McpError> {
    let path = std::env::var("PATH").unwrap_or_default();
    let env = vec![("GIVEN".to_owned(), "yes".to_owned()), ("PATH".to_owned(), path)];
    connect("srv", server, Path::new("/"), env).await
}

fn arguments(text: &str) -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), Value::from(text))])
}

async fn call_text(client: &McpClient, tool: &str, text: &str) -> String {
    let result = client.call(tool, arguments(text)).await.unwrap();
    result.content.iter().filter_map(ContentItem::text).collect()
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    for mode in ["normal", "prints-garbage"] {
        let client = start(&server(&[mode])).await.unwrap();
        let names: Vec<_> = client.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["echo", "env", "fail", "wait"], "{mode}");
        assert_eq!(client.tools()[3].schema, json!({"type":"object","properties":{}}));
        let hints = client.tools()[1].hints;
        assert!(hints.read_only && !hints.open_world && !hints.destructive && !hints.idempotent);

        let result = client.call("echo", arguments("hi")).await.unwrap();
        assert_eq!(
            serde_json::to_value(&result.content).unwrap(),
            json!([
                {"type":"input_text","text":"Echo: hi"},
                {"type":"input_image","image_url":"data:image/png;base64,AAAA"},
                {"type":"input_text","text":"[image left out: image/x\",evil, 3 bytes]"},
                {"type":"input_text","text":"[resource file:///a]\nbody"},
                {"type":"input_text","text":"[resource file:///b: b]"},
            ])
        );
        assert_eq!(result.structured, Some(json!({"echo":"hi"})));
        assert!(!result.is_error);

        let failed = client.call("fail", Map::new()).await.unwrap();
        assert!(failed.is_error);
        client.close().await;
    }
}

#[tokio::test]
async fn the_environment_is_what_it_is_given() {
    let mut server = server(&["normal"]);
    server.env_vars = vec!["CARGO_MANIFEST_DIR".to_owned(), "NOT_SET_ANYWHERE".to_owned()];
    let client = start(&server).await.unwrap();
    assert_eq!(call_text(&client, "env", "GIVEN").await, "yes");
    assert_eq!(call_text(&client, "env", "FROM_CONFIG").await, "1");
    assert_eq!(call_text(&client, "env", "NOT_SET_ANYWHERE").await, "unset");
    assert_eq!(call_text(&client, "env", "CARGO_PKG_NAME").await, "unset");
    assert_ne!(call_text(&client, "env", "CARGO_MANIFEST_DIR").await, "unset");
}

#[tokio::test]
async fn only_wanted_tools_are_offered() {
    let mut server = server(&["normal"]);
    server.enabled_tools = Some(vec!["echo".to_owned(), "fail".to_owned(), "none".to_owned()]);
    server.disabled_tools = vec!["fail".to_owned()];
    let client = start(&server).await.unwrap();
    let names: Vec<_> = client.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo"]);
}

#[tokio::test]
async fn a_failing_server_is_named_with_its_last_words() {
    let error = start(&server(&["fails-to-start"])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "MCP server srv did not start: it exited with code 3; stderr: no such database | giving up"
    );

    let mut missing = server(&[]);
    missing.command = vec!["/nowhere/server".to_owned()];
    let error = start(&missing).await.unwrap_err();
    assert!(error.to_string().starts_with("MCP server srv did not start: /nowhere/server: "));

    missing.command.clear();
    let error = start(&missing).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server srv did not start: its command is empty");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let mut slow = server(&["slow"]);
    slow.startup_timeout_ms = 50;
    let error = start(&slow).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server srv did not answer within 50 ms");

    let mut server = server(&["normal"]);
    server.tool_timeout_ms = 50;
    let client = start(&server).await.unwrap();
    let error = client.call("wait", Map::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server srv did not answer within 50 ms");
}

#[tokio::test]
async fn a_call_of_a_dead_server_fails() {
    let client = start(&server(&["crashes-on-call"])).await.unwrap();
    let error = client.call("echo", Map::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("MCP server srv is gone: "), "{error}");
}

#[tokio::test]
async fn an_unknown_tool_is_refused_by_the_server() {
    let client = start(&server(&["normal"])).await.unwrap();
    let error = client.call("nothing", Map::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server srv: no tool nothing");
}

#[tokio::test]
async fn endless_pages_end() {
    let client = start(&server(&["endless-pages"])).await.unwrap();
    assert!(client.tools().is_empty());
}

/// Whether a process lives; one that ended but was not waited for is dead.
#[cfg(target_os = "linux")]
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_some_and(|s| s != 'Z')
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_dies_with_its_whole_group() {
    for is_dropped in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ids");
        let client = start(&server(&["stays", file.to_str().unwrap()])).await.unwrap();
        let ids = std::fs::read_to_string(&file).unwrap();
        assert!(ids.split(' ').all(is_alive));
        if is_dropped {
            drop(client);
        } else {
            client.close().await;
        }
        // A killed process is gone as soon as the kernel gets to it; no time is asserted.
        while ids.split(' ').any(is_alive) {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn names_fit_and_never_meet() {
    let long = "t".repeat(80);
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [Option<&'a str>]);
    let cases: [Case<'_>; 5] = [
        (&[("git", "log")], &[Some("mcp__git__log")]),
        (&[("a b", "c.d/é")], &[Some("mcp__a_b__c_d__")]),
        (&[("git", "log"), ("git", "log")], &[Some("mcp__git__log"), None]),
        (
            &[("s", "a.b"), ("s", "a_b")],
            &[Some("mcp__s__a_b_90a2ad4c"), Some("mcp__s__a_b_0d0a2caf")],
        ),
        (
            &[("s", &long)],
            &[Some("mcp__s__ttttttttttttttttttttttttttttttttttttttttttttttt_00000000")],
        ),
    ];
    for (tools, expected) in cases {
        let names = build_tool_names(tools);
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        // Of a hash only the place is written down here.
        let blank = |name: &str| {
            let is_hash =
                |tail: &str| tail.len() == 8 && tail.chars().all(|c| c.is_ascii_hexdigit());
            match name.rsplit_once('_') {
                Some((head, tail)) if is_hash(tail) => format!("{head}_#"),
                _ => name.to_owned(),
            }
        };
        let blanked: Vec<_> = names.iter().map(|name| name.map(blank)).collect();
        let expected: Vec<_> = expected.iter().map(|name| name.map(blank)).collect();
        assert_eq!(blanked, expected);
    }
}

#[test]
fn descriptions_are_bounded_and_hold_nothing_hidden() {
    let cases = [
        ("Reads\u{202e} a\u{e0041} file\u{1b}[31m.\n", "[MCP server s] Reads a file[31m."),
        ("", "[MCP server s]"),
        ("ééééééééé", "[MCP server s] éééé…"),
    ];
    for (text, expected) in cases {
        let bound = if text.starts_with('é') { 9 } else { 100 };
        assert_eq!(build_description("s", text, bound), expected);
    }
}

proptest! {
    #[test]
    fn any_names_become_valid_and_distinct(tools in prop::collection::vec((".{0,40}", ".{0,80}"), 0..8)) {
        let pairs: Vec<(&str, &str)> = tools.iter().map(|(s, t)| (s.as_str(), t.as_str())).collect();
        let names = build_tool_names(&pairs);
        let given: Vec<_> = names.iter().flatten().collect();
        let distinct: std::collections::BTreeSet<_> = given.iter().collect();
        prop_assert_eq!(given.len(), distinct.len());
        for name in given {
            prop_assert!(name.len() <= 64 && name.starts_with("mcp__"));
            prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
        }
    }
}
