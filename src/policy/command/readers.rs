//! Which calls of programs that run no other only look: by the tables, and by what is special in
//! some of them.
//!
//! Knows no shell and no rule. Called by `judge.rs`.

use crate::policy::command::git;
use crate::policy::command::lex::Word;
use crate::policy::command::options::{Operands, Program, check_program, read_arguments};
use crate::policy::command::scripts;
use crate::policy::command::tables::{PROGRAMS, SUBCOMMANDS};

/// Judges a program that runs no other.
pub(super) fn check_reader(name: &str, words: &[Word]) -> Result<(), String> {
    let texts = || words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>();
    let unless = |is_fine: bool, what: &str| if is_fine { Ok(()) } else { Err(what.to_owned()) };
    match name {
        // Whatever it is given, it prints; what is an option to one is text to another.
        "echo" => Ok(()),
        "git" => git::check_git(words),
        "sed" | "gsed" => check_sed(words),
        "awk" | "gawk" | "mawk" | "nawk" => check_awk(words),
        "tar" => check_tar(words),
        "xxd" => check_xxd(words),
        "date" => check_date(words),
        "printf" => {
            let format = words.first().filter(|word| word.wild.is_none());
            let is_fine = format.is_some_and(|word| scripts::is_harmless_format(&word.text));
            unless(is_fine, "`printf` with this format may do more than print")
        }
        "cd" => {
            let is_fine = words.len() <= 1
                && words
                    .iter()
                    .all(|word| !word.text.starts_with(['-', '+']) && word.wild.is_none());
            unless(is_fine, "`cd` with this argument goes where only the shell knows")
        }
        "[" => match texts().split_last() {
            Some((&"]", words)) => {
                unless(scripts::is_harmless_test(words), "`[` may compute what it is given")
            }
            _ => Err("`[` is not closed".to_owned()),
        },
        "test" => {
            unless(scripts::is_harmless_test(&texts()), "`test` may compute what it is given")
        }
        _ => check_listed(name, words),
    }
}

fn check_listed(name: &str, words: &[Word]) -> Result<(), String> {
    if let Some(program) = PROGRAMS.iter().find(|program| program.name == name) {
        return check_program(program, words);
    }
    let first = words.first().map(|word| word.text.as_str()).unwrap_or_default();
    let rest = words.get(1..).unwrap_or_default();
    let Some((_, program)) =
        SUBCOMMANDS.iter().find(|(known, program)| *known == name && program.name == first)
    else {
        return Err(format!("`{name}` is not known to only read"));
    };
    let shows = name == "ip"
        && matches!(rest, [show, ..] if matches!(show.text.as_str(), "show" | "list" | "ls"));
    if shows { Ok(()) } else { check_program(program, rest) }
}

/// An operand sets the clock, unless it is a format. `-I` takes its value in the same word alone:
/// it is put away there, and not the word, which may be another option's value.
fn check_date(words: &[Word]) -> Result<(), String> {
    const PRECISIONS: &[&str] = &["-Idate", "-Ihours", "-Iminutes", "-Iseconds", "-Ins", "-Is"];
    let shorten = |word: &Word| match PRECISIONS.contains(&word.text.as_str()) {
        true => Word::literal("-I"),
        false => word.clone(),
    };
    let words: Vec<Word> = words.iter().map(shorten).collect();
    let program = PROGRAMS.iter().find(|program| program.name == "date");
    let Some(program) = program else { return check_listed("date", &words) };
    let is_format = |word: &&Word| word.text.starts_with('+') && word.wild.is_none();
    if read_arguments(program, &words)?.operands.iter().all(is_format) {
        return Ok(());
    }
    Err("`date` with this argument may set the clock".to_owned())
}

fn check_sed(words: &[Word]) -> Result<(), String> {
    let sed = Program {
        name: "sed",
        flags: "nErsuz",
        values: "e",
        long: "debug expression= null-data posix quiet regexp-extended separate silent unbuffered",
        operands: Operands::Any,
    };
    let arguments = read_arguments(&sed, words)?;
    let mut scripts = arguments.values_of(&["e", "expression"]);
    if scripts.is_empty() {
        scripts.extend(arguments.operands.first().map(|word| word.text.as_str()));
    }
    let is_fine =
        !scripts.is_empty() && scripts.iter().all(|script| scripts::is_harmless_sed(script));
    let is_wild = arguments.operands.first().is_some_and(|word| word.wild.is_some());
    if is_fine && !(is_wild && scripts.len() == 1 && !arguments.has(&["e", "expression"])) {
        return Ok(());
    }
    Err("the script of `sed` may do more than print".to_owned())
}

fn check_awk(words: &[Word]) -> Result<(), String> {
    let awk = Program { name: "awk", flags: "", values: "Fv", long: "", operands: Operands::Any };
    let arguments = read_arguments(&awk, words)?;
    let program = arguments.operands.first().filter(|word| word.wild.is_none());
    if program.is_some_and(|word| scripts::is_harmless_awk(&word.text)) {
        return Ok(());
    }
    Err("the program of `awk` may do more than print".to_owned())
}

/// `xxd` takes `-ps` for one option and `-s` for another: only numbers are taken as values, so
/// that no file is taken for one, since a second file is written to.
fn check_xxd(words: &[Word]) -> Result<(), String> {
    let is_number = |word: &&Word| {
        let digits = word.text.strip_prefix("0x").unwrap_or(&word.text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let takes_number = |word: &Word| matches!(word.text.as_str(), "-c" | "-g" | "-l" | "-o" | "-s");
    let mut kept = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        kept.push(word.clone());
        if takes_number(word) {
            rest.next_if(is_number);
        }
    }
    check_listed("xxd", &kept)
}

/// `tar -tf` and the older `tar tf`; a name with a colon is another machine's.
fn check_tar(words: &[Word]) -> Result<(), String> {
    let mut words = words.to_vec();
    if let Some(first) = words.first_mut().filter(|word| !word.text.starts_with('-')) {
        first.text.insert(0, '-');
    }
    let tar = Program {
        name: "tar",
        flags: "tvzjJ",
        values: "f",
        long: "bzip2 file= gzip list verbose xz",
        operands: Operands::Any,
    };
    let arguments = read_arguments(&tar, &words)?;
    let files = arguments.values_of(&["f", "file"]);
    let operands = arguments.operands.iter().map(|word| word.text.as_str());
    let is_near = files.iter().copied().chain(operands).all(|file| !file.contains(':'));
    if arguments.has(&["t", "list"]) && !files.is_empty() && is_near {
        return Ok(());
    }
    Err("`tar` does more than list a file of this machine".to_owned())
}
