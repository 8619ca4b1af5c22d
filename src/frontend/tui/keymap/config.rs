//! Bindings from configuration: `newline = ["alt-enter", "ctrl-x ctrl-j"]`, checked and merged.
//!
//! A key the user binds is taken away from the default that had it; two of the user's own
//! bindings on one key are an error. All errors are reported at once, and an error changes
//! nothing. Knows no file; who read the table passes it in.

use crate::frontend::tui::keymap::actions::{Entry, TABLE};
use crate::frontend::tui::keymap::{Action, Binding, Chord, Context, Keymap, Sequence};
use crate::text::closest::closest;

/// Longest sequence: nobody remembers more, and each key of it waits for the next.
const SEQUENCE_KEYS_MAX: usize = 4;
/// Actions without which a user could not get out or would have no safe answer.
const ALWAYS_BOUND: &[Action] = &[Action::Interrupt, Action::Quit, Action::Decline, Action::Send];

/// What is wrong with a binding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeymapError {
    /// No such action.
    #[error("there is no action `{name}`{}", hint.as_ref().map(|h| format!("; did you mean `{h}`?")).unwrap_or_default())]
    UnknownAction {
        /// What was written.
        name: String,
        /// What may have been meant.
        hint: Option<&'static str>,
    },
    /// Keys that cannot be read.
    #[error("`{action}`: `{keys}` cannot be read: {reason}")]
    BadKeys {
        /// The action.
        action: &'static str,
        /// What was written.
        keys: String,
        /// Why.
        reason: String,
    },
    /// A character that is text where the action is.
    #[error("`{action}`: `{keys}` is text here; add ctrl or alt, as in `alt-{keys}`")]
    TakesText {
        /// The action.
        action: &'static str,
        /// The key.
        keys: String,
    },
    /// Two actions on the same keys, or one on the beginning of another's.
    #[error("`{first}` and `{second}` are both on `{keys}`; give one of them another key")]
    Conflict {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The keys.
        keys: String,
    },
    /// An action that must have a key has none.
    #[error("`{action}` needs a key of its own; leave it one")]
    Unreachable {
        /// The action.
        action: &'static str,
    },
}

impl Keymap {
    /// Merges the user's bindings over the defaults. An empty list unbinds an action.
    pub(crate) fn from_config<'a>(
        entries: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>,
    ) -> Result<Self, Vec<KeymapError>> {
        let mut errors = Vec::new();
        let mut own: Vec<Binding> = Vec::new();
        let mut keymap = Self::default();
        for (name, keys) in entries {
            let Some(entry) = TABLE.iter().find(|entry| entry.name == name) else {
                let hint = closest(name, TABLE.iter().map(|entry| entry.name));
                errors.push(KeymapError::UnknownAction { name: name.to_owned(), hint });
                continue;
            };
            keymap.bindings.retain(|binding| binding.action != entry.action);
            for written in keys {
                match read_binding(entry, written) {
                    Ok(binding) => own.push(binding),
                    Err(error) => errors.push(error),
                }
            }
        }
        report_conflicts(&own, &mut errors);
        keymap.bindings.retain(|default| {
            !own.iter().any(|binding| {
                meet(binding.context, default.context) && overlap(&binding.keys, &default.keys)
            })
        });
        keymap.bindings.splice(0..0, own);
        if errors.is_empty() {
            let bound = |action| keymap.bindings.iter().any(|binding| binding.action == action);
            let unbound = ALWAYS_BOUND.iter().filter(|action| !bound(**action));
            errors.extend(unbound.map(|a| KeymapError::Unreachable { action: name_of(*a) }));
        }
        if errors.is_empty() { Ok(keymap) } else { Err(errors) }
    }
}

/// Returns the name of an action in configuration.
pub(super) fn name_of(action: Action) -> &'static str {
    TABLE.iter().find(|entry| entry.action == action).map_or("", |entry| entry.name)
}

fn read_binding(entry: &Entry, written: &str) -> Result<Binding, KeymapError> {
    let keys = parse_keys(written).map_err(|reason| KeymapError::BadKeys {
        action: entry.name,
        keys: written.to_owned(),
        reason,
    })?;
    let text = keys.first().and_then(|first| first.types());
    // On an empty composer a sign can be a key, as `?` is; letters and digits begin a message.
    let is_text = text.is_some_and(|c| match entry.context {
        Context::EmptyComposer => c.is_alphanumeric() || c == ' ',
        Context::VimNormal => true,
        context => context.takes_text(),
    });
    if is_text {
        return Err(KeymapError::TakesText { action: entry.name, keys: written.to_owned() });
    }
    Ok(Binding { context: entry.context, keys, action: entry.action })
}

/// Reads keys pressed one after the other, separated by spaces.
pub(super) fn parse_keys(text: &str) -> Result<Sequence, String> {
    let keys: Sequence = text.split_whitespace().map(Chord::parse).collect::<Result<_, _>>()?;
    match keys.len() {
        0 => Err("a key is missing".to_owned()),
        1..=SEQUENCE_KEYS_MAX => Ok(keys),
        more => Err(format!("{more} keys in a row are too many; at most {SEQUENCE_KEYS_MAX}")),
    }
}

/// Writes keys as they are read.
pub(super) fn shown_keys(keys: &[Chord]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns whether one is the beginning of the other, so that only one could be pressed.
pub(super) fn overlap(one: &[Chord], other: &[Chord]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Returns whether keys of both places are pressed in the same one: someone is mostly in the
/// composer, so what holds everywhere must hold there.
pub(super) fn meet(one: Context, other: Context) -> bool {
    let both = [one, other];
    one == other || both.contains(&Context::Global) && both.contains(&Context::Composer)
}

fn report_conflicts(own: &[Binding], errors: &mut Vec<KeymapError>) {
    for (index, first) in own.iter().enumerate() {
        for second in own.iter().skip(index + 1) {
            let same_place = meet(first.context, second.context);
            if same_place && first.action != second.action && overlap(&first.keys, &second.keys) {
                errors.push(KeymapError::Conflict {
                    first: name_of(first.action),
                    second: name_of(second.action),
                    keys: shown_keys(if first.keys.len() < second.keys.len() {
                        &first.keys
                    } else {
                        &second.keys
                    }),
                });
            }
        }
    }
}
