//! One file per subcommand, each with a `run` that returns the exit code.
//!
//! A subcommand puts parts together and prints; it decides nothing that a layer below could.
//! Called by `cli/mod.rs`.

pub(crate) mod apply_patch;
mod apply_patch_report;
pub(crate) mod approvals;
pub(crate) mod audit;
mod audit_report;
pub(crate) mod changes;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod execpolicy;
pub(crate) mod interactive;
pub(crate) mod login;
pub(crate) mod sandbox;
pub(crate) mod trust;
pub(crate) mod undo;
