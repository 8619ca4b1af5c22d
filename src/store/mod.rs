//! What lasts: session files, keys, and files written whole or not at all.
//!
//! Knows no session task, no tool and no screen; it is handed values and paths. Called by
//! `agent/`, `tools/` and `cli/`.

pub(crate) mod approvals;
pub(crate) mod atomic;
pub(crate) mod chain;
pub(crate) mod commit;
pub(crate) mod own_commands;
pub(crate) mod secrets;
pub(crate) mod session_file;
pub(crate) mod snapshot;
