//! Which key a call is remembered by, and what a remembered one covers. Pure.
//!
//! Exact by design: a key is the whole command, not a prefix, and covers no more than what was
//! shown when it was given. Knows nobody who asks and no file. Called by `agent/approvals.rs`,
//! and by the executor to say what can be remembered at all.

use std::path::PathBuf;

use serde_json::Value;

use crate::policy::decide::lies_protected;
use crate::protocol::{AnswerScope, ChangeKind, Effect, FileChange, GrantKey, Network, Reach};

/// Returns the key of a call; `None` for what is never remembered.
pub(crate) fn build_key(effect: &Effect, reach: &Reach) -> Option<GrantKey> {
    match effect {
        Effect::Run { command, cwd, .. } => {
            let reach = if reach.outside { without_limits(reach) } else { reach.clone() };
            Some(GrantKey::Command { command: command.clone(), cwd: cwd.clone(), reach })
        }
        Effect::Write { changes } => Some(build_files(changes, reach)),
        Effect::Remote { server, tool, arguments, hints } => Some(GrantKey::Tool {
            server: server.clone(),
            tool: tool.clone(),
            arguments: hints.destructive.then(|| arguments.clone()),
        }),
        Effect::Fetch { url } => host_of(url).map(|host| GrantKey::Host { host }),
        Effect::None | Effect::Read { .. } | Effect::Input { .. } | Effect::Agent { .. } => None,
    }
}

/// Returns for how long an approval of a call can hold, and what one that holds for longer than
/// once covers, in one text; control characters are the caller's care.
pub(crate) fn describe_scopes(effect: &Effect, reach: &Reach) -> (Vec<AnswerScope>, String) {
    let mut scopes = vec![AnswerScope::Once];
    let Some(key) = build_key(effect, reach) else { return (scopes, String::new()) };
    scopes.push(AnswerScope::Session);
    if may_last(&key) {
        scopes.extend([AnswerScope::Project, AnswerScope::Always]);
    }
    let text = match &key {
        GrantKey::Command { cwd, reach, .. } => {
            let place = if reach.outside { "outside the sandbox" } else { "in this sandbox" };
            format!("{}\nin {}, {place}", describe_key(&key), cwd.display())
        }
        GrantKey::Tool { arguments: None, .. } => {
            format!("{}, with any arguments", describe_key(&key))
        }
        GrantKey::Host { .. } => format!("connections to {}", describe_key(&key)),
        GrantKey::Files { .. } => format!("{}, whatever is written", describe_key(&key)),
        GrantKey::Tool { .. } => describe_key(&key),
    };
    (scopes, text)
}

/// Returns whether a key may be remembered beyond its session. What runs later by itself (hooks,
/// configuration, rules) is asked about in each.
pub(crate) fn may_last(key: &GrantKey) -> bool {
    let GrantKey::Files { written, deleted, .. } = key else { return true };
    !written.iter().chain(deleted).any(|path| lies_protected(path))
}

/// Returns whether what was granted covers what is asked.
pub(crate) fn covers(granted: &GrantKey, asked: &GrantKey) -> bool {
    match (granted, asked) {
        (
            GrantKey::Files { mode, written, deleted },
            GrantKey::Files { mode: asked_mode, written: writes, deleted: deletes },
        ) => {
            mode == asked_mode
                && writes.iter().all(|path| written.contains(path))
                && deletes.iter().all(|path| deleted.contains(path))
        }
        (granted, asked) => granted == asked,
    }
}

