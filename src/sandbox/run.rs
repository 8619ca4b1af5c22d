//! Attends to one command until its end: reads its output as it comes, writes what it is to
//! read, and ends it when its time is over or the turn is stopped.
//!
//! Works on any `CommandRunner`. Knows no plan and no platform. Called by `tools/shell.rs` for
//! commands that run to their end, and by `tools/process.rs` for those that are spoken to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::sandbox::{
    CommandEnd, CommandRunner, ExecRequest, ExecResult, ExitState, LimitHit, Process, ResourceKind,
    SandboxError,
};

/// Bytes of output that are kept: half of them from the start, half from the end.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes read at once; what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// How long output is read on after the command itself has ended. What it left running in the
/// background may hold the pipe open for ever.
const DRAIN_MAX: Duration = Duration::from_millis(250);

/// How long a command may take to end after it was asked to.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// Bytes that wait for a command to read them; more than any one message of a model holds.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes from the end of an output that are searched for a refusal.
const DENIAL_BYTES: usize = 8 * 1024;

/// The bounds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// How long the command may take.
    pub timeout: Duration,
}

/// What is asked of a command while it runs.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// To read this.
    Read(Vec<u8>),
    /// To find the end of what it reads after all that was written.
    CloseInput,
    /// To stop what it is doing, as Ctrl-C asks.
    Interrupt,
}

/// Wishes on their way to a command.
#[derive(Debug)]
pub struct Wishes {
    queue: mpsc::UnboundedReceiver<Wish>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Where wishes come from. Never waits.
#[derive(Debug)]
pub struct WishSender {
    queue: mpsc::UnboundedSender<Wish>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// Returns a line for wishes.
pub fn wishes() -> (WishSender, Wishes) {
    let (tx, rx) = mpsc::unbounded_channel();
    let waiting_bytes = Arc::<AtomicUsize>::default();
    let sender = WishSender { queue: tx, waiting_bytes: Arc::clone(&waiting_bytes) };
    (sender, Wishes { queue: rx, waiting_bytes })
}

impl WishSender {
    /// Sends a wish; `false` when too much of what the command is to read waits already.
    pub fn send(&self, wish: Wish) -> bool {
        let bytes = if let Wish::Read(bytes) = &wish { bytes.len() } else { 0 };
        if self.waiting_bytes.load(Ordering::Relaxed) + bytes > INPUT_BYTES_MAX {
            return false;
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A command that has ended wishes for nothing; its end is told in another way.
        let _ = self.queue.send(wish);
        true
    }
}

/// Runs a command to its end and returns what it printed. `on_output` sees each piece as it
/// comes and must not block.
pub async fn run(
    runner: &dyn CommandRunner,
    request: ExecRequest,
    limits: RunLimits,
    cancel: &CancellationToken,
    on_output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<ExecResult, SandboxError> {
    let started = Instant::now();
    let process = runner.spawn(request)?;
    let mut capture = Capture::default();
    let mut keep = |piece: &[u8]| {
        capture.push(piece);
        on_output(piece);
    };
    let (_, no_wishes) = wishes();
    let end = attend(process, limits, cancel, no_wishes, &mut keep).await?;
    let (output, omitted_bytes, omitted_at) = capture.into_parts();
    Ok(ExecResult { end, output, omitted_bytes, omitted_at, duration: started.elapsed() })
}

/// Attends to a running command until it has ended and all it started is gone: reads its
/// output, writes what it is to read, and ends it when its time is over or `cancel` fires.
pub async fn attend(
    process: Process,
    limits: RunLimits,
    cancel: &CancellationToken,
    mut wishes: Wishes,
    on_output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<CommandEnd, SandboxError> {
    let Process { output, input, mut control, output_bytes_max } = process;
    let left_bytes = output_bytes_max.unwrap_or(u64::MAX);
    let mut reader = Reader { output: Some(output), left_bytes, on_output };
    let mut writer = Writer { input, pending: VecDeque::new(), closing: false };
    let waiting_bytes = Arc::clone(&wishes.waiting_bytes);
    let mut timeout = std::pin::pin!(tokio::time::sleep(limits.timeout));
    let mut wishing = true;
    let end = loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break CommandEnd::Interrupted,
            state = control.wait() => match state {
                Ok(state) => break CommandEnd::Exited(state),
                Err(SandboxError::LimitReached(hit)) => break CommandEnd::LimitReached(hit),
                Err(error) => {
                    // It may have started something before it was lost.
                    control.kill().await;
                    return Err(error);
                }
            },
            () = &mut timeout => break CommandEnd::TimedOut,
            wish = wishes.queue.recv(), if wishing => match wish {
                Some(Wish::Read(bytes)) => writer.pending.extend(bytes),
                Some(Wish::CloseInput) => writer.closing = true,
                Some(Wish::Interrupt) => control.interrupt(),
                None => wishing = false,
            },
            count = writer.write_some(), if writer.is_busy() => {
                waiting_bytes.fetch_sub(count, Ordering::Relaxed);
            }
            () = reader.read_to_end(), if !reader.is_done() => {
                if reader.left_bytes == 0 {
                    let value = output_bytes_max.unwrap_or(u64::MAX);
                    break CommandEnd::LimitReached(LimitHit { kind: ResourceKind::Output, value });
                }
            }
        }
    };
    if matches!(end, CommandEnd::TimedOut | CommandEnd::Interrupted) {
        control.terminate();
        // Whether it ended by itself or not makes no difference: what is left is killed below.
        let _ = tokio::time::timeout(TERMINATE_GRACE, reader.read_beside(control.wait())).await;
    }
    let _ = tokio::time::timeout(DRAIN_MAX, reader.read_to_end()).await;
    control.kill().await;
    Ok(end)
}

/// Returns whether a command's failure looks like the sandbox's doing. Only a guess: programs
/// say it in words of their own.
pub fn likely_denied(result: &ExecResult) -> bool {
    const WORDS: [&str; 8] = [
        // Of a mount over what is protected.
        "device or resource busy",
        "permission denied",
        "operation not permitted",
        "read-only file system",
        "could not resolve host",
        "temporary failure in name resolution",
        "network is unreachable",
        "name or service not known",
    ];
    let state = match result.end {
        CommandEnd::Exited(state) => state,
        CommandEnd::TimedOut | CommandEnd::Interrupted | CommandEnd::LimitReached(_) => {
            return false;
        }
    };
    if state.signal == Some(SIGSYS) {
        return true;
    }
    if state == (ExitState { code: Some(0), signal: None }) {
        return false;
    }
    let tail = result.output.len().saturating_sub(DENIAL_BYTES);
    let tail = String::from_utf8_lossy(result.output.get(tail..).unwrap_or_default());
    let tail = tail.to_lowercase();
    WORDS.iter().any(|words| tail.contains(words))
}

/// What a system call filter kills with.
const SIGSYS: i32 = 31;

struct Reader<'a> {
    output: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Bytes until it printed too much.
    left_bytes: u64,
    on_output: &'a mut (dyn FnMut(&[u8]) + Send),
}

impl Reader<'_> {
    fn is_done(&self) -> bool {
        self.output.is_none()
    }

