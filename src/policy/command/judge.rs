//! Whether a command is known to only read, or why not. Every part must be known.
//!
//! What changes nothing about the command behind it (`time`, `env`, `timeout`, `sh -c`, …) is
//! seen through. The same walk answers for rules that allow: a part may be known by a rule
//! instead. Pure. Called by `decide.rs`, `check.rs` and the executor through `mod.rs`.

use crate::policy::command::find::check_find;
use crate::policy::command::lex::{Call, Word, deceives, read_line};
use crate::policy::command::options::{Operands, Program, read_options_in_front};
use crate::policy::command::readers::check_reader;
use crate::policy::command::tables::{PROGRAMS, VERSIONS};
use crate::protocol::CommandLine;

/// Bytes of a command that is taken as harmless: what people read with is short.
const COMMAND_BYTES_MAX: usize = 4096;

/// Commands within commands that are looked at.
const DEPTH_MAX: usize = 8;

/// Says whether a rule allows the command that these words call.
pub(crate) type Allows<'a> = dyn Fn(&[Word]) -> bool + 'a;

/// What a part of a command may be known by.
#[derive(Clone, Copy)]
pub(crate) struct Knowledge<'a> {
    /// Whether the tables of programs that only read count.
    pub(crate) tables: bool,
    /// Whether a rule allows the command that these words call.
    pub(crate) allows: Option<&'a Allows<'a>>,
}

/// Returns whether a command is known to change nothing.
pub(crate) fn is_known_read_only(command: &CommandLine) -> bool {
    check_command(command, Knowledge { tables: true, allows: None }).is_ok()
}

/// Returns why a command is not known, as a clause: "it expands a variable".
pub(crate) fn check_command(command: &CommandLine, known: Knowledge<'_>) -> Result<(), String> {
    match command {
        CommandLine::Argv { argv } => {
            if argv.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
                return Err("it is too long to be looked at".to_owned());
            }
            if argv.iter().any(|word| word.chars().any(deceives)) {
                return Err("it holds a character that cannot be seen".to_owned());
            }
            let words: Vec<Word> = argv.iter().map(|word| Word::literal(word)).collect();
            check_call(&words, known, 0)
        }
        CommandLine::Shell { program, login: _, script } => match strip_place(program) {
            Some("sh" | "bash" | "dash" | "zsh") => check_script(script, known, 0),
            Some(_) | None => Err(format!("`{program}` may read it in another way")),
        },
    }
}

fn check_script(script: &str, known: Knowledge<'_>, depth: usize) -> Result<(), String> {
    if script.len() > COMMAND_BYTES_MAX {
        return Err("it is too long to be looked at".to_owned());
    }
    let line = read_line(script);
    if let Some(odd) = line.odd {
        return Err(format!("{} (at byte {})", odd.reason, odd.at + 1));
    }
    line.calls.iter().try_for_each(|Call { words, .. }| check_call(words, known, depth))
}

/// Returns the name of a program that is looked up in PATH or lies where systems keep theirs.
fn strip_place(program: &str) -> Option<&str> {
    let places = ["/usr/bin/", "/bin/"];
    let name = places.iter().find_map(|place| program.strip_prefix(place)).unwrap_or(program);
    (!name.contains('/')).then_some(name)
}

/// Judges one call: assignments, program and arguments.
pub(super) fn check_call(words: &[Word], known: Knowledge<'_>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("it nests too many commands".to_owned());
    }
    let words = strip_assignments(words)?;
    let Some((program, arguments)) = words.split_first() else {
        return Err("it sets a variable and runs nothing".to_owned());
    };
    if program.quoted || program.wild.is_some() || program.open {
        return Err("its program is not written plainly".to_owned());
    }
    if known.allows.is_some_and(|allows| allows(words)) {
        return Ok(());
    }
    let Some(name) = strip_place(&program.text) else {
        return Err(format!("`{}` is not a program of the system", program.text));
    };
    if known.tables && is_version(name, arguments) {
        return Ok(());
    }
    if let Some(judged) = check_wrapper(name, arguments, known, depth) {
        return judged;
    }
    if !known.tables {
        return Err(format!("no rule allows `{name}`"));
    }
    check_reader(name, arguments)
}

/// Variables that change how something is shown, with the values they may have.
fn strip_assignments(words: &[Word]) -> Result<&[Word], String> {
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let Some((name, value)) = first.text.split_once('=') else { break };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if first.text.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_name) {
            break;
        }
        if first.quoted || first.wild.is_some() || !is_harmless_variable(name, value) {
            return Err(format!("setting `{name}` may change what runs"));
        }
        rest = after;
    }
    Ok(rest)
}

fn is_harmless_variable(name: &str, value: &str) -> bool {
    let only = |signs: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c));
    match name {
        "LANG" | "LANGUAGE" => only("_.-@"),
        "TZ" => only("/_+-") && !value.starts_with('/'),
        "NO_COLOR" | "CLICOLOR" | "FORCE_COLOR" | "COLUMNS" | "LINES" => only(""),
        "TERM" => only("-"),
        "GIT_PAGER" | "PAGER" => matches!(value, "cat" | ""),
        "GIT_OPTIONAL_LOCKS" | "GIT_TERMINAL_PROMPT" => matches!(value, "0" | "1"),
        _ => name.starts_with("LC_") && only("_.-@"),
    }
}

