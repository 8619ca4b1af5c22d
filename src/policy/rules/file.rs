//! `rules.toml`: text becomes rules, their examples checked.
//!
//! A rule has an action, exactly one thing it matches, and optional words for people. A rule whose
//! example it does not match is an error like any other: it would not do what it was written for.
//! Reads no file itself. Called by `mod.rs`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::policy::rules::matching::Likeness;
use crate::policy::rules::{Matcher, Rule, RuleAction};
use crate::protocol::CommandLine;

/// Rules of one file; more are no longer anybody's wish.
const RULES_MAX: usize = 1000;

/// A file of rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleFile<'a> {
    /// What it is called in reasons: `your rules.toml`.
    pub(crate) label: &'a str,
    /// What it is called in errors: its path.
    pub(crate) path: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
    /// Whose it is.
    pub(crate) origin: Origin,
}

/// Whose rules they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The user's own.
    User,
    /// A trusted project's: it never leads out of the sandbox.
    Project,
}

/// A file of rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {message}")]
pub struct RuleError {
    /// The file.
    pub path: String,
    /// The line, from 1, on which the rule or the mistake is.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToml {
    #[serde(default)]
    rule: Vec<Spanned<RuleToml>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleToml {
    action: RuleAction,
    program: Option<Words>,
    #[serde(default)]
    args: Vec<Words>,
    path: Option<Words>,
    read: Option<Words>,
    write: Option<Words>,
    tool: Option<Words>,
    mcp: Option<McpToml>,
    host: Option<Words>,
    reason: Option<String>,
    #[serde(default)]
    examples: Vec<String>,
    #[serde(default)]
    counter_examples: Vec<String>,
    sandbox: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct McpToml {
    server: String,
    tool: Option<Words>,
}

/// One word, or alternatives.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Words {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::One(word) => vec![word],
            Self::Several(words) => words,
        }
    }
}

/// Reads a file; the sentences say what of it is ignored.
pub(super) fn parse_rules(file: &RuleFile<'_>) -> Result<(Vec<Rule>, Vec<String>), RuleError> {
    let parsed: FileToml = toml::from_str(file.text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().next().unwrap_or("it is not TOML").to_owned();
        fail(
            file,
            start,
            message,
            "a rule begins with [[rule]] and has an action: allow, ask or deny",
        )
    })?;
    if parsed.rule.len() > RULES_MAX {
        let message = format!("there are more than {RULES_MAX} rules");
        return Err(fail(file, 0, message, "join rules: program, args and the like take lists"));
    }
    let (mut rules, mut notes) = (Vec::new(), Vec::new());
    for spanned in parsed.rule {
        let start = spanned.span().start;
        let place = format!("{}:{}", file.label, line_of(file.text, start));
        let made = build_rule(spanned.into_inner(), place)
            .and_then(|made| check_examples(&made).map(|()| made));
        let Made { rule: mut built, .. } =
            made.map_err(|(message, hint)| fail(file, start, message, hint))?;
        if file.origin == Origin::Project && std::mem::take(&mut built.leaves_sandbox) {
            notes.push(format!(
                "{}: `sandbox = false` is ignored: a project cannot say it",
                built.place
            ));
        }
        rules.push(built);
    }
    Ok((rules, notes))
}

