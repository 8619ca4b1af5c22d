//! Runs one command to its end: reads its output as it comes, keeps head and tail of it, and
//! ends it when its time is over or the turn is stopped.
//!
//! Works on any `CommandRunner`. Knows no plan and no platform. Called by `tools/shell.rs`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt};
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

/// Bytes from the end of an output that are searched for a refusal.
const DENIAL_BYTES: usize = 8 * 1024;

/// The bounds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// How long the command may take.
    pub timeout: Duration,
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
    let Process { output, mut control, output_bytes_max } = runner.spawn(request)?;
    let mut reader = Reader {
        output: Some(output),
        capture: Capture::default(),
        left_bytes: output_bytes_max.unwrap_or(u64::MAX),
        on_output,
    };

    let end = tokio::select! {
        biased;
        () = cancel.cancelled() => CommandEnd::Interrupted,
        state = reader.read_beside(control.wait()) => match state {
            None => CommandEnd::LimitReached(LimitHit {
                kind: ResourceKind::Output,
                value: output_bytes_max.unwrap_or(u64::MAX),
            }),
            Some(Ok(state)) => CommandEnd::Exited(state),
            Some(Err(SandboxError::LimitReached(hit))) => CommandEnd::LimitReached(hit),
            Some(Err(error)) => {
                // It may have started something before it was lost.
                control.kill().await;
                return Err(error);
            }
        },
        () = tokio::time::sleep(limits.timeout) => CommandEnd::TimedOut,
    };
    if matches!(end, CommandEnd::TimedOut | CommandEnd::Interrupted) {
        control.terminate();
        // Whether it ended by itself or not makes no difference: what is left is killed below.
        let _ = tokio::time::timeout(TERMINATE_GRACE, reader.read_beside(control.wait())).await;
    }
    let _ = tokio::time::timeout(DRAIN_MAX, reader.read_to_end()).await;
    control.kill().await;

    let (output, omitted_bytes, omitted_at) = reader.capture.into_parts();
    Ok(ExecResult { end, output, omitted_bytes, omitted_at, duration: started.elapsed() })
}

/// Returns whether a command's failure looks like the sandbox's doing. Only a guess: programs
/// say it in words of their own.
pub fn likely_denied(result: &ExecResult) -> bool {
    const WORDS: [&str; 7] = [
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
    capture: Capture,
    /// Bytes until it printed too much.
    left_bytes: u64,
    on_output: &'a mut (dyn FnMut(&[u8]) + Send),
}

impl Reader<'_> {
    /// Reads until the other future is done; `None` when too much came first.
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
                    self.capture.push(piece);
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

/// Head and tail of a stream.
#[derive(Default)]
struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
}

impl Capture {
    fn push(&mut self, piece: &[u8]) {
        let room = (OUTPUT_BYTES_MAX / 2).saturating_sub(self.head.len()).min(piece.len());
        let (head, tail) = piece.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let excess = self.tail.len().saturating_sub(OUTPUT_BYTES_MAX / 2);
        self.tail.drain(..excess);
        self.omitted_bytes += excess as u64;
    }

    /// Returns the bytes kept, how many are missing, and where.
    fn into_parts(self) -> (Vec<u8>, u64, usize) {
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
