//! Rules: what the user wants allowed, asked or denied, by program, path, tool, server or host.
//!
//! Deny wins over ask, ask over allow, whatever their order and file; a command is judged in all
//! its parts and through every wrapper, and the strictest of them counts. What `file.rs` reads is
//! plain data here. Pure. Called by `decide.rs`, `check.rs` and `config`.

mod file;
mod matching;
mod typing;

use std::path::{Path, PathBuf};

pub(crate) use file::{Origin, RuleError, RuleFile};
pub(super) use matching::stricter;
pub(crate) use matching::{Ruled, Subject};
pub(crate) use typing::{Keyboard, Typed, keep_unfinished};

/// What a rule does with what it matches. Ordered: stricter is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleAction {
    /// It goes on, within the sandbox unless the rule says otherwise.
    Allow,
    /// The user is asked.
    Ask,
    /// It is refused.
    Deny,
}

/// All rules that hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    action: RuleAction,
    matcher: Matcher,
    /// The user's words for it.
    reason: Option<String>,
    /// Where it stands: `rules.toml:3`.
    place: String,
    /// Whether what it allows runs outside the sandbox.
    leaves_sandbox: bool,
}

/// What a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Matcher {
    /// A program, and how its arguments begin: alternatives for each place.
    Program { programs: Vec<String>, args: Vec<Vec<String>> },
    /// Files: denied, they are neither read nor changed; else it is about changes.
    Path { patterns: Vec<String> },
    /// Files that are read.
    Read { patterns: Vec<String> },
    /// Files that a patch or a file tool changes.
    Write { patterns: Vec<String> },
    /// Tools by name.
    Tool { names: Vec<String> },
    /// Tools of MCP servers.
    Mcp { server: String, tools: Vec<String> },
    /// Hosts that are fetched from.
    Host { hosts: Vec<String> },
    /// All that does more than look: in the place of rules that cannot be read.
    Everything,
}

impl Rules {
    /// Adds the rules of a file. Returns what of it is ignored, as sentences.
    pub(crate) fn read(&mut self, file: &RuleFile<'_>) -> Result<Vec<String>, RuleError> {
        let (mut rules, notes) = file::parse_rules(file)?;
        self.rules.append(&mut rules);
        Ok(notes)
    }

    /// Asks for all that does more than look, because rules that may deny it cannot be read.
    pub(crate) fn ask_for_everything(&mut self, place: &str, reason: &str) {
        self.rules.push(Rule {
            action: RuleAction::Ask,
            matcher: Matcher::Everything,
            reason: Some(reason.to_owned()),
            place: place.to_owned(),
            leaves_sandbox: false,
        });
    }

    /// Returns the patterns of files that nothing may read, for the sandbox and the file tools.
    pub(crate) fn hidden_patterns(&self) -> Vec<String> {
        let patterns = self.rules.iter().filter_map(|rule| match &rule.matcher {
            Matcher::Path { patterns } | Matcher::Read { patterns }
                if rule.action == RuleAction::Deny =>
            {
                Some(patterns)
            }
            _ => None,
        });
        patterns.flatten().cloned().collect()
    }

    /// Returns what the rules say of writing one file, wherever a link to it lies.
    pub(crate) fn judge_write(&self, path: &Path, home: &Path) -> Option<Ruled> {
        self.judge_paths(&[PathBuf::from(path)], home)
    }
}
