//! Which rules an effect falls under, and what they say together.
//!
//! A rule that denies or asks holds where it may match: for a word that only a shell knows the
//! user is asked. A rule that allows holds where every part of a command is read in full. Pure.
//! Called by `decide.rs` and `check.rs`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use crate::policy::command::{
    Knowledge, Parts, Word, base_name, check_command, collect_parts, is_known_read_only,
};
use crate::policy::paths::{matches_any, matches_name};
use crate::policy::rules::{Matcher, Rule, RuleAction, Rules};
use crate::protocol::{CommandLine, Effect};

/// What a call does, and what it is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// What it does.
    pub(crate) effect: &'a Effect,
    /// The tool's name.
    pub(crate) tool: &'a str,
    /// The user's home directory, for `~` in patterns.
    pub(crate) home: &'a Path,
}

/// What the rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruled {
    /// The strictest action.
    pub(crate) action: RuleAction,
    /// Why, as a clause that names the rule.
    pub(crate) reason: String,
    /// Where the rule stands.
    pub(crate) place: String,
    /// Whether it goes on outside the sandbox.
    pub(crate) leaves_sandbox: bool,
}

/// How far a command is what a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Likeness {
    /// Not at all.
    None,
    /// Only a shell could tell.
    Open,
    /// Wholly.
    Same,
}

impl Rules {
    /// Returns what the rules say of an effect; `None` when they say nothing.
    pub(crate) fn judge(&self, subject: &Subject<'_>) -> Option<Ruled> {
        if self.rules.is_empty() {
            return None;
        }
        let by_kind = match subject.effect {
            Effect::Run { command, cwd, .. } => self.judge_command(command, cwd, subject.home),
            Effect::Read { paths } => self.judge_reading(paths, subject.home),
            Effect::Write { changes } => {
                let paths: Vec<PathBuf> = changes
                    .iter()
                    .flat_map(|change| std::iter::once(&change.path).chain(&change.move_to))
                    .cloned()
                    .collect();
                self.judge_paths(&paths, subject.home)
            }
            Effect::Fetch { url } => self.first(|rule| rule.matches_host(host_of(url))),
            Effect::Remote { server, tool, .. } => {
                self.first(|rule| rule.matches_remote(server, tool))
            }
            Effect::None | Effect::Input { .. } | Effect::Agent { .. } => None,
        };
        let does_more = !matches!(subject.effect, Effect::None | Effect::Read { .. });
        let general = self.first(|rule| {
            rule.matches_tool(subject.tool) || (does_more && rule.matcher == Matcher::Everything)
        });
        stricter(by_kind, general)
    }

    /// Returns what the rules say of a connection to a host, with or without a port.
    pub(crate) fn judge_host(&self, host: &str) -> Option<Ruled> {
        let host = host_of(host);
        self.first(|rule| rule.matches_host(host) || rule.matcher == Matcher::Everything)
    }

    /// Returns what the strictest of the rules that match says.
    fn first(&self, matches: impl Fn(&Rule) -> bool) -> Option<Ruled> {
        let matching = self.rules.iter().filter(|rule| matches(rule));
        matching.fold(None, |found, rule| stricter(found, Some(rule.say())))
    }

    /// Returns what the rules say of a command: what denies or asks in any part of it, what
    /// allows in all.
    pub(crate) fn judge_command(
        &self,
        command: &CommandLine,
        cwd: &Path,
        home: &Path,
    ) -> Option<Ruled> {
        if self.rules.is_empty() {
            return None;
        }
        let parts = collect_parts(command);
        let mut found = self.first(|rule| rule.matcher == Matcher::Everything);
        found = stricter(found, self.judge_named_files(command, &parts, cwd, home));
        let programs = self.rules.iter().filter(|rule| rule.is_about_programs());
        for rule in programs.filter(|rule| rule.action != RuleAction::Allow) {
            let said = match rule.likeness_to_parts(&parts) {
                Likeness::Same => rule.say(),
                Likeness::Open => rule
                    .ask_instead(parts.hidden.unwrap_or("a word of it is known to a shell alone")),
                Likeness::None => continue,
            };
            found = stricter(found, Some(said));
        }
        found.or_else(|| self.judge_allowed(command))
    }

