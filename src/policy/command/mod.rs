//! Commands: what a line for a shell says, and whether it is known to only read.
//!
//! `lex.rs` reads the line, `judge.rs` with `find.rs`, `readers.rs` and the tables say what only looks, `parts.rs` finds all
//! commands in it for rules. Pure, strict, and wrong only on the safe side: "known" still runs
//! in the read-only sandbox. Called by `decide.rs`, `rules/` and `check.rs`.

mod find;
mod git;
mod git_tables;
mod judge;
mod lex;
mod options;
mod parts;
mod readers;
mod scripts;
mod tables;

pub(crate) use judge::{Knowledge, check_command, is_known_read_only};
pub(crate) use lex::{Word, read_line};
pub(crate) use parts::{Parts, base_name, collect_parts};

#[cfg(fuzzing)]
pub(crate) use lex::read_words;

#[cfg(test)]
mod tests;
