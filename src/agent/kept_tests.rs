//! Whole sessions with commands that outlive their calls: what is asked, told and ended.
//!
//! The commands are fakes that end when a test says so, and whose attempts to reach hosts the
//! test makes; session, tools and policy are real.

use serde_json::{Value, json};

use crate::agent::approvals_tests::{Front, World, allow, deny, nobody};
use crate::protocol::{Answer, AnswerScope, Ask, DecisionAction, EventMsg, Op, StopCause};
use crate::sandbox::{Verdict, Wanted};

/// A call that keeps its command: it runs until a test ends it.
fn keep(cmd: &str) -> Value {
    let arguments = json!({"cmd": cmd, "stdin": true, "yield_time_ms": 250});
    json!({"call": {"name": "exec_command", "arguments": arguments}})
}

fn keep_outside(cmd: &str) -> Value {
    let arguments = json!({"cmd": cmd, "stdin": true, "yield_time_ms": 250, "sandbox_permissions": "require_escalated", "justification": "it must"});
    json!({"call": {"name": "exec_command", "arguments": arguments}})
}

fn write(id: u32, chars: &str) -> Value {
    let arguments = json!({"session_id": id, "chars": chars, "yield_time_ms": 250});
    json!({"call": {"name": "write_stdin", "arguments": arguments}})
}

fn world_with_rules(rules: &str) -> World {
    let world = World::new("approval_policy = \"on-request\"");
    std::fs::write(world.top.join("home/gimlet/rules.toml"), rules).unwrap();
    world
}

const NO_TOUCH: &str = "[[rule]]\naction = \"deny\"\nprogram = \"touch\"\n";

#[tokio::test]
async fn a_denied_program_is_denied_when_it_is_typed() {
    let world = world_with_rules(NO_TOUCH);
    let calls = [
        vec![keep("bash")],
        vec![write(1, "ls\n")],
        vec![write(1, "to")],
        vec![write(1, "uch b\n")],
    ];
    let mut front = world.start(&calls);
    for _ in 0..calls.len() {
        front.turn(nobody).await;
    }
    assert!(front.outputs()[3].contains("denies it"), "{:?}", front.outputs());
    assert_eq!(front.runner.typed(), "ls\nto");
    front.end().await;
}

#[tokio::test]
async fn two_halves_at_once_are_one_command() {
    let world = world_with_rules(NO_TOUCH);
    let mut front = world.start(&[vec![keep("bash")], vec![write(1, "to"), write(1, "uch b\n")]]);
    front.turn(nobody).await;
    front.turn(nobody).await;
    assert_eq!(front.runner.typed(), "to");
    front.end().await;
}

#[tokio::test]
async fn what_is_typed_into_another_program_is_asked_where_programs_are_denied() {
    let world = world_with_rules(NO_TOUCH);
    let mut front =
        world.start(&[vec![keep("python3")], vec![write(1, "1+1\n"), write(1, "\u{3}")]]);
    front.turn(nobody).await;
    let asked = front.turn(|_| deny(None)).await;
    let [Ask::Approval { shown, rule, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(shown, "input to command 1: 1+1\n\nit goes to: python3");
    assert_eq!(rule.as_deref(), Some("your rules.toml:1"));
    assert_eq!(front.runner.typed(), "");
    front.end().await;
}

#[tokio::test]
async fn a_question_about_input_tells_what_its_command_reaches() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![keep_outside("python3")], vec![write(1, "1+1\n")]]);
    assert_eq!(front.turn(|_| allow(AnswerScope::Once)).await.len(), 1);
    let asked = front.turn(|_| deny(None)).await;
    let [Ask::Approval { shown, reach, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(reach.outside && reach.roots.is_empty(), "{reach:?}");
    assert!(shown.ends_with("it goes to: python3"), "{shown}");
    front.end().await;
}

#[tokio::test]
async fn nothing_is_typed_after_the_end_of_input() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front =
        world.start(&[vec![keep("cat")], vec![write(1, "a\u{4}")], vec![write(1, "b\n")]]);
    for _ in 0..3 {
        front.turn(nobody).await;
    }
    assert!(front.outputs()[2].contains("reads nothing more"), "{:?}", front.outputs());
    front.end().await;
}

