//! Bytes from the terminal as keys, pasted text and answers of the terminal itself.
//!
//! Pure and bounded: whatever comes, it ends in a key, a paste or nothing. Understands the old
//! encodings, xterm's and kitty's. An escape sequence may be cut anywhere; a lone ESC is the
//! key only when nothing follows it for a while, which the caller says with `flush`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frontend::tui::theme::Shade;

/// Bytes of one escape sequence or answer; longer ones are dropped.
const SEQUENCE_BYTES_MAX: usize = 4 * 1024;
/// Bytes of one paste; the rest of it is dropped. Far beyond what a model could read.
const PASTE_BYTES_MAX: usize = 8 * 1024 * 1024;
const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// What the terminal said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key.
    Key(KeyEvent),
    /// Pasted text, its lines ended by `\n`.
    Paste(String),
    /// The window got or lost the keyboard.
    Focus(bool),
    /// How light the background is.
    Background(Shade),
}

/// Takes bytes, gives what they mean.
#[derive(Debug, Default)]
pub(crate) struct InputParser {
    bytes: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// What the beginning of the bytes is.
enum Step {
    /// So many bytes, meaning this.
    Done(usize, Option<Input>),
    /// It is not whole yet.
    Wait,
}

impl InputParser {
    /// Takes in what was read at once.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.bytes.extend_from_slice(bytes);
        self.parse(false)
    }

    /// Returns whether something began that is not whole.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.bytes.is_empty()
    }

    /// Takes in that nothing follows: what began is a key of its own.
    pub(crate) fn flush(&mut self) -> Vec<Input> {
        self.parse(true)
    }

    fn parse(&mut self, is_last: bool) -> Vec<Input> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            if self.paste.is_some() {
                at += self.take_paste(at, &mut found);
                if self.paste.is_some() {
                    break;
                }
                continue;
            }
            let rest = self.bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            if rest.starts_with(PASTE_BEGIN) {
                at += PASTE_BEGIN.len();
                self.paste = Some(Vec::new());
                continue;
            }
            match step(rest) {
                Step::Done(count, input) => {
                    at += count.max(1);
                    found.extend(input);
                }
                Step::Wait if is_last => {
                    let (count, input) = cut_short(rest);
                    at += count.max(1);
                    found.extend(input);
                }
                Step::Wait => break,
            }
        }
        self.bytes.drain(..at.min(self.bytes.len()));
        found
    }

    /// Takes the part of a paste that is there; returns how many bytes it took.
    fn take_paste(&mut self, at: usize, found: &mut Vec<Input>) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let end = rest.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        // The end may be cut: what could be its beginning stays.
        let count = end.unwrap_or_else(|| {
            let held = (1..PASTE_END.len().min(rest.len() + 1)).rev().find(|held| {
                PASTE_END.starts_with(rest.get(rest.len() - held..).unwrap_or_default())
            });
            rest.len() - held.unwrap_or(0)
        });
        let paste = self.paste.get_or_insert_default();
        let room = PASTE_BYTES_MAX.saturating_sub(paste.len());
        paste.extend_from_slice(rest.get(..count.min(room)).unwrap_or_default());
        if end.is_none() {
            return count;
        }
        let paste = self.paste.take().unwrap_or_default();
        found.push(Input::Paste(clean_paste(&paste)));
        count + PASTE_END.len()
    }
}

fn clean_paste(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [0x1b] => Step::Wait,
        [0x1b, b'[', ..] => step_csi(bytes),
        [0x1b, b'O'] => Step::Wait,
        [0x1b, b'O', last, ..] => Step::Done(3, ss3_key(*last)),
        [0x1b, b']' | b'P' | b'_' | b'^' | b'X', ..] => step_string(bytes),
        // Two in a row: the first is a key.
        [0x1b, 0x1b, ..] => Step::Done(1, key(KeyCode::Esc, KeyModifiers::NONE)),
        [0x1b, rest @ ..] => match step_character(rest) {
            Step::Done(count, input) => Step::Done(count + 1, input.map(with_alt)),
            Step::Wait => Step::Wait,
        },
        _ => step_character(bytes),
    }
}

