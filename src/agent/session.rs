//! The session: one task that owns its data. `Op`s come in, `Event`s go out.
//!
//! Fields are plain; the task is the lock. While a turn runs, the task waits on three things
//! at once: the turn (which borrows the conversation), what comes over the turn's link, and
//! new `Op`s. It runs no tool and speaks to no model itself. Started by `Engine::start`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::approvals::Approvals;
use crate::agent::attempts::KeptAttempts;
use crate::agent::bus::Bus;
use crate::agent::notes::RestoredNote;
use crate::agent::opening::Said;
use crate::agent::processes::ProcessTable;
use crate::agent::settings::Settings;
use crate::agent::settings::Surroundings;
use crate::agent::turn::RequestMemory;
use crate::agent::turn::Turn;
use crate::agent::turn::TurnReport;
use crate::config::Config;
use crate::conversation::Conversation;
use crate::mcp::McpClient;
use crate::model::DriverFactory;
use crate::prompt::InstructionFiles;
use crate::prompt::PromptContext;
use crate::protocol::ErrorKind;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::Op;
use crate::protocol::QueueEdit;
use crate::protocol::ResponseItem;
use crate::protocol::RestoreWhat;
use crate::protocol::SessionId;
use crate::protocol::SettingsPatch;
use crate::protocol::StopCause;
use crate::protocol::TokenUsage;
use crate::protocol::TurnId;
use crate::protocol::TurnOutcome;
use crate::protocol::UserInput;
use crate::protocol::WarningKind;
use crate::protocol::When;
use crate::sandbox::CommandRunner;
use crate::store::snapshot::SnapshotWorker;
use crate::tools::Executor;
use crate::tools::Registration;
use crate::tools::SessionLink;
use crate::tools::SessionRequest;
use crate::tools::ToolRegistry;
use crate::tools::ToolRouter;

/// Reports a turn may be ahead of its session.
const LINK_MAX: usize = 128;
/// Messages that wait for the end of a turn; more are refused.
const QUEUE_MAX: usize = 32;

/// A session's data. `run` consumes it.
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) config: Arc<Config>,
    pub(super) around: Surroundings,
    pub(super) drivers: Arc<dyn DriverFactory>,
    pub(super) tools: Vec<Registration>,
    pub(super) runner: Arc<dyn CommandRunner>,
    pub(super) bus: Bus,
    pub(super) settings: Settings,
    pub(super) instructions: Arc<str>,
    pub(super) conversation: Conversation,
    pub(super) memory: RequestMemory,
    pub(super) usage: TokenUsage,
    /// What has to be said first, when the task begins.
    pub(super) opening: Vec<Said>,
    /// The instruction files, until they open the conversation.
    pub(super) files: Option<InstructionFiles>,
    /// Built at the first turn, when MCP servers have started.
    pub(super) registry: Option<Arc<ToolRegistry>>,
    /// Kept for as long as the session, because dropping one kills its server.
    pub(super) servers: Vec<Arc<McpClient>>,
    pub(super) desk: Desk,
    /// `None` when undo is switched off, or nothing is kept of the session.
    pub(super) snapshots: Option<SnapshotWorker>,
    /// What was undone or redone since the last turn; the next one tells the model.
    pub(super) restored: Vec<RestoredNote>,
}

/// What is on the session's desk while a turn runs: open questions, waiting messages, wishes.
#[derive(Debug)]
pub(super) struct Desk {
    approvals: Approvals,
    queue: VecDeque<Queued>,
    pub(super) processes: ProcessTable,
    attempts: KeptAttempts,
    stop: Option<StopCause>,
    shutdown: bool,
}

#[derive(Debug)]
struct Queued {
    input: Vec<UserInput>,
    overrides: SettingsPatch,
    when: When,
}

