//! `Exchange`: one prompt's way to its answer, through as many tries as the table allows.
//!
//! It owns the order of things and the clock; what bytes mean is decided in `sse.rs` and
//! `decode.rs`, whether to try again in `retry.rs`. A chunk from the network is decoded whole
//! before anything is handed on, so that a fast answer costs few wake-ups.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::config::Provider;
use crate::model::client::{Endpoint, HttpClient};
use crate::model::failure::Failure;
use crate::model::responses::decode::Decoder;
use crate::model::retry::{FailureClass, RetryDecision, RetryLimits, RetryState, decide_retry};
use crate::model::sse::SseGuard;
use crate::model::{DriverError, ResponseEvent};
use crate::protocol::{ErrorKind, TokenUsage};
use crate::text::hex::encode_hex;

/// How long the end of a complete response is waited for. Read to its end, a connection serves
/// the next request; a server that keeps it open only costs a new one.
const END_OF_BODY_WAIT_MS: u64 = 10;

/// One prompt's way to its answer.
pub(super) struct Exchange {
    client: HttpClient,
    endpoint: Endpoint,
    session_id: String,
    body: Bytes,
    limits: RetryLimits,
    idle_timeout: Duration,
    retries: RetryState,
    decoder: Decoder,
    /// Decoded and not handed over yet.
    ready: VecDeque<ResponseEvent>,
    /// Handed over after `ready`, then nothing.
    error: Option<DriverError>,
    step: Step,
}

/// What comes next.
enum Step {
    Announce,
    Send { delay_ms: u64 },
    Read(Box<Reading>),
    End,
}

/// An answer that arrives.
struct Reading {
    response: reqwest::Response,
    guard: SseGuard,
    frames: Vec<String>,
    /// When the stream has said nothing for too long.
    deadline: Instant,
}

impl Exchange {
    /// Prepares an exchange; nothing is sent until `next` is called.
    pub(super) fn new(
        (client, endpoint): (HttpClient, Endpoint),
        provider: &Provider,
        session_id: String,
        body: Bytes,
    ) -> Self {
        Self {
            client,
            endpoint,
            session_id,
            body,
            limits: RetryLimits {
                request_retries_max: provider.request_retries_max,
                stream_retries_max: provider.stream_retries_max,
            },
            idle_timeout: Duration::from_millis(provider.stream_idle_timeout_ms),
            retries: RetryState::default(),
            decoder: Decoder::default(),
            ready: VecDeque::new(),
            error: None,
            step: Step::Announce,
        }
    }

    /// Returns the next event, or `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ResponseEvent, DriverError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match std::mem::replace(&mut self.step, Step::End) {
                Step::Announce => self.announce(),
                Step::Send { delay_ms } => self.send(delay_ms).await,
                Step::Read(reading) => self.read(reading).await,
                Step::End => return self.error.take().map(Err),
            }
        }
    }

    fn announce(&mut self) {
        self.ready.push_back(sent_event(&self.body));
        self.step = Step::Send { delay_ms: 0 };
    }

    async fn send(&mut self, delay_ms: u64) {
        if delay_ms > 0 {
            sleep(Duration::from_millis(delay_ms)).await;
        }
        match self.client.send(&self.endpoint, &self.session_id, self.body.clone()).await {
            Ok(response) => {
                self.step = Step::Read(Box::new(Reading {
                    response,
                    guard: SseGuard::default(),
                    frames: Vec::new(),
                    deadline: Instant::now() + self.idle_timeout,
                }));
            }
            Err(failure) => self.fail(failure),
        }
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        let (chunk, ending) = match timeout_at(reading.deadline, reading.response.chunk()).await {
            Ok(Ok(chunk)) => (chunk, ended_early()),
            Ok(Err(_)) => (None, Failure::cut("the connection broke off")),
            Err(_) => {
                let idle_ms = self.idle_timeout.as_millis();
                let message = format!("the server said nothing for {idle_ms} ms");
                return self.fail(Failure::cut(message));
            }
        };
        let is_end = chunk.is_none();
        if let Err(failure) = self.decode(&mut reading, chunk) {
            return self.fail(failure);
        }
        if self.decoder.is_completed() {
            if !is_end {
                read_to_end(&mut reading.response).await;
            }
        } else if is_end {
            self.fail(ending);
        } else {
            self.step = Step::Read(reading);
        }
    }

    /// Decodes a chunk, or the end of the stream.
    fn decode(&mut self, reading: &mut Reading, chunk: Option<Bytes>) -> Result<(), Failure> {
        let is_end = chunk.is_none();
        let framed = match chunk {
            Some(chunk) => reading.guard.feed(&chunk, &mut reading.frames),
            None => reading.guard.finish(&mut reading.frames),
        };
        if !reading.frames.is_empty() {
            reading.deadline = Instant::now() + self.idle_timeout;
        }
        for frame in reading.frames.drain(..) {
            // Half an event at the end is the cut itself, not one more oddity.
            if is_end && serde_json::from_str::<IgnoredAny>(&frame).is_err() {
                continue;
            }
            self.decoder.decode(&frame, &mut self.ready)?;
        }
        // Events that were whole count, also when what follows them is not readable.
        framed.map_err(|error| {
            Failure::new(ErrorKind::Stream, FailureClass::Final, error.to_string())
        })
    }

    /// Ends this try: with another, with what is there, or with the failure.
    fn fail(&mut self, failure: Failure) {
        if failure.error.retryable && self.decoder.has_delivered_call() {
            // Asking again could run the call twice. Its output goes out with the next request,
            // and the model goes on from there.
            let reason = failure.error.message;
            self.ready.push_back(ResponseEvent::Warning(format!(
                "{reason}; going on with the tool calls that arrived"
            )));
            self.ready.push_back(ResponseEvent::Completed { usage: TokenUsage::default() });
            return;
        }
        let retry_after_ms = failure.retry_after_ms;
        let decision = decide_retry(
            &mut self.retries,
            failure.class,
            retry_after_ms,
            self.limits,
            random_fraction(),
        );
        let mut error = failure.error;
        match decision {
            RetryDecision::Retry { attempt, attempts_max, delay_ms } => {
                self.decoder.restart();
                let reason = error.message;
                let event = ResponseEvent::Restarted { attempt, attempts_max, delay_ms, reason };
                self.ready.push_back(event);
                self.step = Step::Send { delay_ms };
            }
            RetryDecision::GiveUp => self.error = Some(error),
            RetryDecision::WaitTooLong { wait_ms } => {
                let wait_s = wait_ms.div_ceil(1000);
                error.hint = Some(format!("the server asks to wait {wait_s} s; try again then"));
                self.error = Some(error);
            }
        }
    }
}

/// Returns the first event of a stream: which body goes out.
pub(crate) fn sent_event(body: &[u8]) -> ResponseEvent {
    let body_hash = encode_hex(&Sha256::digest(body));
    ResponseEvent::Sent { body_hash, body_bytes: body.len() as u64 }
}

fn ended_early() -> Failure {
    Failure::cut("the stream ended before the response was complete")
}

/// Reads what is left of a complete response, if it is there already.
async fn read_to_end(response: &mut reqwest::Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // A server that does not end its body now costs the next request a new connection.
    let _ = timeout(Duration::from_millis(END_OF_BODY_WAIT_MS), rest).await;
}

/// Returns a number in [0, 1), different in each process and each time.
fn random_fraction() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in a double")]
    let fraction = bits as f64 / (1u64 << 53) as f64;
    fraction
}
