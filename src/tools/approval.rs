//! The executor's asking steps: what is asked, and what an answer makes of the call.
//!
//! A question holds all there is to know, an answer may take a patch in part or change the
//! call, and what it makes of the call is judged anew. Knows no memory of answers: the session
//! (`agent/approvals.rs`) answers what was answered before. Called by `executor.rs`.

use crate::policy::grants;
use crate::protocol::Answer;
use crate::protocol::ApprovalDecision;
use crate::protocol::ApprovalPolicy;
use crate::protocol::Ask;
use crate::protocol::Decision;
use crate::protocol::DecisionAction;
use crate::protocol::Effect;
use crate::protocol::Hunk;
use crate::protocol::HunkId;
use crate::protocol::Network;
use crate::protocol::Reach;
use crate::protocol::SandboxMode;
use crate::protocol::SandboxPolicy;
use crate::protocol::ToolCall;
use crate::protocol::ToolOutput;
use crate::protocol::ToolPayload;
use crate::text;
use crate::tools::RunningProcess;
use crate::tools::ToolError;
use crate::tools::executor::Ended;
use crate::tools::executor::Executor;
use crate::tools::executor::Planned;
use crate::tools::executor::Stop;
use crate::tools::recording::Recording;

/// How often one call may be changed and asked about again.
const EDITS_MAX: usize = 8;
/// Bytes of what a command printed that its question tells.
const PRINTED_BYTES_MAX: usize = 400;

/// A call that may run, as policy and the user left it.
pub(super) struct Cleared {
    pub(super) call: ToolCall,
    pub(super) planned: Planned,
    /// The call and its effect with secrets in the place of their tokens, where it holds any:
    /// what is judged and run. What is asked, shown and logged is `call` and `planned`.
    pub(super) real: Option<(ToolCall, Planned)>,
    /// The parts of it that the user took, where only some.
    pub(super) keep: Option<Vec<HunkId>>,
    /// The running command that it writes to, where it does.
    pub(super) process: Option<RunningProcess>,
    pub(super) decision: Decision,
    /// What the model must be told beside the output: what the user changed or said.
    pub(super) told: Vec<String>,
}

/// What a person let through.
enum Allowed {
    Whole,
    Hunks(Vec<HunkId>),
    Edited(Box<ToolCall>),
}

impl Cleared {
    /// Returns the call and its effect as they run.
    pub(super) fn to_run(&self) -> (&ToolCall, &Planned) {
        self.real.as_ref().map_or((&self.call, &self.planned), |(call, planned)| (call, planned))
    }

    /// Returns whether it runs within the sandbox.
    pub(super) fn is_confined(&self) -> bool {
        !matches!(
            self.decision.action,
            DecisionAction::AllowUnsandboxed | DecisionAction::AskUnsandboxed
        )
    }
}

impl Executor {
    /// Asks where the judgement says so, and returns the call that may run.
    pub(super) async fn clear(&self, mut cleared: Cleared) -> Result<Cleared, Ended> {
        for _ in 0..EDITS_MAX {
            match cleared.decision.action {
                DecisionAction::Allow
                | DecisionAction::AllowReadOnly
                | DecisionAction::AllowUnsandboxed => return Ok(cleared),
                DecisionAction::Deny => return Err(denied(cleared.decision.reason, None)),
                DecisionAction::Ask | DecisionAction::AskUnsandboxed => {}
            }
            match self.ask(&mut cleared).await? {
                Allowed::Whole => return Ok(cleared),
                Allowed::Hunks(keep) => {
                    return self.narrow(cleared, &keep).map_err(failed);
                }
                Allowed::Edited(call) => {
                    let asked = cleared.decision.action;
                    cleared = self.replace(cleared, *call).await.map_err(failed)?;
                    if is_within(asked, cleared.decision.action) {
                        return Ok(cleared);
                    }
                }
            }
        }
        Err(denied("the call was changed too often".to_owned(), None))
    }

