//! The session's desk for questions: answers what was answered before, and remembers.
//!
//! A question goes to the user only when no grant covers it, nothing like it was refused in
//! this turn, and the same is not being asked already. Session grants live here and are folded
//! from the log on resume; lasting ones in `store/approvals.rs`. What a grant covers is
//! `policy/grants.rs`. Deny decisions never come here. Owned by the session's `Desk`.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::PathBuf;

use chrono::SecondsFormat;
use chrono::Utc;
use sha2::Digest;
use sha2::Sha256;
use tokio::sync::oneshot;

use crate::agent::bus::Bus;
use crate::policy::grants;
use crate::protocol::Answer;
use crate::protocol::AnswerScope;
use crate::protocol::ApprovalDecision;
use crate::protocol::Ask;
use crate::protocol::AskId;
use crate::protocol::CallId;
use crate::protocol::EventMsg;
use crate::protocol::Grant;
use crate::protocol::GrantKey;
use crate::protocol::SessionId;
use crate::protocol::WarningKind;
use crate::store::approvals as lasting;
use crate::text::hex::encode_hex;

/// Letters of a grant's id: enough that a thousand do not meet.
const ID_CHARS: usize = 12;
/// Session grants; more are forgotten, oldest first, and asked again.
const SESSION_GRANTS_MAX: usize = 1_000;
/// Refusals kept within one turn; as above.
const REFUSALS_MAX: usize = 256;

/// Questions that are open, and what was answered.
#[derive(Debug)]
pub(super) struct Approvals {
    session: SessionId,
    state: PathBuf,
    project: PathBuf,
    asked: u64,
    grants: Vec<Grant>,
    open: Vec<OpenAsk>,
    /// What was refused in this turn, with the answer.
    refused: Vec<(Ask, Answer)>,
    /// What was wrong with the lasting grants; each thing is said once.
    complaints: BTreeSet<String>,
}

/// What a log tells of questions: how many there were, and what holds for the session.
#[derive(Debug, Default)]
pub(super) struct PastApprovals {
    asked: u64,
    open: HashMap<AskId, Ask>,
    keys: Vec<Remembered>,
}

/// What was allowed, and the rule that had asked.
type Remembered = (GrantKey, Option<String>);

#[derive(Debug)]
struct OpenAsk {
    id: AskId,
    question: Ask,
    waiting: Vec<Waiting>,
}

impl OpenAsk {
    /// Returns whether nobody waits for its answer any more.
    fn is_abandoned(&self) -> bool {
        self.waiting.iter().all(|waiting| waiting.answer.is_closed())
    }
}

#[derive(Debug)]
struct Waiting {
    call_id: CallId,
    answer: oneshot::Sender<Answer>,
}

impl PastApprovals {
    /// Takes in one event of the log, in order.
    pub(super) fn fold(&mut self, msg: &EventMsg) {
        if let EventMsg::AskOpened { ask, question } = msg {
            self.asked = self.asked.max(ask.0);
            self.open.insert(*ask, question.clone());
        } else if let EventMsg::Repaired { bytes: 0, .. } = msg {
            // What stands before was changed once, and could say anything.
            self.distrust();
        } else if let EventMsg::AskAnswered { ask, answer } = msg
            && remembered_scope(answer) == Some(AnswerScope::Session)
            && let Some(question) = self.open.get(ask)
            && let Some(key) = key_of(question)
        {
            let remembered = (key, rule_of(question));
            if !self.keys.contains(&remembered) {
                self.keys.push(remembered);
            }
        }
    }

    /// Forgets what was allowed: the log was changed, and could say anything.
    pub(super) fn distrust(&mut self) {
        self.keys.clear();
    }
}

impl Approvals {
    /// Returns the desk of a session, with what its log says.
    pub(super) fn new(
        session: SessionId,
        state: PathBuf,
        project: PathBuf,
        past: PastApprovals,
    ) -> Self {
        let mut approvals = Self {
            session,
            state,
            project,
            asked: past.asked,
            grants: Vec::new(),
            open: Vec::new(),
            refused: Vec::new(),
            complaints: BTreeSet::new(),
        };
        for key in past.keys {
            approvals.keep_for_session(key);
        }
        approvals
    }

    /// Drops the questions of a turn that ended, and its refusals: with a new message of the
    /// user's, the same may be asked again.
    pub(super) fn end_turn(&mut self) {
        self.open.clear();
        self.refused.clear();
    }

    /// Takes a question of a call: answers it, or lets the user answer.
    pub(super) async fn ask(
        &mut self,
        call_id: CallId,
        question: Ask,
        answer: oneshot::Sender<Answer>,
        around: (&mut Bus, bool),
    ) {
        let (bus, interactive) = around;
        let waiting = Waiting { call_id, answer };
        let Some(waiting) = self.answer_from_memory(&question, waiting, bus).await else { return };
        let same = self.open.iter_mut().find(|open| is_same(&open.question, &question));
        if let Some(open) = same {
            open.waiting.push(waiting);
            return;
        }
        self.asked += 1;
        let id = AskId(self.asked);
        let opened = EventMsg::AskOpened { ask: id, question: question.clone() };
        bus.emit_for(Some(waiting.call_id.clone()), None, opened).await;
        self.open.push(OpenAsk { id, question, waiting: vec![waiting] });
        if !interactive {
            let reason = "nobody is here to be asked".to_owned();
            self.answer(id, Answer::Declined { reason }, bus).await;
        }
    }

