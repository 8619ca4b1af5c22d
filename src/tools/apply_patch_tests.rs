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
        Self { dir, root, seen: SeenFiles::new() }
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

    /// Applies a patch in whatever form.
    fn apply_text(&self, text: &str) -> Result<Done, ToolError> {
        self.apply_call(&custom(text), &self.turn(), &[DecisionAction::Allow])
    }

    /// Judges and applies, as the executor does.
    fn apply_in(
        &self,
        body: &str,
        turn: &TurnContext,
        agreed: &[DecisionAction],
    ) -> Result<Done, ToolError> {
        let call = custom(&format!("*** Begin Patch\n{body}*** End Patch\n"));
        self.apply_call(&call, turn, agreed)
    }

    fn apply_call(
        &self,
        call: &ToolCall,
        turn: &TurnContext,
        agreed: &[DecisionAction],
    ) -> Result<Done, ToolError> {
        let effect = ApplyPatch { form: PatchForm::Freeform }.effect(call, &self.root)?;
        let around = policy::Circumstances {
            approval: turn.approval,
            sandbox: &turn.sandbox,
            level: turn.sandbox_level,
            fallback: turn.sandbox_fallback,
            interactive: true,
            home: &turn.home,
            rules: &turn.rules,
        };
        let decision = policy::decide(&effect, APPLY_PATCH, &around);
        if !agreed.contains(&decision.action) {
            return Err(ToolError::Denied(decision.reason));
        }
        let Request { patch, base } = parse_request(call, &self.root).unwrap();
        let scope = EditScope {
            base,
            policy: turn.sandbox.clone(),
            home: turn.home.clone(),
            rules: Arc::clone(&turn.rules),
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

/// A file that another program changed behind the model's back is edited where the patch still
/// fits, and the model is told.
#[test]
fn a_file_that_changed_since_it_was_read_is_named() {
    let place = Place::new();
    place.seen.note(&place.root.join("a"), &[b"one\n", b"two\n"]);
    fs::write(place.root.join("a"), "zero\none\ntwo\n").unwrap();
    let text = place.apply("*** Update File: a\n-three\n+3\n").unwrap_err().to_string();
    let stale = format!("{}/a changed on disk since you read it", place.root.display());
    assert!(text.contains(&format!("\n{stale}\nNo file was changed.")), "{text}");
    let done = place.apply("*** Update File: a\n-two\n+2\n").unwrap();
    assert_eq!(done.report, format!("Success. Updated the following files:\nM a\nNote: {stale}\n"));
    // What a patch has written is known.
    let done = place.apply("*** Update File: a\n-2\n+two\n*** Add File: new\n+x\n").unwrap();
    assert_eq!(done.report, "Success. Updated the following files:\nM a\nA new\n");
    fs::write(place.root.join("new"), "y\n").unwrap();
    let done = place.apply("*** Update File: new\n-y\n+z\n").unwrap();
    assert!(done.report.ends_with("new changed on disk since you read it\n"), "{}", done.report);
}

#[tokio::test]
async fn reading_a_part_of_a_file_is_seeing_it() {
    use crate::tools::testing::call;
    let place = Place::new();
    let read = call("read_file", r#"{"path":"a","limit":1}"#);
    let effect = crate::tools::ReadFile.effect(&read, &place.root).unwrap();
    let (mut cx, _requests) = context(&place.root, &effect);
    cx.seen = place.seen.clone();
    crate::tools::ReadFile.run(&read, &cx).await.unwrap();
    assert!(!place.seen.differs(&place.root.join("a"), b"one\ntwo\n"));
    assert!(place.seen.differs(&place.root.join("a"), b"one\n2\n"));
    assert!(!place.seen.differs(&place.root.join("b"), b""));
}

/// Returns the tree's names and contents, so that "untouched" can be seen.
fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            found.extend(tree(&path));
        }
        let content = if kind.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        found.push((path, content));
    }
    found.sort();
    found
}

