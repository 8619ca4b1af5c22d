//! Pastes from terminals that do not say so: many keys at once, faster than anyone types.
//!
//! Without this, the first newline of such a paste would send the message. Takes the keys that
//! were read together and the time they came; has no clock of its own. Called where keys of the
//! composer are read, never for a question's keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::frontend::tui::keymap::typed;

/// This many keys at once are a paste.
const KEYS_MIN: usize = 24;
/// With a newline among them and text behind it, so few are.
const KEYS_AROUND_NEWLINE_MIN: usize = 4;
/// What comes this soon after a part of a paste belongs to it.
const GAP_MS_MAX: u64 = 30;

/// What the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key.
    Key(KeyEvent),
    /// The beginning of a paste, or all of it.
    Paste(String),
    /// More of the paste that began.
    PasteMore(String),
}

/// Remembers when the last part of a paste came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Burst {
    pasted_at_ms: Option<u64>,
}

impl Burst {
    /// Sorts keys that were read together into keys and pastes.
    pub(crate) fn read(&mut self, keys: &[KeyEvent], now_ms: u64) -> Vec<Input> {
        let mut inputs = Vec::new();
        let mut rest = keys;
        while let Some((first, after)) = rest.split_first() {
            let length = rest.iter().take_while(|key| text_of(**key).is_some()).count();
            let (run, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let goes_on =
                self.pasted_at_ms.is_some_and(|pasted| now_ms.saturating_sub(pasted) <= GAP_MS_MAX)
                    && inputs.is_empty();
            if !run.is_empty() && (goes_on || is_paste(run)) {
                let text: String = run.iter().filter_map(|key| text_of(*key)).collect();
                inputs.push(if goes_on { Input::PasteMore(text) } else { Input::Paste(text) });
                self.pasted_at_ms = Some(now_ms);
                rest = behind;
                continue;
            }
            self.pasted_at_ms = None;
            if run.is_empty() {
                inputs.push(Input::Key(*first));
                rest = after;
            } else {
                inputs.extend(run.iter().copied().map(Input::Key));
                rest = behind;
            }
        }
        inputs
    }
}

/// Returns what a key of a paste stands for.
fn text_of(key: KeyEvent) -> Option<char> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match (key.code, key.modifiers) {
        (KeyCode::Enter, KeyModifiers::NONE) => Some('\n'),
        (KeyCode::Char('j'), KeyModifiers::CONTROL) => Some('\n'),
        (KeyCode::Tab, KeyModifiers::NONE) => Some('\t'),
        _ => typed(key),
    }
}

fn is_paste(run: &[KeyEvent]) -> bool {
    let newline = run.iter().position(|key| text_of(*key) == Some('\n'));
    let text_behind = newline.is_some_and(|at| at + 1 < run.len());
    run.len() >= KEYS_MIN || run.len() >= KEYS_AROUND_NEWLINE_MIN && text_behind
}
