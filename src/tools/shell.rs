//! The shell, in the three forms models call it: a command line, an argument vector, and the
//! server's own `local_shell`. One handler, one way to run.
//!
//! A command runs to its end or its timeout; one of `exec_command` may also outlive its call,
//! which is `exec_session.rs`. What it can reach is the sandbox's business, who may run it the
//! executor's; this file turns arguments into a command and its end into text.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use crate::protocol::ApprovalPolicy;
use crate::protocol::Capability;
use crate::protocol::CommandLine;
use crate::protocol::Effect;
use crate::protocol::EventMsg;
use crate::protocol::Justification;
use crate::protocol::Network;
use crate::protocol::OutputStream;
use crate::protocol::SideEffects;
use crate::protocol::ToolCall;
use crate::protocol::ToolOutput;
use crate::protocol::ToolPayload;
use crate::protocol::ToolSafety;
use crate::protocol::ToolSpec;
use crate::sandbox;
use crate::sandbox::CommandEnd;
use crate::sandbox::ExecRequest;
use crate::sandbox::ExecResult;
use crate::sandbox::Input;
use crate::sandbox::RunLimits;
use crate::sandbox::SandboxError;
use crate::sandbox::TerminalSize;
use crate::text;
use crate::tools::BoxFuture;
use crate::tools::ToolContext;
use crate::tools::ToolError;
use crate::tools::ToolHandler;
use crate::tools::attempts::Attempts;
use crate::tools::attempts::beside_attempts;
use crate::tools::attempts::judge_hosts;
use crate::tools::exec_session;
use crate::tools::exec_session::SessionWish;
use crate::tools::files::resolve_path;
use crate::tools::schema::count_or_text;
use crate::tools::schema::function_spec;
use crate::tools::schema::parse_arguments;

/// No command may ask for longer.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Bytes of output that are reported live, whole and in order. What a command prints beyond
/// is only in its result, head and tail.
const LIVE_BYTES_MAX: usize = sandbox::OUTPUT_BYTES_MAX;
/// Said when a confined command failed in a way that looks like the sandbox's doing.
const DENIAL_ADVICE: &str = "\n(The sandbox may have stopped this: writes outside the workspace, \
    the network and local sockets are closed. If the task needs more, ask with sandbox_permissions \
    \"require_escalated\" and a justification.)";
/// What a shell says of a command that was killed.
const KILLED: i32 = 137;
/// What models call a shell, where an argument vector begins with one.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];

/// How a model calls the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellForm {
    /// `exec_command` with a command line.
    ExecCommand,
    /// `shell` with an argument vector.
    Shell,
    /// `local_shell` items.
    LocalShell,
}

/// The tool.
#[derive(Debug, Clone)]
pub(crate) struct ShellTool {
    form: ShellForm,
    /// The shell that reads command lines, absolute.
    program: String,
}

/// Arguments of `exec_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecCommandArgs {
    /// Command line for the shell.
    cmd: String,
    /// Directory to run in; the workspace by default.
    #[serde(default)]
    workdir: Option<String>,
    /// Milliseconds to wait for its end, 250 to 30000; 10000 by default. A command that still
    /// runs then goes on, and the result names its session_id for write_stdin.
    #[serde(default, deserialize_with = "count_or_text")]
    yield_time_ms: Option<u64>,
    /// Milliseconds after which it is killed, whether its call still waits or not.
    #[serde(default, deserialize_with = "count_or_text")]
    timeout_ms: Option<u64>,
    /// Give it a terminal, for programs that want one; write_stdin types into it.
    #[serde(default)]
    tty: bool,
    /// Give it a pipe to read, for write_stdin; without this or tty it reads nothing.
    #[serde(default)]
    stdin: bool,
    /// Tokens of output to return; more is cut in the middle.
    #[serde(default, deserialize_with = "count_or_text")]
    max_output_tokens: Option<u64>,
    /// Ask the user to run it outside the sandbox.
    #[serde(default)]
    sandbox_permissions: SandboxPermissions,
    /// Why it must run outside the sandbox, as one question to the user.
    #[serde(default)]
    justification: Option<String>,
    /// The shell to read it: bash, sh, zsh or dash, or one's path in /bin or /usr/bin.
    #[serde(default)]
    shell: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    login: bool,
    // What other agents' versions take, and this one has no use for.
    #[serde(default, rename = "prefix_rule")]
    #[schemars(skip)]
    _prefix_rule: IgnoredAny,
}

