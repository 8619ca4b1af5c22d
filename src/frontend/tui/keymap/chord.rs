//! A key with its modifiers: read from a terminal's event, from configuration, written for people.
//!
//! Terminals send the same key in several ways (Ctrl-I is Tab, Ctrl-_ may arrive as Ctrl-7);
//! every chord is brought into one form, so that a binding matches however it arrives. Knows
//! no action. Used by the keymap only.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The modifiers that tell one binding from another.
const MODIFIERS: KeyModifiers = KeyModifiers::CONTROL
    .union(KeyModifiers::ALT)
    .union(KeyModifiers::SHIFT)
    .union(KeyModifiers::SUPER);

/// Keys that have a name; the first name of a key is the one shown.
const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("return", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("escape", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("del", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pgup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("pgdn", KeyCode::PageDown),
    ("minus", KeyCode::Char('-')),
];

/// Modifiers as they are written, in the order they are shown.
const MODIFIER_NAMES: &[(&str, KeyModifiers)] = &[
    ("ctrl", KeyModifiers::CONTROL),
    ("alt", KeyModifiers::ALT),
    ("shift", KeyModifiers::SHIFT),
    ("super", KeyModifiers::SUPER),
    ("control", KeyModifiers::CONTROL),
    ("c", KeyModifiers::CONTROL),
    ("option", KeyModifiers::ALT),
    ("opt", KeyModifiers::ALT),
    ("meta", KeyModifiers::ALT),
    ("m", KeyModifiers::ALT),
    ("a", KeyModifiers::ALT),
    ("s", KeyModifiers::SHIFT),
    ("cmd", KeyModifiers::SUPER),
];

/// One key press in its one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Returns the character a key types, if it types one.
pub(crate) fn typed(key: KeyEvent) -> Option<char> {
    let commands = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER;
    match key.code {
        KeyCode::Char(c) if key.kind != KeyEventKind::Release => {
            (!key.modifiers.intersects(commands) && !c.is_control()).then(|| shifted(c, key))
        }
        _ => None,
    }
}

/// Returns the event of a key as configuration writes it, for the keys of fixtures.
#[cfg(test)]
pub(crate) fn key_event(text: &str) -> KeyEvent {
    let chord = Chord::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    KeyEvent::new(chord.code, chord.modifiers)
}

/// Some terminals report the unshifted letter beside the modifier.
fn shifted(c: char, key: KeyEvent) -> char {
    if key.modifiers.contains(KeyModifiers::SHIFT) { c.to_ascii_uppercase() } else { c }
}

impl Chord {
    /// Returns the chord of a key press; `None` for a release or a modifier alone.
    pub(super) fn of(key: KeyEvent) -> Option<Self> {
        let silent = key.kind == KeyEventKind::Release || matches!(key.code, KeyCode::Modifier(_));
        (!silent).then(|| Self { code: key.code, modifiers: key.modifiers }.in_one_form())
    }

    /// Reads a chord such as `ctrl-x`, `alt-enter`, `shift-tab`, `f5` or `?`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        // A minus at the end is the key itself: `ctrl--`.
        while let Some((name, after)) =
            rest.split_once(['-', '+']).filter(|(n, a)| !n.is_empty() && !a.is_empty())
        {
            let lower = name.to_lowercase();
            let Some((_, modifier)) = MODIFIER_NAMES.iter().find(|(known, _)| *known == lower)
            else {
                return Err(format!("`{name}` is not a modifier: use ctrl, alt, shift or super"));
            };
            modifiers |= *modifier;
            rest = after;
        }
        let code = parse_key(rest)?;
        Ok(Self { code, modifiers }.in_one_form())
    }

    /// Returns whether this is a character someone types into a text.
    pub(super) fn types(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if self.modifiers.is_empty() => Some(c),
            _ => None,
        }
    }

    /// Returns whether only a terminal with the kitty protocol can tell this chord apart.
    pub(super) fn needs_kitty(self) -> bool {
        let ctrl = self.modifiers.contains(KeyModifiers::CONTROL);
        let shift = self.modifiers.contains(KeyModifiers::SHIFT);
        if self.modifiers.contains(KeyModifiers::SUPER) {
            return true;
        }
        match self.code {
            KeyCode::Enter | KeyCode::Backspace | KeyCode::Esc => ctrl || shift,
            KeyCode::Tab => ctrl,
            KeyCode::Char(c) if ctrl => {
                shift || !(c.is_ascii_alphabetic() || " @_]\\^".contains(c))
            }
            _ => false,
        }
    }

    /// Brings the ways a key can arrive into one.
    fn in_one_form(mut self) -> Self {
        self.modifiers &= MODIFIERS;
        if self.code == KeyCode::BackTab {
            self.code = KeyCode::Tab;
            self.modifiers |= KeyModifiers::SHIFT;
        }
        let KeyCode::Char(c) = self.code else { return self };
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control_in_one_form(c);
        }
        if self.modifiers.contains(KeyModifiers::SHIFT) {
            self.code = KeyCode::Char(c.to_ascii_uppercase());
            self.modifiers -= KeyModifiers::SHIFT;
        }
        self
    }

    /// A control byte stands for several keys, and digits stand for some control bytes.
    fn control_in_one_form(mut self, c: char) -> Self {
        if c.is_ascii_uppercase() && !self.modifiers.contains(KeyModifiers::SHIFT) {
            // Written `ctrl-X` or reported with caps lock: the same key as `ctrl-x`.
            self.code = KeyCode::Char(c.to_ascii_lowercase());
            return self.control_in_one_form(c.to_ascii_lowercase());
        }
        let shift = self.modifiers.contains(KeyModifiers::SHIFT);
        let code = match c.to_ascii_lowercase() {
            'i' if !shift => KeyCode::Tab,
            'm' if !shift => KeyCode::Enter,
            '[' | '3' => KeyCode::Esc,
            '4' => KeyCode::Char('\\'),
            '5' => KeyCode::Char(']'),
            '6' => KeyCode::Char('^'),
            '7' | '/' | '-' => KeyCode::Char('_'),
            '8' => KeyCode::Backspace,
            '@' | '2' => KeyCode::Char(' '),
            other => KeyCode::Char(other),
        };
        if !matches!(code, KeyCode::Char(_)) {
            self.modifiers -= KeyModifiers::CONTROL;
        }
        if code == KeyCode::Char('_') {
            self.modifiers -= KeyModifiers::SHIFT;
        }
        self.code = code;
        self
    }
}

/// Reads the key itself.
fn parse_key(text: &str) -> Result<KeyCode, String> {
    let lower = text.to_lowercase();
    if let Some((_, code)) = NAMED.iter().find(|(name, _)| *name == lower) {
        return Ok(*code);
    }
    if let Some(number) = lower.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()) {
        return match number {
            1..=12 => Ok(KeyCode::F(number)),
            _ => Err(format!("there is no key `{text}`: function keys go from f1 to f12")),
        };
    }
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(c), None) if !c.is_control() && !c.is_whitespace() => Ok(KeyCode::Char(c)),
        (None, _) => Err("a key is missing".to_owned()),
        _ if text.ends_with(['-', '+']) => Err(format!("a key is missing after `{text}`")),
        _ => Err(format!(
            "`{text}` is not a key: use one character, f1 to f12, or a name such as enter, esc, tab, space, up, pagedown"
        )),
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in MODIFIER_NAMES.iter().take(MODIFIERS.iter().count()) {
            if self.modifiers.contains(*modifier) {
                write!(f, "{name}-")?;
            }
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(number) => write!(f, "f{number}"),
            other => write!(f, "{other}"),
        }
    }
}