impl Session {
    /// Returns the session's id.
    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Serves `Op`s until `Shutdown`, or until nobody can send any more.
    pub(super) async fn run(mut self, mut ops: mpsc::Receiver<Op>) {
        for (call_id, msg) in std::mem::take(&mut self.opening) {
            self.bus.emit_for(call_id, None, msg).await;
        }
        if self.check_log().await.is_some() {
            return;
        }
        while !self.desk.shutdown {
            if let Some(queued) = self.desk.queue.pop_front() {
                self.report_queue().await;
                self.user_turn(queued, &mut ops).await;
                continue;
            }
            let op = tokio::select! {
                op = ops.recv() => op,
                id = self.desk.processes.next_ended() => {
                    self.desk.processes.report_end(id, &mut self.bus).await;
                    continue;
                }
                (call_id, msg) = self.desk.attempts.next() => {
                    self.bus.emit_for(Some(call_id), None, msg).await;
                    continue;
                }
            };
            match op {
                // Nothing runs, so the message never waited and there is no queue to report.
                Some(Op::UserTurn { input, overrides, when }) => {
                    self.user_turn(Queued { input, overrides, when }, &mut ops).await;
                }
                Some(op) => self.take_op(op).await,
                None => break,
            }
        }
        self.desk.processes.end_all(&mut self.bus).await;
        self.desk.attempts.tell_rest(&mut self.bus).await;
        self.stop_servers().await;
        if let Some(snapshots) = &self.snapshots {
            snapshots.close().await;
        }
        let (done, synced) = oneshot::channel();
        self.bus.sync(done);
        let _ = synced.await;
    }

    /// Takes an `Op` while no turn runs.
    async fn take_op(&mut self, op: Op) {
        match op {
            Op::SetSettings { settings } => self.settings.apply(settings),
            Op::Restore { turn, what: RestoreWhat::Files, direction } => {
                self.restore_files(turn, direction).await;
            }
            other => {
                let (desk, bus) = (&mut self.desk, &mut self.bus);
                desk.take_op(other, bus, &CancellationToken::new()).await;
            }
        }
    }

    /// Runs one user turn from `TurnStarted` to `TurnEnded`.
    async fn user_turn(&mut self, queued: Queued, ops: &mut mpsc::Receiver<Op>) {
        let started = Instant::now();
        self.settings.apply(queued.overrides);
        self.bus.set_turn(TurnId(self.bus.turn().0 + 1));
        self.bus
            .emit(EventMsg::TurnStarted {
                input: queued.input.clone(),
                model: self.settings.model.clone(),
                approval: self.settings.approval,
                sandbox: self.settings.policy_at(self.around.level),
            })
            .await;
        self.desk.stop = None;
        let (mut outcome, report) = match self.prepare_turn(queued.input, ops).await {
            Ok(()) => self.drive_turn(ops).await,
            Err(outcome) => (outcome, TurnReport::default()),
        };
        if let (TurnOutcome::Interrupted { cause }, Some(stop)) = (&mut outcome, self.desk.stop) {
            *cause = stop;
        }
        self.desk.processes.record_changes(&mut self.bus).await;
        if let Some(failed) = self.check_log().await {
            outcome = failed;
        }
        self.usage += report.usage;
        let ended = EventMsg::TurnEnded {
            outcome,
            usage: report.usage,
            steps: report.steps,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            last_message: report.last_message,
        };
        self.bus.emit_end(ended).await;
    }

    /// Does what stands between a user's message and the loop: opening, message, servers.
    async fn prepare_turn(
        &mut self,
        input: Vec<UserInput>,
        ops: &mut mpsc::Receiver<Op>,
    ) -> Result<(), TurnOutcome> {
        for item in self.opening_items() {
            self.record(item).await;
        }
        for note in std::mem::take(&mut self.restored) {
            self.record(note.into_item(&self.config.cwd)).await;
        }
        self.record(user_message(input)).await;
        if self.registry.is_none() {
            self.build_registry(ops).await?;
        }
        Ok(())
    }

