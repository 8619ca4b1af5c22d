//! Which calls of find only look: its tests, and what it runs for the files it finds.
//!
//! A word that might turn out to be an action, by a wildcard or as a value with a dash, makes the
//! call unknown. Called by `judge.rs`, and calls it for the command of `-exec`.

use crate::policy::command::judge::{Knowledge, check_call};
use crate::policy::command::lex::Word;

/// Stands for a name that `find` puts in: no script, format or clock setting holds it.
const FOUND: &str = "./`|>@:%n";

/// `find`'s tests and actions that only look, each with the number of words it takes.
const FIND_WORDS: &[(&str, usize)] = &[
    ("-amin", 1),
    ("-anewer", 1),
    ("-atime", 1),
    ("-cmin", 1),
    ("-cnewer", 1),
    ("-ctime", 1),
    ("-fstype", 1),
    ("-gid", 1),
    ("-group", 1),
    ("-ilname", 1),
    ("-iname", 1),
    ("-inum", 1),
    ("-ipath", 1),
    ("-iregex", 1),
    ("-iwholename", 1),
    ("-links", 1),
    ("-lname", 1),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-mmin", 1),
    ("-mtime", 1),
    ("-name", 1),
    ("-newer", 1),
    ("-newermt", 1),
    ("-newerct", 1),
    ("-newerat", 1),
    ("-path", 1),
    ("-perm", 1),
    ("-printf", 1),
    ("-regex", 1),
    ("-regextype", 1),
    ("-samefile", 1),
    ("-size", 1),
    ("-type", 1),
    ("-uid", 1),
    ("-used", 1),
    ("-user", 1),
    ("-wholename", 1),
    ("-xtype", 1),
    ("-context", 1),
    ("-H", 0),
    ("-L", 0),
    ("-P", 0),
    ("-E", 0),
    ("-X", 0),
    ("-a", 0),
    ("-and", 0),
    ("-daystart", 0),
    ("-depth", 0),
    ("-d", 0),
    ("-empty", 0),
    ("-executable", 0),
    ("-false", 0),
    ("-follow", 0),
    ("-ls", 0),
    ("-mount", 0),
    ("-nogroup", 0),
    ("-noleaf", 0),
    ("-not", 0),
    ("-nouser", 0),
    ("-nowarn", 0),
    ("-o", 0),
    ("-or", 0),
    ("-print", 0),
    ("-print0", 0),
    ("-prune", 0),
    ("-quit", 0),
    ("-readable", 0),
    ("-true", 0),
    ("-warn", 0),
    ("-writable", 0),
    ("-xdev", 0),
    ("-O1", 0),
    ("-O2", 0),
    ("-O3", 0),
    ("!", 0),
    ("(", 0),
    (")", 0),
    (",", 0),
];

pub(super) fn check_find(words: &[Word], known: Knowledge<'_>, depth: usize) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if may_be_action(word) {
            return Err(format!(
                "a file that `{}` stands for may be an action of `find`",
                word.text
            ));
        }
        if !word.text.starts_with(['-', '!', '(', ')', ',']) {
            continue;
        }
        if word.text == "-exec" {
            check_found(&mut words, known, depth)?;
            continue;
        }
        let count = FIND_WORDS.iter().find(|(name, _)| *name == word.text).map(|(_, count)| *count);
        match count {
            Some(count) if known.tables => {
                (0..count).try_for_each(|_| take_find_value(word, &mut words))?;
            }
            Some(_) | None => {
                return Err(format!("`find {}` is not known to only read", word.text));
            }
        }
    }
    if known.tables { Ok(()) } else { Err("no rule allows `find`".to_owned()) }
}

/// A wildcard at a word's start stands for any file's name, and so for an action's: but for one
/// with a dot in it, since no action has one.
fn may_be_action(word: &Word) -> bool {
    let has_dot = word.text.contains('.') && !word.text.contains('[');
    match word.wild {
        Some(0) => !has_dot,
        Some(_) => word.text.starts_with('-'),
        None => false,
    }
}

fn take_find_value(test: &Word, words: &mut std::slice::Iter<'_, Word>) -> Result<(), String> {
    let Some(value) = words.next() else {
        return Err(format!("the value of `find {}` is missing", test.text));
    };
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_dashed =
        value.text.strip_prefix('-').is_some_and(|rest| !is_number(rest) && test.text != "-perm");
    if is_dashed || may_be_action(value) {
        return Err(format!("the value of `find {}` may be an action itself", test.text));
    }
    Ok(())
}

/// Judges the command of `-exec` with names in the place of `{}`, as many as there may be.
fn check_found(
    words: &mut std::slice::Iter<'_, Word>,
    known: Knowledge<'_>,
    depth: usize,
) -> Result<(), String> {
    let mut inner: Vec<Word> = Vec::new();
    for word in words.by_ref() {
        let ends_list =
            word.text == "+" && inner.last().is_some_and(|last| last.text.ends_with(FOUND));
        if word.text == ";" || ends_list {
            if inner.first().is_none_or(|program| program.text.contains(FOUND)) {
                return Err("`find -exec` runs what it finds".to_owned());
            }
            if ends_list {
                inner.push(Word::literal(FOUND));
            }
            return check_call(&inner, known, depth + 1);
        }
        let text = word.text.replace("{}", FOUND);
        inner.push(Word { text, ..word.clone() });
    }
    Err("the command of `find -exec` has no end".to_owned())
}
