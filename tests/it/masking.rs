//! Secrets of the process: what a command, a server or an MCP server says of them reaches no
//! request, no screen and no log.
//!
//! The rest of masking is in `fixtures/session/` and `src/text/secrets/`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::run::{Ended, House, Stdin, run};
use crate::support::server::{Reply, Server};
use crate::support::sse::Response;

const KEY: &str = "provider-key-0451-xyzzy";
const VALUE: &str = "swordfish and friends 1977";

/// Returns all bytes of a tree of files.
fn all_bytes(root: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        if entry.path().is_dir() {
            text += &all_bytes(&entry.path());
        } else {
            text += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap());
        }
    }
    text
}

fn house_with(server: &Server) -> House {
    let mut house = House::new();
    house.write_config(&format!(
        "model = \"m\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nbase_url = \"{}\"\n\
         env_key = \"MOCK_KEY\"\nrequest_max_retries = 0\n",
        server.base_url()
    ));
    house.set_env("MOCK_KEY", KEY);
    house.set_env("MY_PASSWORD", VALUE);
    house
}

fn assert_hidden(house: &House, server: &Server, ended: &Ended, context: &str) {
    let log = all_bytes(&house.home().join("sessions"));
    let sent: String =
        server.requests().iter().map(|r| String::from_utf8_lossy(&r.body).into_owned()).collect();
    for secret in [KEY, VALUE] {
        let texts = [
            ("stdout", &ended.stdout),
            ("stderr", &ended.stderr),
            ("log", &log),
            ("requests", &sent),
        ];
        for (name, text) in texts {
            assert!(!text.contains(secret), "{context}: {name} holds {secret}: {text}");
        }
    }
    assert!(log.contains("[secret:"), "{context}: nothing was masked: {log}");
}

#[test]
fn what_a_command_prints_of_them_is_masked_everywhere() {
    for format in [&[][..], &["--json"], &["--events"]] {
        let server = Server::start(0, |n, _| {
            let response = Response::new(n);
            let response = match n {
                // In pieces that come one by one, coloured, and in a failure.
                0 => response.function_call("exec_command", &json!({"cmd":
                    "printf provider-key-; sleep 0.1; printf '0451-\\033[1mxyzzy\\033[m\\n'; cat words; exit 3"})),
                1 => response.custom_call("apply_patch", "*** Begin Patch\n*** Update File: words\n@@\n-none\n+some\n*** End Patch"),
                _ => response.message("done"),
            };
            Reply::sse(response.stream())
        });
        let house = house_with(&server);
        fs::write(house.workspace().join("words"), format!("{VALUE}\n{KEY}\nold\n")).unwrap();
        let mut args = vec!["exec"];
        args.extend(format);
        args.push("hi");
        let ended = house.run(&args);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_hidden(&house, &server, &ended, &format!("{format:?}"));
    }
}

#[test]
fn what_a_server_says_of_them_in_an_error_is_masked() {
    let body = json!({"error": {"message": format!("not with {KEY}, {VALUE}")}});
    let server = Server::start(0, move |_, _| Reply::status(400, body.to_string()));
    let house = house_with(&server);
    let ended = house.run(&["exec", "hi"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_hidden(&house, &server, &ended, "an error");
}

#[test]
fn what_the_cut_of_a_long_output_leaves_is_no_half_secret() {
    let server = Server::start(0, |n, _| {
        let response = Response::new(n);
        // The cut falls somewhere into a long run of the same secret.
        let script = "yes \"$(cat words)\" | head -c 3000001";
        let response = match n {
            0 => response.function_call("exec_command", &json!({"cmd": script})),
            _ => response.message("done"),
        };
        Reply::sse(response.stream())
    });
    let house = house_with(&server);
    fs::write(house.workspace().join("words"), format!("{KEY}\n")).unwrap();
    let ended = run(house.command(["exec", "hi"]), Stdin::Nothing);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_hidden(&house, &server, &ended, "a long output");
    let sent = String::from_utf8_lossy(&server.requests().last().unwrap().body).into_owned();
    for part in ["provider-key", "0451", "xyzzy"] {
        assert!(!sent.contains(part), "{part} is left of a secret");
    }
}
