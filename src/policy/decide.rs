//! The judgement: an effect and its circumstances go in, allow, ask or deny comes out. Pure.
//!
//! "asks" below is what `ask` means under the approval policy: a question, or a refusal under
//! `never`. Who cannot be asked because nobody is there is the executor's business.
//!
//! | effect | untrusted | on-request, on-failure | never |
//! |---|---|---|---|
//! | nothing, read, input to a running command | allow | allow | allow |
//! | read of a hidden path | deny | deny | deny |
//! | write in a root or /tmp (workspace-write) | ask | allow | allow |
//! | write elsewhere, protected, or in read-only | ask | ask | deny |
//! | command; level full | ask | allow | allow |
//! | command; level reduced, a person is there | ask | ask | allow |
//! | command; level reduced, nobody there | ask | by fallback | by fallback |
//! | the same, known to only read, where it is not allowed | allow, reading | allow, reading | allow, reading |
//! | command; level none | deny | deny | deny |
//! | command that wants out | ask outside | ask outside (on-failure: tried inside) | deny |
//! | MCP tool, read-only by its server's word | ask | allow | allow |
//! | MCP tool, other | ask | ask when destructive or read-only mode | allow |
//! | fetch, network off / on | ask / ask | ask / allow | deny / allow |
//! | sub-agent | allow | allow | allow |
//!
//! Danger-full-access: writes and commands go on outside, after a question under `untrusted`.
//!
//! What is typed into a running command is also judged by what rules say of it as a script; one
//! that reaches further than commands do now is asked about.
//!
//! A rule is laid over this: deny refuses, ask asks, allow answers the question; it leaves the
//! sandbox only where it says so.

use std::path::{Component, Path, PathBuf};

use crate::policy::is_known_read_only;
use crate::policy::paths::{matches_any, normalize};
use crate::policy::rules::{RuleAction, Ruled, Rules, Subject, Typed, stricter};
use crate::protocol::{
    ApprovalPolicy, ChangeKind, CommandLine, Decision, DecisionAction, Effect, FileChange,
    GitAccess, Justification, Network, RemoteHints, SandboxLevel, SandboxMode, SandboxPolicy,
};

/// Directories that no tool changes unasked, wherever they lie: what is in them runs later.
pub(crate) const PROTECTED: [&str; 4] = [".git", ".gimlet", ".codex", ".agents"];

/// Names below `.git` that stay protected when `.git` is open: they make git run programs.
pub(crate) const GIT_PROTECTED: [&str; 4] = ["hooks", "config", "config.worktree", "modules"];

/// All a judgement depends on beside the effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    /// When the user is asked.
    pub(crate) approval: ApprovalPolicy,
    /// What commands and file tools can reach.
    pub(crate) sandbox: &'a SandboxPolicy,
    /// How well this machine can confine commands.
    pub(crate) level: SandboxLevel,
    /// The least level at which commands still run without a person.
    pub(crate) fallback: SandboxLevel,
    /// Whether someone can answer.
    pub(crate) interactive: bool,
    /// The user's home directory, for `~` in patterns.
    pub(crate) home: &'a Path,
    /// What the user wants allowed, asked or denied.
    pub(crate) rules: &'a Rules,
}

/// Decides what happens with a call of this tool that would have this effect.
pub(crate) fn decide(effect: &Effect, tool: &str, around: &Circumstances<'_>) -> Decision {
    let plain = decide_without_rules(effect, around);
    let said = around.rules.judge(&Subject { effect, tool, home: around.home });
    match said {
        None => plain,
        Some(said) => apply_rule(said, plain, effect, around),
    }
}

