//! `apply_patch`: changes several files together, or none of them.
//!
//! The grammar and the matching are `patch/`, reading and writing are `edit/`; what stands
//! here is the tool's face. The executor has judged the effect before `run`, by the paths as
//! written; `edit` has policy judge where they really lead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::patch;
use crate::patch::{Patch, PatchError};
use crate::protocol::{
    Capability, ChangeSource, Effect, EventMsg, FileChange, Grammar, Hunk, HunkId, SideEffects,
    ToolCall, ToolName, ToolOutput, ToolPayload, ToolSafety, ToolSpec,
};
use crate::store::commit::CommitError;
use crate::tools::edit;
use crate::tools::edit::{Asks, EditError, EditScope};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// The tool's name.
pub(crate) const APPLY_PATCH: &str = "apply_patch";

const DESCRIPTION: &str = "Edits files: adds, deletes, changes and moves them, all or none. \
Paths are relative to the working directory. Write a few lines of context as they stand in the \
file around each change; where they occur more than once, name an enclosing line after `@@`.";

/// What a model without grammars must be told besides.
const FORMAT: &str = "Form of `input`:
*** Begin Patch
*** Add File: PATH       (then every line with a leading +)
*** Delete File: PATH
*** Update File: PATH    (optionally followed by: *** Move to: PATH)
@@ enclosing line, optional
 context line             (leading space)
-removed line
+added line
*** End of File           (optional: the change is at the end)
*** End Patch";

const GRAMMAR: &str = r#"start: "*** Begin Patch" LF file+ "*** End Patch" LF?
file: add | delete | update
add: "*** Add File: " path LF added+
delete: "*** Delete File: " path LF
update: "*** Update File: " path LF (move change? | change)
move: "*** Move to: " path LF
change: (anchor | line)+ end_of_file?
anchor: ("@@" | "@@ " /(.+)/) LF
line: (" " | "+" | "-") /(.*)/ LF
added: "+" /(.*)/ LF
end_of_file: "*** End of File" LF
path: /(.+)/
%import common.LF
"#;

/// How a model is offered the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// As free text after a grammar.
    Freeform,
    /// As a function with the text in `input`.
    Function,
}

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApplyPatch {
    /// How it is offered; calls are taken in both forms.
    pub(crate) form: PatchForm,
}

impl ToolHandler for ApplyPatch {
    fn spec(&self) -> ToolSpec {
        let name = ToolName::from(APPLY_PATCH);
        match self.form {
            PatchForm::Freeform => ToolSpec::Freeform {
                name,
                description: DESCRIPTION.to_owned(),
                grammar: Grammar { syntax: "lark".to_owned(), definition: GRAMMAR.to_owned() },
            },
            PatchForm::Function => ToolSpec::Function {
                name,
                description: format!("{DESCRIPTION}\n{FORMAT}"),
                parameters: json!({
                    "type": "object",
                    "properties": { "input": { "type": "string", "description": "The patch." } },
                    "required": ["input"],
                    "additionalProperties": false,
                }),
                strict: false,
            },
        }
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety {
            side_effects: SideEffects::Write,
            idempotent: false,
            requires: vec![Capability::Files],
        }
    }

    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError> {
        let request = parse_request(call, cwd)?;
        Ok(Effect::Write { changes: request.patch.changes(&request.base) })
    }

    fn hunks(&self, call: &ToolCall) -> Vec<Hunk> {
        let request = parse_request(call, Path::new("/"));
        request.map(|request| patch::hunks(&request.patch)).unwrap_or_default()
    }

    fn effect_of(&self, call: &ToolCall, keep: &[HunkId], cwd: &Path) -> Result<Effect, ToolError> {
        let Request { patch, base } = parse_request(call, cwd)?;
        let patch = patch::narrow(patch, keep).map_err(ToolError::Denied)?;
        Ok(Effect::Write { changes: patch.changes(&base) })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(run_patch(call, cx))
    }
}

