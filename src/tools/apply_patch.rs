//! `apply_patch`: changes several files together, or none of them.
//!
//! The grammar and the matching are `patch/`, the writing is `store/atomic.rs`; what stands
//! here is the tool's face and the rule of where a patch may write. The executor has judged
//! the effect before `run`, by the paths as written; `run` has policy judge where they really
//! lead, since a link in the tree must not lead a patch out of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::patch;
use crate::patch::{Applied, FileAction, FileWrite, Patch, PatchError};
use crate::policy;
use crate::policy::Obstacle;
use crate::protocol::{
    Capability, ChangeKind, ChangeSource, Effect, EventMsg, FileChange, Grammar, Hunk, HunkId,
    Pattern, SandboxPolicy, SideEffects, ToolCall, ToolName, ToolOutput, ToolPayload, ToolSafety,
    ToolSpec,
};
use crate::store::atomic;
use crate::store::atomic::{CommitError, FileCommit};
use crate::text::diff::unified;
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler, TurnContext};

/// The tool's name.
pub(crate) const APPLY_PATCH: &str = "apply_patch";

/// A larger file is not patched: it would be held in memory several times.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

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

    fn keep_hunks(&self, call: &ToolCall, keep: &[HunkId]) -> Option<ToolCall> {
        let patch = parse_request(call, Path::new("/")).ok()?.patch;
        let input = patch::render(&patch::select(&patch, keep)?);
        let payload = match &call.payload {
            ToolPayload::Custom { workdir, .. } => {
                ToolPayload::Custom { input, workdir: workdir.clone() }
            }
            ToolPayload::Function { .. } | ToolPayload::LocalShell { .. } => {
                ToolPayload::Custom { input, workdir: None }
            }
        };
        Some(ToolCall { payload, ..call.clone() })
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
    let request = parse_request(call, &cx.turn.cwd)?;
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Interrupted);
    }
    let turn = Arc::clone(&cx.turn);
    // Once begun, the writing ends as a whole, also when this future is dropped.
    let work = tokio::task::spawn_blocking(move || change_files(request, &Boundary::new(&turn)));
    let applied = work.await.map_err(|_| failed("the patch could not be applied"))??;
    let changes = render_changes(&applied.writes, &cx.turn.cwd);
    let output = render_report(&changes, &applied, &cx.turn.cwd);
    let msg = EventMsg::FilesChanged { by: ChangeSource::Patch, changes };
    cx.link.event(Some(call.call_id.clone()), None, msg).await;
    Ok(ToolOutput::text(output))
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
    let patch = patch::parse(&text).map_err(|error| tool_error(&error))?;
    let base = patch::absolute(cwd, Path::new(workdir.unwrap_or(".")));
    Ok(Request { patch, base })
}

// ---- What touches the disk. Everything below runs on the blocking pool.

