//! What is measured: each program plays the same scenes against the same server.
//!
//! A subject has a home with a configuration that points to the mock; scenes differ only in
//! what the mock answers. Each adds its figures to the subject, `table.rs` shows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::json;

use crate::measure::{self, Run, now_ns};
use crate::server::{Reply, Request, Server};
use crate::sse::Response;

/// Tool turns of one session.
pub(crate) const TOOL_TURNS: usize = 10;

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gimlet,
    Peer,
}

/// One program, and its figures so far by name.
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) program: PathBuf,
    pub(crate) figures: BTreeMap<&'static str, Vec<f64>>,
    folder: tempfile::TempDir,
}

/// The server and what it plays.
pub(crate) struct Stage {
    server: Server,
    scene: Arc<Mutex<Vec<Reply>>>,
    one_turn: Vec<Reply>,
    tool_turns: Vec<Reply>,
    many_deltas: Vec<Reply>,
    /// One moment on both clocks.
    moment: (Instant, i64),
}

/// One session as seen from both sides.
struct Session {
    run: Run,
    requests: Vec<Request>,
    connections: usize,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gimlet => "gimlet",
            Self::Peer => "peer",
        }
    }
}

impl Subject {
    pub(crate) fn new(kind: Kind, program: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "workspace"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { kind, program: program.to_owned(), figures: BTreeMap::new(), folder }
    }

    fn write_config(&self, base_url: &str) {
        let mut text = format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"mock\"\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{base_url}\"\n\
             wire_api = \"responses\"\nenv_key = \"MOCK_KEY\"\n"
        );
        if self.kind == Kind::Peer {
            // As it is shipped it also waits for its analytics at the end.
            text += "[analytics]\nenabled = false\n";
        }
        std::fs::write(self.folder.path().join("home/config.toml"), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Run {
        let folder = self.folder.path();
        let home = folder.join("home").display().to_string();
        let variable = match self.kind {
            Kind::Gimlet => "GIMLET_HOME",
            Kind::Peer => "CODEX_HOME",
        };
        let env = [(variable, home.as_str()), ("HOME", &home), ("MOCK_KEY", "k")];
        let run = measure::run(folder, &self.program, args, &env);
        let shown = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(
            run.code,
            0,
            "{}: {}{}",
            self.kind.name(),
            shown("stdout.txt"),
            shown("stderr.txt")
        );
        run
    }

    fn note(&mut self, counted: bool, name: &'static str, value: f64) {
        if counted {
            self.figures.entry(name).or_default().push(value);
        }
    }
}

impl Stage {
    pub(crate) fn new(deltas: usize) -> Self {
        let scene: Arc<Mutex<Vec<Reply>>> = Arc::default();
        let playing = Arc::clone(&scene);
        let server = Server::start(0, move |n, _| {
            let missing = || Reply::status(400, r#"{"error":{"message":"the scene is over"}}"#);
            playing.lock().unwrap().get(n).cloned().unwrap_or_else(missing)
        });
        let hello = Reply::sse(Response::new(0).message("Hello.").stream());
        let call =
            |n| Response::new(n).function_call("exec_command", &json!({"cmd": "echo hi"})).stream();
        let mut tool_turns: Vec<Reply> = (1..=TOOL_TURNS).map(|n| Reply::sse(call(n))).collect();
        tool_turns.push(hello.clone());
        let many = Response::new(0).many_deltas(deltas).stream();
        eprintln!("{deltas} deltas are {} bytes of stream", many.len());
        Self {
            server,
            scene,
            one_turn: vec![hello],
            tool_turns,
            many_deltas: vec![Reply::sse(many)],
            moment: (Instant::now(), now_ns()),
        }
    }

    /// Plays every scene once; `counted` is false for the round that warms up.
    pub(crate) fn play_round(&self, subject: &mut Subject, counted: bool) {
        subject.write_config(&self.server.base_url());
        let version = subject.run(&["--version"]);
        subject.note(counted, "version wall", ms(version.ended_ns - version.started_ns));
        self.play_one_turn(subject, counted);
        self.play_tool_turns(subject, counted, "workspace-write", "gap per tool turn, sandboxed");
        self.play_tool_turns(
            subject,
            counted,
            "danger-full-access",
            "gap per tool turn, no sandbox",
        );
        self.play_deltas(subject, counted);
    }

    fn play_one_turn(&self, subject: &mut Subject, counted: bool) {
        let session = self.play(subject, &self.one_turn, "workspace-write");
        let (run, first) = (&session.run, &session.requests[0]);
        let wall = run.ended_ns - run.started_ns;
        subject.note(counted, "one turn wall", ms(wall));
        let arrived = self.ns(first.arrived);
        subject.note(counted, "start to first request", ms(arrived - run.started_ns));
        let answered = self.ns(first.answered.expect("the first request was answered"));
        subject.note(counted, "last byte to exit", ms(run.ended_ns - answered));
        subject.note(counted, "one turn CPU", ms(run.cpu_ns));
        subject.note(counted, "one turn peak memory", mib(run.peak_bytes));
        subject.note(counted, "first request body", kb(first.body.len()));
    }

    fn play_tool_turns(
        &self,
        subject: &mut Subject,
        counted: bool,
        sandbox: &str,
        name: &'static str,
    ) {
        let session = self.play(subject, &self.tool_turns, sandbox);
        let requests = &session.requests;
        assert_eq!(requests.len(), TOOL_TURNS + 1, "not every tool turn came back");
        for pair in requests.windows(2) {
            let answered = self.ns(pair[0].answered.expect("it was answered"));
            subject.note(counted, name, ms(self.ns(pair[1].arrived) - answered));
        }
        if sandbox == "workspace-write" {
            let connections = u32::try_from(session.connections).unwrap();
            subject.note(counted, "connections, ten tool turns", connections.into());
            subject.note(
                counted,
                "last request body, ten tool turns",
                kb(requests[TOOL_TURNS].body.len()),
            );
        }
    }

    fn play_deltas(&self, subject: &mut Subject, counted: bool) {
        let run = self.play(subject, &self.many_deltas, "workspace-write").run;
        subject.note(counted, "many deltas wall", ms(run.ended_ns - run.started_ns));
        subject.note(counted, "many deltas CPU", ms(run.cpu_ns));
        subject.note(counted, "many deltas peak memory", mib(run.peak_bytes));
    }

    fn play(&self, subject: &Subject, replies: &[Reply], sandbox: &str) -> Session {
        self.scene.lock().unwrap().clear();
        self.scene.lock().unwrap().extend_from_slice(replies);
        self.server.take_requests();
        let run =
            subject.run(&["exec", "--json", "--skip-git-repo-check", "-s", sandbox, "Say hello."]);
        let requests = self.server.take_requests();
        assert!(!requests.is_empty(), "{} sent no request", subject.kind.name());
        let mut seen: Vec<usize> = requests.iter().map(|r| r.connection).collect();
        seen.sort_unstable();
        seen.dedup();
        Session { run, requests, connections: seen.len() }
    }

    /// Returns a moment of the standard clock on the one that processes share.
    fn ns(&self, moment: Instant) -> i64 {
        let (instant, ns) = self.moment;
        let since = i64::try_from(moment.duration_since(instant).as_nanos()).unwrap();
        ns + since
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn mib(bytes: i64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn kb(bytes: usize) -> f64 {
    bytes as f64 / 1000.0
}
