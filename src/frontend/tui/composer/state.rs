//! The composer: what holds the message that is being written, and what comes into it.
//!
//! Text comes in by `insert`, `paste` and `attach`, actions by `apply` (its own file), and the
//! message leaves by `take`. Knows no terminal, no file and no clock. Owned by the model.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::frontend::tui::composer::buffer::Buffer;
use crate::frontend::tui::composer::graphemes;
use crate::frontend::tui::composer::history::{History, Search};
use crate::frontend::tui::composer::kill::KillRing;
use crate::frontend::tui::composer::layout::Layout;
use crate::frontend::tui::composer::paths::image_paths;
use crate::frontend::tui::composer::query::{self, Kind, Query};
use crate::frontend::tui::composer::tokens::Tokens;
use crate::frontend::tui::composer::undo::Run;
use crate::frontend::tui::composer::view::window;
use crate::frontend::tui::composer::vim::Vim;
use crate::frontend::tui::keymap::Context;

/// A paste of more lines than this folds into a token.
pub(super) const PASTE_LINES_MAX: usize = 12;
/// A paste of more characters than this folds into a token.
pub(super) const PASTE_CHARS_MAX: usize = 1_000;
/// Bytes of the text itself; a key may move all of them once.
pub(super) const TEXT_BYTES_MAX: usize = 8 << 20;
/// Bytes of all folded pastes.
pub(super) const PASTES_BYTES_MAX: usize = 64 << 20;

/// What an action or a text came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is not the composer's; someone else may act.
    Ignored,
    /// There was nothing to do.
    Nothing,
    /// Only what is shown changed.
    Moved,
    /// The text changed.
    Edited,
    /// The message is to be taken and sent.
    Send,
    /// It does not fit; nothing changed.
    Full,
}

/// A message as it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Draft {
    /// What it is, by how it begins.
    pub kind: Kind,
    /// The text, with pastes in full and a label for each image.
    pub text: String,
    /// The images in the order of their numbers.
    pub images: Vec<PathBuf>,
}

/// What the last action was, where the next one depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Last {
    #[default]
    Other,
    Kill,
    Yank(Range<usize>),
    Paste(Range<usize>),
}

/// The message that is being written.
#[derive(Debug, Clone)]
pub(crate) struct Composer {
    pub(super) buffer: Buffer,
    pub(super) tokens: Tokens,
    pub(super) kills: KillRing,
    pub(super) history: History,
    pub(super) search: Option<Search>,
    pub(super) vim: Option<Vim>,
    pub(super) last: Last,
    /// The column that going up and down keeps to.
    pub(super) goal: Option<usize>,
    size: (u16, u16),
    /// The place in the first row of the window.
    top: usize,
}

impl Default for Composer {
    fn default() -> Self {
        Self {
            buffer: Buffer::default(),
            tokens: Tokens::default(),
            kills: KillRing::default(),
            history: History::default(),
            search: None,
            vim: None,
            last: Last::Other,
            goal: None,
            size: (80, 10),
            top: 0,
        }
    }
}

impl Composer {
    /// Returns an empty composer.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Says how wide and how high at most it is shown. Going up and down goes by rows.
    pub(crate) fn fit(&mut self, width: u16, height_max: u16) {
        self.size = (width.max(1), height_max.max(1));
        self.follow();
    }

    /// Sets the earlier messages, oldest first.
    pub(crate) fn history(&mut self, messages: Vec<String>) {
        let tokens = &mut self.tokens;
        let admit = |message: String| match tokens.admit(&message) {
            Cow::Borrowed(_) => message,
            Cow::Owned(admitted) => admitted,
        };
        let messages = messages.into_iter().map(admit).collect();
        self.history.set(messages);
    }

    /// Takes text as it is typed: into the message, the search, or as vim's commands.
    pub(crate) fn insert(&mut self, text: &str) -> Outcome {
        if self.search.is_some() {
            return self.search_for(text);
        }
        if self.in_normal_mode() {
            let mut outcome = Outcome::Nothing;
            for c in text.chars() {
                outcome = self.vim_key(c);
            }
            self.goal = None;
            self.settle();
            return outcome;
        }
        self.last = Last::Other;
        let outcome = self.put(text, Run::Typing);
        self.goal = None;
        self.settle();
        outcome
    }

