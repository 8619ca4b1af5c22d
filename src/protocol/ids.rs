//! Identifiers as distinct types, so that a call id can never be passed for a name.
//!
//! They are only made here from text or numbers; who mints new ones (a clock, a counter)
//! is the agent. Used by every module.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

text_id!(
    /// The id that ties a tool call to its one output. Chosen by the model's server.
    CallId
);
text_id!(
    /// The name a model calls a tool by, e.g. `exec_command` or `mcp__github__search`.
    ToolName
);
text_id!(
    /// A model's name as the server knows it.
    ModelName
);
text_id!(
    /// One hunk of a proposed patch: `<file>.<change>`; files count from 1, and change 0 is what
    /// happens to the file as a whole.
    HunkId
);
text_id!(
    /// A recorded state of the workspace's files, named by its hash.
    SnapshotId
);

number_id!(
    /// A turn's number within its session, from 1. Zero means "before the first turn".
    TurnId(u32)
);
number_id!(
    /// An event's place in its session file, from 1.
    Seq(u64)
);
number_id!(
    /// A question to the user, numbered within its session.
    AskId(u64)
);
number_id!(
    /// A running command of this session, as the model names it in `write_stdin`.
    ProcessId(u32)
);

/// A session's id: a UUID version 7, so that ids sort by their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub uuid::Uuid);

impl SessionId {
    /// Parses the hyphenated form; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        uuid::Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_hyphenated())
    }
}
