//! A session's settings between turns, and the snapshot of them that a turn sees.
//!
//! Pure: configuration in, values out. Settings change only between turns, by `Op`s. Knows no
//! channel and no file. Called by `session.rs` and `opening.rs`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::config::Config;
use crate::model::catalog;
use crate::protocol::ApprovalPolicy;
use crate::protocol::ModelName;
use crate::protocol::ModelSettings;
use crate::protocol::Network;
use crate::protocol::SandboxLevel;
use crate::protocol::SandboxMode;
use crate::protocol::SandboxPolicy;
use crate::protocol::SessionId;
use crate::protocol::SettingsPatch;
use crate::tools::SeenFiles;
use crate::tools::TurnContext;

/// How long a command may take when the call does not say.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes that a token of output is counted as, as the peer and its users count.
const BYTES_PER_TOKEN: u64 = 4;

/// Settings that may change between turns.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    config: Arc<Config>,
    pub(super) model: ModelName,
    effort: Option<String>,
    pub(super) approval: ApprovalPolicy,
    sandbox: SandboxMode,
    pub(super) output_schema: Option<Value>,
}

/// What a session knows of its surroundings; the same from start to end.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub(super) env: Arc<[(String, String)]>,
    pub(super) shell: String,
    pub(super) level: SandboxLevel,
    pub(super) level_reason: Option<String>,
    pub(super) exposed: Option<String>,
    pub(super) interactive: bool,
    pub(super) seen: SeenFiles,
}

impl Settings {
    /// Returns the settings a session starts with.
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self {
            model: config.model.clone(),
            effort: config.reasoning_effort.clone(),
            approval: config.approval,
            sandbox: config.sandbox.mode,
            output_schema: None,
            config,
        }
    }

    /// Puts changes in. The schema belongs to one turn alone, so it is always replaced.
    pub(super) fn apply(&mut self, patch: SettingsPatch) {
        let SettingsPatch { model, effort, approval, sandbox, output_schema } = patch;
        self.model = model.unwrap_or_else(|| self.model.clone());
        self.effort = effort.or_else(|| self.effort.take());
        self.approval = approval.unwrap_or(self.approval);
        self.sandbox = sandbox.unwrap_or(self.sandbox);
        self.output_schema = output_schema;
    }

    /// Returns what commands and file tools can reach with this much of a sandbox: single hosts
    /// need a network of the command's own, else it has none.
    pub(super) fn policy_at(&self, level: SandboxLevel) -> SandboxPolicy {
        let mut policy = self.sandbox_policy();
        if level < SandboxLevel::Full && matches!(policy.network, Network::Hosts(_)) {
            policy.network = Network::Off;
        }
        policy
    }

    /// Returns what commands and file tools may reach.
    pub(super) fn sandbox_policy(&self) -> SandboxPolicy {
        self.config.sandbox.policy(self.sandbox, &self.config.cwd)
    }

    /// Returns how the model should answer: the user's wish, else what the catalogue knows.
    pub(super) fn model_settings(&self, session: SessionId) -> ModelSettings {
        let info = catalog::lookup(&self.model);
        let known = |value: Option<&'static str>| value.map(str::to_owned);
        let summary = match self.config.reasoning_summary.as_deref() {
            Some("none") => None,
            Some(wish) => Some(wish.to_owned()),
            None => info.reasoning_summary.then(|| "auto".to_owned()),
        };
        ModelSettings {
            model: self.model.clone(),
            effort: self.effort.clone().or(known(info.reasoning)),
            summary,
            verbosity: self.config.verbosity.clone().or(known(info.verbosity)),
            tier: self.config.service_tier.clone(),
            cache_key: session.to_string(),
        }
    }

    /// Returns the model's window in tokens, where known.
    pub(super) fn context_window(&self) -> Option<u64> {
        self.config.context_window.or(catalog::lookup(&self.model).context_window)
    }

    /// Returns whether the model may call several tools at once.
    pub(super) fn parallel_tool_calls(&self) -> bool {
        catalog::lookup(&self.model).parallel_tool_calls
    }

    /// Returns the snapshot a turn sees.
    pub(super) fn turn_context(&self, around: &Surroundings) -> TurnContext {
        let output_bytes_max = self.config.tool_output_tokens_max.saturating_mul(BYTES_PER_TOKEN);
        TurnContext {
            cwd: self.config.cwd.clone(),
            home: self.config.directories.home.clone(),
            model: self.model.clone(),
            approval: self.approval,
            sandbox: self.policy_at(around.level),
            sandbox_level: around.level,
            sandbox_fallback: self.config.sandbox.fallback,
            env: Arc::clone(&around.env),
            shell: around.shell.clone(),
            command_timeout: COMMAND_TIMEOUT,
            output_bytes_max: usize::try_from(output_bytes_max).unwrap_or(usize::MAX),
            interactive: around.interactive,
            journal: self.config.directories.state.join("journal"),
            rules: Arc::clone(&self.config.rules),
        }
    }
}
