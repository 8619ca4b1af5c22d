//! The executor: one pipeline around every call, whatever the tool.
//!
//! find the handler → effect → validate → before-hooks → judge → begin → ask → record → run →
//! retry or escalate → record → after-hooks → bound → end. Each step is one function; a new
//! concern is a new step, never a branch in a handler. Knows no conversation and no turn:
//! it takes a call and gives back what the model is told. Called by `agent/turn.rs`.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::policy;
use crate::policy::InputReach;
use crate::protocol::CallOutcome;
use crate::protocol::ContentItem;
use crate::protocol::Decision;
use crate::protocol::DecisionAction;
use crate::protocol::Effect;
use crate::protocol::EventMsg;
use crate::protocol::Network;
use crate::protocol::OutputBody;
use crate::protocol::SandboxMode;
use crate::protocol::SideEffects;
use crate::protocol::ToolCall;
use crate::protocol::ToolOutput;
use crate::protocol::ToolSpec;
use crate::protocol::WarningKind;
use crate::sandbox::CommandRunner;
use crate::sandbox::Input;
use crate::store;
use crate::store::snapshot::SnapshotWorker;
use crate::text;
use crate::tools::FileAccess;
use crate::tools::RunningProcess;
use crate::tools::SeenFiles;
use crate::tools::SessionLink;
use crate::tools::ToolContext;
use crate::tools::ToolError;
use crate::tools::ToolHandler;
use crate::tools::ToolRegistry;
use crate::tools::TurnContext;
use crate::tools::approval::Cleared;
use crate::tools::approval::typed;

/// No call takes longer, whatever its own bound says: a little more than a command may ask.
const CALL_TIMEOUT: Duration = Duration::from_secs(3_660);
/// How long a cancelled call may take to stop its children before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_millis(2_500);
/// Images of one call that reach the model, in number and in bytes of their URLs: one image of
/// the largest size servers take, or a few smaller ones.
const IMAGES_MAX: usize = 8;
const IMAGE_BYTES_MAX: usize = 16 << 20;
/// Parts of other kinds: empty ones cost no bytes, yet each is an item to the model's server.
const TEXT_PARTS_MAX: usize = 256;
/// Bytes of a result for programs; it is kept in the log.
const STRUCTURED_BYTES_MAX: usize = 1 << 20;
/// How often an idempotent call that failed is tried in all.
const IDEMPOTENT_TRIES: u32 = 2;

/// Runs calls within one turn.
#[derive(Clone)]
pub struct Executor {
    /// The session's tools.
    pub registry: Arc<ToolRegistry>,
    /// The turn's settings.
    pub turn: Arc<TurnContext>,
    /// Runs commands.
    pub runner: Arc<dyn CommandRunner>,
    /// Records the workspace around calls that can write; `None` when undo is switched off.
    pub(crate) snapshots: Option<SnapshotWorker>,
    /// The line to the session.
    pub link: SessionLink,
    /// What the session's model has seen of which file.
    pub seen: SeenFiles,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
}

/// A call whose effect is known, or which has none because it is wrong.
pub struct Prepared {
    call: ToolCall,
    planned: Result<Planned, ToolError>,
}

pub(in crate::tools) struct Planned {
    pub(in crate::tools) handler: Arc<dyn ToolHandler>,
    pub(in crate::tools) effect: Effect,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// The body of the output item.
    pub body: OutputBody,
    /// Set when the turn must end here.
    pub stop: Option<Stop>,
}

/// Why a call ends its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The tool wished it.
    Asked(String),
    /// It cannot go on.
    Fatal(String),
    /// The user refused and wants to be heard.
    Denied(String),
}

/// How a call ended, before it is told to anyone.
pub(super) struct Ended {
    pub(super) result: Result<ToolOutput, ToolError>,
    pub(super) stop: Option<Stop>,
    /// What the model is told beside it: what the user changed or said.
    pub(super) told: Vec<String>,
}

impl Executor {
    /// Finds the handler and the effect of a call. Pure; what is wrong is told by `execute`.
    pub fn prepare(&self, call: ToolCall) -> Prepared {
        let planned = self.plan(&call);
        Prepared { call, planned }
    }

