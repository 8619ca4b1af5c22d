//! `ToolError`: why a call did not do what was asked, and what the model is told of it.
//!
//! All but `Stop` and `Fatal` become the call's output, and the turn goes on.

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The arguments are not what the tool takes.
    #[error("invalid arguments: {0}")]
    InvalidArguments(String),
    /// There is no such tool, or it cannot be called now.
    #[error("{0}")]
    Unavailable(String),
    /// Policy or the user refused it.
    #[error("declined: {0}")]
    Denied(String),
    /// The sandbox stopped the command.
    #[error("the sandbox stopped the command")]
    SandboxDenied {
        /// What the command printed, for the model.
        output: String,
        /// Its exit code.
        exit_code: Option<i32>,
    },
    /// It tried and could not.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("timed out after {after_ms} ms")]
    Timeout {
        /// How long it was given, in milliseconds.
        after_ms: u64,
        /// What it printed until then, for the model.
        output: String,
    },
    /// The turn was stopped meanwhile.
    #[error("interrupted")]
    Interrupted,
    /// The turn must end here, by its own wish.
    #[error("{0}")]
    Stop(String),
    /// The turn cannot go on.
    #[error("{0}")]
    Fatal(String),
}

impl ToolError {
    /// Returns a short fixed word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidArguments(_) => "invalid_arguments",
            Self::Unavailable(_) => "tool_unavailable",
            Self::Denied(_) => "denied",
            Self::SandboxDenied { .. } => "sandbox_denied",
            Self::Failed(_) => "tool_execution_failed",
            Self::Timeout { .. } => "timeout",
            Self::Interrupted => "interrupted",
            Self::Stop(_) => "stop",
            Self::Fatal(_) => "fatal",
        }
    }

    /// Returns the text the model reads as the call's output.
    pub fn for_model(&self) -> String {
        match self {
            Self::SandboxDenied { output, .. } => {
                let output = output.trim_end();
                format!("{output}\n\nThe sandbox stopped this command. {SANDBOX_ADVICE}")
            }
            Self::Timeout { after_ms, output } if output.is_empty() => {
                format!("timed out after {after_ms} ms; nothing was printed")
            }
            Self::Timeout { output, .. } => output.clone(),
            other => other.to_string(),
        }
    }
}

/// What a model can do when the sandbox stops it.
const SANDBOX_ADVICE: &str =
    "Work within the workspace, or ask for escalation with a justification if the task needs more.";
