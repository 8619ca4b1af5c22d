//! What a tool sees of its turn: settings, a command runner, files, and a line to the session.
//!
//! There is deliberately no session in here. `SessionLink` is the one channel by which a tool
//! or the loop reports events, asks the user, and waits for the log to be on disk; the session
//! task is its only reader. Made by `agent/`, used by the executor and by tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::policy::Rules;
use crate::protocol::{
    Answer, ApprovalPolicy, Ask, CallId, EventMsg, HunkId, ModelName, Network, ProcessId,
    SandboxLevel, SandboxMode, SandboxPolicy, ToolCall, ToolOutput, UserInput,
};
use crate::sandbox::CommandRunner;
use crate::tools::{AttemptLog, FileAccess, RunningProcess, SeenFiles, ToolError};

/// A turn's settings; never changed while it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnContext {
    /// The session's directory, absolute and real.
    pub cwd: PathBuf,
    /// The user's home directory.
    pub home: PathBuf,
    /// The model.
    pub model: ModelName,
    /// When the user is asked.
    pub approval: ApprovalPolicy,
    /// What commands and file tools can reach.
    pub sandbox: SandboxPolicy,
    /// How well this machine can confine commands.
    pub sandbox_level: SandboxLevel,
    /// The least level at which commands still run without a person.
    pub sandbox_fallback: SandboxLevel,
    /// The environment of commands, already filtered.
    pub env: Arc<[(String, String)]>,
    /// The shell that reads command lines, absolute.
    pub shell: String,
    /// How long a command may take when the call does not say.
    pub command_timeout: Duration,
    /// Bytes of a tool's output that reach the model.
    pub output_bytes_max: usize,
    /// Whether someone can answer questions.
    pub interactive: bool,
    /// Where records of edits in flight are kept.
    pub journal: PathBuf,
    /// What the user wants allowed, asked or denied.
    pub rules: Arc<Rules>,
}

/// All a running tool can use.
pub struct ToolContext {
    /// The turn's settings.
    pub turn: Arc<TurnContext>,
    /// Runs commands.
    pub runner: Arc<dyn CommandRunner>,
    /// Exactly the files the call's effect named.
    pub files: FileAccess,
    /// Reports events and asks questions on behalf of this call.
    pub link: SessionLink,
    /// What the model has seen of which file.
    pub seen: SeenFiles,
    /// The call it belongs to.
    pub call_id: CallId,
    /// Fires when the call must stop.
    pub cancel: CancellationToken,
    /// Whether commands run confined; false only by the user's own word.
    pub confined: bool,
    /// The parts of the call that the user took, where only some.
    pub keep: Option<Vec<HunkId>>,
}

/// The line from a turn to its session.
#[derive(Debug, Clone)]
pub struct SessionLink {
    tx: mpsc::Sender<SessionRequest>,
}

/// What comes over the line.
#[derive(Debug)]
pub enum SessionRequest {
    /// Something happened.
    Event {
        /// The call it belongs to.
        call_id: Option<CallId>,
        /// The response it belongs to.
        response_id: Option<String>,
        /// What happened.
        msg: EventMsg,
    },
    /// All events before this are to be on disk before the answer comes.
    Sync(oneshot::Sender<bool>),
    /// What the user said meanwhile is wanted, for the request that comes next.
    Steering(oneshot::Sender<Vec<Vec<UserInput>>>),
    /// Something about commands that outlive their calls.
    Process(ProcessRequest),
    /// What a command that is kept attempts to reach is to be told as it comes.
    Attempts {
        /// The call that started the command.
        call_id: CallId,
        /// What it attempts.
        log: AttemptLog,
    },
    /// A question to the user.
    Ask {
        /// The call it belongs to.
        call_id: CallId,
        /// The question.
        ask: Ask,
        /// Where the answer goes.
        answer: oneshot::Sender<Answer>,
    },
    /// An output's secrets are to be masked before anyone reads it.
    Mask {
        /// The output.
        output: ToolOutput,
        /// Where the masked one goes.
        masked: oneshot::Sender<ToolOutput>,
    },
    /// The secrets of a call are to be put back.
    Reveal {
        /// The call, as the model wrote it.
        call: ToolCall,
        /// Which secrets can be put back where it goes.
        place: SecretPlace,
        /// Where the call goes that is to be run, or why there is none.
        revealed: oneshot::Sender<Result<ToolCall, String>>,
    },
}

/// Where secrets are put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPlace {
    /// Into files, as they are.
    Files,
    /// Into a command line, where nothing in them may mean something to a shell.
    CommandLine,
}

