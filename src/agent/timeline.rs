//! `Timeline`: the steps by which a session's log says files changed, in order.
//!
//! Pure: events in, steps out. A step is a call or a restore, from one recorded state to
//! another; one that a dead process left without its end is cut off. From the steps follows
//! what can be undone and redone. Called by `restore.rs`.

use std::collections::HashMap;
use std::collections::HashSet;
use std::path::PathBuf;

use crate::protocol::CallId;
use crate::protocol::CallOutcome;
use crate::protocol::ChangeSource;
use crate::protocol::Effect;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::FileChange;
use crate::protocol::ProcessId;
use crate::protocol::RestoreDirection;
use crate::protocol::SnapshotId;
use crate::protocol::StopCause;
use crate::protocol::ToolCall;
use crate::protocol::TurnId;
use crate::protocol::TurnOutcome;

/// One change of the files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FileStep {
    /// Whose turn it is part of; of a restore, the turn it went to.
    pub(crate) turn: TurnId,
    /// The call; `None` for a restore.
    pub(crate) call: Option<StepCall>,
    /// The state before.
    pub(crate) from: SnapshotId,
    /// The state after; `None` when nothing was recorded since.
    pub(crate) to: Option<SnapshotId>,
    /// Whether its end was never recorded, so that what others did since may be part of it.
    pub(crate) is_cut_off: bool,
    /// Then, the time of the last event of its process.
    pub(crate) last_event_ns: Option<i64>,
}

/// The call that made a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepCall {
    /// Its id.
    pub(crate) id: CallId,
    /// Whether it was a patch or a command.
    pub(crate) by: ChangeSource,
    /// The command, or the tool's name.
    pub(crate) title: String,
    /// Calls that ran at the same time: what each of them changed cannot be told apart.
    pub(crate) together_with: Vec<String>,
}

/// A restore that was not taken back.
#[derive(Debug, Clone, PartialEq)]
struct Undone {
    turn: TurnId,
    /// When it was.
    at_ns: Option<i64>,
    /// The place of the restore among the steps.
    step: usize,
    /// The turns it took back.
    turns: Vec<TurnId>,
}

/// A restore that is about to happen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Intent {
    pub(crate) turn: TurnId,
    pub(crate) direction: RestoreDirection,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) before: SnapshotId,
}

/// All steps, and what they leave to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Timeline {
    pub(crate) steps: Vec<FileStep>,
    /// The newest turn.
    pub(crate) last_turn: TurnId,
    /// Turns that changed files and were not undone.
    done: Vec<TurnId>,
    /// A restore that was announced and never said to be done.
    pub(crate) intent: Option<Intent>,
    undone: Vec<Undone>,
    begun: HashMap<CallId, StepCall>,
    open: Vec<Open>,
    /// Calls that ran since files were last looked at.
    together: Vec<CallId>,
    /// Commands that outlived their calls, and the calls, where what they change is recorded.
    kept: Vec<(ProcessId, CallId)>,
    /// Calls around which states were recorded.
    recorded: HashSet<CallId>,
    /// The files that patches say they changed.
    patched: HashMap<CallId, Vec<PathBuf>>,
    /// The state that was recorded last.
    last_state: Option<SnapshotId>,
    /// The time of the event before.
    last_event_ns: Option<i64>,
}

/// A call whose state before is known, and the state after not yet.
#[derive(Debug, Clone, PartialEq)]
struct Open {
    call: CallId,
    turn: TurnId,
    from: SnapshotId,
    /// Whether its end may have been written by the process that mended the log.
    is_lost: bool,
}

/// Steps to take back, newest first, and the turn they go back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Goal {
    pub(crate) turn: TurnId,
    /// Of a redo: when that was undone.
    pub(crate) at_ns: Option<i64>,
    pub(crate) steps: Vec<FileStep>,
}

