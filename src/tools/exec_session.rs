//! Commands that may outlive their call: `exec_command` waits a while for one, `write_stdin`
//! writes to it, waits again, and sees its end.
//!
//! Turns waiting into text. Who keeps a command between calls is the session's business, what
//! attends to it is `process.rs`. Called by `shell.rs` for its `exec_command` form.

use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::protocol::{
    Capability, CommandLine, Effect, EventMsg, OutputStream, ProcessId, SideEffects, ToolCall,
    ToolOutput, ToolSafety, ToolSpec,
};
use crate::sandbox::{CommandEnd, ExecRequest, Input, Wish};
use crate::tools::attempts::{Attempts, OpenQuestions, beside_attempts, pass_unasked};
use crate::tools::process::{Report, Start};
use crate::tools::schema::{count_or_text, function_spec, parse_arguments};
use crate::tools::shell::{TIMEOUT_MAX, conclude, render_result, spawn_error, take_text};
use crate::tools::{BoxFuture, RunningProcess, ToolContext, ToolError, ToolHandler};

/// How long a call waits for a command when it does not say.
const WAIT: Duration = Duration::from_secs(10);
/// How long it waits after it wrote to one.
const WAIT_AFTER_INPUT: Duration = Duration::from_millis(250);
/// How long it waits when it has nothing to write.
const WAIT_FOR_MORE: Duration = Duration::from_secs(5);
/// The shortest wait; shorter ones would only cost requests.
const WAIT_LEAST: Duration = Duration::from_millis(250);
/// The longest wait while something else could be done.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest wait of a call that only waits.
const WAIT_FOR_MORE_MAX: Duration = Duration::from_secs(300);
/// Bytes that a token of output is counted as.
const BYTES_PER_TOKEN: u64 = 4;
/// Characters of one write. What is longer belongs in a file.
const CHARS_BYTES_MAX: usize = 64 * 1024;

/// What Ctrl-C and Ctrl-D send.
const CONTROL_C: &str = "\u{3}";
const CONTROL_D: char = '\u{4}';

/// How a command may outlive its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionWish {
    pub(crate) input: Input,
    pub(crate) yield_time_ms: Option<u64>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
}

/// Tells a running command something, and waits for what it prints.
#[derive(Debug)]
pub(crate) struct WriteStdin;

/// Arguments of `write_stdin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteStdinArgs {
    /// The session_id of the running command.
    #[serde(deserialize_with = "id_or_text")]
    session_id: u32,
    /// What to write; nothing only waits. \u0003 is Ctrl-C, \u0004 at the end is the end of input.
    #[serde(default)]
    chars: String,
    /// Milliseconds to wait for its end: 250 after writing, 5000 without, by default.
    #[serde(default, deserialize_with = "count_or_text")]
    yield_time_ms: Option<u64>,
    /// Tokens of output to return; more is cut in the middle.
    #[serde(default, deserialize_with = "count_or_text")]
    max_output_tokens: Option<u64>,
}

impl ToolHandler for WriteStdin {
    fn spec(&self) -> ToolSpec {
        function_spec::<WriteStdinArgs>(
            "write_stdin",
            "Writes to a running command, or only waits for it, and returns what it printed since.",
        )
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety {
            side_effects: SideEffects::External,
            idempotent: false,
            requires: vec![Capability::Commands],
        }
    }

