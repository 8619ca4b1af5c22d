//! Vim's keys: normal mode, operators, counts.
//!
//! Characters typed in normal mode come here; keys with Ctrl and the arrows stay actions. What
//! is cut goes into the same ring as everywhere, whole lines with their newline. A part of the
//! composer, on only when the user wants it.

use std::ops::Range;

use crate::frontend::tui::composer::graphemes::{self, part};
use crate::frontend::tui::composer::state::{Composer, Last, Outcome, TEXT_BYTES_MAX};
use crate::frontend::tui::composer::undo::Run;
use crate::frontend::tui::composer::vim_motion::{self, Reach};
use crate::frontend::tui::keymap::Action;

/// A larger count is a slip of the finger.
const COUNT_MAX: usize = 9_999;

/// Whether characters are text or commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    /// Text: one starts by typing.
    #[default]
    Insert,
    /// Commands.
    Normal,
}

/// What vim's keys have said so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Vim {
    mode: Mode,
    count: Option<usize>,
    /// The operator that waits for a motion, and the count before it.
    operator: Option<(char, Option<usize>)>,
    /// `g` or `r`, which wait for one more key.
    prefix: Option<char>,
}

impl Vim {
    /// Forgets a command that was begun. Returns whether one was.
    fn reset(&mut self) -> bool {
        let begun = self.count.is_some() || self.operator.is_some() || self.prefix.is_some();
        (self.count, self.operator, self.prefix) = (None, None, None);
        begun
    }
}

impl Composer {
    /// Returns whether characters are commands.
    pub(super) fn in_normal_mode(&self) -> bool {
        self.vim.as_ref().is_some_and(|vim| vim.mode == Mode::Normal)
    }

    /// Returns what to show of vim: the mode, and the keys that wait for more.
    pub(crate) fn vim_state(&self) -> Option<String> {
        let vim = self.vim.as_ref()?;
        if vim.mode == Mode::Insert {
            return Some("insert".to_owned());
        }
        let number = |count: Option<usize>| count.map(|n| n.to_string()).unwrap_or_default();
        let operator =
            vim.operator.map(|(key, count)| format!("{}{key}", number(count))).unwrap_or_default();
        let prefix = vim.prefix.map(String::from).unwrap_or_default();
        let keys = format!("{operator}{}{prefix}", number(vim.count));
        Some(if keys.is_empty() { "normal".to_owned() } else { format!("normal {keys}") })
    }

    /// Esc: from insert to normal mode, or out of a command that was begun.
    pub(super) fn escape(&mut self) -> Outcome {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let Some(vim) = self.vim.as_mut() else { return Outcome::Ignored };
        if vim.mode == Mode::Normal {
            return if vim.reset() { Outcome::Moved } else { Outcome::Ignored };
        }
        vim.mode = Mode::Normal;
        let left = graphemes::previous(text, at).max(graphemes::line_start(text, at));
        self.buffer.log.close();
        self.buffer.move_to(left);
        Outcome::Moved
    }

    /// In normal mode the cursor stands on a character, not behind the last.
    pub(super) fn stay_on_text(&mut self) {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        if at == graphemes::line_end(text, at) && at > graphemes::line_start(text, at) {
            let on = graphemes::previous(text, at);
            self.buffer.move_to(on);
        }
    }

    /// Takes one character in normal mode, or as text once a command has begun insert mode.
    pub(super) fn vim_key(&mut self, key: char) -> Outcome {
        let Some(vim) = self.vim.as_mut().filter(|vim| vim.mode == Mode::Normal) else {
            return self.insert(key.encode_utf8(&mut [0; 4]));
        };
        if vim.prefix.is_none()
            && let Some(digit) = key.to_digit(10).filter(|d| *d > 0 || vim.count.is_some())
        {
            let count = vim.count.unwrap_or(0).saturating_mul(10) + digit as usize;
            vim.count = Some(count.min(COUNT_MAX));
            return Outcome::Moved;
        }
        match (vim.prefix.take(), key) {
            (Some('r'), key) => return self.replace_letters(key),
            (Some(_), 'g') => return self.motion('g'),
            (Some(_), _) => {
                vim.reset();
                return Outcome::Nothing;
            }
            (None, 'g') => vim.prefix = Some('g'),
            (None, 'r') if vim.operator.is_none() => vim.prefix = Some('r'),
            (None, 'd' | 'c' | 'y') => return self.operator(key),
            (None, key) => return self.command(key),
        }
        Outcome::Moved
    }