impl Timeline {
    /// Reads the steps out of the log of a session that is not open.
    pub(crate) fn read<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut timeline = Self::read_open(events);
        // What is still open when the log ends was cut off with it.
        timeline.cut_all_off();
        timeline
    }

    /// Reads the steps out of the log of a session that goes on.
    pub(crate) fn read_open<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut timeline = Self::default();
        for event in events {
            timeline.take(event);
            timeline.last_event_ns = time_of(event).or(timeline.last_event_ns);
        }
        timeline
    }

    /// Returns what must be taken back to be before a turn; by default before the last one
    /// that changed something.
    pub(crate) fn find_undo(&self, turn: Option<TurnId>) -> Option<Goal> {
        let turn = match turn {
            None => *self.done.last()?,
            Some(turn) => *self.done.iter().find(|done| **done >= turn)?,
        };
        let is_first = |step: &FileStep| step.turn == turn && step.call.is_some();
        let first = self.steps.iter().position(is_first)?;
        let steps = self.steps.get(first..)?.iter().rev().cloned().collect();
        Some(Goal { turn, at_ns: None, steps })
    }

    /// Returns the undo that a redo takes back: the last one.
    pub(crate) fn find_redo(&self) -> Option<Goal> {
        let last = self.undone.last()?;
        let step = self.steps.get(last.step)?.clone();
        Some(Goal { turn: last.turn, at_ns: last.at_ns, steps: vec![step] })
    }

    /// Returns the files that a call says it patched.
    pub(crate) fn patched_by(&self, call: &CallId) -> impl Iterator<Item = &PathBuf> {
        self.patched.get(call).into_iter().flatten()
    }

    /// Returns the steps of one turn; by default of the last that changed something, undone or
    /// not.
    pub(crate) fn changes_of(&self, turn: Option<TurnId>) -> Option<(TurnId, Vec<FileStep>)> {
        let is_call = |step: &&FileStep| step.call.is_some();
        let turn = turn.or_else(|| self.steps.iter().rev().find(is_call).map(|step| step.turn))?;
        let steps = self.steps.iter().filter(is_call).filter(|step| step.turn == turn);
        Some((turn, steps.cloned().collect()))
    }

    fn take(&mut self, event: &Event) {
        self.last_turn = self.last_turn.max(event.turn);
        match (&event.msg, &event.call_id) {
            (EventMsg::ToolCallBegin { call, effect, .. }, _) => {
                self.begun.insert(call.call_id.clone(), describe(call, effect));
            }
            (EventMsg::SessionStarted { resumed: true, .. }, _) => self.cut_all_off(),
            (EventMsg::SnapshotTaken { snapshot, since: None }, Some(call)) => {
                self.end_cut_off(snapshot);
                // What was done then can no longer be told from what this call does.
                self.intent = None;
                self.last_state = Some(snapshot.clone());
                self.recorded.insert(call.clone());
                if self.open.is_empty() {
                    self.together.clear();
                }
                self.together.push(call.clone());
                let (call, from) = (call.clone(), snapshot.clone());
                self.open.push(Open { call, turn: event.turn, from, is_lost: true });
            }
            (EventMsg::SnapshotTaken { snapshot, since: Some(since) }, Some(call)) => {
                self.open.retain(|open| open.call != *call);
                self.last_state = Some(snapshot.clone());
                let (from, to) = (since.clone(), Some(snapshot.clone()));
                self.push_call(event.turn, call, (from, to, false));
                let open = &self.open;
                self.together.retain(|call| open.iter().any(|open| open.call == *call));
            }
            (EventMsg::ToolCallEnd { outcome, duration_ms, .. }, Some(call)) => {
                // The end that a mended log gives to a lost call took no time.
                let is_lost = *outcome == CallOutcome::Interrupted && *duration_ms == 0;
                self.open.retain_mut(|open| {
                    open.is_lost &= open.call != *call || is_lost;
                    open.is_lost
                });
            }
            (EventMsg::TurnEnded { outcome, .. }, _) => {
                let crash = TurnOutcome::Interrupted { cause: StopCause::Crash };
                let open = std::mem::take(&mut self.open);
                if *outcome == crash {
                    self.cut_off(open.into_iter());
                }
            }
            (EventMsg::Restored { .. }, _) => self.take_restored(event),
            (msg, Some(call)) => self.take_of_call(msg, call),
            (EventMsg::ProcessEnded { process, .. }, None) => {
                self.kept.retain(|(kept, _)| kept != process);
            }
            _ => {}
        }
    }

    /// Takes what a call says besides.
    fn take_of_call(&mut self, msg: &EventMsg, call: &CallId) {
        match msg {
            EventMsg::FilesChanged { by: ChangeSource::Patch, changes } => {
                let paths = changes.iter().flat_map(|change| {
                    std::iter::once(&change.path).chain(change.move_to.as_ref()).cloned()
                });
                self.patched.entry(call.clone()).or_default().extend(paths);
            }
            EventMsg::ProcessStarted { process, .. } if self.recorded.contains(call) => {
                self.kept.push((*process, call.clone()));
            }
            _ => {}
        }
    }

    fn take_restored(&mut self, event: &Event) {
        let EventMsg::Restored { turn, direction, changes, before, after, .. } = &event.msg else {
            return;
        };
        let (turn, direction) = (*turn, *direction);
        self.intent = None;
        match (before.clone(), after.clone()) {
            (Some(before), None) => {
                self.intent = Some(Intent { turn, direction, changes: changes.clone(), before });
            }
            states => self.take_restore((turn, time_of(event)), direction, states),
        }
    }

    fn push_call(
        &mut self,
        turn: TurnId,
        call: &CallId,
        (from, to, is_cut_off): (SnapshotId, Option<SnapshotId>, bool),
    ) {
        let unknown = || StepCall {
            id: call.clone(),
            by: ChangeSource::Command,
            title: "a call".to_owned(),
            together_with: Vec::new(),
        };
        let kept = self.kept.iter().map(|(_, call)| call);
        let kept = kept.filter(|kept| !self.together.contains(kept));
        let others = self.together.iter().chain(kept).filter(|other| *other != call);
        let others = others.filter_map(|other| self.begun.get(other));
        let together_with = others.map(|other| other.title.clone()).collect();
        let call = self.begun.get(call).cloned().unwrap_or_else(unknown);
        let call = StepCall { together_with, ..call };
        let last_event_ns = self.last_event_ns.filter(|_| is_cut_off);
        self.steps.push(FileStep { turn, call: Some(call), from, to, is_cut_off, last_event_ns });
        self.undone.clear();
        if self.done.last() != Some(&turn) {
            self.done.push(turn);
        }
    }

    /// What is still open was left by a process that died.
    fn cut_all_off(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.cut_off(open.into_iter().filter(|open| open.is_lost));
        let kept = std::mem::take(&mut self.kept);
        if let (Some((_, call)), Some(from)) = (kept.first(), self.last_state.clone()) {
            let (call, turn) = (call.clone(), self.last_turn);
            self.cut_off(std::iter::once(Open { call, turn, from, is_lost: true }));
        }
    }

    /// Makes steps of calls that a dead process left open. Those that ran together are one.
    fn cut_off(&mut self, open: impl Iterator<Item = Open>) {
        for Open { call, turn, from, .. } in open {
            let is_known = |step: &FileStep| step.is_cut_off && step.from == from;
            if !self.steps.iter().any(is_known) {
                self.push_call(turn, &call, (from, None, true));
            }
        }
    }

    /// The next state that was recorded is the end of what was cut off before it.
    fn end_cut_off(&mut self, state: &SnapshotId) {
        for step in self.steps.iter_mut().filter(|step| step.is_cut_off && step.to.is_none()) {
            step.to = Some(state.clone());
        }
    }

    fn take_restore(
        &mut self,
        (turn, at_ns): (TurnId, Option<i64>),
        direction: RestoreDirection,
        (before, after): (Option<SnapshotId>, Option<SnapshotId>),
    ) {
        let (Some(from), Some(to)) = (before, after) else { return };
        // No call runs while files are restored, so one that is open was left by a process that
        // died; and so were commands, unless all they did is in the state before.
        if self.last_state.as_ref() != Some(&from) {
            self.cut_all_off();
        }
        self.end_cut_off(&from);
        self.last_state = Some(to.clone());
        let step = self.steps.len();
        self.steps.push(FileStep {
            turn,
            call: None,
            from,
            to: Some(to),
            is_cut_off: false,
            last_event_ns: None,
        });
        match direction {
            RestoreDirection::Undo => {
                let first = self.done.iter().position(|done| *done >= turn);
                let turns = self.done.split_off(first.unwrap_or(self.done.len()));
                self.undone.push(Undone { turn, at_ns, step, turns });
            }
            RestoreDirection::Redo => {
                self.done.extend(self.undone.pop().into_iter().flat_map(|undone| undone.turns));
            }
        }
    }
}

