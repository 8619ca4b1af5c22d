//! `RunningProcess`: a command that may outlive the call that started it.
//!
//! A task of its own attends to the command; what it prints waits here, head and tail, until a
//! call takes it. The command lives as long as somebody holds the value: the call at first, the
//! session's table once it is kept. Knows no session and no policy. Used by `exec_session.rs`
//! and by `agent/processes.rs`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::policy::keep_unfinished;
use crate::protocol::{CommandLine, SandboxPolicy};
use crate::sandbox::{
    Capture, CommandEnd, CommandRunner, ExecRequest, ExecResult, HostQuestion, Input, RunLimits,
    SandboxError, Wish, WishSender, attend, wishes,
};

/// Bytes of output that are reported live while one call waits, whole and in order. What a
/// command prints beyond is only in the result, head and tail.
const LIVE_BYTES_MAX: usize = crate::sandbox::OUTPUT_BYTES_MAX;

/// A call's turn with a command: what must be asked about the command's connections comes to it.
pub(crate) type TurnWith<'a> = tokio::sync::MutexGuard<'a, mpsc::Receiver<HostQuestion>>;

/// A running command. The last clone to go ends it.
#[derive(Debug, Clone)]
pub struct RunningProcess(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    line: CommandLine,
    command: String,
    cwd: PathBuf,
    typed: Mutex<TypedSoFar>,
    sandbox: Option<SandboxPolicy>,
    input: Input,
    timeout: Duration,
    wishes: WishSender,
    stop: CancellationToken,
    _stop_with_us: DropGuard,
    shared: Arc<Shared>,
    /// Held by the call that reads, so that two do not share one output; with the questions about
    /// what the command wants to reach, which only a call can ask.
    turn: tokio::sync::Mutex<mpsc::Receiver<HostQuestion>>,
}

/// What was typed into a command.
#[derive(Debug, Default)]
struct TypedSoFar {
    /// What may be the beginning of what comes next.
    unfinished: String,
    /// Whether its end was typed, after which the command reads nothing more.
    is_over: bool,
}

/// What the attending task shares with us.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    unread: Capture,
    since: Instant,
    live: Option<mpsc::UnboundedSender<Vec<u8>>>,
    live_bytes_left: usize,
    end: Option<Result<CommandEnd, SandboxError>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            unread: Capture::default(),
            since: Instant::now(),
            live: None,
            live_bytes_left: 0,
            end: None,
        }
    }
}

/// What is to be started.
pub(crate) struct Start {
    /// The command.
    pub(crate) request: ExecRequest,
    /// Where the questions about hosts it wants to reach come from.
    pub(crate) questions: mpsc::Receiver<HostQuestion>,
    /// What it reads.
    pub(crate) input: Input,
    /// How long it may take in all.
    pub(crate) timeout: Duration,
    /// What it is, as it was called.
    pub(crate) line: CommandLine,
    /// Its place among all; given back at its end.
    pub(crate) place: OwnedSemaphorePermit,
}

/// What a command printed since it was last asked, and its end if it has one.
#[derive(Debug)]
pub(crate) struct Report {
    /// Its end, once nothing of it is left.
    pub(crate) end: Option<Result<CommandEnd, SandboxError>>,
    /// What it printed.
    pub(crate) output: Vec<u8>,
    /// As in `ExecResult`.
    pub(crate) omitted_bytes: u64,
    /// As in `ExecResult`.
    pub(crate) omitted_at: usize,
    /// How long that took.
    pub(crate) duration: Duration,
}

impl Report {
    /// Returns the result of a command that ended so.
    pub(crate) fn into_result(self, end: CommandEnd) -> ExecResult {
        let Self { end: _, output, omitted_bytes, omitted_at, duration } = self;
        ExecResult { end, output, omitted_bytes, omitted_at, duration }
    }
}

