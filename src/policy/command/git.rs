//! Which calls of git only look. Knows git's own options, and of its commands the table.
//!
//! Configuration given on the line (`-c`) may name programs: only a few keys are harmless, and
//! other repositories' files are taken only by `-C`, which is `cd`. Called by `judge.rs`, and
//! by `parts.rs` to see a command behind git's options.

use crate::policy::command::git_tables::{COMMANDS, GitCommand};
use crate::policy::command::lex::Word;
use crate::policy::command::options::{Operands, Program, check_program, read_arguments};

/// Options before the command that change what is shown alone.
const HARMLESS: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--no-replace-objects",
    "--no-lazy-fetch",
];

/// Options before the command whose value is the next word.
const WITH_VALUE: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--super-prefix",
    "--attr-source",
    "--list-cmds",
];

/// Keys of `-c` that run nothing, with the values they may have; any where there are none.
const KEYS: &[(&str, &[&str])] = &[
    ("color.", &[]),
    ("advice.", &[]),
    ("core.pager", &["cat", ""]),
    ("pager.", &["false", "cat", "0", "no"]),
    ("core.fsmonitor", &["false", "0", ""]),
    ("core.quotepath", &[]),
    ("core.abbrev", &[]),
    ("core.hookspath", &["/dev/null"]),
    ("log.date", &[]),
    ("log.decorate", &[]),
    ("log.showsignature", &["false"]),
    ("diff.renames", &[]),
    ("diff.renamelimit", &[]),
    ("diff.algorithm", &[]),
    ("diff.noprefix", &[]),
    ("diff.mnemonicprefix", &[]),
    ("status.", &[]),
    ("grep.", &[]),
];

/// Splits git's own options from its command and what follows.
pub(super) fn split_options(words: &[Word]) -> (&[Word], &[Word]) {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.text.starts_with('-')) {
        at += if WITH_VALUE.contains(&word.text.as_str()) { 2 } else { 1 };
    }
    words.split_at(at.min(words.len()))
}

/// Returns why a call of git is not known to only look; `words` follow the program.
pub(super) fn check_git(words: &[Word]) -> Result<(), String> {
    let (own, rest) = split_options(words);
    if own.len() > words.len() || rest.is_empty() {
        return Err("git without a command is not known".to_owned());
    }
    check_own_options(own)?;
    let texts: Vec<&str> = rest.iter().take(2).map(|word| word.text.as_str()).collect();
    let named = |name: &str| COMMANDS.iter().find(|command| command.program.name == name);
    let two = texts.join(" ");
    if let Some(command) = named(&two).filter(|_| texts.len() == 2) {
        return check_command(command, rest.get(2..).unwrap_or_default());
    }
    let first = texts.first().copied().unwrap_or_default();
    match (first, named(first)) {
        ("config", _) => check_config(rest.get(1..).unwrap_or_default()),
        (_, Some(command)) => check_command(command, rest.get(1..).unwrap_or_default()),
        (_, None) => Err(format!("`git {first}` is not known to only read")),
    }
}

fn check_own_options(words: &[Word]) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let value = WITH_VALUE.contains(&text).then(|| words.next().map(|word| &word.text));
        let is_fine = match (text, value) {
            (text, None) => HARMLESS.contains(&text),
            ("-C", Some(Some(directory))) => !directory.starts_with('-'),
            ("-c", Some(Some(setting))) => is_harmless_setting(setting),
            (_, Some(_)) => false,
        };
        if !is_fine || word.wild.is_some() {
            return Err(format!("`git {text}` may bring other programs or another repository"));
        }
    }
    Ok(())
}

fn is_harmless_setting(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let key = key.to_ascii_lowercase();
    KEYS.iter().any(|(known, values)| {
        let is_named = if known.ends_with('.') { key.starts_with(known) } else { key == *known };
        is_named && (values.is_empty() || values.contains(&value))
    })
}

fn check_command(command: &GitCommand, words: &[Word]) -> Result<(), String> {
    let long = [&[command.program.long], command.shared].concat().join(" ");
    // The table's texts live as long as the program; the joined ones only here.
    // The value of `-u` stands in the same word alone.
    let is_mode = |word: &Word| matches!(word.text.as_str(), "-uno" | "-uall" | "-unormal");
    let shorten = |word: &Word| if is_mode(word) { Word::literal("-u") } else { word.clone() };
    let words: Vec<Word> = words.iter().map(shorten).collect();
    let read = with_long(&command.program, &long, &words)?;
    if command.lists_with.is_some_and(|lists| !read.lists(lists)) && read.operands > 0 {
        let name = command.program.name;
        return Err(format!("`git {name}` with a name and no `--list` may make one"));
    }
    match command.program.operands {
        Operands::AtMost(count) if read.operands > count => {
            Err(format!("`git {}` may do more with so many arguments", command.program.name))
        }
        _ => Ok(()),
    }
}

/// What `check_command` needs to know of arguments.
struct Read {
    names: Vec<String>,
    operands: usize,
}

impl Read {
    fn lists(&self, lists_with: &[&str]) -> bool {
        self.names.iter().any(|name| lists_with.contains(&name.as_str()))
    }
}

fn with_long(program: &Program<'_>, long: &str, words: &[Word]) -> Result<Read, String> {
    let program = Program { long, ..*program };
    let read =
        read_arguments(&program, words).map_err(|reason| reason.replacen('`', "`git ", 1))?;
    Ok(Read {
        names: read.options.into_iter().map(|(name, _)| name).collect(),
        operands: read.operands.len(),
    })
}

/// `git config` reads when it is told so, and writes with two names.
fn check_config(words: &[Word]) -> Result<(), String> {
    const READS: &[&str] =
        &["get", "get-all", "get-regexp", "get-urlmatch", "get-color", "list", "l"];
    let program = Program {
        name: "git config",
        flags: "lz",
        values: "",
        long: "get get-all get-regexp get-urlmatch get-color list name-only null global local system \
            worktree show-origin show-scope includes no-includes bool int path type= default= all",
        operands: Operands::Any,
    };
    check_program(&program, words)?;
    let read = read_arguments(&program, words)?;
    let first = read.operands.first().map(|word| word.text.as_str());
    let is_new_form = matches!(first, Some("get" | "list"));
    // One name alone is a key that is read; two set it.
    let is_key = read.operands.len() == 1 && first.is_some_and(|key| key.contains('.'));
    if read.has(READS) || is_new_form || is_key {
        return Ok(());
    }
    Err("`git config` writes unless it is told to read, as by `--get`".to_owned())
}
