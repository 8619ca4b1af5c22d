//! Runs the tables in `tests/fixtures/policy`. A line that starts with `#` is a comment; in a
//! command `\n` stands for a newline, `\r` for a carriage return.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use crate::policy::{Circumstances, InputReach, decide, decide_input, is_known_read_only};
use crate::protocol::{
    ApprovalPolicy, ChangeKind, CommandLine, DecisionAction, Effect, FileChange, GitAccess,
    Justification, Network, Pattern, ProcessId, RemoteHints, SandboxLevel, SandboxMode,
    SandboxPolicy,
};

fn read_lines(name: &str) -> Vec<String> {
    let path = format!("{}/tests/fixtures/policy/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.replace("\\n", "\n").replace("\\r", "\r")).collect()
}

fn parse_word<T: serde::de::DeserializeOwned>(word: &str) -> T {
    serde_json::from_value(json!(word)).unwrap_or_else(|_| panic!("unknown word {word}"))
}

fn parse_shell(script: &str) -> CommandLine {
    CommandLine::Shell { program: "/bin/bash".to_owned(), login: false, script: script.to_owned() }
}

fn parse_sandbox(text: &str) -> SandboxPolicy {
    let mut words = text.split('+');
    let mut policy = SandboxPolicy {
        mode: parse_word::<SandboxMode>(words.next().unwrap()),
        roots: vec![
            PathBuf::from("/w/project"),
            PathBuf::from("/w/.codex/worktree"),
            PathBuf::from("/tmp/own/tree"),
        ],
        network: Network::Off,
        deny_read: ["~/.ssh", "/etc/shadow", "**/.env", "*.pem", "~/.aws/**"]
            .map(|text| Pattern(text.to_owned()))
            .to_vec(),
        deny_write: vec![PathBuf::from("/w/project/own"), PathBuf::from("/tmp/own")],
        git: GitAccess::Ask,
        tmp: true,
    };
    for word in words {
        match word {
            "no-tmp" => policy.tmp = false,
            "net" => policy.network = Network::On,
            "git-allow" => policy.git = GitAccess::Allow,
            "git-deny" => policy.git = GitAccess::Deny,
            other => panic!("unknown word {other}"),
        }
    }
    policy
}

fn parse_changes(kind: ChangeKind, text: &str) -> Effect {
    let change = |path: &str| FileChange {
        path: PathBuf::from(path),
        kind,
        move_to: None,
        diff: String::new(),
    };
    Effect::Write { changes: text.split(',').map(change).collect() }
}

fn parse_effect(text: &str) -> Effect {
    let (kind, rest) =
        text.split_once(": ").unwrap_or(if text == "none:" { ("none", "") } else { ("run", text) });
    let run = |command, escalate| Effect::Run {
        command,
        cwd: PathBuf::from("/w/project"),
        network: Network::Off,
        escalate,
    };
    match kind {
        "none" => Effect::None,
        "read" => Effect::Read { paths: rest.split(',').map(PathBuf::from).collect() },
        "add" => parse_changes(ChangeKind::Add, rest),
        "update" => parse_changes(ChangeKind::Update, rest),
        "delete" => parse_changes(ChangeKind::Delete, rest),
        "move" => {
            let (from, to) = rest.split_once(',').unwrap();
            let Effect::Write { mut changes } = parse_changes(ChangeKind::Update, from) else {
                unreachable!()
            };
            changes[0].move_to = Some(PathBuf::from(to));
            Effect::Write { changes }
        }
        "escalate" => run(parse_shell(rest), Some(Justification { reason: "it must".to_owned() })),
        "argv" => run(CommandLine::Argv { argv: serde_json::from_str(rest).unwrap() }, None),
        "fetch" => Effect::Fetch { url: rest.to_owned() },
        "input" => Effect::Input { process: ProcessId(1) },
        "agent" => Effect::Agent { role: rest.to_owned() },
        "remote" => Effect::Remote {
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({}),
            hints: RemoteHints {
                read_only: rest == "read-only",
                destructive: rest == "destructive",
                ..RemoteHints::default()
            },
        },
        _ => run(parse_shell(text), None),
    }
}

#[test]
fn every_line_of_the_table_is_decided_as_it_says() {
    let mut wrong = Vec::new();
    for line in read_lines("decisions") {
        let (case, expected) = line.rsplit_once("=>").unwrap();
        let mut words = case.splitn(5, ' ');
        let approval: ApprovalPolicy = parse_word(words.next().unwrap());
        let sandbox = parse_sandbox(words.next().unwrap());
        let (level, fallback) = match words.next().unwrap() {
            "refuse" => (SandboxLevel::Reduced, SandboxLevel::Full),
            word => (parse_word(word), SandboxLevel::Reduced),
        };
        let interactive = words.next().unwrap() == "interactive";
        let effect = parse_effect(words.next().unwrap().trim());
        let home = Path::new("/home/u");
        let around =
            Circumstances { approval, sandbox: &sandbox, level, fallback, interactive, home };
        let decision = match case.ends_with("input: further ") {
            true => decide_input(InputReach::Further, &around),
            false => decide(&effect, &around),
        };
        assert!(!decision.reason.is_empty() && !decision.reason.ends_with('.'), "{line}");
        let actual = match decision.action {
            DecisionAction::Allow => "allow",
            DecisionAction::AllowReadOnly => "allow-read-only",
            DecisionAction::AllowUnsandboxed => "allow-unsandboxed",
            DecisionAction::Ask => "ask",
            DecisionAction::AskUnsandboxed => "ask-unsandboxed",
            DecisionAction::Deny => "deny",
        };
        if actual != expected.trim() {
            wrong.push(format!("{line}, but: {actual}, {}", decision.reason));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn assert_known(name: &str, expected: bool) {
    let lines = read_lines(name);
    let wrong: Vec<_> =
        lines.iter().filter(|line| is_known_read_only(&parse_shell(line)) != expected).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

#[test]
fn reading_commands_are_known() {
    assert_known("known_commands", true);
}

#[test]
fn all_other_commands_are_unknown() {
    assert_known("unknown_commands", false);
}

#[test]
fn a_vector_is_judged_without_a_shell() {
    let known = |argv: &[&str]| {
        is_known_read_only(&CommandLine::Argv { argv: argv.iter().map(|&w| w.into()).collect() })
    };
    assert!(known(&["ls", "-la", "a;b", "$(x)"]));
    assert!(!known(&["./ls"]));
    assert!(!known(&["/bin/ls"]));
    assert!(!known(&["ls", "a\u{1b}[2J"]));
    assert!(!known(&[]));
    assert!(!known(&["cat", &"x".repeat(5000)]));
}

#[test]
fn a_shell_of_another_place_is_unknown() {
    let shell = |program: &str| CommandLine::Shell {
        program: program.to_owned(),
        login: true,
        script: "ls".to_owned(),
    };
    assert!(is_known_read_only(&shell("/usr/bin/zsh")));
    assert!(!is_known_read_only(&shell("/tmp/bash")));
    assert!(!is_known_read_only(&shell("./bash")));
    assert!(!is_known_read_only(&shell("/bin/../tmp/bash")));
}

proptest! {
    #[test]
    fn no_text_panics(script in "\\PC*|[ -~\\n]{0,60}|([a-z]{1,5}|[|;&<>'\"$\\\\(){}*-]){0,30}") {
        is_known_read_only(&parse_shell(&script));
    }

    #[test]
    fn what_a_shell_would_expand_is_unknown(
        before in "(ls|cat|echo|git status|find \\.) [a-z. ]{0,10}",
        trick in "`|\\$|>|<|\\(|\\)|\\{|\\\\|~|#|\u{1b}|\r|\0|é|\u{202e}|& |>>|<<",
        after in "[a-z ]{1,8}",
    ) {
        let script = format!("{before}{trick}{after}");
        prop_assert!(!is_known_read_only(&parse_shell(&script)), "{}", script);
    }

    #[test]
    fn double_quotes_do_not_hide_an_expansion(trick in "`|\\$|\\\\|!", text in "[a-z ]{0,8}") {
        let script = format!("echo \"{text}{trick}{text}\"");
        prop_assert!(!is_known_read_only(&parse_shell(&script)), "{}", script);
    }
}