#[test]
fn what_cannot_be_patched_is_refused_with_the_tree_untouched() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let at = |name: &str| place.root.join(name);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::create_dir(at("locked")).unwrap();
    for name in ["fixed", "locked/in"] {
        fs::write(at(name), "x\n").unwrap();
    }
    set_mode("fixed", 0o444);
    set_mode("locked", 0o555);
    std::os::unix::fs::symlink("nowhere", at("broken")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    let long = "d/".repeat(2_500) + "f";
    let wide = "w".repeat(300);
    let before = tree(&place.root);
    let cases = [
        ("*** Update File: pipe\n-x\n+y\n", "pipe: a named pipe, not a regular file"),
        ("*** Add File: pipe\n+y\n", "pipe: a named pipe, not a regular file"),
        ("*** Delete File: socket\n", "socket: a socket, not a regular file"),
        ("*** Update File: dir\n-x\n+y\n", "dir: a directory, not a regular file"),
        ("*** Delete File: dir\n", "dir: a directory, not a regular file"),
        ("*** Update File: a\n*** Move to: dir\n", "dir: a directory, not a regular file"),
        ("*** Update File: fixed\n-x\n+y\n", "fixed: the file is read-only"),
        ("*** Delete File: fixed\n", "fixed: the file is read-only"),
        ("*** Update File: locked/in\n-x\n+y\n", "locked: the directory is read-only"),
        ("*** Add File: locked/new/x\n+y\n", "locked: the directory is read-only"),
        (
            "*** Update File: gone\n-x\n+y\n",
            "gone (line 4 of the patch): the file to update does not",
        ),
        ("*** Add File: a/below\n+y\n", "a is no directory"),
        ("*** Update File: broken\n-x\n+y\n", "broken: cannot be resolved: No such file"),
        ("*** Update File: loop\n-x\n+y\n", "loop: cannot be resolved: Too many levels"),
        (&format!("*** Add File: {long}\n+y\n"), "the path has 5001 bytes; at most 4095 can be"),
        (&format!("*** Add File: {}f\n+y\n", "d/".repeat(2_045)), "ile name too long"),
        (&format!("*** Add File: {wide}\n+y\n"), "File name too long"),
    ];
    for (body, expected) in cases {
        // A part that would work stands before it, and must not be done either.
        let body = format!("*** Add File: first\n+1\n{body}");
        let error = place.apply(&body).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
        assert!(error.len() < 20_000, "{}", error.len());
        assert_eq!(tree(&place.root), before, "{body}: {error}");
    }
    assert!(
        !place.dir.path().join("state/journal").read_dir().is_ok_and(|mut d| d.next().is_some())
    );
    set_mode("locked", 0o755);
}

#[test]
fn odd_names_are_names() {
    let place = Place::new();
    let odd = "a name\twith \u{e9}\u{301} *?[]'\"\\$(x)";
    place.apply(&format!("*** Add File: {odd}\n+x\n")).unwrap();
    assert_eq!(fs::read_to_string(place.root.join(odd)).unwrap(), "x\n");
    let deep = "d/".repeat(900) + "f";
    place.apply(&format!("*** Add File: {deep}\n+x\n")).unwrap();
    assert_eq!(fs::read_to_string(place.root.join(deep)).unwrap(), "x\n");
    fs::remove_dir_all(place.root.join("d")).unwrap();
    // Nobody means a name with a newline; a diff can quote one all the same.
    let before = tree(&place.root);
    let diff = "--- /dev/null\n+++ \"b/two\\nlines\"\n@@ -0,0 +1 @@\n+y\n";
    let error = parse_request(&custom(diff), &place.root).map(|_| ()).unwrap_err();
    assert!(matches!(error, ToolError::InvalidArguments(_)), "{error:?}");
    assert_eq!(tree(&place.root), before);
}

#[test]
fn a_file_can_become_a_directory() {
    let place = Place::new();
    place.apply("*** Delete File: a\n*** Add File: a/below\n+x\n").unwrap();
    assert_eq!(fs::read_to_string(place.root.join("a/below")).unwrap(), "x\n");
}