    fn effect(&self, call: &ToolCall, _cwd: &Path) -> Result<Effect, ToolError> {
        let args: WriteStdinArgs = parse_arguments(call)?;
        if args.chars.len() > CHARS_BYTES_MAX {
            let message = format!("`chars` holds more than {CHARS_BYTES_MAX} bytes");
            return Err(ToolError::InvalidArguments(message));
        }
        match args.chars.is_empty() {
            true => Ok(Effect::None),
            false => Ok(Effect::Input { process: ProcessId(args.session_id) }),
        }
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args: WriteStdinArgs = parse_arguments(call)?;
            let id = ProcessId(args.session_id);
            let process = cx.link.find_process(id).await?;
            let mut questions = tokio::select! {
                turn = process.take_turn() => turn,
                () = cx.cancel.cancelled() => return Err(ToolError::Interrupted),
            };
            write(&process, id, &args.chars)?;
            let wait = choose_wait_after(&args.chars, args.yield_time_ms);
            let waiting = |open| wait_and_show(&process, wait, open, cx);
            let shown = process.command();
            let waited = beside_attempts(waiting, (None, &mut questions), (shown, cx)).await;
            if waited == Waited::Cancelled && !process.ended().is_cancelled() {
                // What it printed waits for the next call.
                return Err(ToolError::Interrupted);
            }
            let report = process.report();
            if report.end.is_some() {
                cx.link.forget_process(id).await?;
            }
            let bytes_max = output_bytes(args.max_output_tokens, cx);
            conclude_kept(report, &process, (id, bytes_max), cx)
        })
    }
}

/// Runs a command, and leaves it running when it takes longer than its call.
pub(crate) async fn run(
    mut request: ExecRequest,
    heard: Attempts,
    line: CommandLine,
    wish: SessionWish,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    if let Input::Terminal(_) = wish.input {
        name_terminal(&mut request.env);
    }
    let place = cx.link.admit_process().await?;
    // Some models write 0 for "no wish".
    let timeout = wish.timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis);
    let timeout = timeout.map(|timeout| timeout.min(TIMEOUT_MAX));
    let Attempts { mut log, questions } = heard;
    let start = Start {
        request,
        questions,
        input: wish.input,
        timeout: timeout.unwrap_or(TIMEOUT_MAX),
        line,
        place,
    };
    let process = RunningProcess::start(&*cx.runner, start).map_err(|error| spawn_error(&error))?;
    let wait = match (wish.yield_time_ms, timeout) {
        // Who only says how long it may take waits for its end.
        (None, Some(timeout)) => timeout.saturating_add(WAIT_MAX),
        (yield_time_ms, _) => bound_wait(yield_time_ms, WAIT, WAIT_MAX),
    };
    let mut questions = process.take_turn().await;
    let waiting = |open| wait_and_show(&process, wait, open, cx);
    let heard = (Some(&mut log), &mut *questions);
    let waited = beside_attempts(waiting, heard, (process.command(), cx)).await;
    drop(questions);
    if waited == Waited::Cancelled {
        process.stop();
        process.ended().cancelled().await;
    }
    let bytes_max = output_bytes(wish.max_output_tokens, cx);
    if waited == Waited::Yielded && !process.ended().is_cancelled() {
        let id = cx.link.keep_process(cx.call_id.clone(), process.clone()).await?;
        cx.link.keep_attempts(cx.call_id.clone(), log).await;
        let report = process.report();
        if report.end.is_some() {
            cx.link.forget_process(id).await?;
        }
        return conclude_kept(report, &process, (id, bytes_max), cx);
    }
    let mut report = process.report();
    match report.end.take() {
        Some(Ok(end)) => conclude(&report.into_result(end), process.timeout(), bytes_max, cx),
        Some(Err(error)) => Err(spawn_error(&error)),
        None => Err(ToolError::Interrupted),
    }
}

/// Sends what the model wrote. Without a terminal nobody else makes an end or a signal of it.
fn write(process: &RunningProcess, id: ProcessId, chars: &str) -> Result<(), ToolError> {
    if chars.is_empty() || process.ended().is_cancelled() {
        return Ok(());
    }
    let is_terminal = matches!(process.input(), Input::Terminal(_));
    if chars == CONTROL_C && !is_terminal {
        process.wish(Wish::Interrupt);
        return Ok(());
    }
    if process.input() == Input::Empty {
        return Err(ToolError::Failed(format!(
            "session {id} reads no input; start the command with tty or stdin true. \\u0003 \
             alone interrupts it"
        )));
    }
    if process.reads_no_more() {
        return Err(ToolError::Failed(format!(
            "session {id} reads nothing more: the end of its input was written. \\u0003 alone \
             interrupts it"
        )));
    }
    let (text, closes) = match chars.strip_suffix(CONTROL_D) {
        Some(text) if !is_terminal => (text, true),
        Some(_) | None => (chars, false),
    };
    if !text.is_empty() && !process.wish(Wish::Read(text.as_bytes().to_vec())) {
        return Err(ToolError::Failed(format!(
            "session {id} does not read: too much that was written waits for it already"
        )));
    }
    process.note_typed(text);
    if closes {
        process.close_input();
    }
    Ok(())
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Ended,
    Yielded,
    Cancelled,
}

