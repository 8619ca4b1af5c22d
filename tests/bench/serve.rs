//! `serve`: the mock server by itself, playing a script until it is stopped.
//!
//! The script has the lines of `tests/README.md`, of which a server knows `say`, `reasoning`,
//! `call`, `custom`, `shell`, `delay_ms`, `fail` and `end`, besides `{"deltas":n}`, `{"cut":true}`
//! and `{"status":{"code":n,"body":{…}}}`. One response a request; after the last it starts again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::server::{End, Reply, Server};
use crate::sse::Response;

pub(crate) fn serve(args: &[String]) {
    let (mut script, mut port, mut record) = (None, 0, None);
    for pair in args.chunks(2) {
        match pair {
            [name, value] if name == "--script" => script = Some(PathBuf::from(value)),
            [name, value] if name == "--port" => port = value.parse().expect("--port N"),
            [name, value] if name == "--record" => record = Some(PathBuf::from(value)),
            _ => panic!("serve --script FILE [--port N] [--record DIR]"),
        }
    }
    let script = script.expect("serve --script FILE [--port N] [--record DIR]");
    let replies = parse_script(&std::fs::read_to_string(script).unwrap());
    assert!(!replies.is_empty(), "the script has no response");
    let server = Server::start(port, move |n, request| {
        let reply = replies[n % replies.len()].clone();
        if let Some(folder) = &record {
            save(folder, n, &request.body, &reply);
        }
        reply
    });
    // One line that a script can wait for.
    println!("{}", server.base_url());
    loop {
        std::thread::park();
    }
}

/// Writes request and reply where the type checker can read them.
fn save(folder: &Path, n: usize, body: &[u8], reply: &Reply) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(format!("{n:04}.request.json")), body).unwrap();
    let stream: Vec<u8> = reply.pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
    std::fs::write(folder.join(format!("{n:04}.reply.sse")), stream).unwrap();
}

/// Returns one reply for each response of the script.
fn parse_script(text: &str) -> Vec<Reply> {
    let (mut replies, mut lines) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("line {number}: {error}"));
        let ends = ["end", "fail", "status", "cut"].iter().any(|key| line.get(key).is_some());
        lines.push(line);
        if ends {
            replies.push(build_reply(replies.len(), &std::mem::take(&mut lines)));
        }
    }
    if !lines.is_empty() {
        replies.push(build_reply(replies.len(), &lines));
    }
    replies
}

fn build_reply(n: usize, lines: &[Value]) -> Reply {
    let mut response = Response::new(n);
    let (mut delay_ms, mut cut) = (0, false);
    for line in lines {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (key, value) = line.as_object().and_then(|o| o.iter().next()).expect("an object");
        response = match key.as_str() {
            "say" => response.message(&text(value)),
            "reasoning" => response.reasoning(&text(value)),
            "call" => response.function_call(&text(&value["name"]), &value["arguments"]),
            "custom" => response.custom_call(&text(&value["name"]), &text(&value["input"])),
            "shell" => {
                let argv: Vec<&str> =
                    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                response.local_shell_call(&argv)
            }
            "deltas" => response.many_deltas(usize::try_from(value.as_u64().unwrap_or(1)).unwrap()),
            "status" => {
                let code = u16::try_from(value["code"].as_u64().unwrap_or(500)).unwrap();
                return Reply::status(code, value["body"].to_string());
            }
            "fail" => {
                let error = serde_json::json!({"error": {"message": value["message"]}});
                return Reply::status(400, error.to_string());
            }
            "delay_ms" => {
                delay_ms = value.as_u64().unwrap_or(0);
                response
            }
            "cut" => {
                cut = true;
                response
            }
            "end" | "expect" => response,
            _ => panic!("`{key}` is not known to the server"),
        };
    }
    let (text, end) =
        if cut { (response.cut_stream(), End::Cut) } else { (response.stream(), End::Whole) };
    // The pause comes after the first event, so that the turn is under way when it begins.
    let (first, rest) = text.split_at(text.find("\n\n").map_or(0, |at| at + 2));
    Reply::sse(first).then(Duration::from_millis(delay_ms), rest).ending(end)
}