/// Arguments of `shell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellArgs {
    /// Program and arguments; shell syntax needs ["bash", "-c", "…"].
    #[serde(deserialize_with = "argv_or_line")]
    command: Vec<String>,
    /// Directory to run in; the workspace by default.
    #[serde(default)]
    workdir: Option<String>,
    /// Milliseconds it may take; 120000 by default.
    #[serde(default, alias = "timeout", deserialize_with = "count_or_text")]
    timeout_ms: Option<u64>,
    /// Ask the user to run it outside the sandbox.
    #[serde(default)]
    sandbox_permissions: SandboxPermissions,
    /// Why it must run outside the sandbox, as one question to the user.
    #[serde(default)]
    justification: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    with_escalated_permissions: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SandboxPermissions {
    #[default]
    UseDefault,
    RequireEscalated,
}

/// A call of any form, read.
struct Wanted {
    command: CommandLine,
    workdir: Option<String>,
    timeout_ms: Option<u64>,
    escalate: Option<Justification>,
    /// How it may outlive its call, where it may.
    session: Option<SessionWish>,
}

impl ShellTool {
    /// Returns the tool in one form; command lines are read by `program`.
    pub(crate) fn new(form: ShellForm, program: &str) -> Self {
        Self { form, program: program.to_owned() }
    }

    /// Reads a call. The payload decides, so a model that mixes the forms up is understood.
    fn parse(&self, call: &ToolCall) -> Result<Wanted, ToolError> {
        let wanted = match (&call.payload, self.form) {
            (ToolPayload::LocalShell { command, workdir, timeout_ms }, _) => Wanted {
                command: command_line(command.clone()),
                workdir: workdir.clone(),
                timeout_ms: *timeout_ms,
                escalate: None,
                session: None,
            },
            (ToolPayload::Function { .. }, ShellForm::ExecCommand) => {
                let args: ExecCommandArgs = parse_arguments(call)?;
                let program = choose_shell(args.shell.as_deref(), &self.program)?;
                let login = args.login;
                let session = SessionWish {
                    input: match (args.tty, args.stdin) {
                        (true, _) => Input::Terminal(TerminalSize::default()),
                        (false, true) => Input::Pipe,
                        (false, false) => Input::Empty,
                    },
                    yield_time_ms: args.yield_time_ms,
                    timeout_ms: args.timeout_ms,
                    max_output_tokens: args.max_output_tokens,
                };
                Wanted {
                    command: CommandLine::Shell { program, login, script: args.cmd },
                    workdir: args.workdir,
                    timeout_ms: args.timeout_ms,
                    escalate: justification(args.sandbox_permissions, args.justification),
                    session: Some(session),
                }
            }
            (ToolPayload::Function { .. }, ShellForm::Shell | ShellForm::LocalShell) => {
                let args: ShellArgs = parse_arguments(call)?;
                let wish = match args.with_escalated_permissions {
                    true => SandboxPermissions::RequireEscalated,
                    false => args.sandbox_permissions,
                };
                Wanted {
                    command: command_line(args.command),
                    workdir: args.workdir,
                    timeout_ms: args.timeout_ms,
                    escalate: justification(wish, args.justification),
                    session: None,
                }
            }
            (ToolPayload::Custom { .. }, _) => {
                let message = format!("{} takes a JSON object, not free text", call.name);
                return Err(ToolError::InvalidArguments(message));
            }
        };
        if wanted.command.shown().trim().is_empty() {
            return Err(ToolError::InvalidArguments("the command is empty".to_owned()));
        }
        Ok(wanted)
    }
}

impl ToolHandler for ShellTool {
    fn spec(&self) -> ToolSpec {
        match self.form {
            ShellForm::ExecCommand => function_spec::<ExecCommandArgs>(
                "exec_command",
                "Runs a command line in a shell, in the sandbox. Returns its output and exit code, \
                 or a session_id while it runs on.",
            ),
            ShellForm::Shell => function_spec::<ShellArgs>(
                "shell",
                "Runs a program, in the sandbox, to its end. Stdin is empty.",
            ),
            ShellForm::LocalShell => ToolSpec::LocalShell,
        }
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety {
            side_effects: SideEffects::External,
            idempotent: false,
            requires: vec![Capability::Commands],
        }
    }

    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError> {
        let Wanted { command, workdir, escalate, .. } = self.parse(call)?;
        let cwd = directory(workdir.as_deref(), cwd)?;
        Ok(Effect::Run { command, cwd, network: Network::Off, escalate })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let wanted = self.parse(call)?;
            let cwd = directory(wanted.workdir.as_deref(), &cx.turn.cwd)?;
            let (attempts, heard) = sandbox::attempt_line(judge_hosts(&cx.turn));
            let mut heard = Attempts::from(heard);
            let request = ExecRequest {
                argv: argv_of(&wanted.command, &cx.turn.env),
                cwd,
                env: cx.turn.env.to_vec(),
                sandbox: cx.confined.then(|| cx.turn.sandbox.clone()),
                attempts: Some(attempts),
            };
            if let Some(session) = wanted.session {
                let line = wanted.command;
                return exec_session::run(request, heard, line, session, cx).await;
            }
            let limits = choose_limits(wanted.timeout_ms, cx.turn.command_timeout);
            let shown = wanted.command.shown();
            let running = |_| run_and_show(request, limits, cx);
            let heard = (Some(&mut heard.log), &mut heard.questions);
            let result = beside_attempts(running, heard, (&shown, cx)).await;
            let result = result.map_err(|error| spawn_error(&error))?;
            conclude(&result, limits.timeout, usize::MAX, cx)
        })
    }
}

