//! Thread events from recorded events, and what must hold of them whatever comes in.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::frontend::exec::json_line::encode_line;
use crate::frontend::exec::outlet::Printed;
use crate::frontend::exec::run::Run;
use crate::frontend::exec::schema::load_schema;
use crate::frontend::exec::thread_events::ThreadEvents;
use crate::frontend::exec::{Color, ExecOptions, ExecOutcome, ExecOutput};
use crate::protocol::{ErrorKind, Event, EventMsg, Op, StopCause, TurnOutcome, UserInput};

/// Reads a line of `events.jsonl`: an event's `msg`, with `call_id` and `at` beside it.
fn parse_event(line: &str) -> Event {
    let Value::Object(mut msg) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
    let at = msg.remove("at").unwrap_or_else(|| json!("2026-11-21T10:00:00.000Z"));
    let call_id = msg.remove("call_id").unwrap_or(Value::Null);
    serde_json::from_value(json!({
        "v": 1, "seq": 1, "prev_hash": "", "at": at, "turn": 1, "call_id": call_id, "msg": msg,
        "session": "01a1fd0d-043f-7c81-b79a-636f3f116ff1",
    }))
    .unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Every item that starts is completed exactly once, and no id is used for two.
fn assert_well_formed(lines: &[Value]) {
    let mut states: HashMap<String, &str> = HashMap::new();
    for line in lines {
        let Some(id) = line.pointer("/item/id").and_then(Value::as_str) else { continue };
        let state = line["type"].as_str().unwrap();
        let allowed = match (states.get(id).copied(), state) {
            (None, "item.started" | "item.completed") => true,
            (Some(before), "item.updated" | "item.completed") => before != "item.completed",
            _ => false,
        };
        assert!(allowed, "{line}");
        states.insert(id.to_owned(), state);
    }
    for (id, state) in states {
        assert_eq!(state, "item.completed", "{id}");
    }
}

/// Each case: `events.jsonl` in, the lines of `--json` out.
#[test]
fn fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thread_events");
    let mut cases = 0;
    for case in fs::read_dir(&root).unwrap() {
        let case = case.unwrap().path();
        let mut state = ThreadEvents::default();
        let events = fs::read_to_string(case.join("events.jsonl")).unwrap();
        let mut lines: Vec<Value> =
            events.lines().flat_map(|line| state.translate(&parse_event(line))).collect();
        if !events.lines().any(|line| line.contains(r#""type":"turn_ended""#)) {
            lines.extend(state.finish("the session ended unexpectedly"));
        }
        assert_well_formed(&lines);
        let text: String = lines.iter().map(encode_line).collect();
        expect_file![case.join("expected.jsonl")].assert_eq(&text);
        cases += 1;
    }
    assert!(cases >= 15, "the fixtures are gone: {cases}");
}

#[test]
fn long_output_is_bounded_and_updates_cost_what_it_costs() {
    let mut state = ThreadEvents::default();
    state.translate(&parse_event(
        r#"{"type":"tool_call_begin","call_id":"c","call":{"call_id":"c","name":"shell","payload":{"kind":"function","arguments":"{}"}},"effect":{"kind":"run","command":{"kind":"argv","argv":["yes"]},"cwd":"/w","network":"off"}}"#,
    ));
    let mut update_bytes = 0;
    let chunk = "é".repeat(500);
    for _ in 0..5_000 {
        let event = json!({"type":"tool_call_delta","call_id":"c","stream":"output","text":chunk});
        for line in state.translate(&parse_event(&event.to_string())) {
            update_bytes += line.to_string().len();
        }
    }
    assert!(update_bytes < 2 * 5_000 * chunk.len(), "{update_bytes}");
    let end = r#"{"type":"tool_call_end","call_id":"c","tool":"shell","outcome":"completed","output":{"content":[],"success":true,"exit_code":0},"duration_ms":1}"#;
    let lines = state.translate(&parse_event(end));
    let output = lines[0]["item"]["aggregated_output"].as_str().unwrap();
    assert!(output.len() < 1024 * 1024 + 100, "{}", output.len());
    assert!(output.contains("[3951424 bytes omitted]"), "{}", output.len());
}

fn options(output: ExecOutput) -> ExecOptions {
    ExecOptions {
        input: vec![UserInput::Text { text: "hi".to_owned() }],
        output,
        color: Color::Never,
        schema: None,
        last_message_file: None,
        go_on: Some("gimlet exec resume --last"),
    }
}

/// A run over recorded events: what it printed, what it asked for, how it ended.
struct Played {
    stdout: String,
    stderr: String,
    ops: VecDeque<Op>,
    outcome: ExecOutcome,
}

fn play(options: ExecOptions, events: &[Event], signals: &[StopCause]) -> Played {
    let mut run = Run::new(options, false);
    let mut ops = VecDeque::new();
    for cause in signals {
        run.interrupt(*cause, &mut ops);
    }
    for event in events {
        run.take(event, &mut ops);
    }
    run.end();
    let Printed { stderr, stdout } = run.take_printed();
    let (outcome, last_words) = run.finish(None);
    Played { stdout, stderr: stderr + &last_words.stderr, ops, outcome }
}

/// As `play`, with the beginning of a turn before the events.
fn play_turn(options: ExecOptions, events: &[Event], signals: &[StopCause]) -> Played {
    let events: Vec<Event> = [begun()].into_iter().chain(events.iter().cloned()).collect();
    play(options, &events, signals)
}

/// The same events as a person sees them: `expected.txt` has stderr, then stdout after `--`.
#[test]
fn text_fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/thread_events");
    for case in fs::read_dir(&root).unwrap() {
        let case = case.unwrap().path();
        let events = fs::read_to_string(case.join("events.jsonl")).unwrap();
        let events: Vec<Event> = events.lines().map(parse_event).collect();
        let played = play(options(ExecOutput::Human), &events, &[]);
        let text = format!("{}--\n{}", played.stderr, played.stdout);
        assert!(!text.contains('\u{1b}'), "{text}");
        expect_file![case.join("expected.txt")].assert_eq(&text);
    }
}