    /// Asks to run again outside what the sandbox stopped: under the policies that run first and
    /// ask then, and once. A command that holds secrets never leaves the sandbox.
    pub(super) async fn escalate_if_denied(
        &self,
        cleared: Cleared,
        result: Result<ToolOutput, ToolError>,
        recording: &mut Option<Recording>,
    ) -> Ended {
        let asks = cleared.real.is_none()
            && matches!(self.turn.approval, ApprovalPolicy::OnFailure | ApprovalPolicy::Untrusted);
        let output = match &result {
            Err(ToolError::SandboxDenied { output, .. }) if asks => output,
            _ => return Ended { told: cleared.told, ..Ended::from(result) },
        };
        // Masked as a whole, and only then cut: a cut could leave half a secret.
        let output = self.link.mask(ToolOutput::text(output.clone())).await.joined_text();
        let reason = describe_refusal(&cleared.planned.effect, &output);
        let decision =
            Decision { action: DecisionAction::AskUnsandboxed, reason: reason.clone(), rule: None };
        let mut told = cleared.told.clone();
        match self.clear(Cleared { decision, ..cleared }).await {
            Ok(mut again) => {
                let outside = !again.is_confined();
                let place = if outside { "outside the sandbox" } else { "within the sandbox" };
                again.told.push(format!(
                    "The sandbox stopped the first run; this is of a second one, {place}, which the user allowed."
                ));
                let result = self.run_again(&again, recording).await;
                Ended { told: again.told, ..Ended::from(result) }
            }
            Err(refused) => {
                if let Err(ToolError::Denied(why)) = &refused.result {
                    // What the sandbox stopped stands in the output already.
                    let why = why.strip_prefix(&reason).unwrap_or(why).trim_start_matches("; ");
                    told.push(format!("To run it outside the sandbox was declined: {why}."));
                }
                let interrupted = matches!(refused.result, Err(ToolError::Interrupted));
                let result = if interrupted { refused.result } else { result };
                Ended { result, stop: refused.stop, told }
            }
        }
    }

    /// Runs a call again: recorded, and on disk that it was allowed.
    async fn run_again(
        &self,
        again: &Cleared,
        recording: &mut Option<Recording>,
    ) -> Result<ToolOutput, ToolError> {
        if self.cancel.is_cancelled() {
            return Err(ToolError::Interrupted);
        }
        let effect = &again.planned.effect;
        if recording.is_none() {
            *recording = self.record_before(&again.call, effect, &again.decision).await;
            if recording.is_none() && self.cancel.is_cancelled() {
                return Err(ToolError::Interrupted);
            }
        }
        match self.reach_disk(effect).await {
            Ok(()) => self.run_cleared(again).await,
            Err(ended) => ended.result,
        }
    }

    async fn ask(&self, cleared: &mut Cleared) -> Result<Allowed, Ended> {
        let call_id = cleared.call.call_id.clone();
        let question = self.build_question(cleared);
        let answer = tokio::select! {
            answer = self.link.ask(call_id, question) => answer,
            () = self.cancel.cancelled() => return Err(Ended::from(Err(ToolError::Interrupted))),
        };
        match answer {
            Answer::Approval { decision: ApprovalDecision::Allow, hunks, edited, note, .. } => {
                cleared
                    .told
                    .extend(note.map(|note| format!("The user allowed it and says: {note}")));
                Ok(match (hunks, edited) {
                    (_, Some(call)) => Allowed::Edited(Box::new(call)),
                    (Some(keep), None) => Allowed::Hunks(keep),
                    (None, None) => Allowed::Whole,
                })
            }
            Answer::Approval { decision: ApprovalDecision::Deny, note, .. } => {
                Err(denied(say_no(note), None))
            }
            Answer::Approval { decision: ApprovalDecision::Abort, note, .. } => {
                let reason = say_no(note);
                Err(denied(reason.clone(), Some(Stop::Denied(reason))))
            }
            Answer::Declined { reason } => {
                let why = cleared.decision.reason.trim_end_matches('.');
                Err(denied(format!("{why}; {reason}"), None))
            }
            Answer::Text { .. } | Answer::Form { .. } => {
                Err(denied("the answer was no approval".to_owned(), None))
            }
        }
    }

