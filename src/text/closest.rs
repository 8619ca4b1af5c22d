//! Finds the name someone probably meant, for "did you mean".
//!
//! Compares by edit distance with swaps of neighbours, ignoring ASCII case. A guess that is
//! far off helps nobody, so the threshold is small.

/// Names longer than this are not compared: the table of distances grows with the square.
const NAME_CHARS_MAX: usize = 100;

/// Returns the candidate nearest to the name, if one is near enough to be a slip.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted: Vec<char> = lowered(name);
    if wanted.is_empty() || wanted.len() > NAME_CHARS_MAX {
        return None;
    }
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let letters = lowered(candidate);
        let longest = wanted.len().max(letters.len());
        if longest > NAME_CHARS_MAX || wanted.len().abs_diff(letters.len()) > longest / 3 {
            continue;
        }
        let distance = edit_distance(&wanted, &letters);
        let near_enough = distance <= (longest / 3).max(1) && distance < longest;
        if near_enough && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn lowered(text: &str) -> Vec<char> {
    text.chars().map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Returns how many insertions, deletions, changes and swaps of neighbours lie between.
fn edit_distance(left: &[char], right: &[char]) -> usize {
    let mut two_back: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &from) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, &to) in right.iter().enumerate() {
            let get = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let changed = get(&above, column) + usize::from(from != to);
            let mut least = changed.min(get(&above, column + 1) + 1).min(get(&current, column) + 1);
            let swapped = row > 0
                && column > 0
                && left.get(row - 1) == Some(&to)
                && right.get(column - 1) == Some(&from);
            if swapped {
                least = least.min(get(&two_back, column - 1) + 1);
            }
            current.push(least);
        }
        two_back = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(0)
}
