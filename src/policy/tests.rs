//! Runs the tables in `tests/fixtures/policy`. A line that starts with `#` is a comment; in a
//! command `\n` stands for a newline, `\r` for a carriage return.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use proptest::prelude::*;
use serde_json::json;

use crate::policy::check::{CheckDecision, Checked, check};
use crate::policy::rules::Subject;
use crate::policy::{Circumstances, InputReach, InputTo, Origin, RuleError, RuleFile, Rules};
use crate::policy::{decide, decide_input};
use crate::protocol::{
    ApprovalPolicy, ChangeKind, CommandLine, DecisionAction, Effect, FileChange, GitAccess,
    Justification, Network, Pattern, ProcessId, RemoteHints, SandboxLevel, SandboxMode,
    SandboxPolicy,
};

/// Input to a command that reaches further than commands do now.
const FURTHER: InputTo<'static> = InputTo { reach: InputReach::Further, typed: None };

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
    check_decisions("decisions", &Rules::default());
}

#[test]
fn rules_are_laid_over_what_holds_without_them() {
    let text = std::fs::read_to_string(fixture("policy/rules.toml")).unwrap();
    check_decisions("with_rules", &parse_rules(&text, Origin::User).unwrap());
}

fn check_decisions(name: &str, rules: &Rules) {
    let mut wrong = Vec::new();
    for line in read_lines(name) {
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
        let around = Circumstances {
            approval,
            sandbox: &sandbox,
            level,
            fallback,
            interactive,
            home,
            rules,
        };
        let decision = match case.trim_end().ends_with("input: further") {
            true => decide_input(&FURTHER, &effect, "a_tool", &around),
            false => decide(&effect, "a_tool", &around),
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

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path)
}

fn parse_rules(text: &str, origin: Origin) -> Result<Rules, RuleError> {
    let mut rules = Rules::default();
    let file = RuleFile { label: "rules.toml", path: "rules.toml", text, origin };
    rules.read(&file).map(|_| rules)
}

/// A case of `fixtures/rules` has `rules.toml`, and `checks.txt` (an effect and what the rules say
/// of it, a line each) or `error.txt`.
#[test]
fn rules_say_what_their_cases_expect() {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(fixture("rules")).unwrap().map(|it| it.unwrap().path()).collect();
    cases.sort();
    let mut wrong = Vec::new();
    for case in cases {
        let text = std::fs::read_to_string(case.join("rules.toml")).unwrap();
        let rules = match parse_rules(&text, Origin::User) {
            Ok(rules) => rules,
            Err(error) => {
                let told = format!("{error}\n  hint: {}\n", error.hint);
                expect_file![case.join("error.txt")].assert_eq(&told);
                continue;
            }
        };
        assert!(!case.join("error.txt").exists(), "{} is no error", case.display());
        let checks = std::fs::read_to_string(case.join("checks.txt")).unwrap();
        for line in checks.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (effect, expected) = line.rsplit_once(" => ").unwrap();
            let said = say(&rules, &parse_effect(&effect.replace("\\n", "\n")));
            if said.0 != expected {
                wrong.push(format!("{line}, but: {}, {}", said.0, said.1));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns what the rules say; of a command, with what is known beside them.
fn say(rules: &Rules, effect: &Effect) -> (String, String) {
    if let Effect::Run { command, .. } = effect {
        let Checked { decision, reason, rule: _, leaves_sandbox } =
            check(command, rules, Path::new("/w/project"), Path::new("/home/u"));
        let place = if leaves_sandbox { " outside" } else { "" };
        return (format!("{}{place}", parse_name(decision)), reason);
    }
    let subject = Subject { effect, tool: "a_tool", home: Path::new("/home/u") };
    match rules.judge(&subject) {
        Some(said) => (format!("{:?}", said.action).to_lowercase(), said.reason),
        None => ("none".to_owned(), String::new()),
    }
}

fn parse_name(decision: CheckDecision) -> String {
    serde_json::to_value(decision).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn a_tool_is_ruled_by_its_name() {
    let text =
        std::fs::read_to_string(fixture("rules/files_tools_servers_and_hosts/rules.toml")).unwrap();
    let rules = parse_rules(&text, Origin::User).unwrap();
    let judge = |tool| rules.judge(&Subject { effect: &Effect::None, tool, home: Path::new("/") });
    assert_eq!(judge("web_fetch").map(|said| said.place).as_deref(), Some("rules.toml:20"));
    assert_eq!(judge("read_file"), None);
}

#[test]
fn a_project_never_leads_out_of_the_sandbox() {
    let text = "[[rule]]\naction = \"allow\"\nprogram = \"docker\"\nsandbox = false\n";
    let docker = parse_shell("docker ps");
    let leaves = |origin| {
        check(&docker, &parse_rules(text, origin).unwrap(), Path::new("/"), Path::new("/"))
            .leaves_sandbox
    };
    assert!(leaves(Origin::User));
    assert!(!leaves(Origin::Project));
}

#[test]
fn rules_that_cannot_be_read_ask_for_all_but_reading() {
    let mut rules = Rules::default();
    rules.ask_for_everything("r:1", "they cannot be read");
    for (effect, expected) in [
        ("read: /a", "none"),
        ("update: /w/project/a", "ask"),
        ("fetch: https://a.example", "ask"),
        ("remote: read-only", "ask"),
        ("agent: x", "ask"),
    ] {
        assert_eq!(say(&rules, &parse_effect(effect)).0, expected, "{effect}");
    }
    let run = parse_effect("ls");
    let said = rules.judge(&Subject { effect: &run, tool: "t", home: Path::new("/") });
    assert_eq!(
        said.map(|said| said.reason).as_deref(),
        Some("the rule at r:1 asks for it: they cannot be read")
    );
}

#[test]
fn too_many_rules_are_refused() {
    let text = "[[rule]]\naction = \"deny\"\nprogram = \"x\"\n".repeat(1001);
    assert!(parse_rules(&text, Origin::User).unwrap_err().message.contains("more than 1000"));
}

proptest! {
    #[test]
    fn no_text_of_rules_panics(text in "\\PC{0,80}|(\\[\\[rule\\]\\]\n(action = \"(deny|ask|allow)\"\n)?(program|args|host|path|mcp|examples) = (\"[a-z *]{0,6}\"|\\[\\]|\\[\"[a-z]{1,3}\"\\]|1)\n){0,4}") {
        let _ = parse_rules(&text, Origin::Project);
    }

    /// A denied program is denied behind any wrappers, in any part and in any form of a line.
    #[test]
    fn what_is_denied_is_denied_in_every_disguise(
        before in "((ls|cat a|git log -1|echo 'x; y'|rg \"a[|]b\")(; | && | \\| |\n)){0,3}",
        wrappers in "(sudo |sudo -u me |env |env A=b |timeout 5 |nice -n 3 |xargs |xargs -n 1 |exec |nohup |time |command |A=b |stdbuf -oL ){0,5}",
        form in 0_usize..9,
    ) {
        let rules = "[[rule]]\naction = \"deny\"\nprogram = \"zap\"\n[[rule]]\naction = \"allow\"\nprogram = [\"ls\", \"sudo\", \"zap\", \"xargs\"]\n";
        let rules = parse_rules(rules, Origin::User).unwrap();
        let zap = format!("{wrappers}zap x");
        let disguised = match form {
            0 => zap,
            1 => format!("echo $({zap})"),
            2 => format!("echo \"a `{zap}` b\""),
            3 => format!("({zap})"),
            4 => format!("{{ {zap}; }}"),
            5 => format!("sh -c '{zap}'"),
            6 => format!("if true; then {zap}; fi > log 2>&1"),
            7 => format!("bash <<E\n{zap}\nE"),
            _ => format!("find . -exec {zap} {{}} +"),
        };
        let line = format!("{before}{disguised}");
        let checked = check(&parse_shell(&line), &rules, Path::new("/"), Path::new("/"));
        prop_assert_eq!(checked.decision, CheckDecision::Deny, "{}", line);
    }
}
