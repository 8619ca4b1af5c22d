//! The one HTTP client of the process, and how a provider's requests are made with it.
//!
//! Redirects are off, nothing compressed is asked for, and a plain `http://` server needs no
//! trust store. Knows URLs, headers, keys and statuses, not what a body means. Called by
//! `responses/mod.rs`; the only file of `model/` that touches the network.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;

use crate::config::{Provider, ProviderKey};
use crate::model::DriverError;
use crate::model::failure::{EXCERPT_BYTES_MAX, Failure, kind_of_status, printable_excerpt};
use crate::model::retry::FailureClass;
use crate::protocol::ErrorKind;

const USER_AGENT: &str = concat!("gimlet/", env!("CARGO_PKG_VERSION"));

/// A server that does not even accept a connection within this time is not there.
const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// The longest wait for the first byte of an answer. Servers that read the whole prompt before
/// they answer take long over long prompts; one that takes longer than this has hung.
const HEADERS_TIMEOUT_MS_MAX: u64 = 120_000;

/// How much of an error's body is read: enough for any JSON error around its message.
const ERROR_BODY_BYTES_MAX: usize = 16 << 10;

/// How long an error's body may take.
const ERROR_BODY_TIMEOUT_MS: u64 = 5_000;

/// Makes requests. Cheap to clone; all clones share one pool of connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpClient {
    inner: std::sync::Arc<OnceLock<reqwest::Client>>,
}

/// Where and how one provider is asked, checked once.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    headers_timeout: Duration,
    key: ProviderKey,
}

impl Endpoint {
    /// Checks a provider's address, key and headers.
    pub(crate) fn new(provider: &Provider, path: &str) -> Result<Self, DriverError> {
        let url = build_url(provider, path)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("originator", HeaderValue::from_static("gimlet"));
        for (name, value) in &provider.headers {
            let name = HeaderName::try_from(name.as_str());
            let (Ok(name), Ok(mut value)) = (name, HeaderValue::try_from(value.as_str())) else {
                let message = format!("a header of provider `{}` is not valid", provider.name);
                return Err(Failure::new(ErrorKind::Refused, FailureClass::Final, message)
                    .with_hint("look at `http_headers` in config.toml")
                    .error);
            };
            // Some servers take their key in a header of their own.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if let Some(authorization) = authorization(provider)? {
            headers.insert(AUTHORIZATION, authorization);
        }
        let headers_timeout_ms = provider.stream_idle_timeout_ms.min(HEADERS_TIMEOUT_MS_MAX);
        Ok(Self {
            url,
            headers,
            headers_timeout: Duration::from_millis(headers_timeout_ms),
            key: provider.key.clone(),
        })
    }

    /// Returns the address without query and user, for people.
    fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        // Neither fails on a URL with a host, and `build_url` takes no other.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string()
    }

    /// Takes the key out of a server's words.
    fn without_key(&self, text: String) -> String {
        match &self.key {
            ProviderKey::Found { key, .. } if key.len() >= 8 => {
                text.replace(key.as_str(), &format!("…{}", last_four(key)))
            }
            _ => text,
        }
    }
}

impl HttpClient {
    /// Sends a body and returns the answer once its headers are there and say success.
    pub(crate) async fn send(
        &self,
        endpoint: &Endpoint,
        session_id: &str,
        body: Bytes,
    ) -> Result<reqwest::Response, Failure> {
        let client = self.client_for(&endpoint.url)?;
        let mut request = client.post(endpoint.url.clone()).headers(endpoint.headers.clone());
        if let Ok(session_id) = HeaderValue::try_from(session_id) {
            request = request.header("session-id", session_id);
        }
        let sent = tokio::time::timeout(endpoint.headers_timeout, request.body(body).send()).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(endpoint, &error)),
            Err(_) => return Err(no_answer(endpoint)),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(endpoint, response).await)
    }

    fn client_for(&self, url: &Url) -> Result<reqwest::Client, Failure> {
        if let Some(client) = self.inner.get() {
            return Ok(client.clone());
        }
        let client = build_client(url.scheme() == "https").map_err(|error| {
            let message = format!("the HTTP client could not be built: {}", causes(&error));
            Failure::new(ErrorKind::Internal, FailureClass::Final, message)
                .with_hint("install your system's CA certificates")
        })?;
        Ok(self.inner.get_or_init(|| client).clone())
    }
}

fn build_client(needs_trust_store: bool) -> Result<reqwest::Client, reqwest::Error> {
    // Fails only when another part of the process came first, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_millis(CONNECT_TIMEOUT_MS))
        .tcp_nodelay(true);
    let builder = if needs_trust_store { builder } else { builder.tls_certs_only([]) };
    builder.build()
}

fn build_url(provider: &Provider, path: &str) -> Result<Url, DriverError> {
    let base = provider.base_url.trim_end_matches('/');
    let invalid = || {
        let message = format!(
            "the base URL of provider `{}` is not valid: {}",
            provider.name,
            printable_excerpt(&provider.base_url)
        );
        Failure::new(ErrorKind::Refused, FailureClass::Final, message)
            .with_hint("set `base_url` to something like https://api.example.com/v1")
            .error
    };
    // The base alone must hold a host, else the path would become one.
    Url::parse(base).map_err(|_| invalid())?;
    let mut url = Url::parse(&format!("{base}{path}")).map_err(|_| invalid())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid());
    }
    if !provider.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&provider.query);
    }
    Ok(url)
}