/// Lays what a rule says over what would hold without it. What is refused stays so, unless the
/// refusal is only that nobody is asked, and the rule answers.
fn apply_rule(
    said: Ruled,
    plain: Decision,
    effect: &Effect,
    around: &Circumstances<'_>,
) -> Decision {
    let Ruled { action, reason, place, leaves_sandbox } = said;
    let outside =
        matches!(plain.action, DecisionAction::AskUnsandboxed | DecisionAction::AllowUnsandboxed);
    let unasked = plain.action == DecisionAction::Deny && around.approval == ApprovalPolicy::Never;
    let open = around.sandbox.mode == SandboxMode::DangerFullAccess;
    let with = |action| Decision { action, reason: reason.clone(), rule: Some(place.clone()) };
    match action {
        RuleAction::Deny => with(DecisionAction::Deny),
        RuleAction::Ask if plain.action == DecisionAction::Deny => plain,
        RuleAction::Ask if around.approval == ApprovalPolicy::Never => with(DecisionAction::Deny),
        RuleAction::Ask if outside => with(DecisionAction::AskUnsandboxed),
        RuleAction::Ask => with(DecisionAction::Ask),
        RuleAction::Allow if unasked => {
            let asking = Circumstances { approval: ApprovalPolicy::OnRequest, ..*around };
            match decide_without_rules(effect, &asking) {
                asked if asked.action == DecisionAction::Deny => plain,
                asked => {
                    let said = Ruled { action, reason, place, leaves_sandbox };
                    match apply_rule(said, asked, effect, &asking) {
                        // What the rule does not answer is still for nobody to ask.
                        still if is_question(still.action) => plain,
                        answered => answered,
                    }
                }
            }
        }
        RuleAction::Allow if leaves_sandbox => with(DecisionAction::AllowUnsandboxed),
        RuleAction::Allow => match plain.action {
            DecisionAction::Ask => with(DecisionAction::Allow),
            // Where nothing confines commands, an allowed one runs as all others do.
            DecisionAction::AskUnsandboxed if open => with(DecisionAction::AllowUnsandboxed),
            DecisionAction::AskUnsandboxed | DecisionAction::Deny => plain,
            DecisionAction::Allow
            | DecisionAction::AllowReadOnly
            | DecisionAction::AllowUnsandboxed => with(plain.action),
        },
    }
}

fn is_question(action: DecisionAction) -> bool {
    matches!(action, DecisionAction::Ask | DecisionAction::AskUnsandboxed)
}

fn decide_without_rules(effect: &Effect, around: &Circumstances<'_>) -> Decision {
    match effect {
        Effect::None => allow("it touches nothing"),
        Effect::Read { paths } => decide_read(paths, around),
        Effect::Write { changes } => decide_write(changes, around),
        Effect::Run { command, cwd: _, network: _, escalate } => {
            decide_run(command, escalate.as_ref(), around)
        }
        Effect::Input { process: _ } => judge_input(InputReach::AsNow, around),
        Effect::Fetch { url: _ } => decide_fetch(around),
        Effect::Remote { server: _, tool: _, arguments: _, hints } => decide_remote(*hints, around),
        Effect::Agent { role: _ } => allow("its own calls are judged one by one"),
    }
}

/// How far a running command reaches that is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputReach {
    /// No further than commands may now.
    AsNow,
    /// Further: it was let out of the sandbox, or the policy was wider when it started.
    Further,
}

/// A running command, and what it is to be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputTo<'a> {
    /// How far the command reaches.
    pub(crate) reach: InputReach,
    /// The text, where there is a command to read it.
    pub(crate) typed: Option<Typed<'a>>,
}

/// Decides what happens with input of this tool to a running command.
pub(crate) fn decide_input(
    input: &InputTo<'_>,
    effect: &Effect,
    tool: &str,
    around: &Circumstances<'_>,
) -> Decision {
    let typed = input.typed.as_ref();
    let plain = match typed {
        Some(typed) if typed.only_interrupts() => allow("it only interrupts the command"),
        Some(_) | None => judge_input(input.reach, around),
    };
    let of_text = typed.and_then(|typed| around.rules.judge_typed(typed, around.home));
    let general = around.rules.judge(&Subject { effect, tool, home: around.home });
    match stricter(of_text, general) {
        None => plain,
        Some(said) => apply_rule(said, plain, effect, around),
    }
}

