//! The driver for servers that speak the Responses API over HTTP and server-sent events.
//!
//! `encode.rs` and `decode.rs` are its words, `attempt.rs` the order
//! of things: send, frame, decode, try again. Executes no tool and knows no session. Made by
//! `model/factory.rs`.

use bytes::Bytes;
use futures_util::stream::unfold;

use crate::config::Provider;
use crate::model::client::{Endpoint, HttpClient};
use crate::model::responses::attempt::Exchange;
use crate::model::{BoxStream, Driver, DriverError, ResponseEvent};
use crate::protocol::Prompt;

mod attempt;
pub(crate) mod decode;
pub(crate) mod encode;

pub(crate) use attempt::sent_event;

/// Speaks the Responses API to one provider.
#[derive(Debug)]
pub(crate) struct ResponsesDriver {
    client: HttpClient,
    endpoint: Endpoint,
    provider: Provider,
}

impl ResponsesDriver {
    /// Checks the provider's address and key; sends nothing.
    pub(crate) fn new(client: HttpClient, provider: Provider) -> Result<Self, DriverError> {
        let endpoint = Endpoint::new(&provider, "/responses")?;
        Ok(Self { client, endpoint, provider })
    }
}

impl Driver for ResponsesDriver {
    fn stream(&self, prompt: Prompt) -> BoxStream<Result<ResponseEvent, DriverError>> {
        let body = Bytes::from(encode::encode(&prompt));
        let exchange = Box::new(Exchange::new(
            (self.client.clone(), self.endpoint.clone()),
            &self.provider,
            prompt.settings.cache_key,
            body,
        ));
        Box::pin(unfold(exchange, |mut exchange| async move {
            exchange.next().await.map(|event| (event, exchange))
        }))
    }
}
