//! Allowed hosts for real: a command in a network of its own, and its one way out of it.
//!
//! The host that stands for the internet is a listener on this machine's loopback, which a
//! command with a network of its own cannot reach but through the proxy. Skipped loudly where
//! there are no namespaces.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gimlet::protocol::{
    Decision, DecisionAction, GitAccess, HostRule, Network, SandboxLevel, SandboxMode,
    SandboxPolicy,
};
use gimlet::sandbox::{
    AttemptLine, AttemptsHeard, ExecRequest, LocalRunner, RunLimits, Verdict, Wanted, attempt_line,
    level, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::run::{House, closed_directory};

/// Long enough that a test which reaches it has failed.
const LONG: Duration = Duration::from_secs(60);
/// A client in the shell: sends its first argument to the proxy and prints what comes back.
const CLIENT: &str = "say() { exec 3<>/dev/tcp/127.0.0.1/61080 || return 9; printf \"$1\" >&3; cat <&3; exec 3>&-; };";

struct Bench {
    work: tempfile::TempDir,
    /// The port of a server that answers every connection with `reached`.
    port: u16,
}

impl Bench {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Ends with the test's process.
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 256];
                let _ = stream.read(&mut bytes);
                let _ = stream.write_all(b"reached\n");
            }
        });
        Self { work: tempfile::tempdir_in(closed_directory()).unwrap(), port }
    }

    fn request(&self, script: &str, hosts: &[&str], attempts: Option<AttemptLine>) -> ExecRequest {
        let work = self.work.path().to_owned();
        let port = self.port.to_string();
        let rule = |host: &&str| HostRule(host.replace("PORT", &port));
        let policy = SandboxPolicy {
            mode: SandboxMode::WorkspaceWrite,
            roots: vec![work.clone()],
            network: Network::Hosts(hosts.iter().map(rule).collect()),
            deny_read: Vec::new(),
            deny_write: Vec::new(),
            git: GitAccess::Ask,
            tmp: false,
        };
        let script = format!("{CLIENT} {}", script.replace("PORT", &port));
        ExecRequest {
            argv: vec!["/bin/bash".to_owned(), "-c".to_owned(), script],
            cwd: work,
            env: vec![
                ("PATH".to_owned(), std::env::var("PATH").unwrap()),
                ("http_proxy".to_owned(), "http://elsewhere.test".to_owned()),
            ],
            sandbox: Some(policy),
            attempts,
        }
    }

    /// Runs a script, and returns what it printed and the attempts that were told. What is
    /// asked is allowed where the host is `127.0.0.1`.
    fn run(&self, script: &str, hosts: &[&str]) -> (String, Vec<String>) {
        let (line, heard) = attempt_line(Arc::new(|Wanted { host, is_listed }| {
            let action = if is_listed { DecisionAction::Allow } else { DecisionAction::Ask };
            let reason = format!("{host} is not among allowed_hosts");
            Decision { action, reason, rule: None }
        }));
        let AttemptsHeard { attempts: mut told, mut questions } = heard;
        let request = self.request(script, hosts, Some(line));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let attempts = std::cell::RefCell::new(Vec::new());
            let shown = |host: &str| host.replace(&self.port.to_string(), "PORT");
            let listen = async {
                while let Some(attempt) = told.recv().await {
                    let word = match attempt.verdict {
                        Verdict::Allowed => "allowed",
                        Verdict::Refused { .. } => "refused",
                    };
                    attempts.borrow_mut().push(format!("{word} {}", shown(&attempt.host)));
                }
            };
            let answer = async {
                while let Some(question) = questions.recv().await {
                    let host = shown(&question.host);
                    attempts.borrow_mut().push(format!("asked {host}"));
                    let _ = question.answer.send(host.starts_with("127.0.0.1:"));
                }
            };
            let (output, (), ()) = tokio::join!(run_to_end(request), listen, answer);
            let attempts = attempts.into_inner();
            (output, attempts)
        })
    }
}

