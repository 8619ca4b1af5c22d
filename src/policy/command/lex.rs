//! The tokenizer: a line for a shell becomes calls of words, and the first thing not understood.
//!
//! Understood are words, quotes without expansion, `&& || ; |` and newlines, redirections to
//! `/dev/null` and between descriptors. What is more is `odd`: such a line is never taken as
//! harmless. It is read on all the same, as far as that goes, so that rules see the commands
//! in it. Linear in the text, bounded in depth. Called by `judge.rs` and `parts.rs`.

use crate::text::ansi::is_invisible;

/// Nested substitutions deeper than this are not read.
const DEPTH_MAX: usize = 24;

/// Letters of a name in braces, as in `HEAD^{commit}`.
const BRACED_NAME_MAX: usize = 32;

/// Characters that stand for themselves outside quotes, beside ASCII letters and digits.
const PLAIN: &str = "-_./,:=+@%^~#";

/// A line as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its commands in order, those within substitutions first.
    pub(crate) calls: Vec<Call>,
    /// The first thing in it that is not understood.
    pub(crate) odd: Option<Odd>,
    /// Whether parts of it were not read at all.
    pub(crate) unread: bool,
    /// Texts that here-documents and here-strings feed to commands.
    pub(crate) fed: Vec<String>,
    /// Files that it redirects to or from.
    pub(crate) files: Vec<Word>,
}

/// What is not understood, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Odd {
    /// As a clause: "it expands a variable".
    pub(crate) reason: &'static str,
    /// The byte it starts at.
    pub(crate) at: usize,
}

/// One command: its program and arguments, assignments in front included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its words.
    pub(crate) words: Vec<Word>,
    /// Whether a pipe feeds it.
    pub(crate) piped: bool,
}

/// A word, its quotes gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// What the command gets, where nothing in it expands.
    pub(crate) text: String,
    /// Whether any of it was quoted.
    pub(crate) quoted: bool,
    /// Where its first wildcard is: it may stand for any number of file names.
    pub(crate) wild: Option<usize>,
    /// Whether a part of it is known to a shell alone.
    pub(crate) open: bool,
}

