//! Finds the lines of a file that have a given key, in a file that changes meanwhile.
//!
//! Each block of lines has a small filter, so that a search passes over most blocks with one
//! look; one table for the whole file counts keys, so that rare lines are known. Both only
//! ever say "maybe": what is found is compared. Knows no patch. Called by `lines.rs`.

use std::cell::Cell;

use crate::patch::level::{fold, hash, word_ends};

/// Steps of searching that a patch may still spend.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(steps: usize) -> Self {
        Self(Cell::new(steps))
    }

    pub(super) fn spend(&self, steps: usize) {
        self.0.set(self.left().saturating_sub(steps));
    }

    /// Returns what is left; once there is nothing, nothing found counts.
    pub(super) fn left(&self) -> usize {
        self.0.get()
    }
}

/// A set of hashes that may say yes too often.
#[derive(Debug, Clone)]
pub(super) struct Filter(Box<[u64; Self::WORDS]>);

impl Filter {
    /// 4,096 bits for some 256 keys: one look in sixteen is in vain.
    const WORDS: usize = 64;

    pub(super) fn new() -> Self {
        Self(Box::new([0; Self::WORDS]))
    }

    pub(super) fn add(&mut self, hash: u32) {
        let (word, bit) = Self::place(hash);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    pub(super) fn may_hold(&self, hash: u32) -> bool {
        let (word, bit) = Self::place(hash);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(hash: u32) -> (usize, u64) {
        (hash as usize / 64 % Self::WORDS, 1 << (hash % 64))
    }
}

/// How often each key is in the file, never too low.
#[derive(Debug, Clone)]
pub(super) struct Counts(Vec<u8>);

impl Counts {
    /// A count that says "many" and stays.
    pub(super) const MANY: u8 = u8::MAX;

    pub(super) fn new(lines: usize) -> Self {
        Self(vec![0; lines.saturating_mul(4).next_power_of_two().max(64)])
    }

    pub(super) fn add(&mut self, hash: u32) {
        for at in self.slots(hash) {
            if let Some(slot) = self.0.get_mut(at) {
                *slot = slot.saturating_add(1);
            }
        }
    }

    pub(super) fn remove(&mut self, hash: u32) {
        for at in self.slots(hash) {
            if let Some(slot) = self.0.get_mut(at).filter(|slot| **slot != Self::MANY) {
                *slot = slot.saturating_sub(1);
            }
        }
    }

    pub(super) fn of(&self, hash: u32) -> u8 {
        let counts = self.slots(hash).map(|at| self.0.get(at).copied().unwrap_or(Self::MANY));
        counts.into_iter().min().unwrap_or(Self::MANY)
    }

    /// Two places of a key: another one that shares both is rare.
    fn slots(&self, hash: u32) -> [usize; 2] {
        let mask = self.0.len() - 1;
        let other = hash.wrapping_mul(0x9E37_79B1).rotate_left(15);
        [hash as usize & mask, other as usize & mask]
    }
}

/// How many beginnings of a line are kept.
const HEADS_MAX: usize = 6;

/// Returns the hashes of the beginnings of a line that end with a word.
pub(super) fn heads_of(text: &[u8]) -> Vec<u32> {
    let text = fold(text);
    let heads = word_ends(&text).take(HEADS_MAX).filter_map(|end| text.get(..end)).map(hash);
    heads.collect()
}

/// Returns the hash that every line beginning with these words has among its heads; `None`
/// when there is no word.
pub(super) fn head_to_find(prefix: &[u8]) -> Option<u32> {
    let end = word_ends(prefix).take(HEADS_MAX).last()?;
    prefix.get(..end).map(hash)
}
