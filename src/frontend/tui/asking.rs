//! `OpenAsk`: a question that waits for the user, and what each key makes of it.
//!
//! Keys count from the frame on that first showed the question, and a little later where the
//! user was just typing. What would happen is never folded: while a part was not on the screen
//! yet, a yes does not count. Changed by `update/ask_keys.rs`, drawn by `view/ask.rs`.

use crate::frontend::tui::composer::Composer;
use crate::protocol::{
    Answer, AnswerScope, ApprovalDecision, Ask, AskId, CallId, CommandLine, Effect, HunkId,
    ResponseItem, ToolCall, ToolPayload,
};

/// How recent a key must be for the user to count as typing when a question appears.
const TYPING_MS: u64 = 1_000;
/// How long keys do not count then, from the last of them on: who goes on typing has not seen
/// the question.
const GRACE_MS: u64 = 700;

/// A question that waits.
#[derive(Debug)]
pub(crate) struct OpenAsk {
    /// Its id.
    pub id: AskId,
    /// The call it is about.
    pub call_id: Option<CallId>,
    /// The question.
    pub question: Ask,
    /// From when on keys count; `None` until a frame showed it.
    pub armed_ms: Option<u64>,
    /// The first line of its text that is shown.
    pub top: usize,
    /// Lines of its text that were on the screen, from the first on.
    pub seen: usize,
    /// What becomes of each part, where there are several.
    pub taken: Vec<Option<bool>>,
    /// The part that is shown.
    pub part: usize,
    /// The choice that is marked, from the end: a plain no at first.
    pub marked: Option<Choice>,
    /// What the user writes.
    pub writing: Option<Writing>,
    /// It was answered, and the session has not said so yet.
    pub is_answered: bool,
}

/// One way to answer an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Yes, for so long.
    Allow(AnswerScope),
    /// Yes, but changed.
    Edit,
    /// No.
    Decline,
    /// No, and what to do instead.
    Tell,
    /// No, and the turn ends.
    Abort,
}

/// What the user writes in answer to a question.
#[derive(Debug)]
pub(crate) enum Writing {
    /// The command as it should be.
    Edit(Composer),
    /// A word to the model, with a no.
    Tell(Composer),
    /// The answer to a question of the model's.
    Reply(Composer),
}

impl Writing {
    /// Returns the composer it is written in.
    pub(crate) fn composer(&self) -> &Composer {
        match self {
            Self::Edit(composer) | Self::Tell(composer) | Self::Reply(composer) => composer,
        }
    }

    /// Returns the composer it is written in.
    pub(crate) fn composer_mut(&mut self) -> &mut Composer {
        match self {
            Self::Edit(composer) | Self::Tell(composer) | Self::Reply(composer) => composer,
        }
    }
}

impl OpenAsk {
    /// Returns the question as it comes in.
    pub(crate) fn new(id: AskId, call_id: Option<CallId>, question: Ask) -> Self {
        let parts = match &question {
            Ask::Approval { hunks, .. } if hunks.len() > 1 => hunks.len(),
            Ask::Approval { .. } | Ask::Question { .. } | Ask::Elicitation { .. } => 0,
        };
        let writing = match &question {
            Ask::Question { options, .. } if options.is_empty() => {
                Some(Writing::Reply(Composer::new()))
            }
            Ask::Question { .. } | Ask::Approval { .. } | Ask::Elicitation { .. } => None,
        };
        Self {
            id,
            call_id,
            question,
            armed_ms: None,
            top: 0,
            seen: 0,
            taken: vec![None; parts],
            part: 0,
            marked: None,
            writing,
            is_answered: false,
        }
    }

    /// Takes in that a frame showed it.
    pub(crate) fn arm(&mut self, now_ms: u64, key_ms: Option<u64>) {
        let is_typing = key_ms.is_some_and(|at| now_ms.saturating_sub(at) < TYPING_MS);
        let grace = if is_typing { GRACE_MS } else { 0 };
        self.armed_ms.get_or_insert(now_ms + grace);
    }