async fn run_to_end(request: ExecRequest) -> String {
    let runner = LocalRunner::new(PathBuf::from(env!("CARGO_BIN_EXE_gimlet")));
    let limits = RunLimits { timeout: LONG };
    let cancel = CancellationToken::new();
    let ended = run(&runner, request, limits, &cancel, &mut |_| {}).await.unwrap();
    String::from_utf8_lossy(&ended.output).into_owned()
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn can_proxy() -> bool {
    let (level, reason) = level();
    let has_bash = std::path::Path::new("/bin/bash").exists();
    if level < SandboxLevel::Full || !has_bash {
        eprintln!("SKIPPED: {}", reason.unwrap_or_else(|| "there is no bash".to_owned()));
    }
    level == SandboxLevel::Full && has_bash
}

#[test]
fn a_command_reaches_the_allowed_host_and_nothing_else() {
    if !can_proxy() {
        return;
    }
    let bench = Bench::new();
    let script = "echo $http_proxy $ALL_PROXY; \
        (echo x >/dev/tcp/127.0.0.1/PORT) 2>/dev/null && echo direct; \
        say 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\nx'; \
        say 'CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n'";
    let (output, attempts) = bench.run(script, &["127.0.0.1:PORT"]);
    assert!(output.starts_with("http://127.0.0.1:61080 http://127.0.0.1:61080\n"), "{output}");
    assert!(!output.contains("direct"), "{output}");
    assert!(output.contains("200 Connection established"), "{output}");
    assert!(output.contains("reached\n"), "{output}");
    assert!(output.contains("403 Forbidden by the sandbox"), "{output}");
    assert_eq!(
        attempts,
        ["allowed 127.0.0.1:PORT", "asked other.test:443", "refused other.test:443"]
    );
}

#[test]
fn a_yes_opens_a_name_but_no_private_address() {
    if !can_proxy() {
        return;
    }
    let bench = Bench::new();
    let script = "say 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\nx'";
    let (output, attempts) = bench.run(script, &["crates.io"]);
    assert!(output.contains("403 ") && output.contains("no public address"), "{output}");
    assert_eq!(
        attempts,
        ["asked 127.0.0.1:PORT", "allowed 127.0.0.1:PORT", "refused 127.0.0.1:PORT"]
    );
}

#[test]
fn commands_beside_each_other_have_a_proxy_each() {
    if !can_proxy() {
        return;
    }
    let bench = Bench::new();
    let script = "say 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\nx'";
    thread::scope(|scope| {
        let runs: Vec<_> =
            (0..3).map(|_| scope.spawn(|| bench.run(script, &["127.0.0.1:PORT"]))).collect();
        for run in runs {
            let (output, attempts) = run.join().unwrap();
            assert!(output.contains("reached\n"), "{output}");
            assert_eq!(attempts, ["allowed 127.0.0.1:PORT"]);
        }
    });
}

#[test]
fn where_nobody_takes_note_there_is_no_way_out() {
    if !can_proxy() {
        return;
    }
    let bench = Bench::new();
    let script = "echo \"proxy: $HTTP_PROXY\"; say 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\nx' 2>/dev/null; echo $?";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = bench.request(script, &["127.0.0.1:PORT"], None);
    assert_eq!(runtime.block_on(run_to_end(request)), "proxy: \n9\n");
}

/// Runs a session in which a command asks the proxy for the host that is listed, under this rule,
/// and returns the run's events as text.
fn play_with_rule(action: &str) -> String {
    let bench = Bench::new();
    let house = House::new();
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\n\
        [sandbox_workspace_write]\nallowed_hosts = [\"127.0.0.1:PORT\"]\n";
    house.write_config(&config.replace("PORT", &bench.port.to_string()));
    house.write_rules(&format!("[[rule]]\naction = \"{action}\"\nhost = \"127.0.0.1\"\n"));
    let script = "say 'CONNECT 127.0.0.1:PORT HTTP/1.1\\r\\n\\r\\nx'";
    let cmd = format!("{CLIENT} {}", script.replace("PORT", &bench.port.to_string()));
    let arguments = serde_json::json!({ "cmd": cmd, "shell": "/bin/bash" });
    let call = serde_json::json!({"call": {"name": "exec_command", "arguments": arguments}});
    let lines = format!("{call}\n{{\"end\":{{}}}}\n{{\"say\":\"done\"}}\n{{\"end\":{{}}}}\n");
    let path = house.root().join("script.jsonl");
    std::fs::write(&path, lines).unwrap();
    let path = path.display().to_string();
    let ended = house.run(&["exec", "--events", "--driver", "fake", "--script", &path, "go"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.stdout
}

#[test]
fn a_rule_about_a_host_holds_for_a_listed_one() {
    if !can_proxy() {
        return;
    }
    let denied = play_with_rule("deny");
    assert!(denied.contains("denies it") && denied.contains("403 Forbidden"), "{denied}");
    assert!(!denied.contains("reached"), "{denied}");
    // Here nobody is there to be asked.
    let asked = play_with_rule("ask");
    assert!(asked.contains("ask_opened") && asked.contains("rules.toml:1"), "{asked}");
    assert!(!asked.contains("reached"), "{asked}");
    let allowed = play_with_rule("allow");
    assert!(allowed.contains("reached"), "{allowed}");
}
