//! Well-formed conversations out of any list of items, and `fold(log) == conversation`.

use std::fs;
use std::path::Path;

use expect_test::expect_file;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::conversation::{CallIdNote, Conversation, build_output};
use crate::protocol::{EventMsg, OutputBody, ResponseItem};

/// Each case: `items.jsonl` in, what the model is shown out.
#[test]
fn fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conversation");
    let mut cases = 0;
    for case in fs::read_dir(&root).unwrap() {
        let case = case.unwrap().path();
        let mut conversation = Conversation::default();
        for line in fs::read_to_string(case.join("items.jsonl")).unwrap().lines() {
            let mut item = serde_json::from_str(line).unwrap();
            if case.join("normalise").exists() {
                conversation.normalise_call(&mut item);
            }
            conversation.push(item);
        }
        let shown: String =
            conversation.for_model().iter().map(|entry| format!("{}\n", entry.json)).collect();
        expect_file![case.join("expected.jsonl")].assert_eq(&shown);
        cases += 1;
    }
    assert!(cases >= 5, "the fixtures are gone: {cases}");
}

fn item(value: Value) -> ResponseItem {
    serde_json::from_value(value).unwrap()
}

fn call(id: &str) -> ResponseItem {
    item(json!({"type":"function_call","call_id":id,"name":"shell","arguments":"{}"}))
}

fn output(id: &str) -> ResponseItem {
    item(json!({"type":"function_call_output","call_id":id,"output":"done"}))
}

#[test]
fn open_calls_are_answered_in_their_own_kind() {
    let mut conversation = Conversation::default();
    conversation.push(call("a"));
    conversation.push(item(
        json!({"type":"custom_tool_call","call_id":"b","name":"apply_patch","input":"x"}),
    ));
    conversation
        .push(item(json!({"type":"local_shell_call","call_id":"c","action":{"command":["ls"]}})));
    conversation.push(output("a"));
    let body = || OutputBody::Text("interrupted".to_owned());
    let open = conversation.open_calls().into_iter();
    let answers: Vec<_> = open.filter_map(|call| build_output(call, body())).collect();
    let answers: Vec<Value> =
        answers.iter().map(|answer| serde_json::to_value(answer).unwrap()).collect();
    assert_eq!(
        answers,
        [
            json!({"type":"custom_tool_call_output","call_id":"b","output":"interrupted"}),
            json!({"type":"function_call_output","call_id":"c","output":"interrupted"}),
        ]
    );
}

#[test]
fn ids_are_kept_given_or_replaced() {
    let mut conversation = Conversation::default();
    let mut first = call("a");
    assert_eq!(conversation.normalise_call(&mut first), CallIdNote::Kept);
    conversation.push(first);
    let mut again = call("a");
    assert_eq!(conversation.normalise_call(&mut again), CallIdNote::Duplicate("a".into()));
    assert_ne!(again.call_id().unwrap().as_str(), "a");
    conversation.push(again);
    let mut nameless = call("");
    assert_eq!(conversation.normalise_call(&mut nameless), CallIdNote::Given);
    conversation.push(nameless);
    let mut old = item(json!({"type":"local_shell_call","id":"lsh_1","action":{"command":["ls"]}}));
    assert_eq!(conversation.normalise_call(&mut old), CallIdNote::Given);
    assert_eq!(old.call_id().unwrap().as_str(), "lsh_1");
    conversation.push(old);
    assert_eq!(conversation.call_ids.len(), 4);
}

#[test]
fn an_id_from_before_a_summary_is_not_used_again() {
    let mut conversation = Conversation::default();
    conversation.push(call("a"));
    conversation.replace(vec![ResponseItem::user_text("summary")]);
    let mut again = call("a");
    assert_eq!(conversation.normalise_call(&mut again), CallIdNote::Duplicate("a".into()));
}

fn any_item() -> impl Strategy<Value = ResponseItem> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_gimlet_1")];
    (0..5, id).prop_map(|(kind, id)| match kind {
        0 => call(id),
        1 => output(id),
        2 => item(json!({"type":"custom_tool_call","call_id":id,"name":"p","input":""})),
        3 => item(json!({"type":"hologram","call_id":id})),
        _ => ResponseItem::user_text(id),
    })
}

fn any_event() -> impl Strategy<Value = EventMsg> {
    let compacted = prop::collection::vec(any_item(), 0..3).prop_map(|replacement| {
        EventMsg::Compacted { replacement, cause: String::new(), tokens_before: 2, tokens_after: 1 }
    });
    prop_oneof![
        8 => any_item().prop_map(|item| EventMsg::ItemCompleted { item }),
        1 => compacted,
        1 => Just(EventMsg::PlanUpdated { explanation: None, steps: Vec::new() }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_pushed_the_model_sees_each_call_answered_once(
        items in prop::collection::vec(any_item(), 0..12),
    ) {
        let mut conversation = Conversation::default();
        for item in items {
            conversation.push(item);
        }
        let shown = conversation.for_model();
        for entry in &shown {
            let Some(id) = entry.item.call_id().or(entry.item.answers()) else { continue };
            let calls = shown.iter().filter(|other| other.item.call_id() == Some(id));
            let outputs = shown.iter().filter(|other| other.item.answers() == Some(id));
            prop_assert_eq!((calls.count(), outputs.count()), (1, 1));
        }
    }

    #[test]
    fn normalised_calls_are_all_shown(items in prop::collection::vec(any_item(), 0..12)) {
        let mut conversation = Conversation::default();
        let mut calls = 0;
        for mut item in items {
            conversation.normalise_call(&mut item);
            calls += usize::from(item.call_id().is_some());
            conversation.push(item);
        }
        let shown = conversation.for_model();
        prop_assert_eq!(shown.iter().filter(|entry| entry.item.call_id().is_some()).count(), calls);
    }

    #[test]
    fn the_folded_log_is_the_conversation(log in prop::collection::vec(any_event(), 0..16)) {
        let mut live = Conversation::default();
        for event in &log {
            match event {
                EventMsg::ItemCompleted { item } => {
                    live.push(item.clone());
                }
                EventMsg::Compacted { replacement, .. } => live.replace(replacement.clone()),
                _ => {}
            }
        }
        // Through the file's own form, as a resume reads it.
        let lines: Vec<String> = log.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
        let read: Vec<EventMsg> = lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
        prop_assert_eq!(Conversation::fold(&read), live);
    }
}