/// What a confined command is told to do stays within what it was allowed; for another one, its
/// input is a command of its own.
fn judge_input(reach: InputReach, around: &Circumstances<'_>) -> Decision {
    if reach == InputReach::Further {
        return ask(around, "the command it goes to reaches further than the sandbox".to_owned());
    }
    let is_free = around.sandbox.mode == SandboxMode::DangerFullAccess;
    if is_free && around.approval == ApprovalPolicy::Untrusted {
        return ask(around, "nothing confines the command it goes to".to_owned());
    }
    allow("the command it goes to was allowed to run, within these bounds")
}

fn decide_read(paths: &[PathBuf], around: &Circumstances<'_>) -> Decision {
    match paths.iter().find(|path| is_hidden(path, around.sandbox, around.home)) {
        Some(path) => deny(format!("{} is hidden by deny_read", path.display())),
        None => allow("it only reads"),
    }
}

fn decide_write(changes: &[FileChange], around: &Circumstances<'_>) -> Decision {
    let paths = changes
        .iter()
        .flat_map(|change| std::iter::once(&change.path).chain(change.move_to.as_ref()));
    let mut asked = None;
    for path in paths {
        match find_write_obstacle(path, around.sandbox, around.home) {
            Some(Obstacle::Forbids(reason)) => return deny(reason),
            Some(Obstacle::Asks(reason)) => {
                asked.get_or_insert(reason);
            }
            None => {}
        }
    }
    match asked {
        Some(reason) => ask(around, reason),
        None if around.approval == ApprovalPolicy::Untrusted => {
            ask(around, describe_changes(changes))
        }
        None if around.sandbox.mode == SandboxMode::DangerFullAccess => {
            allow("the mode is danger-full-access")
        }
        None => allow("it writes in the workspace"),
    }
}

fn describe_changes(changes: &[FileChange]) -> String {
    let deletes = changes.iter().filter(|change| change.kind == ChangeKind::Delete).count();
    let files = if changes.len() == 1 { "file" } else { "files" };
    match deletes {
        0 => format!("it changes {} {files}", changes.len()),
        _ => format!("it changes {} {files} and deletes {deletes} of them", changes.len()),
    }
}

/// What stands against writing a path, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The user must agree.
    Asks(String),
    /// Nobody can.
    Forbids(String),
}

impl Ruled {
    /// Returns what a rule sets against writing a path; nothing where it allows.
    pub(crate) fn as_obstacle(&self) -> Option<Obstacle> {
        match self.action {
            RuleAction::Allow => None,
            RuleAction::Ask => Some(Obstacle::Asks(self.reason.clone())),
            RuleAction::Deny => Some(Obstacle::Forbids(self.reason.clone())),
        }
    }
}

/// Returns what stands against writing a path, judged by its text alone.
pub(crate) fn find_write_obstacle(
    path: &Path,
    policy: &SandboxPolicy,
    home: &Path,
) -> Option<Obstacle> {
    let shown = path.display();
    let path = normalize(path);
    if is_hidden(&path, policy, home) {
        return Some(Obstacle::Forbids(format!("{shown} is hidden by deny_read")));
    }
    match policy.mode {
        SandboxMode::ReadOnly => {
            return Some(Obstacle::Asks("the sandbox is read-only".to_owned()));
        }
        SandboxMode::DangerFullAccess => return None,
        SandboxMode::WorkspaceWrite => {}
    }
    // The deepest root decides, so that a root may lie in a protected directory by choice.
    let tmp = policy.tmp.then(|| PathBuf::from("/tmp"));
    let roots = policy.roots.iter().map(|root| normalize(root)).chain(tmp);
    let root = roots.filter(|root| path.starts_with(root)).max_by_key(|it| it.components().count());
    let Some(root) = root else {
        return Some(Obstacle::Asks(format!("{shown} is outside the workspace")));
    };
    let is_own = |directory: PathBuf| {
        path.starts_with(&directory) && (root == directory || !root.starts_with(&directory))
    };
    if policy.deny_write.iter().map(|directory| normalize(directory)).any(is_own) {
        return Some(Obstacle::Asks(format!("{shown} is in a directory of Gimlet's own")));
    }
    find_protected_name(path.strip_prefix(&root).ok()?, &shown.to_string(), policy.git)
}

