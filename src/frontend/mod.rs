//! Front ends: consumers of `Event`, senders of `Op`.
//!
//! They see the vocabulary, text, configuration and a session's `Handle`, nothing below, and
//! never each other. Picked and started by `cli`.

pub(crate) mod exec;
pub(crate) mod tui;
