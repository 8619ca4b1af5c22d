//! A command's attempts to reach hosts: each is an event, and one that nobody listed a question.
//!
//! Knows no proxy but by what it says. What is asked here is answered and remembered as any
//! approval. Called by `shell.rs` and `exec_session.rs` while a call waits for its command; what
//! a command attempts between two calls waits for the second.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use crate::policy::grants;
use crate::protocol::{
    Answer, AnswerScope, ApprovalDecision, ApprovalPolicy, Ask, Effect, EventMsg, Reach,
    WarningKind,
};
use crate::sandbox::{Attempt, Verdict};
use crate::text;
use crate::tools::ToolContext;

/// Attempts of one command that are events. One that makes more is in a loop, and the log is
/// not there to be filled by it.
const ATTEMPTS_LOGGED_MAX: usize = 500;
/// Questions of one command that are open at a time; more attempts wait.
const ASKED_MAX: usize = 16;

/// Does the work, and takes note of attempts meanwhile. What is still being asked when the work
/// is done is dropped.
pub(super) async fn beside_attempts<T>(
    work: impl Future<Output = T>,
    attempts: &mut mpsc::Receiver<Attempt>,
    (command, cx): (&str, &ToolContext),
) -> T {
    let mut log = Log { cx, count: 0 };
    let mut asked = FuturesUnordered::new();
    let mut is_open = true;
    tokio::pin!(work);
    // Nothing is awaited beside the select but a line to the log, so no attempt is lost half-way.
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            attempt = attempts.recv(), if is_open && asked.len() < ASKED_MAX => match attempt {
                Some(Attempt { host, verdict: Verdict::Asked { answer } }) => {
                    asked.push(ask(host, answer, command, cx));
                }
                Some(Attempt { host, verdict }) => {
                    log.write(host, matches!(verdict, Verdict::Allowed)).await;
                }
                None => is_open = false,
            },
            Some((host, allowed)) = asked.next() => log.write(host, allowed).await,
        }
    };
    // The last ones may have been told together with the end.
    while let Ok(Attempt { host, verdict }) = attempts.try_recv() {
        log.write(host, matches!(verdict, Verdict::Allowed)).await;
    }
    done
}

/// Asks whether the command may reach the host, tells the proxy, and returns both.
async fn ask(
    host: String,
    answer: oneshot::Sender<bool>,
    command: &str,
    cx: &ToolContext,
) -> (String, bool) {
    let allowed = cx.turn.approval != ApprovalPolicy::Never && is_allowed(&host, command, cx).await;
    // A client that is gone wants no answer.
    let _ = answer.send(allowed);
    (host, allowed)
}

async fn is_allowed(host: &str, command: &str, cx: &ToolContext) -> bool {
    let sandbox = &cx.turn.sandbox;
    let effect = Effect::Fetch { url: format!("https://{host}/") };
    let reach = Reach {
        mode: sandbox.mode,
        level: cx.turn.sandbox_level,
        outside: false,
        roots: sandbox.roots.clone(),
        network: sandbox.network.clone(),
    };
    let mut scopes = vec![AnswerScope::Once];
    if grants::build_key(&effect, &reach).is_some() {
        scopes.extend([AnswerScope::Session, AnswerScope::Project, AnswerScope::Always]);
    }
    let shown = format!("connect to {host}\n{command}");
    let question = Ask::Approval {
        effect,
        shown: text::ansi::visible(&shown).into_owned(),
        asked_by: "main".to_owned(),
        rule: None,
        reason: format!("{host} is not among allowed_hosts"),
        reach: Box::new(reach),
        hunks: Vec::new(),
        scopes,
    };
    let answer = cx.link.ask(cx.call_id.clone(), question).await;
    matches!(answer, Answer::Approval { decision: ApprovalDecision::Allow, .. })
}

/// Writes attempts down, up to a number.
struct Log<'a> {
    cx: &'a ToolContext,
    count: usize,
}

impl Log<'_> {
    async fn write(&mut self, host: String, allowed: bool) {
        self.count += 1;
        let msg = match self.count {
            ..=ATTEMPTS_LOGGED_MAX => EventMsg::NetworkAttempt { host, allowed },
            count if count == ATTEMPTS_LOGGED_MAX + 1 => EventMsg::Warning {
                kind: WarningKind::Sandbox,
                message: format!(
                    "the command made more than {ATTEMPTS_LOGGED_MAX} connections; the others are not listed"
                ),
                hint: None,
            },
            _ => return,
        };
        self.cx.link.event(Some(self.cx.call_id.clone()), None, msg).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::protocol::HunkId;
    use crate::sandbox::attempt_line;
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
    async fn play(
        work: impl Future<Output = ()>,
        mut told: mpsc::Receiver<Attempt>,
    ) -> Vec<String> {
        let (cx, mut requests) = testing::context(Path::new("/w"), &Effect::None);
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
                    | SessionRequest::Process(_)
                    | SessionRequest::Sync(_) => {}
                }
            }
        };
        let run = async {
            beside_attempts(work, &mut told, ("make \u{1b}", &cx)).await;
            drop(cx);
        };
        tokio::join!(run, listen);
        said
    }

    #[tokio::test]
    async fn attempts_are_events_and_strangers_are_asked() {
        let (line, told) = attempt_line();
        let work = async move {
            for host in ["yes.test:443", "no.test:443"] {
                assert_eq!(line.ask(host).await, host.starts_with("yes"), "{host}");
            }
            assert!(line.tell("listed.test:80", Verdict::Allowed).await);
            let reason = String::new();
            assert!(line.tell("private.test:80", Verdict::Refused { reason }).await);
        };
        let said = play(work, told).await;
        assert_eq!(
            said,
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
        let (line, told) = attempt_line();
        let work = async move {
            for _ in 0..ATTEMPTS_LOGGED_MAX + 50 {
                line.tell("a.test:80", Verdict::Allowed).await;
            }
        };
        let said = play(work, told).await;
        assert_eq!(said.len(), ATTEMPTS_LOGGED_MAX + 1);
        assert!(said.last().is_some_and(|last| last.contains("more than 500 connections")));
    }
}
