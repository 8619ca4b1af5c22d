//! The edit tool: where it may write, what it says, and what it refuses.

use std::fs;

use super::*;
use crate::policy;
use crate::protocol::{DecisionAction, GitAccess, Pattern, SandboxMode};
use crate::tools::testing::context;
use crate::tools::{SeenFiles, TurnContext};

struct Place {
    dir: tempfile::TempDir,
    root: PathBuf,
    seen: SeenFiles,
}

impl Place {
    /// Makes a folder `work` that may be written, and one beside it that may not.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "one\ntwo\n").unwrap();
        Self { dir, root, seen: SeenFiles::default() }
    }

    fn turn(&self) -> TurnContext {
        let (cx, _requests) = context(&self.root, &Effect::None);
        let mut turn = Arc::unwrap_or_clone(cx.turn);
        turn.sandbox.tmp = false;
        turn
    }

    fn apply(&self, body: &str) -> Result<Done, ToolError> {
        self.apply_in(body, &self.turn(), &[DecisionAction::Allow])
    }

    /// Judges and applies, as the executor does.
    fn apply_in(
        &self,
        body: &str,
        turn: &TurnContext,
        agreed: &[DecisionAction],
    ) -> Result<Done, ToolError> {
        let call = custom(&format!("*** Begin Patch\n{body}*** End Patch\n"));
        let effect = ApplyPatch { form: PatchForm::Freeform }.effect(&call, &self.root).unwrap();
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
        let Request { patch, base } = parse_request(&call, &self.root).unwrap();
        let scope = EditScope {
            base,
            policy: turn.sandbox.clone(),
            home: turn.home.clone(),
            journal: Some(self.dir.path().join("state/journal")),
            asks: Asks::JudgedBefore,
            seen: self.seen.clone(),
        };
        change_files(patch, &scope, &self.root, &|| true)
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
    let Done { changes, report } = place.apply(body).unwrap();
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