    /// Closes the questions for whose answer nobody waits any more, so that none is given in vain.
    pub(super) async fn withdraw_abandoned(&mut self, bus: &mut Bus) {
        let (gone, open): (Vec<_>, Vec<_>) = self.open.drain(..).partition(OpenAsk::is_abandoned);
        self.open = open;
        for OpenAsk { id, waiting, .. } in gone {
            let reason = "what asked has ended meanwhile".to_owned();
            let msg = EventMsg::AskAnswered { ask: id, answer: Answer::Declined { reason } };
            let call_id = waiting.into_iter().next().map(|waiting| waiting.call_id);
            bus.emit_for(call_id, None, msg).await;
        }
    }

    /// Takes the user's answer. One that does not fit its question is said to be so, and the
    /// question stays open.
    pub(super) async fn answer(&mut self, id: AskId, mut answer: Answer, bus: &mut Bus) {
        let Some(place) = self.open.iter().position(|open| open.id == id) else { return };
        let Some(open) = self.open.get(place) else { return };
        if open.is_abandoned() {
            return self.withdraw_abandoned(bus).await;
        }
        if let Some(problem) = find_misfit(&open.question, &answer) {
            let message = format!("the answer does not fit its question: {problem}");
            bus.emit(warning(message, None)).await;
            return;
        }
        let OpenAsk { question, waiting, .. } = self.open.remove(place);
        self.remember(&question, &mut answer, bus).await;
        for Waiting { call_id, answer: tx } in waiting {
            let msg = EventMsg::AskAnswered { ask: id, answer: answer.clone() };
            bus.emit_for(Some(call_id), None, msg).await;
            // A call that was stopped meanwhile wants no answer any more.
            let _ = tx.send(answer.clone());
        }
    }

    /// Answers by a grant, or as the same was refused in this turn; gives back who still waits.
    async fn answer_from_memory(
        &mut self,
        question: &Ask,
        waiting: Waiting,
        bus: &mut Bus,
    ) -> Option<Waiting> {
        let Some(key) = key_of(question) else { return Some(waiting) };
        let asked = (key, rule_of(question));
        if let Some((grant, scope)) = self.find_grant(&asked, bus).await {
            let outside = matches!(question, Ask::Approval { reach, .. } if reach.outside);
            let msg = EventMsg::GrantApplied { grant, scope, outside };
            bus.emit_for(Some(waiting.call_id), None, msg).await;
            let _ = waiting.answer.send(allow_once());
            return None;
        }
        let Some((_, refusal)) = self.refused.iter().find(|(asked, _)| is_same(asked, question))
        else {
            return Some(waiting);
        };
        let refusal = refusal.clone();
        let message = "the same was refused before in this turn, so it was not asked again";
        let msg = EventMsg::Warning {
            kind: WarningKind::Declined,
            message: message.to_owned(),
            hint: None,
        };
        bus.emit_for(Some(waiting.call_id), None, msg).await;
        let _ = waiting.answer.send(refusal);
        None
    }

    async fn find_grant(
        &mut self,
        asked: &Remembered,
        bus: &mut Bus,
    ) -> Option<(String, AnswerScope)> {
        let found = |grant: &Grant| (grant.id.clone(), grant.scope);
        if let Some(grant) = self.grants.iter().find(|grant| covers(grant, asked)) {
            return Some(found(grant));
        }
        let lasting = match lasting::load(&self.state) {
            Ok(lasting) => lasting,
            Err(error) => {
                self.complain(&error, "", bus).await;
                return None;
            }
        };
        let holds = |grant: &Grant| match grant.scope {
            AnswerScope::Always => true,
            AnswerScope::Project => grant.project.as_ref() == Some(&self.project),
            AnswerScope::Once | AnswerScope::Session => false,
        };
        lasting.iter().find(|grant| holds(grant) && covers(grant, asked)).map(found)
    }

    /// Remembers an answer for as long as it says. One that holds for less than it says is
    /// changed, so that the log says what holds.
    async fn remember(&mut self, question: &Ask, answer: &mut Answer, bus: &mut Bus) {
        if let Answer::Approval { decision: ApprovalDecision::Deny, .. } = answer {
            self.refused.truncate(REFUSALS_MAX - 1);
            self.refused.push((question.clone(), answer.clone()));
        }
        let Some(scope) = remembered_scope(answer) else {
            return set_scope(answer, AnswerScope::Once);
        };
        let Some(key) = key_of(question) else {
            set_scope(answer, AnswerScope::Once);
            bus.emit(warning("this cannot be remembered; it was allowed once".to_owned(), None))
                .await;
            return;
        };
        let may_last = grants::may_last(&key);
        let remembered = (key, rule_of(question));
        if scope == AnswerScope::Session {
            return self.keep_for_session(remembered);
        }
        if !may_last {
            set_scope(answer, AnswerScope::Session);
            self.keep_for_session(remembered);
            let message = "this is remembered for no longer than the session".to_owned();
            bus.emit(warning(message, None)).await;
            return;
        }
        let project = (scope == AnswerScope::Project).then(|| self.project.clone());
        let grant = self.build_grant(scope, project, remembered.clone());
        if let Err(error) = lasting::add(&self.state, grant) {
            set_scope(answer, AnswerScope::Session);
            self.keep_for_session(remembered);
            self.complain(&error, "; it holds for this session alone", bus).await;
        }
    }

