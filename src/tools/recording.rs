//! The steps of the pipeline that record the workspace around a call that can write.
//!
//! The state before is on disk, and its name in the log, before the call runs; what the call
//! changed is an event after it. A call that only looks costs nothing here. What a state is
//! and where it is kept is `store/snapshot/`. Called by `executor.rs`.

use crate::policy;
use crate::protocol::Capability;
use crate::protocol::ChangeSource;
use crate::protocol::Decision;
use crate::protocol::DecisionAction;
use crate::protocol::Effect;
use crate::protocol::EventMsg;
use crate::protocol::SandboxMode;
use crate::protocol::ToolCall;
use crate::protocol::WarningKind;
use crate::store::snapshot::Beside;
use crate::store::snapshot::Ended;
use crate::tools::Executor;
use crate::tools::ToolHandler;

/// What is told to whom undo is off for.
const OFF_HINT: &str = "the call runs all the same, but `gimlet undo` cannot take it back";

/// That the state before a call was recorded, so that the state after it must be too.
#[derive(Debug)]
pub(super) struct Recording;

impl Executor {
    /// Records the state before a call, if it can write.
    pub(super) async fn record_before(
        &self,
        call: &ToolCall,
        effect: &Effect,
        decision: &Decision,
    ) -> Option<Recording> {
        let snapshots = self.snapshots.as_ref()?;
        if !can_write(effect, decision, self.turn.sandbox.mode) {
            return None;
        }
        let begun = tokio::select! {
            begun = snapshots.begin_call(&call.call_id) => begun,
            () = self.cancel.cancelled() => {
                // The first look at a large workspace takes its time; who stops need not wait.
                snapshots.abandon_call(&call.call_id);
                return None;
            }
        };
        let id = || Some(call.call_id.clone());
        self.tell_beside(begun.beside).await;
        if let Some(problem) = begun.problem {
            let message = format!("undo is off: {problem}");
            let hint = Some(OFF_HINT.to_owned());
            let msg = EventMsg::Warning { kind: WarningKind::Snapshot, message, hint };
            self.link.event(id(), None, msg).await;
        }
        if let Some(snapshot) = begun.snapshot {
            let msg = EventMsg::SnapshotTaken { snapshot, since: None };
            self.link.event(id(), None, msg).await;
        }
        Some(Recording)
    }

    /// Records the state after a call, and says what it changed.
    pub(super) async fn record_after(
        &self,
        recording: Option<Recording>,
        call: &ToolCall,
        effect: &Effect,
    ) {
        let (Some(Recording), Some(snapshots)) = (recording, &self.snapshots) else { return };
        let Some(ended) = snapshots.end_call(&call.call_id).await else { return };
        // A patch has said itself what it changed, exactly.
        let is_patch = matches!(effect, Effect::Write { .. });
        for msg in describe_changes(ended) {
            if !(is_patch && matches!(msg, EventMsg::FilesChanged { .. })) {
                self.link.event(Some(call.call_id.clone()), None, msg).await;
            }
        }
    }

    /// After a call that was not recorded itself, but may have waited for a command: records
    /// what commands did that outlived their calls.
    pub(super) async fn record_beside(&self, handler: &dyn ToolHandler) {
        let Some(snapshots) = &self.snapshots else { return };
        if handler.safety().requires.contains(&Capability::Commands) {
            self.tell_beside(snapshots.look_beside(None).await).await;
        }
    }

    async fn tell_beside(&self, beside: Option<Beside>) {
        let Some(Beside { call, ended }) = beside else { return };
        for msg in describe_changes(ended) {
            self.link.event(Some(call.clone()), None, msg).await;
        }
    }
}

/// Returns the events that tell what a command changed, and the state after it.
pub(crate) fn describe_changes(ended: Ended) -> Vec<EventMsg> {
    let Ended { since, snapshot, changes, omitted } = ended;
    let mut told = vec![EventMsg::FilesChanged { by: ChangeSource::Command, changes }];
    if omitted > 0 {
        let message = format!("{omitted} more files changed than are named here");
        let hint = Some("gimlet changes names them all".to_owned());
        told.push(EventMsg::Warning { kind: WarningKind::Snapshot, message, hint });
    }
    told.push(EventMsg::SnapshotTaken { snapshot, since: Some(since) });
    told
}

/// Returns whether a call can change files. What a server says of its tool is no proof.
fn can_write(effect: &Effect, decision: &Decision, mode: SandboxMode) -> bool {
    let is_free = matches!(
        decision.action,
        DecisionAction::AllowUnsandboxed | DecisionAction::AskUnsandboxed
    );
    match effect {
        Effect::Run { command, .. } => {
            let is_held = decision.action == DecisionAction::AllowReadOnly
                || (mode == SandboxMode::ReadOnly && !is_free)
                || policy::is_known_read_only(command);
            !is_held
        }
        Effect::Write { .. } | Effect::Input { .. } | Effect::Remote { .. } => true,
        Effect::None | Effect::Read { .. } | Effect::Fetch { .. } | Effect::Agent { .. } => false,
    }
}
