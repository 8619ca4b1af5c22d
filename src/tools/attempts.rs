//! A command's attempts to reach hosts: judged by the rules, each an event, some a question.
//!
//! Knows no proxy but by what it says. What is asked here is answered and remembered as any
//! approval, and needs a call that waits for its command; what a command attempts between two
//! calls is asked by the second. That it attempted something is told at once: by its call, or by
//! the session for a command that is kept. Called by `shell.rs` and `exec_session.rs`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::policy::{Listing, decide_connection, grants};
use crate::protocol::{
    Answer, ApprovalDecision, ApprovalPolicy, Ask, Effect, EventMsg, Reach, WarningKind,
};
use crate::sandbox::{Attempt, AttemptsHeard, HostJudge, HostQuestion, Verdict, Wanted};
use crate::text;
use crate::tools::{ToolContext, TurnContext};

/// Attempts of one command that are events. One that makes more is in a loop, and the log is
/// not there to be filled by it.
const ATTEMPTS_LOGGED_MAX: usize = 500;
/// Questions of one command that are open at a time; more attempts wait.
const ASKED_MAX: usize = 16;

/// What a command attempts, as events, up to a number.
#[derive(Debug)]
pub struct AttemptLog {
    told: mpsc::Receiver<Attempt>,
    count: usize,
}

/// What a command attempts: the log of it, and what must be asked first.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub(crate) log: AttemptLog,
    pub(crate) questions: mpsc::Receiver<HostQuestion>,
}

/// How many questions of a command are open.
pub(super) type OpenQuestions = watch::Receiver<usize>;

/// Returns who judges what a command of this turn may reach.
pub(super) fn judge_hosts(turn: &TurnContext) -> HostJudge {
    let (rules, approval) = (Arc::clone(&turn.rules), turn.approval);
    Arc::new(move |Wanted { host, is_listed }| {
        let listing = if is_listed { Listing::Listed } else { Listing::Stranger };
        decide_connection(host, listing, approval, &rules)
    })
}

impl From<AttemptsHeard> for Attempts {
    fn from(AttemptsHeard { attempts: told, questions }: AttemptsHeard) -> Self {
        Self { log: AttemptLog { told, count: 0 }, questions }
    }
}

impl AttemptLog {
    /// Waits for the next attempt that is an event; `None` when the command can make none.
    pub(crate) async fn next(&mut self) -> Option<EventMsg> {
        loop {
            let attempt = self.told.recv().await?;
            if let Some(msg) = self.take(attempt) {
                return Some(msg);
            }
        }
    }

    fn take(&mut self, attempt: Attempt) -> Option<EventMsg> {
        self.count = self.count.saturating_add(1);
        match self.count {
            ..=ATTEMPTS_LOGGED_MAX => Some(EventMsg::NetworkAttempt {
                host: attempt.host,
                allowed: attempt.verdict == Verdict::Allowed,
            }),
            count if count == ATTEMPTS_LOGGED_MAX + 1 => Some(EventMsg::Warning {
                kind: WarningKind::Sandbox,
                message: format!(
                    "the command made more than {ATTEMPTS_LOGGED_MAX} connections; the others are not listed"
                ),
                hint: None,
            }),
            _ => None,
        }
    }
}