/// What a call wants of the session's running commands.
#[derive(Debug)]
pub enum ProcessRequest {
    /// A place for one more; refused in words for the model when there are too many.
    Admit(oneshot::Sender<Result<OwnedSemaphorePermit, String>>),
    /// To be kept when the call ends; answered with its id.
    Keep {
        /// The call.
        call_id: CallId,
        /// The command.
        process: RunningProcess,
        /// Where the id goes.
        id: oneshot::Sender<ProcessId>,
    },
    /// The command of an id; refused in words for the model when there is none.
    Find(ProcessId, oneshot::Sender<Result<RunningProcess, String>>),
    /// The model was told of its end; answered when that is written down.
    Forget(ProcessId, oneshot::Sender<()>),
}

impl SessionLink {
    /// Wraps the sending end.
    pub fn new(tx: mpsc::Sender<SessionRequest>) -> Self {
        Self { tx }
    }

    /// Reports an event; waits only while the session is behind.
    pub async fn event(&self, call_id: Option<CallId>, response_id: Option<String>, msg: EventMsg) {
        // A session that is gone wants no events any more; the sender ends with it.
        let _ = self.tx.send(SessionRequest::Event { call_id, response_id, msg }).await;
    }

    /// Waits until all events before this one are on disk; says whether they are.
    pub async fn sync(&self) -> bool {
        let (tx, rx) = oneshot::channel();
        self.tx.send(SessionRequest::Sync(tx)).await.is_ok() && rx.await.unwrap_or(false)
    }

    /// Returns the messages that are to join the running turn, oldest first.
    pub(crate) async fn take_steering(&self) -> Vec<Vec<UserInput>> {
        let (tx, rx) = oneshot::channel();
        match self.tx.send(SessionRequest::Steering(tx)).await {
            Ok(()) => rx.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Asks for a place among the running commands.
    pub(crate) async fn admit_process(&self) -> Result<OwnedSemaphorePermit, ToolError> {
        self.ask_table(ProcessRequest::Admit).await?.map_err(ToolError::Unavailable)
    }

    /// Hands a command over to the session.
    pub(crate) async fn keep_process(
        &self,
        call_id: CallId,
        process: RunningProcess,
    ) -> Result<ProcessId, ToolError> {
        self.ask_table(|id| ProcessRequest::Keep { call_id, process, id }).await
    }

    /// Hands over what a kept command attempts to reach.
    pub(crate) async fn keep_attempts(&self, call_id: CallId, log: AttemptLog) {
        // Without a session the command ends as well.
        let _ = self.tx.send(SessionRequest::Attempts { call_id, log }).await;
    }

    /// Returns a command that was kept.
    pub(crate) async fn find_process(&self, id: ProcessId) -> Result<RunningProcess, ToolError> {
        let found = self.ask_table(|answer| ProcessRequest::Find(id, answer)).await?;
        found.map_err(ToolError::Failed)
    }

    /// Says that the model was told of a command's end.
    pub(crate) async fn forget_process(&self, id: ProcessId) -> Result<(), ToolError> {
        self.ask_table(|done| ProcessRequest::Forget(id, done)).await
    }

    async fn ask_table<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> ProcessRequest,
    ) -> Result<T, ToolError> {
        let (tx, rx) = oneshot::channel();
        let request = SessionRequest::Process(request(tx));
        if self.tx.send(request).await.is_err() {
            return Err(ToolError::Interrupted);
        }
        rx.await.map_err(|_| ToolError::Interrupted)
    }

    /// Asks the user and waits for the answer.
    pub async fn ask(&self, call_id: CallId, ask: Ask) -> Answer {
        let (tx, rx) = oneshot::channel();
        let gone = || Answer::Declined { reason: "the session has ended".to_owned() };
        if self.tx.send(SessionRequest::Ask { call_id, ask, answer: tx }).await.is_err() {
            return gone();
        }
        rx.await.unwrap_or_else(|_| gone())
    }

    /// Returns the output with its secrets masked. Without a session nothing of it is shown.
    pub async fn mask(&self, output: ToolOutput) -> ToolOutput {
        let (tx, rx) = oneshot::channel();
        let _ = self.tx.send(SessionRequest::Mask { output, masked: tx }).await;
        rx.await.unwrap_or_else(|_| ToolOutput::failure("the session has ended"))
    }

    /// Returns the call with the secrets in it that the model knows only by their tokens.
    pub async fn reveal(&self, call: ToolCall, place: SecretPlace) -> Result<ToolCall, String> {
        let (tx, rx) = oneshot::channel();
        let _ = self.tx.send(SessionRequest::Reveal { call, place, revealed: tx }).await;
        rx.await.unwrap_or_else(|_| Err("the session has ended".to_owned()))
    }
}

impl ToolContext {
    /// Lets the call only read, whatever the turn may.
    pub(crate) fn restrict_to_reading(&mut self) {
        let sandbox = &mut Arc::make_mut(&mut self.turn).sandbox;
        sandbox.mode = SandboxMode::ReadOnly;
        sandbox.network = Network::Off;
        self.confined = true;
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext").field("turn", &self.turn).finish_non_exhaustive()
    }
}
