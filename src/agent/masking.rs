//! Masks secrets in what comes from outside, before a model, a screen or the log has it.
//!
//! Outputs of calls are masked when they end, live output as it comes, and what servers say in
//! errors as an event. What the model and the user say themselves is left alone. Owned by the
//! bus, and so by the session task: tokens need no lock.

use std::collections::HashMap;

use serde_json::Value;

use crate::protocol::{
    Ask, CallId, ContentItem, Effect, EventMsg, FileChange, OutputStream, ToolCall, ToolOutput,
    ToolPayload, TurnOutcome,
};
use crate::text::secrets::{KnownSecret, MaskedStream, UnknownToken, Vault};
use crate::tools::SecretPlace;

/// How deep a result for programs is looked into; what lies deeper is dropped.
const DEPTH_MAX: usize = 64;

/// The masking of one session; does nothing when it is switched off.
#[derive(Debug, Default)]
pub(super) struct Masking {
    vault: Option<Vault>,
    /// Live output of running calls.
    streams: HashMap<CallId, MaskedStream>,
}

/// Why secrets cannot be put back.
enum Refusal {
    Unknown(String),
    Shell(String),
}

impl From<UnknownToken> for Refusal {
    fn from(UnknownToken(token): UnknownToken) -> Self {
        Self::Unknown(token)
    }
}

impl Masking {
    /// Returns a masking that knows these secrets beforehand. The words that end its tokens are
    /// drawn from `seed`.
    pub(super) fn new(seed: u64, known: &[KnownSecret]) -> Self {
        Self { vault: Some(Vault::new(seed, known)), streams: HashMap::new() }
    }

    /// Returns what a call gave back, masked.
    pub(super) fn output(&mut self, mut output: ToolOutput) -> ToolOutput {
        let Some(vault) = &mut self.vault else { return output };
        for part in &mut output.content {
            match part {
                ContentItem::InputText(text) | ContentItem::OutputText(text, _) => {
                    mask_text(vault, text);
                }
                ContentItem::Other(value) => mask_value(vault, value, DEPTH_MAX),
                ContentItem::InputImage(..) => {}
            }
        }
        if let Some(value) = &mut output.structured {
            mask_value(vault, value, DEPTH_MAX);
        }
        output
    }

    /// Returns the live output that was held back and must be shown before this event.
    pub(super) fn held_before(
        &mut self,
        call_id: Option<&CallId>,
        msg: &EventMsg,
    ) -> Option<EventMsg> {
        let (EventMsg::ToolCallEnd { .. }, Some(id)) = (msg, call_id) else { return None };
        let stream = self.streams.remove(id)?;
        let text = stream.finish(self.vault.as_mut()?);
        (!text.is_empty()).then_some(EventMsg::ToolCallDelta { stream: OutputStream::Output, text })
    }

    /// Returns the event with what comes from outside masked; `None` while all of it is held.
    pub(super) fn event(&mut self, call_id: Option<&CallId>, msg: EventMsg) -> Option<EventMsg> {
        let Some(vault) = &mut self.vault else { return Some(msg) };
        let mut msg = msg;
        match &mut msg {
            EventMsg::ToolCallDelta { stream: OutputStream::Output, text } => {
                let stream = self.streams.entry(call_id.cloned().unwrap_or_default()).or_default();
                *text = stream.push(text, vault);
                if text.is_empty() {
                    return None;
                }
            }
            EventMsg::ToolCallDelta { stream: OutputStream::Progress, text } => {
                mask_text(vault, text);
            }
            EventMsg::FilesChanged { changes, .. } | EventMsg::Restored { changes, .. } => {
                mask_changes(vault, changes);
            }
            EventMsg::AskOpened {
                question: Ask::Approval { reason, effect, shown, .. }, ..
            } => {
                mask_text(vault, reason);
                // A host comes from the command that runs; other calls are the model's words.
                if let Effect::Fetch { url } = effect {
                    mask_text(vault, url);
                    mask_text(vault, shown);
                }
            }
            EventMsg::NetworkAttempt { host, .. } => mask_text(vault, host),
            EventMsg::AskOpened { question: Ask::Elicitation { message, .. }, .. } => {
                mask_text(vault, message);
            }
            EventMsg::ToolCallBegin { decision: Some(decision), .. } => {
                mask_text(vault, &mut decision.reason);
            }
            EventMsg::McpServerStatus { error: Some(error), .. } => mask_text(vault, error),
            EventMsg::ProcessStarted { command, .. } => mask_text(vault, command),
            EventMsg::HookRan { outcome, .. } => mask_text(vault, outcome),
            EventMsg::Warning { message, hint, .. } | EventMsg::Error { message, hint, .. } => {
                mask_text(vault, message);
                hint.iter_mut().for_each(|hint| mask_text(vault, hint));
            }
            EventMsg::TurnEnded { outcome, .. } => mask_outcome(vault, outcome),
            EventMsg::AgentEnded { outcome, result, .. } => {
                mask_outcome(vault, outcome);
                result.iter_mut().for_each(|result| mask_text(vault, result));
            }
            // What the user and the model say, what is masked already, and what holds no text.
            EventMsg::SessionStarted { .. }
            | EventMsg::TurnStarted { .. }
            | EventMsg::Steered { .. }
            | EventMsg::RequestStarted { .. }
            | EventMsg::ItemDelta { .. }
            | EventMsg::ItemCompleted { .. }
            | EventMsg::ToolCallBegin { decision: None, .. }
            | EventMsg::ToolCallEnd { .. }
            | EventMsg::AskOpened { question: Ask::Question { .. }, .. }
            | EventMsg::AskAnswered { .. }
            | EventMsg::GrantApplied { .. }
            | EventMsg::PlanUpdated { .. }
            | EventMsg::TokenCount { .. }
            | EventMsg::SnapshotTaken { .. }
            | EventMsg::Compacted { .. }
            | EventMsg::Repaired { .. }
            | EventMsg::QueueChanged { .. }
            | EventMsg::ProcessEnded { .. }
            | EventMsg::SandboxLevel { .. }
            | EventMsg::McpServerStatus { error: None, .. }
            | EventMsg::AgentSpawned { .. }
            | EventMsg::LimitReached { .. } => {}
        }
        Some(msg)
    }