fn find_protected_name(below: &Path, shown: &str, git: GitAccess) -> Option<Obstacle> {
    let names: Vec<String> = below.components().map(fold_name).collect();
    let place = names.iter().position(|name| PROTECTED.contains(&name.as_str()))?;
    let is_git = names.get(place).is_some_and(|name| name == ".git");
    match git {
        GitAccess::Allow if is_git && !is_protected_in_git(names.get(place + 1..)) => None,
        GitAccess::Deny if is_git => {
            Some(Obstacle::Forbids(format!("{shown} is protected: git = \"deny\"")))
        }
        GitAccess::Allow | GitAccess::Ask | GitAccess::Deny => {
            Some(Obstacle::Asks(format!("{shown} is in a protected directory")))
        }
    }
}

/// Returns whether a path lies in a directory that no tool changes unasked.
pub(crate) fn lies_protected(path: &Path) -> bool {
    path.components().any(|name| PROTECTED.contains(&fold_name(name).as_str()))
}

/// Returns a name as some file systems see it: case and invisible characters do not count.
fn fold_name(name: Component<'_>) -> String {
    let is_ignorable = |letter: &char| matches!(letter, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    let text = name.as_os_str().to_string_lossy();
    text.chars().filter(|letter| !is_ignorable(letter)).collect::<String>().to_lowercase()
}

/// Returns whether what lies below `.git` is protected even where `.git` is open. `.git` itself
/// is: as a file, it says where the repository lies.
fn is_protected_in_git(names: Option<&[String]>) -> bool {
    let names = names.unwrap_or_default();
    let protected = |name: &String| PROTECTED.contains(&name.as_str());
    names.first().is_none_or(|first| GIT_PROTECTED.contains(&first.as_str()))
        || names.last().is_some_and(|last| last == "attributes")
        || names.iter().any(protected)
}

fn decide_run(
    command: &CommandLine,
    escalate: Option<&Justification>,
    around: &Circumstances<'_>,
) -> Decision {
    let is_known = around.level != SandboxLevel::None && is_known_read_only(command);
    if around.sandbox.mode == SandboxMode::DangerFullAccess {
        return match around.approval {
            ApprovalPolicy::Untrusted if is_known => allow_reading(),
            ApprovalPolicy::Untrusted => {
                ask_outside("nothing confines it, and it is not known to only read")
            }
            ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure | ApprovalPolicy::Never => {
                decision(DecisionAction::AllowUnsandboxed, "the mode is danger-full-access")
            }
        };
    }
    if let Some(escalate) = escalate {
        match around.approval {
            ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest => {
                return ask_outside(&format!("it wants to leave the sandbox: {}", escalate.reason));
            }
            ApprovalPolicy::Never => {
                return deny(
                    "leaving the sandbox cannot be asked under approval policy never".to_owned(),
                );
            }
            // Inside first: only a command that fails there is worth a question.
            ApprovalPolicy::OnFailure => {}
        }
    }
    let decision = decide_confined_run(around);
    // A refusal is the user's own wish for a better sandbox, whatever the command.
    match decision.action {
        DecisionAction::Ask if is_known => allow_reading(),
        _ => decision,
    }
}

/// Lets a command go on that is known to only read, and sees to it that it does: what it is
/// given to read may make it run something, such as the programs that git's configuration names.
fn allow_reading() -> Decision {
    decision(DecisionAction::AllowReadOnly, "it is known to only read")
}

fn decide_confined_run(around: &Circumstances<'_>) -> Decision {
    if around.level == SandboxLevel::None {
        return deny(
            "this machine cannot confine commands, and the mode is not danger-full-access"
                .to_owned(),
        );
    }
    if !around.interactive && around.fallback > around.level {
        return deny("the sandbox is reduced here, and sandbox_fallback is \"refuse\"".to_owned());
    }
    if around.approval == ApprovalPolicy::Untrusted {
        return ask(around, "it is not known to only read".to_owned());
    }
    if around.level == SandboxLevel::Full {
        return allow("it is confined");
    }
    let is_asked = around.interactive && around.approval != ApprovalPolicy::Never;
    if is_asked {
        return ask(around, "it is not known to only read, and the sandbox is reduced".to_owned());
    }
    allow("it is confined, by the reduced sandbox")
}

fn decide_fetch(around: &Circumstances<'_>) -> Decision {
    let open = around.sandbox.mode == SandboxMode::DangerFullAccess
        || around.sandbox.network == Network::On;
    if open && around.approval != ApprovalPolicy::Untrusted {
        return allow("the network is open");
    }
    ask(around, "it reaches the network".to_owned())
}

/// Whether the list of hosts that commands may reach names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// It does.
    Listed,
    /// It does not.
    Stranger,
}

