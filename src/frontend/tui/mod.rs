//! The screen: what `gimlet` shows to a person at a terminal.
//!
//! `update` takes a message and changes the model, `view` draws it; both are pure.
//! `terminal.rs` alone touches the terminal, `run.rs` performs what `update` asks for.
//! Knows nothing of models, files or tools: it reads `Event`s and sends `Op`s.

pub(crate) mod composer;
pub(crate) mod fuzzy;
pub(crate) mod keymap;
pub(crate) mod theme;