    /// Runs a call through the pipeline. Never fails: what went wrong is in what comes back,
    /// and the call's end is an event in any case.
    pub async fn execute(&self, prepared: Prepared) -> Executed {
        let started = Instant::now();
        let Prepared { call, planned } = prepared;
        let ended = match planned {
            Ok(planned) => match self.run_planned(&call, planned).await {
                Ok(ended) | Err(ended) => ended,
            },
            Err(error) => Ended::from(Err(error)),
        };
        self.report_end(call, ended, started.elapsed()).await
    }

    /// Ends a call without running it, for the reason given.
    pub async fn refuse(&self, call: ToolCall, why: ToolError) -> Executed {
        self.report_end(call, Ended::from(Err(why)), Duration::ZERO).await
    }

    pub(super) fn plan(&self, call: &ToolCall) -> Result<Planned, ToolError> {
        let handler = self.find_handler(call)?;
        let effect = handler.effect(call, &self.turn.cwd)?;
        validate_arguments(handler.as_ref(), &effect)?;
        Ok(Planned { handler, effect })
    }

    async fn run_planned(&self, call: &ToolCall, planned: Planned) -> Result<Ended, Ended> {
        let failed = |error| Ended::from(Err(error));
        let cleared = self.weigh(call.clone(), planned, Vec::new()).await.map_err(failed)?;
        self.begin(call, &cleared.planned.effect, &cleared.decision).await;
        self.check_secrets(&cleared).map_err(failed)?;
        let cleared = self.clear(cleared).await?;
        if self.cancel.is_cancelled() {
            return Err(failed(ToolError::Interrupted));
        }
        let effect = cleared.planned.effect.clone();
        let handler = Arc::clone(&cleared.planned.handler);
        if has_side_effects(&effect) {
            self.recover_edits(call).await;
        }
        let mut recording = self.record_before(call, &effect, &cleared.decision).await;
        if recording.is_none() && self.cancel.is_cancelled() {
            return Err(failed(ToolError::Interrupted));
        }
        if let Err(ended) = self.reach_disk(&effect).await {
            self.record_after(recording, call, &effect).await;
            return Err(ended);
        }
        let result = self.run_cleared(&cleared).await;
        let ended = self.escalate_if_denied(cleared, result, &mut recording).await;
        if recording.is_none() {
            self.record_beside(&*handler).await;
        }
        self.record_after(recording, call, &effect).await;
        Ok(ended)
    }

    /// Judges a call: as it would run, with its secrets in their places.
    pub(super) async fn weigh(
        &self,
        call: ToolCall,
        planned: Planned,
        told: Vec<String>,
    ) -> Result<Cleared, ToolError> {
        let real = self.put_secrets_back(&call, &planned).await?;
        let effect = real.as_ref().map_or(&planned.effect, |(_, real)| &real.effect);
        let process = self.find_reader(effect).await;
        let to_judge = real.as_ref().map_or(&call, |(call, _)| call);
        let decision = self.judge(to_judge, effect, process.as_ref());
        Ok(Cleared { call, planned, real, process, keep: None, decision, told })
    }