#[test]
fn a_diff_of_git_is_taken_with_its_modes() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mode =
        |name: &str| fs::metadata(place.root.join(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(place.root.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let diff = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n\
        diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n";
    let done = place.apply_text(diff).unwrap();
    assert_eq!((mode("a"), mode("n") & 0o100), (0o750, 0o100));
    assert_eq!(fs::read_to_string(place.root.join("a")).unwrap(), "one\ntwo\n");
    assert_eq!(done.report, "Success. Updated the following files:\nM a\nA n\n");
    let diff = "diff --git a/a b/b\nold mode 100755\nnew mode 100644\nsimilarity index 100%\n\
        rename from a\nrename to b\n";
    place.apply_text(diff).unwrap();
    assert_eq!(mode("b"), 0o640);
    assert!(!place.root.join("a").exists());
}

/// `.git` is protected by whatever way it is reached.
#[test]
fn a_repository_is_protected_under_every_name() {
    let place = Place::new();
    let at = |name: &str| place.root.join(name);
    fs::create_dir_all(at("store/worktrees/w")).unwrap();
    fs::create_dir_all(at("bare")).unwrap();
    fs::create_dir_all(at("nested/.git/hooks")).unwrap();
    // A gitfile that names a directory elsewhere in the workspace, with a common part.
    fs::write(at(".git"), "gitdir: store/worktrees/w\n").unwrap();
    fs::write(at("store/worktrees/w/commondir"), "../../../bare\n").unwrap();
    std::os::unix::fs::symlink("nested/.git", at("alias")).unwrap();
    for path in [
        ".git",
        "store/worktrees/w/HEAD",
        "bare/hooks/pre-commit",
        "bare/config",
        "nested/.git/hooks/x",
        "nested/.GIT/hooks/x",
        "nested/.gi\u{200d}t/hooks/x",
        "alias/hooks/x",
        "alias/../.git/config",
        "store/../bare/config",
    ] {
        let before = tree(&place.root);
        let error = place.apply(&format!("*** Add File: {path}\n+x\n"));
        assert!(matches!(error, Err(ToolError::Denied(_))), "{path}: {error:?}");
        assert_eq!(tree(&place.root), before, "{path}");
    }
    place.apply("*** Add File: store/notes\n+x\n").unwrap();
}

/// The first half of what a dropped call must hold: the tree is whole, and what was done is told.
#[tokio::test]
async fn a_call_that_is_dropped_is_told_when_it_was_done() {
    use crate::tools::SessionRequest;
    let place = Place::new();
    let call = custom("*** Begin Patch\n*** Update File: a\n-two\n+2\n*** End Patch\n");
    let tool = ApplyPatch { form: PatchForm::Freeform };
    let effect = tool.effect(&call, &place.root).unwrap();
    let (cx, mut requests) = context(&place.root, &effect);
    let mut run = tool.run(&call, &cx);
    // One look starts it; then nobody waits for it any more.
    assert!(futures_util::poll!(run.as_mut()).is_pending());
    drop(run);
    let told = requests.recv().await;
    assert!(matches!(told, Some(SessionRequest::Event { msg: EventMsg::FilesChanged { .. }, .. })));
    assert_eq!(fs::read_to_string(place.root.join("a")).unwrap(), "one\n2\n");
}

#[tokio::test]
async fn a_call_that_is_cancelled_in_time_does_nothing() {
    let place = Place::new();
    let call = custom("*** Begin Patch\n*** Delete File: a\n*** End Patch\n");
    let tool = ApplyPatch { form: PatchForm::Freeform };
    let effect = tool.effect(&call, &place.root).unwrap();
    let (cx, _requests) = context(&place.root, &effect);
    cx.cancel.cancel();
    let error = tool.run(&call, &cx).await;
    assert!(matches!(error, Err(ToolError::Interrupted)), "{error:?}");
    assert!(place.root.join("a").exists());
    let left = tree(&place.root).into_iter().filter(|(path, _)| path.is_file());
    assert_eq!(left.count(), 1);
}

#[test]
fn a_link_to_nothing_can_be_deleted() {
    let place = Place::new();
    std::os::unix::fs::symlink("nowhere", place.root.join("broken")).unwrap();
    std::os::unix::fs::symlink(".", place.root.join("here")).unwrap();
    place.apply("*** Delete File: broken\n*** Delete File: here\n").unwrap();
    assert_eq!(fs::read_dir(&place.root).unwrap().count(), 1);
}

#[test]
fn a_patch_that_changes_nothing_leaves_the_file_alone() {
    let place = Place::new();
    let number =
        || std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.root.join("a")).unwrap());
    let before = number();
    let done = place.apply("*** Update File: a\n one\n-two\n+two\n").unwrap();
    assert_eq!(done.report, "Success. No file needed to change.\n");
    assert_eq!(number(), before);
}