    /// Takes in that a key came that did not count: the user types on.
    pub(crate) fn put_off(&mut self, now_ms: u64) {
        if let Some(at) = self.armed_ms.as_mut().filter(|at| **at > now_ms) {
            *at = now_ms + GRACE_MS;
        }
    }

    /// Returns whether keys count.
    pub(crate) fn is_armed(&self, now_ms: u64) -> bool {
        self.armed_ms.is_some_and(|at| now_ms >= at) && !self.is_answered
    }

    /// Returns whether it is taken part by part.
    pub(crate) fn has_parts(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Returns whether an approval may hold this long.
    pub(crate) fn offers(&self, scope: AnswerScope) -> bool {
        match &self.question {
            Ask::Approval { scopes, .. } => scope == AnswerScope::Once || scopes.contains(&scope),
            Ask::Question { .. } | Ask::Elicitation { .. } => false,
        }
    }

    /// Returns the command, where there is one to change.
    pub(crate) fn command(&self) -> Option<&CommandLine> {
        match &self.question {
            Ask::Approval { effect: Effect::Run { command, .. }, .. } => Some(command),
            _ => None,
        }
    }

    /// Returns the ways to answer, the safest marked at first.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let Ask::Approval { .. } = &self.question else { return Vec::new() };
        let scopes =
            [AnswerScope::Once, AnswerScope::Session, AnswerScope::Project, AnswerScope::Always];
        let allowed = scopes.into_iter().filter(|scope| self.offers(*scope)).map(Choice::Allow);
        let edit = self.command().map(|_| Choice::Edit);
        allowed.chain(edit).chain([Choice::Decline, Choice::Tell, Choice::Abort]).collect()
    }

    /// Returns the marked choice.
    pub(crate) fn marked_choice(&self) -> Choice {
        self.marked.unwrap_or(Choice::Decline)
    }

    /// Marks the next choice, or the one before.
    pub(crate) fn mark_next(&mut self, forward: bool) {
        let choices = self.choices();
        let marked = self.marked_choice();
        let at = choices.iter().position(|choice| *choice == marked).unwrap_or(0);
        let to = if forward { at + 1 } else { at.saturating_sub(1) };
        self.marked = choices.get(to).copied().or(self.marked);
    }

    /// Returns whether words are the only way to answer.
    pub(crate) fn is_answered_in_words(&self) -> bool {
        matches!(&self.question, Ask::Question { options, .. } if options.is_empty())
    }

    /// Decides the part that is shown and goes on to the next that is not decided.
    pub(crate) fn decide_part(&mut self, take: bool) {
        if let Some(taken) = self.taken.get_mut(self.part) {
            *taken = Some(take);
        }
        let mut after = (self.part..self.taken.len()).chain(0..self.part);
        let next = after.find(|at| self.taken.get(*at).is_some_and(Option::is_none));
        self.show_part(next.unwrap_or(self.part));
    }

    /// Shows a part from its beginning.
    pub(crate) fn show_part(&mut self, part: usize) {
        let part = part.min(self.taken.len().saturating_sub(1));
        if part != self.part {
            self.part = part;
            self.top = 0;
            self.seen = 0;
        }
    }

    /// Returns the answer of the parts that were taken: all is a plain yes, none a plain no.
    pub(crate) fn parts_answer(&self) -> Answer {
        let Ask::Approval { hunks, .. } = &self.question else { return no(None) };
        let keep: Vec<HunkId> = hunks
            .iter()
            .zip(&self.taken)
            .filter(|(_, taken)| **taken == Some(true))
            .map(|(hunk, _)| hunk.id.clone())
            .collect();
        match keep.len() {
            0 => no(None),
            count if count == hunks.len() => yes(AnswerScope::Once),
            _ => Answer::Approval {
                decision: ApprovalDecision::Allow,
                scope: AnswerScope::Once,
                hunks: Some(keep),
                edited: None,
                note: None,
            },
        }
    }