    /// Runs the loop, and serves its link and new `Op`s meanwhile.
    async fn drive_turn(&mut self, ops: &mut mpsc::Receiver<Op>) -> (TurnOutcome, TurnReport) {
        let driver = match self.drivers.driver(&self.settings.model) {
            Ok(driver) => driver,
            Err(error) => return (self.report_driver_error(error).await, TurnReport::default()),
        };
        let Some(registry) = self.registry.clone() else {
            return (failed_by("the tools were not built"), TurnReport::default());
        };
        let (link_tx, mut link) = mpsc::channel(LINK_MAX);
        let cancel = CancellationToken::new();
        if self.desk.stop.is_some() || self.desk.shutdown {
            cancel.cancel();
        }
        let context = self.prompt_context(&registry);
        let executor = self.executor(&registry, SessionLink::new(link_tx.clone()), &cancel);
        let turn = Turn {
            conversation: &mut self.conversation,
            memory: &mut self.memory,
            context,
            driver,
            router: ToolRouter::new(registry),
            executor,
            link: SessionLink::new(link_tx),
            cancel: cancel.clone(),
            steps_max: self.config.max_steps,
            context_window: self.settings.context_window(),
            session_usage: self.usage,
            report: TurnReport::default(),
        };
        let (desk, bus, interactive) = (&mut self.desk, &mut self.bus, self.around.interactive);
        let mut running = std::pin::pin!(turn.run());
        let ended = loop {
            tokio::select! {
                biased;
                Some(request) = link.recv() => desk.take_request(request, bus, interactive).await,
                op = ops.recv(), if !desk.shutdown => match op {
                    Some(op) => desk.take_op(op, bus, &cancel).await,
                    None => desk.close(&cancel),
                },
                id = desk.processes.next_ended() => desk.processes.report_end(id, bus).await,
                (call_id, msg) = desk.attempts.next() => {
                    bus.emit_for(Some(call_id), None, msg).await;
                }
                ended = &mut running => break ended,
            }
            if bus.has_failed() {
                cancel.cancel();
            }
        };
        while let Ok(request) = link.try_recv() {
            desk.take_request(request, bus, interactive).await;
        }
        desk.approvals.end_turn();
        if desk.stop.is_some() {
            // What the user stops, stops whole; commands of earlier turns were no part of it.
            desk.processes.end_turn(bus.turn(), bus).await;
        }
        ended
    }

    fn prompt_context(&self, registry: &ToolRegistry) -> PromptContext {
        PromptContext {
            instructions: Arc::clone(&self.instructions),
            tools: registry.specs(),
            settings: self.settings.model_settings(self.id),
            parallel_tool_calls: self.settings.parallel_tool_calls(),
            output_schema: self.settings.output_schema.clone(),
        }
    }

    fn executor(
        &self,
        registry: &Arc<ToolRegistry>,
        link: SessionLink,
        cancel: &CancellationToken,
    ) -> Executor {
        Executor {
            registry: Arc::clone(registry),
            turn: Arc::new(self.settings.turn_context(&self.around)),
            runner: Arc::clone(&self.runner),
            snapshots: self.snapshots.clone(),
            link,
            seen: self.around.seen.clone(),
            cancel: cancel.clone(),
        }
    }

    async fn record(&mut self, item: ResponseItem) {
        self.bus.emit(EventMsg::ItemCompleted { item: item.clone() }).await;
        self.conversation.push(item);
    }

    async fn report_driver_error(&mut self, error: crate::model::DriverError) -> TurnOutcome {
        let crate::model::DriverError { kind, message, hint, retryable } = error;
        let outcome = TurnOutcome::Failed { error: kind, message: message.clone() };
        self.bus.emit(EventMsg::Error { kind, message, hint, retryable }).await;
        outcome
    }

    async fn report_queue(&mut self) {
        self.desk.report_queue(&mut self.bus).await;
    }

    /// Says it when the log could not be written; the turn then counts as failed, and no
    /// other follows: the log is the session.
    async fn check_log(&mut self) -> Option<TurnOutcome> {
        let failure = self.bus.take_failure()?;
        self.desk.shutdown = true;
        let message = failure.to_string();
        let msg = EventMsg::Error {
            kind: ErrorKind::Session,
            message: message.clone(),
            hint: Some("free some space, or run with --ephemeral to keep no log".to_owned()),
            retryable: false,
        };
        self.bus.emit(msg).await;
        Some(TurnOutcome::Failed { error: ErrorKind::Session, message })
    }

    /// Returns whether the session has been told to stop, taking in what waits in `ops`.
    pub(super) async fn serve_while<T>(
        &mut self,
        ops: &mut mpsc::Receiver<Op>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let cancel = CancellationToken::new();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return None,
                op = ops.recv() => match op {
                    Some(op) => self.desk.take_op(op, &mut self.bus, &cancel).await,
                    None => self.desk.close(&cancel),
                },
                done = &mut work => return Some(done),
            }
        }
    }
}

impl Desk {
    /// Returns an empty desk that remembers these approvals.
    pub(super) fn new(approvals: Approvals) -> Self {
        Self {
            approvals,
            processes: ProcessTable::default(),
            attempts: KeptAttempts::default(),
            queue: VecDeque::new(),
            stop: None,
            shutdown: false,
        }
    }

