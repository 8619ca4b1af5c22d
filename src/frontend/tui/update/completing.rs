//! Completion: commands after `/`, files after `@`, while they are typed.

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::composer::Query;
use crate::frontend::tui::keymap::Action;
use crate::frontend::tui::model::{Completion, CompletionItem, FileIndex, Model};
use crate::frontend::tui::update::commands::COMMANDS;
use crate::frontend::tui::update::sending;
use crate::protocol::When;

/// Completions that are shown.
const ITEMS_MAX: usize = 8;

/// Takes an action while the list is open; `None` when it is not the list's.
pub(super) fn take_action(model: &mut Model, action: Action) -> Option<Vec<Cmd>> {
    let completion = model.completion.as_mut()?;
    let count = completion.items.len();
    match action {
        Action::CompletionNext => completion.at = (completion.at + 1) % count.max(1),
        Action::CompletionPrevious => {
            completion.at = (completion.at + count.max(1) - 1) % count.max(1);
        }
        Action::CompletionClose => {
            let closed = model.completion.take();
            model.completion_closed = closed.map(|completion| completion.query);
        }
        Action::CompletionAccept => {
            let item = completion.items.get(completion.at)?.clone();
            // What is typed whole already is not completed but sent.
            if item.is_typed {
                model.completion = None;
                return Some(sending::send(model, When::Now));
            }
            model.composer.complete(&item.name);
            model.completion = None;
        }
        _ => return None,
    }
    Some(Vec::new())
}

/// Looks at what is being typed, and opens, narrows or closes the list.
pub(super) fn refresh(model: &mut Model) {
    let query = model.composer.query();
    if model.completion_closed.is_some() && model.completion_closed == query {
        return;
    }
    model.completion_closed = None;
    let Some(query) = query.filter(|_| model.overlays.is_empty() && model.asks.is_empty()) else {
        model.completion = None;
        return;
    };
    if model.completion.as_ref().is_some_and(|open| open.query == query && !open.is_waiting) {
        return;
    }
    let (items, is_waiting) = match &query {
        Query::Command(text) => (commands_for(text), false),
        Query::File(text) => files_for(model, text),
    };
    let is_open = is_waiting || !items.is_empty();
    model.completion = is_open.then_some(Completion { query, items, at: 0, is_waiting });
}

fn commands_for(text: &str) -> Vec<CompletionItem> {
    let begins = COMMANDS.iter().filter(|command| command.name.starts_with(text));
    let holds = COMMANDS
        .iter()
        .filter(|command| !command.name.starts_with(text) && command.name.contains(text));
    begins
        .chain(holds)
        .map(|command| CompletionItem {
            name: command.name.to_owned(),
            about: command.about.to_owned(),
            is_typed: command.name == text,
        })
        .take(ITEMS_MAX + COMMANDS.len())
        .collect()
}

fn files_for(model: &mut Model, text: &str) -> (Vec<CompletionItem>, bool) {
    match &mut model.files {
        FileIndex::Unknown => {
            model.files = FileIndex::Wanted;
            (Vec::new(), true)
        }
        FileIndex::Wanted | FileIndex::Listing => (Vec::new(), true),
        FileIndex::Known(finder) => {
            let found = finder.matches(text, ITEMS_MAX);
            let item = |name: &str| CompletionItem {
                name: name.to_owned(),
                about: String::new(),
                is_typed: name == text,
            };
            let names: Vec<_> =
                found.iter().filter_map(|found| finder.get(found.index)).map(item).collect();
            (names, false)
        }
    }
}
