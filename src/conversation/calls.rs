//! Calls and their ids: each call gets an id of its own, and an open one can be answered.
//!
//! Models and servers forget ids or use one twice; both are mended here, before the item
//! enters the conversation. Executes nothing. Called by `agent/turn.rs`.

use std::collections::HashSet;

use serde_json::Map;

use crate::conversation::Conversation;
use crate::protocol::{CallId, OutputBody, ResponseItem, ToolCallOutput};

/// What became of a call's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallIdNote {
    /// It is the server's own. Also said of items that are no calls.
    Kept,
    /// The server sent none; the call has a new one.
    Given,
    /// The server used this one before; the call has a new one.
    Duplicate(CallId),
}

impl Conversation {
    /// Gives a call without id, or with one used before, an id of its own.
    ///
    /// To be called before `push`, with every item a driver delivers.
    pub(crate) fn normalise_call(&self, item: &mut ResponseItem) -> CallIdNote {
        let Some(id) = item.call_id() else { return CallIdNote::Kept };
        if !id.as_str().is_empty() && !self.knows_call(id) {
            return CallIdNote::Kept;
        }
        let note = match id.as_str() {
            "" => CallIdNote::Given,
            _ => CallIdNote::Duplicate(id.clone()),
        };
        let fresh = self.fresh_call_id(item);
        item.set_call_id(fresh);
        note
    }

    /// Returns the calls that have no output yet, in order.
    pub(crate) fn open_calls(&self) -> Vec<&ResponseItem> {
        let answered: HashSet<&CallId> =
            self.items().iter().filter_map(|entry| entry.item.answers()).collect();
        let is_open =
            |item: &&ResponseItem| item.call_id().is_some_and(|id| !answered.contains(id));
        self.items().iter().map(|entry| &entry.item).filter(is_open).collect()
    }

    fn fresh_call_id(&self, item: &ResponseItem) -> CallId {
        // Older servers tie a `local_shell_call` to its output by the item's own id.
        let own = match item {
            ResponseItem::LocalShellCall(call) => call.id.as_deref().map(CallId::from),
            _ => None,
        };
        if let Some(id) = own.filter(|id| !id.as_str().is_empty() && !self.knows_call(id)) {
            return id;
        }
        // The count of ids is where a new one is free, unless a server happens to name alike.
        let mut number = self.call_ids.len();
        loop {
            let id = CallId(format!("call_gimlet_{number}"));
            if !self.knows_call(&id) {
                return id;
            }
            number += 1;
        }
    }
}

/// Returns the output item that answers a call, of the kind that fits; `None` for an item
/// that is no call.
pub(crate) fn build_output(call: &ResponseItem, output: OutputBody) -> Option<ResponseItem> {
    let answer = |call_id: &CallId, output| ToolCallOutput {
        call_id: call_id.clone(),
        output,
        extra: Map::new(),
    };
    match call {
        ResponseItem::FunctionCall(call) => {
            Some(ResponseItem::FunctionCallOutput(answer(&call.call_id, output)))
        }
        ResponseItem::LocalShellCall(call) => {
            Some(ResponseItem::FunctionCallOutput(answer(&call.call_id, output)))
        }
        ResponseItem::CustomToolCall(call) => {
            Some(ResponseItem::CustomToolCallOutput(answer(&call.call_id, output)))
        }
        ResponseItem::Message(_)
        | ResponseItem::Reasoning(_)
        | ResponseItem::WebSearchCall(_)
        | ResponseItem::FunctionCallOutput(_)
        | ResponseItem::CustomToolCallOutput(_)
        | ResponseItem::Other(_) => None,
    }
}