/// Looks through what runs another command as it is; `None` for all other programs.
fn check_wrapper(
    name: &str,
    words: &[Word],
    known: Knowledge<'_>,
    depth: usize,
) -> Option<Result<(), String>> {
    let wrapper =
        |flags, values, long| Program { name, flags, values, long, operands: Operands::Any };
    let through = |program: Program<'_>, operands: usize| {
        let (_, rest) = read_options_in_front(&program, words)?;
        match rest.get(operands..).filter(|rest| !rest.is_empty()) {
            Some(rest) if !rest.iter().take(1).any(|word| word.text.contains('=')) => {
                check_call(rest, known, depth + 1)
            }
            Some(_) | None => Err(format!("`{name}` has no command to run")),
        }
    };
    let judged = match name {
        "time" => through(wrapper("p", "", ""), 0),
        "nice" => through(wrapper("#", "n", "adjustment="), 0),
        "timeout" => {
            through(wrapper("v", "ks", "foreground kill-after= preserve-status signal= verbose"), 1)
        }
        "stdbuf" => through(wrapper("", "ioe", "input= output= error="), 0),
        "env" => check_env(&wrapper("i", "u", "ignore-environment unset="), words, known, depth),
        "command" => match words.first().map(|word| word.text.as_str()) {
            Some("-v" | "-V") if known.tables => Ok(()),
            _ => through(wrapper("p", "", ""), 0),
        },
        "sh" | "bash" | "dash" | "zsh" => check_shell(name, words, known, depth),
        "xargs" => check_xargs(words, known, depth),
        "find" => check_find(words, known, depth),
        _ => return None,
    };
    Some(judged)
}

fn check_env(
    env: &Program<'_>,
    words: &[Word],
    known: Knowledge<'_>,
    depth: usize,
) -> Result<(), String> {
    let (_, rest) = read_options_in_front(env, words)?;
    let is_bare = strip_assignments(rest)?.is_empty();
    if is_bare && known.tables { Ok(()) } else { check_call(rest, known, depth + 1) }
}

/// `sh -c SCRIPT` and `bash -lc SCRIPT`; with more words, or none, it reads something else.
fn check_shell(
    name: &str,
    words: &[Word],
    known: Knowledge<'_>,
    depth: usize,
) -> Result<(), String> {
    let options = words.iter().take_while(|word| word.text.starts_with('-')).count();
    let (options, rest) = words.split_at(options);
    let is_known = |word: &Word| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|letter| "celux".contains(letter))
    };
    let reads_script = options.iter().any(|word| word.text.contains('c'));
    match rest {
        [script] if reads_script && options.iter().all(is_known) && script.wild.is_none() => {
            check_script(&script.text, known, depth + 1)
        }
        _ => Err(format!("`{name}` runs more than a script that is given in full")),
    }
}

/// `xargs` adds words that nobody has seen: only to programs that no option makes do more.
fn check_xargs(words: &[Word], known: Knowledge<'_>, depth: usize) -> Result<(), String> {
    let xargs = Program {
        name: "xargs",
        flags: "0rtx",
        values: "dEILnPs",
        long: "delimiter= max-args= max-chars= max-lines= max-procs= no-run-if-empty null verbose",
        operands: Operands::Any,
    };
    let (options, rest) = read_options_in_front(&xargs, words)?;
    let Some((program, arguments)) = rest.split_first() else {
        return Err("`xargs` has no command to run".to_owned());
    };
    let replaced = options.values_of(&["I"]);
    if replaced.iter().any(|text| text.is_empty() || program.text.contains(text)) {
        return Err("`xargs -I` may put another program in".to_owned());
    }
    if known.allows.is_some_and(|allows| !program.quoted && !program.open && allows(rest)) {
        return Ok(());
    }
    let name = strip_place(&program.text).unwrap_or_default();
    let is_unseen =
        |program: &&Program<'_>| program.name == name && program.operands == Operands::Unseen;
    if !known.tables || program.quoted || !PROGRAMS.iter().any(|program| is_unseen(&program)) {
        return Err(format!(
            "`xargs` adds words, and with some `{}` may do more than read",
            program.text
        ));
    }
    check_call(rest, known, depth + 1).and_then(|()| check_reader(name, arguments))
}

/// Returns whether the call only says a version, or is another that takes no more words.
fn is_version(name: &str, arguments: &[Word]) -> bool {
    let is_python = |name: &str| {
        name.strip_prefix("python").is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    let name = if is_python(name) { "python" } else { name };
    let said: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    let said = said.join(" ");
    arguments.iter().all(|word| !word.quoted && word.wild.is_none())
        && VERSIONS.iter().any(|(known, forms)| *known == name && forms.contains(&said.as_str()))
}
