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

use std::path::{Component, Path, PathBuf};

use crate::policy::is_known_read_only;
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
}

/// Decides what happens with a call that would have this effect.
pub(crate) fn decide(effect: &Effect, around: &Circumstances<'_>) -> Decision {
    match effect {
        Effect::None => allow("it touches nothing"),
        Effect::Read { paths } => decide_read(paths, around),
        Effect::Write { changes } => decide_write(changes, around),
        Effect::Run { command, cwd: _, network: _, escalate } => {
            decide_run(command, escalate.as_ref(), around)
        }
        Effect::Input { process: _ } => decide_input(InputReach::AsNow, around),
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

/// Decides what happens with input to a running command. What a confined command is told to do
/// stays within what it was allowed; for another one, its input is a command of its own.
pub(crate) fn decide_input(reach: InputReach, around: &Circumstances<'_>) -> Decision {
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
                ask(around, "its server says that it may destroy something".to_owned())
            } else if around.sandbox.mode == SandboxMode::ReadOnly {
                ask(around, "the sandbox is read-only".to_owned())
            } else {
                allow("its server is configured")
            }
        }
    }
}

fn is_hidden(path: &Path, policy: &SandboxPolicy, home: &Path) -> bool {
    let path = normalize(path);
    policy.deny_read.iter().any(|pattern| {
        let text = pattern.0.strip_suffix("/**").unwrap_or(&pattern.0);
        let pattern = match text.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(text),
        };
        let pattern: Vec<String> = pattern.components().map(in_text).collect();
        let path: Vec<String> = path.components().map(in_text).collect();
        let pattern = if pattern.first().is_some_and(|first| first == "/") {
            pattern
        } else {
            // A pattern without a place holds everywhere.
            [vec!["**".to_owned()], pattern].concat()
        };
        matches_below(&path, &pattern)
    })
}

fn in_text(component: Component<'_>) -> String {
    component.as_os_str().to_string_lossy().into_owned()
}

/// Returns whether a path, or a directory above it, matches a pattern name by name.
fn matches_below(path: &[String], pattern: &[String]) -> bool {
    // Which patterns' names may come next, as one step per name of the path: linear, whatever
    // the pattern.
    let mut states = vec![false; pattern.len() + 1];
    if let Some(first) = states.first_mut() {
        *first = true;
    }
    close_over_globstars(&mut states, pattern);
    for name in path {
        let mut next = vec![false; pattern.len() + 1];
        for (place, part) in pattern.iter().enumerate() {
            if !states.get(place).copied().unwrap_or_default() {
                continue;
            }
            let target = if part == "**" { place } else { place + 1 };
            if part == "**" || matches_name(name, part) {
                next.iter_mut().skip(target).take(1).for_each(|state| *state = true);
            }
        }
        close_over_globstars(&mut next, pattern);
        states = next;
        if states.last() == Some(&true) {
            return true;
        }
    }
    false
}

/// A `**` may stand for nothing at all.
fn close_over_globstars(states: &mut [bool], pattern: &[String]) {
    for (place, part) in pattern.iter().enumerate() {
        if part == "**" && place + 1 < pattern.len() && states.get(place) == Some(&true) {
            states.iter_mut().skip(place + 1).take(1).for_each(|state| *state = true);
        }
    }
}

/// Returns whether a name matches a pattern in which `*` stands for anything and `?` for one.
fn matches_name(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut want) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(at) {
        match pattern.get(want) {
            Some('*') => {
                star = Some((want, at));
                want += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => {
                at += 1;
                want += 1;
            }
            Some(_) | None => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    want = place + 1;
                    at = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(want).all(|letter| *letter == '*')
}

/// Resolves `.` and `..` by the text alone; links are the file tools' business.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
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
