//! Finds candidates by a few of their letters: files after `@`, commands after `/`.
//!
//! A query that goes on from the one before looks only at what that one left; one that was
//! cut back finds what was left then. Knows no file system: who lists paths adds them. Used by
//! completions and pickers.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Characters of a query; a longer one matches nothing that someone would look for.
const QUERY_CHARS_MAX: usize = 256;
/// Bytes of a candidate; longer ones are not looked at.
const CANDIDATE_BYTES_MAX: usize = 4096;
/// Candidates held; what is added beyond is left out.
pub(crate) const CANDIDATES_MAX: usize = 1_000_000;
/// Queries whose survivors are kept to come back to.
const LEVELS_MAX: usize = 8;

/// A candidate that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// Its number, in the order in which candidates were added.
    pub index: usize,
    /// The characters of it that match, counted from 0, ascending.
    pub positions: Vec<u32>,
}

/// What a query left.
#[derive(Debug)]
struct Level {
    query: String,
    survivors: Vec<u32>,
    /// How many candidates there were then; those added later were not looked at.
    of: usize,
}

/// Candidates and the queries that narrow them.
pub(crate) struct Finder {
    /// All candidates, one after the other.
    text: String,
    /// Where each of them ends.
    ends: Vec<usize>,
    matcher: Matcher,
    levels: Vec<Level>,
    letters: Vec<char>,
    looked_at: usize,
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finder").field("candidates", &self.ends.len()).finish_non_exhaustive()
    }
}

impl Default for Finder {
    fn default() -> Self {
        Self::new()
    }
}

impl Finder {
    /// Returns a finder without candidates.
    pub(crate) fn new() -> Self {
        Self {
            text: String::new(),
            ends: Vec::new(),
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            levels: Vec::new(),
            letters: Vec::new(),
            looked_at: 0,
        }
    }

    /// Adds a candidate. Returns whether there was room.
    pub(crate) fn add(&mut self, candidate: &str) -> bool {
        if self.ends.len() >= CANDIDATES_MAX {
            return false;
        }
        self.text.push_str(candidate);
        self.ends.push(self.text.len());
        true
    }

    /// Returns a candidate.
    pub(crate) fn get(&self, index: usize) -> Option<&str> {
        candidate(&self.text, &self.ends, index)
    }

    /// Returns how many candidates there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the best `limit` matches, best first; all candidates match an empty query.
    pub(crate) fn matches(&mut self, query: &str, limit: usize) -> Vec<Match> {
        self.looked_at = 0;
        if query.chars().all(char::is_whitespace) {
            let first = 0..self.len().min(limit);
            return first.map(|index| Match { index, positions: Vec::new() }).collect();
        }
        if query.chars().nth(QUERY_CHARS_MAX).is_some() {
            return Vec::new();
        }
        let atoms: Vec<Atom> = query.split_whitespace().map(atom).collect();
        let mut scored = self.narrow(query, &atoms);
        let length = |ends: &[usize], index: u32| {
            candidate(&self.text, ends, index as usize).map_or(0, str::len)
        };
        let ends = &self.ends;
        let order = |one: &(u32, u32), other: &(u32, u32)| {
            let by_score = other.0.cmp(&one.0);
            let by_length = || length(ends, one.1).cmp(&length(ends, other.1));
            by_score.then_with(by_length).then(one.1.cmp(&other.1))
        };
        if limit < scored.len() {
            scored.select_nth_unstable_by(limit, order);
            scored.truncate(limit);
        }
        scored.sort_unstable_by(order);
        scored.into_iter().map(|(_, index)| self.positions(index, &atoms)).collect()
    }

    /// Returns score and number of every match, looking only at what can match.
    fn narrow(&mut self, query: &str, atoms: &[Atom]) -> Vec<(u32, u32)> {
        self.levels.retain(|level| query.starts_with(&level.query));
        let all = self.ends.len();
        let (known, from) = match self.levels.last() {
            Some(level) => (level.survivors.clone(), level.of),
            None => (Vec::new(), 0),
        };
        let new = (from..all).filter_map(|index| u32::try_from(index).ok());
        let mut scored = Vec::new();
        for index in known.into_iter().chain(new) {
            self.looked_at += 1;
            let Some(text) = candidate(&self.text, &self.ends, index as usize) else { continue };
            if text.len() > CANDIDATE_BYTES_MAX {
                continue;
            }
            let letters = letters(text, &mut self.letters);
            let score = atoms.iter().try_fold(0u32, |sum, atom| {
                atom.score(letters, &mut self.matcher).map(|score| sum + u32::from(score))
            });
            scored.extend(score.map(|score| (score, index)));
        }
        let survivors = scored.iter().map(|(_, index)| *index).collect();
        let level = Level { query: query.to_owned(), survivors, of: all };
        match self.levels.last_mut().filter(|last| last.query == query) {
            Some(same) => *same = level,
            None => self.levels.push(level),
        }
        if self.levels.len() > LEVELS_MAX {
            self.levels.remove(0);
        }
        scored
    }

    fn positions(&mut self, index: u32, atoms: &[Atom]) -> Match {
        let index = index as usize;
        let mut positions = Vec::new();
        if let Some(text) = candidate(&self.text, &self.ends, index) {
            let letters = letters(text, &mut self.letters);
            for atom in atoms {
                atom.indices(letters, &mut self.matcher, &mut positions);
            }
        }
        positions.sort_unstable();
        positions.dedup();
        Match { index, positions }
    }
}

fn candidate<'a>(text: &'a str, ends: &[usize], index: usize) -> Option<&'a str> {
    let start = match index.checked_sub(1) {
        Some(before) => *ends.get(before)?,
        None => 0,
    };
    text.get(start..*ends.get(index)?)
}

/// Every word of a query is looked for by itself; case counts only when it has capitals.
fn atom(word: &str) -> Atom {
    Atom::new(word, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy, false)
}

/// Returns a candidate as the matcher reads it, character by character.
fn letters<'a>(text: &'a str, buffer: &'a mut Vec<char>) -> Utf32Str<'a> {
    if text.is_ascii() {
        return Utf32Str::Ascii(text.as_bytes());
    }
    buffer.clear();
    buffer.extend(text.chars());
    Utf32Str::Unicode(buffer)
}
