//! The loop: waits for the terminal, the session, the clock and signals; has `update` take what
//! comes, does what it wants done, and draws.
//!
//! A frame follows at once on what changed, but at most one in `FRAME`, and none while the one
//! before is not written. When nothing moves there is no timer at all. Called by `tui/mod.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use crossterm::event::KeyEvent;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::agent::Handle;
use crate::frontend::tui::cmd::{Cmd, Notice};
use crate::frontend::tui::composer::{Burst, Input as burst, image_paths};
use crate::frontend::tui::editor::run_editor;
use crate::frontend::tui::files::list_files;
use crate::frontend::tui::history::{append_message, load_messages};
use crate::frontend::tui::input::{Input, InputParser};
use crate::frontend::tui::keymap::Keymap;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::msg::Msg;
use crate::frontend::tui::screen::Screen;
use crate::frontend::tui::signals::{Signals, SystemSignal};
use crate::frontend::tui::terminal::Terminal;
use crate::frontend::tui::title::title;
use crate::frontend::tui::update::{fit, update};
use crate::frontend::tui::view::view;
use crate::frontend::tui::{ScreenOptions, ScreenOutcome};
use crate::protocol::{Op, SettingsPatch, StopCause, UserInput, When};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// How often the clock is shown anew while something runs.
const TICK: Duration = Duration::from_secs(1);
/// How long an ESC waits for what may follow it. Over a slow line the rest of a sequence can be
/// late; a person does not notice.
const ESC_WAIT: Duration = Duration::from_millis(30);
/// Events taken in one go.
const BATCH_EVENTS_MAX: usize = 512;
/// How long a session may take to end.
const END_WAIT: Duration = Duration::from_secs(5);
/// How long after it we went on the signal that woke us may arrive.
const WAKE_WAIT: Duration = Duration::from_secs(1);
/// Bytes of a text for the clipboard; terminals drop longer ones.
const COPY_BYTES_MAX: usize = 100_000;

/// The screen while it runs.
struct Run {
    handle: Handle,
    options: ScreenOptions,
    model: Model,
    screen: Screen,
    terminal: Terminal,
    parser: InputParser,
    burst: Burst,
    ops: VecDeque<Op>,
    started: Instant,
    last_frame: Instant,
    last_tick: Instant,
    /// Until when the rest of a sequence is waited for.
    esc_until: Option<Instant>,
    /// Until when the session's end is waited for.
    end_until: Option<Instant>,
    needs_frame: bool,
    /// A frame is on its way to the terminal.
    frame_open: bool,
    title: String,
    stopped_by: Option<StopCause>,
    /// When we went on after we stopped ourselves.
    woken: Option<Instant>,
    /// The paths below the session's directory, while they are being listed.
    files: Option<oneshot::Receiver<Vec<String>>>,
}

/// What the loop woke up for.
enum Wake {
    Signal(SystemSignal),
    Bytes(io::Result<Vec<u8>>),
    Event(Option<Box<crate::protocol::Event>>),
    Written,
    Files(Vec<String>),
    Timer,
}

/// Runs the screen to its end. The terminal is itself again when this returns.
pub(super) async fn run(handle: Handle, mut options: ScreenOptions) -> io::Result<ScreenOutcome> {
    let terminal = Terminal::open()?;
    let mut signals = Signals::install();
    let size = Terminal::size();
    let theme = options.theme;
    let facts = std::mem::take(&mut options.facts);
    let mut model = Model::new(facts, size, theme);
    model.session = std::mem::take(&mut options.session);
    model.session.id = Some(handle.session());
    if !options.keymap.is_empty() {
        set_keys(&mut model, &options.keymap);
    }
    fit(&mut model);
    let now = Instant::now();
    let mut run = Run {
        handle,
        model,
        screen: Screen::new(size, options.reflows),
        terminal,
        parser: InputParser::default(),
        burst: Burst::default(),
        ops: VecDeque::new(),
        started: now,
        last_frame: now.checked_sub(FRAME).unwrap_or(now),
        last_tick: now,
        esc_until: None,
        end_until: None,
        needs_frame: true,
        frame_open: false,
        title: String::new(),
        stopped_by: None,
        woken: None,
        files: None,
        options,
    };
    let earlier = run.options.history_file.as_deref().map(load_messages).unwrap_or_default();
    run.model.composer.history(earlier);
    run.replay();
    if let Some(prompt) = run.options.prompt.take() {
        run.ops.push_back(first_turn(prompt));
    }
    while run.step(&mut signals).await? {}
    Ok(run.finish())
}

