//! The one integration binary: it sees the program from outside, and the sources as text.
//!
//! `tidy.rs` reads the sources and `planted.rs` shows that it can fail, `sessions.rs` plays
//! whole sessions from fixtures, `resume.rs` kills them and goes on, `sandbox.rs` runs the sandbox for
//! real and `escape.rs` tries to break out of it, `cli.rs` is
//! the contract with shells and scripts, `hostile.rs` opens hostile repositories, `hygiene.rs` plants escapes,
//! `masking.rs` looks for secrets, `audit.rs` damages logs, `screen.rs` sits at a terminal, `support/` is what they share. `tests/README.md`
//! says how to add a case.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::string_slice,
    reason = "a test stops at the first thing that is not as it should be"
)]

mod apply_patch;
mod approvals;
mod audit;
mod cli;
#[cfg(target_os = "linux")]
mod escape;
mod git_diffs;
#[cfg(target_os = "linux")]
mod hostile;
mod hygiene;
mod masking;
mod planted;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod proxy;
mod resume;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod sandbox_cli;
mod screen;
mod sessions;
mod support;
mod tidy;
mod undo;
mod undo_edges;
