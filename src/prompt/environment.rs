//! `Environment`: where the model works, in a few lines.
//!
//! Read once at the start of a session; the text never changes within it. No process is
//! started for it: the branch comes from `.git/HEAD`. Called by `agent/session.rs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::prompt::regular_file::read_beginning;
use crate::protocol::{ApprovalPolicy, GitAccess, Network, SandboxMode, SandboxPolicy};
use crate::text::ansi::visible_line;

/// `.git/HEAD` and gitfiles are one short line; more is not looked at.
const GIT_FILE_BYTES_MAX: u64 = 4096;

/// A branch's name is for orientation; a longer one is cut.
const BRANCH_CHARS_MAX: usize = 120;

/// Where the model works.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Environment {
    /// The session's directory.
    pub(crate) cwd: PathBuf,
    /// The shell's name, e.g. `bash`.
    pub(crate) shell: String,
    /// The local date, `2026-11-21`.
    pub(crate) date: String,
    /// The branch, or the commit of a detached head.
    pub(crate) branch: Option<String>,
    /// What commands can reach.
    pub(crate) sandbox: SandboxPolicy,
    /// When the user is asked; `None` when nobody is there to answer.
    pub(crate) approval: Option<ApprovalPolicy>,
}

/// Looks at the directory and the clock; the rest is given.
pub(crate) fn read_environment(
    cwd: &Path,
    shell: &str,
    sandbox: &SandboxPolicy,
    approval: Option<ApprovalPolicy>,
) -> Environment {
    let shell = Path::new(shell).file_name().map_or(shell.into(), |name| name.to_string_lossy());
    Environment {
        cwd: cwd.to_owned(),
        shell: shell.into_owned(),
        date: chrono::Local::now().format("%Y-%m-%d").to_string(),
        branch: read_branch(cwd),
        sandbox: sandbox.clone(),
        approval,
    }
}

impl Environment {
    /// Returns the text for the model.
    pub(crate) fn render(&self) -> String {
        let mut text = String::from("<environment_context>\n");
        let mut line = |name: &str, value: &str| {
            let value = visible_line(value);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        };
        line("cwd", &self.cwd.to_string_lossy());
        line("shell", &self.shell);
        line("os", &format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
        line("date", &self.date);
        if let Some(branch) = &self.branch {
            line("git branch", branch);
        }
        line("sandbox", &render_sandbox(&self.sandbox));
        line("approval", render_approval(self.approval));
        text.push_str("</environment_context>");
        text
    }
}

fn render_sandbox(policy: &SandboxPolicy) -> String {
    let network = match &policy.network {
        Network::Off => "network off".to_owned(),
        Network::On => "network on".to_owned(),
        Network::Hosts(hosts) => {
            let hosts: Vec<&str> = hosts.iter().map(|host| host.0.as_str()).collect();
            format!("network: {} only", hosts.join(", "))
        }
    };
    match policy.mode {
        SandboxMode::ReadOnly => format!("read-only, {network}"),
        SandboxMode::WorkspaceWrite => {
            let roots: Vec<_> = policy.roots.iter().map(|root| root.to_string_lossy()).collect();
            let tmp = if policy.tmp { " and the temporary directory" } else { "" };
            let git = match policy.git {
                GitAccess::Allow => "",
                GitAccess::Ask | GitAccess::Deny => ", .git is protected",
            };
            format!("workspace-write: {}{tmp}{git}, {network}", roots.join(", "))
        }
        SandboxMode::DangerFullAccess => "none: commands can reach everything".to_owned(),
    }
}

fn render_approval(policy: Option<ApprovalPolicy>) -> &'static str {
    match policy {
        None => "nobody is there to ask: a call that needs approval is declined",
        Some(ApprovalPolicy::Never) => "never: a call that needs approval is declined",
        Some(ApprovalPolicy::Untrusted) => "untrusted: the user is asked before most commands",
        Some(ApprovalPolicy::OnRequest) => "on-request: you may ask to leave the sandbox",
        Some(ApprovalPolicy::OnFailure) => "on-failure: the user is asked after a denial",
    }
}

/// Returns the branch of the repository around `cwd`, without running git.
pub(crate) fn read_branch(cwd: &Path) -> Option<String> {
    let dot_git = cwd.ancestors().map(|dir| dir.join(".git")).find(|path| path.exists())?;
    let git_dir = find_git_dir(&dot_git)?;
    let head = read_line(&git_dir.join("HEAD"))?;
    let name = match head.strip_prefix("ref: ") {
        Some(name) => name.strip_prefix("refs/heads/").unwrap_or(name),
        // Only what looks like a commit: the file may be a link's target far away.
        None if head.len() >= 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            head.get(..12)?
        }
        None => return None,
    };
    Some(name.chars().take(BRANCH_CHARS_MAX).collect())
}

/// Returns the directory that `.git` is or names. An unpacked archive may name any directory,
/// so one elsewhere must be known to belong here: a worktree's names this very file, a
/// submodule's lies among the modules of a repository around it.
fn find_git_dir(dot_git: &Path) -> Option<PathBuf> {
    let home = dot_git.parent()?.canonicalize().ok()?;
    let dot_git = home.join(".git");
    let named = if dot_git.is_dir() { dot_git.clone() } else { read_gitfile(&dot_git)? };
    let real = named.canonicalize().ok()?;
    let is_inside = real.starts_with(&home);
    let names_it = || {
        let back = read_line(&real.join("gitdir")).map(|line| real.join(line));
        back.and_then(|back| back.canonicalize().ok()).is_some_and(|back| back == dot_git)
    };
    let is_module = || home.ancestors().any(|dir| real.starts_with(dir.join(".git/modules")));
    (is_inside || names_it() || is_module()).then_some(real)
}

/// Returns where a `.git` file points.
fn read_gitfile(path: &Path) -> Option<PathBuf> {
    let line = read_line(path)?;
    let target = line.strip_prefix("gitdir: ")?;
    Some(path.parent()?.join(target))
}

fn read_line(path: &Path) -> Option<String> {
    let beginning = read_beginning(path, GIT_FILE_BYTES_MAX).ok()?;
    let text = String::from_utf8(beginning.bytes).ok()?;
    text.lines().next().map(|line| line.trim_end().to_owned())
}
