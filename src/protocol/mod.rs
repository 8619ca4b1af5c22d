//! The vocabulary: plain data that every other module speaks.
//!
//! It knows no file, no clock, no network and no other module. All types are serde
//! and `PartialEq`; none has a method that does IO. Everyone imports it.
//! `Event` is a file format: changes are additive, see `event.rs`.

mod effect;
mod event;
mod grant;
mod ids;
mod item;
mod op;
mod policy;
mod prompt;
mod tool;

pub use effect::{ChangeKind, CommandLine, Effect, FileChange, Justification, RemoteHints};
pub use event::{
    CallOutcome, ChangeSource, DeltaKind, EVENT_VERSION, ErrorKind, Event, EventMsg, LimitKind,
    McpStatus, OutputStream, PlanStatus, PlanStep, PrefixShare, StopCause, TokenUsage, TurnOutcome,
    WarningKind,
};
pub use grant::{Grant, GrantKey, Reach};
pub use ids::{
    AskId, CallId, HunkId, ModelName, ProcessId, Seq, SessionId, SnapshotId, ToolName, TurnId,
};
pub use item::{
    ContentItem, CustomToolCall, FunctionCall, LocalShellAction, LocalShellCall, Message,
    OutputBody, Reasoning, ResponseItem, Role, ToolCallOutput, WebSearchCall,
};
pub use op::{
    Answer, AnswerScope, ApprovalDecision, Ask, Hunk, Op, QueueEdit, RestoreDirection, RestoreWhat,
    SettingsPatch, UserInput, When,
};
pub use policy::{
    ApprovalPolicy, Decision, DecisionAction, GitAccess, HostRule, Network, Pattern, SandboxLevel,
    SandboxMode, SandboxPolicy,
};
pub use prompt::{EncodedItem, ModelSettings, Prompt, ToolChoice};
pub use tool::{
    Availability, Capability, Grammar, SideEffects, ToolCall, ToolOutput, ToolPayload, ToolSafety,
    ToolSpec,
};

#[cfg(test)]
mod tests;
