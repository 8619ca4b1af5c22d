//! Snapshots: what a workspace held at one moment, so that it can be restored.
//!
//! A store per workspace below the state directory: contents and directories by their hash, in
//! append-only packs (`pack.rs`), taken by a walk that reads only what changed (`walk.rs`,
//! `content.rs`). Git is neither asked nor touched. Knows no session and no tool: `worker.rs`
//! is the thread a session talks to, `take_back.rs` and `restore.rs` what puts a state back.

mod cache;
mod compare;
mod content;
mod error;
mod ignored;
mod moved;
mod object;
mod pack;
mod prune;
mod record;
mod render;
mod restore;
mod take_back;
#[cfg(test)]
mod tests;
mod tree;
mod walk;
mod wire;
mod worker;

pub(crate) use compare::Change;
pub(crate) use error::SnapshotError;
pub(crate) use record::SnapshotSpec;
pub(crate) use record::SnapshotStore;
pub(crate) use render::shown_changes;
pub(crate) use restore::RestoreError;
pub(crate) use take_back::Force;
pub(crate) use take_back::Plan;
pub(crate) use take_back::Step;
pub(crate) use worker::Beside;
pub(crate) use worker::Ended;
pub(crate) use worker::SnapshotWorker;

/// Says by mode and owner whether an empty file or directory is a mount point that a running
/// command needs, and no part of the workspace.
pub(crate) type PlaceholderTest = fn(mode: u32, uid: u32) -> bool;

/// Bounds of what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotLimits {
    /// A larger file is noted, not kept.
    pub(crate) file_bytes_max: u64,
    /// The same for one that the project ignores.
    pub(crate) ignored_file_bytes_max: u64,
    /// Bytes of ignored files in one snapshot.
    pub(crate) ignored_total_bytes_max: u64,
    /// Bytes that the store of a workspace may take before old snapshots go.
    pub(crate) keep_bytes_max: u64,
    /// Days after which a snapshot may go.
    pub(crate) keep_days_max: u64,
}