    /// Returns the call with its secrets in the place of their tokens, or why that cannot be.
    pub(super) fn reveal(&self, call: ToolCall, place: SecretPlace) -> Result<ToolCall, String> {
        let Some(vault) = &self.vault else { return Ok(call) };
        let payload = reveal_payload(vault, &call.payload, place);
        match payload {
            Ok(payload) => Ok(ToolCall { payload, ..call }),
            Err(Refusal::Unknown(token)) => Err(format!(
                "{} is not known here (any more), so nothing was done; read it again where it is \
                 kept, and use the token that is shown then",
                name_of(&token)
            )),
            Err(Refusal::Shell(token)) => Err(format!(
                "{} has characters that mean something to a shell, so the command was not run; \
                 change the file with apply_patch, or let the command read the secret itself",
                name_of(&token)
            )),
        }
    }
}

/// Names a secret other than by its token, which in an output would be taken for one to mask.
fn name_of(token: &str) -> String {
    let mut parts = token.split(':').skip(1);
    let (number, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("masked secret {number} ({kind})")
}

fn reveal_payload(
    vault: &Vault,
    payload: &ToolPayload,
    place: SecretPlace,
) -> Result<ToolPayload, Refusal> {
    let check = |secret: &str, token: &str| match place {
        SecretPlace::CommandLine if !is_inert(secret) => Err(Refusal::Shell(token.to_owned())),
        SecretPlace::CommandLine | SecretPlace::Files => Ok(()),
    };
    let plain = |text: &str| {
        let revealed = vault.unmask::<Refusal>(text, |out, secret, token| {
            check(secret, token)?;
            out.push_str(secret);
            Ok(())
        })?;
        Ok::<_, Refusal>(revealed.unwrap_or_else(|| text.to_owned()))
    };
    Ok(match payload {
        ToolPayload::Function { arguments } => {
            let revealed = vault.unmask::<Refusal>(arguments, |out, secret, token| {
                check(secret, token)?;
                // Within a JSON string, so as one without its quotes.
                let quoted = Value::from(secret).to_string();
                out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
                Ok(())
            })?;
            ToolPayload::Function { arguments: revealed.unwrap_or_else(|| arguments.clone()) }
        }
        ToolPayload::Custom { input, workdir } => {
            ToolPayload::Custom { input: plain(input)?, workdir: workdir.clone() }
        }
        ToolPayload::LocalShell { command, workdir, timeout_ms } => ToolPayload::LocalShell {
            command: command.iter().map(|word| plain(word)).collect::<Result<_, _>>()?,
            workdir: workdir.clone(),
            timeout_ms: *timeout_ms,
        },
    })
}

/// Returns whether no shell sees more in a text than the text, quoted or not: what a
/// repository calls a password must not become a command.
fn is_inert(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./+=:@%,".contains(&byte);
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(is_plain)
}

fn mask_text(vault: &mut Vault, text: &mut String) {
    if let std::borrow::Cow::Owned(masked) = vault.mask(text) {
        *text = masked;
    }
}

fn mask_changes(vault: &mut Vault, changes: &mut [FileChange]) {
    changes.iter_mut().for_each(|change| mask_text(vault, &mut change.diff));
}

fn mask_outcome(vault: &mut Vault, outcome: &mut TurnOutcome) {
    match outcome {
        TurnOutcome::Failed { message: text, .. } | TurnOutcome::Denied { reason: text } => {
            mask_text(vault, text);
        }
        TurnOutcome::Completed
        | TurnOutcome::Interrupted { .. }
        | TurnOutcome::LimitReached { .. } => {}
    }
}

/// Masks all texts of a value. A name and its text are looked at together, as in a file.
fn mask_value(vault: &mut Vault, value: &mut Value, depth: usize) {
    if depth == 0 {
        *value = Value::Null;
        return;
    }
    match value {
        Value::String(text) => mask_text(vault, text),
        Value::Array(values) => values.iter_mut().for_each(|v| mask_value(vault, v, depth - 1)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) => mask_named(vault, name, text),
                    other => mask_value(vault, other, depth - 1),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_named(vault: &mut Vault, name: &str, text: &mut String) {
    let before = format!("{name}=\"");
    let line = format!("{before}{text}\"");
    let masked = vault.mask(&line);
    match masked.strip_prefix(&before).and_then(|rest| rest.strip_suffix('"')) {
        Some(value) => *text = value.to_owned(),
        None => mask_text(vault, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: &str) -> Vec<KnownSecret> {
        vec![KnownSecret { name: "MY_TOKEN".to_owned(), value: value.to_owned() }]
    }

    fn token_of(masking: &mut Masking, secret: &str) -> String {
        masking.output(ToolOutput::text(secret)).joined_text()
    }

    fn shell(script: &str) -> ToolCall {
        let arguments = serde_json::json!({ "cmd": script }).to_string();
        let payload = ToolPayload::Function { arguments };
        ToolCall { call_id: "c".into(), name: "exec_command".into(), payload }
    }

    #[test]
    fn a_token_becomes_its_secret_again_where_that_is_safe() {
        let mut masking = Masking::new(7, &known("correct-horse-7"));
        let token = token_of(&mut masking, "correct-horse-7");
        assert!(token.starts_with("[secret:1:my-token:"), "{token}");
        let call = shell(&format!("echo \"{token}\""));
        let real = masking.reveal(call, SecretPlace::CommandLine).unwrap();
        assert_eq!(real, shell("echo \"correct-horse-7\""));
    }

    #[test]
    fn what_a_shell_would_act_on_is_not_put_into_a_command() {
        let mut masking = Masking::new(7, &known("a$(touch /tmp/x)b"));
        let token = token_of(&mut masking, "a$(touch /tmp/x)b");
        let call = shell(&format!("echo {token}"));
        let refused = masking.reveal(call.clone(), SecretPlace::CommandLine).unwrap_err();
        assert!(refused.contains("mean something to a shell"), "{refused}");
        let patched = masking.reveal(call, SecretPlace::Files).unwrap();
        assert_eq!(patched, shell("echo a$(touch /tmp/x)b"));
    }

    #[test]
    fn a_secret_with_quotes_stays_one_string_of_json() {
        let mut masking = Masking::new(7, &known("it's \"quoted\" \\ here"));
        let token = token_of(&mut masking, "it's \"quoted\" \\ here");
        let real = masking.reveal(shell(&token), SecretPlace::Files).unwrap();
        assert_eq!(real, shell("it's \"quoted\" \\ here"));
    }

    #[test]
    fn a_token_of_another_process_is_refused() {
        let masking = Masking::new(7, &[]);
        let call = shell("echo [secret:1:my-token:abcdef]");
        let refused = masking.reveal(call, SecretPlace::CommandLine).unwrap_err();
        assert!(refused.contains("is not known here"), "{refused}");
    }

    #[test]
    fn names_and_texts_of_a_result_for_programs_are_read_together() {
        let mut masking = Masking::new(7, &[]);
        let structured = serde_json::json!({
            "password": "tr0ub4dor&3x", "list": ["correct-horse-7"], "count": 7,
        });
        let output = ToolOutput { structured: Some(structured), ..ToolOutput::text("") };
        let masked = masking.output(output).structured.unwrap();
        assert!(masked["password"].as_str().unwrap().starts_with("[secret:1:password:"));
        assert_eq!(masked["list"][0], "correct-horse-7");
    }
}