/// Returns the bounds of a run. Some models write 0 for "no wish".
fn choose_limits(timeout_ms: Option<u64>, default: Duration) -> RunLimits {
    let wished = timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
    RunLimits { timeout: wished.unwrap_or(default).min(TIMEOUT_MAX) }
}

/// Returns what is executed. The files that a login shell reads set `PATH` anew, so our own
/// commands go back on it before the script begins, on its first line.
fn argv_of(command: &CommandLine, env: &[(String, String)]) -> Vec<String> {
    match command {
        CommandLine::Shell { program, login: true, script }
            if env.iter().any(|(name, _)| name == sandbox::OWN_COMMANDS) =>
        {
            let script = format!("PATH=\"${}:$PATH\"; {script}", sandbox::OWN_COMMANDS);
            vec![program.clone(), "-lc".to_owned(), script]
        }
        CommandLine::Shell { .. } | CommandLine::Argv { .. } => command.argv(),
    }
}

/// Returns where a command runs.
fn directory(workdir: Option<&str>, cwd: &Path) -> Result<PathBuf, ToolError> {
    match workdir {
        None | Some("") => Ok(cwd.to_path_buf()),
        Some(workdir) => resolve_path(cwd, workdir),
    }
}

/// Runs the command, and reports its output while it comes.
async fn run_and_show(
    request: ExecRequest,
    limits: RunLimits,
    cx: &ToolContext,
) -> Result<ExecResult, SandboxError> {
    // Without a bound of its own, because the bytes that go in are bounded.
    let (live, mut pieces) = mpsc::unbounded_channel::<String>();
    let run = async move {
        let mut carry = Vec::new();
        let mut left = LIVE_BYTES_MAX;
        let mut on_output = |bytes: &[u8]| {
            let bytes = bytes.get(..left).unwrap_or(bytes);
            left -= bytes.len();
            let piece = take_text(&mut carry, bytes);
            if !piece.is_empty() {
                let _ = live.send(piece);
            }
        };
        sandbox::run(&*cx.runner, request, limits, &cx.cancel, &mut on_output).await
    };
    let show = async {
        while let Some(text) = pieces.recv().await {
            let msg = EventMsg::ToolCallDelta { stream: OutputStream::Output, text };
            cx.link.event(Some(cx.call_id.clone()), None, msg).await;
        }
    };
    tokio::join!(run, show).0
}

/// Sees a shell's script in an argument vector, so that policy and people judge what will
/// really run.
fn command_line(argv: Vec<String>) -> CommandLine {
    if let [program, flag, script] = argv.as_slice() {
        let login = flag == "-lc";
        if is_system_shell(program) && (login || flag == "-c") {
            let (program, script) = (program.clone(), script.clone());
            return CommandLine::Shell { program, login, script };
        }
    }
    CommandLine::Argv { argv }
}

/// Returns the text of some bytes; a character that is cut at the end waits in `carry`.
pub(crate) fn take_text(carry: &mut Vec<u8>, bytes: &[u8]) -> String {
    carry.extend_from_slice(bytes);
    let whole = match std::str::from_utf8(carry) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => carry.len(),
    };
    let rest = carry.split_off(whole);
    let text = String::from_utf8_lossy(carry).into_owned();
    *carry = rest;
    text
}

