//! `Outlets`: stdout and stderr, written in order by a thread of their own.
//!
//! A reader that stalls blocks that thread and nothing else, so that a signal is always
//! heard; one that went away is remembered instead of panicking as `println!` does. Knows
//! nothing of events. Called by `exec/mod.rs`.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Text that may wait to be written before the session is held back: a few times what a pipe
/// holds, so that a reader who is only slow costs no speed.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// Text for both streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::frontend::exec) struct Printed {
    /// For stderr; it is written first.
    pub(in crate::frontend::exec) stderr: String,
    /// For stdout.
    pub(in crate::frontend::exec) stdout: String,
}

/// Both streams. What still waits when it is dropped may be lost.
#[derive(Debug)]
pub(in crate::frontend::exec) struct Outlets(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is text to write, or no more will come.
    work: Condvar,
    /// All is written, or a stream broke.
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Printed>,
    /// What waits, and what is being written now.
    waiting_bytes: usize,
    stdout_error: Option<Arc<io::Error>>,
    is_closed: bool,
}

impl Outlets {
    /// Starts to write onto two streams.
    pub(in crate::frontend::exec) fn start(
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || write_all(&of_thread, stdout, stderr))?;
        Ok(Self(shared))
    }

    /// Hands over text. Never waits.
    pub(in crate::frontend::exec) fn write(&self, text: Printed) {
        if text.len() == 0 {
            return;
        }
        let mut state = self.0.lock();
        state.waiting_bytes += text.len();
        state.waiting.push_back(text);
        self.0.work.notify_one();
    }

    /// Waits until all is written, or a stream breaks.
    pub(in crate::frontend::exec) async fn news(&self) {
        self.0.news.notified().await;
    }

    /// Returns whether more may be produced now.
    pub(in crate::frontend::exec) fn has_room(&self) -> bool {
        self.0.lock().waiting_bytes < WAITING_BYTES_MAX
    }

    /// Returns whether all is written.
    pub(in crate::frontend::exec) fn is_empty(&self) -> bool {
        self.0.lock().waiting_bytes == 0
    }

    /// Returns why nothing can be written to stdout any more.
    pub(in crate::frontend::exec) fn stdout_error(&self) -> Option<Arc<io::Error>> {
        self.0.lock().stdout_error.clone()
    }
}

impl Drop for Outlets {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.work.notify_one();
    }
}

impl Printed {
    fn len(&self) -> usize {
        self.stderr.len() + self.stdout.len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for text; `None` when no more will come.
    fn next(&self) -> Option<Printed> {
        let mut state = self.lock();
        loop {
            if let Some(text) = state.waiting.pop_front() {
                return Some(text);
            }
            if state.is_closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn write_all(shared: &Shared, mut stdout: impl Write, mut stderr: impl Write) {
    let (mut stdout_broken, mut stderr_broken) = (false, false);
    while let Some(text) = shared.next() {
        if !stderr_broken {
            stderr_broken = write_text(&mut stderr, &text.stderr).is_err();
        }
        let written = match stdout_broken {
            true => Ok(()),
            false => write_text(&mut stdout, &text.stdout),
        };
        let mut state = shared.lock();
        state.waiting_bytes -= text.len();
        let is_news = written.is_err() || state.waiting_bytes == 0;
        if let Err(error) = written {
            stdout_broken = true;
            state.stdout_error = Some(Arc::new(error));
        }
        drop(state);
        if is_news {
            shared.news.notify_one();
        }
    }
}

fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a write when it is told to, and never again when it went away.
    struct Slow(mpsc::Receiver<io::Result<()>>, mpsc::Sender<String>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().unwrap_or(Err(io::ErrorKind::BrokenPipe.into()))?;
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(stderr: &str, stdout: &str) -> Printed {
        Printed { stderr: stderr.to_owned(), stdout: stdout.to_owned() }
    }

    #[tokio::test]
    async fn a_stalled_reader_holds_nobody_and_the_order_stays() {
        let (go, wait) = mpsc::channel();
        let (out, seen) = mpsc::channel();
        let (go_err, wait_err) = mpsc::channel();
        let outlets = Outlets::start(Slow(wait, out.clone()), Slow(wait_err, out)).unwrap();
        let long = "x".repeat(WAITING_BYTES_MAX);
        outlets.write(text("one", "two"));
        outlets.write(text("three", &long));
        assert!(!outlets.has_room() && !outlets.is_empty());
        for _ in 0..2 {
            go_err.send(Ok(())).unwrap();
            go.send(Ok(())).unwrap();
        }
        while !outlets.is_empty() {
            outlets.news().await;
        }
        assert!(outlets.has_room() && outlets.stdout_error().is_none());
        drop(outlets);
        let seen: Vec<String> = seen.iter().collect();
        assert_eq!(seen, ["one", "two", "three", long.as_str()]);
    }

    #[tokio::test]
    async fn a_reader_that_went_away_is_news_and_is_not_written_to_again() {
        let (go, wait) = mpsc::channel();
        let (out, seen) = mpsc::channel();
        let outlets = Outlets::start(Slow(wait, out), io::sink()).unwrap();
        go.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        outlets.write(text("", "lost"));
        outlets.write(text("", "never tried"));
        while !outlets.is_empty() {
            outlets.news().await;
        }
        assert_eq!(outlets.stdout_error().unwrap().kind(), io::ErrorKind::BrokenPipe);
        drop(outlets);
        assert_eq!(seen.iter().count(), 0);
    }
}
