//! Which commands are known to only read. Pure, strict, and wrong only on the safe side.
//!
//! A small part of the shell's language is understood: words, quotes without expansion,
//! `&& || ; |`, redirections to `/dev/null` and between descriptors. Anything else, and any
//! program or option not listed here, is unknown. "Known" still runs in the sandbox.

use crate::protocol::CommandLine;

/// Bytes of a command line that are looked at; what is longer is unknown.
const COMMAND_BYTES_MAX: usize = 4096;

/// Options that take no program, no file to write and no place outside.
struct Program {
    name: &'static str,
    /// Single letters that may follow one dash, together or alone. `#` allows a number.
    letters: &'static str,
    /// Single letters whose value is the rest of the word or the next word.
    letters_with_value: &'static str,
    /// Long options, without a value or with one after `=`.
    long: &'static [&'static str],
}

/// Programs whose other arguments are only paths and patterns.
const PROGRAMS: &[Program] = &[
    program(
        "ls",
        "1aAbBcCdfFghHiklLmnNopqQrRsStuUvxXZ",
        "",
        &[
            "all",
            "almost-all",
            "color",
            "directory",
            "human-readable",
            "recursive",
            "reverse",
            "size",
            "sort",
            "time",
        ],
    ),
    program("cat", "AbeEnstTuv", "", &["number", "show-all"]),
    program("head", "qvz#", "nc", &["lines", "bytes", "quiet", "verbose"]),
    program("tail", "qvz#", "nc", &["lines", "bytes", "quiet", "verbose"]),
    program("wc", "clmLw", "", &["bytes", "chars", "lines", "max-line-length", "words"]),
    program("grep", "EFGPabchHiIlLnoqrRsTUvVwxyzZ#", "ABCemf", GREP_LONG),
    program("egrep", "abchHiIlLnoqrRsvwxz#", "ABCemf", GREP_LONG),
    program("fgrep", "abchHiIlLnoqrRsvwxz#", "ABCemf", GREP_LONG),
    program(
        "rg",
        "abcFHhiIlLnNoPqsSuUvVwx0.",
        "ABCegmtTdfjM",
        &[
            "after-context",
            "before-context",
            "case-sensitive",
            "color",
            "column",
            "context",
            "count",
            "count-matches",
            "files",
            "files-with-matches",
            "files-without-match",
            "fixed-strings",
            "glob",
            "heading",
            "hidden",
            "iglob",
            "ignore-case",
            "invert-match",
            "json",
            "line-number",
            "line-regexp",
            "max-columns",
            "max-count",
            "max-depth",
            "max-filesize",
            "multiline",
            "multiline-dotall",
            "no-filename",
            "no-heading",
            "no-ignore",
            "no-ignore-vcs",
            "no-line-number",
            "no-messages",
            "null",
            "only-matching",
            "pcre2",
            "pretty",
            "quiet",
            "regexp",
            "replace",
            "smart-case",
            "sort",
            "sortr",
            "stats",
            "text",
            "trim",
            "type",
            "type-list",
            "type-not",
            "unrestricted",
            "vimgrep",
            "with-filename",
            "word-regexp",
        ],
    ),
    program("echo", "neE", "", &[]),
    program("pwd", "LP", "", &[]),
    program("true", "", "", &[]),
    program("false", "", "", &[]),
    program("date", "uRI", "d", &["date", "utc", "universal", "rfc-3339", "iso-8601", "rfc-email"]),
    program(
        "sort",
        "bcCdfghiMnRrsuVz",
        "kt",
        &[
            "key",
            "field-separator",
            "numeric-sort",
            "reverse",
            "unique",
            "version-sort",
            "human-numeric-sort",
            "ignore-case",
        ],
    ),
    program(
        "cut",
        "nsz",
        "bcdf",
        &["bytes", "characters", "delimiter", "fields", "only-delimited", "complement"],
    ),
    program("tr", "cCdst", "", &["complement", "delete", "squeeze-repeats"]),
    program("stat", "Lft", "c", &["dereference", "file-system", "format", "printf", "terse"]),
    program("file", "bhiLkNprsv0", "", &["brief", "dereference", "mime", "mime-type"]),
    program(
        "du",
        "0aAbchHklLmPsSx",
        "dBt",
        &["all", "apparent-size", "human-readable", "max-depth", "summarize", "total"],
    ),
    program("df", "aHhiklPT", "tBx", &["all", "human-readable", "inodes", "print-type", "total"]),
    program("uname", "amnrspvio", "", &["all"]),
    program("whoami", "", "", &[]),
    program("id", "gGnruz", "", &["group", "groups", "name", "user"]),
    program("nproc", "", "", &["all"]),
    program("which", "as", "", &["all"]),
    program("basename", "az", "s", &["multiple", "suffix"]),
    program("dirname", "z", "", &["zero"]),
    program("realpath", "eLmPqsz", "", &["relative-to", "relative-base", "canonicalize-existing"]),
    program("readlink", "efmnqsvz", "", &["canonicalize", "canonicalize-existing"]),
    program("nl", "p", "bdfhilnsvw", &[]),
    program("cmp", "bls", "in", &[]),
    program(
        "diff",
        "abBcdeEiNpqrstTuwy#",
        "CUx",
        &[
            "brief",
            "color",
            "exclude",
            "ignore-all-space",
            "ignore-blank-lines",
            "ignore-case",
            "ignore-space-change",
            "new-file",
            "recursive",
            "side-by-side",
            "unified",
        ],
    ),
    program("md5sum", "bt", "", &[]),
    program("sha256sum", "bt", "", &[]),
    program("sha1sum", "bt", "", &[]),
];

