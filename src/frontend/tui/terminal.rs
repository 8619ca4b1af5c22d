//! `Terminal`: the one file that touches the terminal.
//!
//! Switches it into the modes we need and back, on every way out: the end, an error, a panic,
//! the background. Reads bytes as they come; writes on a thread of its own, so that a terminal
//! that stalls holds back frames and nothing else. Knows neither keys nor what is drawn.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::frontend::tui::msg::Size;

/// Pasted text marked, focus told, no wrapping at the edge, kitty's and xterm's keys, the title
/// put aside; last, which background there is.
const ENTER: &str =
    "\u{1b}[?2004h\u{1b}[?1004h\u{1b}[?7l\u{1b}[>1u\u{1b}[>4;1m\u{1b}[22;0t\u{1b}]11;?\u{1b}\\";
/// The same, back.
const LEAVE: &str = "\u{1b}[?2026l\u{1b}[?25h\u{1b}[m\u{1b}[?7h\u{1b}[23;0t\u{1b}[>4;0m\u{1b}[<1u\u{1b}[?1004l\u{1b}[?2004l";
/// Bytes taken in one read.
const READ_BYTES_MAX: usize = 64 * 1024;
/// How long the last bytes are waited for when the terminal stalls.
const LAST_WORDS_MS: u64 = 500;

/// What a panic said; told once the terminal is itself again.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The terminal of this process, in our modes for as long as this lives.
#[derive(Debug)]
pub(crate) struct Terminal {
    input: AsyncFd<io::Stdin>,
    writer: Writer,
    is_ours: bool,
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    bytes: Option<mpsc::Sender<Vec<u8>>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Pieces that are not written yet.
    open: AtomicUsize,
    is_lost: AtomicBool,
    news: Notify,
}

impl Terminal {
    /// Takes the terminal. It must be one, on both ends.
    pub(crate) fn open() -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "the other needs `unsafe`; stdin is open for as long as we are"
        )]
        let input = AsyncFd::with_interest(io::stdin(), tokio::io::Interest::READABLE)?;
        let mut terminal = Self { input, writer: Writer::start()?, is_ours: false };
        hold_panics();
        terminal.enter()?;
        Ok(terminal)
    }

    /// Returns the size; a terminal that does not know its own counts as a usual one.
    pub(crate) fn size() -> Size {
        let size =
            rustix::termios::tcgetwinsize(io::stdout()).map(|size| (size.ws_col, size.ws_row));
        let (width, height) = size.unwrap_or((80, 24));
        match (width, height) {
            (0, _) | (_, 0) => Size { width: 80, height: 24 },
            _ => Size { width, height },
        }
    }

    /// Hands bytes to the terminal; never waits.
    pub(crate) fn write(&self, bytes: Vec<u8>) {
        self.writer.send(bytes);
    }

    /// Returns whether all that was written has reached the terminal.
    pub(crate) fn is_idle(&self) -> bool {
        self.writer.shared.open.load(Ordering::Acquire) == 0
    }

    /// Returns whether the terminal is gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.writer.shared.is_lost.load(Ordering::Acquire)
    }

    /// Waits until something was written, or the terminal is gone.
    pub(crate) async fn written(&self) {
        self.writer.shared.news.notified().await;
    }

    /// Waits for bytes. An error or no bytes at all mean that the terminal is gone.
    pub(crate) async fn read(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut ready = self.input.readable().await?;
            // Others share the open file, so it must not be switched to non-blocking.
            if !is_readable(self.input.get_ref())? {
                ready.clear_ready();
                continue;
            }
            let mut bytes = vec![0; READ_BYTES_MAX];
            match rustix::io::read(self.input.get_ref(), &mut bytes) {
                Ok(count) => {
                    bytes.truncate(count);
                    return Ok(bytes);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Switches to our modes; after `leave`, or after someone else stopped us.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        crossterm::terminal::enable_raw_mode()?;
        self.is_ours = true;
        self.write(ENTER.as_bytes().to_vec());
        Ok(())
    }

    /// Gives the terminal back as it was.
    pub(crate) fn leave(&mut self) {
        if !std::mem::replace(&mut self.is_ours, false) {
            return;
        }
        self.write(LEAVE.as_bytes().to_vec());
        self.writer.wait(Duration::from_millis(LAST_WORDS_MS));
        // Fails when the terminal is gone, and then there is nothing to give back.
        let _ = crossterm::terminal::disable_raw_mode();
    }

    /// Stops the process as the shell's Ctrl-Z does, and goes on after `fg`.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.leave();
        // The whole job: a wrapper that started us must give the prompt back as well. A job
        // that no shell could wake up is not stopped; then this returns at once.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        self.enter()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
        self.writer.close();
        tell_panic();
    }
}

impl Writer {
    fn start() -> io::Result<Self> {
        let (bytes, pieces) = mpsc::channel::<Vec<u8>>();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || {
            for piece in pieces {
                if !theirs.is_lost.load(Ordering::Acquire) && write_all(&piece).is_err() {
                    theirs.is_lost.store(true, Ordering::Release);
                }
                theirs.open.fetch_sub(1, Ordering::AcqRel);
                theirs.news.notify_one();
            }
        })?;
        Ok(Self { bytes: Some(bytes), shared, thread: Some(thread) })
    }

    fn send(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let Some(sender) = &self.bytes else { return };
        self.shared.open.fetch_add(1, Ordering::AcqRel);
        if sender.send(bytes).is_err() {
            self.shared.open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits until all is written, but not for ever.
    fn wait(&self, limit: Duration) {
        /// Short against what a person notices.
        const STEP: Duration = Duration::from_millis(2);
        let mut waited = Duration::ZERO;
        while self.shared.open.load(Ordering::Acquire) > 0 && waited < limit {
            std::thread::sleep(STEP);
            waited += STEP;
        }
    }

    fn close(&mut self) {
        self.bytes = None;
        let is_done = self.shared.open.load(Ordering::Acquire) == 0;
        // A thread that hangs in a write is left behind.
        if let Some(thread) = self.thread.take().filter(|_| is_done) {
            let _ = thread.join();
        }
    }
}

/// Writes all of it, whatever mode others left the open file in.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let out = io::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(&out, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                poll(&mut [PollFd::new(&out, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_readable(input: &io::Stdin) -> io::Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&now)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Keeps what a panic says until the terminal can show it.
fn hold_panics() {
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!("{panic}");
        if let Ok(mut held) = PANIC.lock() {
            held.get_or_insert_with(|| panic.to_string());
        }
    }));
}

/// Tells what a panic said, where it is one that ends the program.
fn tell_panic() {
    if !std::thread::panicking() {
        let _ = std::panic::take_hook();
        return;
    }
    let held = PANIC.lock().ok().and_then(|mut held| held.take());
    if let Some(text) = held {
        let _ = io::Write::write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
    }
}
