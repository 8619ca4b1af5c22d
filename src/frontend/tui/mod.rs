//! The screen: what `gimlet` shows to a person at a terminal.
//!
//! `update` takes a message and changes the model, `view` draws it; both are pure.
//! `terminal.rs` alone touches the terminal, `run.rs` performs what `update` asks for.
//! Knows nothing of models, files or tools: it reads `Event`s and sends `Op`s.

// Goes with the first cell that draws.
#![allow(dead_code)]

pub(crate) mod diff;
pub(crate) mod highlight;
pub(crate) mod markdown;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod theme;
pub(crate) mod wrap;
