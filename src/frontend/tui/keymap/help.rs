//! The list of keys for `?`, made from the bindings as they are.
//!
//! Knows no screen: it returns text. Read by the help overlay.

use crate::frontend::tui::keymap::actions::TABLE;
use crate::frontend::tui::keymap::config::shown_keys;
use crate::frontend::tui::keymap::{Context, Keymap};

/// What the terminal can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Keyboard {
    /// What every terminal can.
    #[default]
    Plain,
    /// It speaks the kitty protocol: shift-enter, ctrl-enter and the like arrive.
    Kitty,
}

/// The keys of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HelpSection {
    /// The place.
    pub title: &'static str,
    /// Its actions.
    pub rows: Vec<HelpRow>,
}

/// The keys of one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HelpRow {
    /// The keys, separated by ` · `; `unbound` when there are none.
    pub keys: String,
    /// What the action does.
    pub what: &'static str,
    /// Its name in configuration.
    pub name: &'static str,
}

/// Places in the order of the list; some are told together.
const SECTIONS: &[(&str, &[Context])] = &[
    ("everywhere", &[Context::Global, Context::EmptyComposer]),
    ("writing", &[Context::Composer]),
    ("writing, vim normal mode", &[Context::VimNormal]),
    ("searching earlier messages", &[Context::Search]),
    ("completing", &[Context::Completion]),
    ("a question", &[Context::Approval]),
    ("a patch, hunk by hunk", &[Context::Hunks]),
    ("a list", &[Context::List]),
    ("reading", &[Context::Scroll, Context::Pager]),
    ("the transcript", &[Context::Transcript]),
];

impl Keymap {
    /// Returns the keys of every action that this keyboard can press, by place.
    pub(crate) fn help(&self, keyboard: Keyboard) -> Vec<HelpSection> {
        SECTIONS
            .iter()
            .map(|(title, contexts)| HelpSection {
                title,
                rows: contexts.iter().flat_map(|c| self.help_rows(*c, keyboard)).collect(),
            })
            .collect()
    }

    fn help_rows(&self, context: Context, keyboard: Keyboard) -> Vec<HelpRow> {
        let entries = TABLE.iter().filter(|entry| entry.context == context);
        let row = |entry: &crate::frontend::tui::keymap::actions::Entry| {
            let own = self.bindings.iter().filter(|binding| binding.action == entry.action);
            let arrives = own.filter(|binding| {
                keyboard == Keyboard::Kitty || !binding.keys.iter().any(|key| key.needs_kitty())
            });
            let keys: Vec<String> = arrives.map(|binding| shown_keys(&binding.keys)).collect();
            let keys = if keys.is_empty() { "unbound".to_owned() } else { keys.join(" · ") };
            HelpRow { keys, what: entry.help, name: entry.name }
        };
        entries.map(row).collect()
    }
}
