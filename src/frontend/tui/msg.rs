//! `Msg`: everything that can happen to the screen, as values.
//!
//! `run.rs` makes them from the terminal, the session and the clock; `update` takes them. Time
//! comes in as `Tick` alone, so that a recorded row of messages gives the same screen again.

use std::path::PathBuf;

use crossterm::event::KeyEvent;

use crate::frontend::tui::theme::Shade;
use crate::protocol::{Event, StopCause};

/// Columns and rows of the terminal. Neither is ever 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// One thing that happened.
#[derive(Debug)]
pub(crate) enum Msg {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste {
        /// The text.
        text: String,
        /// Those of the paths it names that are files.
        files: Vec<PathBuf>,
    },
    /// More of the text that was pasted last.
    PasteMore(String),
    /// The terminal has another size.
    Resize(Size),
    /// The time, in milliseconds from an arbitrary start. Comes before what happened then.
    Tick(u64),
    /// The terminal's window got or lost the keyboard.
    Focus(bool),
    /// The terminal told how light its background is.
    Background(Shade),
    /// The session said something.
    Agent(Box<Event>),
    /// What the model shows has reached the terminal.
    Drawn,
    /// The paths below the working directory, for `@`.
    Files(Vec<String>),
    /// What the user's editor left.
    Edited(String),
    /// Something asked for could not be done.
    Failed {
        /// What and why.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// Another session began in the place of the one before.
    SessionReplaced,
    /// A signal asks to end.
    Stop(StopCause),
}