    /// Begins an operator, or takes whole lines when it is pressed twice.
    fn operator(&mut self, key: char) -> Outcome {
        let Some(vim) = self.vim.as_mut() else { return Outcome::Ignored };
        match vim.operator {
            None => {
                vim.operator = Some((key, vim.count.take()));
                Outcome::Moved
            }
            Some((begun, _)) if begun == key => self.motion('_'),
            Some(_) => {
                vim.reset();
                Outcome::Nothing
            }
        }
    }

    /// A motion, alone or after an operator.
    fn motion(&mut self, key: char) -> Outcome {
        let Some(vim) = self.vim.as_mut() else { return Outcome::Ignored };
        let (operator, before) = match vim.operator {
            Some((key, count)) => (Some(key), count),
            None => (None, None),
        };
        let counted = vim.count.is_some() || before.is_some();
        let count = (vim.count.unwrap_or(1) * before.unwrap_or(1)).min(COUNT_MAX);
        vim.reset();
        match (operator, key) {
            (None, 'k') => return self.repeat(Action::Up, count),
            (None, 'j') => return self.repeat(Action::Down, count),
            _ => {}
        }
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        // `cw` ends with the word, as `ce` does.
        let key = match (operator, key) {
            (Some('c'), 'w') if vim_motion::on_word(text, at) => 'e',
            (Some('c'), 'W') if vim_motion::on_word(text, at) => 'E',
            (_, key) => key,
        };
        let stay = operator == Some('c');
        let Some(found) = vim_motion::find(text, at, key, (counted.then_some(count), stay)) else {
            return Outcome::Nothing;
        };
        match operator {
            None if found.to == at => Outcome::Nothing,
            None => {
                self.buffer.move_to(found.to);
                Outcome::Moved
            }
            Some(operator) => {
                let range = vim_motion::stretch(text, at, found, key);
                self.operate(operator, range, found.reach)
            }
        }
    }

    /// Deletes, changes or copies a stretch.
    fn operate(&mut self, operator: char, range: Range<usize>, reach: Reach) -> Outcome {
        let lines = reach == Reach::Lines;
        let mut cut = part(self.buffer.text(), range.clone()).to_owned();
        if lines && !cut.ends_with('\n') {
            cut.push('\n');
        }
        self.kills.push(&cut);
        match operator {
            'y' => {
                let to = if lines { self.buffer.cursor().min(range.start) } else { range.start };
                self.buffer.move_to(to);
                Outcome::Moved
            }
            'c' => {
                self.begin_insert();
                let keeps_newline =
                    lines && part(self.buffer.text(), range.clone()).ends_with('\n');
                let end = if keeps_newline { range.end - 1 } else { range.end };
                self.buffer.replace(range.start..end, "", Run::Alone);
                Outcome::Edited
            }
            _ if lines => self.delete_lines(range),
            _ => did(self.buffer.replace(range, "", Run::Alone)),
        }
    }

    /// Whole lines go with one newline, and the cursor to the first letter of the next.
    fn delete_lines(&mut self, range: Range<usize>) -> Outcome {
        let text = self.buffer.text();
        let last = range.end == text.len() && !part(text, range.clone()).ends_with('\n');
        let start = if last { range.start.saturating_sub(1) } else { range.start };
        let outcome = did(self.buffer.replace(start..range.end, "", Run::Alone));
        let to = vim_motion::first_letter(self.buffer.text(), self.buffer.cursor());
        self.buffer.move_to(to);
        outcome
    }

    /// Commands that are no motions and no operators.
    fn command(&mut self, key: char) -> Outcome {
        let Some(vim) = self.vim.as_mut() else { return Outcome::Ignored };
        if vim.operator.is_some() || vim_motion::is_motion(key) {
            return self.motion(key);
        }
        let count = vim.count.unwrap_or(1);
        vim.reset();
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let end = graphemes::line_end(text, at);
        match key {
            'x' => self.operate('d', at..steps_right(text, at, count).min(end), Reach::Before),
            'X' => {
                let start = (0..count).fold(at, |at, _| graphemes::previous(text, at));
                let start = start.max(graphemes::line_start(text, at));
                self.operate('d', start..at, Reach::Before)
            }
            'D' => self.operate('d', at..end, Reach::Before),
            'C' => self.operate('c', at..end, Reach::Before),
            'p' | 'P' => self.put_back(key, count),
            'u' => self.repeat(Action::Undo, count),
            'i' | 'a' | 'I' | 'A' | 'o' | 'O' => self.insert_at(key),
            _ => Outcome::Nothing,
        }
    }