fn time_of(event: &Event) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(&event.at).ok()?.timestamp_nanos_opt()
}

fn describe(call: &ToolCall, effect: &Effect) -> StepCall {
    let (by, title) = match effect {
        Effect::Write { .. } => (ChangeSource::Patch, call.name.to_string()),
        Effect::Run { command, .. } => (ChangeSource::Command, command.shown()),
        Effect::None
        | Effect::Read { .. }
        | Effect::Input { .. }
        | Effect::Fetch { .. }
        | Effect::Remote { .. }
        | Effect::Agent { .. } => (ChangeSource::Command, call.name.to_string()),
    };
    StepCall { id: call.call_id.clone(), by, title, together_with: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{CommandLine, EVENT_VERSION, Network, Seq, SessionId, TokenUsage};
    use crate::protocol::{RestoreWhat, ToolOutput, ToolPayload};

    fn event(turn: u32, call: Option<&str>, msg: EventMsg) -> Event {
        Event {
            v: EVENT_VERSION,
            seq: Seq(0),
            prev_hash: String::new(),
            at: String::new(),
            session: SessionId(uuid::Uuid::nil()),
            turn: TurnId(turn),
            parent: None,
            response_id: None,
            call_id: call.map(CallId::from),
            msg,
        }
    }

    fn begin(turn: u32, call: &str) -> [Event; 1] {
        let argv = vec![format!("run-{call}")];
        let effect = Effect::Run {
            command: CommandLine::Argv { argv },
            cwd: "/w".into(),
            network: Network::Off,
            escalate: None,
        };
        let payload = ToolPayload::Function { arguments: String::new() };
        let tool = ToolCall { call_id: call.into(), name: "exec_command".into(), payload };
        [event(turn, Some(call), EventMsg::ToolCallBegin { call: tool, effect, decision: None })]
    }

    fn taken(turn: u32, call: &str, snapshot: &str, since: Option<&str>) -> Event {
        let since = since.map(SnapshotId::from);
        event(turn, Some(call), EventMsg::SnapshotTaken { snapshot: snapshot.into(), since })
    }

    fn end(turn: u32, call: &str, outcome: CallOutcome, duration_ms: u64) -> Event {
        let output = ToolOutput::text("");
        let tool = "exec_command".into();
        let msg = EventMsg::ToolCallEnd { tool, outcome, output, duration_ms, code: None };
        event(turn, Some(call), msg)
    }

    fn turn_end(turn: u32, outcome: TurnOutcome) -> Event {
        let usage = TokenUsage::default();
        let msg =
            EventMsg::TurnEnded { outcome, usage, steps: 1, duration_ms: 1, last_message: None };
        event(turn, None, msg)
    }

    fn restored(turn: u32, direction: RestoreDirection, before: &str, after: &str) -> Event {
        let msg = EventMsg::Restored {
            turn: TurnId(turn),
            what: RestoreWhat::Files,
            direction,
            changes: Vec::new(),
            before: Some(before.into()),
            after: Some(after.into()),
        };
        event(turn, None, msg)
    }

    /// A turn with one call that changed something.
    fn turn(number: u32, from: &str, to: &str) -> Vec<Event> {
        let call = format!("c{number}");
        let mut events = begin(number, &call).to_vec();
        events.push(taken(number, &call, from, None));
        events.push(taken(number, &call, to, Some(from)));
        events.push(end(number, &call, CallOutcome::Completed, 5));
        events.push(turn_end(number, TurnOutcome::Completed));
        events
    }

    fn shown(goal: Option<Goal>) -> String {
        let Some(goal) = goal else { return "nothing".to_owned() };
        let step = |step: &FileStep| {
            let to = step.to.as_ref().map_or("now", |to| to.as_str());
            let cut = if step.is_cut_off { "!" } else { "" };
            format!(" {}-{to}{cut}", step.from)
        };
        format!("{}:{}", goal.turn, goal.steps.iter().map(step).collect::<String>())
    }

    #[test]
    fn undo_goes_back_through_all_steps_since_and_redo_takes_the_last_undo_back() {
        let mut log = [turn(1, "a", "b"), turn(2, "b2", "c")].concat();
        let read = |log: &[Event]| Timeline::read(log);
        assert_eq!(shown(read(&log).find_undo(None)), "2: b2-c");
        assert_eq!(shown(read(&log).find_undo(Some(TurnId(1)))), "1: b2-c a-b");
        assert_eq!(shown(read(&log).find_undo(Some(TurnId(3)))), "nothing");
        assert_eq!(shown(read(&log).find_redo()), "nothing");
        log.push(restored(2, RestoreDirection::Undo, "c", "d"));
        assert_eq!(shown(read(&log).find_undo(None)), "1: c-d b2-c a-b");
        assert_eq!(shown(read(&log).find_undo(Some(TurnId(2)))), "nothing");
        assert_eq!(shown(read(&log).find_redo()), "2: c-d");
        log.push(restored(1, RestoreDirection::Undo, "d", "e"));
        assert_eq!(shown(read(&log).find_undo(None)), "nothing");
        assert_eq!(shown(read(&log).find_redo()), "1: d-e");
        log.push(restored(1, RestoreDirection::Redo, "e", "f"));
        assert_eq!(shown(read(&log).find_undo(None)), "1: e-f d-e c-d b2-c a-b");
        assert_eq!(shown(read(&log).find_redo()), "2: c-d");
        log.push(restored(2, RestoreDirection::Redo, "f", "g"));
        assert_eq!(shown(read(&log).find_redo()), "nothing");
        assert_eq!(shown(read(&log).find_undo(None)), "2: f-g e-f d-e c-d b2-c");
    }

    #[test]
    fn a_call_that_changed_nothing_is_no_step() {
        let mut log = begin(1, "x").to_vec();
        log.push(taken(1, "x", "a", None));
        log.push(end(1, "x", CallOutcome::Completed, 5));
        log.push(turn_end(1, TurnOutcome::Completed));
        assert_eq!(shown(Timeline::read(&log).find_undo(None)), "nothing");
        assert_eq!(Timeline::read(&log).changes_of(None), None);
    }

    #[test]
    fn a_call_that_was_cut_off_ends_with_the_next_state_that_is_known() {
        let mut log = begin(1, "x").to_vec();
        log.push(taken(1, "x", "a", None));
        assert_eq!(shown(Timeline::read(&log).find_undo(None)), "1: a-now!");
        // Undone before anyone mended the log.
        let undone = [&log[..], &[restored(1, RestoreDirection::Undo, "b", "c")]].concat();
        assert_eq!(shown(Timeline::read(&undone).find_redo()), "1: b-c");
        assert_eq!(shown(Timeline::read(&undone).find_undo(None)), "nothing");
        // Mended by the next run, which then changed something itself.
        log.push(end(1, "x", CallOutcome::Interrupted, 0));
        let crash = TurnOutcome::Interrupted { cause: StopCause::Crash };
        log.push(turn_end(1, crash));
        log.extend(turn(2, "b", "c"));
        assert_eq!(shown(Timeline::read(&log).find_undo(Some(TurnId(1)))), "1: b-c a-b!");
    }

    #[test]
    fn calls_that_ran_together_share_what_changed() {
        let mut log = [begin(1, "x"), begin(1, "y")].concat();
        log.push(taken(1, "x", "a", None));
        log.push(taken(1, "y", "a", None));
        log.push(taken(1, "y", "b", Some("a")));
        log.push(end(1, "y", CallOutcome::Completed, 5));
        log.push(taken(1, "x", "c", Some("b")));
        log.push(end(1, "x", CallOutcome::Completed, 5));
        let (_, steps) = Timeline::read(&log).changes_of(None).unwrap();
        let calls: Vec<_> = steps.into_iter().filter_map(|step| step.call).collect();
        assert_eq!(
            (calls[0].title.as_str(), &calls[0].together_with[..]),
            ("run-y", &["run-x".to_owned()][..])
        );
        assert_eq!((calls[1].title.as_str(), calls[1].together_with.len()), ("run-x", 0));
    }
}
