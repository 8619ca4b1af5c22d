//! Whether a failed request is sent again, and after how long: one pure table.
//!
//! Knows nothing of HTTP clients or clocks; the random number is the caller's. The loop that
//! obeys it is in `responses/mod.rs`. Both counters end, and so does the sum of all waits, so
//! a server that is not there is given up within minutes and never asked for ever.

/// What went wrong, as far as trying again is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// No answer came: refused, unresolvable, timed out before the headers.
    Connect,
    /// The server answered with a status that is not a success.
    Status(u16),
    /// An answer began and broke, or said itself that it failed for now.
    Stream,
    /// The server asked to slow down, within a stream.
    RateLimited,
    /// Trying again cannot help.
    Final,
}

/// How often each kind may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryLimits {
    /// Requests that got no answer, a 429 or a 5xx.
    pub(crate) request_retries_max: u32,
    /// Streams that broke.
    pub(crate) stream_retries_max: u32,
}

/// What was tried so far for one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RetryState {
    request_retries: u32,
    stream_retries: u32,
    waited_ms: u64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Wait, then send again.
    Retry {
        /// Which retry this is, from 1.
        attempt: u32,
        /// How many there are of its kind.
        attempts_max: u32,
        /// How long to wait.
        delay_ms: u64,
    },
    /// Report the failure.
    GiveUp,
    /// Report the failure and the wait the server asks for, which is too long.
    WaitTooLong {
        /// The wait.
        wait_ms: u64,
    },
}

/// The longest wait a server can ask for; a person would rather know.
pub(crate) const RETRY_AFTER_MS_MAX: u64 = 60_000;

/// The longest all waits of one prompt may take together.
const WAITS_MS_MAX: u64 = 180_000;

/// Whatever is configured, more tries than this help nobody.
const RETRIES_MAX: u32 = 10;

const BACKOFF_MS: u64 = 200;
const BACKOFF_MS_MAX: u64 = 10_000;

/// Decides on a failure and counts it. `random` lies in [0, 1).
pub(crate) fn decide_retry(
    state: &mut RetryState,
    class: FailureClass,
    retry_after_ms: Option<u64>,
    limits: RetryLimits,
    random: f64,
) -> RetryDecision {
    let (count, max) = match class {
        FailureClass::Final => return RetryDecision::GiveUp,
        FailureClass::Status(status) if !is_retryable_status(status) => {
            return RetryDecision::GiveUp;
        }
        FailureClass::Connect | FailureClass::Status(_) => {
            (&mut state.request_retries, limits.request_retries_max)
        }
        FailureClass::Stream | FailureClass::RateLimited => {
            (&mut state.stream_retries, limits.stream_retries_max)
        }
    };
    if let Some(wait_ms) = retry_after_ms.filter(|wait_ms| *wait_ms > RETRY_AFTER_MS_MAX) {
        return RetryDecision::WaitTooLong { wait_ms };
    }
    let attempts_max = max.min(RETRIES_MAX);
    if *count >= attempts_max {
        return RetryDecision::GiveUp;
    }
    let delay_ms = retry_after_ms.unwrap_or_else(|| backoff_ms(*count, random));
    if state.waited_ms.saturating_add(delay_ms) > WAITS_MS_MAX {
        return RetryDecision::GiveUp;
    }
    *count += 1;
    state.waited_ms = state.waited_ms.saturating_add(delay_ms);
    RetryDecision::Retry { attempt: *count, attempts_max, delay_ms }
}

/// Returns whether a status says that the same request could work later.
pub(crate) fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599) && status != 501 && status != 505
}

/// Returns 200 ms doubled per try, give or take a tenth, so that many clients do not march in step.
fn backoff_ms(tries: u32, random: f64) -> u64 {
    let base_ms = BACKOFF_MS.saturating_mul(1 << tries.min(10)).min(BACKOFF_MS_MAX);
    let spread_ms = base_ms / 5;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the factor lies in [0, 1] and the spread below 2000"
    )]
    let jitter_ms = (random.clamp(0.0, 1.0) * spread_ms as f64) as u64;
    base_ms - spread_ms / 2 + jitter_ms
}
