//! `Model`: all that the screen knows, as plain data.
//!
//! Changed by `update` alone, read by `view`. Holds no clock, no terminal and no session: time
//! comes in with `Msg::Tick`, and what is to be done goes out as `Cmd`. Cells are kept for the
//! transcript; the lines they were drawn as leave through `take_printed` and are gone.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;

use ratatui::text::Line;

use crate::frontend::tui::asking::OpenAsk;
use crate::frontend::tui::cells::command::CommandCell;
use crate::frontend::tui::cells::tool::ToolCell;
use crate::frontend::tui::cells::{Cell, Folds, Sheet};
use crate::frontend::tui::composer::{Composer, Query};
use crate::frontend::tui::fuzzy::Finder;
use crate::frontend::tui::keymap::{Keymap, Pending};
use crate::frontend::tui::msg::Size;
use crate::frontend::tui::overlay::Overlay;
use crate::frontend::tui::streaming::Streaming;
use crate::frontend::tui::theme::Theme;
use crate::protocol::{
    ApprovalPolicy, CallId, Effect, FileChange, ModelName, ProcessId, ResponseItem, SandboxLevel,
    SandboxMode, SessionId, TokenUsage, TurnId,
};

/// Items of a turn's calls that are remembered, to change one before it runs.
const CALL_ITEMS_MAX: usize = 64;

/// What holds from start to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The session's directory, absolute.
    pub cwd: PathBuf,
    /// The user's home directory, for `~`.
    pub home: PathBuf,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// Models that can be chosen.
    pub models: Vec<String>,
    /// Where the key comes from, when it is missing: what to do.
    pub welcome: Option<String>,
}

/// What is known of the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionState {
    /// Its id.
    pub id: Option<SessionId>,
    /// The model that answers.
    pub model: ModelName,
    /// How hard it thinks.
    pub effort: Option<String>,
    /// When the user is asked.
    pub approval: ApprovalPolicy,
    /// What commands can reach.
    pub sandbox: SandboxMode,
    /// How well commands are confined here.
    pub level: Option<SandboxLevel>,
    /// Tokens of the session so far.
    pub usage: TokenUsage,
    /// Tokens of the newest request: what the window holds now.
    pub context_tokens: u64,
    /// The model's window.
    pub context_window: Option<u64>,
    /// Turns that changed files and were not undone, in order.
    pub changed_turns: Vec<TurnId>,
    /// Turns that were undone, the next to redo last.
    pub undone_turns: Vec<TurnId>,
    /// What the last turns changed, for `/diff`.
    pub changes: Vec<(TurnId, FileChange)>,
    /// The last words of the model.
    pub last_message: Option<String>,
    /// Commands that run beside the turn.
    pub processes: Vec<(ProcessId, String)>,
}

/// A turn that runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnState {
    /// When it began.
    pub started_ms: u64,
    /// What the model does when no call runs.
    pub phase: Phase,
    /// Tokens received in it.
    pub output_tokens: u64,
    /// Files it changed.
    pub files: Vec<PathBuf>,
    /// It was told to stop.
    pub is_stopping: bool,
    /// What to do about the error that came.
    pub hint: Option<String>,
    /// The error was shown already.
    pub error_shown: bool,
}

/// What the model does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// Nothing came yet.
    #[default]
    Waiting,
    /// It thinks.
    Thinking,
    /// It writes.
    Writing,
    /// It writes a call.
    Calling,
    /// The connection broke and is tried again.
    Retrying,
}

/// A call that runs.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    /// Its id.
    pub id: CallId,
    /// What it would do.
    pub effect: Effect,
    /// As it will be shown.
    pub cell: OpenCell,
    /// When it began.
    pub started_ms: u64,
    /// Files it changed, shown below it.
    pub changes: Vec<FileChange>,
}

/// The cell of a call that runs.
#[derive(Debug, Clone)]
pub(crate) enum OpenCell {
    /// A command.
    Command(CommandCell),
    /// Any other.
    Tool(ToolCell),
}

/// Words in the live line for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The words.
    pub text: String,
    /// Until when; any key ends it too.
    pub until_ms: u64,
}

