//! Whole sessions with a scripted front end: every choice, and for how long it is remembered.
//!
//! A script plays the model, `Front` the user: it reads real `Event`s and sends real `Op`s. Commands
//! go to a runner that starts nothing and says whether it was asked to confine them; patches
//! are written for real.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use expect_test::expect;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::agent::approvals::{Approvals, PastApprovals};
use crate::agent::bus::Bus;
use crate::agent::{Engine, Handle, History, SessionSpec};
use crate::config::Config;
use crate::config::load::{LoadInputs, find_directories, load};
use crate::config::resolve::SessionFlags;
use crate::model::{catalog, factory};
use crate::protocol::{
    Answer, AnswerScope, ApprovalDecision, Ask, AskId, CommandLine, Effect, Event, EventMsg,
    HunkId, Network, Op, ResponseItem, SandboxLevel, SandboxPolicy, SessionId, ToolCall,
    ToolPayload, TurnOutcome, UserInput, When,
};
use crate::sandbox::{
    AttemptLine, CommandRunner, ExecRequest, ExitState, Input, LevelReport, Process,
    ProcessControl, SandboxError,
};
use crate::store::approvals as lasting;
use crate::tools;

/// Remembers what it was asked to run. A script that says `stopped` fails confined, as if the
/// sandbox had stopped it.
/// What reads input runs until a test ends it, as in `kept_tests.rs`.
#[derive(Default)]
pub(super) struct FakeRunner {
    ran: Mutex<Vec<(String, bool)>>,
    kept: Mutex<Vec<Kept>>,
    started: tokio::sync::Notify,
}

/// A command that runs on.
struct Kept {
    cmd: String,
    end: CancellationToken,
    /// Where it would tell of what it wants to reach; until a test takes it.
    line: Option<AttemptLine>,
    output: Arc<tokio::sync::Mutex<DuplexStream>>,
    typed: Typed,
}