impl RunningProcess {
    /// Starts a command. Needs a tokio runtime around it.
    pub(crate) fn start(runner: &dyn CommandRunner, start: Start) -> Result<Self, SandboxError> {
        let Start { request, questions, input, timeout, line, place } = start;
        let (sandbox, cwd) = (request.sandbox.clone(), request.cwd.clone());
        let process = runner.spawn_with(request, input)?;
        let (sender, receiver) = wishes();
        let stop = CancellationToken::new();
        let shared = Arc::<Shared>::default();
        let (its_stop, its_shared) = (stop.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let mut on_output = |piece: &[u8]| its_shared.take_output(piece);
            let limits = RunLimits { timeout };
            let end = attend(process, limits, &its_stop, receiver, &mut on_output).await;
            drop(place);
            its_shared.finish(end);
        });
        Ok(Self(Arc::new(Inner {
            command: line.shown(),
            line,
            cwd,
            typed: Mutex::default(),
            sandbox,
            input,
            timeout,
            wishes: sender,
            _stop_with_us: stop.clone().drop_guard(),
            stop,
            shared,
            turn: tokio::sync::Mutex::new(questions),
        })))
    }

    /// Returns what it is, shown.
    pub fn command(&self) -> &str {
        &self.0.command
    }

    /// Returns how it was called.
    pub(crate) fn line(&self) -> &CommandLine {
        &self.0.line
    }

    /// Returns where it was started, absolute.
    pub(crate) fn cwd(&self) -> &Path {
        &self.0.cwd
    }

    /// Returns what was typed and may be the beginning of what is typed next.
    pub(crate) fn unfinished(&self) -> String {
        self.typed().unfinished.clone()
    }

    /// Takes note of what was typed.
    pub(crate) fn note_typed(&self, text: &str) {
        let mut typed = self.typed();
        typed.unfinished = keep_unfinished(&typed.unfinished, text);
    }

    /// Returns whether the end of its input was typed.
    pub(crate) fn reads_no_more(&self) -> bool {
        self.typed().is_over
    }

    /// Ends what it reads, after all that was typed.
    pub(crate) fn close_input(&self) {
        self.typed().is_over = true;
        self.wish(Wish::CloseInput);
    }

    fn typed(&self) -> MutexGuard<'_, TypedSoFar> {
        self.0.typed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what confines it; `None` when nothing does.
    pub(crate) fn sandbox(&self) -> Option<&SandboxPolicy> {
        self.0.sandbox.as_ref()
    }

    /// Returns what it reads.
    pub(crate) fn input(&self) -> Input {
        self.0.input
    }

    /// Returns how long it may take in all.
    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Asks something of it; `false` when too much waits already for it to read.
    pub(crate) fn wish(&self, wish: Wish) -> bool {
        self.0.wishes.send(wish)
    }

    /// Begins to end it, with all it started.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Returns what fires when it has ended and nothing of it is left. Keeps nothing alive.
    pub fn ended(&self) -> CancellationToken {
        self.0.shared.ended.clone()
    }

    /// Returns its exit code; `None` while it runs and when it was killed.
    pub fn exit_code(&self) -> Option<i32> {
        match &self.0.shared.lock().end {
            Some(Ok(CommandEnd::Exited(state))) => state.code,
            Some(_) | None => None,
        }
    }

    /// Waits for earlier calls to be done with it.
    pub(crate) async fn take_turn(&self) -> TurnWith<'_> {
        self.0.turn.lock().await
    }

    /// Returns a line on which its output comes while it prints, and what was not read before.
    pub(crate) fn listen(&self) -> mpsc::UnboundedReceiver<Vec<u8>> {
        // Without a bound of its own, because the bytes that go in are bounded.
        let (tx, rx) = mpsc::unbounded_channel();
        let mut state = self.0.shared.lock();
        state.live_bytes_left = LIVE_BYTES_MAX;
        let unread = state.unread.clone().into_parts().0;
        state.live = Some(tx);
        state.send_live(&unread);
        rx
    }

    /// Takes what it printed since the last call, and closes the line of `listen`.
    pub(crate) fn report(&self) -> Report {
        let mut state = self.0.shared.lock();
        state.live = None;
        let duration = state.since.elapsed();
        state.since = Instant::now();
        let (mut output, omitted_bytes, mut omitted_at) =
            std::mem::take(&mut state.unread).into_parts();
        let end = state.end.clone();
        if end.is_none() {
            // A character that is cut waits for its end.
            let rest = output.split_off(whole_characters(&output));
            omitted_at = omitted_at.min(output.len());
            state.unread.push(&rest);
        }
        Report { end, output, omitted_bytes, omitted_at, duration }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and the bytes would be whole still.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_output(&self, piece: &[u8]) {
        let mut state = self.lock();
        state.unread.push(piece);
        state.send_live(piece);
    }

    fn finish(&self, end: Result<CommandEnd, SandboxError>) {
        let mut state = self.lock();
        state.end = Some(end);
        state.live = None;
        drop(state);
        self.ended.cancel();
    }
}

impl State {
    fn send_live(&mut self, piece: &[u8]) {
        let piece = piece.get(..self.live_bytes_left).unwrap_or(piece);
        self.live_bytes_left -= piece.len();
        if let Some(live) = self.live.as_ref().filter(|_| !piece.is_empty()) {
            let _ = live.send(piece.to_vec());
        }
    }
}

/// Returns how many bytes end with a whole character.
fn whole_characters(bytes: &[u8]) -> usize {
    // A character has four bytes at most, so only the last three can begin one that is cut.
    let from = bytes.len().saturating_sub(3);
    let is_start = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0xC0);
    let Some(start) = (from..bytes.len()).rev().find(is_start) else { return bytes.len() };
    let last = bytes.get(start..).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => start,
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn only_a_character_that_is_cut_is_held_back() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            ("a€".as_bytes(), 4),
            (&"a€".as_bytes()[..3], 1),
            (&"a🦀".as_bytes()[..4], 1),
            (b"a\xff", 2),
            (b"\x80\x80\x80\x80", 4),
            (b"", 0),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }
}