/// Returns what bytes mean after which nothing comes.
fn cut_short(bytes: &[u8]) -> (usize, Option<Input>) {
    match bytes {
        [0x1b, next @ (b'[' | b'O' | b']' | b'P' | b'_' | b'^' | b'X')] => {
            (2, key(KeyCode::Char(char::from(*next)), KeyModifiers::ALT))
        }
        [0x1b, b'[' | b']' | b'P' | b'_' | b'^' | b'X', ..] => (bytes.len(), None),
        [0x1b, ..] => (1, key(KeyCode::Esc, KeyModifiers::NONE)),
        _ => (1, None),
    }
}

fn step_character(bytes: &[u8]) -> Step {
    let Some(first) = bytes.first().copied() else { return Step::Wait };
    if first < 0x80 {
        return Step::Done(1, ascii_key(first));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Step::Done(1, None),
    };
    let Some(sequence) = bytes.get(..length) else {
        let is_cut = bytes.iter().skip(1).all(|byte| (0x80..0xc0).contains(byte));
        return if is_cut { Step::Wait } else { Step::Done(1, None) };
    };
    match std::str::from_utf8(sequence).ok().and_then(|text| text.chars().next()) {
        Some(character) if !character.is_control() => {
            Step::Done(length, key(KeyCode::Char(character), KeyModifiers::NONE))
        }
        Some(_) => Step::Done(length, None),
        None => Step::Done(1, None),
    }
}

fn ascii_key(byte: u8) -> Option<Input> {
    let (code, modifiers) = match byte {
        b'\r' => (KeyCode::Enter, KeyModifiers::NONE),
        b'\t' => (KeyCode::Tab, KeyModifiers::NONE),
        0x7f => (KeyCode::Backspace, KeyModifiers::NONE),
        0x1b => (KeyCode::Esc, KeyModifiers::NONE),
        0 => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        1..=26 => (KeyCode::Char(char::from(byte - 1 + b'a')), KeyModifiers::CONTROL),
        28..=31 => (KeyCode::Char(char::from(byte - 28 + b'\\')), KeyModifiers::CONTROL),
        _ => (KeyCode::Char(char::from(byte)), KeyModifiers::NONE),
    };
    key(code, modifiers)
}

fn ss3_key(last: u8) -> Option<Input> {
    match last {
        b'M' => key(KeyCode::Enter, KeyModifiers::NONE),
        _ => key(letter_key(last)?, KeyModifiers::NONE),
    }
}

fn letter_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'R' => KeyCode::F(3),
        b'S' => KeyCode::F(4),
        b'Z' => KeyCode::BackTab,
        _ => return None,
    })
}

fn step_csi(bytes: &[u8]) -> Step {
    // The Linux console's function keys have a second bracket.
    if let [_, _, b'[', rest @ ..] = bytes {
        let Some(last) = rest.first() else { return Step::Wait };
        let number = last.wrapping_sub(b'A');
        let input = (number < 5).then(|| key(KeyCode::F(number + 1), KeyModifiers::NONE)).flatten();
        return Step::Done(4, input);
    }
    let body = bytes.get(2..).unwrap_or_default();
    let Some(end) = body.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return if bytes.len() > SEQUENCE_BYTES_MAX {
            Step::Done(bytes.len(), None)
        } else {
            Step::Wait
        };
    };
    let (parameters, last) = (body.get(..end).unwrap_or_default(), body.get(end).copied());
    match last {
        Some(last @ 0x40..=0x7e) => Step::Done(end + 3, csi_input(parameters, last)),
        // Broken off by something that cannot be part of it.
        Some(_) | None => Step::Done(end + 2, None),
    }
}

