//! One file per subcommand, each with a `run` that returns the exit code.
//!
//! A subcommand puts parts together and prints; it decides nothing that a layer below could.
//! Called by `cli/mod.rs`.

pub(crate) mod approvals;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod exec;
pub(crate) mod login;
pub(crate) mod trust;
