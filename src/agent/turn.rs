//! The loop: ask the model, run its calls, send the outputs back, until it is done.
//!
//! It borrows the conversation from the session and reports over the session's link; it
//! knows no front end, no file and no dialect. What needs a paragraph here belongs in
//! `calls.rs`, the executor, or the session. Called by `session.rs`.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::agent::calls::ResponseCalls;
use crate::agent::session::user_message;
use crate::conversation::CallIdNote;
use crate::conversation::Conversation;
use crate::conversation::build_output;
use crate::model::Driver;
use crate::model::DriverError;
use crate::model::ResponseEvent;
use crate::prompt;
use crate::prompt::PromptContext;
use crate::protocol::DeltaKind;
use crate::protocol::EncodedItem;
use crate::protocol::ErrorKind;
use crate::protocol::EventMsg;
use crate::protocol::LimitKind;
use crate::protocol::PrefixShare;
use crate::protocol::ResponseItem;
use crate::protocol::StopCause;
use crate::protocol::TokenUsage;
use crate::protocol::ToolSpec;
use crate::protocol::TurnOutcome;
use crate::protocol::WarningKind;
use crate::tools::Executed;
use crate::tools::Executor;
use crate::tools::SessionLink;
use crate::tools::Stop;
use crate::tools::ToolError;
use crate::tools::ToolRouter;

/// How much of an unfinished answer is kept when the turn is stopped.
const PARTIAL_BYTES_MAX: usize = 1 << 20;
/// What the model later reads as the output of a call that was stopped.
pub(super) const INTERRUPTED: &str = "interrupted: the turn was stopped before this call ended";

/// One turn, borrowing from its session.
pub(super) struct Turn<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) memory: &'a mut RequestMemory,
    /// All of a request but the conversation.
    pub(super) context: PromptContext,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) router: ToolRouter,
    pub(super) executor: Executor,
    pub(super) link: SessionLink,
    pub(super) cancel: CancellationToken,
    pub(super) steps_max: u32,
    pub(super) context_window: Option<u64>,
    pub(super) session_usage: TokenUsage,
    pub(super) report: TurnReport,
}

/// What a turn came to.
#[derive(Debug, Default)]
pub(super) struct TurnReport {
    /// Requests made.
    pub(super) steps: u32,
    /// Tokens of all of them.
    pub(super) usage: TokenUsage,
    /// The last assistant message.
    pub(super) last_message: Option<String>,
}

/// What the last request held, to say what the next one shares with it.
#[derive(Debug, Default)]
pub(super) struct RequestMemory {
    input: Vec<Arc<EncodedItem>>,
    tools: Option<Arc<[ToolSpec]>>,
}

/// One response while it arrives.
struct Response {
    id: Option<String>,
    calls: ResponseCalls,
    partial: String,
}