fn fail(file: &RuleFile<'_>, at: usize, message: String, hint: &str) -> RuleError {
    RuleError {
        path: file.path.to_owned(),
        line: line_of(file.text, at),
        message,
        hint: hint.to_owned(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

type Mistake = (String, &'static str);

struct Made {
    rule: Rule,
    examples: Vec<String>,
    counter_examples: Vec<String>,
}

fn build_rule(written: RuleToml, place: String) -> Result<Made, Mistake> {
    let action = written.action;
    let leaves_sandbox = written.sandbox == Some(false);
    let (examples, counter_examples) = (written.examples.clone(), written.counter_examples.clone());
    let reason = written.reason.clone();
    let is_program = written.program.is_some();
    if written.sandbox.is_some() && !(is_program && action == RuleAction::Allow) {
        let hint = "it says that an allowed program runs outside the sandbox";
        return Err(("`sandbox` belongs to a rule that allows a program".to_owned(), hint));
    }
    if !written.args.is_empty() && !is_program {
        return Err((
            "`args` needs `program`".to_owned(),
            "name the program whose arguments these are",
        ));
    }
    let matcher = build_matcher(written)?;
    if matches!(matcher, Matcher::Read { .. }) && action != RuleAction::Deny {
        let hint = "reading is allowed but for what is hidden; use action = \"deny\", or `write`";
        return Err(("a rule about reading can only deny".to_owned(), hint));
    }
    check_words(&matcher)?;
    let rule = Rule { action, matcher, reason, place, leaves_sandbox };
    Ok(Made { rule, examples, counter_examples })
}

fn build_matcher(written: RuleToml) -> Result<Matcher, Mistake> {
    let RuleToml { program, args, path, read, write, tool, mcp, host, .. } = written;
    let args = args.into_iter().map(Words::into_list).collect();
    let list = Words::into_list;
    let mut given = [
        program.map(|it| Matcher::Program { programs: list(it), args }),
        path.map(|it| Matcher::Path { patterns: list(it) }),
        read.map(|it| Matcher::Read { patterns: list(it) }),
        write.map(|it| Matcher::Write { patterns: list(it) }),
        tool.map(|it| Matcher::Tool { names: list(it) }),
        mcp.map(|it| Matcher::Mcp {
            server: it.server,
            tools: it.tool.map_or_else(|| vec!["*".to_owned()], list),
        }),
        host.map(|it| Matcher::Host { hosts: list(it) }),
    ]
    .into_iter()
    .flatten();
    let hint = "give one of program, path, read, write, tool, mcp, host";
    match (given.next(), given.next()) {
        (Some(matcher), None) => Ok(matcher),
        (None, _) => Err(("the rule matches nothing".to_owned(), hint)),
        (Some(_), Some(_)) => {
            Err(("the rule matches more than one kind of thing".to_owned(), hint))
        }
    }
}

fn check_words(matcher: &Matcher) -> Result<(), Mistake> {
    let lists: Vec<&Vec<String>> = match matcher {
        Matcher::Program { programs, args } => std::iter::once(programs).chain(args).collect(),
        Matcher::Path { patterns } | Matcher::Read { patterns } | Matcher::Write { patterns } => {
            vec![patterns]
        }
        Matcher::Tool { names } => vec![names],
        Matcher::Mcp { tools, .. } => vec![tools],
        Matcher::Host { hosts } => vec![hosts],
        Matcher::Everything => vec![],
    };
    if lists.iter().any(|list| list.is_empty()) {
        return Err((
            "an empty list matches nothing".to_owned(),
            "leave the key out, or give a word",
        ));
    }
    if let Matcher::Program { programs, .. } = matcher
        && let Some(program) =
            programs.iter().find(|it| it.is_empty() || it.contains([' ', '\t', '\n']))
    {
        let hint = "`program` is one word; what follows belongs into `args`";
        return Err((format!("{program:?} is no program's name"), hint));
    }
    if let Matcher::Host { hosts } = matcher
        && let Some(host) =
            hosts.iter().find(|it| it.is_empty() || it.contains(['/', ':', ' ', '@']))
    {
        return Err((
            format!("{host:?} is no host's name"),
            "for example: \"example.org\" or \"*.example.org\"",
        ));
    }
    Ok(())
}

/// Checks that a rule does what it was written for.
fn check_examples(made: &Made) -> Result<(), Mistake> {
    let hint = "an example is what the rule shall match, a counter-example what it shall not";
    for example in &made.examples {
        if likeness_of(&made.rule, example) != Likeness::Same {
            return Err((format!("the rule does not match its example {example:?}"), hint));
        }
    }
    for example in &made.counter_examples {
        if likeness_of(&made.rule, example) == Likeness::Same {
            return Err((format!("the rule matches its counter-example {example:?}"), hint));
        }
    }
    Ok(())
}

fn likeness_of(rule: &Rule, example: &str) -> Likeness {
    let home = Path::new("/home");
    let is_like = |is_like: bool| if is_like { Likeness::Same } else { Likeness::None };
    match &rule.matcher {
        Matcher::Program { .. } => rule.likeness_to_command(&CommandLine::Shell {
            program: "/bin/sh".to_owned(),
            login: false,
            script: example.to_owned(),
        }),
        Matcher::Path { .. } | Matcher::Read { .. } | Matcher::Write { .. } => {
            let path = match example.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => PathBuf::from("/").join(example),
            };
            is_like(rule.matches_path(&path, home))
        }
        Matcher::Tool { .. } => is_like(rule.matches_tool(example)),
        Matcher::Mcp { .. } => {
            let (server, tool) = example.split_once('/').unwrap_or((example, ""));
            is_like(rule.matches_remote(server, tool))
        }
        Matcher::Host { .. } => is_like(rule.matches_host(example)),
        Matcher::Everything => Likeness::Same,
    }
}