/// What was typed into a command.
#[derive(Clone, Default)]
struct Typed(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Typed {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl ProcessControl for CancellationToken {
    fn wait(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>> {
        Box::pin(async {
            self.cancelled().await;
            Ok(ExitState { code: Some(0), signal: None })
        })
    }

    fn terminate(&mut self) {
        self.cancel();
    }

    fn interrupt(&mut self) {}

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.cancel();
        Box::pin(async {})
    }
}

impl FakeRunner {
    /// Waits for the next command that runs on, and returns its line.
    pub(super) async fn next_line(&self) -> AttemptLine {
        loop {
            let started = self.started.notified();
            let line = self.kept.lock().unwrap().iter_mut().find_map(|kept| kept.line.take());
            if let Some(line) = line {
                return line;
            }
            started.await;
        }
    }

    /// Lets all commands that run on end.
    pub(super) fn end_all(&self) {
        self.kept.lock().unwrap().iter().for_each(|kept| kept.end.cancel());
    }

    /// Has the first command that runs on print something.
    pub(super) async fn print(&self, text: &str) {
        let output = Arc::clone(&self.kept.lock().unwrap()[0].output);
        output.lock().await.write_all(text.as_bytes()).await.unwrap();
    }

    /// What the first command that runs on was told.
    pub(super) fn typed(&self) -> String {
        let typed = self.kept.lock().unwrap()[0].typed.0.lock().unwrap().clone();
        String::from_utf8(typed).unwrap()
    }

    /// Which commands run on.
    pub(super) fn running(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let running = kept.iter().filter(|kept| !kept.end.is_cancelled());
        running.map(|kept| kept.cmd.clone()).collect()
    }
}

struct Ended(ExitState);

impl ProcessControl for Ended {
    fn wait(
        &mut self,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ExitState, SandboxError>> + Send + '_>> {
        let state = self.0;
        Box::pin(async move { Ok(state) })
    }

    fn terminate(&mut self) {}

    fn kill(&mut self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {})
    }
}

impl CommandRunner for FakeRunner {
    fn spawn(&self, request: ExecRequest) -> Result<Process, SandboxError> {
        let script = request.argv.last().cloned().unwrap_or_default();
        let confined = request.sandbox.is_some();
        let stopped = confined && script.contains("stopped");
        let (code, output) =
            if stopped { (1, "cannot touch 'x': Permission denied\n") } else { (0, "it ran\n") };
        self.ran.lock().unwrap().push((script, confined));
        Ok(Process {
            output: Box::new(Cursor::new(output.as_bytes().to_vec())),
            control: Box::new(Ended(ExitState { code: Some(code), signal: None })),
            input: None,
            output_bytes_max: None,
        })
    }

    fn spawn_with(&self, request: ExecRequest, input: Input) -> Result<Process, SandboxError> {
        if input == Input::Empty {
            return self.spawn(request);
        }
        let (output, printed) = tokio::io::duplex(4096);
        let kept = Kept {
            cmd: request.argv.last().cloned().unwrap_or_default(),
            end: CancellationToken::new(),
            line: request.attempts,
            output: Arc::new(tokio::sync::Mutex::new(output)),
            typed: Typed::default(),
        };
        let process = Process {
            output: Box::new(printed),
            control: Box::new(kept.end.clone()),
            input: Some(Box::new(kept.typed.clone())),
            output_bytes_max: None,
        };
        self.kept.lock().unwrap().push(kept);
        self.started.notify_waiters();
        Ok(process)
    }

    fn level_under(&self, _policy: &SandboxPolicy, _env: &[(String, String)]) -> LevelReport {
        LevelReport { level: SandboxLevel::Full, reason: None, exposed: None }
    }
}

/// A user's home, two projects, and what the model will say.
pub(super) struct World {
    _root: tempfile::TempDir,
    pub(super) top: PathBuf,
    settings: String,
    interactive: bool,
}

/// A session, and the person in front of it.
pub(super) struct Front {
    pub(super) handle: Handle,
    pub(super) runner: Arc<FakeRunner>,
    events: Vec<Event>,
}

impl World {
    pub(super) fn new(settings: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(root.path()).unwrap();
        for dir in ["home/gimlet", "a/.git", "b/.git", "outside"] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        let settings = format!("{settings}\n[sandbox_workspace_write]\nexclude_slash_tmp = true\n");
        Self { _root: root, top, settings, interactive: true }
    }

    fn state(&self) -> PathBuf {
        self.config("a").directories.state.clone()
    }

    fn config(&self, project: &str) -> Arc<Config> {
        let text = |path: &str| self.top.join(path).to_string_lossy().into_owned();
        std::fs::write(self.top.join("home/gimlet/config.toml"), &self.settings).unwrap();
        let env =
            [("GIMLET_HOME".to_owned(), text("home/gimlet")), ("HOME".to_owned(), text("home"))];
        let env = std::collections::BTreeMap::from(env);
        let script = Some(self.top.join("script.jsonl"));
        let inputs = LoadInputs {
            directories: find_directories(&env).unwrap(),
            flags: toml::Table::new(),
            session: SessionFlags { script, ..SessionFlags::default() },
            profile: None,
            cwd: None,
            process_cwd: self.top.join(project),
            env,
            stored_key: None,
            notes: Vec::new(),
        };
        Arc::new(load(inputs).unwrap().resolved.config)
    }

    /// Starts a session in project `a` whose model makes these calls, one response each.
    pub(super) fn start(&self, responses: &[Vec<Value>]) -> Front {
        self.start_in("a", History::New, responses)
    }

    fn start_in(&self, project: &str, history: History, responses: &[Vec<Value>]) -> Front {
        let mut script = String::new();
        for calls in responses {
            let lines: String = calls.iter().map(|call| format!("{call}\n")).collect();
            script += &format!("{lines}{{\"end\":{{}}}}\n{{\"say\":\"ok\"}}\n{{\"end\":{{}}}}\n");
        }
        std::fs::write(self.top.join("script.jsonl"), script).unwrap();
        let config = self.config(project);
        let runner = Arc::new(FakeRunner::default());
        let engine = Engine {
            drivers: factory::factory(config.provider.clone()),
            tools: tools::builtin(&catalog::lookup(&config.model), "/bin/sh"),
            runner: Arc::clone(&runner) as Arc<dyn CommandRunner>,
            observers: Vec::new(),
        };
        let spec = SessionSpec {
            config,
            history,
            interactive: self.interactive,
            env: Vec::new(),
            secrets: Vec::new(),
            shell: "/bin/sh".to_owned(),
        };
        Front { handle: engine.start(spec).unwrap(), runner, events: Vec::new() }
    }
}

impl Front {
    /// Runs one turn, answering with `answer`, and returns the questions.
    pub(super) async fn turn(&mut self, mut answer: impl FnMut(&Ask) -> Answer) -> Vec<Ask> {
        self.submit_turn();
        let mut asked = Vec::new();
        loop {
            let event = self.handle.next_event().await.expect("the session lives");
            self.events.push(event.clone());
            match event.msg {
                EventMsg::AskOpened { ask, question } => {
                    let answer = answer(&question);
                    asked.push(question);
                    self.handle.submit(Op::Answer { ask, answer }).unwrap();
                }
                EventMsg::TurnEnded { .. } => return asked,
                _ => {}
            }
        }
    }

    /// Begins a turn.
    pub(super) fn submit_turn(&mut self) {
        let text = "go".to_owned();
        let input = vec![UserInput::Text { text }];
        let op = Op::UserTurn { input, overrides: Default::default(), when: When::Now };
        self.handle.submit(op).unwrap();
    }

    pub(super) async fn end(mut self) -> SessionId {
        self.handle.submit(Op::Shutdown).unwrap();
        while self.handle.next_event().await.is_some() {}
        self.handle.session()
    }

    fn ran(&self) -> Vec<(String, bool)> {
        self.runner.ran.lock().unwrap().clone()
    }

    /// What the model was told of each call.
    pub(super) fn outputs(&self) -> Vec<String> {
        let text = |event: &Event| match &event.msg {
            EventMsg::ItemCompleted {
                item:
                    ResponseItem::FunctionCallOutput(output)
                    | ResponseItem::CustomToolCallOutput(output),
            } => Some(serde_json::to_value(&output.output).unwrap().to_string()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    fn grants_applied(&self) -> Vec<AnswerScope> {
        let scope = |event: &Event| match &event.msg {
            EventMsg::GrantApplied { scope, .. } => Some(*scope),
            _ => None,
        };
        self.events.iter().filter_map(scope).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let text = |event: &Event| match &event.msg {
            EventMsg::Warning { message, .. } => Some(message.clone()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    fn outcome(&self) -> TurnOutcome {
        let outcome = |event: &Event| match &event.msg {
            EventMsg::TurnEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        };
        self.events.iter().rev().find_map(outcome).unwrap()
    }
}

fn run(cmd: &str) -> Value {
    json!({"call": {"name": "exec_command", "arguments": {"cmd": cmd}}})
}

fn run_outside(cmd: &str) -> Value {
    let arguments = json!({"cmd": cmd, "sandbox_permissions": "require_escalated", "justification": "it needs the \u{1b}[2Jnetwork"});
    json!({"call": {"name": "exec_command", "arguments": arguments}})
}

fn patch(text: &str) -> Value {
    let input = format!("*** Begin Patch\n{text}*** End Patch\n");
    json!({"custom": {"name": "apply_patch", "input": input}})
}

fn answer(decision: ApprovalDecision, scope: AnswerScope) -> Answer {
    Answer::Approval { decision, scope, hunks: None, edited: None, note: None }
}

pub(super) fn allow(scope: AnswerScope) -> Answer {
    answer(ApprovalDecision::Allow, scope)
}

fn allow_edited(cmd: &str) -> Answer {
    let arguments = json!({"cmd": cmd}).to_string();
    edited(arguments)
}

fn edited(arguments: String) -> Answer {
    let call = ToolCall {
        call_id: "other".into(),
        name: "exec_command".into(),
        payload: ToolPayload::Function { arguments },
    };
    Answer::Approval {
        decision: ApprovalDecision::Allow,
        scope: AnswerScope::Session,
        hunks: None,
        edited: Some(call),
        note: None,
    }
}

pub(super) fn deny(note: Option<&str>) -> Answer {
    Answer::Approval {
        decision: ApprovalDecision::Deny,
        scope: AnswerScope::Once,
        hunks: None,
        edited: None,
        note: note.map(str::to_owned),
    }
}

pub(super) fn nobody(question: &Ask) -> Answer {
    panic!("asked again: {question:?}")
}

const UNTRUSTED: &str = "approval_policy = \"untrusted\"";

#[tokio::test]
async fn once_is_once() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")], vec![run("make")]]);
    assert_eq!(front.turn(|_| allow(AnswerScope::Once)).await.len(), 1);
    assert_eq!(front.turn(|_| allow(AnswerScope::Once)).await.len(), 1);
    assert_eq!(front.ran(), [("make".to_owned(), true), ("make".to_owned(), true)]);
}

#[tokio::test]
async fn a_session_remembers_across_processes_and_no_longer() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")], vec![run("make")], vec![run("make all")]]);
    front.turn(|_| allow(AnswerScope::Session)).await;
    front.turn(nobody).await;
    assert_eq!(front.grants_applied(), [AnswerScope::Session]);
    assert_eq!(front.turn(|_| deny(None)).await.len(), 1, "another command is another question");
    let id = front.end().await;

    let mut again = world.start_in("a", History::Resume(id), &[vec![run("make")]]);
    again.turn(nobody).await;
    assert_eq!(again.grants_applied(), [AnswerScope::Session]);
    assert_eq!(again.ran().len(), 1);
    again.end().await;

    let mut other = world.start(&[vec![run("make")]]);
    assert_eq!(other.turn(|_| deny(None)).await.len(), 1);
    assert!(!lasting::approvals_path(&world.state()).exists());
}

#[tokio::test]
async fn a_log_that_was_changed_allows_nothing() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    front.turn(|_| deny(None)).await;
    let id = front.end().await;
    let day = |name: &Path| std::fs::read_dir(name).unwrap().next().unwrap().unwrap().path();
    let log = day(&day(&day(&day(&world.state().join("sessions")))));
    let text = std::fs::read_to_string(&log).unwrap();
    let forged = text
        .replace(r#""decision":"deny","scope":"once""#, r#""decision":"allow","scope":"session""#);
    assert_ne!(forged, text);
    std::fs::write(&log, forged).unwrap();

    // Not at once, and not after the log was mended either.
    for _ in 0..2 {
        let mut again = world.start_in("a", History::Resume(id), &[vec![run("make")]]);
        assert_eq!(again.turn(|_| deny(None)).await.len(), 1);
        again.end().await;
    }
}

#[tokio::test]
async fn a_project_and_always_hold_where_they_say() {
    let world = World::new("approval_policy = \"on-request\"");
    let write = |world: &World, name: &str| {
        let path = world.top.join("outside").join(name);
        patch(&format!("*** Add File: {}\n+text\n", path.display()))
    };
    let calls = [vec![write(&world, "project")], vec![write(&world, "always")]];
    let mut front = world.start(&calls);
    assert_eq!(front.turn(|_| allow(AnswerScope::Project)).await.len(), 1);
    assert_eq!(front.turn(|_| allow(AnswerScope::Always)).await.len(), 1);
    front.end().await;

    let mut same = world.start(&calls);
    same.turn(nobody).await;
    same.turn(nobody).await;
    assert_eq!(same.grants_applied(), [AnswerScope::Project, AnswerScope::Always]);
    same.end().await;

    let mut other = world.start_in("b", History::New, &calls);
    assert_eq!(other.turn(|_| deny(None)).await.len(), 1);
    other.turn(nobody).await;
    assert_eq!(other.grants_applied(), [AnswerScope::Always]);
}

#[tokio::test]
async fn what_another_process_revokes_is_asked_again_at_once() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")], vec![run("make")], vec![run("make")]]);
    front.turn(|_| allow(AnswerScope::Always)).await;
    front.turn(nobody).await;
    let grant = lasting::load(&world.state()).unwrap().remove(0);
    assert_eq!(lasting::revoke(&world.state(), &grant.id).unwrap(), [grant]);
    assert_eq!(front.turn(|_| deny(None)).await.len(), 1);
}

#[tokio::test]
async fn a_no_reaches_the_model_and_is_not_asked_twice_in_a_turn() {
    let world = World::new(UNTRUSTED);
    let twice = vec![run("make"), json!({"end": {}}), run("make")];
    let mut front = world.start(&[twice, vec![run("make")]]);
    let asked = front.turn(|_| deny(Some("run the tests instead"))).await;
    assert_eq!(asked.len(), 1);
    let outputs = front.outputs();
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        assert!(
            output.contains("declined: the user said no, and says: run the tests instead"),
            "{output}"
        );
    }
    assert!(front.ran().is_empty());
    assert_eq!(front.outcome(), TurnOutcome::Completed);
    assert_eq!(front.turn(|_| allow(AnswerScope::Once)).await.len(), 1, "a new turn asks anew");
}

#[tokio::test]
async fn an_abort_ends_the_turn() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    front.turn(|_| answer(ApprovalDecision::Abort, AnswerScope::Once)).await;
    assert_eq!(front.outcome(), TurnOutcome::Denied { reason: "the user said no".to_owned() });
    assert!(front.ran().is_empty());
}

/// At the desk itself: in a session, the first answer may come before the second question.
#[tokio::test]
async fn identical_questions_at_once_are_one() {
    let world = World::new(UNTRUSTED);
    let id = SessionId(uuid::Uuid::nil());
    let (tx, mut events) = mpsc::channel(64);
    let mut bus = Bus::new(id, None, tx, Vec::new());
    let mut desk = Approvals::new(id, world.state(), world.top.join("a"), PastApprovals::default());
    let question = |script: &str| Ask::Approval {
        effect: Effect::Run {
            command: CommandLine::Argv { argv: vec![script.to_owned()] },
            cwd: world.top.clone(),
            network: Network::Off,
            escalate: None,
        },
        shown: script.to_owned(),
        asked_by: "main".to_owned(),
        rule: None,
        reason: "it asks".to_owned(),
        reach: Box::default(),
        remembers: String::new(),
        hunks: Vec::new(),
        scopes: vec![AnswerScope::Once],
    };
    let mut answers = Vec::new();
    for (call, script) in [("c1", "make"), ("c2", "make"), ("c3", "test"), ("c4", "make")] {
        let (tx, rx) = oneshot::channel();
        desk.ask(call.into(), question(script), tx, (&mut bus, true)).await;
        answers.push(rx);
    }
    desk.answer(AskId(1), allow(AnswerScope::Once), &mut bus).await;
    desk.answer(AskId(2), deny(None), &mut bus).await;
    let mut given = Vec::new();
    for answer in answers {
        given.push(answer.await.unwrap());
    }
    let yes = allow(AnswerScope::Once);
    assert_eq!(given, [yes.clone(), yes.clone(), deny(None), yes]);
    drop(bus);
    let mut said = Vec::new();
    while let Some(Event { call_id, msg, .. }) = events.recv().await {
        let call = call_id.map(|id| id.to_string()).unwrap_or_default();
        match msg {
            EventMsg::AskOpened { ask, .. } => said.push(format!("{call} opens {ask}")),
            EventMsg::AskAnswered { ask, .. } => said.push(format!("{call} answered by {ask}")),
            other => panic!("{other:?}"),
        }
    }
    let expected = [
        "c1 opens 1",
        "c3 opens 2",
        "c1 answered by 1",
        "c2 answered by 1",
        "c4 answered by 1",
        "c3 answered by 2",
    ];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_question_holds_all_there_is_to_know() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![run_outside("curl \u{202e}x \u{1b}[2J\nrm y")]]);
    let asked = front.turn(|_| deny(None)).await;
    let mut question = serde_json::to_value(&asked[0]).unwrap();
    question["effect"]["cwd"] = json!("[cwd]");
    question["effect"]["command"]["script"] = json!("[as it is]");
    let remembers = question["remembers"].as_str().unwrap();
    assert!(remembers.starts_with("curl ⟨U+202E⟩x ␛[2J\nrm y\nin "), "{remembers}");
    assert!(remembers.ends_with("/a, outside the sandbox"), "{remembers}");
    question["remembers"] = json!("[as it is]");
    let shown = serde_json::to_string_pretty(&question).unwrap();
    expect![[r#"
        {
          "kind": "approval",
          "effect": {
            "kind": "run",
            "command": {
              "kind": "shell",
              "program": "/bin/sh",
              "login": false,
              "script": "[as it is]"
            },
            "cwd": "[cwd]",
            "network": "off",
            "escalate": {
              "reason": "it needs the \u001b[2Jnetwork"
            }
          },
          "shown": "curl ⟨U+202E⟩x ␛[2J\nrm y",
          "asked_by": "main",
          "rule": null,
          "reason": "it wants to leave the sandbox: it needs the ␛[2Jnetwork",
          "reach": {
            "mode": "workspace-write",
            "level": "full",
            "outside": true,
            "roots": [],
            "network": "on"
          },
          "remembers": "[as it is]",
          "scopes": [
            "once",
            "session",
            "project",
            "always"
          ]
        }"#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn only_the_hunks_that_were_taken_are_applied() {
    let world = World::new(UNTRUSTED);
    std::fs::write(world.top.join("a/f"), "one\ntwo\nthree\nfour\nfive\nsix\n").unwrap();
    let text =
        "*** Update File: f\n@@\n-one\n+1\n two\n@@\n five\n-six\n+6\n*** Add File: g\n+new\n";
    let mut front = world.start(&[vec![patch(text)]]);
    let asked = front
        .turn(|question| {
            let Ask::Approval { hunks, .. } = question else { panic!("{question:?}") };
            assert_eq!(hunks.len(), 3);
            Answer::Approval {
                decision: ApprovalDecision::Allow,
                scope: AnswerScope::Always,
                hunks: Some(vec![hunks[1].id.clone()]),
                edited: None,
                note: Some("the first is wrong".to_owned()),
            }
        })
        .await;
    assert_eq!(asked.len(), 1);
    let changed = std::fs::read_to_string(world.top.join("a/f")).unwrap();
    assert_eq!(changed, "one\ntwo\nthree\nfour\nfive\n6\n");
    assert!(!world.top.join("a/g").exists());
    let told: String = serde_json::from_str(&front.outputs()[0]).unwrap();
    expect![[r#"
        The user allowed it and says: the first is wrong
        The user refused 2 hunks, which were not applied:
        *** Update File: f
        @@
        -one
        +1
         two
        *** Add File: g
        +new
    "#]]
    .assert_eq(told.split_once("\n\n").unwrap().1);
    // A part of a patch is never remembered.
    assert!(!lasting::approvals_path(&world.state()).exists());
    let scopes = front.events.iter().filter_map(|event| match &event.msg {
        EventMsg::AskAnswered { answer: Answer::Approval { scope, .. }, .. } => Some(*scope),
        _ => None,
    });
    assert_eq!(scopes.collect::<Vec<_>>(), [AnswerScope::Once]);
}

#[tokio::test]
async fn no_hunk_at_all_is_a_no() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![patch("*** Add File: g\n+new\n")]]);
    front
        .turn(|_| Answer::Approval {
            decision: ApprovalDecision::Allow,
            scope: AnswerScope::Once,
            hunks: Some(Vec::new()),
            edited: None,
            note: None,
        })
        .await;
    assert!(!world.top.join("a/g").exists());
    assert!(front.outputs()[0].contains("declined: the user took no part of it"));
}

#[tokio::test]
async fn a_changed_call_is_judged_anew_and_told() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make install")], vec![run("make install")]]);
    assert_eq!(front.turn(|_| allow_edited("make test")).await.len(), 1);
    assert_eq!(front.ran(), [("make test".to_owned(), true)]);
    let told = &front.outputs()[0];
    assert!(
        told.contains("The user changed this call before it ran. What ran is:\\nmake test"),
        "{told}"
    );
    // Neither the old nor the new command is remembered.
    assert_eq!(front.turn(|_| deny(None)).await.len(), 1);
}