    fn keep_for_session(&mut self, remembered: Remembered) {
        if self.grants.iter().any(|grant| covers(grant, &remembered)) {
            return;
        }
        if self.grants.len() >= SESSION_GRANTS_MAX {
            self.grants.remove(0);
        }
        let grant = self.build_grant(AnswerScope::Session, None, remembered);
        self.grants.push(grant);
    }

    fn build_grant(
        &self,
        scope: AnswerScope,
        project: Option<PathBuf>,
        (key, rule): Remembered,
    ) -> Grant {
        // Only what makes two approvals the same goes into the id.
        let content = match &rule {
            None => serde_json::to_vec(&(scope, &project, &key)),
            Some(rule) => serde_json::to_vec(&(scope, &project, &key, rule)),
        };
        let content = content.unwrap_or_default();
        let mut id = encode_hex(&Sha256::digest(&content));
        id.truncate(ID_CHARS);
        let at = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        Grant { id, scope, project, key, at, session: self.session, rule }
    }

    async fn complain(&mut self, error: &lasting::ApprovalsError, outcome: &str, bus: &mut Bus) {
        let message = format!("{error}{outcome}");
        if self.complaints.insert(message.clone()) {
            bus.emit(warning(message, error.hint())).await;
        }
    }
}

/// Returns whether a grant answers a question. A rule that asks is answered by what was granted
/// under it, and not by what was granted before it was written.
fn covers(grant: &Grant, (key, rule): &Remembered) -> bool {
    grants::covers(&grant.key, key) && (rule.is_none() || grant.rule == *rule)
}

/// Returns the rule that asks a question.
fn rule_of(question: &Ask) -> Option<String> {
    match question {
        Ask::Approval { rule, .. } => rule.clone(),
        Ask::Question { .. } | Ask::Elicitation { .. } => None,
    }
}

/// Returns what a question would be remembered by.
fn key_of(question: &Ask) -> Option<GrantKey> {
    match question {
        Ask::Approval { effect, reach, .. } => grants::build_key(effect, reach),
        Ask::Question { .. } | Ask::Elicitation { .. } => None,
    }
}

/// Returns whether two questions are the same to a person. Of a patch, its lines count too.
fn is_same(left: &Ask, right: &Ask) -> bool {
    let (Ask::Approval { effect: one, .. }, Ask::Approval { effect: other, .. }) = (left, right)
    else {
        return false;
    };
    match (key_of(left), key_of(right)) {
        (Some(GrantKey::Files { .. }), Some(GrantKey::Files { .. }))
        | (Some(GrantKey::Tool { .. }), Some(GrantKey::Tool { .. }))
        | (Some(GrantKey::Host { .. }), Some(GrantKey::Host { .. })) => one == other,
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// Returns for how long an answer is remembered; `None` for what holds once. A part of a patch
/// and a changed call are not what was asked, so they are never remembered.
fn remembered_scope(answer: &Answer) -> Option<AnswerScope> {
    match answer {
        Answer::Approval {
            decision: ApprovalDecision::Allow,
            scope,
            hunks: None,
            edited: None,
            ..
        } if *scope != AnswerScope::Once => Some(*scope),
        _ => None,
    }
}

fn set_scope(answer: &mut Answer, holds: AnswerScope) {
    if let Answer::Approval { scope, .. } = answer {
        *scope = holds;
    }
}

/// Returns why an answer is none to this question.
fn find_misfit(question: &Ask, answer: &Answer) -> Option<String> {
    let (hunks_known, given) = match (question, answer) {
        (_, Answer::Declined { .. })
        | (Ask::Question { .. }, Answer::Text { .. })
        | (Ask::Elicitation { .. }, Answer::Form { .. }) => return None,
        (Ask::Approval { hunks, .. }, Answer::Approval { hunks: given, edited, .. }) => {
            if given.is_some() && edited.is_some() {
                return Some("it both takes parts of the call and changes it".to_owned());
            }
            (hunks, given)
        }
        _ => return Some("it is of another kind".to_owned()),
    };
    let unknown = given.iter().flatten().find(|id| hunks_known.iter().all(|h| h.id != **id))?;
    Some(format!("there is no hunk {unknown}"))
}

fn allow_once() -> Answer {
    Answer::Approval {
        decision: ApprovalDecision::Allow,
        scope: AnswerScope::Once,
        hunks: None,
        edited: None,
        note: None,
    }
}

fn warning(message: String, hint: Option<String>) -> EventMsg {
    EventMsg::Warning { kind: WarningKind::Session, message, hint }
}