fn first_turn(text: String) -> Op {
    let input = vec![UserInput::Text { text }];
    Op::UserTurn { input, overrides: SettingsPatch::default(), when: When::Now }
}

impl Run {
    /// Draws what an earlier process of the session saw.
    fn replay(&mut self) {
        for event in std::mem::take(&mut self.options.past) {
            // What it asks for was done then.
            update(&mut self.model, Msg::Agent(Box::new(event)));
        }
        self.model.end_replay();
    }

    /// Waits once and does what follows. Returns false at the end.
    async fn step(&mut self, signals: &mut Signals) -> io::Result<bool> {
        self.submit();
        self.draw();
        let wake = self.wait(signals).await;
        self.tick();
        match wake {
            Wake::Signal(SystemSignal::Stop(cause)) => self.stop(cause),
            Wake::Signal(SystemSignal::Resized) => self.resize(),
            Wake::Signal(SystemSignal::Continued) => {
                // The signal of the `fg` that woke us up here has been answered.
                if self.woken.take().is_none_or(|at| at.elapsed() > WAKE_WAIT) {
                    self.come_back()?;
                }
            }
            Wake::Bytes(Ok(bytes)) if !bytes.is_empty() => {
                let inputs = self.parser.push(&bytes);
                self.take_inputs(inputs)?;
                self.esc_until = self.parser.is_waiting().then(|| Instant::now() + ESC_WAIT);
            }
            Wake::Bytes(_) => self.stop(StopCause::Hangup),
            Wake::Event(Some(event)) => self.take_events(event)?,
            Wake::Event(None) => return self.session_ended(),
            Wake::Written => {
                if self.terminal.is_lost() {
                    self.stop(StopCause::Hangup);
                }
            }
            Wake::Files(paths) => {
                self.files = None;
                self.take(Msg::Files(paths))?;
            }
            Wake::Timer => self.take_timers()?,
        }
        if self.frame_open && self.terminal.is_idle() {
            self.frame_open = false;
            self.take(Msg::Drawn)?;
        }
        Ok(self.end_until.is_none_or(|until| Instant::now() < until))
    }

    async fn wait(&mut self, signals: &mut Signals) -> Wake {
        let is_busy = !self.terminal.is_idle();
        let timer = self.next_timer(is_busy);
        let is_lost = self.stopped_by == Some(StopCause::Hangup);
        tokio::select! {
            biased;
            signal = signals.next() => Wake::Signal(signal),
            bytes = self.terminal.read(), if !is_lost => Wake::Bytes(bytes),
            () = self.terminal.written(), if is_busy => Wake::Written,
            () = sleep_until(timer) => Wake::Timer,
            paths = listed(&mut self.files) => Wake::Files(paths),
            event = self.handle.next_event() => Wake::Event(event.map(Box::new)),
        }
    }

    /// Returns when something is due, if anything is.
    fn next_timer(&self, is_busy: bool) -> Option<Instant> {
        let frame = (self.needs_frame && !is_busy).then(|| self.last_frame + FRAME);
        let tick = self.model.is_moving().then(|| self.last_tick + TICK);
        [frame, tick, self.esc_until, self.end_until].into_iter().flatten().min()
    }

    fn take_timers(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.esc_until.is_some_and(|until| now >= until) {
            self.esc_until = None;
            let inputs = self.parser.flush();
            self.take_inputs(inputs)?;
        }
        if self.model.is_moving() && now >= self.last_tick + TICK {
            self.last_tick = now;
            self.needs_frame = true;
        }
        Ok(())
    }

    /// Tells the model the time, before what happened then.
    fn tick(&mut self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        update(&mut self.model, Msg::Tick(now_ms));
    }

    fn take_inputs(&mut self, inputs: Vec<Input>) -> io::Result<()> {
        let mut keys = Vec::new();
        for input in inputs {
            if let Input::Key(key) = input {
                keys.push(key);
                continue;
            }
            self.take_keys(&std::mem::take(&mut keys))?;
            self.take(match input {
                Input::Key(key) => Msg::Key(key),
                Input::Paste(text) => pasted(text),
                Input::Focus(focused) => Msg::Focus(focused),
                Input::Background(shade) => Msg::Background(shade),
            })?;
        }
        self.take_keys(&keys)
    }