const GREP_LONG: &[&str] = &[
    "after-context",
    "before-context",
    "binary-files",
    "color",
    "context",
    "count",
    "exclude",
    "exclude-dir",
    "extended-regexp",
    "files-with-matches",
    "files-without-match",
    "fixed-strings",
    "ignore-case",
    "include",
    "invert-match",
    "line-number",
    "line-regexp",
    "max-count",
    "no-filename",
    "no-messages",
    "null",
    "only-matching",
    "perl-regexp",
    "quiet",
    "recursive",
    "regexp",
    "silent",
    "text",
    "with-filename",
    "word-regexp",
];

/// `find`'s tests and actions that only look, each with the number of words it takes.
const FIND_WORDS: &[(&str, usize)] = &[
    ("-name", 1),
    ("-iname", 1),
    ("-path", 1),
    ("-ipath", 1),
    ("-wholename", 1),
    ("-regex", 1),
    ("-iregex", 1),
    ("-regextype", 1),
    ("-type", 1),
    ("-xtype", 1),
    ("-size", 1),
    ("-mtime", 1),
    ("-mmin", 1),
    ("-atime", 1),
    ("-amin", 1),
    ("-ctime", 1),
    ("-cmin", 1),
    ("-newer", 1),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-perm", 1),
    ("-user", 1),
    ("-group", 1),
    ("-links", 1),
    ("-printf", 1),
    ("-empty", 0),
    ("-print", 0),
    ("-print0", 0),
    ("-ls", 0),
    ("-prune", 0),
    ("-quit", 0),
    ("-not", 0),
    ("-and", 0),
    ("-or", 0),
    ("-a", 0),
    ("-o", 0),
    ("!", 0),
    ("(", 0),
    (")", 0),
    (",", 0),
    ("-depth", 0),
    ("-xdev", 0),
    ("-mount", 0),
    ("-follow", 0),
    ("-L", 0),
    ("-P", 0),
    ("-H", 0),
    ("-readable", 0),
    ("-writable", 0),
    ("-executable", 0),
    ("-true", 0),
    ("-false", 0),
];

/// Options of git's reading commands; a value may follow after `=`.
const GIT_OPTIONS: &[&str] = &[
    "--abbrev",
    "--abbrev-commit",
    "--all",
    "--author",
    "--branches",
    "--branch",
    "--cached",
    "--color",
    "--cc",
    "--date",
    "--decorate",
    "--diff-filter",
    "--first-parent",
    "--follow",
    "--format",
    "--full-index",
    "--graph",
    "--grep",
    "--ignored",
    "--long",
    "--max-count",
    "--merge-base",
    "--merges",
    "--minimal",
    "--name-only",
    "--name-status",
    "--no-color",
    "--no-decorate",
    "--no-ext-diff",
    "--no-merges",
    "--no-patch",
    "--no-renames",
    "--no-textconv",
    "--numstat",
    "--oneline",
    "--patch",
    "--pretty",
    "--raw",
    "--remotes",
    "--reverse",
    "--short",
    "--shortstat",
    "--show-stash",
    "--since",
    "--skip",
    "--staged",
    "--stat",
    "--summary",
    "--tags",
    "--until",
    "--untracked-files",
    "--unified",
    "--word-diff",
    "--after",
    "--before",
    "--porcelain",
    "--show-toplevel",
    "--git-dir",
    "--abbrev-ref",
    "--verify",
    "--is-inside-work-tree",
    "--find-renames",
    "--ignore-all-space",
    "--",
];

const fn program(
    name: &'static str,
    letters: &'static str,
    letters_with_value: &'static str,
    long: &'static [&'static str],
) -> Program {
    Program { name, letters, letters_with_value, long }
}

