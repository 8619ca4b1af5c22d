//! Reads a program's arguments against what is known of it: options first, then operands.
//!
//! A table names the options that only look, with those that take a value; an option that is
//! not in it, an abbreviation included, makes the call unknown. So does a word that might turn
//! out to be an option: a wildcard at a word's start, a value that starts with a dash. Knows no
//! program itself. Called by `judge.rs` and the files for single programs.

use crate::policy::command::lex::Word;

/// What is known of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program<'t> {
    /// Its name.
    pub(super) name: &'t str,
    /// Options of one letter that take no value. `#` allows numbers, as in `head -5`.
    pub(super) flags: &'t str,
    /// Options of one letter whose value is the rest of the word or the next word.
    pub(super) values: &'t str,
    /// Long options: `name`, `name=` with a value in the same or the next word, `name?` with a
    /// value after `=` or none.
    pub(super) long: &'t str,
    /// What may stand beside options.
    pub(super) operands: Operands,
}

/// What may stand beside a program's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Anything: files, patterns, text.
    Any,
    /// Anything, and no option of any version does more than look: file names that only the
    /// shell or `xargs` knows may be options without harm.
    Unseen,
    /// At most this many words, known one by one.
    AtMost(usize),
    /// Words of which none starts with one of these characters or holds one of the others.
    Without {
        /// What none starts with.
        starts: &'static str,
        /// What none holds.
        holds: &'static str,
    },
    /// At least one of these letters among the options, and any operands.
    Needing(&'static str),
}

/// A program's arguments as read.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    /// The options, each with its value: `-n` and `5`, `--color` and `never`.
    pub(super) options: Vec<(String, Option<String>)>,
    /// All other words, in order.
    pub(super) operands: Vec<&'a Word>,
}

impl Arguments<'_> {
    /// Returns the values of an option, by its letter or its name.
    pub(super) fn values_of(&self, names: &[&str]) -> Vec<&str> {
        let named = self.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
        named.filter_map(|(_, value)| value.as_deref()).collect()
    }

    /// Returns whether one of the options is given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

/// Returns why a call of the program is not known to only look, as a clause.
pub(super) fn check_program(program: &Program<'_>, words: &[Word]) -> Result<(), String> {
    let arguments = read_arguments(program, words)?;
    let wild = arguments.operands.iter().find(|word| word.wild.is_some());
    match program.operands {
        Operands::Any | Operands::Unseen => Ok(()),
        Operands::AtMost(count) => {
            if let Some(word) = wild {
                return Err(format!("`{}` may stand for more than one file", word.text));
            }
            if arguments.operands.len() > count {
                return Err(format!("`{}` may do more with so many arguments", program.name));
            }
            Ok(())
        }
        Operands::Without { starts, holds } => {
            let odd = |word: &&&Word| {
                word.text.starts_with(|c| starts.contains(c))
                    || word.text.contains(|c| holds.contains(c))
            };
            let values = arguments.options.iter().filter_map(|(_, value)| value.as_deref());
            if values.into_iter().any(|value| value.starts_with(|c| starts.contains(c))) {
                return Err(format!("a value is more than a name to `{}`", program.name));
            }
            match arguments.operands.iter().find(odd) {
                Some(word) => {
                    Err(format!("`{}` is more than a name to `{}`", word.text, program.name))
                }
                None => Ok(()),
            }
        }
        Operands::Needing(letters) => {
            let is_one = |name: &str| name.len() == 1 && letters.contains(name);
            if arguments.options.iter().any(|(name, _)| is_one(name)) {
                return Ok(());
            }
            Err(format!("`{}` does more than look unless it is told so", program.name))
        }
    }
}

/// Reads arguments, or says which is not known.
pub(super) fn read_arguments<'a>(
    program: &Program<'_>,
    words: &'a [Word],
) -> Result<Arguments<'a>, String> {
    let mut read = Arguments::default();
    let mut words = words.iter();
    let mut only_operands = false;
    while let Some(word) = words.next() {
        check_wildcard(program, word, only_operands)?;
        let text = word.text.as_str();
        if only_operands || !text.starts_with('-') || text == "-" {
            read.operands.push(word);
        } else if text == "--" {
            only_operands = true;
        } else if let Some(long) = text.strip_prefix("--") {
            read_long(program, long, &mut words, &mut read)?;
        } else {
            read_letters(program, text, &mut words, &mut read)?;
        }
    }
    Ok(read)
}