#[tokio::test]
async fn a_change_that_needs_more_than_was_asked_is_asked() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    let out = json!({"cmd": "make", "sandbox_permissions": "require_escalated"}).to_string();
    let asked = front
        .turn(|question| match question {
            Ask::Approval { reach, .. } if reach.outside => deny(None),
            _ => edited(out.clone()),
        })
        .await;
    assert_eq!(asked.len(), 2);
    assert!(front.ran().is_empty());
}

#[tokio::test]
async fn a_change_to_nonsense_runs_nothing() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    front.turn(|_| edited("{\"cmd\":3}".to_owned())).await;
    assert!(front.ran().is_empty());
    assert!(front.outputs()[0].contains("as the user changed it: invalid arguments"));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_leaves_the_question_open() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    let wrong = [
        Answer::Text { text: "yes".to_owned() },
        Answer::Approval {
            decision: ApprovalDecision::Allow,
            scope: AnswerScope::Once,
            hunks: Some(vec![HunkId::from("1.1")]),
            edited: None,
            note: None,
        },
    ];
    let input = vec![UserInput::Text { text: "go".to_owned() }];
    let op = Op::UserTurn { input, overrides: Default::default(), when: When::Now };
    front.handle.submit(op).unwrap();
    loop {
        let event = front.handle.next_event().await.unwrap();
        front.events.push(event.clone());
        match event.msg {
            EventMsg::AskOpened { ask, .. } => {
                let answers = wrong.iter().cloned().chain([allow(AnswerScope::Once)]);
                for answer in answers {
                    front.handle.submit(Op::Answer { ask, answer }).unwrap();
                }
            }
            EventMsg::TurnEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!(front.ran().len(), 1);
    let warnings = front.warnings();
    let misfits: Vec<_> = warnings.iter().filter(|text| text.contains("does not fit")).collect();
    assert_eq!(
        misfits,
        [
            "the answer does not fit its question: it is of another kind",
            "the answer does not fit its question: there is no hunk 1.1",
        ]
    );
}

#[tokio::test]
async fn what_the_sandbox_stopped_may_run_once_outside() {
    let world = World::new("approval_policy = \"on-failure\"");
    let mut front = world.start(&[vec![run("stopped")], vec![run("stopped")]]);
    let allow_outside = |question: &Ask| match question {
        Ask::Approval { reason, scopes, .. } => {
            assert_eq!(
                reason,
                "the sandbox stopped the command; it would run again without it; it printed: cannot touch 'x': Permission denied"
            );
            assert_eq!(scopes.len(), 4);
            allow(AnswerScope::Session)
        }
        other => panic!("{other:?}"),
    };
    front.turn(allow_outside).await;
    assert_eq!(front.ran(), [("stopped".to_owned(), true), ("stopped".to_owned(), false)]);
    assert!(front.outputs()[0].contains("it ran"), "{:?}", front.outputs());
    assert!(front.outputs()[0].contains("outside the sandbox, which the user allowed"));
    front.turn(nobody).await;
    assert_eq!(front.ran().len(), 4);
}

#[tokio::test]
async fn a_refused_second_run_leaves_the_first_ones_output() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("stopped")]]);
    let asked = front
        .turn(|question| match question {
            Ask::Approval { reach, .. } if reach.outside => deny(Some("use the workspace")),
            _ => allow(AnswerScope::Once),
        })
        .await;
    assert_eq!(asked.len(), 2);
    assert_eq!(front.ran().len(), 1);
    let told = &front.outputs()[0];
    assert!(told.contains("Permission denied"), "{told}");
    assert!(
        told.contains(
            "outside the sandbox was declined: the user said no, and says: use the workspace."
        ),
        "{told}"
    );
}

