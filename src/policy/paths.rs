//! Paths and patterns: which paths a glob names, by their text alone. Pure.
//!
//! `*` and `?` stand for parts of one name, `**` for any number of names. Links are the file
//! tools' business. Called by `decide.rs` and `rules/`.

use std::path::{Component, Path, PathBuf};

/// Returns whether a path, or a directory above it, matches one of the patterns. `~` stands for
/// the home directory; a pattern that begins nowhere holds everywhere.
pub(crate) fn matches_any<'p>(
    path: &Path,
    patterns: impl IntoIterator<Item = &'p str>,
    home: &Path,
) -> bool {
    let path = normalize(path);
    patterns.into_iter().any(|pattern| {
        let text = pattern.strip_suffix("/**").unwrap_or(pattern);
        let pattern = match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(text),
        };
        let pattern: Vec<String> = pattern.components().map(in_text).collect();
        let path: Vec<String> = path.components().map(in_text).collect();
        let pattern = if pattern.first().is_some_and(|first| first == "/") {
            pattern
        } else {
            // A pattern without a place holds everywhere.
            [vec!["**".to_owned()], pattern].concat()
        };
        matches_below(&path, &pattern)
    })
}

fn in_text(component: Component<'_>) -> String {
    component.as_os_str().to_string_lossy().into_owned()
}

/// Returns whether a path, or a directory above it, matches a pattern name by name.
fn matches_below(path: &[String], pattern: &[String]) -> bool {
    // Which patterns' names may come next, as one step per name of the path: linear, whatever
    // the pattern.
    let mut states = vec![false; pattern.len() + 1];
    if let Some(first) = states.first_mut() {
        *first = true;
    }
    close_over_globstars(&mut states, pattern);
    for name in path {
        let mut next = vec![false; pattern.len() + 1];
        for (place, part) in pattern.iter().enumerate() {
            if !states.get(place).copied().unwrap_or_default() {
                continue;
            }
            let target = if part == "**" { place } else { place + 1 };
            if part == "**" || matches_name(name, part) {
                next.iter_mut().skip(target).take(1).for_each(|state| *state = true);
            }
        }
        close_over_globstars(&mut next, pattern);
        states = next;
        if states.last() == Some(&true) {
            return true;
        }
    }
    false
}

/// A `**` may stand for nothing at all.
fn close_over_globstars(states: &mut [bool], pattern: &[String]) {
    for (place, part) in pattern.iter().enumerate() {
        if part == "**" && place + 1 < pattern.len() && states.get(place) == Some(&true) {
            states.iter_mut().skip(place + 1).take(1).for_each(|state| *state = true);
        }
    }
}

/// Returns whether a name matches a pattern in which `*` stands for anything and `?` for one.
pub(crate) fn matches_name(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut want) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(at) {
        match pattern.get(want) {
            Some('*') => {
                star = Some((want, at));
                want += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => {
                at += 1;
                want += 1;
            }
            Some(_) | None => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    want = place + 1;
                    at = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(want).all(|letter| *letter == '*')
}

/// Resolves `.` and `..` by the text alone; links are the file tools' business.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}
