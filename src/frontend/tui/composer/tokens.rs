//! What stands in the text as one character but means more: long pastes and images.
//!
//! A token is one character of a reserved range, so the cursor, deleting and undo treat it as
//! one without knowing. A character of that range that someone types becomes a token for
//! itself, so no text is ever changed by the way. Knows no screen and no file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::text::ansi::{is_invisible, visible_line};
use crate::text::truncate::grouped;

/// The reserved range: the last half of the last private plane, which hardly anyone uses.
const FIRST: u32 = 0x10_8000;
const LAST: u32 = 0x10_FFFD;
/// Letters of a file's name in a label.
const NAME_CHARS_MAX: usize = 40;

/// What one character of the text stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A long paste.
    Paste(Paste),
    /// An image.
    Image { number: usize, path: PathBuf, label: String },
    /// The character itself, which happens to be in the reserved range.
    Literal(char),
}

/// A long paste, and what its label says of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Paste {
    pub(super) text: String,
    number: usize,
    newlines: usize,
    characters: usize,
    hidden: usize,
    label: String,
}

impl Token {
    /// Returns what stands for it on the screen; a literal stands for itself.
    pub(super) fn label(&self) -> Option<&str> {
        match self {
            Self::Paste(paste) => Some(&paste.label),
            Self::Image { label, .. } => Some(label),
            Self::Literal(_) => None,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paste(Paste { label, .. }) | Self::Image { label, .. } => f.write_str(label),
            Self::Literal(c) => write!(f, "{c}"),
        }
    }
}

/// The tokens of a composer.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    held: BTreeMap<char, Token>,
    next: u32,
    /// Of all pastes together.
    bytes: usize,
}

fn is_reserved(c: char) -> bool {
    (FIRST..=LAST).contains(&u32::from(c))
}

impl Tokens {
    /// Returns what the character stands for.
    pub(super) fn get(&self, c: char) -> Option<&Token> {
        if is_reserved(c) { self.held.get(&c) } else { None }
    }

    /// Returns how many bytes all pastes hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the character that stands for a paste from now on; `None` when none is free.
    /// Its number is the next one in `beside`, the text it comes into.
    pub(super) fn add_paste(&mut self, text: &str, beside: &str) -> Option<char> {
        let number = |token: &Token| match token {
            Token::Paste(paste) => Some(paste.number),
            _ => None,
        };
        let number = self.next_number(beside, number);
        let mut paste = Paste { number, ..Paste::default() };
        paste.push(text);
        self.bytes += text.len();
        self.add(Token::Paste(paste))
    }

    /// Adds the rest of a paste that came in parts. Returns whether the character is a paste.
    pub(super) fn extend_paste(&mut self, c: char, more: &str) -> bool {
        let Some(Token::Paste(paste)) = self.held.get_mut(&c) else { return false };
        paste.push(more);
        self.bytes += more.len();
        true
    }

    /// Returns the character that stands for an image from now on; `None` when none is free.
    pub(super) fn add_image(&mut self, path: &Path, beside: &str) -> Option<char> {
        let number = |token: &Token| match token {
            Token::Image { number, .. } => Some(*number),
            _ => None,
        };
        let number = self.next_number(beside, number);
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let name: String = visible_line(&name).chars().take(NAME_CHARS_MAX).collect();
        let label = format!("[image {number}: {name}]");
        self.add(Token::Image { number, path: path.to_owned(), label })
    }

    fn next_number(&self, beside: &str, number: impl Fn(&Token) -> Option<usize>) -> usize {
        let used = beside.chars().filter_map(|c| self.get(c)).filter_map(number);
        used.max().unwrap_or(0) + 1
    }

    fn add(&mut self, token: Token) -> Option<char> {
        let room = LAST - FIRST + 1;
        let free = (0..room)
            .map(|step| FIRST + (self.next + step) % room)
            .filter_map(char::from_u32)
            .find(|c| !self.held.contains_key(c))?;
        self.next = (u32::from(free) - FIRST + 1) % room;
        self.held.insert(free, token);
        Some(free)
    }

