//! What the policy says of one command, apart from any session: allow, ask or deny, and why.
//!
//! The answer of `gimlet execpolicy check`: a rule decides, else whether the command is known to
//! only read. Knows no mode and no approval policy; what those make of it is `decide.rs`. Pure.

use std::path::Path;

use crate::policy::command::{Knowledge, check_command};
use crate::policy::rules::{RuleAction, Rules};
use crate::protocol::CommandLine;

/// What is said of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checked {
    /// The verdict.
    pub(crate) decision: CheckDecision,
    /// Why, as a clause.
    pub(crate) reason: String,
    /// The rule that decided: `rules.toml:3`.
    pub(crate) rule: Option<String>,
    /// Whether it would run outside the sandbox.
    pub(crate) leaves_sandbox: bool,
}

/// A verdict on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckDecision {
    /// It goes on.
    Allow,
    /// It is for the user to say.
    Ask,
    /// It is refused.
    Deny,
}

/// Judges a command that would run in `cwd`.
pub(crate) fn check(command: &CommandLine, rules: &Rules, cwd: &Path, home: &Path) -> Checked {
    if let Some(said) = rules.judge_command(command, cwd, home) {
        let decision = match said.action {
            RuleAction::Allow => CheckDecision::Allow,
            RuleAction::Ask => CheckDecision::Ask,
            RuleAction::Deny => CheckDecision::Deny,
        };
        let (reason, rule) = (said.reason, Some(said.place));
        return Checked { decision, reason, rule, leaves_sandbox: said.leaves_sandbox };
    }
    let (decision, reason) = match check_command(command, Knowledge { tables: true, allows: None })
    {
        Ok(()) => (CheckDecision::Allow, "it is known to only read".to_owned()),
        Err(reason) => (CheckDecision::Ask, reason),
    };
    Checked { decision, reason, rule: None, leaves_sandbox: false }
}