fn begun() -> Event {
    parse_event(
        r#"{"type":"turn_started","input":[],"model":"m","approval":"on-request","sandbox":{"mode":"workspace-write","roots":["/w"],"network":"off","deny_read":[],"git":"ask","tmp":true}}"#,
    )
}

fn ended(message: &str) -> Event {
    let event = json!({
        "type": "turn_ended", "outcome": {"kind": "completed"}, "usage": {}, "steps": 1,
        "duration_ms": 1, "last_message": message,
    });
    parse_event(&event.to_string())
}

fn stopped() -> Event {
    let mut event = ended("half");
    if let EventMsg::TurnEnded { outcome, .. } = &mut event.msg {
        *outcome = TurnOutcome::Interrupted { cause: StopCause::User };
    }
    event
}

#[test]
fn a_wrong_answer_is_asked_for_again_and_then_fails() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("schema.json");
    fs::write(&file, r#"{"type":"object","required":["n"]}"#).unwrap();
    let schema = || Some(load_schema(&file).unwrap());
    for output in [ExecOutput::Human, ExecOutput::ThreadEvents] {
        let wrong = [ended("{}"), ended("no"), ended("[]")];
        let played = play_turn(ExecOptions { schema: schema(), ..options(output) }, &wrong, &[]);
        let asked = played.ops.iter().filter(|op| matches!(op, Op::UserTurn { .. })).count();
        assert_eq!((asked, played.ops.back()), (2, Some(&Op::Shutdown)));
        let TurnOutcome::Failed { error, .. } = played.outcome.outcome else { panic!() };
        assert_eq!(error, ErrorKind::Schema);

        let mended = [ended("{}"), ended(r#"{"n":1}"#)];
        let played = play_turn(ExecOptions { schema: schema(), ..options(output) }, &mended, &[]);
        assert_eq!(played.outcome.outcome, TurnOutcome::Completed);
        assert_eq!(played.outcome.last_message.as_deref(), Some(r#"{"n":1}"#));
        if output == ExecOutput::Human {
            assert_eq!(played.stdout, "{\"n\":1}\n");
        }
    }
}

#[test]
fn the_file_is_written_on_success_only() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("out.txt");
    let with_file = || ExecOptions {
        last_message_file: Some(file.clone()),
        ..options(ExecOutput::ThreadEvents)
    };
    play_turn(with_file(), &[ended("done")], &[]);
    play_turn(with_file(), &[stopped()], &[StopCause::Interrupt]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "done");

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let played = play_turn(with_file(), &[ended("done")], &[]);
    assert!(played.stdout.contains("turn.failed") && !played.stdout.contains("turn.completed"));
    assert!(played.stderr.starts_with("error: cannot write "), "{}", played.stderr);
}

#[test]
fn a_signal_is_the_cause_and_a_second_one_stops_at_once() {
    let played =
        play_turn(options(ExecOutput::ThreadEvents), &[stopped()], &[StopCause::Terminate]);
    let cause = StopCause::Terminate;
    assert_eq!(played.outcome.outcome, TurnOutcome::Interrupted { cause });
    assert!(
        played
            .stdout
            .ends_with("{\"type\":\"turn.failed\",\"error\":{\"message\":\"interrupted\"}}\n")
    );
    assert_eq!(played.ops, [Op::Interrupt { cause }, Op::Shutdown]);

    let mut run = Run::new(options(ExecOutput::Human), false);
    let mut ops = VecDeque::new();
    assert!(run.interrupt(StopCause::Interrupt, &mut ops));
    assert!(!run.interrupt(StopCause::Interrupt, &mut ops));
}

#[test]
fn a_closed_stdout_stops_the_turn_and_says_so_once() {
    let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let mut run = Run::new(options(ExecOutput::ThreadEvents), false);
    let mut ops = VecDeque::new();
    run.take(&begun(), &mut ops);
    run.lose_stdout(&mut ops);
    run.lose_stdout(&mut ops);
    assert_eq!(ops, [Op::Interrupt { cause: StopCause::User }]);
    run.take(&stopped(), &mut ops);
    assert_eq!(run.take_printed().stderr, "");
    let (_, last_words) = run.finish(Some(&closed));
    let said = "error: nobody reads stdout any more, so the work was stopped\n  hint: it goes on with gimlet exec resume --last\n";
    assert_eq!(last_words.stderr, said);
}

#[test]
fn a_wrong_answer_is_not_mended_for_a_closed_stdout() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("schema.json");
    fs::write(&file, r#"{"type":"object"}"#).unwrap();
    let schema = Some(load_schema(&file).unwrap());
    let mut run = Run::new(ExecOptions { schema, ..options(ExecOutput::Human) }, false);
    let mut ops = VecDeque::new();
    run.take(&begun(), &mut ops);
    run.lose_stdout(&mut ops);
    run.take(&ended("no"), &mut ops);
    assert_eq!(ops, [Op::Interrupt { cause: StopCause::User }, Op::Shutdown]);
}

#[test]
fn a_stdout_that_is_closed_after_the_end_fails_nothing() {
    let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let mut run = Run::new(options(ExecOutput::Human), false);
    let mut ops = VecDeque::new();
    run.take(&begun(), &mut ops);
    run.take(&ended("done"), &mut ops);
    run.lose_stdout(&mut ops);
    let (outcome, last_words) = run.finish(Some(&closed));
    assert_eq!((outcome.outcome, last_words), (TurnOutcome::Completed, Printed::default()));
}

#[test]
fn output_that_stays_unread_after_a_signal_is_an_interruption() {
    let mut run = Run::new(options(ExecOutput::Human), false);
    let mut ops = VecDeque::new();
    run.take(&begun(), &mut ops);
    run.take(&ended("done"), &mut ops);
    run.interrupt(StopCause::Terminate, &mut ops);
    run.leave_unread();
    let outcome = run.finish(None).0.outcome;
    assert_eq!(outcome, TurnOutcome::Interrupted { cause: StopCause::Terminate });
}

/// The next process says how the turn of a dead one ended, before it begins its own.
#[test]
fn the_end_of_an_earlier_turn_is_not_the_end() {
    let mut earlier = ended("");
    if let EventMsg::TurnEnded { outcome, .. } = &mut earlier.msg {
        *outcome = TurnOutcome::Interrupted { cause: StopCause::Crash };
    }
    for (output, lines) in
        [(ExecOutput::Human, 1), (ExecOutput::ThreadEvents, 2), (ExecOutput::Events, 3)]
    {
        let played = play(options(output), &[earlier.clone(), begun(), ended("done")], &[]);
        assert_eq!(played.outcome.outcome, TurnOutcome::Completed, "{output:?}");
        assert_eq!(played.ops, [Op::Shutdown], "{output:?}");
        assert_eq!(played.stdout.lines().count(), lines, "{output:?}: {}", played.stdout);
        assert!(!played.stderr.contains("error"), "{output:?}: {}", played.stderr);
    }
}

#[test]
fn an_answer_is_asked_for_again_with_its_schema() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("schema.json");
    fs::write(&file, r#"{"type":"object","required":["n"]}"#).unwrap();
    let schema = load_schema(&file).unwrap();
    let value = schema.value().clone();
    let options = ExecOptions { schema: Some(schema), ..options(ExecOutput::Human) };
    let played = play_turn(options, &[ended("{}")], &[]);
    let Some(Op::UserTurn { overrides, .. }) = played.ops.front() else { panic!() };
    assert_eq!(overrides.output_schema.as_ref(), Some(&value));
}

#[test]
fn odd_characters_leave_escaped() {
    let answer = json!({
        "type": "item_completed",
        "item": {"type": "message", "role": "assistant",
                 "content": [{"type": "output_text", "text": "a\u{9b}2J\u{202e}"}]},
    });
    for output in [ExecOutput::ThreadEvents, ExecOutput::Events] {
        let played = play_turn(options(output), &[parse_event(&answer.to_string())], &[]);
        assert!(played.stdout.contains("a\\u009b2J\\u202e"), "{}", played.stdout);
    }
}

#[test]
fn warnings_about_the_surroundings_are_no_items() {
    let warning = |kind: &str| {
        let msg = json!({"type": "warning", "kind": kind, "message": "odd", "hint": "do it"});
        parse_event(&msg.to_string())
    };
    for kind in ["sandbox", "config"] {
        let played = play_turn(options(ExecOutput::ThreadEvents), &[warning(kind), ended("")], &[]);
        assert!(!played.stdout.contains("odd"), "{kind}: {}", played.stdout);
        assert_eq!(played.stderr, "  ! odd\n    do it\n", "{kind}");
    }
    let played = play_turn(options(ExecOutput::ThreadEvents), &[warning("retry")], &[]);
    assert!(played.stdout.contains(r#""type":"error","message":"odd (do it)""#));
}

#[test]
fn a_run_that_never_starts_fails_in_json_too() {
    let lines = crate::frontend::exec::render_start_failure("no key");
    let types: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert_eq!(types[0], json!({"type": "error", "message": "no key"}));
    assert_eq!(types[1], json!({"type": "turn.failed", "error": {"message": "no key"}}));
}

#[test]
fn questions_are_declined() {
    let ask = json!({
        "type": "ask_opened", "ask": 7,
        "question": {"kind": "question", "question": "?", "options": []},
    });
    let played = play(options(ExecOutput::Events), &[parse_event(&ask.to_string())], &[]);
    assert!(matches!(played.ops.front(), Some(Op::Answer { .. })));
    assert_eq!(played.stdout.lines().count(), 1);
}
