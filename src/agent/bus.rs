//! The bus: gives each event its place and time, writes it down, hands it on.
//!
//! Knows nothing of what events mean, but which are durable. Fan-out is an explicit list of
//! bounded channels: a slow reader slows the session down, none ever misses an event. Owned
//! by the session task, which is its only caller.

use std::collections::HashMap;

use chrono::SecondsFormat;
use chrono::Utc;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use crate::agent::masking::Masking;
use crate::protocol::CallId;
use crate::protocol::EVENT_VERSION;
use crate::protocol::ErrorKind;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::Seq;
use crate::protocol::SessionId;
use crate::protocol::TurnId;
use crate::protocol::TurnOutcome;
use crate::store::session_file::SessionFile;
use crate::store::session_file::SessionFileError;

/// Called with every event, in order, before front ends see it. Must not block.
pub type Observer = std::sync::Arc<dyn Fn(&Event) + Send + Sync>;

/// Where events go.
pub(super) struct Bus {
    session: SessionId,
    turn: TurnId,
    seq: u64,
    /// `None` when nothing is written: an ephemeral session.
    file: Option<SessionFile>,
    front_end: mpsc::Sender<Event>,
    observers: Vec<Observer>,
    /// Which response each call of this turn came in.
    responses: HashMap<CallId, String>,
    /// Takes secrets out of what comes from outside.
    masking: Masking,
    /// The first failure to write; the session ends by it.
    failure: Option<SessionFileError>,
}

impl Bus {
    /// Returns a bus over a session file and one front end.
    pub(super) fn new(
        session: SessionId,
        file: Option<SessionFile>,
        front_end: mpsc::Sender<Event>,
        observers: Vec<Observer>,
    ) -> Self {
        Self {
            session,
            turn: TurnId(0),
            seq: 0,
            file,
            front_end,
            observers,
            responses: HashMap::new(),
            masking: Masking::default(),
            failure: None,
        }
    }

    /// Masks secrets from now on.
    pub(super) fn set_masking(&mut self, masking: Masking) {
        self.masking = masking;
    }

    /// Returns what takes secrets out and puts them back.
    pub(super) fn masking(&mut self) -> &mut Masking {
        &mut self.masking
    }

    /// Sets the turn that events belong to from now on.
    pub(super) fn set_turn(&mut self, turn: TurnId) {
        self.turn = turn;
        self.responses.clear();
    }

    /// Returns the turn that events belong to now.
    pub(super) fn turn(&self) -> TurnId {
        self.turn
    }

    /// Writes down and hands on an event of the session itself.
    pub(super) async fn emit(&mut self, msg: EventMsg) {
        self.emit_for(None, None, msg).await;
    }

    /// Writes down and hands on an event that belongs to a call or a response.
    pub(super) async fn emit_for(
        &mut self,
        call_id: Option<CallId>,
        response_id: Option<String>,
        msg: EventMsg,
    ) {
        if let Some(held) = self.masking.held_before(call_id.as_ref(), &msg) {
            let event = self.record(call_id.clone(), None, held);
            self.hand_on(event).await;
        }
        let Some(msg) = self.masking.event(call_id.as_ref(), msg) else { return };
        // Bringing the log to disk overlaps with the request that is now under way.
        let sync = matches!(msg, EventMsg::RequestStarted { .. });
        let event = self.record(call_id, response_id, msg);
        if sync {
            self.begin_sync();
        }
        self.hand_on(event).await;
    }

    /// Writes down the end of a turn, and hands it on when it is on disk: what a front end calls
    /// done is done. An end that cannot be written is a failure.
    pub(super) async fn emit_end(&mut self, msg: EventMsg) {
        let Some(msg) = self.masking.event(None, msg) else { return };
        let mut event = self.record(None, None, msg);
        let (done, synced) = oneshot::channel();
        self.sync(done);
        let is_on_disk = synced.await.unwrap_or(false);
        if !is_on_disk && let EventMsg::TurnEnded { outcome, .. } = &mut event.msg {
            let message = "the end of the turn could not be written to the session's log";
            let message = message.to_owned();
            *outcome = TurnOutcome::Failed { error: ErrorKind::Session, message };
        }
        self.hand_on(event).await;
    }

    /// Gives an event its place, and writes it down if it is durable.
    fn record(
        &mut self,
        call_id: Option<CallId>,
        response_id: Option<String>,
        msg: EventMsg,
    ) -> Event {
        let response_id = self.response_of(call_id.as_ref(), response_id);
        let durable = msg.is_durable();
        let (seq, prev_hash) = match &self.file {
            Some(file) if durable => (file.next().0, file.next().1.to_owned()),
            Some(_) | None => (Seq(self.seq + u64::from(durable)), String::new()),
        };
        self.seq = seq.0;
        let event = Event {
            v: EVENT_VERSION,
            seq,
            prev_hash,
            at: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
            session: self.session,
            turn: self.turn,
            parent: None,
            response_id,
            call_id,
            msg,
        };
        if durable {
            self.append(&event);
        }
        event
    }

    async fn hand_on(&self, event: Event) {
        for observer in &self.observers {
            observer(&event);
        }
        // A front end that is gone reads nothing more; the session notices by its ops.
        let _ = self.front_end.send(event).await;
    }

    /// Brings all records to disk and tells `done` whether they are there.
    pub(super) fn sync(&mut self, done: oneshot::Sender<bool>) {
        match &mut self.file {
            Some(file) if self.failure.is_none() => file.sync(Some(done)),
            Some(_) | None => {
                let _ = done.send(self.failure.is_none());
            }
        }
    }

    /// Begins to bring all records to disk.
    pub(super) fn begin_sync(&mut self) {
        if let Some(file) = &mut self.file {
            file.sync(None);
        }
    }

    /// Returns whether a record could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes the first failure to write, once.
    pub(super) fn take_failure(&mut self) -> Option<SessionFileError> {
        // A log with a hole is no log: nothing is written after a failure.
        let failure = self.failure.take()?;
        self.file = None;
        Some(failure)
    }

    /// Returns the response an event belongs to. A call's events are tied to the response it
    /// came in, so that response, call, output and the next request can be followed.
    fn response_of(
        &mut self,
        call_id: Option<&CallId>,
        response_id: Option<String>,
    ) -> Option<String> {
        let Some(call_id) = call_id else { return response_id };
        match response_id {
            Some(id) => {
                self.responses.insert(call_id.clone(), id.clone());
                Some(id)
            }
            None => self.responses.get(call_id).cloned(),
        }
    }

    fn append(&mut self, event: &Event) {
        if self.failure.is_some() {
            return;
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(event)
        {
            self.failure = Some(error);
        }
    }
}
