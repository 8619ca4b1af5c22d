//! Earlier messages: going through them, changing them, searching them.
//!
//! A message that was changed while going through keeps its change until the next is sent, and
//! so does the draft one came from. Knows no screen and no file. Owned by the composer.

use std::collections::BTreeMap;

/// Messages kept; the oldest go first.
const MESSAGES_MAX: usize = 1_000;
/// Bytes of all messages together, pastes in full; the newest stays whatever its size.
const BYTES_MAX: usize = 4 << 20;

/// Earlier messages and where one stands among them.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    messages: Vec<String>,
    /// Where one stands; `None` at the draft.
    at: Option<usize>,
    /// Texts as they were left, by place; the draft's place is behind the newest message.
    left: BTreeMap<usize, String>,
}

impl History {
    /// Takes messages over, oldest first.
    pub(super) fn set(&mut self, messages: Vec<String>) {
        *self = Self { messages, ..Self::default() };
        self.bound(str::len);
    }

    /// Adds the message that was sent, and goes back to the draft. `bytes` says how large a
    /// message is with its pastes.
    pub(super) fn sent(&mut self, text: &str, bytes: impl Fn(&str) -> usize) {
        self.at = None;
        self.left.clear();
        if !text.trim().is_empty() && self.messages.last().is_none_or(|last| last != text) {
            self.messages.push(text.to_owned());
            self.bound(bytes);
        }
    }

    fn bound(&mut self, bytes: impl Fn(&str) -> usize) {
        let mut sum = 0;
        let within = |message: &&String| {
            sum += bytes(message);
            sum <= BYTES_MAX
        };
        let kept = self.messages.iter().rev().take(MESSAGES_MAX).take_while(within).count().max(1);
        let surplus = self.messages.len().saturating_sub(kept);
        self.messages.drain(..surplus);
    }

    /// Goes to the message before. `now` is the text as it is left. Returns the new text.
    pub(super) fn older(&mut self, now: &str) -> Option<String> {
        let here = self.at.unwrap_or(self.messages.len());
        self.go(here, here.checked_sub(1)?, now)
    }

    /// Goes to the message after, or back to the draft.
    pub(super) fn newer(&mut self, now: &str) -> Option<String> {
        let here = self.at?;
        self.go(here, here + 1, now)
    }

    fn go(&mut self, from: usize, to: usize, now: &str) -> Option<String> {
        let text = self.left.get(&to).or_else(|| self.messages.get(to)).cloned();
        let text = text.or_else(|| (to == self.messages.len()).then(String::new))?;
        self.left.insert(from, now.to_owned());
        self.at = (to < self.messages.len()).then_some(to);
        Some(text)
    }

    /// Returns the newest message before place `from` that holds the query, with its place.
    /// Case counts only when the query has capitals.
    pub(super) fn find(&self, query: &str, from: usize, toward: Toward) -> Option<(usize, &str)> {
        let hit = |(_, message): &(usize, &String)| place_of(message, query).is_some();
        let all = self.messages.iter().enumerate();
        let found = match toward {
            Toward::Older => all.take(from).rev().find(hit),
            Toward::Newer => all.skip(from).find(hit),
        };
        found.map(|(index, message)| (index, message.as_str()))
    }

    /// Stands at a message that a search found.
    pub(super) fn stand_at(&mut self, index: usize, draft: &str) {
        let here = self.at.unwrap_or(self.messages.len());
        self.left.insert(here, draft.to_owned());
        self.at = Some(index);
    }

    /// Returns the message at a place.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        self.messages.get(index).map(String::as_str)
    }

    /// Returns how many messages there are.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns all texts that can come back.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().chain(self.left.values()).map(String::as_str)
    }
}

/// Which way a search goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    Older,
    Newer,
}

/// Returns where the query stands in a text.
pub(super) fn place_of(text: &str, query: &str) -> Option<usize> {
    if query.chars().any(char::is_uppercase) {
        return text.find(query);
    }
    let wanted: Vec<char> = query.chars().collect();
    text.char_indices().map(|(at, _)| at).find(|at| {
        let rest = text.get(*at..).unwrap_or("").chars();
        let mut rest = rest.map(|c| c.to_lowercase().next().unwrap_or(c));
        wanted.iter().all(|c| rest.next() == Some(*c))
    })
}

/// A search that is going on.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    /// What is searched for.
    pub(super) query: String,
    /// The place of the message found.
    pub(super) at: Option<usize>,
    /// Whether the last step found nothing.
    pub(super) failed: bool,
}