fn authorization(provider: &Provider) -> Result<Option<HeaderValue>, DriverError> {
    let (key, source) = match &provider.key {
        ProviderKey::NotNeeded => return Ok(None),
        ProviderKey::Missing { looked_at } => return Err(missing_key(provider, looked_at)),
        ProviderKey::Found { key, source } => (key, source),
    };
    match HeaderValue::try_from(format!("Bearer {}", key.trim())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            Ok(Some(value))
        }
        Err(_) => {
            let message = format!("the key from {source} holds characters no key can hold");
            Err(Failure::new(ErrorKind::Credentials, FailureClass::Final, message)
                .with_hint(format!("set {source} again, on one line"))
                .error)
        }
    }
}

fn missing_key(provider: &Provider, looked_at: &[String]) -> DriverError {
    let message = format!("no key for provider `{}`", provider.name);
    let hint = match looked_at {
        [] => "run `gimlet login`".to_owned(),
        // A provider with a variable of its own does not get the stored key.
        [own] => format!("set {own}"),
        several => format!("set {}, or run `gimlet login`", several.join(" or ")),
    };
    Failure::new(ErrorKind::Credentials, FailureClass::Final, message).with_hint(hint).error
}

fn unreachable(endpoint: &Endpoint, error: &reqwest::Error) -> Failure {
    let message = format!("cannot reach {}: {}", endpoint.shown_url(), causes(error));
    Failure::new(ErrorKind::Unreachable, FailureClass::Connect, message)
        .with_hint("check that the server runs and that `base_url` is right")
}

fn no_answer(endpoint: &Endpoint) -> Failure {
    let message = format!(
        "no answer from {} within {} ms",
        endpoint.shown_url(),
        endpoint.headers_timeout.as_millis()
    );
    Failure::new(ErrorKind::Unreachable, FailureClass::Connect, message)
        .with_hint("the server may be busy; `stream_idle_timeout_ms` sets how long to wait")
}

/// Returns the innermost cause of a failed request, where the news is.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    // The outermost text names the URL with its query, which may hold a key.
    if std::ptr::eq(cause, error as &dyn std::error::Error) {
        return "the request failed".to_owned();
    }
    printable_excerpt(&cause.to_string())
}

async fn refused(endpoint: &Endpoint, response: reqwest::Response) -> Failure {
    let status = response.status();
    let retry_after_ms = read_retry_after_ms(response.headers());
    let location = response.headers().get("location").and_then(|value| value.to_str().ok());
    let location = location.map(printable_excerpt);
    let body = read_error_body(response).await;
    let words = endpoint.without_key(excerpt_of_body(&body));
    let mut message = format!("HTTP {status} from {}", endpoint.shown_url());
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        message = format!("{message}: it redirects to {location}");
    } else if !words.is_empty() {
        message = format!("{message}: {words}");
    }
    let code = status.as_u16();
    let mut failure = match error_value_of_body(&body) {
        Some(error) => Failure::from_error_value(&error, Some(code)),
        None => Failure::new(kind_of_status(code), FailureClass::Status(code), ""),
    };
    failure.error.message = message;
    // A 401, 403 or 404 means the same whatever the body says.
    match code {
        401 | 403 => failure = refused_key(endpoint, failure),
        404 => {
            failure.error.hint = Some(
                "check `base_url` (it ends before /responses) and the model's name".to_owned(),
            );
        }
        _ => {}
    }
    failure.retry_after_ms = retry_after_ms.or(failure.retry_after_ms);
    failure
}

fn refused_key(endpoint: &Endpoint, failure: Failure) -> Failure {
    let hint = match &endpoint.key {
        ProviderKey::Found { key, source } => format!(
            "the key from {source} (…{}) was refused; check it, or run `gimlet login`",
            last_four(key)
        ),
        ProviderKey::NotNeeded | ProviderKey::Missing { .. } => {
            "the server wants a key; set one for this provider, or run `gimlet login`".to_owned()
        }
    };
    let message = failure.error.message;
    Failure::new(ErrorKind::Credentials, FailureClass::Final, message).with_hint(hint)
}

/// Returns a key's last four characters; of a short key, nothing.
fn last_four(key: &str) -> String {
    let count = key.chars().count();
    if count < 12 { String::new() } else { key.chars().skip(count - 4).collect() }
}

/// Reads `Retry-After` in seconds. The form with a date is as good as absent: it needs a clock
/// that agrees with the server's.
fn read_retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(wait_ms) = text("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(wait_ms);
    }
    let wait_s: u64 = text("retry-after")?.trim().parse().ok()?;
    Some(wait_s.saturating_mul(1000))
}

async fn read_error_body(mut response: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() >= ERROR_BODY_BYTES_MAX {
                break;
            }
        }
    };
    // What came until then is shown all the same.
    let _ = tokio::time::timeout(Duration::from_millis(ERROR_BODY_TIMEOUT_MS), reading).await;
    body.truncate(ERROR_BODY_BYTES_MAX);
    body
}

fn error_value_of_body(body: &[u8]) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    match value.get_mut("error").map(Value::take) {
        Some(error) if !error.is_null() => Some(error),
        _ => value.is_object().then_some(value),
    }
}

/// Returns the message of a JSON error, else the body itself, as one bounded line.
fn excerpt_of_body(body: &[u8]) -> String {
    if let Some(error) = error_value_of_body(body) {
        let message = error.as_str().or_else(|| error.get("message").and_then(Value::as_str));
        if let Some(message) = message.filter(|message| !message.trim().is_empty()) {
            let code = error.get("code").and_then(Value::as_str).unwrap_or_default();
            let code = if code.is_empty() { String::new() } else { format!(" ({code})") };
            return printable_excerpt(&format!("{message}{code}"));
        }
    }
    let start = body.get(..EXCERPT_BYTES_MAX * 2).unwrap_or(body);
    printable_excerpt(&String::from_utf8_lossy(start))
}