/// Returns what a key covers in one line for people; control characters are the caller's care.
pub(crate) fn describe_key(key: &GrantKey) -> String {
    match key {
        GrantKey::Command { command, .. } => command.shown(),
        GrantKey::Files { written, deleted, .. } => {
            let names = |paths: &[PathBuf]| {
                paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            };
            match (written.is_empty(), deleted.is_empty()) {
                (false, true) => format!("write {}", names(written)),
                (true, false) => format!("delete {}", names(deleted)),
                _ => format!("write {}; delete {}", names(written), names(deleted)),
            }
        }
        GrantKey::Tool { server, tool, arguments: None } => format!("{server}: {tool}"),
        GrantKey::Tool { server, tool, arguments: Some(arguments) } => {
            format!("{server}: {tool} {}", sorted(arguments))
        }
        GrantKey::Host { host } => host.clone(),
    }
}

/// Outside, the roots and the network of the sandbox hold nothing back.
fn without_limits(reach: &Reach) -> Reach {
    Reach { roots: Vec::new(), network: Network::On, ..reach.clone() }
}

fn build_files(changes: &[FileChange], reach: &Reach) -> GrantKey {
    let (mut written, mut deleted) = (Vec::new(), Vec::new());
    for FileChange { path, kind, move_to, .. } in changes {
        match (kind, move_to) {
            (ChangeKind::Delete, _) => deleted.push(path.clone()),
            (ChangeKind::Add | ChangeKind::Update, None) => written.push(path.clone()),
            (ChangeKind::Add | ChangeKind::Update, Some(target)) => {
                deleted.push(path.clone());
                written.push(target.clone());
            }
        }
    }
    for paths in [&mut written, &mut deleted] {
        paths.sort();
        paths.dedup();
    }
    GrantKey::Files { mode: reach.mode, written, deleted }
}