impl Word {
    /// Returns a word that is what it says.
    pub(crate) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

/// Reads a line.
pub(crate) fn read_line(text: &str) -> Line {
    let mut lexer = Lexer { text, ..Lexer::default() };
    lexer.scan(Until::End);
    if lexer.line.calls.is_empty() {
        lexer.note("it is empty", 0);
    }
    lexer.line
}

/// Returns the words of a line of one command.
#[cfg(fuzzing)]
pub(crate) fn read_words(text: &str) -> Option<Vec<String>> {
    let line = read_line(text);
    match line.calls.as_slice() {
        [call] => Some(call.words.iter().map(|word| word.text.clone()).collect()),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Paren,
    Backquote,
}

/// A here-document whose text follows the line.
struct Heredoc {
    end: String,
    strips_tabs: bool,
    expands: bool,
}

#[derive(Default)]
struct Lexer<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    line: Line,
    call: Call,
    /// Whether `&&`, `||` or `|` wait for a command.
    waits: bool,
    heredocs: Vec<Heredoc>,
    /// Whether this is the text of a comment.
    in_comment: bool,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn starts_with(&self, start: &str) -> bool {
        self.rest().starts_with(start)
    }

    fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn note(&mut self, reason: &'static str, at: usize) {
        if self.line.odd.is_none_or(|odd| at < odd.at) {
            self.line.odd = Some(Odd { reason, at });
        }
    }

    /// Reads commands up to the end of the text or of a substitution.
    fn scan(&mut self, until: Until) {
        if self.depth >= DEPTH_MAX {
            self.line.unread = true;
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        let call = std::mem::take(&mut self.call);
        let waits = std::mem::take(&mut self.waits);
        while let Some(first) = self.peek() {
            match first {
                ' ' | '\t' => self.bump(),
                ')' if until == Until::Paren => break,
                '`' if until == Until::Backquote => break,
                _ => self.read_piece(first),
            }
        }
        self.end_call();
        if self.waits {
            self.note("a command is missing at its end", self.text.len());
        }
        self.bump();
        self.call = call;
        self.waits = waits;
        self.depth -= 1;
    }

    fn read_piece(&mut self, first: char) {
        match first {
            '\n' => {
                self.bump();
                self.end_call();
                self.read_heredocs();
            }
            ';' | '|' => self.read_joint(),
            '&' if self.starts_with("&>") => self.read_redirection(),
            '&' => self.read_joint(),
            '<' | '>' => self.read_redirection(),
            '#' if !self.in_comment => self.read_comment(),
            '(' => {
                self.note("it has a subshell, a function or an array", self.at);
                self.bump();
                self.end_call();
                self.scan(Until::Paren);
            }
            ')' => {
                self.note("it closes what was not opened", self.at);
                self.bump();
                self.end_call();
            }
            _ => {
                let word = self.read_word();
                let is_descriptor = !word.quoted
                    && !word.text.is_empty()
                    && word.text.bytes().all(|byte| byte.is_ascii_digit())
                    && matches!(self.peek(), Some('<' | '>'));
                if !is_descriptor {
                    self.call.words.push(word);
                } else if word.text.len() > 1 {
                    self.note("it redirects a descriptor of its own", self.at);
                }
            }
        }
    }

    /// Passes a comment by, up to the end of its line: a quote in it opens nothing. What it would
    /// say to a shell without comments is read apart.
    fn read_comment(&mut self) {
        self.note("it has a comment", self.at);
        let line = self.rest().lines().next().unwrap_or_default();
        // Within backquotes it ends with them.
        let quoted = line.find('`').filter(|_| self.depth > 1);
        let body = line.get(..quoted.unwrap_or(line.len())).unwrap_or_default();
        let text = format!("'#'{}", body.strip_prefix('#').unwrap_or(body));
        self.at += body.len().max(1);
        let mut apart =
            Lexer { text: &text, depth: self.depth, in_comment: true, ..Lexer::default() };
        apart.scan(Until::End);
        let Line { calls, odd: _, unread: _, mut fed, mut files } = apart.line;
        let begins_it = |call: &Call| call.words.first().is_some_and(|word| word.text == "#");
        self.line.calls.extend(calls.into_iter().filter(|call| !begins_it(call)));
        self.line.fed.append(&mut fed);
        self.line.files.append(&mut files);
    }

    fn end_call(&mut self) {
        if !self.call.words.is_empty() {
            self.waits = false;
            self.line.calls.push(std::mem::take(&mut self.call));
        }
    }

    /// Reads `&& || ; |`, and what looks like them.
    fn read_joint(&mut self) {
        let at = self.at;
        if self.call.words.is_empty() {
            self.note("a command is missing", at);
        }
        let known = ["&&", "||", "|&", ";;", ";", "|", "&"];
        let joint = known.into_iter().find(|joint| self.starts_with(joint)).unwrap_or("&");
        match joint {
            "|&" => self.note("`|&` is not understood", at),
            ";;" => self.note("`;;` is not understood", at),
            "&" => self.note("`&` sends a command to the background", at),
            _ => {}
        }
        self.at += joint.len();
        self.end_call();
        self.waits = matches!(joint, "&&" | "||" | "|");
        self.call.piped = matches!(joint, "|" | "|&");
    }

    /// Reads a redirection; only `/dev/null` and descriptors are no files.
    fn read_redirection(&mut self) {
        let at = self.at;
        if let Some(length) = length_of_harmless_redirection(self.rest()) {
            self.at += length;
            return;
        }
        self.note("it redirects to or from a file", at);
        let is_heredoc = self.starts_with("<<") && !self.starts_with("<<<");
        let is_fed = self.starts_with("<<<");
        while matches!(self.peek(), Some('<' | '>' | '&' | '|')) {
            self.bump();
        }
        let strips_tabs = is_heredoc && self.starts_with("-");
        if strips_tabs {
            self.bump();
        }
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.bump();
        }
        if self.peek().is_none_or(|next| "\n;|&<>()".contains(next)) {
            return;
        }
        let target = self.read_word();
        if is_heredoc {
            let expands = !target.quoted;
            self.heredocs.push(Heredoc { end: target.text, strips_tabs, expands });
        } else if is_fed {
            self.line.fed.push(target.text);
        } else {
            self.line.files.push(target);
        }
    }

    /// Takes the texts of the here-documents that the line before announced.
    fn read_heredocs(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let (start, mut end) = (self.at, self.text.len());
            let mut after = end;
            let mut place = start;
            for line in self.rest().split_inclusive('\n') {
                let bare = line.trim_end_matches('\n');
                let bare = if heredoc.strips_tabs { bare.trim_start_matches('\t') } else { bare };
                if bare == heredoc.end {
                    (end, after) = (place, place + line.len());
                    break;
                }
                place += line.len();
            }
            let body = self.text.get(start..end).unwrap_or_default();
            if heredoc.expands && body.contains(['$', '`']) {
                self.read_expansions_up_to(end);
            }
            self.line.fed.push(body.to_owned());
            self.at = self.at.max(after);
        }
    }

