//! Masks text that comes in pieces, so that no piece shows a part of a secret.
//!
//! A line is shown when it is whole, or up to its last blank while nothing in it announces a
//! secret. Knows no tool; a stream belongs to one call. Called by `agent/masking.rs`.

use super::find::Lines;
use super::{CUT_BYTES_MAX, Vault, assignments};
use crate::text::ansi::strip;

/// A line this long is shown in part, whatever it holds.
const HELD_BYTES_MAX: usize = 4 * CUT_BYTES_MAX;

/// The masked stream of one call.
#[derive(Debug, Default)]
pub(crate) struct MaskedStream {
    held: String,
    lines: Lines,
}

impl MaskedStream {
    /// Takes a piece in, and returns what can be shown by now.
    pub(crate) fn push(&mut self, piece: &str, vault: &mut Vault) -> String {
        self.held.push_str(piece);
        let mut shown = String::new();
        let whole = self.held.rfind('\n').map_or(0, |at| at + 1);
        self.show(whole, vault, &mut shown);
        let part = self.safe_part(vault);
        self.show(part, vault, &mut shown);
        shown
    }

    /// Returns the rest.
    pub(crate) fn finish(mut self, vault: &mut Vault) -> String {
        let mut shown = String::new();
        self.show(self.held.len(), vault, &mut shown);
        shown
    }

    /// Shows as many bytes of what is held, line by line.
    fn show(&mut self, bytes: usize, vault: &mut Vault, shown: &mut String) {
        if bytes == 0 {
            return;
        }
        let rest = self.held.split_off(bytes);
        let held = std::mem::replace(&mut self.held, rest);
        for line in held.split_inclusive('\n') {
            let plain = strip(line);
            // Colours within a secret hide it from the look-out, not from the reader.
            if plain != line && vault.mask_line(&plain, &mut { self.lines }) != plain {
                shown.push_str(&vault.mask_line(&plain, &mut self.lines));
            } else {
                shown.push_str(&vault.mask_line(line, &mut self.lines));
            }
        }
    }

    /// Returns how much of an unfinished line can be shown.
    fn safe_part(&self, vault: &Vault) -> usize {
        let last_blank = || {
            let at = self.held.rfind(|c: char| c.is_whitespace()).map_or(0, |at| at + 1);
            self.held.ceil_char_boundary(at)
        };
        if self.held.len() > HELD_BYTES_MAX {
            // What begins before the last bytes is whole, what begins in them is held on.
            let limit = self.held.floor_char_boundary(self.held.len() - CUT_BYTES_MAX);
            let found = { self.lines }.find(&self.held);
            let straddles = |range: &std::ops::Range<usize>| range.contains(&limit);
            let straddling = found.iter().map(|finding| &finding.range).find(|r| straddles(r));
            return straddling.map_or(limit, |range| range.start);
        }
        let is_quiet = !assignments::may_follow(&self.held)
            && !self.held.contains("-----")
            && !self.lines.is_in_key()
            && !vault.holds_blanks();
        if is_quiet { last_blank() } else { 0 }
    }
}