/// Returns whether a command is known to change nothing.
pub(crate) fn is_known_read_only(command: &CommandLine) -> bool {
    match command {
        CommandLine::Argv { argv } => {
            let words: Vec<&str> = argv.iter().map(String::as_str).collect();
            words.iter().map(|word| word.len()).sum::<usize>() <= COMMAND_BYTES_MAX
                && words.iter().all(|word| !word.chars().any(char::is_control))
                && is_known_call(&words)
        }
        CommandLine::Shell { program, login: _, script } => {
            is_known_shell(program) && is_known_script(script)
        }
    }
}

/// A shell of another place may be anything, whatever its name.
fn is_known_shell(program: &str) -> bool {
    let name = ["/bin/", "/usr/bin/"].iter().find_map(|place| program.strip_prefix(place));
    matches!(name.unwrap_or(program), "sh" | "bash" | "dash" | "zsh")
}

fn is_known_script(script: &str) -> bool {
    let Some(tokens) = parse_script(script) else { return false };
    let calls: Vec<&[Token]> = tokens.split(|token| *token == Token::Joint).collect();
    calls.iter().enumerate().all(|(place, call)| {
        let words: Vec<&str> = call.iter().filter_map(Token::word).collect();
        // A line may end in `;` or a newline, and an empty line does nothing.
        if words.is_empty() { place > 0 && call.is_empty() } else { is_known_call(&words) }
    })
}

/// A piece of a script.
#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    /// `&&`, `||`, `;`, `|` or a newline.
    Joint,
}

impl Token {
    fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Joint => None,
        }
    }
}

/// Splits a script into words and joints; `None` when anything in it is not understood.
fn parse_script(script: &str) -> Option<Vec<Token>> {
    let script = script.trim_matches([' ', '\t', '\n']);
    if script.is_empty() || script.len() > COMMAND_BYTES_MAX {
        return None;
    }
    let mut tokens = Vec::new();
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let Some(first) = rest.chars().next() else { return Some(tokens) };
        if let Some(after) = strip_harmless_redirection(rest) {
            rest = after;
        } else if let Some(after) =
            ["&&", "||", ";", "|", "\n"].iter().find_map(|joint| rest.strip_prefix(joint))
        {
            // `|&` and `;;` mean something else again.
            if after.starts_with(['&', '|', ';']) {
                return None;
            }
            // After `&&`, `||` and `|` a line may go on on the next.
            let goes_on = matches!(first, '&' | '|');
            rest = if goes_on { after.trim_start_matches([' ', '\t', '\n']) } else { after };
            if goes_on && rest.is_empty() {
                return None;
            }
            tokens.push(Token::Joint);
        } else {
            let (word, after) = parse_word(rest)?;
            // A lone `&` is no word and no joint: without progress nothing is understood.
            if after.len() == rest.len() {
                return None;
            }
            tokens.push(Token::Word(word));
            rest = after;
        }
    }
}

/// Takes `2>/dev/null`, `>/dev/null`, `2>&1` and the like from the start of a text.
fn strip_harmless_redirection(text: &str) -> Option<&str> {
    let after = ["&>", "2>", "1>", ">"].iter().find_map(|start| text.strip_prefix(start))?;
    let after = match after.strip_prefix('&') {
        Some(target) => target.strip_prefix(['1', '2'])?,
        None => after.trim_start_matches([' ', '\t']).strip_prefix("/dev/null")?,
    };
    (after.is_empty() || after.starts_with([' ', '\t', '\n', ';', '|', '&'])).then_some(after)
}

/// Takes one word from the start of a text; its quotes are gone in the result.
fn parse_word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut quote = None;
    for (place, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            // A newline within quotes is text, any other control character hides something.
            (_, letter) if letter.is_control() && letter != '\n' && letter != '\t' => return None,
            (Some('"'), '$' | '`' | '\\' | '!') => return None,
            (Some(_), letter) => word.push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ' | '\t' | '\n' | ';' | '|' | '&') => {
                return Some((word, text.get(place..)?));
            }
            // Wildcards only ever name files that are there; which may begin with a dash, so
            // a word must not begin with one.
            (None, '*' | '?' | '[' | ']') if !word.is_empty() => word.push(letter),
            (None, letter) if is_plain(letter) => word.push(letter),
            (None, _) => return None,
        }
    }
    quote.is_none().then_some((word, ""))
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_./,:=+@%^".contains(letter)
}

