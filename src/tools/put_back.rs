//! Puts secrets back into a call whose model knows them only by their tokens.
//!
//! Only where they cannot leave: into files of the workspace, and into commands that run
//! confined and without a network. Everywhere else a token stays a token, or the call is
//! refused. Steps of the pipeline in `executor.rs`, the only caller.

use std::path::Path;

use crate::protocol::{
    Decision, DecisionAction, Effect, Network, SandboxMode, ToolCall, ToolPayload,
};
use crate::tools::executor::Planned;
use crate::tools::{Executor, SecretPlace, ToolError};

/// What every token begins with.
const TOKEN_START: &str = "[secret:";

impl Executor {
    /// Returns the call and its effect with secrets in the place of tokens; `None` where there
    /// are none, or where none are put back.
    pub(in crate::tools) async fn put_secrets_back(
        &self,
        call: &ToolCall,
        planned: &Planned,
    ) -> Result<Option<(ToolCall, Planned)>, ToolError> {
        let place = match &planned.effect {
            Effect::Write { .. } => SecretPlace::Files,
            Effect::Run { .. } | Effect::Input { .. } => SecretPlace::CommandLine,
            // Secrets never go to servers, and nothing is found by them.
            Effect::None
            | Effect::Read { .. }
            | Effect::Fetch { .. }
            | Effect::Remote { .. }
            | Effect::Agent { .. } => return Ok(None),
        };
        if !holds_token(call) {
            return Ok(None);
        }
        let real = self.link.reveal(call.clone(), place).await;
        let real = real.map_err(ToolError::InvalidArguments)?;
        if real == *call {
            return Ok(None);
        }
        let effect = planned.handler.effect(&real, &self.turn.cwd)?;
        Ok(Some((real, Planned { handler: planned.handler.clone(), effect })))
    }

    /// Refuses a call by which its secrets could leave.
    pub(in crate::tools) fn keep_secrets_inside(
        &self,
        effect: &Effect,
        decision: &Decision,
    ) -> Result<(), ToolError> {
        let turn = &self.turn;
        let is_confined = turn.sandbox.mode != SandboxMode::DangerFullAccess
            && turn.sandbox.network == Network::Off
            && !matches!(
                decision.action,
                DecisionAction::AllowUnsandboxed | DecisionAction::AskUnsandboxed
            );
        let inside = |path: &Path| {
            path.starts_with(&turn.cwd)
                || turn.sandbox.roots.iter().any(|root| path.starts_with(root))
        };
        let why = match effect {
            Effect::Run { network: Network::Off, escalate: None, .. } if is_confined => {
                return Ok(());
            }
            // What is asked about may have been started outside, or with a network.
            Effect::Input { .. } if is_confined && decision.action == DecisionAction::Allow => {
                return Ok(());
            }
            Effect::Write { changes }
                if changes.iter().all(|change| {
                    inside(&change.path) && change.move_to.as_deref().is_none_or(inside)
                }) =>
            {
                return Ok(());
            }
            Effect::Write { .. } => "a masked secret is written only into files of the workspace",
            Effect::Run { .. }
            | Effect::Input { .. }
            | Effect::None
            | Effect::Read { .. }
            | Effect::Fetch { .. }
            | Effect::Remote { .. }
            | Effect::Agent { .. } => {
                "a masked secret is put only into commands that run in the sandbox without a \
                 network; let the command read the secret itself, from its file or its variable"
            }
        };
        Err(ToolError::Denied(why.to_owned()))
    }
}

/// Returns whether a call may hold a token: most do not, and need not be asked about.
fn holds_token(call: &ToolCall) -> bool {
    match &call.payload {
        ToolPayload::Function { arguments } => arguments.contains(TOKEN_START),
        ToolPayload::Custom { input, .. } => input.contains(TOKEN_START),
        ToolPayload::LocalShell { command, .. } => {
            command.iter().any(|word| word.contains(TOKEN_START))
        }
    }
}
