//! Writes a patch as text again: what the user reads before it runs.
//!
//! The opposite of `parse.rs`; a test holds that reading what was written gives the same.

use std::fmt::Write as _;

use crate::patch::parse::{ADD, DELETE, END_OF_FILE, MOVE, UPDATE};
use crate::patch::{ChunkLine, FileAction, FilePatch};

/// Returns the lines of one file's part.
pub(crate) fn render_file(file: &FilePatch) -> String {
    let mut text = String::new();
    let path = file.path.display();
    // Writing to a String cannot fail.
    let _ = match &file.action {
        FileAction::Add { .. } => writeln!(text, "{ADD} {path}"),
        FileAction::Delete => writeln!(text, "{DELETE} {path}"),
        FileAction::Update { .. } => writeln!(text, "{UPDATE} {path}"),
    };
    match &file.action {
        FileAction::Add { content } => {
            for line in content.split_terminator('\n') {
                let _ = writeln!(text, "+{line}");
            }
        }
        FileAction::Delete => {}
        FileAction::Update { move_to, chunks } => {
            if let Some(target) = move_to {
                let _ = writeln!(text, "{MOVE} {}", target.display());
            }
            for chunk in chunks {
                if chunk.anchors.is_empty() {
                    text.push_str("@@\n");
                }
                for anchor in &chunk.anchors {
                    let _ = writeln!(text, "@@ {anchor}");
                }
                for line in &chunk.lines {
                    let _ = match line {
                        ChunkLine::Context(line) => writeln!(text, " {line}"),
                        ChunkLine::Remove(line) => writeln!(text, "-{line}"),
                        ChunkLine::Add(line) => writeln!(text, "+{line}"),
                    };
                }
                if chunk.end_of_file {
                    let _ = writeln!(text, "{END_OF_FILE}");
                }
            }
        }
    }
    text
}
