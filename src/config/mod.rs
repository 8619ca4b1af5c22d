//! Configuration: layers of text become one `Config` that nobody changes afterwards.
//!
//! `file.rs` is what a user may write, `layers.rs` merges and remembers who set what,
//! `resolve.rs` and `provider.rs` make the `Config` of `settings.rs`; all are pure. `load.rs`
//! and `trust.rs` are the only IO. Everything else sees `Config` alone. Called by `cli`.

mod error;
pub mod file;
pub mod layers;
pub mod load;
pub mod provider;
pub mod resolve;
mod settings;
pub mod trust;

#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use settings::{
    Config, ConfigNote, Directories, Inherit, McpServer, ProjectDocs, Provider, ProviderKey,
    SandboxLimits, SandboxSettings, ShellEnvironment, WireApi,
};
