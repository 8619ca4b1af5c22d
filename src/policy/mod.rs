//! Policy: may this go on, and must someone be asked? Pure rules over an `Effect`.
//!
//! Knows no session, asks nobody and enforces nothing: the executor asks, the sandbox enforces.
//! Called by `tools/executor.rs`.

mod command;
mod decide;

pub(crate) use command::is_known_read_only;
pub(crate) use decide::{Circumstances, InputReach, Obstacle};
pub(crate) use decide::{GIT_PROTECTED, PROTECTED};
pub(crate) use decide::{decide, decide_input, find_write_obstacle};

#[cfg(test)]
mod tests;