#[tokio::test]
async fn nobody_there_is_a_no_that_the_model_hears() {
    let mut world = World::new("approval_policy = \"on-request\"");
    world.interactive = false;
    let mut front = world.start(&[vec![run_outside("make")]]);
    front.turn(|_| allow(AnswerScope::Always)).await;
    assert!(front.ran().is_empty());
    assert!(front.outputs()[0].contains("nobody is here to be asked"), "{:?}", front.outputs());
    assert!(front.events.iter().any(|event| matches!(
        event.msg,
        EventMsg::AskAnswered { answer: Answer::Declined { .. }, .. }
    )));
}

#[tokio::test]
async fn a_grant_also_holds_where_nobody_is() {
    let mut world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![run_outside("make")]]);
    front.turn(|_| allow(AnswerScope::Project)).await;
    front.end().await;
    world.interactive = false;
    let mut alone = world.start(&[vec![run_outside("make")], vec![run("make")]]);
    alone.turn(nobody).await;
    assert_eq!(alone.ran(), [("make".to_owned(), false)]);
    // What was allowed outside says nothing of a run inside, which needs no word here.
    alone.turn(nobody).await;
    assert_eq!(alone.grants_applied(), [AnswerScope::Project]);
}

#[tokio::test]
async fn never_means_never_whatever_was_granted() {
    let mut world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![run_outside("make")]]);
    front.turn(|_| allow(AnswerScope::Always)).await;
    front.end().await;
    world.settings = world.settings.replace("on-request", "never");
    let mut strict = world.start(&[vec![run_outside("make")]]);
    strict.turn(nobody).await;
    assert!(strict.ran().is_empty());
    assert!(strict.outputs()[0].contains("declined"), "{:?}", strict.outputs());
}

