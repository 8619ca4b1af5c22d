//! All commands in a command, for rules that ask or deny: through every wrapper, also where the
//! line is not understood in full.
//!
//! Generous where `judge.rs` is strict: a part too many costs a question, one too few a rule.
//! What a program does with files and strings of its own (make, python) is no part: that is
//! the sandbox's business. Pure. Called by `rules/`.

use crate::policy::command::git;
use crate::policy::command::lex::{Call, Line, Word, read_line};
use crate::protocol::CommandLine;

/// Bytes of a command that are searched; the rest counts as unread.
const SEARCHED_BYTES_MAX: usize = 256 * 1024;

/// Commands within commands that are searched, and all of them together.
const DEPTH_MAX: usize = 16;
const PARTS_MAX: usize = 4096;

/// Bytes of scripts and words of calls that are looked at in all: what wraps itself is looked at
/// more than once.
const STEPS_MAX: usize = 4 * 1024 * 1024;

/// The commands in a command.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Each with its program first.
    pub(crate) parts: Vec<Part>,
    /// Files that they are redirected to or from.
    pub(crate) files: Vec<Word>,
    /// Why there may be more of them, where there may.
    pub(crate) hidden: Option<&'static str>,
}

/// A program and its arguments.
pub(crate) type Part = Vec<Word>;

/// Programs that run another: the letters of their options with a value, their long ones, and
/// how many words come before the command.
const WRAPPERS: &[(&str, &str, &str, usize)] = &[
    ("arch", "", "", 0),
    ("builtin", "", "", 0),
    ("busybox", "", "", 0),
    ("caffeinate", "tw", "", 0),
    ("chroot", "", "", 1),
    ("chrt", "TPD", "", 1),
    ("command", "", "", 0),
    ("coproc", "", "", 0),
    ("dbus-run-session", "", "", 0),
    ("doas", "uCa", "", 0),
    ("env", "uC", "unset chdir", 0),
    ("exec", "a", "", 0),
    ("fakeroot", "lsib", "", 0),
    ("firejail", "", "", 0),
    ("flock", "wE", "", 1),
    ("gdb", "", "", 0),
    ("ionice", "cnpPu", "class classdata", 0),
    ("ltrace", "aeopnsu", "", 0),
    ("nice", "n", "adjustment", 0),
    ("nocorrect", "", "", 0),
    ("noglob", "", "", 0),
    ("nohup", "", "", 0),
    ("nsenter", "tSG", "target", 0),
    ("perf", "eopF", "", 1),
    ("pkexec", "", "user", 0),
    ("prlimit", "p", "", 0),
    ("proxychains", "f", "", 0),
    ("rlwrap", "", "", 0),
    ("runuser", "ugG", "user group", 0),
    ("setarch", "", "", 0),
    ("setpriv", "", "reuid regid groups", 0),
    ("setsid", "", "", 0),
    ("stdbuf", "ioe", "input output error", 0),
    ("strace", "aeopPsSuEXIbO", "", 0),
    ("sudo", "ugpCcrtThUDR", "user group host prompt chdir role type other-user", 0),
    ("systemd-run", "pMutGE", "unit property slice uid gid setenv", 0),
    ("taskset", "", "", 1),
    ("then", "", "", 0),
    ("time", "fo", "format output", 0),
    ("timeout", "ks", "kill-after signal", 1),
    ("torsocks", "", "", 0),
    ("toybox", "", "", 0),
    ("unbuffer", "", "", 0),
    ("unshare", "SGRw", "root wd", 0),
    ("valgrind", "", "", 0),
    ("watch", "n", "interval", 0),
    ("xargs", "aEdILnPs", "arg-file delimiter max-args max-procs max-chars replace", 0),
    ("parallel", "jSaN", "jobs", 0),
    ("xvfb-run", "enps", "", 0),
];

/// Programs whose arguments are read as lines for a shell, each or as one.
const READERS: &[&str] = &[
    "env", "eval", "flock", "parallel", "runuser", "script", "ssh", "su", "trap", "watch", "alias",
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "fish", "mksh"];

/// Words of the shell's own language that a command may follow.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "fi", "done", "esac",
    "coproc", "function",
];

/// Finds all commands in a command.
pub(crate) fn collect_parts(command: &CommandLine) -> Parts {
    let mut search = Search::default();
    match command {
        CommandLine::Argv { argv } => {
            let words: Vec<Word> = argv.iter().map(|word| Word::literal(word)).collect();
            search.visit(&Call { words, piped: false }, 0, &mut Vec::new());
        }
        CommandLine::Shell { program: _, login: _, script } => search.visit_script(script, 0),
    }
    search.found
}

#[derive(Default)]
struct Search {
    found: Parts,
    steps: usize,
}

impl Search {
    fn hide(&mut self, reason: &'static str) {
        self.found.hidden.get_or_insert(reason);
    }

    fn visit_script(&mut self, script: &str, depth: usize) {
        self.steps += script.len();
        if depth > DEPTH_MAX || script.len() > SEARCHED_BYTES_MAX || self.steps > STEPS_MAX {
            return self.hide("it is too long or too deep to be searched");
        }
        let Line { calls, unread, mut fed, mut files, odd: _ } = read_line(script);
        self.found.files.append(&mut files);
        if unread {
            self.hide("it is too deep to be searched");
        }
        for call in &calls {
            self.visit(call, depth, &mut fed);
        }
    }