    fn build_question(&self, cleared: &Cleared) -> Ask {
        let Cleared { call, planned, decision, .. } = cleared;
        let reach = match &cleared.process {
            Some(process) => self.reach_under(process.sandbox()),
            None if cleared.is_confined() => self.reach_under(Some(&self.turn.sandbox)),
            None => self.reach_under(None),
        };
        let (scopes, remembers) = grants::describe_scopes(&planned.effect, &reach);
        let hunks = planned
            .handler
            .hunks(call)
            .into_iter()
            .map(|hunk| Hunk { text: text::ansi::visible(&hunk.text).into_owned(), ..hunk });
        Ask::Approval {
            effect: planned.effect.clone(),
            shown: show_for(cleared),
            remembers: text::ansi::visible(&remembers).into_owned(),
            asked_by: "main".to_owned(),
            rule: decision.rule.clone(),
            reason: text::ansi::visible(&decision.reason).into_owned(),
            reach: Box::new(reach),
            hunks: hunks.collect(),
            scopes,
        }
    }

    /// Returns what is reached under a policy; `None` is outside the sandbox.
    fn reach_under(&self, policy: Option<&SandboxPolicy>) -> Reach {
        let sandbox = policy.unwrap_or(&self.turn.sandbox);
        let outside = policy.is_none() || sandbox.mode == SandboxMode::DangerFullAccess;
        Reach {
            mode: sandbox.mode,
            level: self.turn.sandbox_level,
            outside,
            roots: if outside { Vec::new() } else { sandbox.roots.clone() },
            network: if outside { Network::On } else { sandbox.network.clone() },
        }
    }

    /// Returns the call as it does only the hunks that the user took.
    fn narrow(&self, cleared: Cleared, keep: &[HunkId]) -> Result<Cleared, ToolError> {
        let handler = &cleared.planned.handler;
        let hunks = handler.hunks(&cleared.call).into_iter();
        let left_out: Vec<Hunk> = hunks.filter(|hunk| !keep.contains(&hunk.id)).collect();
        if left_out.is_empty() {
            return Ok(cleared);
        }
        let narrow = |planned: &mut Planned, call: &ToolCall| {
            planned.effect = planned.handler.effect_of(call, keep, &self.turn.cwd)?;
            Ok::<_, ToolError>(())
        };
        let mut anew = cleared;
        narrow(&mut anew.planned, &anew.call)?;
        if let Some((call, planned)) = &mut anew.real {
            narrow(planned, call)?;
        }
        // Less than was asked can only be refused by a rule that is about the rest of it.
        let (call, planned) = anew.to_run();
        let judged = self.judge(call, &planned.effect, None);
        if judged.action == DecisionAction::Deny {
            return Err(ToolError::Denied(judged.reason));
        }
        anew.keep = Some(keep.to_vec());
        self.check_secrets(&anew)?;
        let (noun, verb) = if left_out.len() == 1 { ("hunk", "was") } else { ("hunks", "were") };
        let texts: String = left_out.iter().map(|hunk| hunk.text.as_str()).collect();
        anew.told.push(format!(
            "The user refused {} {noun}, which {verb} not applied:\n{texts}",
            left_out.len()
        ));
        Ok(anew)
    }

    /// Returns the call that the user wrote in its place, judged anew.
    async fn replace(&self, cleared: Cleared, edited: ToolCall) -> Result<Cleared, ToolError> {
        let call_id = cleared.call.call_id.clone();
        if edited.name != cleared.call.name {
            let why = "the user changed it to a call of another tool".to_owned();
            return Err(ToolError::Denied(why));
        }
        let call = ToolCall { call_id, ..edited };
        let planned = self
            .plan(&call)
            .map_err(|error| ToolError::Failed(format!("as the user changed it: {error}")))?;
        let mut told = cleared.told;
        told.push(format!(
            "The user changed this call before it ran. What ran is:\n{}",
            show(&planned.effect, &call)
        ));
        let anew = self.weigh(call, planned, told).await?;
        self.check_secrets(&anew)?;
        Ok(anew)
    }
}