    /// Takes a paste: as it is when short, else folded into a token.
    pub(crate) fn paste(&mut self, text: &str) -> Outcome {
        if self.in_normal_mode() {
            // What is pasted is text, never commands; and one goes on writing behind it.
            self.begin_insert();
        }
        self.buffer.log.seal();
        let at = self.buffer.cursor();
        self.last = Last::Paste(at..at);
        self.paste_more(text)
    }

    /// Takes the next part of a paste that came in parts.
    pub(crate) fn paste_more(&mut self, text: &str) -> Outcome {
        if self.search.is_some() {
            return self.search_for(text.lines().next().unwrap_or_default());
        }
        let cursor = self.buffer.cursor();
        let start = match &self.last {
            Last::Paste(range) if range.end == cursor => range.start,
            _ => cursor,
        };
        if self.tokens.bytes() + text.len() > PASTES_BYTES_MAX {
            return Outcome::Full;
        }
        let text = self.tokens.admit(text).into_owned();
        let so_far = graphemes::part(self.buffer.text(), start..cursor).to_owned();
        let token = so_far.chars().next().filter(|c| so_far.len() == c.len_utf8());
        if token.is_some_and(|c| self.tokens.extend_paste(c, &self.tokens.unfold(&text))) {
            return Outcome::Edited;
        }
        let whole = so_far + &text;
        let long =
            whole.lines().count() > PASTE_LINES_MAX || whole.chars().nth(PASTE_CHARS_MAX).is_some();
        let outcome = if long {
            self.fold(start..cursor, &whole)
        } else {
            self.put_admitted(&text, Run::Pasting)
        };
        self.last = Last::Paste(start..self.buffer.cursor());
        self.goal = None;
        self.settle();
        outcome
    }

    /// Puts a token for a text in place of a stretch.
    fn fold(&mut self, range: Range<usize>, text: &str) -> Outcome {
        let text = self.tokens.unfold(text);
        let Some(token) = self.tokens.add_paste(&text, self.buffer.text()) else {
            return Outcome::Full;
        };
        self.buffer.replace(range, token.encode_utf8(&mut [0; 4]), Run::Pasting);
        Outcome::Edited
    }

    /// Attaches an image at the cursor.
    pub(crate) fn attach(&mut self, path: &Path) -> Outcome {
        let Some(token) = self.tokens.add_image(path, self.buffer.text()) else {
            return Outcome::Full;
        };
        let at = self.buffer.cursor();
        self.buffer.log.seal();
        self.last = Last::Other;
        self.buffer.replace(at..at, token.encode_utf8(&mut [0; 4]), Run::Alone);
        self.settle();
        Outcome::Edited
    }

    /// Takes a paste, or attaches the images it names when `is_file` holds for all of them.
    pub(crate) fn paste_or_attach(
        &mut self,
        text: &str,
        is_file: impl Fn(&Path) -> bool,
    ) -> Outcome {
        let paths = image_paths(text).unwrap_or_default();
        if self.search.is_some() || paths.is_empty() || !paths.iter().all(|path| is_file(path)) {
            return self.paste(text);
        }
        let mut outcome = Outcome::Nothing;
        for path in paths {
            outcome = self.attach(&path);
        }
        outcome
    }

    /// Puts text at the cursor.
    fn put(&mut self, text: &str, run: Run) -> Outcome {
        let text = self.tokens.admit(text).into_owned();
        self.put_admitted(&text, run)
    }

    fn put_admitted(&mut self, text: &str, run: Run) -> Outcome {
        if text.is_empty() {
            return Outcome::Nothing;
        }
        if self.buffer.text().len() + text.len() > TEXT_BYTES_MAX {
            return Outcome::Full;
        }
        let at = self.buffer.cursor();
        self.buffer.replace(at..at, text, run);
        Outcome::Edited
    }

    /// Replaces everything, as one step that can be undone; images stay where their labels do.
    pub(crate) fn set_text(&mut self, text: &str) -> Outcome {
        let text = self.tokens.admit(text).into_owned();
        let text = self.tokens.relink(&text, self.buffer.text());
        self.put_whole(&text)
    }