/// The list of what could be completed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Completion {
    /// What is typed of it.
    pub query: Query,
    /// What it could be.
    pub items: Vec<CompletionItem>,
    /// The chosen one.
    pub at: usize,
    /// The files are still being listed.
    pub is_waiting: bool,
}

/// One completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletionItem {
    /// What is put in.
    pub name: String,
    /// What it is.
    pub about: String,
    /// It is typed whole already.
    pub is_typed: bool,
}

/// What is known of the files below the session's directory.
#[derive(Debug, Default)]
pub(crate) enum FileIndex {
    /// Nobody asked yet.
    #[default]
    Unknown,
    /// It is to be listed.
    Wanted,
    /// It is being listed.
    Listing,
    /// All of them.
    Known(Box<Finder>),
}

/// All that the screen knows.
#[derive(Debug)]
pub(crate) struct Model {
    /// What holds from start to end.
    pub facts: Facts,
    /// The terminal's size.
    pub size: Size,
    /// Colours.
    pub theme: Theme,
    /// The time.
    pub now_ms: u64,
    /// The session.
    pub session: SessionState,
    /// The turn that runs.
    pub turn: Option<TurnState>,
    /// Calls that run.
    pub calls: Vec<OpenCall>,
    /// The message that streams in.
    pub streaming: Option<Streaming>,
    /// Reasoning that streams in, and since when.
    pub reasoning: Option<(String, u64)>,
    /// Questions, the one that is shown first.
    pub asks: VecDeque<OpenAsk>,
    /// What lies over the conversation, the topmost last.
    pub overlays: Vec<Overlay>,
    /// Where the user writes.
    pub composer: Composer,
    /// Which key does what.
    pub keymap: Rc<Keymap>,
    /// The keys of a sequence that were pressed so far.
    pub pending_keys: Pending,
    /// Vim's keys are on.
    pub has_vim: bool,
    /// What could be completed.
    pub completion: Option<Completion>,
    /// The query whose list was closed.
    pub completion_closed: Option<Query>,
    /// The files below the session's directory.
    pub files: FileIndex,
    /// Messages that wait for the end of the turn.
    pub queue: Vec<String>,
    /// Words for a while.
    pub hint: Option<Hint>,
    /// When Ctrl-C came last.
    pub quit_pressed_ms: Option<u64>,
    /// When a key came last.
    pub key_ms: Option<u64>,
    /// Whether the window has the keyboard; `None` when the terminal does not tell.
    pub focused: Option<bool>,
    /// The program is ending.
    pub is_quitting: bool,
    /// The conversation, for the transcript.
    pub cells: Vec<Cell>,
    /// Cells that wait for the end of the message that streams.
    held: Vec<Cell>,
    /// Lines on their way to the terminal.
    printed: Vec<Line<'static>>,
    /// The items of calls, by id.
    call_items: VecDeque<(CallId, ResponseItem)>,
}

impl Model {
    /// Returns the screen before anything happened.
    pub(crate) fn new(facts: Facts, size: Size, theme: Theme) -> Self {
        Self {
            facts,
            size,
            theme,
            now_ms: 0,
            session: SessionState::default(),
            turn: None,
            calls: Vec::new(),
            streaming: None,
            reasoning: None,
            asks: VecDeque::new(),
            overlays: Vec::new(),
            composer: Composer::new(),
            keymap: Rc::new(Keymap::default()),
            pending_keys: Pending::default(),
            has_vim: false,
            completion: None,
            completion_closed: None,
            files: FileIndex::Unknown,
            queue: Vec::new(),
            hint: None,
            quit_pressed_ms: None,
            key_ms: None,
            focused: None,
            is_quitting: false,
            cells: Vec::new(),
            held: Vec::new(),
            printed: Vec::new(),
            call_items: VecDeque::new(),
        }
    }