/// Says what came of a command: what the model reads, or which kind of failure it was.
pub(crate) fn conclude(
    result: &ExecResult,
    timeout: Duration,
    bytes_max: usize,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let state = match result.end {
        CommandEnd::Exited(state) => state,
        CommandEnd::Interrupted => return Err(ToolError::Interrupted),
        CommandEnd::LimitReached(hit) => {
            let text = render_result(&format!("Stopped and killed: {hit}"), result, bytes_max);
            let output = ToolOutput::text(text);
            return Ok(ToolOutput { success: false, exit_code: Some(KILLED), ..output });
        }
        CommandEnd::TimedOut => {
            let after_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            let head = format!("Timed out after {after_ms} ms and was killed");
            let output = render_result(&head, result, bytes_max);
            return Err(ToolError::Timeout { after_ms, output });
        }
    };
    let head = match (state.code, state.signal) {
        (Some(code), _) => format!("Exit code: {code}"),
        (None, Some(signal)) => format!("Killed by signal {signal}"),
        (None, None) => "Ended in an unknown way".to_owned(),
    };
    let text = render_result(&head, result, bytes_max);
    // A shell says 128 + n of a command that a signal ended; so does this.
    let exit_code = state.code.or(state.signal.map(|signal| 128 + signal));
    let stopped = cx.confined && sandbox::likely_denied(result);
    let asks = matches!(cx.turn.approval, ApprovalPolicy::OnFailure | ApprovalPolicy::Untrusted);
    if stopped && asks {
        return Err(ToolError::SandboxDenied { output: text, exit_code });
    }
    let advice = if stopped { DENIAL_ADVICE } else { "" };
    let output = ToolOutput::text(format!("{text}{advice}"));
    Ok(ToolOutput { success: exit_code == Some(0), exit_code, ..output })
}

/// Returns what the model reads of a command's end.
pub(crate) fn render_result(head: &str, result: &ExecResult, bytes_max: usize) -> String {
    let seconds = result.duration.as_secs_f64();
    let at = result.omitted_at.min(result.output.len());
    let (start, end) = result.output.split_at(at);
    let lossy = |bytes: &[u8]| text::ansi::strip(&String::from_utf8_lossy(bytes)).into_owned();
    let mut output = lossy(start);
    let mut end = lossy(end);
    if result.omitted_bytes > 0 {
        // Half a secret is not known for one, so the words that the cut went through go as well.
        output.truncate(text::secrets::before_cut(&output).len());
        end = text::secrets::after_cut(&end).to_owned();
        output.push_str(&format!("\n… {} bytes omitted …\n", result.omitted_bytes));
    }
    output.push_str(&end);
    let output = text::truncate::bound_unmasked(&output, bytes_max);
    format!("{head}\nWall time: {seconds:.1} s\nOutput:\n{output}")
}

fn justification(wish: SandboxPermissions, reason: Option<String>) -> Option<Justification> {
    match wish {
        SandboxPermissions::UseDefault => None,
        SandboxPermissions::RequireEscalated => {
            let reason = reason.unwrap_or_else(|| "no reason was given".to_owned());
            Some(Justification { reason })
        }
    }
}

/// Returns the shell that was asked for, if it is one.
fn choose_shell(wish: Option<&str>, default: &str) -> Result<String, ToolError> {
    let Some(wish) = wish.filter(|wish| !wish.is_empty()) else { return Ok(default.to_owned()) };
    if wish == default || is_system_shell(wish) {
        return Ok(wish.to_owned());
    }
    let shown = text::ansi::visible_line(wish);
    let message = format!("`{shown}` is no shell; `shell` is one of {}", SHELLS.join(", "));
    Err(ToolError::InvalidArguments(message))
}

/// Returns whether a program is a shell, by its bare name or from a directory of the system.
fn is_system_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let directory = program.strip_suffix(name).unwrap_or_default();
    matches!(directory, "" | "/bin/" | "/usr/bin/") && SHELLS.contains(&name)
}

pub(crate) fn spawn_error(error: &SandboxError) -> ToolError {
    match error {
        // A command that may have run is not one to simply try again.
        SandboxError::NotFound { .. }
        | SandboxError::BadDirectory { .. }
        | SandboxError::LimitReached(_)
        | SandboxError::SupervisorKilled => ToolError::Failed(error.to_string()),
        SandboxError::Unavailable(_) | SandboxError::Spawn(_) => {
            ToolError::Unavailable(error.to_string())
        }
    }
}