    /// Replaces everything by text that may hold tokens.
    pub(super) fn put_whole(&mut self, text: &str) -> Outcome {
        if text.len() > TEXT_BYTES_MAX {
            return Outcome::Full;
        }
        self.buffer.log.seal();
        self.last = Last::Other;
        self.goal = None;
        let whole = 0..self.buffer.text().len();
        let changed = self.buffer.replace(whole, text, Run::Alone);
        self.settle();
        if changed { Outcome::Edited } else { Outcome::Nothing }
    }

    /// Empties the draft, as one step that can be undone.
    pub(crate) fn clear(&mut self) -> Outcome {
        self.search = None;
        self.put_whole("")
    }

    /// Takes the message out. It becomes the newest of the earlier ones.
    pub(crate) fn take(&mut self) -> Draft {
        let folded = std::mem::take(&mut self.buffer);
        let text = self.tokens.unfold(folded.text());
        let images = self.tokens.images(folded.text());
        self.history.sent(folded.text(), |message| self.tokens.bytes_of(message));
        self.search = None;
        self.vim = self.vim.as_ref().map(|_| Vim::default());
        self.last = Last::Other;
        self.goal = None;
        self.top = 0;
        self.tokens.sweep(self.history.texts().chain(self.kills.texts()));
        Draft { kind: Kind::of(&text), text, images }
    }

    /// Returns the text in full, as an editor gets it.
    pub(crate) fn text(&self) -> String {
        self.tokens.unfold(self.buffer.text())
    }

    /// Returns whether nothing is typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.text().is_empty()
    }

    /// Returns what kind of message is being written.
    pub(crate) fn kind(&self) -> Kind {
        Kind::of(self.buffer.text())
    }

    /// Returns where its keys are looked up.
    pub(crate) fn context(&self) -> Context {
        match () {
            () if self.search.is_some() => Context::Search,
            () if self.in_normal_mode() => Context::VimNormal,
            () if self.is_empty() => Context::EmptyComposer,
            () => Context::Composer,
        }
    }

    /// Returns what could be completed at the cursor.
    pub(crate) fn query(&self) -> Option<Query> {
        if self.search.is_some() || self.in_normal_mode() {
            return None;
        }
        query::query_at(self.buffer.text(), self.buffer.cursor()).map(|(query, _)| query)
    }

    /// Puts a completion in place of what was typed of it.
    pub(crate) fn complete(&mut self, replacement: &str) -> Outcome {
        let found = query::query_at(self.buffer.text(), self.buffer.cursor());
        let Some((query, range)) = found else { return Outcome::Nothing };
        let mut text = self.tokens.admit(&query::completed(&query, replacement)).into_owned();
        let spaced = graphemes::first(self.buffer.text(), range.end) == Some(' ');
        // A directory is completed further.
        if !spaced && !replacement.ends_with('/') {
            text.push(' ');
        }
        self.buffer.log.seal();
        self.last = Last::Other;
        self.buffer.replace(range, &text, Run::Alone);
        if spaced {
            self.buffer.move_to(self.buffer.cursor() + 1);
        }
        self.settle();
        Outcome::Edited
    }

    /// Switches vim's keys on or off.
    pub(crate) fn set_vim(&mut self, vim: VimKeys) {
        self.vim = match vim {
            VimKeys::On => Some(Vim::default()),
            VimKeys::Off => None,
        };
        self.buffer.log.close();
    }

    /// Returns the text that is shown and the width it is laid out for.
    pub(super) fn layout(&self, width: u16) -> Layout<'_> {
        let text = self.found_message().unwrap_or(self.buffer.text());
        Layout { text, tokens: &self.tokens, width: usize::from(width.max(1)) }
    }

    /// Returns the width that going up and down goes by.
    pub(super) fn width(&self) -> u16 {
        self.size.0
    }

    pub(super) fn top(&self) -> usize {
        self.top
    }

    /// Brings cursor and window into order after a change.
    pub(super) fn settle(&mut self) {
        if self.in_normal_mode() {
            self.stay_on_text();
        }
        self.follow();
    }

    fn follow(&mut self) {
        let layout = self.layout(self.size.0);
        let shown = window(&layout, self.cursor(), self.top, usize::from(self.size.1));
        self.top = shown.rows.first().map_or(0, |row| row.start);
    }
}

/// Whether vim's keys are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum VimKeys {
    /// They are.
    On,
    /// They are not.
    #[default]
    Off,
}
