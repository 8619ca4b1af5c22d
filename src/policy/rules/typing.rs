//! What the rules say of text that is typed into a running command.
//!
//! Typed into a shell it is a script, so what a rule denies or asks for as a command it denies
//! and asks for here. What another program makes of text only that program knows: where rules
//! are about programs, the user is asked. An allow rule says nothing of typing. Pure. Called by
//! `decide.rs`.

use std::path::Path;

use crate::policy::command::{base_name, collect_parts, read_line};
use crate::policy::rules::matching::{Ruled, stricter};
use crate::policy::rules::{RuleAction, Rules};
use crate::protocol::CommandLine;

/// Typed text that a shell may not have read to its end yet. With more the user is asked.
const BEFORE_BYTES_MAX: usize = 64 * 1024;

/// Shells whose language is the one that is read here.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "mksh"];
/// What may stand around a shell and reads nothing of what is typed.
const SILENT: [&str; 9] =
    ["cd", "command", "env", "exec", "export", "nice", "nohup", "setsid", "stdbuf"];

/// The keys whose meaning is the same everywhere: interrupt, and the end of input.
const CONTROL_C: &str = "\u{3}";
const CONTROL_D: char = '\u{4}';

/// Text for a running command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Typed<'a> {
    /// The command as it was started.
    pub(crate) command: &'a CommandLine,
    /// Where it was started.
    pub(crate) cwd: &'a Path,
    /// What was typed before and may be the beginning of what this ends.
    pub(crate) before: &'a str,
    /// What is typed now.
    pub(crate) text: &'a str,
    /// Where it goes.
    pub(crate) keyboard: Keyboard,
}

/// What carries typed text to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// A terminal, in which single keys edit the line and repeat others.
    Terminal,
    /// A pipe.
    Pipe,
}

/// Who reads what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Shell,
    /// A shell, and others before or after it.
    Mixed,
    Other,
}

impl Typed<'_> {
    /// Returns whether it tells the command nothing but to stop.
    pub(crate) fn only_interrupts(&self) -> bool {
        self.text.is_empty() || self.text == CONTROL_C
    }
}

/// Returns what has to be remembered of typed text, because what follows may belong to it;
/// empty where a shell has read all of it.
pub(crate) fn keep_unfinished(before: &str, text: &str) -> String {
    if text.is_empty() || text == CONTROL_C {
        return before.to_owned();
    }
    let mut all = String::with_capacity(before.len() + text.len());
    all.push_str(before);
    all.push_str(text);
    let line = read_line(&all);
    let is_read = line.odd.is_none() && !line.unread;
    if all.ends_with('\n') && !all.ends_with("\\\n") && is_read {
        return String::new();
    }
    // Longer than what is judged, so that it is known to be too long.
    let end = all.floor_char_boundary(BEFORE_BYTES_MAX + 4);
    all.truncate(end);
    all
}

impl Rules {
    /// Returns what the rules say of typed text: only denials and questions.
    pub(crate) fn judge_typed(&self, typed: &Typed<'_>, home: &Path) -> Option<Ruled> {
        if typed.only_interrupts() {
            return None;
        }
        let unknown = |because: &str| {
            let mut rules = self.rules.iter().filter(|rule| rule.action != RuleAction::Allow);
            rules.find(|rule| rule.is_about_programs()).map(|rule| rule.ask_instead(because))
        };
        let reader = find_reader(typed.command);
        if reader == Reader::Other {
            return unknown("it is typed into a program that may run others");
        }
        let mut said = self.judge_script(typed, home);
        if reader == Reader::Mixed {
            said = stricter(said, unknown("it is typed into more than a shell"));
        }
        if has_keys(typed) {
            said = stricter(said, unknown("it holds keys that a shell reads in its own way"));
        }
        if typed.before.len() > BEFORE_BYTES_MAX {
            said = stricter(said, unknown("too much was typed before it to be read"));
        }
        said
    }

    /// Judges it as a script, with what was typed before.
    fn judge_script(&self, typed: &Typed<'_>, home: &Path) -> Option<Ruled> {
        let text = typed.text.trim_end_matches(CONTROL_D).replace('\r', "\n");
        let command = CommandLine::Shell {
            program: "sh".to_owned(),
            login: false,
            script: format!("{}{text}", typed.before),
        };
        let said = self.judge_command(&command, typed.cwd, home);
        said.filter(|said| said.action != RuleAction::Allow)
    }
}

/// Returns whether it holds more than a plain text of lines: keys that edit or repeat a line.
fn has_keys(typed: &Typed<'_>) -> bool {
    let text = typed.text.trim_end_matches(CONTROL_D);
    let is_terminal = typed.keyboard == Keyboard::Terminal;
    let is_key = |letter: char| match letter {
        '\n' | '\r' => false,
        // A terminal completes a name, and `!` brings an earlier line back.
        '\t' | '!' => is_terminal,
        letter => letter.is_control(),
    };
    // What is typed is a comment to most shells, and a command to some.
    let is_doubtful = typed.before.contains('#') || text.contains('#');
    is_doubtful
        || text.chars().any(is_key)
        || (is_terminal && text.lines().any(|line| line.starts_with('^')))
}