    /// Refuses a call by which the secrets it holds could leave.
    pub(super) fn check_secrets(&self, cleared: &Cleared) -> Result<(), ToolError> {
        match &cleared.real {
            Some((_, real)) if cleared.decision.action != DecisionAction::Deny => {
                self.keep_secrets_inside(&real.effect, &cleared.decision)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a call as it was let through.
    pub(super) async fn run_cleared(&self, cleared: &Cleared) -> Result<ToolOutput, ToolError> {
        let (call, planned) = cleared.to_run();
        let mut cx = self.context(call, &planned.effect, cleared.is_confined());
        cx.keep.clone_from(&cleared.keep);
        if cleared.decision.action == DecisionAction::AllowReadOnly {
            cx.restrict_to_reading();
        }
        self.run_with_retry(call, planned, &cx).await
    }

    fn find_handler(&self, call: &ToolCall) -> Result<Arc<dyn ToolHandler>, ToolError> {
        let Some(handler) = self.registry.find(&call.name) else {
            return Err(ToolError::Unavailable(self.registry.unknown(&call.name)));
        };
        match handler.available() {
            crate::protocol::Availability::Yes => Ok(Arc::clone(handler)),
            crate::protocol::Availability::No { reason } => Err(ToolError::Unavailable(reason)),
        }
    }

    pub(super) fn judge(
        &self,
        call: &ToolCall,
        effect: &Effect,
        process: Option<&RunningProcess>,
    ) -> Decision {
        let around = policy::Circumstances {
            approval: self.turn.approval,
            sandbox: &self.turn.sandbox,
            level: self.turn.sandbox_level,
            fallback: self.turn.sandbox_fallback,
            interactive: self.turn.interactive,
            home: &self.turn.home,
            rules: &self.turn.rules,
        };
        match effect {
            Effect::Input { .. } => {
                let text = typed(call);
                let before = process.map(RunningProcess::unfinished).unwrap_or_default();
                let typed = process.map(|process| policy::Typed {
                    command: process.line(),
                    cwd: process.cwd(),
                    before: &before,
                    text: &text,
                    keyboard: match process.input() {
                        Input::Terminal(_) => policy::Keyboard::Terminal,
                        Input::Pipe | Input::Empty => policy::Keyboard::Pipe,
                    },
                });
                let reach = process.map_or(InputReach::AsNow, |process| self.reach_of(process));
                let input = policy::InputTo { reach, typed };
                policy::decide_input(&input, effect, &call.name.0, &around)
            }
            effect => policy::decide(effect, &call.name.0, &around),
        }
    }

    /// Returns the running command that input is for. One that is gone reaches nothing; the
    /// handler says that it is.
    async fn find_reader(&self, effect: &Effect) -> Option<RunningProcess> {
        let Effect::Input { process } = effect else { return None };
        self.link.find_process(*process).await.ok()
    }

    /// Compares what confines a running command with what confines commands now.
    fn reach_of(&self, process: &RunningProcess) -> InputReach {
        let now = &self.turn.sandbox;
        let within = match process.sandbox() {
            None => now.mode == SandboxMode::DangerFullAccess,
            Some(its) => {
                let only_reads = its.mode == SandboxMode::ReadOnly && its.network == Network::Off;
                its == now || (only_reads && its.deny_read == now.deny_read)
            }
        };
        if within { InputReach::AsNow } else { InputReach::Further }
    }

    /// Writes the call down before anything happens.
    async fn begin(&self, call: &ToolCall, effect: &Effect, decision: &Decision) {
        let is_plain = decision.action == DecisionAction::Allow && decision.rule.is_none();
        let said = (!is_plain).then(|| decision.clone());
        let msg =
            EventMsg::ToolCallBegin { call: call.clone(), effect: effect.clone(), decision: said };
        self.link.event(Some(call.call_id.clone()), None, msg).await;
    }

    /// For calls with side effects waits until all that was written down is on disk: no command
    /// runs that a log could not tell of.
    pub(super) async fn reach_disk(&self, effect: &Effect) -> Result<(), Ended> {
        if has_side_effects(effect) && !self.link.sync().await {
            return Err(Ended::unwritable());
        }
        Ok(())
    }

    /// Finishes or takes back what a killed process left of an edit, before anything builds on
    /// it. Costs one look at a directory when there is nothing.
    async fn recover_edits(&self, call: &ToolCall) {
        let turn = Arc::clone(&self.turn);
        let work = move || {
            let mut roots = turn.sandbox.roots.clone();
            roots.push(turn.cwd.clone());
            store::commit::recover(&turn.journal, &roots)
        };
        for message in tokio::task::spawn_blocking(work).await.unwrap_or_default() {
            let msg = EventMsg::Warning { kind: WarningKind::Files, message, hint: None };
            self.link.event(Some(call.call_id.clone()), None, msg).await;
        }
    }

    fn context(&self, call: &ToolCall, effect: &Effect, confined: bool) -> ToolContext {
        ToolContext {
            turn: Arc::clone(&self.turn),
            runner: Arc::clone(&self.runner),
            files: FileAccess::new(effect, &self.turn.sandbox, &self.turn.home),
            link: self.link.clone(),
            seen: self.seen.clone(),
            call_id: call.call_id.clone(),
            cancel: self.cancel.clone(),
            confined,
            keep: None,
        }
    }

    /// Runs the handler, and once more when it failed and calling twice is as calling once.
    /// What fails on this machine fails again; only a failure beyond it may have passed.
    async fn run_with_retry(
        &self,
        call: &ToolCall,
        planned: &Planned,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let safety = planned.handler.safety();
        let may_pass = safety.idempotent && safety.side_effects == SideEffects::External;
        let mut tries = if may_pass { IDEMPOTENT_TRIES } else { 1 };
        loop {
            tries -= 1;
            let result = self.run_bounded(call, planned, cx).await;
            match result {
                Err(ToolError::Failed(_)) if tries > 0 => {}
                result => return result,
            }
        }
    }

    async fn run_bounded(
        &self,
        call: &ToolCall,
        planned: &Planned,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let run = planned.handler.run(call, cx);
        if matches!(planned.effect, Effect::Write { .. }) {
            // Its work is bounded, and it sees the cancellation itself up to the point from
            // which it must end as a whole, and tell what it did.
            return run.await;
        }
        // A handler sees the cancellation itself and stops what it started; one that does not
        // is dropped after a grace, which stops it as well.
        let cancelled = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::select! {
            result = tokio::time::timeout(CALL_TIMEOUT, run) => result.unwrap_or_else(|_| {
                let after_ms = u64::try_from(CALL_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
                Err(ToolError::Timeout { after_ms, output: String::new() })
            }),
            () = cancelled => Err(ToolError::Interrupted),
        }
    }

    /// Bounds what the model reads, writes the end down, and returns what it reads.
    async fn report_end(&self, call: ToolCall, ended: Ended, duration: Duration) -> Executed {
        let outcome = outcome_of(&ended.result);
        let (output, code) = match ended.result {
            Ok(output) => (output, None),
            Err(error) => {
                let exit_code = match &error {
                    ToolError::SandboxDenied { exit_code, .. } => *exit_code,
                    _ => None,
                };
                let output = ToolOutput { exit_code, ..ToolOutput::failure(error.for_model()) };
                (output, Some(error.code().to_owned()))
            }
        };
        // Masked as a whole, and only then cut: a cut could leave half a secret.
        let output = self.link.mask(output).await;
        let bytes_max = self.turn.output_bytes_max;
        let told = match ended.told.is_empty() {
            true => String::new(),
            false => self.link.mask(ToolOutput::text(ended.told.join("\n"))).await.joined_text(),
        };
        let told = text::truncate::bound(&told, bytes_max / 2);
        let mut output = bound_for_model(output, bytes_max.saturating_sub(told.len()));
        append_text(&mut output, &told);
        let body = output.body();
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(tool = %call.name, call_id = %call.call_id, ?outcome, duration_ms, "call ended");
        let msg = EventMsg::ToolCallEnd { tool: call.name, outcome, output, duration_ms, code };
        self.link.event(Some(call.call_id), None, msg).await;
        Executed { body, stop: ended.stop }
    }
}

impl Prepared {
    /// Returns the call alone.
    pub fn into_call(self) -> ToolCall {
        self.call
    }

    /// Returns whether the call only looks: it may start at once and beside others. A wrong
    /// call is answered without running anything, so it may as well.
    pub fn is_read_only(&self) -> bool {
        self.planned.as_ref().map_or(true, |planned| planned.effect.is_read_only())
    }

    /// Returns whether the call must run with no other beside it.
    pub fn runs_alone(&self) -> bool {
        // What is typed is judged with what was typed before.
        let alone = |effect: &Effect| matches!(effect, Effect::Write { .. } | Effect::Input { .. });
        self.planned.as_ref().is_ok_and(|planned| alone(&planned.effect))
    }
}

/// Checks arguments whose schema is somebody else's. Our own tools derive the schema from the
/// very struct that parsed them, so `effect` has checked those already.
fn validate_arguments(handler: &dyn ToolHandler, effect: &Effect) -> Result<(), ToolError> {
    let Effect::Remote { arguments, .. } = effect else { return Ok(()) };
    let ToolSpec::Function { parameters, .. } = handler.spec() else { return Ok(()) };
    // A server's schema that does not compile checks nothing; the server will say what it wants.
    let Ok(validator) = jsonschema::validator_for(&parameters) else { return Ok(()) };
    match validator.validate(arguments) {
        Ok(()) => Ok(()),
        Err(error) => {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the arguments".to_owned() } else { place };
            Err(ToolError::InvalidArguments(text::truncate::bound(
                &format!("{place}: {error}"),
                1_000,
            )))
        }
    }
}

/// Returns whether the log must be on disk before the call runs.
pub(super) fn has_side_effects(effect: &Effect) -> bool {
    match effect {
        Effect::None | Effect::Read { .. } => false,
        Effect::Run { command, .. } => !policy::is_known_read_only(command),
        Effect::Write { .. }
        | Effect::Input { .. }
        | Effect::Fetch { .. }
        | Effect::Remote { .. }
        | Effect::Agent { .. } => true,
    }
}

fn outcome_of(result: &Result<ToolOutput, ToolError>) -> CallOutcome {
    match result {
        Ok(output) if output.success => CallOutcome::Completed,
        Ok(_) => CallOutcome::Failed,
        Err(ToolError::Denied(_)) => CallOutcome::Declined,
        Err(ToolError::Timeout { .. }) => CallOutcome::TimedOut,
        Err(ToolError::Interrupted) => CallOutcome::Interrupted,
        Err(
            ToolError::InvalidArguments(_)
            | ToolError::Unavailable(_)
            | ToolError::SandboxDenied { .. }
            | ToolError::Failed(_)
            | ToolError::Stop(_)
            | ToolError::Fatal(_),
        ) => CallOutcome::Failed,
    }
}

/// Keeps what a call gives back within bounds, whatever it was: the text parts together head
/// and tail of `bytes_max`, a few images, and a result for programs.
fn bound_for_model(mut output: ToolOutput, bytes_max: usize) -> ToolOutput {
    let mut left = bytes_max;
    let (mut texts, mut images, mut image_bytes, mut dropped) = (0, 0, 0, 0);
    output.content.retain_mut(|part| {
        let keep = match part {
            ContentItem::InputText(body) | ContentItem::OutputText(body, _) => {
                texts += 1;
                let keep = left > 0 && texts <= TEXT_PARTS_MAX;
                if !keep {
                    body.clear();
                }
                if body.len() > left {
                    *body = text::truncate::bound(body, left);
                }
                left = left.saturating_sub(body.len());
                keep
            }
            ContentItem::InputImage(url, _) => {
                images += 1;
                image_bytes += url.len();
                images <= IMAGES_MAX && image_bytes <= IMAGE_BYTES_MAX
            }
            ContentItem::Other(value) => {
                texts += 1;
                let bytes = value.to_string().len();
                let keep = bytes <= left && texts <= TEXT_PARTS_MAX;
                left -= if keep { bytes } else { 0 };
                keep
            }
        };
        dropped += usize::from(!keep);
        keep
    });
    if dropped > 0 {
        let note = format!("… {dropped} more parts of this output were left out …");
        output.content.push(ContentItem::InputText(note));
    }
    let too_large = |value: &Value| value.to_string().len() > STRUCTURED_BYTES_MAX;
    if output.structured.as_ref().is_some_and(too_large) {
        output.structured = None;
    }
    output
}

/// Puts a text after the output's own, within its last part where that is text.
fn append_text(output: &mut ToolOutput, text: &str) {
    if text.is_empty() {
        return;
    }
    if let Some(ContentItem::InputText(body) | ContentItem::OutputText(body, _)) =
        output.content.last_mut()
    {
        body.truncate(body.trim_end().len());
        body.push_str("\n\n");
        body.push_str(text);
    } else {
        output.content.push(ContentItem::InputText(text.to_owned()));
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("call", &self.call).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_in_many_parts_is_bounded_as_a_whole() {
        let part = || ContentItem::InputText("0123456789".to_owned());
        let image = || ContentItem::InputImage("data:,".to_owned(), serde_json::Map::new());
        let mut content: Vec<_> = std::iter::repeat_with(part).take(100_000).collect();
        content.extend(std::iter::repeat_with(image).take(100));
        let structured = Some(Value::String("x".repeat(2 << 20)));
        let output = ToolOutput { content, structured, ..ToolOutput::text("") };
        let bounded = bound_for_model(output, 1_000);
        assert!(bounded.joined_text().len() < 1_200, "{}", bounded.joined_text().len());
        assert_eq!(bounded.content.len(), 100 + IMAGES_MAX + 1);
        assert!(
            bounded.joined_text().ends_with("… 99992 more parts of this output were left out …")
        );
        assert_eq!(bounded.structured, None);
    }

    #[test]
    fn empty_and_unknown_parts_count_as_well() {
        let count = |part: &ContentItem| {
            let content = vec![part.clone(); 1_000];
            let output = ToolOutput { content, ..ToolOutput::text("") };
            bound_for_model(output, 1_000).content.len()
        };
        assert_eq!(count(&ContentItem::InputText(String::new())), TEXT_PARTS_MAX + 1);
        assert_eq!(count(&ContentItem::Other(serde_json::json!("x".repeat(98)))), 10 + 1);
        assert_eq!(count(&ContentItem::Other(serde_json::json!(1))), TEXT_PARTS_MAX + 1);
    }
}
