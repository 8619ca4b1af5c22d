//! The conversation as a request carries it: every call with exactly one output.
//!
//! A well-formed conversation comes out as it is, the very same shared items. Anything else
//! (a log of a process that died, a damaged file) is made well-formed, because servers
//! refuse a request that is not. Knows no dialect. Called by `agent/turn.rs`.

use std::collections::HashSet;
use std::sync::Arc;

use crate::conversation::{Conversation, build_output};
use crate::protocol::{CallId, EncodedItem, OutputBody};

/// What the model reads where an output was lost.
const LOST_OUTPUT: &str = "no output was recorded for this call; it may or may not have run";

impl Conversation {
    /// Returns the items for a request.
    ///
    /// An output without a call before it, a second output and a second call of one id are
    /// left out; a call that nothing answers is followed by a word that says so.
    pub(crate) fn for_model(&self) -> Vec<Arc<EncodedItem>> {
        let unanswered = self.calls_never_answered();
        let mut called: HashSet<&CallId> = HashSet::new();
        let mut answered: HashSet<&CallId> = HashSet::new();
        let mut items = Vec::with_capacity(self.items().len());
        for entry in self.items() {
            let keep = match (entry.item.call_id(), entry.item.answers()) {
                (Some(id), _) => called.insert(id),
                (None, Some(id)) => called.contains(id) && answered.insert(id),
                (None, None) => true,
            };
            if !keep {
                continue;
            }
            items.push(Arc::clone(entry));
            let lost = entry.item.call_id().is_some_and(|id| unanswered.contains(id));
            let body = OutputBody::Text(LOST_OUTPUT.to_owned());
            if lost && let Some(output) = build_output(&entry.item, body) {
                items.push(Arc::new(EncodedItem::new(output)));
            }
        }
        items
    }

    /// Returns the ids of calls that no output after them answers.
    fn calls_never_answered(&self) -> HashSet<&CallId> {
        let mut open = HashSet::new();
        let mut seen = HashSet::new();
        for entry in self.items() {
            if let Some(id) = entry.item.call_id()
                && seen.insert(id)
            {
                open.insert(id);
            }
            if let Some(id) = entry.item.answers() {
                open.remove(id);
            }
        }
        open
    }
}