fn csi_input(parameters: &[u8], last: u8) -> Option<Input> {
    let text = std::str::from_utf8(parameters).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')) {
        // Answers to questions, such as `CSI ? … c`.
        return None;
    }
    let mut fields = text.split(';').map(|field| {
        let mut parts = field.split(':').map(|part| part.parse::<u32>().ok());
        (parts.next().flatten(), parts.next().flatten())
    });
    let first = fields.next().and_then(|field| field.0);
    let second = fields.next().unwrap_or((None, None));
    let third = fields.next().and_then(|field| field.0);
    /// The kitty protocol's word for a key that is let go.
    const RELEASED: u32 = 3;
    if second.1 == Some(RELEASED) {
        return None;
    }
    let modifiers = modifiers_of(second.0.unwrap_or(1));
    match last {
        b'I' => Some(Input::Focus(true)),
        b'O' => Some(Input::Focus(false)),
        b'u' => key(code_point_key(first?)?, modifiers),
        b'~' => match first? {
            27 => key(code_point_key(third?)?, modifiers),
            number => key(numbered_key(number)?, modifiers),
        },
        // An answer to where the cursor is looks like F3 with modifiers.
        b'R' => None,
        _ => key(letter_key(last)?, modifiers),
    }
}

fn modifiers_of(field: u32) -> KeyModifiers {
    let bits = field.saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        (8, KeyModifiers::SUPER),
    ] {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    modifiers
}

fn code_point_key(code: u32) -> Option<KeyCode> {
    Some(match code {
        9 => KeyCode::Tab,
        13 | 57414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        8 | 127 => KeyCode::Backspace,
        57399..=57408 => KeyCode::Char(char::from_digit(code - 57399, 10)?),
        // The rest of kitty's own range: keys alone that stand for nothing here.
        57344..=63743 => return None,
        _ => KeyCode::Char(char::from_u32(code).filter(|c| !c.is_control())?),
    })
}

fn numbered_key(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(u8::try_from(number - 10).ok()?),
        17..=21 => KeyCode::F(u8::try_from(number - 11).ok()?),
        23 | 24 => KeyCode::F(u8::try_from(number - 12).ok()?),
        _ => return None,
    })
}

/// An answer of the terminal in a string: ended by BEL or ST.
fn step_string(bytes: &[u8]) -> Step {
    for (at, byte) in bytes.iter().enumerate().skip(2) {
        match byte {
            0x07 => return Step::Done(at + 1, string_input(bytes.get(1..at).unwrap_or_default())),
            0x1b => {
                return match bytes.get(at + 1) {
                    Some(b'\\') => {
                        Step::Done(at + 2, string_input(bytes.get(1..at).unwrap_or_default()))
                    }
                    Some(_) => Step::Done(at, None),
                    None => Step::Wait,
                };
            }
            _ => {}
        }
    }
    if bytes.len() > SEQUENCE_BYTES_MAX { Step::Done(bytes.len(), None) } else { Step::Wait }
}

/// Reads `]11;rgb:RRRR/GGGG/BBBB`, the answer to which colour the background has.
fn string_input(body: &[u8]) -> Option<Input> {
    let text = std::str::from_utf8(body).ok()?;
    let value = text.strip_prefix("]11;")?;
    let value = value.strip_prefix("rgb:").or(value.strip_prefix("rgba:"))?;
    let mut parts = value.split('/').map(|part| {
        let high = part.get(..2).unwrap_or(part);
        u32::from_str_radix(high, 16).ok()
    });
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    // As bright as an eye takes them, in thousands.
    let brightness = red * 299 + green * 587 + blue * 114;
    let shade = if brightness > 127_000 { Shade::Light } else { Shade::Dark };
    Some(Input::Background(shade))
}