async fn run_patch(call: &ToolCall, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let Request { patch, base } = parse_request(call, &cx.turn.cwd)?;
    let patch = match &cx.keep {
        Some(keep) => patch::narrow(patch, keep).map_err(ToolError::Denied)?,
        None => patch,
    };
    let scope = EditScope {
        base,
        policy: cx.turn.sandbox.clone(),
        home: cx.turn.home.clone(),
        rules: Arc::clone(&cx.turn.rules),
        journal: Some(cx.turn.journal.clone()),
        asks: Asks::JudgedBefore,
        seen: cx.seen.clone(),
    };
    let (turn, cancel, link) = (Arc::clone(&cx.turn), cx.cancel.clone(), cx.link.clone());
    let call_id = call.call_id.clone();
    // A task of its own: once begun, the writing ends as a whole and is told, also when this
    // future is dropped.
    let work = tokio::spawn(async move {
        let written = tokio::task::spawn_blocking(move || {
            change_files(patch, &scope, &turn.cwd, &|| !cancel.is_cancelled())
        });
        let done = written.await.map_err(|_| failed("the patch could not be applied"))??;
        let msg = EventMsg::FilesChanged { by: ChangeSource::Patch, changes: done.changes };
        link.event(Some(call_id), None, msg).await;
        Ok(ToolOutput::text(done.report))
    });
    work.await.map_err(|_| failed("the patch could not be applied"))?
}

/// What there is to say after an edit.
#[derive(Debug)]
struct Done {
    changes: Vec<FileChange>,
    report: String,
}

fn change_files(
    patch: Patch,
    scope: &EditScope,
    cwd: &Path,
    go_on: &dyn Fn() -> bool,
) -> Result<Done, ToolError> {
    let planned = edit::plan(patch, scope).map_err(tool_error)?;
    let written = edit::commit(&planned, scope, go_on).map_err(tool_error)?;
    let changes = edit::render_changes(&planned.applied.writes, cwd);
    let mut notes = planned.applied.notes.clone();
    notes.extend(planned.stale_notes());
    notes.extend(written);
    let report = edit::render_report(&changes, &notes, cwd);
    Ok(Done { changes, report })
}

/// A call, read.
struct Request {
    patch: Patch,
    /// Where relative paths start.
    base: PathBuf,
}

#[derive(Deserialize)]
struct Arguments {
    input: String,
}

fn parse_request(call: &ToolCall, cwd: &Path) -> Result<Request, ToolError> {
    let (text, workdir) = match &call.payload {
        ToolPayload::Custom { input, workdir } => (input.clone(), workdir.as_deref()),
        ToolPayload::Function { arguments } => {
            let parsed: Result<Arguments, _> = serde_json::from_str(arguments);
            (parsed.map_err(|error| ToolError::InvalidArguments(error.to_string()))?.input, None)
        }
        ToolPayload::LocalShell { .. } => {
            let problem = "apply_patch takes the text of a patch".to_owned();
            return Err(ToolError::InvalidArguments(problem));
        }
    };
    let patch = patch::parse(&text).map_err(|error| patch_error(&error))?;
    let base = patch::absolute(cwd, Path::new(workdir.unwrap_or(".")));
    Ok(Request { patch, base })
}

fn failed(message: impl Into<String>) -> ToolError {
    ToolError::Failed(message.into())
}

fn tool_error(error: EditError) -> ToolError {
    let text = error.to_string();
    match error {
        EditError::Patch { error, stale } if stale.is_empty() => patch_error(&error),
        EditError::Refused { reason } => ToolError::Denied(reason),
        EditError::Commit(CommitError::Stopped) => ToolError::Interrupted,
        EditError::Commit(CommitError::NotRestored { .. }) => failed(text),
        EditError::Commit(CommitError::Changed { .. }) => {
            failed(format!("{text}; read it and send a new patch\nNo file was changed."))
        }
        EditError::Patch { .. } | EditError::Unfit { .. } | EditError::Commit(_) => {
            failed(format!("{text}\nNo file was changed."))
        }
    }
}

fn patch_error(error: &PatchError) -> ToolError {
    match error {
        PatchError::Syntax { .. } | PatchError::TooLarge { .. } => {
            ToolError::InvalidArguments(error.to_string())
        }
        _ => failed(format!("{error}\nNo file was changed.")),
    }
}

#[cfg(test)]
#[path = "apply_patch_tests.rs"]
mod tests;