    /// Returns what the rules say of the files that a command names. What it finds in other ways is
    /// for the sandbox to hide.
    fn judge_named_files(
        &self,
        command: &CommandLine,
        parts: &Parts,
        cwd: &Path,
        home: &Path,
    ) -> Option<Ruled> {
        let mut rules = self
            .rules
            .iter()
            .filter(|rule| rule.is_about_files() && rule.action != RuleAction::Allow)
            .peekable();
        rules.peek()?;
        let only_reads = is_known_read_only(command);
        let words = parts.parts.iter().flatten().chain(&parts.files);
        let paths: Vec<PathBuf> =
            words.filter_map(|word| named_path(&word.text, cwd, home)).collect();
        let matching = rules.filter(|rule| {
            let hides =
                rule.action == RuleAction::Deny && !matches!(rule.matcher, Matcher::Write { .. });
            (hides || !only_reads) && paths.iter().any(|path| rule.matches_path(path, home))
        });
        matching.fold(None, |found, rule| stricter(found, Some(rule.say())))
    }

    /// Returns the rule that allows a command whose every part is allowed or only reads.
    fn judge_allowed(&self, command: &CommandLine) -> Option<Ruled> {
        let used: RefCell<Option<&Rule>> = RefCell::new(None);
        let allowed_by = |words: &[Word], only_outside: bool| {
            let mut rules = self.rules.iter().filter(|rule| {
                rule.action == RuleAction::Allow && (rule.leaves_sandbox || !only_outside)
            });
            let rule = rules.find(|rule| rule.allows_call(words));
            if let Some(rule) = rule {
                used.borrow_mut().get_or_insert(rule);
            }
            rule.is_some()
        };
        let outside = |words: &[Word]| allowed_by(words, true);
        let anywhere = |words: &[Word]| allowed_by(words, false);
        let leaves =
            check_command(command, Knowledge { tables: false, allows: Some(&outside) }).is_ok();
        let is_allowed = leaves || {
            used.replace(None);
            check_command(command, Knowledge { tables: true, allows: Some(&anywhere) }).is_ok()
        };
        let rule = used.borrow().filter(|_| is_allowed)?;
        Some(Ruled { leaves_sandbox: leaves, ..rule.say() })
    }

    /// Returns what the rules say of reading: only denials are about it.
    fn judge_reading(&self, paths: &[PathBuf], home: &Path) -> Option<Ruled> {
        self.first(|rule| {
            let is_about = match rule.matcher {
                Matcher::Read { .. } => true,
                Matcher::Path { .. } => rule.action == RuleAction::Deny,
                _ => false,
            };
            is_about && paths.iter().any(|path| rule.matches_path(path, home))
        })
    }

    /// Returns what the rules say of changes: the strictest of the files counts.
    pub(super) fn judge_paths(&self, paths: &[PathBuf], home: &Path) -> Option<Ruled> {
        let is_about =
            |rule: &Rule| matches!(rule.matcher, Matcher::Path { .. } | Matcher::Write { .. });
        let said: Vec<Option<Ruled>> = paths
            .iter()
            .map(|path| self.first(|rule| is_about(rule) && rule.matches_path(path, home)))
            .collect();
        // The leave for one file is no leave for another.
        let all_matched = said.iter().all(Option::is_some);
        let strictest = said.into_iter().fold(None, stricter);
        strictest.filter(|said| all_matched || said.action != RuleAction::Allow)
    }
}

impl Rule {
    fn say(&self) -> Ruled {
        let verb = match self.action {
            RuleAction::Allow => "allows it",
            RuleAction::Ask => "asks for it",
            RuleAction::Deny => "denies it",
        };
        let why = self.reason.as_ref().map(|reason| format!(": {reason}"));
        Ruled {
            action: self.action,
            reason: format!("the rule at {} {verb}{}", self.place, why.unwrap_or_default()),
            place: self.place.clone(),
            leaves_sandbox: false,
        }
    }

    /// What a rule says of a command of which it cannot be told whether it matches.
    pub(super) fn ask_instead(&self, because: &str) -> Ruled {
        let reason = format!("the rule at {} may be about it: {because}", self.place);
        Ruled { action: RuleAction::Ask, reason, ..self.say() }
    }

    fn is_about_files(&self) -> bool {
        matches!(self.matcher, Matcher::Path { .. } | Matcher::Read { .. } | Matcher::Write { .. })
    }

    pub(super) fn is_about_programs(&self) -> bool {
        matches!(self.matcher, Matcher::Program { .. })
    }