fn with_alt(input: Input) -> Input {
    match input {
        Input::Key(key) => Input::Key(KeyEvent::new(key.code, key.modifiers | KeyModifiers::ALT)),
        other => other,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every caller wants an input that may be absent")]
fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Input> {
    Some(Input::Key(KeyEvent::new(code, modifiers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<(KeyCode, KeyModifiers)> {
        let mut parser = InputParser::default();
        let mut found = parser.push(bytes);
        found.extend(parser.flush());
        let read = |input| match input {
            Input::Key(key) => (key.code, key.modifiers),
            other => panic!("no key: {other:?}"),
        };
        found.into_iter().map(read).collect()
    }

    #[test]
    fn keys_are_read_in_every_encoding() {
        let (none, ctrl, alt, shift) =
            (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT);
        let table: [(&[u8], KeyCode, KeyModifiers); 24] = [
            (b"a", KeyCode::Char('a'), none),
            ("é".as_bytes(), KeyCode::Char('é'), none),
            (b"\r", KeyCode::Enter, none),
            (b"\n", KeyCode::Char('j'), ctrl),
            (b"\x03", KeyCode::Char('c'), ctrl),
            (b"\x1f", KeyCode::Char('_'), ctrl),
            (b"\0", KeyCode::Char(' '), ctrl),
            (b"\x7f", KeyCode::Backspace, none),
            (b"\x1b", KeyCode::Esc, none),
            (b"\x1bb", KeyCode::Char('b'), alt),
            (b"\x1b\r", KeyCode::Enter, alt),
            (b"\x1b[", KeyCode::Char('['), alt),
            (b"\x1b[A", KeyCode::Up, none),
            (b"\x1bOA", KeyCode::Up, none),
            (b"\x1b[1;5C", KeyCode::Right, ctrl),
            (b"\x1b[Z", KeyCode::BackTab, none),
            (b"\x1b[3~", KeyCode::Delete, none),
            (b"\x1b[6;3~", KeyCode::PageDown, alt),
            (b"\x1b[24~", KeyCode::F(12), none),
            (b"\x1b[[B", KeyCode::F(2), none),
            (b"\x1b[13;2u", KeyCode::Enter, shift),
            (b"\x1b[99;5u", KeyCode::Char('c'), ctrl),
            (b"\x1b[27;2;13~", KeyCode::Enter, shift),
            (b"\x1b[57414u", KeyCode::Enter, none),
        ];
        for (bytes, code, modifiers) in table {
            assert_eq!(keys(bytes), [(code, modifiers)], "{bytes:?}");
        }
        assert_eq!(keys(b"\x1b\x1b[A"), [(KeyCode::Esc, none), (KeyCode::Up, none)]);
        assert_eq!(keys(b"\x1b[97;1:3u"), [], "a key that is let go is none");
    }

    #[test]
    fn a_paste_is_one_thing_however_it_is_cut() {
        let bytes = b"a\x1b[200~one\r\ntwo\x1b[2Jthree\x1b[201~b";
        for cut in 0..bytes.len() {
            let mut parser = InputParser::default();
            let (left, right) = bytes.split_at(cut);
            let mut found = parser.push(left);
            found.extend(parser.push(right));
            assert_eq!(found.len(), 3, "cut at {cut}: {found:?}");
            assert_eq!(found[1], Input::Paste("one\ntwo\u{1b}[2Jthree".to_owned()));
        }
    }

    #[test]
    fn answers_of_the_terminal_are_no_keys() {
        let mut parser = InputParser::default();
        let found =
            parser.push(b"\x1b]11;rgb:ffff/ffff/f0f0\x1b\\\x1b[?62;22c\x1b]10;x\x07\x1bP1$r\x1b\\");
        assert_eq!(found, [Input::Background(Shade::Light)]);
        assert!(!parser.is_waiting());
        assert_eq!(parser.push(b"\x1b[I\x1b[O"), [Input::Focus(true), Input::Focus(false)]);
    }
}
