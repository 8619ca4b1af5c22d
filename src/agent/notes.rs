//! What the model is told of a restore: which turn, which way, which files.
//!
//! Pure. The note is an item of the next turn, recorded like any other, so that the log says
//! what the model was told. Called by `session.rs` and `opening.rs`.

use std::path::Path;

use crate::protocol::ChangeKind;
use crate::protocol::FileChange;
use crate::protocol::ResponseItem;
use crate::protocol::RestoreDirection;
use crate::protocol::TurnId;

/// Files that a note names; a model that needs more can look.
const FILES_MAX: usize = 50;

/// A restore that the model does not know of yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RestoredNote {
    pub(super) turn: TurnId,
    pub(super) direction: RestoreDirection,
    pub(super) changes: Vec<FileChange>,
}

impl RestoredNote {
    /// Returns the note as an item of the conversation. Paths start from `cwd`.
    pub(super) fn into_item(self, cwd: &Path) -> ResponseItem {
        let done = match self.direction {
            RestoreDirection::Undo => "undid the file changes of turn",
            RestoreDirection::Redo => "restored the file changes, once undone, of turn",
        };
        let mut text = format!("<files_restored>\nThe user {done} {}", self.turn);
        if self.direction == RestoreDirection::Undo {
            text.push_str(" and of any later turn");
        }
        text.push_str(". These files changed:\n");
        for change in self.changes.iter().take(FILES_MAX) {
            let path = change.path.strip_prefix(cwd).unwrap_or(&change.path);
            let kind = match change.kind {
                ChangeKind::Add => "A",
                ChangeKind::Delete => "D",
                ChangeKind::Update => "M",
            };
            // A name with a line break would look like two.
            let path = path.to_string_lossy();
            text.push_str(&format!("{kind} {}\n", crate::text::ansi::visible_line(&path)));
        }
        match self.changes.len().saturating_sub(FILES_MAX) {
            0 => {}
            more => text.push_str(&format!("and {more} more\n")),
        }
        text.push_str("</files_restored>");
        ResponseItem::user_text(text)
    }
}
