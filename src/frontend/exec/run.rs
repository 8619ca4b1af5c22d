//! `Run`: what each event of an `exec` run asks for: output, an answer, the next turn, the end.
//!
//! Takes events and gives operations; it waits for nothing, so that tests drive it by hand.
//! Knows no session. Called by `exec/mod.rs`.

use std::collections::VecDeque;
use std::io;

use crate::frontend::exec::json_line::encode_line;
use crate::frontend::exec::last_message::save_last_message;
use crate::frontend::exec::outlet::Printed;
use crate::frontend::exec::text::HumanText;
use crate::frontend::exec::thread_events::{ThreadEvents, failure_message, is_about_surroundings};
use crate::frontend::exec::{ExecOptions, ExecOutcome, ExecOutput};
use crate::protocol::{
    Answer, ErrorKind, Event, EventMsg, Op, SettingsPatch, StopCause, TurnOutcome, UserInput,
    WarningKind, When,
};

/// How often a model may mend an answer that does not follow the schema.
const REPAIRS_MAX: u32 = 2;

/// A run between its first operation and its end.
#[derive(Debug)]
pub(in crate::frontend::exec) struct Run {
    options: ExecOptions,
    text: HumanText,
    thread: ThreadEvents,
    /// What the events taken since the last `take_printed` made visible.
    printed: Printed,
    /// Our own turn has begun. The end of an earlier one, which a dead process left open, may
    /// come before.
    has_begun: bool,
    repairs: u32,
    stopped_by: Option<StopCause>,
    stdout_gave_up: bool,
    /// Output was left unwritten because its reader stalled.
    left_unread: bool,
    last_error: Option<(ErrorKind, String, Option<String>)>,
    ended: Option<(TurnOutcome, Option<String>)>,
}

impl Run {
    /// Returns a run at its start.
    pub(in crate::frontend::exec) fn new(options: ExecOptions, colored: bool) -> Self {
        Self {
            text: HumanText::new(colored, options.go_on),
            options,
            thread: ThreadEvents::default(),
            printed: Printed::default(),
            has_begun: false,
            repairs: 0,
            stopped_by: None,
            stdout_gave_up: false,
            left_unread: false,
            last_error: None,
            ended: None,
        }
    }

    /// Returns the operation that starts it all.
    pub(in crate::frontend::exec) fn first_op(&mut self) -> Op {
        let input = std::mem::take(&mut self.options.input);
        self.turn(input)
    }

    /// Takes an event; what it asks of the session is appended to `ops`.
    pub(in crate::frontend::exec) fn take(&mut self, event: &Event, ops: &mut VecDeque<Op>) {
        if let EventMsg::AskOpened { ask, .. } = &event.msg {
            let reason = "nobody is there to answer".to_owned();
            ops.push_back(Op::Answer { ask: *ask, answer: Answer::Declined { reason } });
        }
        if let EventMsg::Error { kind, message, hint, .. } = &event.msg {
            self.last_error = Some((*kind, message.clone(), hint.clone()));
        }
        self.has_begun |= matches!(event.msg, EventMsg::TurnStarted { .. });
        if let EventMsg::TurnEnded { outcome, last_message, .. } = &event.msg {
            if !self.has_begun {
                return self.print_earlier_end(event);
            }
            return self.end_turn(event, outcome, last_message.as_deref(), ops);
        }
        self.print(event);
    }

    /// Returns what the events taken since the last call made visible.
    pub(in crate::frontend::exec) fn take_printed(&mut self) -> Printed {
        std::mem::take(&mut self.printed)
    }

    /// Takes the news that stdout cannot be written any more.
    pub(in crate::frontend::exec) fn lose_stdout(&mut self, ops: &mut VecDeque<Op>) {
        if !self.stdout_gave_up && self.ended.is_none() {
            // Nobody reads what would come: working on would be for nothing.
            self.stdout_gave_up = true;
            ops.push_back(Op::Interrupt { cause: StopCause::User });
        }
    }

