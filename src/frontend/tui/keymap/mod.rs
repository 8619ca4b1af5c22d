//! Which key does what, where: the defaults, what the user changed, and the list for `?`.
//!
//! A context says where a key was pressed; what it does not bind, its parent may. Knows
//! nothing of what an action does. Asked by `update` for each key.

mod actions;
mod chord;
mod config;
mod help;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crossterm::event::KeyEvent;

pub(crate) use actions::Action;
#[cfg(test)]
pub(crate) use chord::key_event;
pub(crate) use chord::{Chord, typed};
pub(crate) use help::Keyboard;

use actions::TABLE;

/// Where a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Context {
    /// Everywhere.
    Global,
    /// The composer.
    Composer,
    /// The composer while nothing is typed.
    EmptyComposer,
    /// The composer in vim's normal mode.
    VimNormal,
    /// The search through earlier messages.
    Search,
    /// The list of completions above the composer.
    Completion,
    /// A question.
    Approval,
    /// A question about a patch, hunk by hunk.
    Hunks,
    /// A list to choose from.
    List,
    /// Whatever is longer than the screen.
    Scroll,
    /// A text to read.
    Pager,
    /// The transcript.
    Transcript,
}

impl Context {
    /// Returns where to look for a key that is not bound here.
    fn parent(self) -> Option<Self> {
        Some(match self {
            Self::Global => return None,
            Self::Composer | Self::List | Self::Scroll => Self::Global,
            Self::EmptyComposer | Self::VimNormal | Self::Search | Self::Completion => {
                Self::Composer
            }
            Self::Approval | Self::Hunks | Self::Pager => Self::Scroll,
            Self::Transcript => Self::Pager,
        })
    }

    /// Returns the context and its parents, innermost first.
    fn chain(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |context| context.parent())
    }

    /// Returns whether characters typed here are text, so that they cannot be bound.
    fn takes_text(self) -> bool {
        matches!(self, Self::Composer | Self::Search | Self::Completion | Self::List | Self::Global)
    }
}

/// Keys pressed one after the other that mean one thing; mostly one.
pub(super) type Sequence = Vec<Chord>;

#[derive(Debug, Clone, PartialEq)]
struct Binding {
    context: Context,
    keys: Sequence,
    action: Action,
}

/// What a key press comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The action of the keys pressed so far.
    Act(Action),
    /// The keys are the beginning of a longer binding.
    Wait,
    /// Nothing is bound to them: a character is text, anything else is nothing.
    Unbound,
}

/// The keys of a sequence that were pressed so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pending(Sequence);

impl Pending {
    /// Returns whether the next key continues a sequence.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All bindings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Keymap {
    bindings: Vec<Binding>,
}

impl Default for Keymap {
    fn default() -> Self {
        let default_keys = |entry: &actions::Entry| {
            let parsed = entry.keys.iter().filter_map(|keys| config::parse_keys(keys).ok());
            let (context, action) = (entry.context, entry.action);
            parsed.map(move |keys| Binding { context, keys, action }).collect::<Vec<_>>()
        };
        Self { bindings: TABLE.iter().flat_map(default_keys).collect() }
    }
}

impl Keymap {
    /// Returns what a single key does.
    #[cfg(test)]
    pub(crate) fn lookup(&self, key: KeyEvent, context: Context) -> Option<Action> {
        match self.step(&mut Pending::default(), key, context) {
            Step::Act(action) => Some(action),
            Step::Wait | Step::Unbound => None,
        }
    }

    /// Returns what a key does after those that are pending.
    pub(crate) fn step(&self, pending: &mut Pending, key: KeyEvent, context: Context) -> Step {
        let Some(chord) = Chord::of(key) else {
            return if pending.is_empty() { Step::Unbound } else { Step::Wait };
        };
        pending.0.push(chord);
        for context in context.chain() {
            let mut here = self.bindings.iter().filter(|binding| binding.context == context);
            if let Some(found) = here.clone().find(|binding| binding.keys == pending.0) {
                pending.0.clear();
                return Step::Act(found.action);
            }
            if here.any(|binding| binding.keys.starts_with(&pending.0)) {
                return Step::Wait;
            }
        }
        let broken_off = pending.0.len() > 1;
        pending.0.clear();
        // A key that does not continue a sequence ends it and does nothing, as in readline.
        if broken_off { Step::Wait } else { Step::Unbound }
    }

    /// Returns the keys of an action as people read them.
    pub(crate) fn keys_of(&self, action: Action) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let own = self.bindings.iter().filter(|binding| binding.action == action);
        own.map(|binding| config::shown_keys(&binding.keys))
            .filter(|keys| seen.insert(keys.clone()))
            .collect()
    }
}
