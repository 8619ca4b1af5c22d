//! `Cmd`: what `update` wants done. Only `run.rs` does it.

use std::path::PathBuf;

use crate::protocol::{Op, When};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cmd {
    /// Hand an operation to the session.
    Submit(Op),
    /// Read the images, and send them with the text.
    SendImages {
        /// The text.
        text: String,
        /// The images, in order.
        images: Vec<PathBuf>,
        /// When it takes effect.
        when: When,
    },
    /// Keep a message for later sessions.
    Remember(String),
    /// Put a text into the terminal's clipboard (OSC 52).
    Copy(String),
    /// Ring, and tell the desktop: the program waits, or is done.
    Notify(Notice),
    /// Go to the background, as Ctrl-Z asks.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Open the user's editor on a text.
    Edit(String),
    /// List the paths below the working directory.
    ListFiles,
    /// End this session and begin another.
    NewSession,
    /// End the program.
    Quit,
}

/// What the user is told when they may be looking elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A question waits for them.
    Waiting,
    /// A turn is over.
    Done,
}
