//! What was cut, newest last, as readline's kill ring keeps it.
//!
//! Cuts right after one another join into one. Bounded in number and bytes. Knows text only.

/// Cuts kept.
const CUTS_MAX: usize = 32;
/// Bytes of all cuts together; the newest stays whatever its size.
const BYTES_MAX: usize = 4 << 20;

/// Which way a cut went from the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Left,
    Right,
}

/// The cuts.
#[derive(Debug, Clone, Default)]
pub(super) struct KillRing {
    cuts: Vec<String>,
    /// Which of them was put back last, counted from the newest.
    turned: usize,
}

impl KillRing {
    /// Adds a cut of its own.
    pub(super) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.turned = 0;
        self.cuts.push(text.to_owned());
        while self.cuts.len() > CUTS_MAX || self.cuts.len() > 1 && self.bytes() > BYTES_MAX {
            self.cuts.remove(0);
        }
    }

    /// Joins a cut to the newest.
    pub(super) fn join(&mut self, text: &str, way: Way) {
        self.turned = 0;
        match (self.cuts.last_mut(), way) {
            (Some(newest), Way::Right) => newest.push_str(text),
            (Some(newest), Way::Left) => newest.insert_str(0, text),
            (None, _) => self.push(text),
        }
    }

    /// Returns the newest cut.
    pub(super) fn newest(&mut self) -> Option<&str> {
        self.turned = 0;
        self.cuts.last().map(String::as_str)
    }

    /// Returns the cut before the one put back last; after the oldest comes the newest.
    pub(super) fn turn(&mut self) -> Option<&str> {
        self.turned = (self.turned + 1) % self.cuts.len().max(1);
        self.cuts.iter().rev().nth(self.turned).map(String::as_str)
    }

    /// Returns all cuts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.cuts.iter().map(String::as_str)
    }

    fn bytes(&self) -> usize {
        self.cuts.iter().map(String::len).sum()
    }
}