/// A wildcard stands for names of files, and a file may be named like an option.
fn check_wildcard(program: &Program<'_>, word: &Word, only_operands: bool) -> Result<(), String> {
    let Some(place) = word.wild else { return Ok(()) };
    let is_option = word.text.starts_with('-') && !only_operands;
    let after_equals = word.text.find('=').is_some_and(|equals| equals < place);
    if is_option && !(word.text.starts_with("--") && after_equals) {
        return Err(format!("`{}` may stand for other options", word.text));
    }
    let may_be_option = place == 0 && !only_operands && program.operands != Operands::Unseen;
    if may_be_option {
        return Err(format!("a file that `{}` stands for may be named like an option", word.text));
    }
    Ok(())
}

fn read_long<'a>(
    program: &Program<'_>,
    long: &str,
    words: &mut std::slice::Iter<'a, Word>,
    read: &mut Arguments<'a>,
) -> Result<(), String> {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    };
    let mut known = program.long.split_ascii_whitespace();
    let unknown = || unknown_option(program, &format!("--{name}"));
    let spec = known.find(|spec| spec.trim_end_matches(['=', '?']) == name).ok_or_else(unknown)?;
    let value = match (spec.ends_with('='), spec.ends_with('?'), value) {
        (true, _, None) => Some(take_value(program, &format!("--{name}"), words)?),
        (false, false, Some(_)) => return Err(unknown()),
        (_, _, value) => value,
    };
    read.options.push((name.to_owned(), value));
    Ok(())
}

fn read_letters<'a>(
    program: &Program<'_>,
    text: &str,
    words: &mut std::slice::Iter<'a, Word>,
    read: &mut Arguments<'a>,
) -> Result<(), String> {
    let letters = text.trim_start_matches('-');
    for (place, letter) in letters.char_indices() {
        let name = letter.to_string();
        let rest = letters.get(place + letter.len_utf8()..).unwrap_or_default();
        if letter != '#' && program.values.contains(letter) {
            let value = if rest.is_empty() {
                take_value(program, &format!("-{letter}"), words)?
            } else {
                rest.to_owned()
            };
            read.options.push((name, Some(value)));
            return Ok(());
        }
        let is_number = letter.is_ascii_digit() && program.flags.contains('#');
        if !is_number && (letter == '#' || !program.flags.contains(letter)) {
            return Err(unknown_option(program, &format!("-{letter}")));
        }
        read.options.push((name, None));
    }
    Ok(())
}

/// Takes the next word as a value. Where versions disagree whether there is one, a word with a
/// dash would be an option to some; a number is none to any.
fn take_value(
    program: &Program<'_>,
    option: &str,
    words: &mut std::slice::Iter<'_, Word>,
) -> Result<String, String> {
    let Some(value) = words.next() else {
        return Err(format!("the value of `{} {option}` is missing", program.name));
    };
    let is_negative = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit() || b".kKMG".contains(&byte))
    };
    let is_dashed =
        value.text.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && !is_negative(rest));
    if is_dashed || value.wild == Some(0) {
        return Err(format!("the value of `{} {option}` may be an option itself", program.name));
    }
    Ok(value.text.clone())
}

fn unknown_option(program: &Program<'_>, option: &str) -> String {
    format!("`{} {option}` is not known to only read", program.name)
}

/// Reads the options that stand before all else, and returns what follows them.
pub(super) fn read_options_in_front<'a>(
    program: &Program<'_>,
    words: &'a [Word],
) -> Result<(Arguments<'a>, &'a [Word]), String> {
    let mut read = Arguments::default();
    let mut rest = words.iter();
    while let Some(word) = rest.as_slice().first().filter(|word| word.text.starts_with('-')) {
        rest.next();
        check_wildcard(program, word, false)?;
        match word.text.strip_prefix("--") {
            Some("") => break,
            Some(long) => read_long(program, long, &mut rest, &mut read)?,
            None => read_letters(program, &word.text, &mut rest, &mut read)?,
        }
    }
    Ok((read, rest.as_slice()))
}
