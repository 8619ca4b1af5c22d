//! Text from outside, made harmless: from models, tools, servers, files and branch names.
//!
//! `visible` is for people: nothing in it can move a cursor, hide or reorder text, and every
//! odd character shows as a mark. `strip` is for models: what a terminal would have acted on
//! is gone. Knows no terminal. Every front end and every command result goes through here.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with everything shown that a terminal would act on or hide.
///
/// Newlines and tabs stay. Other control characters become pictures (`␛`) or `\u{9b}`,
/// invisible and reordering characters become marks such as `⟨U+202E⟩`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\u{0}'..='\u{1F}' => shown.push(picture_of(character)),
            '\u{7F}' => shown.push('\u{2421}'),
            '\u{80}'..='\u{9F}' => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            other => push_marked(&mut shown, other, rest.clone().next()),
        }
    }
    Cow::Owned(shown)
}

/// Returns the text as `visible` does, on one line: no line break can make a line of its own.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        Cow::Borrowed(line) if !line.contains('\n') => Cow::Borrowed(line),
        shown => Cow::Owned(shown.replace('\n', "␊")),
    }
}

/// Returns the text without escape sequences and control characters.
///
/// Newlines and tabs stay, CRLF becomes a newline, and a line that was drawn over with
/// carriage returns (a progress bar) keeps its last state. Invisible characters are marked.
pub(crate) fn strip(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut redraw = false;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\n' => {
                kept.push('\n');
                line_start = kept.len();
                redraw = false;
            }
            '\r' => redraw = true,
            '\u{1B}' => skip_escape(&mut rest),
            '\u{9B}' => skip_control_sequence(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9D}' | '\u{9E}' | '\u{9F}' => skip_string(&mut rest),
            other if other.is_control() && other != '\t' => {}
            other => {
                if redraw {
                    kept.truncate(line_start);
                    redraw = false;
                }
                push_marked(&mut kept, other, rest.peek().copied());
            }
        }
    }
    Cow::Owned(kept)
}

/// Returns whether both functions would leave the text as it is.
fn is_plain(text: &str) -> bool {
    let plain_byte = |byte: u8| matches!(byte, b'\n' | b'\t' | 0x20..=0x7E);
    if text.bytes().all(plain_byte) {
        return true;
    }
    text.chars().all(|character| {
        matches!(character, '\n' | '\t') || !(character.is_control() || is_invisible(character))
    })
}

/// Returns whether the character shows nothing or reorders what stands around it.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{61C}'
            | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' // Hangul fillers
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}' // zero width, marks of direction
            | '\u{2028}'..='\u{202E}' // separators, bidirectional embedding and override
            | '\u{2060}'..='\u{206F}' // joiners, isolates, deprecated format characters
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}' // tags and rare variation selectors carry hidden text
    )
}

/// Appends a character that is no control character, marked when it would be invisible.
fn push_marked(text: &mut String, character: char, next: Option<char>) {
    let marked = is_invisible(character) && !joins(text, character, next);
    if marked {
        let _ = write!(text, "⟨U+{:04X}⟩", u32::from(character));
    } else {
        text.push(character);
    }
}

/// Returns whether this is a joiner at its rightful place: inside emoji and in scripts that
/// need it. Between ASCII letters it could only hide something.
fn joins(before: &str, character: char, next: Option<char>) -> bool {
    let neighbour = |other: char| !other.is_ascii() && !other.is_control() && !is_invisible(other);
    matches!(character, '\u{200C}' | '\u{200D}')
        && before.chars().next_back().is_some_and(neighbour)
        && next.is_some_and(neighbour)
}

/// Returns the picture of a C0 control character.
fn picture_of(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{FFFD}')
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what follows an ESC.
fn skip_escape(rest: &mut Rest<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        Some(' '..='/') => {
            while rest.next_if(|next| matches!(next, ' '..='/')).is_some() {}
            rest.next_if(|next| matches!(next, '0'..='~'));
        }
        Some('0'..='~') => {
            rest.next();
        }
        Some(_) | None => {}
    }
}

/// Skips parameters and the final character of a control sequence.
fn skip_control_sequence(rest: &mut Rest<'_>) {
    while rest.next_if(|next| matches!(next, ' '..='?')).is_some() {}
    rest.next_if(|next| matches!(next, '@'..='~'));
}

/// Skips a string sequence (OSC, DCS, …) up to its end, or up to the end of the line: one
/// that never ends must not swallow the rest of the output.
fn skip_string(rest: &mut Rest<'_>) {
    while let Some(next) = rest.next_if(|&next| next != '\n') {
        match next {
            '\u{7}' | '\u{9C}' => return,
            '\u{1B}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}
