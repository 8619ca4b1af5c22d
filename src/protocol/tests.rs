//! Round trips of the vocabulary: what we do not know must survive.

use serde_json::{Value, json};

use crate::protocol::{ContentItem, EventMsg, ResponseItem, TokenUsage, WarningKind};

fn round_trip(value: &Value) -> Value {
    let item: ResponseItem = serde_json::from_value(value.clone()).unwrap();
    serde_json::to_value(&item).unwrap()
}

#[test]
fn items_survive_a_round_trip() {
    let items = [
        json!({"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"final",
               "content":[{"type":"output_text","text":"hi","annotations":[{"a":1}],"logprobs":[]},
                          {"type":"refusal","refusal":"no"},{"type":"hologram","x":[1,null]}]}),
        json!({"type":"message","role":"narrator","content":[{"type":"input_text","text":"x"},
               {"type":"input_text","text":"x","cache_control":{"type":"e"}},
               {"type":"input_image","image_url":"data:,","detail":"high"},
               {"type":"input_image","file_id":"f"}]}),
        json!({"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],
               "encrypted_content":"gAAA==","status":null}),
        json!({"type":"function_call","id":"fc","call_id":"c","name":"n","arguments":"{","namespace":"mcp__x"}),
        json!({"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"*** Begin Patch\n"}),
        json!({"type":"local_shell_call","id":"l","call_id":"c","status":"completed",
               "action":{"command":["ls"],"timeout_ms":5,"type":"exec","env":{}}}),
        json!({"type":"web_search_call","id":"ws","action":{"type":"search","query":"q"},"status":"completed"}),
        json!({"type":"function_call_output","call_id":"c","output":"text"}),
        json!({"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"t"}]}),
        json!({"type":"image_generation_call","result":"…","n":1.5}),
        json!({"type":"message","content":{"not":"known"},"role":"user"}),
        json!({"no":"type"}),
    ];
    for item in items {
        assert_eq!(round_trip(&item), item);
    }
}

#[test]
fn a_plain_string_is_one_part() {
    let item: ResponseItem =
        serde_json::from_value(json!({"type":"message","role":"user","content":"hello"})).unwrap();
    let ResponseItem::Message(message) = item else { panic!("not a message") };
    assert_eq!(message.content, [ContentItem::InputText("hello".to_owned())]);
}

#[test]
fn absurd_token_counts_saturate() {
    let usage = json!({"input_tokens":1e300,"output_tokens":-4,"output_tokens_details":null,
                       "input_tokens_details":{"cached_tokens":"many"}});
    let usage = TokenUsage::from(usage);
    assert_eq!(usage.input_tokens, 1 << 40);
    assert_eq!(usage.output_tokens, 0);
    assert_eq!(usage.cached_input_tokens, 0);
}

#[test]
fn a_warning_of_a_later_version_can_be_read() {
    let msg = json!({"type":"warning","kind":"weather","message":"rain"});
    let EventMsg::Warning { kind, .. } = serde_json::from_value(msg).unwrap() else {
        panic!("not a warning")
    };
    assert_eq!(kind, WarningKind::Other);
}