    /// Takes a signal. Returns false when it is the second one: then the run stops at once.
    pub(in crate::frontend::exec) fn interrupt(
        &mut self,
        cause: StopCause,
        ops: &mut VecDeque<Op>,
    ) -> bool {
        if self.stopped_by.is_some() {
            return false;
        }
        self.stopped_by = Some(cause);
        ops.push_back(Op::Interrupt { cause });
        true
    }

    /// Returns whether a signal came.
    pub(in crate::frontend::exec) fn is_interrupted(&self) -> bool {
        self.stopped_by.is_some()
    }

    /// Returns whether little more will come.
    pub(in crate::frontend::exec) fn is_stopping(&self) -> bool {
        self.is_interrupted() || self.stdout_gave_up || self.ended.is_some()
    }

    /// Ends a run whose session has ended.
    pub(in crate::frontend::exec) fn end(&mut self) {
        if self.ended.is_none() {
            self.end_without_turn();
        }
    }

    /// Takes the news that output was left unwritten because its reader stalled.
    pub(in crate::frontend::exec) fn leave_unread(&mut self) {
        self.left_unread = true;
    }

    /// Returns how it ended, and the last words: whether stdout got all of it.
    pub(in crate::frontend::exec) fn finish(
        mut self,
        stdout_error: Option<&io::Error>,
    ) -> (ExecOutcome, Printed) {
        let (outcome, last_message) = self.ended.take().unwrap_or((TurnOutcome::Completed, None));
        let hint = self.text.go_on_hint();
        let (outcome, last_words) = match (stdout_error, self.stopped_by) {
            (Some(error), _) if error.kind() != io::ErrorKind::BrokenPipe => {
                let message = format!("cannot write to stdout: {error}");
                let last_words = self.text.failure(&message, hint.as_deref());
                (TurnOutcome::Failed { error: ErrorKind::Other, message }, last_words)
            }
            (Some(_), _) if self.stdout_gave_up => {
                let message = "nobody reads stdout any more, so the work was stopped";
                (outcome, self.text.failure(message, hint.as_deref()))
            }
            (_, Some(cause)) if self.left_unread => {
                (TurnOutcome::Interrupted { cause }, String::new())
            }
            (Some(_) | None, _) => (outcome, String::new()),
        };
        let last_words = Printed { stderr: last_words, stdout: String::new() };
        (ExecOutcome { outcome, last_message }, last_words)
    }

    fn turn(&self, input: Vec<UserInput>) -> Op {
        let output_schema = self.options.schema.as_ref().map(|schema| schema.value().clone());
        let overrides = SettingsPatch { output_schema, ..SettingsPatch::default() };
        Op::UserTurn { input, overrides, when: When::Now }
    }

    /// Prints the end of a turn that an earlier process left open.
    fn print_earlier_end(&mut self, event: &Event) {
        match self.options.output {
            // It stands in the session file, and these are its lines.
            ExecOutput::Events => self.print(event),
            // Its beginning is not part of this output.
            ExecOutput::Human | ExecOutput::ThreadEvents => {}
        }
    }

    fn print(&mut self, event: &Event) {
        match self.options.output {
            ExecOutput::Human => {
                let shown = self.text.render(event);
                self.printed.stdout.push_str(&shown.stdout);
                self.printed.stderr.push_str(&shown.stderr);
            }
            ExecOutput::ThreadEvents => {
                if is_about_surroundings(&event.msg) {
                    self.printed.stderr.push_str(&self.text.render(event).stderr);
                }
                for line in self.thread.translate(event) {
                    self.printed.stdout.push_str(&encode_line(&line));
                }
            }
            ExecOutput::Events => self.printed.stdout.push_str(&encode_line(event)),
        }
    }