/// Judges one call: a program by its bare name, and every option it is given.
fn is_known_call(words: &[&str]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    match *name {
        "git" => is_known_git(arguments),
        "find" => is_known_find(arguments),
        "sed" => is_known_sed(arguments),
        "printf" => arguments.first().is_some_and(|format| is_known_format(format)),
        "cd" => arguments.len() <= 1 && arguments.iter().all(|word| !word.starts_with('-')),
        "date" => {
            arguments.iter().all(|word| word.starts_with(['+', '-']))
                && is_known_program("date", arguments)
        }
        // A second name would be where `uniq` writes.
        "uniq" => arguments.iter().all(|word| is_letters(word, "cdDiuz")),
        _ => is_known_program(name, arguments),
    }
}

/// Only `%s` and `%%`: `%n` sets a variable, and numbers are computed, with all that a shell
/// computes. No dash in front, since `-v` sets a variable as well.
fn is_known_format(format: &str) -> bool {
    let mut parts = format.replace("%%", "").into_bytes().into_iter().peekable();
    let mut known = !format.starts_with('-');
    while let Some(byte) = parts.next() {
        known &= byte != b'%' || parts.peek() == Some(&b's');
    }
    known
}

fn is_known_program(name: &str, arguments: &[&str]) -> bool {
    let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else { return false };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if *argument == "--" {
            return true;
        }
        if let Some(long) = argument.strip_prefix("--") {
            let option = long.split('=').next().unwrap_or_default();
            // In full only: an abbreviation may be that of another option.
            if !program.long.contains(&option) {
                return false;
            }
        } else if let Some(letters) = argument.strip_prefix('-') {
            match is_known_letters(program, letters) {
                Letters::Known => {}
                Letters::TakeNext => {
                    arguments.next();
                }
                Letters::Unknown => return false,
            }
        }
    }
    true
}

enum Letters {
    Known,
    TakeNext,
    Unknown,
}

fn is_known_letters(program: &Program, letters: &str) -> Letters {
    for (place, letter) in letters.char_indices() {
        if program.letters_with_value.contains(letter) {
            let is_last = place + letter.len_utf8() == letters.len();
            return if is_last { Letters::TakeNext } else { Letters::Known };
        }
        let is_number = letter.is_ascii_digit() && program.letters.contains('#');
        if !is_number && (letter == '#' || !program.letters.contains(letter)) {
            return Letters::Unknown;
        }
    }
    Letters::Known
}

fn is_letters(word: &str, letters: &str) -> bool {
    word.strip_prefix('-').is_some_and(|word| word.chars().all(|letter| letters.contains(letter)))
}

fn is_known_find(arguments: &[&str]) -> bool {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let is_expression = argument.starts_with(['-', '!', '(', ')', ',']);
        if !is_expression {
            continue;
        }
        match FIND_WORDS.iter().find(|(word, _)| word == argument) {
            Some((_, count)) => (0..*count).for_each(|_| {
                arguments.next();
            }),
            None => return false,
        }
    }
    true
}

/// Only `sed -n 'Np' FILE…` and `sed -n 'N,Mp' FILE…`.
fn is_known_sed(arguments: &[&str]) -> bool {
    let ["-n", script, files @ ..] = arguments else { return false };
    let Some(range) = script.strip_suffix('p') else { return false };
    let is_line = |text: &str| {
        text == "$" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_range = match range.split_once(',') {
        Some((from, to)) => is_line(from) && is_line(to),
        None => is_line(range),
    };
    is_range && files.iter().all(|file| !file.starts_with('-'))
}

/// Only commands that look, and nothing before them: `-c` and `-C` bring other configuration.
fn is_known_git(arguments: &[&str]) -> bool {
    let arguments = arguments.strip_prefix(&["--no-pager"]).unwrap_or(arguments);
    let Some((command, rest)) = arguments.split_first() else { return false };
    match *command {
        "status" | "log" | "diff" | "show" | "rev-parse" | "ls-files" | "blame" | "shortlog"
        | "describe" => rest.iter().all(|word| is_known_git_word(word)),
        // A name would make a branch or a tag.
        "branch" => rest.iter().all(|word| {
            is_letters(word, "arv")
                || matches!(*word, "--list" | "--all" | "--remotes" | "--show-current")
        }),
        "remote" => matches!(rest, [] | ["-v" | "show"]),
        "stash" => matches!(rest, ["list"]),
        _ => false,
    }
}

fn is_known_git_word(word: &str) -> bool {
    let Some(option) = word.strip_prefix('-') else { return true };
    if option.starts_with('-') {
        return GIT_OPTIONS.contains(&word.split('=').next().unwrap_or_default());
    }
    // `-O` may name a pager, `-o` a file; the letters here take a number or nothing.
    option.chars().all(|letter| letter.is_ascii_digit() || "abMnpsuwzU".contains(letter))
}