    pub(super) fn likeness_to_command(&self, command: &CommandLine) -> Likeness {
        self.likeness_to_parts(&collect_parts(command))
    }

    fn likeness_to_parts(&self, parts: &Parts) -> Likeness {
        let seen = parts.parts.iter().map(|words| self.likeness_to_call(words)).max();
        let hidden = if parts.hidden.is_some() { Likeness::Open } else { Likeness::None };
        seen.unwrap_or(Likeness::None).max(hidden)
    }

    fn likeness_to_call(&self, words: &[Word]) -> Likeness {
        let Matcher::Program { programs, args } = &self.matcher else { return Likeness::None };
        let Some((program, rest)) = words.split_first() else { return Likeness::None };
        let name = base_name(&program.text);
        let is_named = programs.iter().any(|wanted| {
            if wanted.contains('/') { *wanted == program.text } else { base_name(wanted) == name }
        });
        let likeness = match (is_named, program.open || program.wild.is_some()) {
            (true, _) => Likeness::Same,
            (false, true) => Likeness::Open,
            (false, false) => return Likeness::None,
        };
        for (place, wanted) in args.iter().enumerate() {
            match rest.get(place) {
                Some(word) if wanted.contains(&word.text) && !word.open => {}
                // One that may become several, or another, moves all that follow.
                Some(word) if word.open || word.wild.is_some() => return Likeness::Open,
                Some(_) | None => return Likeness::None,
            }
        }
        likeness
    }

    /// Returns whether the rule allows a call whose words are all known: the program of that
    /// very name, and not a file of the project that has the same.
    fn allows_call(&self, words: &[Word]) -> bool {
        let Matcher::Program { programs, args } = &self.matcher else { return false };
        let Some((program, rest)) = words.split_first() else { return false };
        let name = ["/usr/bin/", "/bin/"].iter().find_map(|place| program.text.strip_prefix(place));
        let is_named = programs.iter().any(|it| *it == program.text || Some(it.as_str()) == name);
        let is_plain = |word: &Word| !word.open && word.wild.is_none();
        is_named
            && is_plain(program)
            && args.iter().enumerate().all(|(place, wanted)| {
                rest.get(place).is_some_and(|word| is_plain(word) && wanted.contains(&word.text))
            })
    }

    pub(super) fn matches_path(&self, path: &Path, home: &Path) -> bool {
        match &self.matcher {
            Matcher::Path { patterns }
            | Matcher::Read { patterns }
            | Matcher::Write { patterns } => {
                matches_any(path, patterns.iter().map(String::as_str), home)
            }
            _ => false,
        }
    }

    pub(super) fn matches_tool(&self, tool: &str) -> bool {
        let Matcher::Tool { names } = &self.matcher else { return false };
        names.iter().any(|name| matches_name(tool, name))
    }

    pub(super) fn matches_remote(&self, server: &str, tool: &str) -> bool {
        let Matcher::Mcp { server: wanted, tools } = &self.matcher else { return false };
        matches_name(server, wanted) && tools.iter().any(|name| matches_name(tool, name))
    }

    /// `*.example.org` is every host below it, `example.org` that one alone.
    pub(super) fn matches_host(&self, host: &str) -> bool {
        let Matcher::Host { hosts } = &self.matcher else { return false };
        let fold = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
        let host = fold(host);
        hosts.iter().any(|wanted| match fold(wanted).strip_prefix("*.") {
            Some(domain) => {
                host.strip_suffix(domain).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.'))
            }
            None => wanted == "*" || fold(wanted) == host,
        })
    }
}

/// Returns the path that a word may name: of an option, its value.
fn named_path(word: &str, cwd: &Path, home: &Path) -> Option<PathBuf> {
    let text = match word.strip_prefix('-') {
        Some(option) => option.split_once('=')?.1,
        None => word,
    };
    let path = match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => cwd.join(text),
    };
    (!text.is_empty()).then_some(path)
}

/// Returns the stricter of two; the first where they agree.
pub(in crate::policy) fn stricter(one: Option<Ruled>, two: Option<Ruled>) -> Option<Ruled> {
    match (one, two) {
        (Some(one), Some(two)) => Some(if two.action > one.action { two } else { one }),
        (one, two) => one.or(two),
    }
}

/// Returns the host of a URL by its text; what is none gives no host that a rule names.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}