/// Does the work, and tells and asks of attempts meanwhile. What is still being asked when the
/// work is done is dropped, which is a no. Where the session keeps the log, it comes without one.
pub(super) async fn beside_attempts<T, W: Future<Output = T>>(
    work: impl FnOnce(OpenQuestions) -> W,
    (mut log, questions): (Option<&mut AttemptLog>, &mut mpsc::Receiver<HostQuestion>),
    (command, cx): (&str, &ToolContext),
) -> T {
    let (open, is_open) = watch::channel(0);
    let mut asked = FuturesUnordered::new();
    let (mut may_tell, mut may_ask) = (log.is_some(), true);
    let work = work(is_open);
    tokio::pin!(work);
    // Nothing is awaited beside the select but a line to the log, so no attempt is lost half-way.
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            msg = next_of(&mut log), if may_tell => match msg {
                Some(msg) => tell(msg, cx).await,
                None => may_tell = false,
            },
            question = questions.recv(), if may_ask && asked.len() < ASKED_MAX => match question {
                Some(question) => asked.push(ask(question, command, cx)),
                None => may_ask = false,
            },
            Some(()) = asked.next() => {}
        }
        open.send_replace(asked.len());
    };
    drop(asked);
    // The last ones may have been told together with the end.
    if let Some(log) = log {
        while let Ok(attempt) = log.told.try_recv() {
            if let Some(msg) = log.take(attempt) {
                tell(msg, cx).await;
            }
        }
    }
    done
}

/// Waits so long, not counting the time in which a question is open.
pub(super) async fn pass_unasked(wait: Duration, mut open: OpenQuestions) {
    let mut left = wait;
    loop {
        // A line that is closed has no questions any more.
        let _ = open.wait_for(|count| *count == 0).await;
        let from = Instant::now();
        let asked = async {
            if open.wait_for(|count| *count > 0).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(left) => return,
            () = asked => left = left.saturating_sub(from.elapsed()),
        }
    }
}

async fn next_of(log: &mut Option<&mut AttemptLog>) -> Option<EventMsg> {
    log.as_mut()?.next().await
}

async fn tell(msg: EventMsg, cx: &ToolContext) {
    cx.link.event(Some(cx.call_id.clone()), None, msg).await;
}

/// Asks whether the command may reach the host, and tells the proxy.
async fn ask(question: HostQuestion, command: &str, cx: &ToolContext) {
    let HostQuestion { host, decision, answer } = question;
    let asks = cx.turn.approval != ApprovalPolicy::Never;
    let question = build_question(&host, (decision.reason, decision.rule), command, cx);
    let allowed = asks
        && matches!(
            cx.link.ask(cx.call_id.clone(), question).await,
            Answer::Approval { decision: ApprovalDecision::Allow, .. }
        );
    // A client that is gone wants no answer.
    let _ = answer.send(allowed);
}

