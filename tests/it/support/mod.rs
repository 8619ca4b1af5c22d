//! What the tests of the whole program share: a mock server, a runner, one place that blanks.

#![allow(dead_code)] // Each test uses a part, and the bench includes two of the files by path.

pub(crate) mod cases;
pub(crate) mod normalise;
pub(crate) mod run;
pub(crate) mod scene;
pub(crate) mod server;
mod server_tests;
pub(crate) mod sse;
pub(crate) mod tree;