    fn read_expansions_up_to(&mut self, end: usize) {
        let mut word = Word::default();
        while self.at < end {
            match self.peek() {
                Some('\\') => {
                    self.bump();
                    self.bump();
                }
                Some('$' | '`') => self.read_expansion(&mut word),
                _ => self.bump(),
            }
        }
    }

    fn read_word(&mut self) -> Word {
        let mut word = Word::default();
        let start = self.at;
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
                '\'' => self.read_single_quotes(&mut word),
                '"' => self.read_double_quotes(&mut word),
                '\\' => self.read_escape(&mut word),
                '`' if self.depth > 1 && self.at > start => break,
                '$' | '`' => self.read_expansion(&mut word),
                _ => self.read_letter(letter, start, &mut word),
            }
        }
        if matches!(word.text.as_str(), "[" | "]") {
            word.wild = None;
        }
        word
    }

    fn read_letter(&mut self, letter: char, start: usize, word: &mut Word) {
        let at = self.at;
        let is_first = at == start;
        match letter {
            '*' | '?' | '[' | ']' => {
                word.wild.get_or_insert(word.text.len());
            }
            '{' | '}' => return self.read_brace(letter, word),
            '!' => self.check_exclamation(is_first),
            '~' if is_first || word.text.ends_with(['=', ':']) => {
                self.note("`~` stands for a directory that only the shell knows", at);
                word.open = true;
            }
            '#' if is_first => self.note("it has a comment", at),
            '=' if is_first => {
                self.note("a word that starts with `=` is another one to some shells", at);
            }
            _ if letter.is_ascii_alphanumeric() || PLAIN.contains(letter) => {}
            _ if letter.is_ascii() => {
                self.note("a control character or sign in it is not understood", at);
            }
            _ => self.note("a character outside quotes is not ASCII", at),
        }
        word.text.push(letter);
        self.bump();
    }

    /// `!` alone is a word; before anything else, an interactive shell reads its history.
    fn check_exclamation(&mut self, is_first: bool) {
        let mut after = self.rest().chars().skip(1);
        let stands_alone = is_first && matches!(after.next(), Some(' ' | '\t'));
        if !stands_alone {
            self.note("`!` may stand for an earlier command", self.at);
        } else if self.call.words.is_empty() {
            self.note("`!` turns an answer around", self.at);
        }
    }

    /// `{}` and the braces of git's `HEAD@{1}` and `HEAD^{tree}` stand for themselves.
    fn read_brace(&mut self, brace: char, word: &mut Word) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let inside = self.rest().strip_prefix('{').unwrap_or_default();
        // Bounded, because each brace of a text looks for its end.
        let name: String =
            inside.chars().take(BRACED_NAME_MAX).take_while(|c| is_plain(*c)).collect();
        let closes = inside.get(name.len()..).is_some_and(|rest| rest.starts_with('}'));
        if brace == '{' && closes && (name.is_empty() || word.text.ends_with(['@', '^'])) {
            self.at += name.len() + 2;
            word.text.push_str(&format!("{{{name}}}"));
            return;
        }
        self.note("braces make other words", self.at);
        let stands_alone = word.text.is_empty()
            && self.rest().chars().nth(1).is_none_or(|c| c.is_whitespace() || c == ';');
        word.open |= !stands_alone;
        word.text.push(brace);
        self.bump();
    }

    fn read_single_quotes(&mut self, word: &mut Word) {
        let start = self.at;
        word.quoted = true;
        self.bump();
        let body = self.rest();
        let (inside, length) = match body.find('\'') {
            Some(end) => (body.get(..end).unwrap_or_default().to_owned(), end + 1),
            None => (body.to_owned(), body.len()),
        };
        if length == inside.len() {
            self.note("a quote is not closed", start);
        }
        if let Some((place, _)) = inside.char_indices().find(|(_, letter)| deceives(*letter)) {
            self.note("it holds a character that cannot be seen", start + 1 + place);
        }
        word.text.push_str(&inside);
        self.at += length;
    }

    fn read_double_quotes(&mut self, word: &mut Word) {
        let start = self.at;
        word.quoted = true;
        self.bump();
        loop {
            let at = self.at;
            match self.peek() {
                None => return self.note("a quote is not closed", start),
                Some('"') => return self.bump(),
                Some('\\') => self.read_quoted_escape(word),
                Some('$') if self.is_lone_dollar() => {
                    word.text.push('$');
                    self.bump();
                }
                Some('$' | '`') => self.read_expansion(word),
                Some(letter) => {
                    if deceives(letter) {
                        self.note("it holds a character that cannot be seen", at);
                    }
                    let next = self.rest().chars().nth(1);
                    if letter == '!'
                        && !next.is_some_and(|next| " \t\n=\"()[]\\|.,;>'".contains(next))
                    {
                        self.note("`!` may stand for an earlier command", at);
                    }
                    word.text.push(letter);
                    self.bump();
                }
            }
        }
    }

    /// `$` before these is no expansion, in quotes: the end of a line in a pattern.
    fn is_lone_dollar(&self) -> bool {
        matches!(self.rest().chars().nth(1), Some('"' | ' ' | '|' | ')'))
    }

    /// Within double quotes a backslash quotes four characters, and is itself before others.
    fn read_quoted_escape(&mut self, word: &mut Word) {
        let at = self.at;
        self.bump();
        match self.peek() {
            Some('\n') => {
                self.note("a line goes on after a backslash", at);
                self.bump();
            }
            Some(letter @ ('$' | '`' | '"' | '\\')) => {
                word.text.push(letter);
                self.bump();
            }
            Some(_) | None => word.text.push('\\'),
        }
    }

    /// Outside quotes only signs and blanks are quoted so; letters have no need of it.
    fn read_escape(&mut self, word: &mut Word) {
        let at = self.at;
        word.quoted = true;
        self.bump();
        match self.peek() {
            Some('\n') => {
                self.note("a line goes on after a backslash", at);
                self.bump();
                return;
            }
            Some(letter) if letter == ' ' || letter.is_ascii_punctuation() => {
                word.text.push(letter);
            }
            Some(letter) => {
                self.note("a backslash stands before what needs none", at);
                word.text.push(letter);
            }
            None => self.note("a backslash stands at its end", at),
        }
        self.bump();
    }

    fn read_expansion(&mut self, word: &mut Word) {
        let at = self.at;
        word.open = true;
        if self.peek() == Some('`') {
            self.note("it runs a command for its output", at);
            self.bump();
            return self.scan(Until::Backquote);
        }
        self.bump();
        match self.peek() {
            Some('(') => {
                self.note("it runs a command for its output, or computes", at);
                self.bump();
                self.scan(Until::Paren);
            }
            Some('\'') if !word.quoted => {
                self.note("its quotes have escapes of their own", at);
                self.bump();
                while let Some(letter) = self.peek().filter(|letter| *letter != '\'') {
                    self.bump();
                    if letter == '\\' {
                        self.bump();
                    }
                }
                self.bump();
            }
            Some(_) | None => self.note("it expands a variable", at),
        }
    }
}

/// Returns whether the character hides something from a reader, even within quotes.
pub(crate) fn deceives(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_control() && letter != '\n' && letter != '\t';
    }
    letter.is_control()
        || letter.is_whitespace()
        || is_invisible(letter)
        || matches!(letter,
            '\u{AD}' | '\u{34F}' | '\u{2800}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{1D173}'..='\u{1D17A}' | '\u{FFFC}' | '\u{FFFD}'
            | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}')
}

/// Returns the length of `2>/dev/null`, `>/dev/null`, `2>&1` and the like without the digit.
fn length_of_harmless_redirection(text: &str) -> Option<usize> {
    let rest = ["&>", ">>", ">", "<"].iter().find_map(|start| text.strip_prefix(start))?;
    let may_duplicate = text.starts_with('>') && !text.starts_with(">>");
    let after = match rest.strip_prefix('&') {
        Some(target) if may_duplicate => target.strip_prefix(|c: char| c.is_ascii_digit())?,
        Some(_) => return None,
        None => rest.trim_start_matches([' ', '\t']).strip_prefix("/dev/null")?,
    };
    let ends = after.is_empty() || after.starts_with([' ', '\t', '\n', ';', '|', '&', ')']);
    ends.then_some(text.len() - after.len())
}