    /// Takes what a turn or one of its calls says.
    async fn take_request(&mut self, request: SessionRequest, bus: &mut Bus, interactive: bool) {
        match request {
            SessionRequest::Event { call_id, response_id, msg } => {
                let may_be_asking = matches!(msg, EventMsg::ToolCallEnd { .. });
                bus.emit_for(call_id, response_id, msg).await;
                if may_be_asking {
                    self.approvals.withdraw_abandoned(bus).await;
                }
            }
            SessionRequest::Sync(done) => bus.sync(done),
            SessionRequest::Steering(steering) => {
                let _ = steering.send(self.take_steering(bus).await);
            }
            SessionRequest::Mask { output, masked } => {
                let _ = masked.send(bus.masking().output(output));
            }
            SessionRequest::Reveal { call, place, revealed } => {
                let _ = revealed.send(bus.masking().reveal(call, place));
            }
            SessionRequest::Process(request) => self.processes.take_request(request, bus).await,
            SessionRequest::Attempts { call_id, log } => self.attempts.add(call_id, log),
            SessionRequest::Ask { call_id, ask: question, answer } => {
                self.approvals.ask(call_id, question, answer, (bus, interactive)).await;
            }
        }
    }

    /// Takes an `Op` that has a meaning while a turn runs.
    async fn take_op(&mut self, op: Op, bus: &mut Bus, cancel: &CancellationToken) {
        match op {
            Op::UserTurn { input, overrides, when } => {
                if self.queue.len() >= QUEUE_MAX {
                    bus.emit(refused(format!("{QUEUE_MAX} messages wait already"))).await;
                    return;
                }
                self.queue.push_back(Queued { input, overrides, when });
                self.report_queue(bus).await;
            }
            Op::EditQueue { index, edit } => {
                match (edit, self.queue.get_mut(index)) {
                    (QueueEdit::Replace(input), Some(queued)) => queued.input = input,
                    (QueueEdit::Remove, Some(_)) => {
                        self.queue.remove(index);
                    }
                    (QueueEdit::Replace(_) | QueueEdit::Remove, None) => {}
                }
                self.report_queue(bus).await;
            }
            Op::Answer { ask, answer } => self.approvals.answer(ask, answer, bus).await,
            Op::Interrupt { cause } => {
                self.stop.get_or_insert(cause);
                cancel.cancel();
            }
            Op::Shutdown => self.close(cancel),
            Op::SetSettings { .. } => {
                bus.emit(refused("settings change between turns".to_owned())).await;
            }
            Op::StopProcess { process } => {
                if !self.processes.stop(process) {
                    bus.emit(refused(format!("no command {process} runs"))).await;
                }
            }
            Op::Compact { .. } | Op::Restore { .. } | Op::Pin { .. } => {
                bus.emit(refused("this version does not do that".to_owned())).await;
            }
        }
    }

    fn close(&mut self, cancel: &CancellationToken) {
        self.shutdown = true;
        self.stop.get_or_insert(StopCause::User);
        cancel.cancel();
    }

    /// Takes the messages out of the queue that are to join the running turn. One that brings
    /// settings of its own, or waits behind another turn's, is a turn of its own.
    async fn take_steering(&mut self, bus: &mut Bus) -> Vec<Vec<UserInput>> {
        let mut taken = Vec::new();
        while let Some(next) = self.queue.front()
            && next.when == When::Now
            && next.overrides == SettingsPatch::default()
        {
            taken.extend(self.queue.pop_front().map(|next| next.input));
        }
        if !taken.is_empty() {
            self.report_queue(bus).await;
        }
        taken
    }

    async fn report_queue(&mut self, bus: &mut Bus) {
        let queue = self.queue.iter().map(|queued| queued.input.clone()).collect();
        bus.emit(EventMsg::QueueChanged { queue }).await;
    }
}

pub(super) fn refused(message: String) -> EventMsg {
    EventMsg::Warning { kind: WarningKind::Session, message, hint: None }
}

fn failed_by(message: &str) -> TurnOutcome {
    TurnOutcome::Failed { error: ErrorKind::Internal, message: message.to_owned() }
}

pub(super) fn user_message(input: Vec<UserInput>) -> ResponseItem {
    use crate::protocol::ContentItem;
    let part = |input: UserInput| match input {
        UserInput::Text { text } => ContentItem::InputText(text),
        UserInput::Image { url, .. } => {
            let mut fields = serde_json::Map::new();
            fields.insert("detail".to_owned(), "auto".into());
            ContentItem::InputImage(url, fields)
        }
    };
    let parts = input.into_iter().map(part).collect();
    ResponseItem::message(crate::protocol::Role::User, parts)
}

/// Hands on events to whoever holds the other end; used by `opening.rs`.
pub(super) type FrontEnd = mpsc::Sender<Event>;