    /// Takes keys that were read together: faster than anyone types, they are a paste.
    fn take_keys(&mut self, keys: &[KeyEvent]) -> io::Result<()> {
        for input in self.burst.read(keys, self.model.now_ms) {
            self.take(match input {
                burst::Key(key) => Msg::Key(key),
                burst::Paste(text) => pasted(text),
                burst::PasteMore(text) => Msg::PasteMore(text),
            })?;
        }
        Ok(())
    }

    /// Takes an event and those that are there already.
    fn take_events(&mut self, first: Box<crate::protocol::Event>) -> io::Result<()> {
        self.take(Msg::Agent(first))?;
        for _ in 1..BATCH_EVENTS_MAX {
            let Some(Some(event)) = self.handle.next_event().now_or_never() else { break };
            self.take(Msg::Agent(Box::new(event)))?;
        }
        Ok(())
    }

    fn take(&mut self, msg: Msg) -> io::Result<()> {
        self.needs_frame = true;
        for cmd in update(&mut self.model, msg) {
            self.perform(cmd)?;
        }
        Ok(())
    }

    fn perform(&mut self, cmd: Cmd) -> io::Result<()> {
        match cmd {
            Cmd::Submit(op) => self.ops.push_back(op),
            Cmd::Copy(text) => self.copy(&text),
            Cmd::Notify(notice) => self.notify(notice),
            Cmd::Suspend => {
                self.terminal.write(self.screen.clear());
                self.terminal.suspend()?;
                self.come_back()?;
                self.woken = Some(Instant::now());
            }
            Cmd::Redraw => self.redraw(),
            Cmd::NewSession => self.replace_session()?,
            Cmd::Quit => {
                self.end_until = Some(Instant::now() + END_WAIT);
                self.needs_frame = true;
            }
            Cmd::SendImages { text, images, when } => match (self.options.load_images)(&images) {
                Ok(parts) => self.ops.push_back(turn_with(text, parts, when)),
                Err((message, hint)) => self.take(Msg::Failed { message, hint })?,
            },
            Cmd::Remember(text) => self.remember(&text),
            Cmd::Edit(text) => self.edit(&text)?,
            Cmd::ListFiles => self.files = Some(list_files(self.model.facts.cwd.clone())),
        }
        Ok(())
    }

    /// Hands over what the session takes now; the rest is tried again after the next event.
    fn submit(&mut self) {
        while let Some(op) = self.ops.front() {
            if self.handle.submit(op.clone()).is_err() {
                return;
            }
            self.ops.pop_front();
        }
    }

    /// Draws when it is time and the terminal keeps up.
    fn draw(&mut self) {
        let now = Instant::now();
        if !self.needs_frame || !self.terminal.is_idle() || now < self.last_frame + FRAME {
            return;
        }
        self.needs_frame = false;
        self.last_frame = now;
        self.model.settle();
        let view = view(&self.model);
        // Below a page nothing is printed; the lines wait until it is closed.
        let finished = if view.is_full { Vec::new() } else { self.model.take_printed() };
        self.terminal.write(self.screen.paint(&finished, &view));
        let title = title(&self.model);
        if title != self.title {
            self.terminal.write(format!("\u{1b}]2;{title}\u{7}").into_bytes());
            self.title = title;
        }
        self.frame_open = true;
    }

    fn resize(&mut self) {
        let size = Terminal::size();
        if size == self.model.size {
            return;
        }
        self.terminal.write(self.screen.resize(size));
        update(&mut self.model, Msg::Resize(size));
        self.needs_frame = true;
    }

    /// After someone else had the terminal: our modes again, and all drawn anew.
    fn come_back(&mut self) -> io::Result<()> {
        self.terminal.enter()?;
        self.screen = Screen::new(Terminal::size(), self.options.reflows);
        update(&mut self.model, Msg::Resize(Terminal::size()));
        self.title.clear();
        self.needs_frame = true;
        Ok(())
    }

    fn redraw(&mut self) {
        self.terminal.write(self.screen.clear());
        self.needs_frame = true;
    }