/// Returns whether what was asked covers what a changed call needs: a person who allowed a run
/// outside and wrote the call has answered for it.
fn is_within(asked: DecisionAction, needed: DecisionAction) -> bool {
    match needed {
        DecisionAction::Ask => true,
        DecisionAction::AskUnsandboxed => asked == DecisionAction::AskUnsandboxed,
        DecisionAction::Allow
        | DecisionAction::AllowReadOnly
        | DecisionAction::AllowUnsandboxed
        | DecisionAction::Deny => false,
    }
}

/// Says what the sandbox stopped, in the command's own words, and why it wanted out.
fn describe_refusal(effect: &Effect, output: &str) -> String {
    let mut reason = "the sandbox stopped the command; it would run again without it".to_owned();
    if let Effect::Run { escalate: Some(wish), .. } = effect {
        reason.push_str(&format!("; the model says: {}", wish.reason.trim_end_matches('.')));
    }
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    if let Some(line) = last.filter(|line| *line != "Output:") {
        reason.push_str(&format!(
            "; it printed: {}",
            text::truncate::bound(line.trim(), PRINTED_BYTES_MAX)
        ));
    }
    reason
}

fn say_no(note: Option<String>) -> String {
    match note {
        Some(note) => format!("the user said no, and says: {note}"),
        None => "the user said no".to_owned(),
    }
}

/// Returns the whole of what would happen as one text, with the command that input goes to.
fn show_for(cleared: &Cleared) -> String {
    let Cleared { call, planned, process, .. } = cleared;
    let shown = show(&planned.effect, call);
    match process {
        Some(process) => {
            format!("{shown}\nit goes to: {}", text::ansi::visible(process.command()))
        }
        None => shown,
    }
}

/// Returns the whole of what would happen as one text, control characters shown.
fn show(effect: &Effect, call: &ToolCall) -> String {
    let shown = match effect {
        Effect::None => call.name.to_string(),
        Effect::Read { paths } => {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("read {}", paths.join(", "))
        }
        Effect::Write { changes } => {
            let files =
                changes.iter().map(|change| format!("{}\n{}", change.path.display(), change.diff));
            files.collect::<Vec<_>>().join("\n")
        }
        Effect::Run { command, .. } => command.shown(),
        Effect::Input { process } => format!("input to command {process}: {}", typed(call)),
        Effect::Fetch { url } => url.clone(),
        Effect::Remote { server, tool, arguments, .. } => format!("{server}: {tool} {arguments}"),
        Effect::Agent { role } => format!("agent {role}"),
    };
    text::ansi::visible(&shown).into_owned()
}

/// Returns what a call would type into a running command.
pub(super) fn typed(call: &ToolCall) -> String {
    let ToolPayload::Function { arguments } = &call.payload else { return String::new() };
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    arguments.get("chars").and_then(|chars| chars.as_str()).unwrap_or_default().to_owned()
}

fn failed(error: ToolError) -> Ended {
    Ended::from(Err(error))
}

fn denied(reason: String, stop: Option<Stop>) -> Ended {
    Ended { result: Err(ToolError::Denied(reason)), stop, told: Vec::new() }
}

impl Ended {
    /// Says that nothing runs which could not be told of later.
    pub(super) fn unwritable() -> Self {
        let why = "the session's log cannot be written, so nothing is run".to_owned();
        Self::from(Err(ToolError::Fatal(why)))
    }
}

impl From<Result<ToolOutput, ToolError>> for Ended {
    fn from(result: Result<ToolOutput, ToolError>) -> Self {
        let stop = match &result {
            Err(ToolError::Stop(reason)) => Some(Stop::Asked(reason.clone())),
            Err(ToolError::Fatal(reason)) => Some(Stop::Fatal(reason.clone())),
            Ok(_) | Err(_) => None,
        };
        Self { result, stop, told: Vec::new() }
    }
}