    /// Takes a call in, and what it calls; `fed` are the texts that its line feeds to commands.
    fn visit(&mut self, call: &Call, depth: usize, fed: &mut Vec<String>) {
        let words = strip_front(&call.words);
        let Some((program, arguments)) = words.split_first() else { return };
        self.steps += words.len();
        let is_long = self.found.parts.len() >= PARTS_MAX || self.steps > STEPS_MAX;
        if depth > DEPTH_MAX || is_long {
            return self.hide("it has too many commands to be searched");
        }
        self.found.parts.push(words.to_vec());
        if program.open {
            return self.hide("its program is known to a shell alone");
        }
        let name = base_name(&program.text);
        let inner = |words: &[Word]| Call { words: words.to_vec(), piped: call.piped };
        if SHELLS.contains(&name.as_str()) {
            return self.visit_shell(arguments, call.piped, depth, fed);
        }
        match name.as_str() {
            "git" => {
                let (own, rest) = git::split_options(arguments);
                let is_alias = |word: &Word| word.text.to_ascii_lowercase().contains("alias.");
                if own.iter().any(is_alias) {
                    self.hide("it gives git another name for a command");
                }
                if !own.is_empty() {
                    self.found.parts.push([std::slice::from_ref(program), rest].concat());
                }
            }
            "find" | "fd" | "fdfind" => self.visit_found(arguments, depth),
            _ => {}
        }
        if READERS.contains(&name.as_str()) {
            self.visit_texts(&name, arguments, depth);
        }
        if let Some((_, letters, long, before)) = WRAPPERS.iter().find(|(known, ..)| *known == name)
        {
            let rest = skip_options(arguments, letters, long);
            let rest = strip_assignments(rest).get(*before..).unwrap_or_default();
            self.visit(&inner(rest), depth + 1, fed);
        }
    }

    fn visit_shell(&mut self, words: &[Word], piped: bool, depth: usize, fed: &mut Vec<String>) {
        let rest = skip_options(words, "oO", "rcfile init-file");
        let options = words.len() - rest.len();
        let has_script = words.iter().take(options).any(|word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        });
        match rest.first() {
            Some(script) if has_script && script.open => {
                self.hide("its script is known to a shell alone");
            }
            Some(script) if has_script => self.visit_script(&script.text, depth + 1),
            Some(_) => {}
            None if fed.is_empty() && !piped => {}
            None => {
                if piped {
                    self.hide("a shell in it reads what another command writes");
                }
                for text in std::mem::take(fed) {
                    self.visit_script(&text, depth + 1);
                }
            }
        }
    }

    /// `find`'s and `fd`'s commands end in `;` or `+`, or with the line.
    fn visit_found(&mut self, words: &[Word], depth: usize) {
        const RUNS: &[&str] =
            &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        let mut rest = words;
        while let Some(at) = rest.iter().position(|word| RUNS.contains(&word.text.as_str())) {
            let after = rest.get(at + 1..).unwrap_or_default();
            let end = after.iter().position(|word| word.text == ";" || word.text == "+");
            let (inner, next) = after.split_at(end.unwrap_or(after.len()));
            self.visit(&Call { words: inner.to_vec(), piped: false }, depth + 1, &mut Vec::new());
            rest = next;
        }
    }

    fn visit_texts(&mut self, name: &str, words: &[Word], depth: usize) {
        if name == "eval" && words.iter().any(|word| word.open) {
            self.hide("`eval` runs what only a shell knows");
        }
        let is_line = |text: &str| text.contains([' ', '\t', ';', '|', '&', '\n']);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        if matches!(name, "eval" | "watch" | "ssh" | "parallel") {
            let after_host = usize::from(name == "ssh");
            let start = texts.iter().take_while(|text| text.starts_with('-')).count() + after_host;
            self.visit_script(&texts.get(start..).unwrap_or_default().join(" "), depth + 1);
        }
        for text in texts {
            let text = text.strip_prefix("-S").unwrap_or(text);
            let text =
                if name == "alias" { text.split_once('=').map_or(text, |it| it.1) } else { text };
            if is_line(text) || name == "alias" {
                self.visit_script(text, depth + 1);
            }
        }
    }
}

/// Takes keywords and assignments off the front.
fn strip_front(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let is_keyword = !first.quoted && KEYWORDS.contains(&first.text.as_str());
        if !is_keyword && !is_assignment(first) {
            break;
        }
        rest = after;
    }
    rest
}

fn strip_assignments(words: &[Word]) -> &[Word] {
    let count = words.iter().take_while(|word| is_assignment(word)).count();
    words.get(count..).unwrap_or_default()
}

fn is_assignment(word: &Word) -> bool {
    let name = word.text.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_[]".contains(c))
    })
}

fn skip_options<'a>(words: &'a [Word], letters: &str, long: &str) -> &'a [Word] {
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let text = first.text.as_str();
        if !text.starts_with(['-', '+']) || text == "-" {
            break;
        }
        rest = after;
        let takes_next = match text.strip_prefix("--") {
            Some("") => break,
            Some(name) => long.split(' ').any(|known| known == name),
            // The first letter with a value takes the rest of the word, or the next one.
            None => text.find(|c| letters.contains(c)) == Some(text.len() - 1),
        };
        if takes_next {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    rest
}

/// Returns a program's name as file systems that ignore case see it.
pub(crate) fn base_name(program: &str) -> String {
    program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
}