fn find_reader(command: &CommandLine) -> Reader {
    let parts = collect_parts(command);
    let (mut shell, mut other) = (false, parts.hidden.is_some());
    for words in &parts.parts {
        let Some((program, arguments)) = words.split_first() else { continue };
        let name = base_name(&program.text);
        let is_option = |text: &str| text.starts_with(['-', '+']);
        if SHELLS.contains(&name.as_str()) {
            let has_script = arguments.iter().any(|word| {
                is_option(&word.text) && !word.text.starts_with("--") && word.text.contains('c')
            });
            // The commands of its script are parts of their own.
            shell |= !has_script;
            other |= !has_script && !arguments.iter().all(|word| is_option(&word.text));
        } else if !SILENT.contains(&name.as_str()) {
            other = true;
        }
    }
    match (shell, other) {
        (true, false) => Reader::Shell,
        (true, true) => Reader::Mixed,
        (false, _) => Reader::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Origin, RuleFile};

    const RULES: &str = "[[rule]]\naction = \"deny\"\nprogram = \"touch\"\n[[rule]]\naction = \"ask\"\nprogram = \"git\"\nargs = [\"push\"]\n[[rule]]\naction = \"allow\"\nprogram = \"make\"\n[[rule]]\naction = \"deny\"\npath = \"/w/secret\"\n";

    fn read(text: &str) -> Rules {
        let mut rules = Rules::default();
        let file = RuleFile { label: "rules.toml", path: "rules.toml", text, origin: Origin::User };
        rules.read(&file).unwrap();
        rules
    }

    fn say(rules: &Rules, script: &str, keyboard: Keyboard, typed: &[&str]) -> Vec<&'static str> {
        let command = CommandLine::Shell {
            program: "/bin/bash".to_owned(),
            login: false,
            script: script.to_owned(),
        };
        let mut before = String::new();
        let mut said = Vec::new();
        for text in typed {
            let typed =
                Typed { command: &command, cwd: Path::new("/w"), before: &before, text, keyboard };
            let action = rules.judge_typed(&typed, Path::new("/h")).map(|said| said.action);
            said.push(match action {
                None => "free",
                Some(RuleAction::Allow) => "allow",
                Some(RuleAction::Ask) => "ask",
                Some(RuleAction::Deny) => "deny",
            });
            if action != Some(RuleAction::Deny) {
                before = keep_unfinished(&before, text);
            }
        }
        said
    }

    #[test]
    fn a_denied_program_is_denied_however_it_is_typed() {
        let rules = read(RULES);
        for shell in ["bash", "sh -i", "env A=b bash --norc -i", "bash -c 'exec bash'"] {
            for typed in [
                &["touch b\n"][..],
                &["cd x && touch b\n"],
                &["to", "uch b\n"],
                &["tou\\\n", "ch b\n"],
                &["echo '", "' ; touch b\n"],
                &["echo \"\n", "\"; touch b; \"\n"],
                &["# it's\n", "touch b\n"],
                &["sudo touch b\u{4}"],
                &["bash\n", "touch b\n"],
                &["cat /w/secret\n"],
            ] {
                let said = say(&rules, shell, Keyboard::Pipe, typed);
                assert_eq!(said.last(), Some(&"deny"), "{shell}: {typed:?}: {said:?}");
            }
        }
        assert_eq!(say(&rules, "bash; python3", Keyboard::Pipe, &["touch b\n"]), ["deny"]);
        assert_eq!(say(&rules, "bash", Keyboard::Terminal, &["touch b\r"]), ["deny"]);
    }

    #[test]
    fn what_only_the_program_can_tell_is_asked() {
        let rules = read(RULES);
        for (command, typed) in [
            ("python3", "import os\n"),
            ("bash; python3", "ls\n"),
            ("bash script.sh", "yes\n"),
            ("$SHELL", "ls\n"),
            ("bash", "git push\n"),
            ("bash", "$x b\n"),
            ("bash", "tou\u{7f}\n"),
        ] {
            assert_eq!(
                say(&rules, command, Keyboard::Pipe, &[typed]),
                ["ask"],
                "{command} {typed:?}"
            );
        }
        for typed in ["tou\tb\n", "!to\n", "^a^b\n", "\u{1b}[A\n"] {
            assert_eq!(say(&rules, "bash", Keyboard::Terminal, &[typed]), ["ask"], "{typed:?}");
        }
    }

    #[test]
    fn the_rest_is_free_and_asked_once() {
        let rules = read(RULES);
        let typed = ["\u{3}", "", "ls -l\n", "make\n", "git push\n", "git status\n"];
        let said = say(&rules, "bash", Keyboard::Terminal, &typed);
        assert_eq!(said, ["free", "free", "free", "free", "ask", "free"]);
        assert_eq!(say(&rules, "python3", Keyboard::Pipe, &["\u{3}"]), ["free"]);
        let others = read("[[rule]]\naction = \"deny\"\nhost = \"a.test\"\n");
        assert_eq!(say(&others, "python3", Keyboard::Pipe, &["1+1\n"]), ["free"]);
    }

    #[test]
    fn what_is_never_finished_is_not_kept_for_ever() {
        let rules = read(RULES);
        let much = format!("echo '{}", "x".repeat(BEFORE_BYTES_MAX));
        let said = say(&rules, "bash", Keyboard::Pipe, &[&much, "y", "z"]);
        assert_eq!(said[1..], ["ask", "ask"]);
    }
}
