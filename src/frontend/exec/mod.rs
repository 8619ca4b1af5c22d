//! `gimlet exec`: one prompt in, progress and a final message out, for people and scripts.
//!
//! Sees a session's `Handle` and nothing below. `thread_events.rs` and `text.rs` turn events
//! into output without IO, `run.rs` decides what each event asks for; here is the loop that
//! waits. Called by `cli`.

mod input;
mod json_line;
mod last_message;
mod open_item;
mod outlet;
mod output_tail;
mod run;
mod schema;
mod signals;
mod text;
mod thread_events;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;

use crate::agent::Handle;
use crate::frontend::exec::outlet::Outlets;
use crate::frontend::exec::run::Run;
use crate::frontend::exec::signals::Signals;
use crate::frontend::exec::thread_events::ThreadEvents;
use crate::protocol::{Event, Op, TurnOutcome, UserInput};

pub(crate) use input::{InputError, check_message_file, load_images, read_prompt};
pub(crate) use json_line::encode_line;
pub(crate) use schema::{OutputSchema, SchemaError, load_schema};

/// Events taken in one go: their output leaves in one write.
const BATCH_EVENTS_MAX: usize = 256;

/// How long a reader that stalls is waited for once a signal asked to stop.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(500);

/// What `exec` was asked for.
#[derive(Debug)]
pub(crate) struct ExecOptions {
    /// What the model is given.
    pub(crate) input: Vec<UserInput>,
    /// What is printed.
    pub(crate) output: ExecOutput,
    /// When stderr is coloured.
    pub(crate) color: Color,
    /// What the final answer must follow.
    pub(crate) schema: Option<OutputSchema>,
    /// Where the final message is written as well.
    pub(crate) last_message_file: Option<PathBuf>,
    /// The command that goes on where a run was stopped; `None` when nothing is kept of it.
    pub(crate) go_on: Option<&'static str>,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecOutput {
    /// The final message on stdout, progress on stderr.
    Human,
    /// Codex-compatible thread events on stdout.
    ThreadEvents,
    /// Our own events on stdout.
    Events,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecOutcome {
    /// How the last turn ended. A failure has been printed already.
    pub(crate) outcome: TurnOutcome,
    /// The final message.
    pub(crate) last_message: Option<String>,
}

/// Runs one prompt to its end. Everything is printed; the exit code is left to the caller.
pub(crate) async fn run(mut handle: Handle, options: ExecOptions) -> io::Result<ExecOutcome> {
    let mut signals = Signals::install();
    let colored = decide_color(options.color);
    let outlets = Outlets::start(io::stdout(), io::stderr())?;
    let mut run = Run::new(options, colored);
    let mut ops = VecDeque::from([run.first_op()]);
    loop {
        submit(&handle, &mut ops);
        // A reader that stalls holds the session back, but never a signal or the end.
        let takes_events = run.is_stopping() || outlets.has_room();
        tokio::select! {
            biased;
            cause = signals.next() => {
                if !run.interrupt(cause, &mut ops) {
                    break;
                }
            }
            () = outlets.news() => {
                if outlets.stdout_error().is_some() {
                    run.lose_stdout(&mut ops);
                }
            }
            event = handle.next_event(), if takes_events => {
                let Some(event) = event else { break };
                take_batch(&mut run, &mut handle, &event, &mut ops);
                outlets.write(run.take_printed());
            }
        }
    }
    run.end();
    outlets.write(run.take_printed());
    if !drain(&mut run, &mut signals, &outlets).await {
        run.leave_unread();
    }
    let (outcome, last_words) = run.finish(outlets.stdout_error().as_deref());
    outlets.write(last_words);
    let limit = tokio::time::timeout(LAST_WORDS_WAIT, wait_until_written(&outlets));
    // Whoever does not read them now has been told by the exit code.
    let _ = limit.await;
    Ok(outcome)
}

/// Takes an event and those that are there already.
fn take_batch(run: &mut Run, handle: &mut Handle, first: &Event, ops: &mut VecDeque<Op>) {
    run.take(first, ops);
    for _ in 1..BATCH_EVENTS_MAX {
        let Some(Some(event)) = handle.next_event().now_or_never() else { break };
        run.take(&event, ops);
    }
}

/// Waits for the readers. Returns false when they stall and a signal says not to wait longer.
async fn drain(run: &mut Run, signals: &mut Signals, outlets: &Outlets) -> bool {
    let is_interrupted = run.is_interrupted();
    let limit = async {
        if is_interrupted {
            tokio::time::sleep(LAST_WORDS_WAIT).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = wait_until_written(outlets) => true,
        cause = signals.next() => {
            // The session has ended, so there is nobody to hand an operation to.
            run.interrupt(cause, &mut VecDeque::new());
            false
        }
        () = limit => false,
    }
}

async fn wait_until_written(outlets: &Outlets) {
    while !outlets.is_empty() {
        outlets.news().await;
    }
}

/// Hands over what the session takes now; the rest is tried again after the next event.
fn submit(handle: &Handle, ops: &mut VecDeque<Op>) {
    while let Some(op) = ops.front() {
        if handle.submit(op.clone()).is_err() {
            return;
        }
        ops.pop_front();
    }
}

/// Returns the lines of `--json` for a run that fails before its session starts.
pub(crate) fn render_start_failure(message: &str) -> String {
    ThreadEvents::default().finish(message).iter().map(encode_line).collect()
}

fn decide_color(choice: Color) -> bool {
    match choice {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stderr().is_terminal() && !unwanted && !dumb
        }
    }
}

#[cfg(test)]
mod tests;