/// Waits for a command, and reports its output while it comes.
async fn wait_and_show(
    process: &RunningProcess,
    wait: Duration,
    open: OpenQuestions,
    cx: &ToolContext,
) -> Waited {
    let mut live = process.listen();
    let ended = process.ended();
    // Who thinks an answer over is not overtaken by the end of the wait.
    let mut over = std::pin::pin!(pass_unasked(wait, open));
    let mut carry = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Waited::Cancelled,
            Some(piece) = live.recv() => {
                let text = take_text(&mut carry, &join(piece, &mut live));
                if !text.is_empty() {
                    let msg = EventMsg::ToolCallDelta { stream: OutputStream::Output, text };
                    cx.link.event(Some(cx.call_id.clone()), None, msg).await;
                }
            }
            () = ended.cancelled() => return Waited::Ended,
            () = &mut over => return Waited::Yielded,
        }
    }
}

/// Joins a piece with those that came meanwhile: one event for many.
fn join(mut piece: Vec<u8>, live: &mut mpsc::UnboundedReceiver<Vec<u8>>) -> Vec<u8> {
    while let Ok(next) = live.try_recv() {
        piece.extend(next);
    }
    piece
}

/// Says what came of a command that outlived a call.
fn conclude_kept(
    mut report: Report,
    process: &RunningProcess,
    (id, bytes_max): (ProcessId, usize),
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let end = match report.end.take() {
        Some(Err(error)) => return Err(spawn_error(&error)),
        Some(Ok(end)) => Some(end),
        None => None,
    };
    let head = match end {
        None => format!("Process running with session ID {id}"),
        Some(CommandEnd::Interrupted) => "Stopped by the user".to_owned(),
        Some(end) => {
            let result = report.into_result(end);
            return match conclude(&result, process.timeout(), bytes_max, cx) {
                // To run it again would write to what is gone.
                Err(ToolError::SandboxDenied { output, exit_code }) => {
                    Ok(ToolOutput { exit_code, ..ToolOutput::failure(output) })
                }
                concluded => concluded,
            };
        }
    };
    let result = report.into_result(CommandEnd::Interrupted);
    let output = ToolOutput::text(render_result(&head, &result, bytes_max));
    Ok(ToolOutput { success: end.is_none(), ..output })
}

fn choose_wait_after(chars: &str, yield_time_ms: Option<u64>) -> Duration {
    match chars.is_empty() {
        true => bound_wait(yield_time_ms, WAIT_FOR_MORE, WAIT_FOR_MORE_MAX),
        false => bound_wait(yield_time_ms, WAIT_AFTER_INPUT, WAIT_MAX),
    }
}

fn bound_wait(wish_ms: Option<u64>, default: Duration, max: Duration) -> Duration {
    wish_ms.map_or(default, |ms| Duration::from_millis(ms).clamp(WAIT_LEAST, max))
}

/// Returns how much of the output is returned: what was asked for, within what the turn allows.
fn output_bytes(tokens: Option<u64>, cx: &ToolContext) -> usize {
    let Some(tokens) = tokens.filter(|tokens| *tokens > 0) else { return usize::MAX };
    let bytes = usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    bytes.min(cx.turn.output_bytes_max)
}

/// Says which terminal it is, where the caller's own is none: programs refuse to draw then.
fn name_terminal(env: &mut Vec<(String, String)>) {
    if !env.iter().any(|(name, value)| name == "TERM" && value != "dumb") {
        env.retain(|(name, _)| name != "TERM");
        env.push(("TERM".to_owned(), "xterm-256color".to_owned()));
    }
}

/// Reads an id, which some models send as text.
fn id_or_text<'de, D: serde::Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let id = count_or_text(input)?.and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| serde::de::Error::custom("`session_id` is a number that a call returned"))
}
