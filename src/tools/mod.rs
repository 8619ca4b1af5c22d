//! Tools: the router finds the call, the registry the handler, the executor runs the pipeline
//! around it. A tool is one file and one line in `builtin()`.
//!
//! A tool sees its turn's settings, runs a command, touches files, asks, reports progress.
//! It knows no session, no event log, no screen and no policy: the executor judges its
//! `Effect` before `run` is called. Called by `agent/turn.rs`.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use crate::model::catalog;
use crate::model::catalog::ModelInfo;
use crate::model::catalog::PatchTool;
use crate::protocol::{
    Availability, Effect, Hunk, HunkId, ToolCall, ToolOutput, ToolSafety, ToolSpec,
};

mod apply_patch;
mod approval;
mod attempts;
mod context;
pub(crate) mod edit;
mod error;
mod exec_session;
mod executor;
mod files;
mod grep_files;
mod list_dir;
mod mcp;
mod process;
mod put_back;
mod read_file;
mod recording;
mod registry;
mod router;
mod schema;
mod seen;
mod shell;
mod update_plan;
mod view_image;
mod walk;

#[cfg(test)]
pub(crate) mod testing;

use apply_patch::{ApplyPatch, PatchForm};
use exec_session::WriteStdin;
use grep_files::GrepFiles;
use list_dir::ListDir;
use read_file::ReadFile;
use shell::{ShellForm, ShellTool};
use update_plan::UpdatePlan;
use view_image::ViewImage;

pub use attempts::AttemptLog;
pub use context::{
    ProcessRequest, SecretPlace, SessionLink, SessionRequest, ToolContext, TurnContext,
};
pub use error::ToolError;
pub use executor::{Executed, Executor, Prepared, Stop};
pub use files::FileAccess;
pub(crate) use mcp::build_mcp_tools;
pub use process::RunningProcess;
pub(crate) use recording::describe_changes;
pub use registry::{Registration, ToolRegistry};
pub use router::ToolRouter;
pub use seen::SeenFiles;

/// A boxed future that may borrow from its caller.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One tool.
///
/// The executor calls `effect` first, judges it, and only then calls `run`, which must do no
/// more than the effect said. `run` may be dropped at any point: what it started must end
/// with it. Outputs are bounded by the executor, not by the tool.
pub trait ToolHandler: Send + Sync {
    /// Returns what the model is told. The same value for the whole session.
    fn spec(&self) -> ToolSpec;

    /// Returns what the tool is, whatever it is called with.
    fn safety(&self) -> ToolSafety;

    /// Returns whether it can be called now.
    fn available(&self) -> Availability {
        Availability::Yes
    }

    /// Returns what this call would do. Pure; bad arguments end here.
    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError>;

    /// Returns the parts of a call that a person can take or leave one by one. Pure.
    fn hunks(&self, _call: &ToolCall) -> Vec<Hunk> {
        Vec::new()
    }

    /// Returns what this call would do with only these parts of it, as `ToolContext::keep` has
    /// it do; the error says why it cannot. Pure.
    fn effect_of(
        &self,
        _call: &ToolCall,
        _keep: &[HunkId],
        _cwd: &Path,
    ) -> Result<Effect, ToolError> {
        Err(ToolError::Denied("it cannot be done in part".to_owned()))
    }

    /// Does it.
    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// Returns the built-in tools for a model, in the order it sees them. The forms of the shell
/// that it was not trained on are understood, but not offered.
pub(crate) fn builtin(model: &ModelInfo, shell_program: &str) -> Vec<Registration> {
    let patch_form = match model.apply_patch {
        PatchTool::Freeform => PatchForm::Freeform,
        PatchTool::Function => PatchForm::Function,
    };
    let shell = |form, offered_as| Registration {
        handler: Arc::new(ShellTool::new(form, shell_program)),
        offered: model.shell == offered_as,
    };
    vec![
        shell(ShellForm::ExecCommand, catalog::ShellTool::ExecCommand),
        shell(ShellForm::Shell, catalog::ShellTool::Shell),
        shell(ShellForm::LocalShell, catalog::ShellTool::LocalShell),
        Registration {
            handler: Arc::new(WriteStdin),
            offered: model.shell == catalog::ShellTool::ExecCommand,
        },
        Registration::offered(ApplyPatch { form: patch_form }),
        Registration::offered(ReadFile),
        Registration::offered(ListDir),
        Registration::offered(GrepFiles),
        Registration::offered(UpdatePlan),
        Registration::offered(ViewImage { model_sees_images: model.images }),
    ]
}
