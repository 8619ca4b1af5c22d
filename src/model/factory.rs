//! Which driver speaks to a provider: one line per dialect.
//!
//! Knows dialects by name only. Called by `cli`; the drivers share one HTTP client, and the
//! scripted ones one script.

use std::sync::{Arc, OnceLock};

use crate::config::{Provider, WireApi};
use crate::model::client::HttpClient;
use crate::model::failure::Failure;
use crate::model::fake::FakeDriver;
use crate::model::responses::ResponsesDriver;
use crate::model::retry::FailureClass;
use crate::model::{Driver, DriverError, DriverFactory};
use crate::protocol::{ErrorKind, ModelName};

/// Returns the factory for a provider's drivers; nothing is read or sent yet.
pub(crate) fn factory(provider: Provider) -> Arc<dyn DriverFactory> {
    Arc::new(ProviderFactory { provider, client: HttpClient::default(), script: OnceLock::new() })
}

struct ProviderFactory {
    provider: Provider,
    client: HttpClient,
    /// Read once, because all drivers play on where the last request stopped.
    script: OnceLock<Arc<FakeDriver>>,
}

impl DriverFactory for ProviderFactory {
    fn driver(&self, _model: &ModelName) -> Result<Arc<dyn Driver>, DriverError> {
        let wire_api = match self.provider.script {
            Some(_) => WireApi::Fake,
            None => self.provider.wire_api,
        };
        match wire_api {
            WireApi::Responses => {
                let driver = ResponsesDriver::new(self.client.clone(), self.provider.clone())?;
                Ok(Arc::new(driver))
            }
            WireApi::Fake => Ok(self.scripted()?),
        }
    }
}

impl ProviderFactory {
    fn scripted(&self) -> Result<Arc<FakeDriver>, DriverError> {
        if let Some(driver) = self.script.get() {
            return Ok(driver.clone());
        }
        let Some(path) = &self.provider.script else {
            let message = "the scripted driver has no script";
            return Err(Failure::new(ErrorKind::Refused, FailureClass::Final, message)
                .with_hint("name one with --script FILE")
                .error);
        };
        let driver = Arc::new(FakeDriver::load(path)?);
        Ok(self.script.get_or_init(|| driver).clone())
    }
}
