//! What a model is told before the first word of the user, and how a request is put together.
//!
//! `build.rs` is pure; `project_docs.rs` and `environment.rs` look at the disk once, at the
//! start of a session, because their bytes must never change within it: prompt caches hold
//! only as long as the prefix does. Called by `agent/`.

mod build;
mod environment;
mod project_docs;
mod regular_file;

pub(crate) use build::{PromptContext, build, build_instructions, build_opening};
pub(crate) use environment::{Environment, read_branch, read_environment};
pub(crate) use project_docs::{InstructionFiles, load_project_docs};

#[cfg(test)]
mod tests;