impl Turn<'_> {
    /// Runs the turn to its end. Every call of the conversation has its output afterwards.
    pub(super) async fn run(mut self) -> (TurnOutcome, TurnReport) {
        let outcome = loop {
            if self.cancel.is_cancelled() {
                break interrupted();
            }
            if self.report.steps >= self.steps_max {
                break self.limit_reached().await;
            }
            self.report.steps += 1;
            tracing::debug!(step = self.report.steps, "step");
            let calls = match self.stream_response().await {
                Ok(calls) => calls,
                Err(outcome) => break outcome,
            };
            if calls.is_empty() {
                self.check_answer().await;
                break TurnOutcome::Completed;
            }
            let outputs = calls.finish().await;
            if let Some(outcome) = self.record_outputs(outputs).await {
                break outcome;
            }
            self.take_steering().await;
        };
        (outcome, self.report)
    }

    /// Sends the conversation and takes the answer in, up to its end.
    async fn stream_response(&mut self) -> Result<ResponseCalls, TurnOutcome> {
        let prompt = prompt::build(&self.context, self.conversation.for_model());
        let mut request = Some(prompt.input.clone());
        let mut stream = self.driver.stream(prompt);
        let calls = ResponseCalls::new(self.executor.clone(), self.context.parallel_tool_calls);
        let mut response = Response { id: None, calls, partial: String::new() };
        loop {
            let next = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    drop(stream);
                    return Err(self.stop_response(response).await);
                }
                () = response.calls.next_ended() => continue,
                next = stream.next() => next,
            };
            match next {
                Some(Ok(ResponseEvent::Sent { body_hash, body_bytes })) => {
                    let input = request.take().unwrap_or_default();
                    self.report_request(input, body_hash, body_bytes).await;
                }
                Some(Ok(ResponseEvent::Completed { usage })) => {
                    self.count_tokens(response.id.take(), usage).await;
                    return Ok(response.calls);
                }
                Some(Ok(event)) => self.take_event(&mut response, event).await,
                Some(Err(error)) => return Err(self.fail_response(response, error).await),
                None => {
                    let error = stream_ended();
                    return Err(self.fail_response(response, error).await);
                }
            }
        }
    }

    /// Takes in one event that does not end the response.
    async fn take_event(&mut self, response: &mut Response, event: ResponseEvent) {
        let msg = match event {
            ResponseEvent::Created { response_id } => {
                response.id = Some(response_id);
                return;
            }
            ResponseEvent::ItemDone(item) => return self.take_item(response, item).await,
            ResponseEvent::TextDelta(text) => {
                if response.partial.len() + text.len() <= PARTIAL_BYTES_MAX {
                    response.partial.push_str(&text);
                }
                EventMsg::ItemDelta { kind: DeltaKind::Text, text }
            }
            ResponseEvent::ReasoningDelta(text) => {
                EventMsg::ItemDelta { kind: DeltaKind::Reasoning, text }
            }
            ResponseEvent::ArgumentsDelta(text) => {
                EventMsg::ItemDelta { kind: DeltaKind::Arguments, text }
            }
            ResponseEvent::Restarted { attempt, attempts_max, delay_ms, reason } => {
                response.partial.clear();
                let wait = f64::from(u32::try_from(delay_ms).unwrap_or(u32::MAX)) / 1_000.0;
                warning(
                    WarningKind::Retry,
                    format!("{reason}; trying again in {wait:.1} s ({attempt} of {attempts_max})"),
                )
            }
            ResponseEvent::Warning(message) => warning(WarningKind::Stream, message),
            // Both end or begin a response and are taken by the caller.
            ResponseEvent::Sent { .. } | ResponseEvent::Completed { .. } => return,
        };
        self.link.event(None, response.id.clone(), msg).await;
    }

    /// Records an item; a call among the items is started or put in line.
    async fn take_item(&mut self, response: &mut Response, mut item: ResponseItem) {
        response.partial.clear();
        let note = self.conversation.normalise_call(&mut item);
        if let Some(text) = item.assistant_message().filter(|text| !text.is_empty()) {
            self.report.last_message = Some(text);
        }
        let call = self.router.route(&item);
        let item = self.record(item, response.id.clone()).await;
        let Some(call) = call else { return };
        match note {
            CallIdNote::Kept => response.calls.add(item, call),
            // Twice in one response may be one call sent twice: nothing is run twice.
            CallIdNote::Duplicate(id) if response.calls.has(&id) => {
                let why = format!("the call id `{id}` was used before, so this call was not run");
                response.calls.refuse(item, call, ToolError::InvalidArguments(why)).await;
            }
            // Some servers number the calls of each response from the start.
            CallIdNote::Given | CallIdNote::Duplicate(_) => {
                let message =
                    format!("the call of `{}` has no id of its own; it has one now", call.name);
                let msg = warning(WarningKind::Stream, message);
                self.link.event(Some(call.call_id.clone()), response.id.clone(), msg).await;
                response.calls.add(item, call);
            }
        }
    }

    /// Makes an item part of the conversation and of the log.
    async fn record(
        &mut self,
        item: ResponseItem,
        response_id: Option<String>,
    ) -> Arc<EncodedItem> {
        let id = item.call_id().or(item.answers()).cloned();
        let msg = EventMsg::ItemCompleted { item: item.clone() };
        self.link.event(id, response_id, msg).await;
        self.conversation.push(item)
    }

    /// Records outputs in the order of their calls; says whether one of them ends the turn.
    async fn record_outputs(
        &mut self,
        outputs: Vec<(Arc<EncodedItem>, Executed)>,
    ) -> Option<TurnOutcome> {
        let mut outcome = None;
        for (call, executed) in outputs {
            if let Some(output) = build_output(&call.item, executed.body) {
                self.record(output, None).await;
            }
            if let Some(stop) = executed.stop {
                outcome = outcome.or(Some(stopped_by(stop)));
            }
        }
        outcome
    }

    /// Adds what the user said while the turn ran.
    async fn take_steering(&mut self) {
        for input in self.link.take_steering().await {
            self.link.event(None, None, EventMsg::Steered { input: input.clone() }).await;
            self.record(user_message(input), None).await;
        }
    }

    /// The turn was stopped: keeps what was said so far and answers every call.
    async fn stop_response(&mut self, response: Response) -> TurnOutcome {
        let outputs = response.calls.abandon(&ToolError::Interrupted).await;
        self.record_outputs(outputs).await;
        self.record_partial(response.partial, response.id).await;
        interrupted()
    }

    /// Keeps the beginning of a message whose end never came.
    async fn record_partial(&mut self, partial: String, response_id: Option<String>) {
        if !partial.is_empty() {
            self.record(ResponseItem::assistant_text(None, partial), response_id).await;
        }
    }

    /// The response broke for good: reports it and answers every call.
    async fn fail_response(&mut self, response: Response, error: DriverError) -> TurnOutcome {
        let why = ToolError::Unavailable(format!("not run: the response broke ({error})"));
        let outputs = response.calls.abandon(&why).await;
        self.record_outputs(outputs).await;
        self.record_partial(response.partial, response.id.clone()).await;
        let DriverError { kind, message, hint, retryable } = error;
        let outcome = TurnOutcome::Failed { error: kind, message: message.clone() };
        let msg = EventMsg::Error { kind, message, hint, retryable };
        self.link.event(None, response.id, msg).await;
        outcome
    }

    async fn report_request(
        &mut self,
        input: Vec<Arc<EncodedItem>>,
        body_hash: String,
        body_bytes: u64,
    ) {
        let tools = Arc::clone(&self.context.tools);
        let is_same = self.memory.tools.as_ref().is_some_and(|last| *last == tools);
        let shared = self.memory.input.iter().zip(&input).take_while(|(a, b)| Arc::ptr_eq(a, b));
        let (items, bytes) = shared
            .fold((0, 0), |(items, bytes), (item, _)| (items + 1, bytes + item.json.len() as u64));
        self.memory.input = input;
        self.memory.tools = Some(Arc::clone(&tools));
        let msg = EventMsg::RequestStarted {
            step: self.report.steps,
            body_hash,
            body_bytes,
            prefix: PrefixShare { items, bytes },
            tools: (!is_same).then(|| tools.to_vec()),
        };
        self.link.event(None, None, msg).await;
    }

    async fn count_tokens(&mut self, response_id: Option<String>, usage: TokenUsage) {
        self.report.usage += usage;
        self.session_usage += usage;
        let msg = EventMsg::TokenCount {
            response: usage,
            session: self.session_usage,
            context_window: self.context_window,
        };
        self.link.event(None, response_id, msg).await;
    }

    /// Says it when the model was done without a word.
    async fn check_answer(&self) {
        if self.report.last_message.is_none() {
            let msg =
                warning(WarningKind::Stream, "the model ended the turn without a word".to_owned());
            self.link.event(None, None, msg).await;
        }
    }

    async fn limit_reached(&self) -> TurnOutcome {
        let limit = LimitKind::Steps;
        let msg = EventMsg::LimitReached { limit, value: u64::from(self.steps_max) };
        self.link.event(None, None, msg).await;
        TurnOutcome::LimitReached { limit }
    }
}

impl RequestMemory {
    /// Returns the memory of a session whose log already tells of its tools.
    pub(super) fn with_tools(tools: Option<Arc<[ToolSpec]>>) -> Self {
        Self { input: Vec::new(), tools }
    }
}

/// The session knows the cause; it puts it in the place of this one.
fn interrupted() -> TurnOutcome {
    TurnOutcome::Interrupted { cause: StopCause::User }
}

fn stopped_by(stop: Stop) -> TurnOutcome {
    match stop {
        Stop::Asked(message) | Stop::Fatal(message) => {
            TurnOutcome::Failed { error: ErrorKind::Tool, message }
        }
        Stop::Denied(reason) => TurnOutcome::Denied { reason },
    }
}

fn stream_ended() -> DriverError {
    DriverError {
        kind: ErrorKind::Stream,
        message: "the response ended before it was complete".to_owned(),
        hint: None,
        retryable: true,
    }
}

fn warning(kind: WarningKind, message: String) -> EventMsg {
    EventMsg::Warning { kind, message, hint: None }
}
