#![doc = include_str!("README.md")]

#[cfg(windows)]
compile_error!("Gimlet has no sandbox on Windows and does not run there; use it inside WSL 2");

// L0 vocabulary: data only
pub mod protocol;

// L1 rules: value in, value out
pub mod config;
pub(crate) mod conversation;
pub(crate) mod patch;
pub(crate) mod policy;
pub(crate) mod text;

// L2 the world: one neighbour each, no sideways imports
pub(crate) mod mcp;
pub mod model;
pub(crate) mod prompt;
pub mod sandbox;
pub(crate) mod store;

// L3 hands
pub mod tools;

// L4 mind
pub mod agent;

// L5 faces
pub(crate) mod frontend;

// L6 door
pub mod cli;

// Above all, and in fuzzing builds only
#[cfg(fuzzing)]
pub mod fuzzing;