#[tokio::test]
async fn a_connection_between_calls_is_told_when_it_is_made() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![keep("server")]]);
    front.turn(nobody).await;
    let line = front.runner.next_line().await;
    assert!(line.tell("a.test:80", Verdict::Allowed).await);
    let event = front.handle.next_event().await.unwrap();
    assert_eq!(event.msg, EventMsg::NetworkAttempt { host: "a.test:80".to_owned(), allowed: true });
    assert_eq!(event.call_id, Some("call_1_1".into()));
    front.end().await;
}

/// Runs a turn whose command asks for a host, and returns whether it was let through.
async fn ask_for_host(front: &mut Front, answer: impl FnMut(&Ask) -> Answer) -> bool {
    let runner = std::sync::Arc::clone(&front.runner);
    let asking = async {
        let line = runner.next_line().await;
        let decision = line.judge(Wanted { host: "x.test:443", is_listed: false });
        assert_eq!(decision.action, DecisionAction::Ask);
        let allowed = line.ask("x.test:443", decision).await;
        runner.end_all();
        allowed
    };
    tokio::join!(front.turn(answer), asking).1
}

#[tokio::test]
async fn a_host_is_asked_for_by_the_call_that_waits() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![keep("fetch")]]);
    assert!(ask_for_host(&mut front, |_| allow(AnswerScope::Once)).await);
    front.end().await;
}

#[tokio::test]
async fn a_question_is_withdrawn_when_nobody_waits_for_its_answer() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![keep("fetch")]]);
    front.submit_turn();
    let line = front.runner.next_line().await;
    let decision = line.judge(Wanted { host: "x.test:443", is_listed: false });
    let asked = tokio::spawn(async move { line.ask("x.test:443", decision).await });
    let mut answered = None;
    loop {
        let event = front.handle.next_event().await.unwrap();
        match event.msg {
            // The command ends while the user still thinks.
            EventMsg::AskOpened { .. } => front.runner.end_all(),
            EventMsg::AskAnswered { answer, .. } => answered = Some(answer),
            EventMsg::TurnEnded { .. } => break,
            _ => {}
        }
    }
    let reason = "what asked has ended meanwhile".to_owned();
    assert_eq!(answered, Some(Answer::Declined { reason }));
    assert!(!asked.await.unwrap());
    front.end().await;
}

#[tokio::test]
async fn an_interrupt_ends_what_its_turn_started_and_nothing_else() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front =
        world.start(&[vec![keep("first")], vec![keep("second"), json!({"end": {}}), write(2, "")]]);
    front.turn(nobody).await;
    front.submit_turn();
    let mut ended = Vec::new();
    loop {
        let event = front.handle.next_event().await.unwrap();
        match event.msg {
            EventMsg::ProcessStarted { .. } => {
                front.handle.submit(Op::Interrupt { cause: StopCause::User }).unwrap();
            }
            EventMsg::ProcessEnded { process, .. } => ended.push(process.0),
            EventMsg::TurnEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!(ended, [2]);
    assert_eq!(front.runner.running(), ["first"]);
    front.end().await;
}

#[tokio::test]
async fn an_interrupted_wait_loses_no_output() {
    let world = World::new("approval_policy = \"on-request\"");
    let mut front = world.start(&[vec![keep("talker")], vec![write(1, "")], vec![write(1, "")]]);
    front.turn(nobody).await;
    front.submit_turn();
    loop {
        let event = front.handle.next_event().await.unwrap();
        match event.msg {
            EventMsg::ToolCallBegin { .. } => front.runner.print("unheard words\n").await,
            EventMsg::ToolCallDelta { .. } => {
                front.handle.submit(Op::Interrupt { cause: StopCause::User }).unwrap();
            }
            EventMsg::TurnEnded { .. } => break,
            _ => {}
        }
    }
    // The first answers what the interrupted turn had still to ask.
    front.turn(nobody).await;
    front.turn(nobody).await;
    let last = front.outputs().pop().unwrap();
    assert!(last.contains("unheard words"), "{last}");
    front.end().await;
}
