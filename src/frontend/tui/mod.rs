//! The screen: what `gimlet` shows to a person at a terminal.
//!
//! `update` takes a message and changes the model, `view` draws it; both are pure.
//! `terminal.rs` alone touches the terminal, `run.rs` performs what `update` asks for.
//! Knows nothing of models, files or tools: it reads `Event`s and sends `Op`s.

mod asking;
mod cells;
mod cmd;
pub(crate) mod composer;
pub(crate) mod diff;
mod editor;
mod files;
pub(crate) mod fuzzy;
pub(crate) mod highlight;
mod history;
mod input;
pub(crate) mod keymap;
pub(crate) mod markdown;
mod model;
mod msg;
mod overlay;
mod row;
mod run;
mod screen;
mod signals;
mod streaming;
mod terminal;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod theme;
mod title;
mod update;
mod view;
pub(crate) mod wrap;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::agent::Handle;
use crate::protocol::{Event, SessionId, StopCause, UserInput};

pub(crate) use model::{Facts, SessionState};

/// Starts another session, or says why not and what to do about it.
pub(crate) type Starter = Box<dyn Fn() -> Result<Handle, (String, Option<String>)>>;

/// Reads images as the model takes them, or says why not.
pub(crate) type ImageLoader =
    Box<dyn Fn(&[PathBuf]) -> Result<Vec<UserInput>, (String, Option<String>)>>;

/// What the screen starts from.
pub(crate) struct ScreenOptions {
    /// What holds from start to end.
    pub(crate) facts: Facts,
    /// The session's settings as it starts.
    pub(crate) session: SessionState,
    /// Colours.
    pub(crate) theme: theme::Theme,
    /// Whether the terminal lays lines out anew when it gets narrower.
    pub(crate) reflows: bool,
    /// What an earlier process of the session saw.
    pub(crate) past: Vec<Event>,
    /// What the user said on the command line.
    pub(crate) prompt: Option<String>,
    /// Starts another session.
    pub(crate) start: Starter,
    /// Where messages of earlier sessions are kept; `None` keeps none.
    pub(crate) history_file: Option<PathBuf>,
    /// The user's own keys, by the action's name.
    pub(crate) keymap: BTreeMap<String, Vec<String>>,
    /// The user's editor, with its arguments.
    pub(crate) editor: String,
    /// Reads images.
    pub(crate) load_images: ImageLoader,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScreenOutcome {
    /// The session that ran last.
    pub(crate) session: SessionId,
    /// The signal that ended it.
    pub(crate) stopped_by: Option<StopCause>,
    /// Whether anything was said in it.
    pub(crate) has_turns: bool,
}

/// Runs the screen to its end.
pub(crate) async fn run(handle: Handle, options: ScreenOptions) -> io::Result<ScreenOutcome> {
    run::run(handle, options).await
}
