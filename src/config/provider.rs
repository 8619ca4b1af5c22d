//! The provider: which server is spoken to, with which key and headers.
//!
//! Pure: variables and the stored key are handed in. The order in which keys are looked for is
//! here and nowhere else. Called by `resolve.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::file::{ConfigToml, ProviderToml, WireApiToml};
use crate::config::{ConfigError, Provider, ProviderKey, WireApi};

/// The variables that may hold the key of `openai`, in the order they are looked at.
pub const OPENAI_KEY_VARIABLES: &[&str] = &["CODEX_API_KEY", "OPENAI_API_KEY", "GIMLET_API_KEY"];

/// What a key stored by `gimlet login` is called where keys are explained.
pub const STORED_KEY_SOURCE: &str = "gimlet login";

/// More retries than this would only hide that a server is down.
const RETRIES_MAX: u32 = 100;

/// What the provider depends on beside the configuration.
#[derive(Debug, Clone, Copy)]
pub struct ProviderFacts<'a> {
    /// Our variables.
    pub env: &'a BTreeMap<String, String>,
    /// The key in `auth.json`.
    pub stored_key: Option<&'a str>,
    /// The fake driver's script.
    pub script: Option<&'a PathBuf>,
}

/// Chooses the provider and resolves all it needs.
pub fn build_provider(
    config: &ConfigToml,
    facts: ProviderFacts<'_>,
) -> Result<Provider, ConfigError> {
    if let Some(script) = facts.script {
        return Ok(build_fake(script.clone()));
    }
    let name = config.model_provider.clone().unwrap_or_default();
    let Some(provider) = config.model_providers.get(&name) else {
        let known: Vec<&str> = config.model_providers.keys().map(String::as_str).collect();
        return Err(ConfigError::Value {
            key: "model_provider".to_owned(),
            message: format!("there is no provider `{name}`"),
            hint: Some(format!(
                "there are: {}; add one as [model_providers.NAME]",
                known.join(", ")
            )),
        });
    };
    let place = format!("model_providers.{name}");
    if provider.wire_api == Some(WireApiToml::Chat) {
        return Err(ConfigError::Value {
            key: format!("{place}.wire_api"),
            message: "\"chat\" is not supported yet".to_owned(),
            hint: Some("use \"responses\", and a server that offers the Responses API".to_owned()),
        });
    }
    let chosen_url = match (&config.openai_base_url, name.as_str()) {
        (Some(url), "openai") => (url.as_str(), "openai_base_url".to_owned()),
        (Some(_) | None, _) => {
            (provider.base_url.as_deref().unwrap_or_default(), format!("{place}.base_url"))
        }
    };
    Ok(Provider {
        base_url: parse_base_url(chosen_url.0, &chosen_url.1)?,
        wire_api: WireApi::Responses,
        key: find_key(provider, &name, facts)?,
        headers: build_headers(provider, &place, facts.env)?,
        query: provider.query_params.clone(),
        request_retries_max: provider.request_max_retries.unwrap_or(4).min(RETRIES_MAX),
        stream_retries_max: provider.stream_max_retries.unwrap_or(5).min(RETRIES_MAX),
        stream_idle_timeout_ms: provider.stream_idle_timeout_ms.unwrap_or(300_000).max(1),
        script: None,
        name,
    })
}

fn build_fake(script: PathBuf) -> Provider {
    Provider {
        name: "fake".to_owned(),
        base_url: String::new(),
        wire_api: WireApi::Fake,
        key: ProviderKey::NotNeeded,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        request_retries_max: 4,
        stream_retries_max: 5,
        stream_idle_timeout_ms: 300_000,
        script: Some(script),
    }
}

fn parse_base_url(text: &str, key: &str) -> Result<String, ConfigError> {
    let refuse = |message: &str| ConfigError::Value {
        key: key.to_owned(),
        message: message.to_owned(),
        hint: Some("for example: https://api.openai.com/v1".to_owned()),
    };
    if text.trim().is_empty() {
        return Err(refuse("is missing"));
    }
    let Ok(url) = url::Url::parse(text.trim()) else { return Err(refuse("is not a URL")) };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refuse("is not an http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds a user name or password; give keys by env_key"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("holds a query or fragment; give queries by query_params"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn find_key(
    provider: &ProviderToml,
    name: &str,
    facts: ProviderFacts<'_>,
) -> Result<ProviderKey, ConfigError> {
    if let Some(token) = &provider.experimental_bearer_token {
        let source = format!("model_providers.{name}.experimental_bearer_token");
        return check_key(token, source);
    }
    let from_openai = provider.requires_openai_auth.unwrap_or(false);
    let variables: Vec<&str> = match &provider.env_key {
        Some(variable) => vec![variable.as_str()],
        None if from_openai => OPENAI_KEY_VARIABLES.to_vec(),
        None => return Ok(ProviderKey::NotNeeded),
    };
    for variable in &variables {
        if let Some(key) = facts.env.get(*variable).filter(|key| !key.trim().is_empty()) {
            return check_key(key, (*variable).to_owned());
        }
    }
    match facts.stored_key {
        Some(key) if provider.env_key.is_none() => check_key(key, STORED_KEY_SOURCE.to_owned()),
        Some(_) | None => Ok(ProviderKey::Missing {
            looked_at: variables.into_iter().map(str::to_owned).collect(),
        }),
    }
}

fn check_key(key: &str, source: String) -> Result<ProviderKey, ConfigError> {
    let key = key.trim();
    // What is not visible ASCII cannot stand in the header that carries the key.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ConfigError::Value {
            key: source,
            message: "does not hold a key: it is empty, or has spaces or odd characters".to_owned(),
            hint: Some("copy the key again, on one line".to_owned()),
        });
    }
    Ok(ProviderKey::Found { key: key.to_owned(), source })
}

fn build_headers(
    provider: &ProviderToml,
    place: &str,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut headers = provider.http_headers.clone();
    for (name, variable) in &provider.env_http_headers {
        if let Some(value) = env.get(variable).filter(|value| !value.trim().is_empty()) {
            headers.insert(name.clone(), value.trim().to_owned());
        }
    }
    for (name, value) in &headers {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        if !is_name || value.chars().any(char::is_control) {
            return Err(ConfigError::Value {
                key: format!("{place}.http_headers"),
                message: format!("{name:?} cannot be sent as a header"),
                hint: Some("use letters, digits and dashes; values on one line".to_owned()),
            });
        }
    }
    Ok(headers)
}
