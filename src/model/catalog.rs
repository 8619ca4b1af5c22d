//! What is known of models by name: a table, and nothing but a table.
//!
//! A name that is not here gets cautious defaults, so a new model works the day it appears.
//! No wish of the user is known here; `cli` and `prompt` put configuration over these values.

use crate::protocol::ModelName;

/// What a model can do and likes best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelInfo {
    /// Tokens of input and output together; `None` when nobody told us.
    pub(crate) context_window: Option<u64>,
    /// How it runs commands.
    pub(crate) shell: ShellTool,
    /// How it edits files.
    pub(crate) apply_patch: PatchTool,
    /// Whether it can call several tools at once.
    pub(crate) parallel_tool_calls: bool,
    /// The effort to ask for; `None` for models that do not reason on request.
    pub(crate) reasoning: Option<&'static str>,
    /// Whether it summarises its reasoning.
    pub(crate) reasoning_summary: bool,
    /// The verbosity to ask for; `None` for models that do not take one.
    pub(crate) verbosity: Option<&'static str>,
    /// Whether it can look at images.
    pub(crate) images: bool,
}

/// The tool a model runs commands with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellTool {
    /// `exec_command` and `write_stdin`: text for a shell, long-running commands.
    ExecCommand,
    /// `shell`: an argument vector.
    Shell,
    /// The server's own `local_shell`.
    LocalShell,
}

/// The form a model writes patches in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchTool {
    /// Free text after a grammar.
    Freeform,
    /// One string in JSON arguments.
    Function,
}

/// For names that are not in the table: common tools, and no claim about the window.
const UNKNOWN: ModelInfo = ModelInfo {
    context_window: None,
    shell: ShellTool::ExecCommand,
    apply_patch: PatchTool::Function,
    parallel_tool_calls: true,
    reasoning: None,
    reasoning_summary: false,
    verbosity: None,
    images: true,
};

const GPT_5: ModelInfo = ModelInfo {
    context_window: Some(400_000),
    shell: ShellTool::ExecCommand,
    apply_patch: PatchTool::Freeform,
    parallel_tool_calls: true,
    reasoning: Some("medium"),
    reasoning_summary: true,
    verbosity: Some("low"),
    images: true,
};

const O_SERIES: ModelInfo = ModelInfo {
    context_window: Some(200_000),
    shell: ShellTool::ExecCommand,
    reasoning: Some("medium"),
    reasoning_summary: true,
    ..UNKNOWN
};

const TEXT_ONLY: ModelInfo = ModelInfo { images: false, ..UNKNOWN };

/// Beginnings of names; a `*` in one stands for any text. The longest that fits wins.
const MODELS: &[(&str, ModelInfo)] = &[
    ("gpt-6", GPT_5),
    ("gpt-5", GPT_5),
    // These take no verbosity but the one they have.
    ("gpt-5*-codex", ModelInfo { verbosity: None, ..GPT_5 }),
    ("gpt-5*-chat", ModelInfo { context_window: Some(128_000), ..UNKNOWN }),
    // It takes no other effort.
    ("gpt-5-pro", ModelInfo { reasoning: Some("high"), ..GPT_5 }),
    ("o1", ModelInfo { reasoning_summary: false, parallel_tool_calls: false, ..O_SERIES }),
    (
        "o1-mini",
        ModelInfo { context_window: Some(128_000), parallel_tool_calls: false, ..TEXT_ONLY },
    ),
    (
        "o1-preview",
        ModelInfo { context_window: Some(128_000), parallel_tool_calls: false, ..TEXT_ONLY },
    ),
    ("o3", O_SERIES),
    ("o4-mini", O_SERIES),
    (
        "codex-mini-latest",
        ModelInfo {
            shell: ShellTool::LocalShell,
            // Its shell has no room for a second call beside it.
            parallel_tool_calls: false,
            ..O_SERIES
        },
    ),
    ("gpt-4.1", ModelInfo { context_window: Some(1_047_576), ..UNKNOWN }),
    ("gpt-4o", ModelInfo { context_window: Some(128_000), ..UNKNOWN }),
    (
        "gpt-oss",
        ModelInfo { context_window: Some(131_072), reasoning: Some("medium"), ..TEXT_ONLY },
    ),
    ("qwen", TEXT_ONLY),
    ("llama", TEXT_ONLY),
    ("deepseek", TEXT_ONLY),
    ("mistral", TEXT_ONLY),
    ("codestral", TEXT_ONLY),
    ("devstral", TEXT_ONLY),
    ("phi", TEXT_ONLY),
];

/// Names to choose from where nobody typed one.
pub(crate) const NAMES: &[&str] =
    &["gpt-5.5", "gpt-5.5-codex", "gpt-5-mini", "gpt-4.1", "o3", "o4-mini", "gpt-oss-120b"];

/// Returns what is known of a model. A provider's prefix such as `openai/` does not matter,
/// nor does the `ft:` of a tuned one.
pub(crate) fn lookup(model: &ModelName) -> ModelInfo {
    let name = model.as_str().to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let known = MODELS.iter().filter(|(start, _)| begins_with(name, start));
    known.max_by_key(|(start, _)| start.len()).map_or(UNKNOWN, |(_, info)| *info)
}

fn begins_with(name: &str, start: &str) -> bool {
    match start.split_once('*') {
        Some((start, part)) => name.strip_prefix(start).is_some_and(|rest| rest.contains(part)),
        None => name.starts_with(start),
    }
}