    /// Has the user's editor change a text. The terminal is the editor's meanwhile.
    fn edit(&mut self, text: &str) -> io::Result<()> {
        self.terminal.write(self.screen.clear());
        self.terminal.leave();
        let edited = run_editor(&self.options.editor, text);
        self.come_back()?;
        match edited {
            Ok(text) => self.take(Msg::Edited(text)),
            Err(error) => {
                let message = format!("the editor `{}` did not work: {error}", self.options.editor);
                let hint = Some("set VISUAL or EDITOR".to_owned());
                self.take(Msg::Failed { message, hint })
            }
        }
    }

    /// Keeps a message for `up` and Ctrl-R of later sessions. That it cannot be kept is no
    /// reason to stop anybody.
    fn remember(&self, text: &str) {
        let Some(path) = &self.options.history_file else { return };
        if let Err(error) = append_message(path, text) {
            tracing::debug!("the message is not remembered: {error}");
        }
    }

    fn copy(&self, text: &str) {
        let end = text.floor_char_boundary(COPY_BYTES_MAX);
        let text = text.get(..end).unwrap_or_default();
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.terminal.write(format!("\u{1b}]52;c;{encoded}\u{7}").into_bytes());
    }

    fn notify(&self, notice: Notice) {
        match notice {
            Notice::Waiting | Notice::Done => self.terminal.write(b"\x07".to_vec()),
        }
    }

    fn stop(&mut self, cause: StopCause) {
        if self.stopped_by.replace(cause).is_some() {
            // The second one does not wait for the session.
            self.end_until = Some(Instant::now());
            return;
        }
        for cmd in update(&mut self.model, Msg::Stop(cause)) {
            // Of these none can fail.
            let _ = self.perform(cmd);
        }
    }

    /// Ends this session and begins another in its place.
    fn replace_session(&mut self) -> io::Result<()> {
        match (self.options.start)() {
            Ok(handle) => {
                let old = std::mem::replace(&mut self.handle, handle);
                // Dropping it ends it as `Op::Shutdown` does.
                drop(old);
                self.ops.clear();
                self.take(Msg::SessionReplaced)?;
                self.model.session.id = Some(self.handle.session());
                Ok(())
            }
            Err((message, hint)) => self.take(Msg::Failed { message, hint }),
        }
    }

    /// The session has said all; what it said last is still shown.
    fn session_ended(&mut self) -> io::Result<bool> {
        if !self.model.is_quitting {
            self.stopped_by.get_or_insert(StopCause::User);
            self.take(Msg::Stop(StopCause::User))?;
        }
        Ok(false)
    }

    fn finish(mut self) -> ScreenOutcome {
        self.model.overlays.clear();
        self.model.is_quitting = true;
        self.model.settle();
        self.model.end_stream(None);
        let view = view(&self.model);
        let finished = self.model.take_printed();
        self.terminal.write(self.screen.paint(&finished, &view));
        self.terminal.write(self.screen.clear());
        let session = self.handle.session();
        ScreenOutcome {
            session,
            stopped_by: self.stopped_by,
            has_turns: self.model.cells.len() > 1,
        }
    }
}

/// Waits for the list, where one is being made.
async fn listed(files: &mut Option<oneshot::Receiver<Vec<String>>>) -> Vec<String> {
    match files {
        // A lister that died leaves nothing to choose from.
        Some(files) => files.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Takes the user's keys over. Where one is wrong, all stay as they were.
fn set_keys(model: &mut Model, keys: &BTreeMap<String, Vec<String>>) {
    let entries =
        keys.iter().map(|(name, keys)| (name.as_str(), keys.iter().map(String::as_str).collect()));
    match Keymap::from_config(entries) {
        Ok(keymap) => model.keymap = Rc::new(keymap),
        Err(errors) => {
            let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            let hint = Some("[keys] of config.toml is not used until this is mended".to_owned());
            update(model, Msg::Failed { message, hint });
        }
    }
}

/// Says of a paste which of the paths it names are files.
fn pasted(text: String) -> Msg {
    let named = image_paths(&text).unwrap_or_default();
    let files = named.into_iter().filter(|path| path.is_file()).collect();
    Msg::Paste { text, files }
}

fn turn_with(text: String, images: Vec<UserInput>, when: When) -> Op {
    let mut input = vec![UserInput::Text { text }];
    input.extend(images);
    Op::UserTurn { input, overrides: SettingsPatch::default(), when }
}