    /// Returns what cells need to lay themselves out in the conversation.
    pub(crate) fn sheet(&self) -> Sheet<'_> {
        Sheet {
            width: self.size.width,
            theme: self.theme,
            cwd: &self.facts.cwd,
            folds: Folds::Closed,
        }
    }

    /// Adds a cell to the conversation and prints it. While a message streams it waits.
    pub(crate) fn add(&mut self, cell: Cell) {
        if self.streaming.is_some() {
            self.held.push(cell);
            return;
        }
        self.print(cell);
    }

    fn print(&mut self, cell: Cell) {
        let lines = cell.lines(self.sheet());
        let joins = self.cells.last().is_some_and(|before| cell.joins(before));
        if !self.cells.is_empty() && !joins {
            self.printed.push(Line::default());
        }
        self.printed.extend(lines);
        self.cells.push(cell);
    }

    /// Takes in a piece of the message that streams.
    pub(crate) fn stream(&mut self, text: &str) {
        self.streaming.get_or_insert_default().push(text);
    }

    /// Lays out what streamed in since: lines that are final are printed. Called before a frame.
    pub(crate) fn settle(&mut self) {
        let Some(mut streaming) = self.streaming.take() else { return };
        let lines = streaming.settle(self.size.width, self.theme);
        self.print_streamed(&mut streaming, lines);
        self.streaming = Some(streaming);
    }

    /// Ends the message that streams, as the text that is now known to be whole.
    pub(crate) fn end_stream(&mut self, whole: Option<String>) {
        if let Some(mut streaming) = self.streaming.take() {
            let (cell, rest) = streaming.finish(whole, self.size.width, self.theme);
            self.print_streamed(&mut streaming, rest);
            if let Some(cell) = cell {
                self.cells.push(cell);
            }
        } else if let Some(text) = whole.filter(|text| !text.trim().is_empty()) {
            self.print(Streaming::whole_cell(&text));
        }
        for cell in std::mem::take(&mut self.held) {
            self.print(cell);
        }
    }

    fn print_streamed(&mut self, streaming: &mut Streaming, lines: Vec<Line<'static>>) {
        if lines.is_empty() {
            return;
        }
        if streaming.begin_printing() && !self.cells.is_empty() {
            self.printed.push(Line::default());
        }
        self.printed.extend(lines);
    }

    /// Returns the lines that are to go into the terminal's scrollback, each once.
    pub(crate) fn take_printed(&mut self) -> Vec<Line<'static>> {
        std::mem::take(&mut self.printed)
    }

    /// Returns whether something moves on the screen by itself, so that time matters.
    pub(crate) fn is_moving(&self) -> bool {
        self.turn.is_some() || self.hint.is_some()
    }

    /// Shows words in the live line for a while.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        /// Long enough to read a short line.
        const HINT_MS: u64 = 4_000;
        self.hint = Some(Hint { text: text.into(), until_ms: self.now_ms + HINT_MS });
    }

    /// Remembers the item of a call.
    pub(crate) fn remember_call(&mut self, id: CallId, item: ResponseItem) {
        if self.call_items.len() >= CALL_ITEMS_MAX {
            self.call_items.pop_front();
        }
        self.call_items.push_back((id, item));
    }

    /// Returns the item of a call.
    pub(crate) fn call_item(&self, id: &CallId) -> Option<&ResponseItem> {
        self.call_items.iter().rev().find(|(known, _)| known == id).map(|(_, item)| item)
    }

    /// Ends what a log left open: nothing of it runs any more.
    pub(crate) fn end_replay(&mut self) {
        self.end_stream(None);
        self.turn = None;
        self.calls.clear();
        self.reasoning = None;
        self.asks.clear();
        self.queue.clear();
        self.session.processes.clear();
    }

    /// Begins a conversation anew, in another session.
    pub(crate) fn start_over(&mut self) {
        let session = SessionState {
            model: self.session.model.clone(),
            effort: self.session.effort.clone(),
            approval: self.session.approval,
            sandbox: self.session.sandbox,
            level: self.session.level,
            ..SessionState::default()
        };
        self.end_stream(None);
        self.session = session;
        self.turn = None;
        self.calls.clear();
        self.reasoning = None;
        self.asks.clear();
        self.queue.clear();
        self.call_items.clear();
        self.cells.clear();
    }
}
