//! `Conversation`: the ordered items a model is shown, and what must hold of them.
//!
//! Items are only ever appended, or replaced whole by a summary; each keeps its encoded
//! bytes, so a request's prefix is the same bytes each time. Every call has an id of its own
//! (`calls.rs`) and the model sees exactly one output for it (`for_model.rs`). Knows no
//! files, no clock and no driver. Called by `agent/turn.rs` and `agent/session.rs`.

mod calls;
mod for_model;

use std::collections::HashSet;
use std::sync::Arc;

use crate::protocol::{CallId, EncodedItem, EventMsg, ResponseItem};

pub(crate) use calls::{CallIdNote, build_output};

/// The items of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Conversation {
    items: Vec<Arc<EncodedItem>>,
    /// Every call id there ever was, also of items a summary replaced: the event log ties
    /// calls to outputs by it.
    call_ids: HashSet<CallId>,
}

impl Conversation {
    /// Returns the conversation an event log tells of.
    pub(crate) fn fold<'a>(events: impl IntoIterator<Item = &'a EventMsg>) -> Self {
        let mut conversation = Self::default();
        for event in events {
            conversation.apply(event);
        }
        conversation
    }

    /// Appends an item and returns it as it is shared from now on.
    pub(crate) fn push(&mut self, item: ResponseItem) -> Arc<EncodedItem> {
        if let Some(id) = item.call_id() {
            self.call_ids.insert(id.clone());
        }
        let item = Arc::new(EncodedItem::new(item));
        self.items.push(Arc::clone(&item));
        item
    }

    /// Puts a summary's items in the place of all items so far.
    pub(crate) fn replace(&mut self, replacement: Vec<ResponseItem>) {
        self.items.clear();
        for item in replacement {
            self.push(item);
        }
    }

    /// Returns the items as they were pushed.
    pub(crate) fn items(&self) -> &[Arc<EncodedItem>] {
        &self.items
    }

    /// Returns whether a call had this id before.
    pub(crate) fn knows_call(&self, id: &CallId) -> bool {
        self.call_ids.contains(id)
    }

    fn apply(&mut self, event: &EventMsg) {
        match event {
            EventMsg::ItemCompleted { item } => {
                self.push(item.clone());
            }
            EventMsg::Compacted { replacement, .. } => self.replace(replacement.clone()),
            EventMsg::SessionStarted { .. }
            | EventMsg::TurnStarted { .. }
            | EventMsg::Steered { .. }
            | EventMsg::TurnEnded { .. }
            | EventMsg::RequestStarted { .. }
            | EventMsg::ItemDelta { .. }
            | EventMsg::ToolCallBegin { .. }
            | EventMsg::ToolCallDelta { .. }
            | EventMsg::ToolCallEnd { .. }
            | EventMsg::AskOpened { .. }
            | EventMsg::AskAnswered { .. }
            | EventMsg::GrantApplied { .. }
            | EventMsg::PlanUpdated { .. }
            | EventMsg::FilesChanged { .. }
            | EventMsg::SnapshotTaken { .. }
            | EventMsg::TokenCount { .. }
            | EventMsg::Restored { .. }
            | EventMsg::Repaired { .. }
            | EventMsg::QueueChanged { .. }
            | EventMsg::ProcessStarted { .. }
            | EventMsg::ProcessEnded { .. }
            | EventMsg::SandboxLevel { .. }
            | EventMsg::NetworkAttempt { .. }
            | EventMsg::McpServerStatus { .. }
            | EventMsg::HookRan { .. }
            | EventMsg::AgentSpawned { .. }
            | EventMsg::AgentEnded { .. }
            | EventMsg::LimitReached { .. }
            | EventMsg::Warning { .. }
            | EventMsg::Error { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
