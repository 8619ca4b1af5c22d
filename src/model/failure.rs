//! `Failure`: why one try got no whole answer, as a person reads it and as the retry table
//! sees it. Pure: `client.rs` and `decode.rs` make these from what a server said.
//!
//! Error codes: the Responses API reference, "error codes", and what other servers send in
//! their place; an unknown code is judged by the status or by the error's type.

use serde_json::Value;

use crate::model::DriverError;
use crate::model::retry::{FailureClass, is_retryable_status};
use crate::protocol::ErrorKind;

/// Why one try failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// What a person reads if it stays that way.
    pub(crate) error: DriverError,
    /// What the retry table sees.
    pub(crate) class: FailureClass,
    /// The wait the server asked for.
    pub(crate) retry_after_ms: Option<u64>,
}

/// How much of a server's own words is shown.
pub(crate) const EXCERPT_BYTES_MAX: usize = 2048;

impl Failure {
    /// Returns a failure without hint and wait.
    pub(crate) fn new(kind: ErrorKind, class: FailureClass, message: impl Into<String>) -> Self {
        let retryable = match class {
            FailureClass::Final => false,
            FailureClass::Status(status) => is_retryable_status(status),
            FailureClass::Connect | FailureClass::Stream | FailureClass::RateLimited => true,
        };
        let error = DriverError { kind, message: message.into(), hint: None, retryable };
        Self { error, class, retry_after_ms: None }
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// Returns a stream that broke; asking again may help.
    pub(crate) fn cut(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Stream, FailureClass::Stream, message)
    }

    /// Reads an `error` object, or whatever a server sends in its place.
    pub(crate) fn from_error_value(error: &Value, status: Option<u16>) -> Self {
        let said = ServerError::read(error);
        let (kind, class) = said.judge(status);
        let mut failure = Self::new(kind, class, said.message_for_people());
        if kind == ErrorKind::RateLimit {
            failure.retry_after_ms = parse_try_again_ms(&said.message);
        }
        match said.hint(kind) {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// The parts of an error that count, whatever its shape.
#[derive(Debug, Default)]
struct ServerError {
    code: String,
    kind: String,
    message: String,
}

impl ServerError {
    fn read(error: &Value) -> Self {
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => [text("message"), text("detail"), text("error")]
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_default(),
        };
        Self { code: text("code"), kind: text("type"), message }
    }

    /// Judges by the code, then by the message, then by the type, then by the status.
    fn judge(&self, status: Option<u16>) -> (ErrorKind, FailureClass) {
        if let Some(judged) = judge_word(&self.code) {
            return under_status(judged, status);
        }
        let message = self.message.to_ascii_lowercase();
        if CONTEXT_PHRASES.iter().any(|phrase| message.contains(phrase)) {
            return (ErrorKind::ContextFull, FailureClass::Final);
        }
        // Some servers answer a wrong key with a 400; retrying never helps then.
        if status.is_none_or(|status| status == 400)
            && KEY_PHRASES.iter().any(|phrase| message.contains(phrase))
        {
            return (ErrorKind::Credentials, FailureClass::Final);
        }
        if let Some(judged) = judge_word(&self.kind) {
            return under_status(judged, status);
        }
        let status = status.or_else(|| self.code.parse().ok());
        status.map_or((ErrorKind::Server, FailureClass::Stream), |status| {
            (kind_of_status(status), FailureClass::Status(status))
        })
    }

    fn message_for_people(&self) -> String {
        let message = printable_excerpt(&self.message);
        let code = if self.code.is_empty() { &self.kind } else { &self.code };
        let code = printable_excerpt(code);
        match (message.is_empty(), code.is_empty()) {
            (true, true) => "the server reported an error without saying which".to_owned(),
            (true, false) => format!("the server reported an error: {code}"),
            (false, true) => format!("the server reported an error: {message}"),
            (false, false) => format!("the server reported an error: {message} ({code})"),
        }
    }

    fn hint(&self, kind: ErrorKind) -> Option<&'static str> {
        if matches!(self.code.as_str(), "insufficient_quota" | "usage_not_included") {
            return Some("check the plan and billing of the account this key belongs to");
        }
        match kind {
            ErrorKind::ContextFull => {
                Some("start a new session, or choose a model with a larger context window")
            }
            ErrorKind::Credentials => Some("check the key, or run `gimlet login`"),
            _ => None,
        }
    }
}

/// Leaves it to the status, where there is one, whether what may be retried is retried.
fn under_status(
    judged: (ErrorKind, FailureClass),
    status: Option<u16>,
) -> (ErrorKind, FailureClass) {
    match (judged, status) {
        ((_, FailureClass::Final), _) | (_, None) => judged,
        ((kind, _), Some(status)) => (kind, FailureClass::Status(status)),
    }
}

const CONTEXT_PHRASES: [&str; 4] =
    ["context length", "context window", "context_length", "maximum context"];

const KEY_PHRASES: [&str; 4] = ["api key", "api_key", "authentication", "no connected db"];

fn judge_word(word: &str) -> Option<(ErrorKind, FailureClass)> {
    Some(match word {
        "context_length_exceeded" | "string_above_max_length" => {
            (ErrorKind::ContextFull, FailureClass::Final)
        }
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => {
            (ErrorKind::RateLimit, FailureClass::RateLimited)
        }
        "insufficient_quota" | "usage_not_included" | "usage_limit_reached" => {
            (ErrorKind::RateLimit, FailureClass::Final)
        }
        "invalid_api_key" | "authentication_error" | "permission_error" | "no_db_connection" => {
            (ErrorKind::Credentials, FailureClass::Final)
        }
        "invalid_prompt"
        | "cyber_policy"
        | "invalid_request_error"
        | "model_not_found"
        | "not_found_error"
        | "invalid_image"
        | "content_filter"
        | "unsupported_parameter"
        | "unsupported_value"
        | "bio_policy" => (ErrorKind::Refused, FailureClass::Final),
        "server_error"
        | "api_error"
        | "internal_error"
        | "internal_server_error"
        | "server_is_overloaded"
        | "slow_down"
        | "overloaded_error"
        | "service_unavailable"
        | "vector_store_timeout" => (ErrorKind::Server, FailureClass::Stream),
        _ => return None,
    })
}

/// Returns the kind of error a status stands for.
pub(crate) fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Credentials,
        429 => ErrorKind::RateLimit,
        500..=599 => ErrorKind::Server,
        _ => ErrorKind::Refused,
    }
}

/// Returns one bounded line of a server's words, without anything that moves a cursor.
pub(crate) fn printable_excerpt(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(EXCERPT_BYTES_MAX));
    let mut after_space = true;
    for character in text.chars() {
        let character = if is_printable(character) { character } else { ' ' };
        if character == ' ' && after_space {
            continue;
        }
        if line.len() + character.len_utf8() > EXCERPT_BYTES_MAX {
            line.push('…');
            break;
        }
        after_space = character == ' ';
        line.push(character);
    }
    line.truncate(line.trim_end().len());
    line
}

fn is_printable(character: char) -> bool {
    let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !reorders && character != '\u{feff}'
}

/// Reads "try again in 3s", "in 1.5s" or "in 250ms".
fn parse_try_again_ms(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once("try again in ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = rest.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    let unit_ms = match unit.trim_start() {
        unit if unit.starts_with("ms") => 1.0,
        unit if unit.starts_with('s') => 1000.0,
        unit if unit.starts_with('m') => 60_000.0,
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative by its form, and the cast saturates"
    )]
    let wait_ms = (number * unit_ms).ceil() as u64;
    Some(wait_ms)
}