#[tokio::test]
async fn a_refusal_by_policy_beats_every_grant() {
    let world = World::new("approval_policy = \"on-request\"");
    let secret = world.top.join("home/.ssh/config");
    let write = patch(&format!("*** Add File: {}\n+x\n", secret.display()));
    let key = crate::protocol::GrantKey::Files {
        mode: crate::protocol::SandboxMode::WorkspaceWrite,
        written: vec![secret.clone()],
        deleted: Vec::new(),
    };
    let grant = crate::protocol::Grant {
        id: "0".to_owned(),
        scope: AnswerScope::Always,
        project: None,
        key,
        at: String::new(),
        session: SessionId(uuid::Uuid::nil()),
        rule: None,
    };
    lasting::add(&world.state(), grant).unwrap();
    let mut front = world.start(&[vec![write]]);
    front.turn(nobody).await;
    assert!(!secret.exists());
    assert!(front.grants_applied().is_empty());
    assert!(front.outputs()[0].contains("hidden by deny_read"), "{:?}", front.outputs());
}

#[tokio::test]
async fn a_rule_that_asks_asks_again_whatever_was_granted_before() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")], vec![run("make")]]);
    front.turn(|_| allow(AnswerScope::Always)).await;
    front.turn(nobody).await;
    front.end().await;
    let rules = world.top.join("home/gimlet/rules.toml");
    std::fs::write(&rules, "[[rule]]\naction = \"ask\"\nprogram = \"make\"\n").unwrap();
    let mut ruled = world.start(&[vec![run("make")], vec![run("make")]]);
    assert_eq!(ruled.turn(|_| allow(AnswerScope::Always)).await.len(), 1);
    ruled.turn(nobody).await;
    ruled.end().await;
    // And what the rule had asked holds without it.
    std::fs::remove_file(&rules).unwrap();
    let mut front = world.start(&[vec![run("make")]]);
    front.turn(nobody).await;
}