    fn end_turn(
        &mut self,
        event: &Event,
        outcome: &TurnOutcome,
        last_message: Option<&str>,
        ops: &mut VecDeque<Op>,
    ) {
        let completed = *outcome == TurnOutcome::Completed;
        let answer = last_message.unwrap_or_default();
        let faults = match &self.options.schema {
            Some(schema) if completed => schema.check(answer).err(),
            Some(_) | None => None,
        };
        if let Some(faults) = &faults
            && self.repairs < REPAIRS_MAX
            && self.stopped_by.is_none()
            // Nobody would read the mended answer.
            && !self.stdout_gave_up
        {
            return self.ask_again(event, faults, ops);
        }
        let outcome = match (outcome, faults) {
            (TurnOutcome::Interrupted { cause }, _) => {
                TurnOutcome::Interrupted { cause: self.stopped_by.unwrap_or(*cause) }
            }
            (_, Some(faults)) => TurnOutcome::Failed {
                error: ErrorKind::Schema,
                message: format!("the answer does not follow the output schema: {faults}"),
            },
            (outcome, None) => self.save(outcome.clone(), answer),
        };
        self.print_end(event, &outcome);
        self.ended = Some((outcome, last_message.map(str::to_owned)));
        ops.push_back(Op::Shutdown);
    }

    /// Asks the model to mend its answer, in a turn of its own.
    fn ask_again(&mut self, event: &Event, faults: &str, ops: &mut VecDeque<Op>) {
        self.repairs += 1;
        let warning = EventMsg::Warning {
            kind: WarningKind::Schema,
            message: format!("the answer does not follow the output schema: {faults}"),
            hint: Some(format!("asking again, {} of {REPAIRS_MAX}", self.repairs)),
        };
        match self.options.output {
            // The answer is not the final one, so stdout does not get it.
            ExecOutput::Human => self.print(&Event { msg: warning, ..event.clone() }),
            ExecOutput::ThreadEvents => {
                self.print(&Event { msg: warning, ..event.clone() });
                self.print(event);
            }
            ExecOutput::Events => self.print(event),
        }
        let text = format!(
            "Your last answer does not follow the required JSON schema:\n{faults}\n\
             Answer again with the corrected JSON alone, nothing before or after it."
        );
        ops.push_back(self.turn(vec![UserInput::Text { text }]));
    }

    /// Writes the file of `-o`, when the turn has earned it.
    fn save(&self, outcome: TurnOutcome, answer: &str) -> TurnOutcome {
        let Some(path) = &self.options.last_message_file else { return outcome };
        if outcome != TurnOutcome::Completed {
            return outcome;
        }
        match save_last_message(path, answer) {
            Ok(()) => outcome,
            Err(error) => TurnOutcome::Failed {
                error: ErrorKind::Other,
                message: format!("cannot write {}: {error}", path.display()),
            },
        }
    }

    fn print_end(&mut self, event: &Event, settled: &TurnOutcome) {
        let mut shown = event.clone();
        if let EventMsg::TurnEnded { outcome, .. } = &mut shown.msg
            // Our own events are printed as they stand in the session file.
            && self.options.output != ExecOutput::Events
        {
            *outcome = settled.clone();
        }
        self.print(&shown);
        if self.options.output != ExecOutput::Human
            && !self.stdout_gave_up
            && let Some(message) = failure_message(settled)
        {
            let hint = self.last_error.take().and_then(|(_, _, hint)| hint);
            let hint = hint.or_else(|| self.text.hint_of(settled));
            self.printed.stderr.push_str(&self.text.failure(&message, hint.as_deref()));
        }
    }

    /// Ends a run whose session ended, or was given up, before its turn did.
    fn end_without_turn(&mut self) {
        let (outcome, hint) = match (self.stopped_by, self.last_error.take()) {
            (Some(cause), _) => (TurnOutcome::Interrupted { cause }, None),
            (None, Some((error, message, hint))) => (TurnOutcome::Failed { error, message }, hint),
            (None, None) => {
                let message = "the session ended unexpectedly".to_owned();
                let hint = "GIMLET_LOG=gimlet=debug shows more".to_owned();
                (TurnOutcome::Failed { error: ErrorKind::Internal, message }, Some(hint))
            }
        };
        let hint = hint.or_else(|| self.text.hint_of(&outcome));
        let message = failure_message(&outcome).unwrap_or_default();
        if self.options.output == ExecOutput::ThreadEvents {
            for line in self.thread.finish(&message) {
                self.printed.stdout.push_str(&encode_line(&line));
            }
        }
        if !self.stdout_gave_up {
            self.printed.stderr.push_str(&self.text.failure(&message, hint.as_deref()));
        }
        self.ended = Some((outcome, None));
    }
}