fn build_question(
    host: &str,
    (reason, rule): (String, Option<String>),
    command: &str,
    cx: &ToolContext,
) -> Ask {
    let sandbox = &cx.turn.sandbox;
    let effect = Effect::Fetch { url: format!("https://{host}/") };
    let reach = Reach {
        mode: sandbox.mode,
        level: cx.turn.sandbox_level,
        outside: false,
        roots: sandbox.roots.clone(),
        network: sandbox.network.clone(),
    };
    let (scopes, remembers) = grants::describe_scopes(&effect, &reach);
    let shown = format!("connect to {host}\n{command}");
    Ask::Approval {
        effect,
        shown: text::ansi::visible(&shown).into_owned(),
        remembers: text::ansi::visible(&remembers).into_owned(),
        asked_by: "main".to_owned(),
        rule,
        reason: text::ansi::visible(&reason).into_owned(),
        reach: Box::new(reach),
        hunks: Vec::new(),
        scopes,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::protocol::HunkId;
    use crate::protocol::{AnswerScope, Decision, DecisionAction};
    use crate::sandbox::{AttemptLine, attempt_line};
    use crate::tools::SessionRequest;
    use crate::tools::testing;

    fn allow() -> Answer {
        Answer::Approval {
            decision: ApprovalDecision::Allow,
            scope: AnswerScope::Once,
            hunks: None::<Vec<HunkId>>,
            edited: None,
            note: None,
        }
    }

    /// Runs work beside attempts, answers `yes.test` with yes, and returns what was said.
    async fn play(work: impl AsyncFnOnce(AttemptLine, OpenQuestions)) -> Vec<String> {
        let (cx, mut requests) = testing::context(Path::new("/w"), &Effect::None);
        let (line, heard) = attempt_line(judge_hosts(&cx.turn));
        let Attempts { mut log, mut questions } = heard.into();
        let mut said = Vec::new();
        let listen = async {
            while let Some(request) = requests.recv().await {
                match request {
                    SessionRequest::Event {
                        msg: EventMsg::NetworkAttempt { host, allowed },
                        ..
                    } => {
                        said.push(format!("{host} {allowed}"));
                    }
                    SessionRequest::Event { msg: EventMsg::Warning { message, .. }, .. } => {
                        said.push(message);
                    }
                    SessionRequest::Ask {
                        ask: Ask::Approval { shown, scopes, .. },
                        answer,
                        ..
                    } => {
                        assert_eq!(scopes.len(), 4);
                        let yes = shown.starts_with("connect to yes.test:443\nmake ␛");
                        let no = Answer::Declined { reason: "no".to_owned() };
                        let _ = answer.send(if yes { allow() } else { no });
                    }
                    SessionRequest::Event { .. }
                    | SessionRequest::Ask { .. }
                    | SessionRequest::Mask { .. }
                    | SessionRequest::Reveal { .. }
                    | SessionRequest::Attempts { .. }
                    | SessionRequest::Process(_)
                    | SessionRequest::Steering(_)
                    | SessionRequest::Sync(_) => {}
                }
            }
        };
        let run = async {
            let heard = (Some(&mut log), &mut questions);
            beside_attempts(|open| work(line, open), heard, ("make \u{1b}", &cx)).await;
            drop(cx);
        };
        tokio::join!(run, listen);
        said
    }

    async fn reach(line: &AttemptLine, host: &str) -> bool {
        let decision = line.judge(Wanted { host, is_listed: false });
        assert_eq!(decision.action, DecisionAction::Ask);
        let allowed = line.ask(host, decision).await;
        let reason = String::new();
        let verdict = if allowed { Verdict::Allowed } else { Verdict::Refused { reason } };
        line.tell(host, verdict).await && allowed
    }

    #[tokio::test]
    async fn attempts_are_events_and_strangers_are_asked() {
        let work = async |line: AttemptLine, _: OpenQuestions| {
            for host in ["yes.test:443", "no.test:443"] {
                assert_eq!(reach(&line, host).await, host.starts_with("yes"), "{host}");
            }
            let Decision { action, .. } =
                line.judge(Wanted { host: "listed.test:80", is_listed: true });
            assert_eq!(action, DecisionAction::Allow);
            assert!(line.tell("listed.test:80", Verdict::Allowed).await);
            let reason = String::new();
            assert!(line.tell("private.test:80", Verdict::Refused { reason }).await);
        };
        assert_eq!(
            play(work).await,
            [
                "yes.test:443 true",
                "no.test:443 false",
                "listed.test:80 true",
                "private.test:80 false"
            ]
        );
    }

    #[tokio::test]
    async fn the_log_is_not_filled_by_a_loop() {
        let work = async |line: AttemptLine, _: OpenQuestions| {
            for _ in 0..ATTEMPTS_LOGGED_MAX + 50 {
                line.tell("a.test:80", Verdict::Allowed).await;
            }
        };
        let said = play(work).await;
        assert_eq!(said.len(), ATTEMPTS_LOGGED_MAX + 1);
        assert!(said.last().is_some_and(|last| last.contains("more than 500 connections")));
    }

    #[tokio::test]
    async fn a_wait_stands_still_while_a_question_is_open() {
        let (open, is_open) = watch::channel(1);
        let mut over = std::pin::pin!(pass_unasked(Duration::ZERO, is_open));
        // Its time is over, and it goes on all the same.
        assert!(futures_util::poll!(&mut over).is_pending());
        open.send_replace(2);
        assert!(futures_util::poll!(&mut over).is_pending());
        open.send_replace(0);
        over.await;
    }
}
