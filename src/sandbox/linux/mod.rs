//! How Linux confines: a helper, namespaces, Landlock and seccomp.
//!
//! `plan.rs` and `overlay.rs` decide from a policy and facts; the rest gathers facts or carries
//! a plan out. Knows nothing of tools and sessions. Its face is what `sandbox/mod.rs` takes
//! from here; other systems have `unconfined.rs` in its place.

// Decided: plain values in, plain values out
mod explain;
mod overlay;
mod plan;

// Looked at, in the program
mod exposure;
mod facts;
mod local_sockets;
mod private_tmp;
mod probe;
mod repositories;
mod runner;

// Carried out, in the helper
mod command;
mod helper;
mod init;
mod landlock;
mod mount_calls;
mod namespaces;
mod privileges;
mod process_tree;
mod pty;
mod seccomp;
mod streams;
mod transient;
mod watch;

pub use exposure::{level, level_under, open_at_reduced_level};
pub use helper::run_if_asked;
pub use runner::{LocalRunner, RunnerSettings};
pub(crate) use transient::is_placeholder;
pub use watch::load_memory_bytes;