/// Decides what happens with a connection of a command to a host, `example.org:443`, where single
/// hosts are allowed. A rule is stronger than the list.
pub(crate) fn decide_connection(
    host: &str,
    listing: Listing,
    approval: ApprovalPolicy,
    rules: &Rules,
) -> Decision {
    let asks = match approval {
        ApprovalPolicy::Never => DecisionAction::Deny,
        ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => {
            DecisionAction::Ask
        }
    };
    match (rules.judge_host(host), listing) {
        (Some(Ruled { action, reason, place, .. }), _) => {
            let action = match action {
                RuleAction::Allow => DecisionAction::Allow,
                RuleAction::Ask => asks,
                RuleAction::Deny => DecisionAction::Deny,
            };
            Decision { action, reason, rule: Some(place) }
        }
        (None, Listing::Listed) => allow("allowed_hosts names it"),
        (None, Listing::Stranger) => decision(asks, &format!("{host} is not among allowed_hosts")),
    }
}

fn decide_remote(hints: RemoteHints, around: &Circumstances<'_>) -> Decision {
    // What a server says of itself is no reason for who trusts nothing.
    if hints.read_only && around.approval != ApprovalPolicy::Untrusted {
        return allow("its server, which you configured, says that it only reads");
    }
    match around.approval {
        ApprovalPolicy::Never => allow("its server is configured, and nobody is asked"),
        ApprovalPolicy::Untrusted => ask(around, "only its server knows what it does".to_owned()),
        ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => {
            if hints.destructive {
                ask(around, "its server does not say that it destroys nothing".to_owned())
            } else if around.sandbox.mode == SandboxMode::ReadOnly {
                ask(around, "the sandbox is read-only".to_owned())
            } else {
                allow("its server is configured")
            }
        }
    }
}

fn is_hidden(path: &Path, policy: &SandboxPolicy, home: &Path) -> bool {
    matches_any(path, policy.deny_read.iter().map(|pattern| pattern.0.as_str()), home)
}

fn decision(action: DecisionAction, reason: &str) -> Decision {
    Decision { action, reason: reason.to_owned(), rule: None }
}

fn allow(reason: &str) -> Decision {
    decision(DecisionAction::Allow, reason)
}

fn deny(reason: String) -> Decision {
    Decision { action: DecisionAction::Deny, reason, rule: None }
}

fn ask_outside(reason: &str) -> Decision {
    decision(DecisionAction::AskUnsandboxed, reason)
}

fn ask(around: &Circumstances<'_>, reason: String) -> Decision {
    let action = match around.approval {
        ApprovalPolicy::Never => DecisionAction::Deny,
        ApprovalPolicy::Untrusted | ApprovalPolicy::OnRequest | ApprovalPolicy::OnFailure => {
            DecisionAction::Ask
        }
    };
    Decision { action, reason, rule: None }
}