/// Returns host and port of a URL.
fn host_of(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

/// Returns JSON with its members in order, so that the same arguments are the same text.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::{CommandLine, RemoteHints, SandboxLevel, SandboxMode};

    fn reach() -> Reach {
        Reach {
            mode: SandboxMode::WorkspaceWrite,
            level: SandboxLevel::Full,
            outside: false,
            roots: vec!["/w".into()],
            network: Network::Off,
        }
    }

    fn run(script: &str, cwd: &str, reach: &Reach) -> GrantKey {
        let command = CommandLine::Shell {
            program: "/bin/bash".to_owned(),
            login: false,
            script: script.to_owned(),
        };
        let effect =
            Effect::Run { command, cwd: cwd.into(), network: Network::Off, escalate: None };
        build_key(&effect, reach).unwrap()
    }

    fn write(changes: &[(&str, ChangeKind, Option<&str>)]) -> GrantKey {
        let change = |(path, kind, to): &(&str, ChangeKind, Option<&str>)| FileChange {
            path: path.into(),
            kind: *kind,
            move_to: to.map(Into::into),
            diff: String::new(),
        };
        let effect = Effect::Write { changes: changes.iter().map(change).collect() };
        build_key(&effect, &reach()).unwrap()
    }

    #[test]
    fn a_command_is_covered_by_itself_alone() {
        let granted = run("make", "/w", &reach());
        assert!(covers(&granted, &run("make", "/w", &reach())));
        let others = [
            run("make ", "/w", &reach()),
            run("make test", "/w", &reach()),
            run("make", "/w/sub", &reach()),
            run("make", "/w", &Reach { outside: true, ..reach() }),
            run("make", "/w", &Reach { level: SandboxLevel::Reduced, ..reach() }),
            run("make", "/w", &Reach { mode: SandboxMode::ReadOnly, ..reach() }),
            run("make", "/w", &Reach { network: Network::On, ..reach() }),
            run("make", "/w", &Reach { roots: vec!["/".into()], ..reach() }),
        ];
        for other in others {
            assert!(!covers(&granted, &other), "{other:?}");
            assert!(!covers(&other, &granted), "{other:?}");
        }
    }

    #[test]
    fn outside_the_sandbox_its_limits_do_not_count() {
        let outside = Reach { outside: true, ..reach() };
        let more = Reach { roots: vec!["/x".into()], network: Network::On, ..outside.clone() };
        assert_eq!(run("make", "/w", &outside), run("make", "/w", &more));
    }

    #[test]
    fn files_are_covered_as_a_set_and_by_what_happens_to_them() {
        use ChangeKind::{Add, Delete, Update};
        let granted = write(&[("/x/a", Update, None), ("/x/b", Delete, None)]);
        assert!(covers(&granted, &write(&[("/x/a", Add, None)])));
        assert!(covers(&granted, &write(&[("/x/b", Delete, None)])));
        assert!(!covers(&granted, &write(&[("/x/a", Delete, None)])));
        assert!(!covers(&granted, &write(&[("/x/b", Update, None)])));
        assert!(!covers(&granted, &write(&[("/x/a", Update, None), ("/x/c", Update, None)])));
        // A move takes its file away from where it was.
        assert!(!covers(&granted, &write(&[("/x/a", Update, Some("/x/b"))])));
        let moved = write(&[("/x/a", Update, Some("/x/b"))]);
        assert!(covers(&moved, &write(&[("/x/a", Delete, None), ("/x/b", Add, None)])));
    }

    #[test]
    fn a_tool_that_may_destroy_is_remembered_with_its_arguments() {
        let call = |arguments, destructive| {
            let hints = RemoteHints { destructive, ..RemoteHints::default() };
            let (server, tool) = ("s".to_owned(), "t".to_owned());
            build_key(&Effect::Remote { server, tool, arguments, hints }, &reach()).unwrap()
        };
        assert!(covers(&call(json!({"a": 1}), false), &call(json!({"a": 2}), false)));
        assert!(!covers(&call(json!({"a": 1}), true), &call(json!({"a": 2}), true)));
        assert!(covers(&call(json!({"a": 1, "b": 2}), true), &call(json!({"b": 2, "a": 1}), true)));
        // What the server says may change; an approval of the harmless tool is none of this one.
        assert!(!covers(&call(json!({}), false), &call(json!({}), true)));
    }

    #[test]
    fn a_question_says_what_would_be_remembered() {
        use AnswerScope::{Always, Once, Project, Session};
        let all = vec![Once, Session, Project, Always];
        let run = |outside| {
            let command = CommandLine::Argv { argv: vec!["make".to_owned()] };
            let effect =
                Effect::Run { command, cwd: "/w".into(), network: Network::Off, escalate: None };
            describe_scopes(&effect, &Reach { outside, ..reach() })
        };
        assert_eq!(run(false), (all.clone(), "make\nin /w, in this sandbox".to_owned()));
        assert_eq!(run(true), (all.clone(), "make\nin /w, outside the sandbox".to_owned()));
        let write = |path: &str| {
            let change = FileChange {
                path: path.into(),
                kind: ChangeKind::Update,
                move_to: None,
                diff: String::new(),
            };
            describe_scopes(&Effect::Write { changes: vec![change] }, &reach())
        };
        assert_eq!(write("/x/a"), (all, "write /x/a, whatever is written".to_owned()));
        for path in ["/w/.git/hooks/pre-commit", "/w/.gimlet/rules.toml", "/w/.CODEX/config.toml"] {
            assert_eq!(write(path).0, [Once, Session], "{path}");
        }
        let typed = Effect::Input { process: crate::protocol::ProcessId(1) };
        assert_eq!(describe_scopes(&typed, &reach()), (vec![Once], String::new()));
    }

    #[test]
    fn a_url_is_remembered_by_host_and_port() {
        let table = [
            ("https://Example.org/a?b", Some("example.org:443")),
            ("http://example.org", Some("example.org:80")),
            ("https://user@evil.test:8443/@example.org", Some("evil.test:8443")),
            ("http://[::1]/", Some("[::1]:80")),
            ("http://[::1]:99/", Some("[::1]:99")),
            ("crates.io:443", None),
            ("https://", None),
        ];
        for (url, expected) in table {
            assert_eq!(host_of(url).as_deref(), expected, "{url}");
        }
    }
}