    fn repeat(&mut self, action: Action, count: usize) -> Outcome {
        let mut outcome = Outcome::Nothing;
        for _ in 0..count {
            match self.apply(action) {
                Outcome::Nothing => break,
                did => outcome = did,
            }
        }
        outcome
    }

    /// `r`: puts a letter in place of each of `count`.
    fn replace_letters(&mut self, letter: char) -> Outcome {
        let count = self.vim.as_ref().and_then(|vim| vim.count).unwrap_or(1);
        if let Some(vim) = self.vim.as_mut() {
            vim.reset();
        }
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let line = part(text, at..graphemes::line_end(text, at));
        let room = line.len() >= count && steps_right(line, 0, count - 1) < line.len();
        if !room || letter.is_control() {
            return Outcome::Nothing;
        }
        let end = steps_right(text, at, count);
        let letters = letter.to_string().repeat(count);
        let letters = self.tokens.admit(&letters).into_owned();
        let outcome = did(self.buffer.replace(at..end, &letters, Run::Alone));
        let on = graphemes::previous(self.buffer.text(), self.buffer.cursor());
        self.buffer.move_to(on);
        outcome
    }

    /// `p` and `P`: puts back what was cut last, whole lines as lines.
    fn put_back(&mut self, key: char, count: usize) -> Outcome {
        let Some(cut) = self.kills.newest().map(str::to_owned) else { return Outcome::Nothing };
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        if text.len() + cut.len().saturating_mul(count) > TEXT_BYTES_MAX {
            return Outcome::Full;
        }
        let (start, end) = (graphemes::line_start(text, at), graphemes::line_end(text, at));
        let put = cut.repeat(count);
        if let Some(lines) = put.strip_suffix('\n') {
            let (place, put) = match key {
                'P' => (start, put.clone()),
                _ => (end, format!("\n{lines}")),
            };
            self.buffer.replace(place..place, &put, Run::Alone);
            let first = if key == 'P' { place } else { place + 1 };
            self.buffer.move_to(vim_motion::first_letter(self.buffer.text(), first));
        } else {
            let place = if key == 'P' { at } else { graphemes::next(text, at).min(end) };
            self.buffer.replace(place..place, &put, Run::Alone);
            let on = graphemes::previous(self.buffer.text(), self.buffer.cursor());
            self.buffer.move_to(on);
        }
        Outcome::Edited
    }

    /// Begins insert mode at the cursor or near it.
    fn insert_at(&mut self, key: char) -> Outcome {
        self.begin_insert();
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let (start, end) = (graphemes::line_start(text, at), graphemes::line_end(text, at));
        match key {
            'a' => self.buffer.move_to(graphemes::next(text, at).min(end)),
            'I' => self.buffer.move_to(vim_motion::first_letter(text, at)),
            'A' => self.buffer.move_to(end),
            'o' => self.buffer.replace(end..end, "\n", Run::Alone),
            'O' => {
                self.buffer.replace(start..start, "\n", Run::Alone) && self.buffer.move_to(start)
            }
            _ => true,
        };
        if matches!(key, 'o' | 'O') { Outcome::Edited } else { Outcome::Moved }
    }

    /// All that is written until Esc is undone together.
    pub(super) fn begin_insert(&mut self) {
        self.buffer.log.open(self.buffer.cursor());
        self.last = Last::Other;
        if let Some(vim) = self.vim.as_mut() {
            vim.reset();
            vim.mode = Mode::Insert;
        }
    }
}

fn steps_right(text: &str, at: usize, count: usize) -> usize {
    (0..count).fold(at, |at, _| graphemes::next(text, at))
}

fn did(changed: bool) -> Outcome {
    if changed { Outcome::Edited } else { Outcome::Nothing }
}