/// Reads, works out, checks and writes.
fn change_files(request: Request, boundary: &Boundary) -> Result<Applied, ToolError> {
    let Request { mut patch, base } = request;
    boundary.resolve_paths(&mut patch, &base)?;
    let mut files = BTreeMap::new();
    for path in patch.paths(&base) {
        let bytes = read_file(&path)?;
        files.insert(path, bytes);
    }
    let applied = patch::apply(&patch, &base, &files).map_err(|error| tool_error(&error))?;
    let commits: Vec<FileCommit> = applied.writes.iter().map(commit_of).collect();
    atomic::commit(&commits).map_err(|error| match error {
        CommitError::Changed { .. } => failed(format!("{error}; read it and send a new patch")),
        CommitError::NotRegular { .. }
        | CommitError::Io { .. }
        | CommitError::NotRestored { .. } => failed(error.to_string()),
    })?;
    Ok(applied)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, ToolError> {
    let problem = |what: &str| failed(format!("{}: {what}", path.display()));
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(problem("not a regular file")),
        Ok(found) if found.len() > FILE_BYTES_MAX => Err(problem("too large to patch")),
        Ok(_) => match atomic::read_regular(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(problem(&format!("cannot read: {error}"))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(problem(&format!("cannot read: {error}"))),
    }
}

fn commit_of(write: &FileWrite) -> FileCommit {
    FileCommit {
        path: write.path.clone(),
        content: write.content.clone(),
        expected_old: write.old.clone(),
        mode_from: write.moved_from.clone(),
    }
}

/// Where a patch may write: what policy says of paths as they are written, it says of where
/// they really lead.
struct Boundary {
    /// The turn's policy, its own paths followed through links.
    policy: SandboxPolicy,
    home: PathBuf,
}

impl Boundary {
    /// Follows the links in a policy's paths; reads directories.
    fn new(turn: &TurnContext) -> Self {
        let mut policy = turn.sandbox.clone();
        let hidden: Vec<Pattern> = policy
            .deny_read
            .iter()
            .filter_map(|pattern| {
                let path = match pattern.0.strip_prefix("~/") {
                    Some(rest) => turn.home.join(rest),
                    None => PathBuf::from(&pattern.0),
                };
                let real =
                    fs::canonicalize(&path).ok().filter(|real| path.is_absolute() && *real != path);
                real.map(|real| Pattern(real.to_string_lossy().into_owned()))
            })
            .collect();
        policy.deny_read.extend(hidden);
        let tmp = policy.tmp.then(|| PathBuf::from("/tmp"));
        policy.roots = policy.roots.iter().chain(&tmp).map(|root| follow(root)).collect();
        policy.deny_write = policy.deny_write.iter().map(|directory| follow(directory)).collect();
        Self { policy, home: turn.home.clone() }
    }

    /// Checks every path, and puts the real one where a link leads elsewhere, so that two
    /// names of one file are one file.
    fn resolve_paths(&self, patch: &mut Patch, base: &Path) -> Result<(), ToolError> {
        // What goes away goes as it is named: the link, not what it points to.
        let leaves = |action: &FileAction| match action {
            FileAction::Delete => true,
            FileAction::Update { move_to, .. } => move_to.is_some(),
            FileAction::Add { .. } => false,
        };
        let leaving: Vec<PathBuf> = patch
            .files
            .iter()
            .filter(|file| leaves(&file.action))
            .map(|file| patch::absolute(base, &file.path))
            .collect();
        for file in &mut patch.files {
            self.resolve_path(&mut file.path, base, &leaving)?;
            if let FileAction::Update { move_to: Some(target), .. } = &mut file.action {
                self.resolve_path(target, base, &leaving)?;
            }
        }
        Ok(())
    }

    fn resolve_path(
        &self,
        written: &mut PathBuf,
        base: &Path,
        leaving: &[PathBuf],
    ) -> Result<(), ToolError> {
        let named = patch::absolute(base, written);
        let shown = written.display();
        let unresolved = |error| failed(format!("{shown}: cannot resolve: {error}"));
        let mut target = real_path(&named).map_err(unresolved)?;
        self.check(&target, &named)?;
        if leaving.contains(&named) && named.is_symlink() {
            target = real_path(named.parent().unwrap_or(&named)).map_err(unresolved)?;
            target.extend(named.file_name());
            self.check(&target, &named)?;
        }
        if target != named {
            *written = target;
        }
        Ok(())
    }

    /// Checks where a name leads. A name that leads nowhere else has been judged before, and
    /// maybe the user has agreed to it: but to what was shown, not to what lies behind a link.
    fn check(&self, real: &Path, named: &Path) -> Result<(), ToolError> {
        let obstacle = policy::find_write_obstacle(real, &self.policy, &self.home);
        let reason = match obstacle {
            Some(Obstacle::Asks(reason)) if real != named => {
                format!("{reason}; name it by that path to have the user asked")
            }
            Some(Obstacle::Forbids(reason)) => reason,
            Some(Obstacle::Asks(_)) | None => return Ok(()),
        };
        let shown = named.display();
        Err(ToolError::Denied(match real == named {
            true => reason,
            false => format!("{shown} leads elsewhere: {reason}"),
        }))
    }
}

fn follow(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path with the links of its existing part followed.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    for ancestor in path.ancestors() {
        if fs::symlink_metadata(ancestor).is_ok() {
            let mut real = fs::canonicalize(ancestor)?;
            if let Ok(rest) = path.strip_prefix(ancestor) {
                real.extend(rest);
            }
            return Ok(real);
        }
    }
    Ok(path.to_owned())
}

// ---- What is said of it.

/// Returns the changes with unified diffs; a move is one change.
fn render_changes(writes: &[FileWrite], cwd: &Path) -> Vec<FileChange> {
    let is_source =
        |path: &PathBuf| writes.iter().any(|write| write.moved_from.as_ref() == Some(path));
    let mut changes = Vec::with_capacity(writes.len());
    for write in writes {
        if write.content.is_none() && is_source(&write.path) {
            continue;
        }
        let kind = match (&write.old, &write.content, &write.moved_from) {
            (_, None, _) => ChangeKind::Delete,
            (None, Some(_), None) => ChangeKind::Add,
            (_, Some(_), _) => ChangeKind::Update,
        };
        let source = write.moved_from.as_ref().unwrap_or(&write.path);
        let old = writes.iter().find(|other| other.path == *source).and_then(|w| w.old.as_deref());
        changes.push(FileChange {
            path: source.clone(),
            kind,
            move_to: write.moved_from.is_some().then(|| write.path.clone()),
            diff: render_diff(write, (source, old), cwd),
        });
    }
    changes
}

fn render_diff(write: &FileWrite, (source, old): (&Path, Option<&[u8]>), cwd: &Path) -> String {
    let label = |side: &str, path: &Path, exists: bool| {
        if exists { format!("{side}/{}", shown(path, cwd)) } else { "/dev/null".to_owned() }
    };
    let new = write.content.as_deref();
    unified(
        old.unwrap_or_default(),
        new.unwrap_or_default(),
        &label("a", source, old.is_some()),
        &label("b", &write.path, new.is_some()),
    )
}

fn render_report(changes: &[FileChange], applied: &Applied, cwd: &Path) -> String {
    let mut text = match changes {
        [] => "Success. No file needed to change.\n".to_owned(),
        _ => "Success. Updated the following files:\n".to_owned(),
    };
    for change in changes {
        let letter = match change.kind {
            ChangeKind::Add => 'A',
            ChangeKind::Delete => 'D',
            ChangeKind::Update => 'M',
        };
        let path = change.move_to.as_ref().unwrap_or(&change.path);
        text.push_str(&format!("{letter} {}\n", shown(path, cwd)));
    }
    for note in &applied.notes {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}

/// Returns the path from the working directory where it is below it.
fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

fn failed(message: impl Into<String>) -> ToolError {
    ToolError::Failed(message.into())
}

fn tool_error(error: &PatchError) -> ToolError {
    match error {
        PatchError::Syntax { .. } | PatchError::TooLarge { .. } => {
            ToolError::InvalidArguments(error.to_string())
        }
        PatchError::Missing { .. }
        | PatchError::NoAnchor { .. }
        | PatchError::NoMatch { .. }
        | PatchError::TooCostly { .. } => failed(format!("{error}\nNo file was changed.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{DecisionAction, GitAccess, SandboxMode};
    use crate::tools::testing::context;

    struct Place {
        dir: tempfile::TempDir,
        root: PathBuf,
    }

    impl Place {
        /// Makes a folder `work` that may be written, and one beside it that may not.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = fs::canonicalize(dir.path()).unwrap().join("work");
            fs::create_dir(&root).unwrap();
            fs::write(root.join("a"), "one\ntwo\n").unwrap();
            Self { dir, root }
        }

        fn turn(&self) -> TurnContext {
            let (cx, _requests) = context(&self.root, &Effect::None);
            let mut turn = Arc::unwrap_or_clone(cx.turn);
            turn.sandbox.tmp = false;
            turn
        }

        fn apply(&self, body: &str) -> Result<Applied, ToolError> {
            self.apply_in(body, &self.turn(), &[DecisionAction::Allow])
        }

        /// Judges and applies, as the executor does.
        fn apply_in(
            &self,
            body: &str,
            turn: &TurnContext,
            agreed: &[DecisionAction],
        ) -> Result<Applied, ToolError> {
            let call = custom(&format!("*** Begin Patch\n{body}*** End Patch\n"));
            let effect =
                ApplyPatch { form: PatchForm::Freeform }.effect(&call, &self.root).unwrap();
            let around = policy::Circumstances {
                approval: turn.approval,
                sandbox: &turn.sandbox,
                level: turn.sandbox_level,
                fallback: turn.sandbox_fallback,
                interactive: true,
                home: &turn.home,
            };
            let decision = policy::decide(&effect, &around);
            if !agreed.contains(&decision.action) {
                return Err(ToolError::Denied(decision.reason));
            }
            let request = parse_request(&call, &self.root).unwrap();
            change_files(request, &Boundary::new(turn))
        }
    }

    fn custom(input: &str) -> ToolCall {
        ToolCall {
            call_id: "c".into(),
            name: APPLY_PATCH.into(),
            payload: ToolPayload::Custom { input: input.to_owned(), workdir: None },
        }
    }

    #[test]
    fn reports_what_changed_with_real_diffs() {
        let place = Place::new();
        let body = "*** Add File: d/n\n+new\n*** Update File: a\n*** Move to: b\n-two\n+2\n";
        let applied = place.apply(body).unwrap();
        let changes = render_changes(&applied.writes, &place.root);
        let report = render_report(&changes, &applied, &place.root);
        assert_eq!(report, "Success. Updated the following files:\nA d/n\nM b\n");
        assert_eq!(changes[0].diff, "--- /dev/null\n+++ b/d/n\n@@ -0,0 +1 @@\n+new\n");
        assert_eq!(changes[1].diff, "--- a/a\n+++ b/b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        assert_eq!(changes[1].path, place.root.join("a"));
        assert_eq!(changes[1].move_to, Some(place.root.join("b")));
        assert_eq!(fs::read_to_string(place.root.join("b")).unwrap(), "one\n2\n");
        assert!(!place.root.join("a").exists());
    }

    #[test]
    fn refuses_to_leave_the_writable_folders_or_to_touch_protected_ones() {
        let place = Place::new();
        fs::create_dir(place.root.join(".git")).unwrap();
        fs::write(place.dir.path().join("outside"), "secret\n").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("..", place.root.join("up")).unwrap();
            std::os::unix::fs::symlink("../outside", place.root.join("link")).unwrap();
            std::os::unix::fs::symlink(".git", place.root.join("plain")).unwrap();
        }
        let mut paths = vec![
            "../new",
            "/etc/new",
            ".git/hooks/x",
            ".GIT/x",
            "sub/.git",
            "sub/.Codex/x",
            ".gimlet/x",
            ".agents/x",
            ".g\u{200c}it/x",
        ];
        if cfg!(unix) {
            paths.extend(["up/new", "link", "plain/x"]);
        }
        for path in paths {
            let error = place.apply(&format!("*** Add File: ok\n+x\n*** Add File: {path}\n+x\n"));
            assert!(matches!(error, Err(ToolError::Denied(_))), "{path}: {error:?}");
            let error = place.apply(&format!("*** Update File: a\n*** Move to: {path}\n"));
            assert!(matches!(error, Err(ToolError::Denied(_))), "{path}: {error:?}");
        }
        assert!(!place.root.join("ok").exists());
        assert_eq!(fs::read_to_string(place.dir.path().join("outside")).unwrap(), "secret\n");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_leads_to_what_is_hidden() {
        let place = Place::new();
        let secret = place.root.join("secret");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("key"), "k\n").unwrap();
        std::os::unix::fs::symlink(&secret, place.root.join("link")).unwrap();
        std::os::unix::fs::symlink("secret/key", place.root.join("file")).unwrap();
        std::os::unix::fs::symlink(&secret, place.dir.path().join("configured")).unwrap();
        let mut turn = place.turn();
        for hidden in [secret.clone(), place.dir.path().join("configured")] {
            turn.sandbox.deny_read = vec![Pattern(hidden.to_string_lossy().into_owned())];
            for mode in [SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess] {
                turn.sandbox.mode = mode;
                for body in [
                    "*** Update File: link/key\n-k\n+x\n",
                    "*** Update File: file\n-k\n+x\n",
                    "*** Update File: file\n*** Move to: seen\n-k\n+k\n",
                    "*** Update File: a\n*** Move to: link/new\n",
                    "*** Add File: link/new\n+x\n",
                ] {
                    let error = place.apply_in(body, &turn, &[DecisionAction::Allow]);
                    assert!(matches!(error, Err(ToolError::Denied(_))), "{body}: {error:?}");
                }
            }
        }
        assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), "k\n");
        assert!(!secret.join("new").exists() && !place.root.join("seen").exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_policy_allows_or_the_user_agreed_to_is_done() {
        use DecisionAction::{Allow, Ask};
        let place = Place::new();
        fs::create_dir_all(place.root.join(".git/info")).unwrap();
        let mut turn = place.turn();
        turn.sandbox.git = GitAccess::Allow;
        place.apply_in("*** Add File: .git/info/exclude\n+x\n", &turn, &[Allow]).unwrap();
        // Asked and answered; a link beside it was not shown to anyone.
        let outside = place.dir.path().join("outside");
        std::os::unix::fs::symlink(&outside, place.root.join("link")).unwrap();
        place.apply_in("*** Add File: ../outside\n+x\n", &turn, &[Ask]).unwrap();
        let error = place.apply_in("*** Update File: link\n-x\n+y\n", &turn, &[Allow, Ask]);
        let Err(ToolError::Denied(reason)) = error else { panic!("{error:?}") };
        assert!(reason.contains("outside the workspace; name it by that path"), "{reason}");
        turn.sandbox.mode = SandboxMode::ReadOnly;
        place.apply_in("*** Add File: b\n+x\n", &turn, &[Ask]).unwrap();
        // Everything is open, also below a directory whose name is protected elsewhere.
        turn.sandbox.mode = SandboxMode::DangerFullAccess;
        place.apply_in("*** Add File: .codex/w/a\n+x\n", &turn, &[Allow]).unwrap();
        turn.sandbox.mode = SandboxMode::WorkspaceWrite;
        turn.sandbox.tmp = true;
        let there = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        fs::write(there.path(), "x\n").unwrap();
        let body = format!("*** Update File: {}\n-x\n+y\n", there.path().display());
        place.apply_in(&body, &turn, &[Allow]).unwrap();
        // Gimlet's own directory, by whatever name.
        fs::create_dir(place.root.join("own")).unwrap();
        std::os::unix::fs::symlink("own", place.root.join("alias")).unwrap();
        turn.sandbox.deny_write = vec![place.root.join("own")];
        for path in ["own/config.toml", "alias/config.toml"] {
            let error = place.apply_in(&format!("*** Add File: {path}\n+x\n"), &turn, &[Allow]);
            assert!(matches!(error, Err(ToolError::Denied(_))), "{path}: {error:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_two_names_are_one_file() {
        let place = Place::new();
        std::os::unix::fs::symlink("a", place.root.join("link")).unwrap();
        place.apply("*** Update File: link\n-one\n+1\n*** Update File: a\n-two\n+2\n").unwrap();
        assert_eq!(fs::read_to_string(place.root.join("a")).unwrap(), "1\n2\n");
        assert!(place.root.join("link").is_symlink());
        place.apply("*** Delete File: link\n").unwrap();
        assert!(!place.root.join("link").is_symlink() && place.root.join("a").exists());
    }

    #[test]
    fn says_that_nothing_changed_when_it_does_not_fit() {
        let place = Place::new();
        let error = place.apply("*** Add File: n\n+x\n*** Update File: a\n-three\n+3\n");
        let Err(ToolError::Failed(text)) = error else { panic!("{error:?}") };
        assert!(text.ends_with("No file was changed."), "{text}");
        assert!(!place.root.join("n").exists());
        let error = place.apply("*** Delete File: .\n");
        assert!(matches!(error, Err(ToolError::Failed(_))), "{error:?}");
    }

    #[test]
    fn takes_both_forms_and_refuses_what_is_no_patch() {
        let tool = ApplyPatch { form: PatchForm::Function };
        let cwd = Path::new("/work");
        let text = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch";
        let mut call = custom(text);
        let expected = tool.effect(&call, cwd).unwrap();
        let arguments = json!({ "input": text }).to_string();
        call.payload = ToolPayload::Function { arguments };
        assert_eq!(tool.effect(&call, cwd).unwrap(), expected);
        call.payload = ToolPayload::Custom { input: text.into(), workdir: Some("sub/x".into()) };
        let Effect::Write { changes } = tool.effect(&call, cwd).unwrap() else { panic!() };
        assert_eq!(changes[0].path, Path::new("/work/sub/x/a"));
        for arguments in ["", "{}", "{\"input\": 1}", "{\"input\": \"x\"}"] {
            call.payload = ToolPayload::Function { arguments: arguments.into() };
            let error = tool.effect(&call, cwd);
            assert!(matches!(error, Err(ToolError::InvalidArguments(_))), "{arguments}");
        }
    }

    #[test]
    fn what_the_model_is_told_is_short() {
        for form in [PatchForm::Freeform, PatchForm::Function] {
            let spec = serde_json::to_string(&ApplyPatch { form }.spec()).unwrap();
            assert!(spec.len() < 1_400, "{form:?}: {} bytes", spec.len());
        }
    }
}
