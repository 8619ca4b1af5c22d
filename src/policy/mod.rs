//! Policy: may this go on, and must someone be asked? Pure rules over an `Effect`.
//!
//! Knows no session, asks nobody and enforces nothing: the executor asks, the sandbox enforces.
//! Called by `tools/executor.rs`, and by `gimlet execpolicy check` through `check.rs`.

mod check;
mod command;
mod decide;
pub(crate) mod grants;
mod paths;
mod rules;

pub(crate) use check::{CheckDecision, Checked, check};
pub(crate) use command::is_known_read_only;
#[cfg(fuzzing)]
pub(crate) use command::read_words;
pub(crate) use decide::{Circumstances, InputReach, InputTo, Listing, Obstacle};
pub(crate) use decide::{GIT_PROTECTED, PROTECTED};
pub(crate) use decide::{decide, decide_connection, decide_input, find_write_obstacle};
pub(crate) use rules::{Keyboard, Origin, RuleError, RuleFile, Rules, Typed, keep_unfinished};

#[cfg(test)]
mod tests;
