//! Models: a `Driver` turns a `Prompt` into a stream of `ResponseEvent`s.
//!
//! Every dialect speaks the same items; a driver executes no tool and knows no session.
//! `cli` builds the factory, `agent/turn.rs` consumes the streams.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;

use crate::protocol::{ErrorKind, ModelName, Prompt, ResponseItem, TokenUsage};

pub(crate) mod catalog;
pub(crate) mod client;
pub(crate) mod factory;
pub(crate) mod failure;
pub(crate) mod fake;
pub(crate) mod responses;
pub(crate) mod retry;
pub(crate) mod sse;

/// What a driver says while a response arrives.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "items are few, and moved once or twice each")]
pub enum ResponseEvent {
    /// The request is encoded and goes out. The first event of every stream.
    Sent {
        /// SHA-256 (hex) of the body.
        body_hash: String,
        /// The body's size.
        body_bytes: u64,
    },
    /// The server began to answer.
    Created {
        /// The server's id of the response.
        response_id: String,
    },
    /// More of the answer's text. Neighbouring deltas arrive joined.
    TextDelta(String),
    /// More of the reasoning meant for people.
    ReasoningDelta(String),
    /// More of a call's arguments.
    ArgumentsDelta(String),
    /// An item is whole. Each item comes once, also when the stream was cut and asked again.
    ItemDone(ResponseItem),
    /// The response is complete; nothing follows.
    Completed {
        /// Its tokens.
        usage: TokenUsage,
    },
    /// The stream broke and is asked again: deltas of unfinished items are void.
    Restarted {
        /// Which attempt comes now, from 1.
        attempt: u32,
        /// How many there are.
        attempts_max: u32,
        /// How long it waits before, in milliseconds.
        delay_ms: u64,
        /// What broke.
        reason: String,
    },
    /// Something odd that did not stop the response.
    Warning(String),
}

/// Why no (further) answer came. One line for people each, without secrets.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct DriverError {
    /// What kind; decides retry and exit code.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the same again could work.
    pub retryable: bool,
}

/// A boxed stream that owns all it needs.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send + 'static>>;

/// One way to talk to a model.
///
/// The stream ends after `Completed` or after one `Err`. It retries by itself within its
/// bounds and says so with `Restarted`. Dropping it closes the connection at once.
pub trait Driver: Send + Sync {
    /// Sends the prompt and streams the answer.
    fn stream(&self, prompt: Prompt) -> BoxStream<Result<ResponseEvent, DriverError>>;
}

/// Makes drivers: for the session's model, and for others a turn may need.
pub trait DriverFactory: Send + Sync {
    /// Returns the driver for a model, or why there is none (no key, unknown provider).
    fn driver(&self, model: &ModelName) -> Result<Arc<dyn Driver>, DriverError>;
}

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod tests;
