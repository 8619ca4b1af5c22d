//! What the tests of single tools share: a call, a context without a session, one run.
//!
//! Only built for tests. Its runner starts nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::protocol::{
    ApprovalPolicy, Effect, GitAccess, Network, SandboxLevel, SandboxMode, SandboxPolicy, ToolCall,
    ToolOutput, ToolPayload,
};
use crate::sandbox::{CommandRunner, ExecRequest, Process, SandboxError};
use crate::tools::{
    FileAccess, SeenFiles, SessionLink, SessionRequest, ToolContext, ToolError, ToolHandler,
    TurnContext,
};

/// Bytes of output in these tests; small, so that bounds are met.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16 * 1024;

struct NoRunner;

impl CommandRunner for NoRunner {
    fn spawn(&self, _request: ExecRequest) -> Result<Process, SandboxError> {
        Err(SandboxError::Unavailable("these tests run no commands".to_owned()))
    }
}

/// Returns a function call.
pub(crate) fn call(name: &str, arguments: &str) -> ToolCall {
    let payload = ToolPayload::Function { arguments: arguments.to_owned() };
    ToolCall { call_id: "call_1".into(), name: name.into(), payload }
}

/// Returns a policy that hides nothing.
pub(crate) fn policy(cwd: &Path) -> SandboxPolicy {
    SandboxPolicy {
        mode: SandboxMode::WorkspaceWrite,
        roots: vec![cwd.to_path_buf()],
        network: Network::Off,
        deny_read: Vec::new(),
        deny_write: Vec::new(),
        git: GitAccess::Ask,
        tmp: true,
    }
}

/// Returns a context for one effect, and what it says to its session.
pub(crate) fn context(
    cwd: &Path,
    effect: &Effect,
) -> (ToolContext, mpsc::Receiver<SessionRequest>) {
    let (tx, rx) = mpsc::channel(16);
    let sandbox = policy(cwd);
    let files = FileAccess::new(effect, &sandbox, Path::new("/nobody"));
    let turn = TurnContext {
        cwd: cwd.to_path_buf(),
        home: "/nobody".into(),
        model: "m".into(),
        approval: ApprovalPolicy::OnRequest,
        sandbox,
        sandbox_level: SandboxLevel::Full,
        sandbox_fallback: SandboxLevel::Reduced,
        env: Arc::from([]),
        shell: "/bin/sh".to_owned(),
        command_timeout: Duration::from_secs(10),
        output_bytes_max: OUTPUT_BYTES_MAX,
        interactive: false,
        journal: cwd.join(".journal-of-tests"),
        rules: Arc::default(),
    };
    let cx = ToolContext {
        turn: Arc::new(turn),
        runner: Arc::new(NoRunner),
        files,
        link: SessionLink::new(tx),
        seen: SeenFiles::new(),
        call_id: "call_1".into(),
        cancel: CancellationToken::new(),
        confined: true,
        keep: None,
    };
    (cx, rx)
}

/// Runs a call as the executor does: effect first, then no more than the effect said.
pub(crate) async fn run(
    tool: &dyn ToolHandler,
    call: &ToolCall,
    cwd: &Path,
) -> Result<ToolOutput, ToolError> {
    let effect = tool.effect(call, cwd)?;
    let (cx, _requests) = context(cwd, &effect);
    tool.run(call, &cx).await
}
