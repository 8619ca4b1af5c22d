//! `gimlet approvals` from outside: what it lists, takes back and refuses, alone and beside
//! other processes.
//!
//! The file is written here as the program writes it, so these tests hold its format as well.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::support::run::{House, Stdin, run, start};

fn grant(id: &str, scope: &str, key: &Value) -> Value {
    let mut grant = json!({
        "id": id, "scope": scope, "key": key, "at": "2026-11-21T15:00:00Z",
        "session": "0198c7a2-0000-7000-8000-000000000000",
    });
    if scope == "project" {
        grant["project"] = json!("/home/u/p");
    }
    grant
}

fn command(script: &str, outside: bool) -> Value {
    let (roots, network) = if outside {
        (json!([]), json!("on"))
    } else {
        (json!(["/home/u/p"]), json!({"hosts": ["crates.io"]}))
    };
    json!({
        "kind": "command",
        "command": {"kind": "shell", "program": "/bin/bash", "login": false, "script": script},
        "cwd": "/home/u/p",
        "reach": {"mode": "workspace-write", "level": "reduced", "outside": outside, "roots": roots, "network": network},
    })
}

fn write(house: &House, grants: &[Value]) -> PathBuf {
    let path = house.home().join("approvals.json");
    fs::write(&path, json!({"version": 1, "grants": grants}).to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn every_kind() -> Vec<Value> {
    vec![
        grant("aaaaaaaaaaaa", "project", &command("make \u{1b}[2J\ntest", false)),
        grant("bbbbbbbbbbbb", "always", &command("make install", true)),
        grant(
            "cccccccccccc",
            "always",
            &json!({"kind": "files", "mode": "workspace-write", "written": ["/x/a", "/x/b"], "deleted": ["/x/c"]}),
        ),
        grant(
            "dddddddddddd",
            "always",
            &json!({"kind": "tool", "server": "db", "tool": "drop", "arguments": {"b": 1, "a": 2}}),
        ),
        grant("eeeeeeeeeeee", "always", &json!({"kind": "host", "host": "crates.io:443"})),
    ]
}

fn check(house: &House, args: &[&str], code: i32, expected: &Expect) {
    let ended = house.run(args);
    let home = house.home().display().to_string();
    let output = format!("{}{}", ended.stdout, ended.stderr).replace(&home, "[home]");
    expected.assert_eq(&output);
    assert_eq!(ended.code, code, "{args:?}");
}

#[test]
fn what_is_allowed_for_good_is_listed() {
    let house = House::new();
    check(
        &house,
        &["approvals"],
        0,
        &expect![[r#"
        You allowed nothing for good.
    "#]],
    );
    check(
        &house,
        &["approvals", "--json"],
        0,
        &expect![[r#"
        {"approvals":[]}
    "#]],
    );
    write(&house, &every_kind());
    check(
        &house,
        &["approvals", "list"],
        0,
        &expect![[r#"
        aaaaaaaaaaaa  in the project /home/u/p, since 2026-11-21
            make ␛[2J␊test
            in /home/u/p; sandbox workspace-write (reduced), network to crates.io, writes in /home/u/p
        bbbbbbbbbbbb  always, since 2026-11-21
            make install
            in /home/u/p; outside the sandbox
        cccccccccccc  always, since 2026-11-21
            write /x/a, /x/b; delete /x/c
        dddddddddddd  always, since 2026-11-21
            db: drop {"a":2,"b":1}
        eeeeeeeeeeee  always, since 2026-11-21
            crates.io:443
    "#]],
    );
    let last = &every_kind()[4..];
    write(&house, last);
    check(
        &house,
        &["approvals", "list", "--json"],
        0,
        &expect![[r#"
        {"approvals":[{"id":"eeeeeeeeeeee","scope":"always","key":{"kind":"host","host":"crates.io:443"},"at":"2026-11-21T15:00:00Z","session":"0198c7a2-0000-7000-8000-000000000000","shown":"crates.io:443"}]}
    "#]],
    );
}

#[test]
fn one_is_taken_back_or_all() {
    let house = House::new();
    write(&house, &every_kind());
    check(
        &house,
        &["approvals", "revoke", "bbbb"],
        1,
        &expect![[r#"
        error: there is no approval bbbb
          hint: `gimlet approvals list` shows the ids
    "#]],
    );
    check(
        &house,
        &["approvals", "revoke", "bbbbbbbbbbbb"],
        0,
        &expect![[r#"
        Will be asked again: make install
    "#]],
    );
    check(
        &house,
        &["approvals", "revoke", "bbbbbbbbbbbb", "--json"],
        1,
        &expect![[r#"
        {"revoked":[]}
        error: there is no approval bbbbbbbbbbbb
          hint: `gimlet approvals list` shows the ids
    "#]],
    );
    check(
        &house,
        &["approvals", "revoke", "eeeeeeeeeeee", "--json"],
        0,
        &expect![[r#"
        {"revoked":["eeeeeeeeeeee"]}
    "#]],
    );
    check(
        &house,
        &["approvals", "clear"],
        0,
        &expect![[r#"
        Took back 3 approvals.
    "#]],
    );
    check(
        &house,
        &["approvals", "clear", "--json"],
        0,
        &expect![[r#"
        {"cleared":0}
    "#]],
    );
    let mode = fs::metadata(house.home().join("approvals.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_damaged_file_is_said_and_set_aside() {
    let house = House::new();
    let path = write(&house, &[]);
    fs::write(&path, "{\"version\":1,").unwrap();
    check(
        &house,
        &["approvals"],
        1,
        &expect![[r#"
        error: [home]/approvals.json is damaged, so it allows nothing: EOF while parsing a value at line 1 column 13
          hint: mend it, or run `gimlet approvals clear` to set it aside and begin anew
    "#]],
    );
    check(
        &house,
        &["approvals", "revoke", "aaaaaaaaaaaa"],
        1,
        &expect![[r#"
        error: [home]/approvals.json is damaged, so it allows nothing: EOF while parsing a value at line 1 column 13
          hint: mend it, or run `gimlet approvals clear` to set it aside and begin anew
    "#]],
    );
    check(
        &house,
        &["approvals", "clear"],
        0,
        &expect![[r#"
        The file could not be used and lies in [home]/approvals.json.damaged now.
    "#]],
    );
    check(
        &house,
        &["approvals"],
        0,
        &expect![[r#"
        You allowed nothing for good.
    "#]],
    );
    fs::set_permissions(write(&house, &[]), fs::Permissions::from_mode(0o666)).unwrap();
    check(
        &house,
        &["approvals"],
        1,
        &expect![[r#"
        error: [home]/approvals.json can be changed by others, so it allows nothing
          hint: look at what is in it, then: chmod 600 [home]/approvals.json
    "#]],
    );
}

#[test]
fn processes_at_once_lose_nothing() {
    let house = House::new();
    let ids: Vec<String> = (0..12).map(|number| format!("{number:012x}")).collect();
    let grants: Vec<Value> =
        ids.iter().map(|id| grant(id, "always", &json!({"kind": "host", "host": id}))).collect();
    write(&house, &grants);
    let (kept, revoked) = ids.split_at(4);
    let running: Vec<_> = revoked
        .iter()
        .map(|id| start(house.command(["approvals", "revoke", id]), Stdin::Nothing))
        .collect();
    for (running, _) in running {
        assert_eq!(running.wait().code, 0);
    }
    let listed = run(house.command(["approvals", "--json"]), Stdin::Nothing).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let left: Vec<&str> =
        listed["approvals"].as_array().unwrap().iter().map(|g| g["id"].as_str().unwrap()).collect();
    assert_eq!(left, kept);
}
