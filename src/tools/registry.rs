//! `ToolRegistry`: the tools of a session, by name. Built once, never changed.
//!
//! Knows nothing of calls or policy. A tool may be registered without being offered: models
//! trained on another form of the shell are still understood. Built by `agent/`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::protocol::Availability;
use crate::protocol::ToolName;
use crate::protocol::ToolSpec;
use crate::text;
use crate::tools::ToolHandler;

/// A tool and whether the model is told of it.
#[derive(Clone)]
pub struct Registration {
    /// The tool.
    pub handler: Arc<dyn ToolHandler>,
    /// Whether it stands in the request's tool list.
    pub offered: bool,
}

/// The tools of a session.
pub struct ToolRegistry {
    handlers: HashMap<ToolName, Arc<dyn ToolHandler>>,
    specs: Arc<[ToolSpec]>,
    offered: Vec<ToolName>,
}

impl Registration {
    /// Registers a tool that the model is told of.
    pub fn offered(handler: impl ToolHandler + 'static) -> Self {
        Self { handler: Arc::new(handler), offered: true }
    }

    /// Registers a tool that is understood but not shown.
    pub fn understood(handler: impl ToolHandler + 'static) -> Self {
        Self { handler: Arc::new(handler), offered: false }
    }
}

impl ToolRegistry {
    /// Builds the registry. The first tool of a name wins; `disabled` names are left out, and
    /// so is from the list what is not available now. Returns the names that came twice.
    pub fn build(tools: Vec<Registration>, disabled: &[String]) -> (Self, Vec<ToolName>) {
        let mut handlers = HashMap::new();
        let mut specs = Vec::new();
        let mut offered = Vec::new();
        let mut twice = Vec::new();
        for Registration { handler, offered: is_offered } in tools {
            let spec = handler.spec();
            let name = spec.name();
            if disabled.iter().any(|disabled| disabled == name.as_str()) {
                continue;
            }
            if handlers.contains_key(&name) {
                twice.push(name);
                continue;
            }
            if is_offered && handler.available() == Availability::Yes {
                specs.push(spec);
                offered.push(name.clone());
            }
            handlers.insert(name, handler);
        }
        (Self { handlers, specs: specs.into(), offered }, twice)
    }

    /// Returns the tools' descriptions for the model; the same list for the whole session.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Returns the tool of a name.
    pub fn find(&self, name: &ToolName) -> Option<&Arc<dyn ToolHandler>> {
        self.handlers.get(name)
    }

    /// Returns what to tell a model that called a tool which is not there.
    pub fn unknown(&self, name: &ToolName) -> String {
        let known = self.offered.iter().map(ToolName::as_str);
        let shown = text::ansi::visible(name.as_str());
        match text::closest::closest(name.as_str(), known.clone()) {
            Some(near) => format!("there is no tool `{shown}`; did you mean `{near}`?"),
            None => {
                let list = known.collect::<Vec<_>>().join(", ");
                format!("there is no tool `{shown}`; the tools are: {list}")
            }
        }
    }
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolRegistry").field("offered", &self.offered).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("offered", &self.offered).finish_non_exhaustive()
    }
}