    /// Makes text from outside fit to be held: newlines are `\n`, reserved characters tokens.
    pub(super) fn admit<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let text = if text.contains('\r') {
            Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
        } else {
            Cow::Borrowed(text)
        };
        if text.is_ascii() || !text.chars().any(is_reserved) {
            return text;
        }
        let admitted = text.chars().map(|c| if is_reserved(c) { self.literal(c) } else { c });
        Cow::Owned(admitted.collect())
    }

    fn literal(&mut self, c: char) -> char {
        let known = self.held.iter().find(|(_, token)| **token == Token::Literal(c));
        let known = known.map(|(token, _)| *token);
        known.or_else(|| self.add(Token::Literal(c))).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Returns the text as it is sent: pastes in full, images by their label.
    pub(super) fn unfold(&self, text: &str) -> String {
        let mut unfolded = String::with_capacity(text.len());
        for c in text.chars() {
            match self.get(c) {
                None => unfolded.push(c),
                Some(Token::Paste(paste)) => unfolded.push_str(&paste.text),
                Some(Token::Image { label, .. }) => unfolded.push_str(label),
                Some(Token::Literal(c)) => unfolded.push(*c),
            }
        }
        unfolded
    }

    /// Returns how many bytes a text has with its pastes in full.
    pub(super) fn bytes_of(&self, text: &str) -> usize {
        let tokens = text.chars().filter_map(|c| self.get(c));
        let pastes = tokens.map(|token| match token {
            Token::Paste(paste) => paste.text.len(),
            Token::Image { .. } | Token::Literal(_) => 0,
        });
        text.len() + if text.is_ascii() { 0 } else { pastes.sum() }
    }

    /// Returns the images of a text in the order of their numbers.
    pub(super) fn images(&self, text: &str) -> Vec<PathBuf> {
        let mut images: Vec<(usize, &PathBuf)> = Vec::new();
        for token in text.chars().filter_map(|c| self.get(c)) {
            if let Token::Image { number, path, .. } = token
                && !images.contains(&(*number, path))
            {
                images.push((*number, path));
            }
        }
        images.sort_by_key(|(number, _)| *number);
        images.into_iter().map(|(_, path)| path.clone()).collect()
    }

    /// Puts the images of `before` where their labels still stand in a text that went through
    /// other hands, an editor's.
    pub(super) fn relink(&self, text: &str, before: &str) -> String {
        let mut linked = text.to_owned();
        for c in before.chars() {
            if let Some(Token::Image { label, .. }) = self.get(c) {
                linked = linked.replacen(label, c.encode_utf8(&mut [0; 4]), 1);
            }
        }
        linked
    }

    /// Forgets the tokens that none of the texts holds.
    pub(super) fn sweep<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        let used: BTreeSet<char> = texts.flat_map(str::chars).filter(|c| is_reserved(*c)).collect();
        self.held.retain(|c, _| used.contains(c));
        let bytes = self.held.values().map(|token| match token {
            Token::Paste(paste) => paste.text.len(),
            Token::Image { .. } | Token::Literal(_) => 0,
        });
        self.bytes = bytes.sum();
    }
}

impl Paste {
    /// Adds text and says in the label what the paste holds, also what cannot be seen of it.
    fn push(&mut self, text: &str) {
        let hidden = |c: &char| is_invisible(*c) || c.is_control() && !matches!(c, '\n' | '\t');
        self.text.push_str(text);
        self.newlines += text.matches('\n').count();
        self.characters += text.chars().count();
        self.hidden += text.chars().filter(hidden).count();
        let lines = self.newlines + usize::from(!self.text.ends_with('\n'));
        let size = match lines {
            0 | 1 => format!("{} characters", grouped(self.characters)),
            lines => format!("{} lines", grouped(lines)),
        };
        let number = self.number;
        self.label = match self.hidden {
            0 => format!("[paste {number}: {size}]"),
            hidden => format!("[paste {number}: {size}, {} invisible]", grouped(hidden)),
        };
    }
}
