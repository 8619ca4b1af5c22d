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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finder(candidates: &[&str]) -> Finder {
        let mut finder = Finder::new();
        for candidate in candidates {
            assert!(finder.add(candidate));
        }
        finder
    }

    fn best(finder: &mut Finder, query: &str) -> Vec<String> {
        let found = finder.matches(query, 5);
        found.iter().map(|found| finder.get(found.index).unwrap().to_owned()).collect()
    }

    #[test]
    fn names_come_before_scattered_letters_and_short_before_long() {
        let mut finder = finder(&[
            "src/text/mod.rs",
            "tests/more/of/dark.rs",
            "src/frontend/tui/model.rs",
            "docs/model.rs",
            "README.md",
        ]);
        assert_eq!(best(&mut finder, "model")[..2], ["docs/model.rs", "src/frontend/tui/model.rs"]);
        assert_eq!(best(&mut finder, "tui mod"), ["src/frontend/tui/model.rs"]);
        assert_eq!(best(&mut finder, "README"), ["README.md"]);
        assert_eq!(best(&mut finder, "readme"), ["README.md"]);
        assert_eq!(best(&mut finder, "rEadme"), [""; 0]);
        assert_eq!(best(&mut finder, "!mod"), [""; 0]);
        assert_eq!(best(&mut finder, "").len(), 5);
    }

    #[test]
    fn positions_are_characters() {
        let mut finder = finder(&["süß/größe.txt", "e\u{301}tude.md"]);
        let found = finder.matches("größe", 1);
        assert_eq!(found, [Match { index: 0, positions: vec![4, 5, 6, 7, 8] }]);
        assert_eq!(finder.matches("tude", 1)[0].positions, [2, 3, 4, 5]);
        assert_eq!(finder.matches("grosse", 1), []);
    }

    #[test]
    fn a_longer_query_looks_only_at_what_is_left() {
        let mut finder = Finder::new();
        for number in 0..100_000 {
            let (a, b) = (number % 300, number / 300);
            finder.add(&format!("crates/part{a}/src/module_{b}/file_{number}.rs"));
        }
        let mut left = finder.len();
        for query in ["f", "fi", "file_9", "file_99", "file_9999"] {
            finder.matches(query, 20);
            assert_eq!(finder.looked_at, left, "{query}");
            left = finder.levels.last().unwrap().survivors.len();
        }
        assert!(left < 2_000, "{left}");
        // Cut back by one: what was left then is known.
        let before = finder.levels.iter().find(|level| level.query == "file_99").unwrap();
        let known = before.survivors.len();
        finder.matches("file_99", 20);
        assert_eq!(finder.looked_at, known);
        // What is added meanwhile is looked at, and nothing else.
        finder.add("new/file_99.rs");
        let found = finder.matches("file_99", 1);
        assert_eq!(finder.looked_at, known + 1);
        assert_eq!(finder.get(found[0].index), Some("new/file_99.rs"));
    }

    proptest! {
        #[test]
        fn narrowing_finds_what_a_fresh_search_finds(
            candidates in proptest::collection::vec("[a-cA-C/é ]{0,8}", 0..30),
            query in "[a-cA-Cé! \\\\^$]{0,6}",
            cuts in proptest::collection::vec(0..6usize, 0..6),
        ) {
            let names: Vec<&str> = candidates.iter().map(String::as_str).collect();
            let mut used = finder(&names);
            let letters: Vec<char> = query.chars().collect();
            let lengths = (0..=letters.len()).chain(cuts);
            for length in lengths {
                let part: String = letters.iter().take(length).collect();
                let mut fresh = finder(&names);
                prop_assert_eq!(used.matches(&part, 10), fresh.matches(&part, 10), "{:?}", part);
            }
        }

        #[test]
        fn nothing_panics(candidates in proptest::collection::vec(any::<String>(), 0..10), query in any::<String>()) {
            let names: Vec<&str> = candidates.iter().map(String::as_str).collect();
            for found in finder(&names).matches(&query, 10) {
                let length = names[found.index].chars().count();
                prop_assert!(found.positions.iter().all(|at| (*at as usize) < length));
            }
        }
    }
}