    /// Returns how many parts are taken.
    pub(crate) fn parts_taken(&self) -> usize {
        self.taken.iter().filter(|taken| **taken == Some(true)).count()
    }
}

/// Returns a yes.
pub(crate) fn yes(scope: AnswerScope) -> Answer {
    Answer::Approval {
        decision: ApprovalDecision::Allow,
        scope,
        hunks: None,
        edited: None,
        note: None,
    }
}

/// Returns a no that lets the turn go on.
pub(crate) fn no(note: Option<String>) -> Answer {
    Answer::Approval {
        decision: ApprovalDecision::Deny,
        scope: AnswerScope::Once,
        hunks: None,
        edited: None,
        note,
    }
}

/// Returns a no that ends the turn.
pub(crate) fn abort() -> Answer {
    Answer::Approval {
        decision: ApprovalDecision::Abort,
        scope: AnswerScope::Once,
        hunks: None,
        edited: None,
        note: None,
    }
}

/// Returns a yes to the call with another command in it; `None` when its form is not known.
pub(crate) fn yes_edited(item: &ResponseItem, command: &CommandLine, text: &str) -> Option<Answer> {
    let call = edited_call(item, command, text)?;
    Some(Answer::Approval {
        decision: ApprovalDecision::Allow,
        scope: AnswerScope::Once,
        hunks: None,
        edited: Some(call),
        note: None,
    })
}

/// Returns the command of a call that the user changed.
pub(crate) fn edited_text(call: &ToolCall) -> Option<String> {
    let of_argv = |argv: &[String]| match argv {
        [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => script.clone(),
        argv => argv.join(" "),
    };
    match &call.payload {
        ToolPayload::Function { arguments } => {
            let fields: serde_json::Value = serde_json::from_str(arguments).ok()?;
            match fields.get("cmd").or_else(|| fields.get("command"))? {
                serde_json::Value::String(text) => Some(text.clone()),
                value => Some(of_argv(&serde_json::from_value::<Vec<String>>(value.clone()).ok()?)),
            }
        }
        ToolPayload::LocalShell { command, .. } => Some(of_argv(command)),
        ToolPayload::Custom { .. } => None,
    }
}

fn edited_call(item: &ResponseItem, command: &CommandLine, text: &str) -> Option<ToolCall> {
    match item {
        ResponseItem::FunctionCall(call) => {
            let mut arguments: serde_json::Value = serde_json::from_str(&call.arguments).ok()?;
            let fields = arguments.as_object_mut()?;
            let key = ["cmd", "command"].into_iter().find(|key| fields.contains_key(*key))?;
            let value = match fields.get(key)? {
                serde_json::Value::Array(_) => new_argv(command, text)?.into(),
                _ => text.into(),
            };
            fields.insert(key.to_owned(), value);
            let arguments = arguments.to_string();
            Some(ToolCall {
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                payload: ToolPayload::Function { arguments },
            })
        }
        ResponseItem::LocalShellCall(call) => Some(ToolCall {
            call_id: call.call_id.clone(),
            name: "local_shell".into(),
            payload: ToolPayload::LocalShell {
                command: new_argv(command, text)?,
                workdir: call.action.working_directory.clone(),
                timeout_ms: call.action.timeout_ms,
            },
        }),
        _ => None,
    }
}

/// Returns the argument vector with the new text in the place of the old.
fn new_argv(command: &CommandLine, text: &str) -> Option<Vec<String>> {
    match command {
        CommandLine::Shell { .. } => {
            let mut argv = command.argv();
            argv.pop();
            argv.push(text.to_owned());
            Some(argv)
        }
        CommandLine::Argv { .. } => shlex::split(text).filter(|argv| !argv.is_empty()),
    }
}
