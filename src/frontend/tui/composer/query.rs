//! What is being completed at the cursor, and what kind of message is being written.
//!
//! Pure: text and place in, question out. Knows neither files nor commands; who does completes.

use std::ops::Range;

use crate::frontend::tui::composer::graphemes::part;

/// Bytes of a query; nothing longer is a name someone types.
const QUERY_BYTES_MAX: usize = 1024;

/// What could be completed at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Query {
    /// A path, after `@`.
    File(String),
    /// A command, after `/` at the start.
    Command(String),
}

/// What a message is, by how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// A message to the model.
    #[default]
    Prompt,
    /// `/command`.
    Command,
    /// `!command` for the shell.
    Shell,
    /// `#note` to keep in view.
    Note,
}

impl Kind {
    /// Returns what a text is.
    pub(crate) fn of(text: &str) -> Self {
        match text.chars().next() {
            Some('!') => Self::Shell,
            // `##` and deeper begin a heading, which people do paste.
            Some('#') if !text.starts_with("##") => Self::Note,
            Some('/') if is_command(text) => Self::Command,
            _ => Self::Prompt,
        }
    }

    /// Returns the text without the sign that made it this kind.
    pub(crate) fn body(self, text: &str) -> &str {
        match self {
            Self::Prompt => text,
            Self::Command => text.strip_prefix('/').unwrap_or(text),
            Self::Shell => text.strip_prefix('!').unwrap_or(text).trim_start(),
            Self::Note => text.strip_prefix('#').unwrap_or(text).trim_start(),
        }
    }
}

/// A command's name has no slash, so that a path at the start of a message is no command.
fn is_command(text: &str) -> bool {
    let name = text.strip_prefix('/').unwrap_or("");
    let name = name.split(char::is_whitespace).next().unwrap_or("");
    name.len() <= QUERY_BYTES_MAX && name.chars().all(|c| c.is_alphanumeric() || "-_:.".contains(c))
}

/// Returns what is being completed and the stretch that a completion replaces.
pub(super) fn query_at(text: &str, cursor: usize) -> Option<(Query, Range<usize>)> {
    let near = text.floor_char_boundary(cursor.saturating_sub(QUERY_BYTES_MAX));
    let before = part(text, near..cursor);
    let rest = part(text, cursor..text.len());
    let after: usize = rest
        .chars()
        .take(QUERY_BYTES_MAX)
        .take_while(|c| !c.is_whitespace())
        .map(char::len_utf8)
        .sum();
    let end = cursor + after;
    if let Some(quoted) = open_quote(before) {
        let start = near + quoted;
        let query = part(text, start + 2..cursor);
        return Some((Query::File(query.to_owned()), start..end));
    }
    let word = before.rfind(char::is_whitespace);
    let space = word.and_then(|at| before.get(at..)?.chars().next()).map_or(0, char::len_utf8);
    let start = near + word.map_or(0, |at| at + space);
    if word.is_none() && near > 0 {
        return None;
    }
    let word = part(text, start..cursor);
    if let Some(path) = word.strip_prefix('@') {
        return Some((Query::File(path.to_owned()), start..end));
    }
    let name = word.strip_prefix('/').filter(|_| start == 0)?;
    is_command(word).then(|| (Query::Command(name.to_owned()), 0..end))
}

/// Returns where `@"` begins, when the cursor is between it and its closing quote.
fn open_quote(before: &str) -> Option<usize> {
    let at = before.rfind("@\"")?;
    let inside = before.get(at + 2..)?;
    let begins = before.get(..at)?.chars().next_back().is_none_or(char::is_whitespace);
    (begins && !inside.contains(['"', '\n'])).then_some(at)
}

/// Returns what stands in the text for a completion.
pub(super) fn completed(query: &Query, replacement: &str) -> String {
    match query {
        Query::File(_) if replacement.contains(char::is_whitespace) => {
            format!("@\"{replacement}\"")
        }
        Query::File(_) => format!("@{replacement}"),
        Query::Command(_) => format!("/{}", replacement.trim_start_matches('/')),
    }
}
