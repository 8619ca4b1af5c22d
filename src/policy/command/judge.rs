//! Whether a command is known to only read, or why not. Every part must be known.
//!
//! What changes nothing about the command behind it (`time`, `env`, `timeout`, `sh -c`, …) is
//! seen through. The same walk answers for rules that allow: a part may be known by a rule
//! instead. Pure. Called by `decide.rs`, `check.rs` and the executor through `mod.rs`.

use crate::policy::command::git;
use crate::policy::command::lex::{Call, Word, deceives, read_line};
use crate::policy::command::options::{
    Operands, Program, check_program, read_arguments, read_options_in_front,
};
use crate::policy::command::scripts;
use crate::policy::command::tables::{PROGRAMS, SUBCOMMANDS, VERSIONS};
use crate::protocol::CommandLine;

/// Bytes of a command that is taken as harmless: what people read with is short.
const COMMAND_BYTES_MAX: usize = 4096;

/// Commands within commands that are looked at.
const DEPTH_MAX: usize = 8;

/// Stands for a name that `find` puts in: no script, format or clock setting holds it.
const FOUND: &str = "./`|>@:%n";

/// What a part of a command may be known by.
#[derive(Clone, Copy)]
pub(crate) struct Knowledge<'a> {
    /// Whether the tables of programs that only read count.
    pub(crate) tables: bool,
    /// Whether a rule allows the command that these words call.
    pub(crate) allows: Option<&'a dyn Fn(&[Word]) -> bool>,
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
fn check_call(words: &[Word], known: Knowledge<'_>, depth: usize) -> Result<(), String> {
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

fn check_find(words: &[Word], known: Knowledge<'_>, depth: usize) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.wild == Some(0) || (word.wild.is_some() && word.text.starts_with('-')) {
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
                (0..count).try_for_each(|_| take_find_value(word, &mut words))?
            }
            Some(_) | None => {
                return Err(format!("`find {}` is not known to only read", word.text));
            }
        }
    }
    if known.tables { Ok(()) } else { Err("no rule allows `find`".to_owned()) }
}

fn take_find_value(test: &Word, words: &mut std::slice::Iter<'_, Word>) -> Result<(), String> {
    let Some(value) = words.next() else {
        return Err(format!("the value of `find {}` is missing", test.text));
    };
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_dashed =
        value.text.strip_prefix('-').is_some_and(|rest| !is_number(rest) && test.text != "-perm");
    if is_dashed || value.wild == Some(0) {
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

/// Judges a program that runs no other.
fn check_reader(name: &str, words: &[Word]) -> Result<(), String> {
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
        check_program(program, words)?;
        let is_format = |word: &&Word| word.text.starts_with('+') && word.wild.is_none();
        if name == "date" && !read_arguments(program, words)?.operands.iter().all(is_format) {
            return Err("`date` with this argument may set the clock".to_owned());
        }
        return Ok(());
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