/// Reads an argument vector; a plain string is a command line.
fn argv_or_line<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Command {
        Argv(Vec<String>),
        Line(String),
    }
    match Command::deserialize(input) {
        Ok(Command::Argv(argv)) => Ok(argv),
        Ok(Command::Line(line)) => Ok(vec!["bash".to_owned(), "-c".to_owned(), line]),
        Err(_) => Err(serde::de::Error::custom("`command` is a list of strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(arguments: &str) -> ToolPayload {
        ToolPayload::Function { arguments: arguments.to_owned() }
    }

    fn shown(form: ShellForm, payload: ToolPayload) -> String {
        let call = ToolCall { call_id: "c".into(), name: "shell".into(), payload };
        match ShellTool::new(form, "/bin/bash").effect(&call, Path::new("/w")) {
            Ok(Effect::Run { command, cwd, escalate, .. }) => {
                let escalated = if escalate.is_some() { " escalated" } else { "" };
                format!("{:?} in {}{escalated}", command.argv(), cwd.display())
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_three_forms_are_one_command() {
        use ShellForm::{ExecCommand, LocalShell, Shell};
        let local = ToolPayload::LocalShell {
            command: vec!["ls".to_owned(), "-l".to_owned()],
            workdir: Some("sub".to_owned()),
            timeout_ms: None,
        };
        assert_eq!(shown(LocalShell, local), r#"["ls", "-l"] in /w/sub"#);
        let table = [
            (
                ExecCommand,
                r#"{"cmd":"ls | wc","yield_time_ms":1,"tty":false}"#,
                r#"["/bin/bash", "-c", "ls | wc"] in /w"#,
            ),
            (
                ExecCommand,
                r#"{"cmd":"ls","workdir":"/x","login":true}"#,
                r#"["/bin/bash", "-lc", "ls"] in /x"#,
            ),
            (
                Shell,
                r#"{"command":["bash","-lc","ls"],"timeout":"5"}"#,
                r#"["bash", "-lc", "ls"] in /w"#,
            ),
            (Shell, r#"{"command":"ls -l"}"#, r#"["bash", "-c", "ls -l"] in /w"#),
            (
                Shell,
                r#"{"command":["ls"],"with_escalated_permissions":true}"#,
                r#"["ls"] in /w escalated"#,
            ),
            (ExecCommand, r#"{"cmd":" "}"#, "invalid arguments: the command is empty"),
            (Shell, r#"{"command":[]}"#, "invalid arguments: the command is empty"),
        ];
        for (form, arguments, expected) in table {
            assert_eq!(shown(form, function(arguments)), expected, "{arguments}");
        }
        let unknown = shown(ExecCommand, function(r#"{"cmd":"ls","color":1}"#));
        assert!(unknown.contains("color"), "{unknown}");
    }

    #[test]
    fn only_a_shell_of_the_system_is_seen_through() {
        let argv = |program: &str| vec![program.to_owned(), "-c".to_owned(), "ls".to_owned()];
        for program in ["sh", "/bin/bash", "/usr/bin/zsh"] {
            assert!(matches!(command_line(argv(program)), CommandLine::Shell { .. }), "{program}");
        }
        for program in ["./bash", "/tmp/sh", "python", ""] {
            assert!(matches!(command_line(argv(program)), CommandLine::Argv { .. }), "{program}");
        }
    }

    #[test]
    fn no_time_at_all_is_no_wish() {
        let chosen = |wish| choose_limits(wish, Duration::from_secs(7)).timeout;
        assert_eq!(chosen(None), Duration::from_secs(7));
        assert_eq!(chosen(Some(0)), Duration::from_secs(7));
        assert_eq!(chosen(Some(1_500)), Duration::from_millis(1_500));
        assert_eq!(chosen(Some(u64::MAX)), TIMEOUT_MAX);
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_end() {
        let mut carry = Vec::new();
        let bytes = "aé€🦀b".as_bytes();
        let pieces: String = bytes.iter().map(|byte| take_text(&mut carry, &[*byte])).collect();
        assert_eq!(pieces, "aé€🦀b");
        assert_eq!(take_text(&mut carry, &[0xff, b'x']), "\u{fffd}x");
    }

    #[test]
    fn a_word_that_the_asked_bound_cuts_goes_whole() {
        let result = ExecResult {
            end: CommandEnd::TimedOut,
            output: b"first sk-0123456789abcdef0123456789abcdef last".to_vec(),
            omitted_bytes: 0,
            omitted_at: 0,
            duration: Duration::ZERO,
        };
        let text = render_result("Exit code: 0", &result, 24);
        assert!(text.ends_with("Output:\nfirst \n… 35 bytes (1 line) omitted …\n last"), "{text}");
    }

    #[test]
    fn omitted_bytes_are_named_where_they_were() {
        let result = ExecResult {
            end: CommandEnd::TimedOut,
            output: b"one half\x1b[1mhalf two".to_vec(),
            omitted_bytes: 7,
            omitted_at: 8,
            duration: Duration::from_millis(1_250),
        };
        let text = render_result("Exit code: 0", &result, usize::MAX);
        assert_eq!(
            text,
            "Exit code: 0\nWall time: 1.2 s\nOutput:\none \n… 7 bytes omitted …\n two"
        );
    }
}
