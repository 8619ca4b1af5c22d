//! A tiny MCP server over stdio for tests, on std and serde_json alone.
//!
//! The first argument says how it behaves: `normal`, `fails-to-start`, `slow` (never answers),
//! `crashes-on-call`, `prints-garbage`, `endless-pages`, `stays` (ignores the end of its stdin,
//! and writes its process id and its child's to the file named by the second argument).

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::exit)]
// The child is left behind on purpose: who kills the server must find it.
#![allow(clippy::zombie_processes)]

use std::io::{BufRead, Write, stdin, stdout};

use serde_json::{Value, json};

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_else(|| "normal".to_owned());
    match mode.as_str() {
        "fails-to-start" => {
            eprintln!("no such database");
            eprintln!("giving up");
            std::process::exit(3);
        }
        "prints-garbage" => print!("Server ready!\n\n{{broken\n42\n{{\"level\":\"info\"}}\n"),
        "stays" => {
            let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let ids = format!("{} {}", std::process::id(), child.id());
            std::fs::write(std::env::args().nth(2).unwrap(), ids).unwrap();
        }
        _ => {}
    }
    for line in stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        if message["id"].is_null() || mode == "slow" {
            continue;
        }
        if mode == "prints-garbage" {
            println!("log: {}", message["method"]);
        }
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        match answer_to(&message, &mode) {
            Ok(result) => answer["result"] = result,
            Err(text) => answer["error"] = json!({"code": -32601, "message": text}),
        }
        println!("{answer}");
        stdout().flush().unwrap();
    }
    if mode == "stays" {
        stay();
    }
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

fn answer_to(message: &Value, mode: &str) -> Result<Value, String> {
    let params = &message["params"];
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => Ok(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "mcp_stdio", "version": "1"},
        })),
        "tools/list" => Ok(list(params, mode)),
        "tools/call" if mode == "crashes-on-call" => {
            eprintln!("out of memory");
            std::process::exit(4);
        }
        "tools/call" => call(params),
        other => Err(format!("no method {other}")),
    }
}

/// Two pages, so that a client that reads one only is found out.
fn list(params: &Value, mode: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    match params["cursor"].as_str() {
        _ if mode == "endless-pages" => json!({"tools": [], "nextCursor": "more"}),
        None => json!({"tools": [
            {"name": "wait", "inputSchema": {"type": "object"}},
            {"name": "fail", "inputSchema": schema},
            {"name": "env", "description": "Tells a variable", "inputSchema": schema,
             "annotations": {"readOnlyHint": true, "openWorldHint": false}},
        ], "nextCursor": "2"}),
        Some(_) => json!({"tools": [
            {"name": "echo", "description": "Echoes\u{200b} text", "inputSchema": schema},
        ]}),
    }
}

fn call(params: &Value) -> Result<Value, String> {
    let text = params["arguments"]["text"].as_str().unwrap_or_default();
    match params["name"].as_str().unwrap_or_default() {
        "echo" => Ok(json!({
            "content": [
                {"type": "text", "text": format!("Echo: {text}")},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "image", "data": "AAAA", "mimeType": "image/x\",evil"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "body"}},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
            ],
            "structuredContent": {"echo": text},
        })),
        "fail" => Ok(json!({"content": [{"type": "text", "text": "it broke"}], "isError": true})),
        "env" => Ok(json!({"content": [
            {"type": "text", "text": std::env::var(text).unwrap_or_else(|_| "unset".to_owned())},
        ]})),
        "wait" => stay(),
        other => Err(format!("no tool {other}")),
    }
}