#[tokio::test]
async fn damaged_approvals_allow_nothing_and_are_said_once() {
    let world = World::new(UNTRUSTED);
    crate::store::atomic::write_private(&lasting::approvals_path(&world.state()), b"{").unwrap();
    let mut front = world.start(&[vec![run("make")], vec![run("make")], vec![run("deploy")]]);
    assert_eq!(front.turn(|_| allow(AnswerScope::Always)).await.len(), 1);
    // It could not be kept for good, so it holds for the session.
    front.turn(nobody).await;
    assert_eq!(front.turn(|_| deny(None)).await.len(), 1);
    let warnings = front.warnings();
    let said: Vec<_> = warnings.iter().filter(|text| text.contains("approvals.json")).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].ends_with("it holds for this session alone"), "{said:?}");
    assert_eq!(std::fs::read(lasting::approvals_path(&world.state())).unwrap(), b"{");
}

#[tokio::test]
async fn what_is_said_while_a_turn_runs_joins_it() {
    let world = World::new(UNTRUSTED);
    let mut front = world.start(&[vec![run("make")]]);
    let say = |text: &str, when| Op::UserTurn {
        input: vec![UserInput::Text { text: text.to_owned() }],
        overrides: Default::default(),
        when,
    };
    front.handle.submit(say("go", When::Now)).unwrap();
    let mut told = Vec::new();
    loop {
        let event = front.handle.next_event().await.unwrap();
        match event.msg {
            EventMsg::AskOpened { ask, .. } => {
                front.handle.submit(say("mind the README", When::Now)).unwrap();
                front.handle.submit(say("later", When::Queued)).unwrap();
                let answer = allow(AnswerScope::Once);
                front.handle.submit(Op::Answer { ask, answer }).unwrap();
            }
            EventMsg::TurnStarted { input, .. } => told.push(format!("turn {input:?}")),
            EventMsg::Steered { input } => told.push(format!("steered {input:?}")),
            EventMsg::RequestStarted { step, .. } => told.push(format!("request {step}")),
            EventMsg::TurnEnded { .. } if told.len() > 4 => break,
            _ => {}
        }
    }
    let text = |text: &str| format!("[Text {{ text: {text:?} }}]");
    let (go, mind, later) = (text("go"), text("mind the README"), text("later"));
    let expected =
        [format!("turn {go}"), "request 1".into(), format!("steered {mind}"), "request 2".into()];
    assert_eq!(told[..4], expected);
    assert_eq!(told[4], format!("turn {later}"));
}