    /// Reads until the other future is done, or too much came.
    async fn read_beside<T>(&mut self, done: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(done);
        tokio::select! {
            biased;
            value = &mut done => return Some(value),
            () = self.read_to_end() => {}
        }
        if self.left_bytes == 0 {
            return None;
        }
        Some(done.await)
    }

    /// Reads until the stream ends or too much came; may be dropped without losing a byte.
    async fn read_to_end(&mut self) {
        let mut buffer = vec![0_u8; READ_BYTES];
        while let Some(output) = &mut self.output {
            match output.read(&mut buffer).await {
                Ok(count) if count > 0 => {
                    let piece = buffer.get(..count).unwrap_or_default();
                    (self.on_output)(piece);
                    self.left_bytes = self.left_bytes.saturating_sub(piece.len() as u64);
                    if self.left_bytes == 0 {
                        return;
                    }
                }
                Ok(_) | Err(_) => self.output = None,
            }
        }
    }
}

/// What a command has yet to read.
struct Writer {
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pending: VecDeque<u8>,
    closing: bool,
}

impl Writer {
    fn is_busy(&self) -> bool {
        self.input.is_some() && (self.closing || !self.pending.is_empty())
    }

    /// Writes a piece of it and returns how many bytes wait no longer; may be dropped without
    /// losing a byte.
    async fn write_some(&mut self) -> usize {
        let Some(input) = &mut self.input else { return 0 };
        let (piece, _) = self.pending.as_slices();
        if piece.is_empty() {
            self.input = None;
            return 0;
        }
        match input.write(piece).await {
            Ok(count) if count > 0 => self.pending.drain(..count).count(),
            // It reads no more, which is its right.
            Ok(_) | Err(_) => {
                self.input = None;
                std::mem::take(&mut self.pending).len()
            }
        }
    }
}

/// Head and tail of a stream.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
}

impl Capture {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        let room = (OUTPUT_BYTES_MAX / 2).saturating_sub(self.head.len()).min(piece.len());
        let (head, tail) = piece.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(OUTPUT_BYTES_MAX / 2);
        self.tail.drain(..excess);
        self.omitted_bytes += excess as u64;
    }

    /// Returns the bytes kept, how many are missing, and where.
    pub fn into_parts(self) -> (Vec<u8>, u64, usize) {
        let mut output = self.head;
        let split = output.len();
        output.extend(self.tail);
        let omitted_at = if self.omitted_bytes > 0 { split } else { output.len() };
        (output, self.omitted_bytes, omitted_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_keeps_both_ends_and_counts_the_middle() {
        let mut capture = Capture::default();
        for number in 0..40_u8 {
            capture.push(&vec![number; READ_BYTES]);
        }
        let (output, omitted_bytes, omitted_at) = capture.into_parts();
        assert_eq!(output.len(), OUTPUT_BYTES_MAX);
        assert_eq!(omitted_at, OUTPUT_BYTES_MAX / 2);
        assert_eq!(omitted_bytes, (40 * READ_BYTES - OUTPUT_BYTES_MAX) as u64);
        assert_eq!((output[0], output[omitted_at - 1]), (0, 7));
        assert_eq!((output[omitted_at], output[OUTPUT_BYTES_MAX - 1]), (32, 39));
    }

    #[test]
    fn a_short_output_is_whole() {
        let mut capture = Capture::default();
        capture.push(b"one ");
        capture.push(b"two");
        assert_eq!(capture.into_parts(), (b"one two".to_vec(), 0, 7));
    }

    #[test]
    fn a_refusal_is_guessed_from_a_failures_words() {
        let result = |code, output: &str| ExecResult {
            end: CommandEnd::Exited(ExitState { code: Some(code), signal: None }),
            output: output.as_bytes().to_vec(),
            omitted_bytes: 0,
            omitted_at: output.len(),
            duration: Duration::ZERO,
        };
        assert!(likely_denied(&result(1, "touch: cannot touch '/x': Permission denied\n")));
        assert!(!likely_denied(&result(0, "Permission denied")));
        assert!(!likely_denied(&result(1, "assertion failed")));
    }
}
