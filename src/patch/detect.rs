//! Finds a patch inside a shell call: models write `apply_patch <<'EOF'` from habit.
//!
//! Only a call that is nothing but a patch is found; anything beside it runs as a normal
//! command. Reads a small safe subset of shell text itself and expands nothing. The text of
//! a heredoc is taken as written, also after an unquoted word: a model means it so.

use std::path::Path;

use crate::protocol::CommandLine;

/// The names a patch is called by.
const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

/// Shells whose `-c` text is read.
const SHELLS: [&str; 5] = ["bash", "sh", "zsh", "dash", "ksh"];

/// A patch inside a shell call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The patch's text.
    pub(crate) patch: String,
    /// The directory that the call changes to first.
    pub(crate) workdir: Option<String>,
}

/// Returns the patch when the whole command is a call of `apply_patch`.
pub(crate) fn detect(command: &CommandLine) -> Option<Found> {
    match command {
        CommandLine::Shell { script, .. } => detect_script(script),
        CommandLine::Argv { argv } => match argv.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            [name, patch] if NAMES.contains(&name) => {
                Some(Found { patch: patch.to_owned(), workdir: None })
            }
            [shell, flags, script] if is_shell(shell) && takes_script(flags) => {
                detect_script(script)
            }
            [shell, "-l" | "--login", "-c", script] if is_shell(shell) => detect_script(script),
            _ => None,
        },
    }
}

fn is_shell(program: &str) -> bool {
    program.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name))
}

/// Returns whether the flags say no more than that the next word is a script, and how it is read.
fn takes_script(flags: &str) -> bool {
    flags.strip_prefix('-').is_some_and(|letters| {
        letters.contains('c') && letters.chars().all(|letter| "ceilux".contains(letter))
    })
}

/// Returns the patch when the whole script is a call of `apply_patch`.
pub(super) fn detect_script(script: &str) -> Option<Found> {
    let mut text = script.trim_start();
    let mut workdir = None;
    if let Some(rest) = text.strip_prefix("cd").filter(|rest| rest.starts_with([' ', '\t'])) {
        let (directory, rest) = read_word(rest.trim_start_matches([' ', '\t']))?;
        if directory.is_empty() || directory.starts_with('-') {
            return None;
        }
        workdir = Some(directory);
        text = rest.trim_start_matches([' ', '\t']).strip_prefix("&&")?.trim_start();
    }
    if let Some(mut found) = detect_inner_shell(text) {
        found.workdir = match (workdir, found.workdir) {
            (Some(outer), Some(inner)) => {
                Some(Path::new(&outer).join(inner).to_string_lossy().into_owned())
            }
            (outer, inner) => inner.or(outer),
        };
        return Some(found);
    }
    let rest = NAMES.iter().find_map(|name| text.strip_prefix(name))?;
    if !rest.starts_with([' ', '\t', '<']) {
        return None;
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let patch = match rest.strip_prefix("<<") {
        Some(heredoc) => read_heredoc(heredoc)?,
        None => {
            let (word, after) = read_word(rest)?;
            if !after.trim().is_empty() {
                return None;
            }
            word
        }
    };
    Some(Found { patch, workdir })
}

/// Returns the patch in a script that calls a shell with another one.
fn detect_inner_shell(text: &str) -> Option<Found> {
    let (shell, mut rest) = read_word(text)?;
    if !is_shell(&shell) {
        return None;
    }
    let mut argv = vec![shell];
    // A shell, two flags and a script.
    while argv.len() < 4 {
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.trim().is_empty() {
            break;
        }
        let (word, after) = read_word(rest)?;
        argv.push(word);
        rest = after;
    }
    // A script within a script is quoted once more, so they cannot be nested deep.
    let is_whole = rest.trim().is_empty();
    is_whole.then(|| detect(&CommandLine::Argv { argv })).flatten()
}

/// Returns the text of a heredoc that ends the script; `text` follows the `<<`.
pub(super) fn read_heredoc(text: &str) -> Option<String> {
    let (tabs_go, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (word, rest) = read_word(text.trim_start_matches([' ', '\t']))?;
    let (after_word, body) = rest.split_once('\n')?;
    if word.is_empty() || !after_word.trim().is_empty() {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.split_inclusive('\n');
    for line in lines.by_ref() {
        let line = if tabs_go { line.trim_start_matches('\t') } else { line };
        if line.trim_end_matches(['\n', '\r']) == word {
            let ends_here = lines.all(|line| line.trim().is_empty());
            return ends_here.then_some(patch);
        }
        patch.push_str(line);
    }
    None
}

/// Reads one shell word without expansions: its value and what follows it. `None` when the
/// word is missing or a shell would expand something in it.
fn read_word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut rest = text;
    loop {
        let mut letters = rest.chars();
        let Some(letter) = letters.next() else { break };
        match letter {
            '\'' => {
                let (inside, after) = letters.as_str().split_once('\'')?;
                word.push_str(inside);
                rest = after;
            }
            '"' => rest = read_double_quoted(letters.as_str(), &mut word)?,
            '\\' => {
                let escaped = letters.next()?;
                // A backslash before a newline joins two lines.
                if escaped != '\n' {
                    word.push(escaped);
                }
                rest = letters.as_str();
            }
            '~' if rest.len() == text.len() => return None,
            letter if letter.is_alphanumeric() || "_./+-@:,=%~".contains(letter) => {
                word.push(letter);
                rest = letters.as_str();
            }
            ' ' | '\t' | '\n' | '\r' | '&' => break,
            _ => return None,
        }
    }
    (rest.len() < text.len()).then_some((word, rest))
}

/// Reads up to the closing quote and returns what follows it.
fn read_double_quoted<'a>(text: &'a str, word: &mut String) -> Option<&'a str> {
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '"' => return Some(letters.as_str()),
            '$' | '`' => return None,
            '\\' => match letters.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                '\n' => {}
                other => word.extend(['\\', other]),
            },
            other => word.push(other),
        }
    }
}
