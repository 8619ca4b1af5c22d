//! `gimlet doctor`: does this machine have what Gimlet needs, the sandbox first.
//!
//! Looks and changes nothing but a file of its own that it takes away again. A key is never
//! shown, only where it comes from. Called by `cli/mod.rs`.

use std::env;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::args::{DoctorArgs, SettingsArgs};
use crate::cli::engine::{build_runner, command_env};
use crate::cli::exit_code::ExitCode;
use crate::cli::out::write_out;
use crate::cli::settings::load_settings;
use crate::config::load::{FileUse, Loaded};
use crate::config::{Config, ProviderKey};
use crate::protocol::{SandboxLevel, SandboxMode};
use crate::sandbox::{self, CommandRunner, LevelReport};
use crate::text::ansi::visible_line;

/// What came of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// As it should be.
    Ok,
    /// Works, and could be better.
    Warning,
    /// Does not work.
    Failed,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Finding {
    fn new(check: &'static str, status: Status, detail: impl Into<String>) -> Self {
        Self { check, status, detail: detail.into(), hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Runs `gimlet doctor`.
pub(crate) fn run(args: &DoctorArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let mut findings =
        vec![Finding::new("version", Status::Ok, format!("gimlet {}", env!("CARGO_PKG_VERSION")))];
    match load_settings(settings, true) {
        Ok(loaded) => {
            let config = &loaded.resolved.config;
            findings.extend(check_sandbox(config)?);
            findings.extend(check_config(&loaded));
            findings.push(check_key(config));
            findings.push(check_state(&config.directories.state));
        }
        Err(error) => {
            let finding = Finding::new("config", Status::Failed, error.to_string());
            findings.push(Finding { hint: error.hint(), ..finding });
        }
    }
    findings.extend(["git", "rg"].map(check_program));
    findings.push(check_terminal());
    let failed = findings.iter().any(|finding| finding.status == Status::Failed);
    if args.json {
        let report = serde_json::json!({ "ok": !failed, "checks": findings });
        write_out(&serde_json::to_string(&report)?)?;
    } else {
        for finding in &findings {
            for line in render(finding) {
                write_out(&line)?;
            }
        }
    }
    Ok(if failed { ExitCode::Failed } else { ExitCode::Done })
}

fn render(finding: &Finding) -> Vec<String> {
    let mark = match finding.status {
        Status::Ok => "ok  ",
        Status::Warning => "note",
        Status::Failed => "FAIL",
    };
    let mut lines = vec![format!("{mark}  {:9}{}", finding.check, visible_line(&finding.detail))];
    lines.extend(finding.hint.as_ref().map(|hint| format!("      hint: {}", visible_line(hint))));
    lines
}

fn check_sandbox(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let runner = build_runner(config)?;
    let policy = config.sandbox.policy(config.sandbox.mode, &config.cwd);
    let report = runner.level_under(&policy, &command_env(config));
    let mut findings = vec![judge_level(&report, config.sandbox.mode)];
    if report.level == SandboxLevel::Reduced && config.sandbox.mode != SandboxMode::DangerFullAccess
    {
        let open = sandbox::open_at_reduced_level();
        let detail = format!("what the reduced sandbox does not stop: {}", open.join("; "));
        findings.push(Finding::new("exposed", Status::Warning, detail));
    }
    if let Some(exposed) = report.exposed {
        findings.push(Finding::new("exposed", Status::Warning, exposed));
    }
    if cfg!(unix) && rustix::process::geteuid().is_root() {
        let detail = "commands keep root's user id, without root's powers";
        findings.push(
            Finding::new("user", Status::Warning, detail)
                .with_hint("work as an ordinary user where you can"),
        );
    }
    Ok(findings)
}

fn judge_level(report: &LevelReport, mode: SandboxMode) -> Finding {
    if mode == SandboxMode::DangerFullAccess {
        let detail = "switched off by danger-full-access: commands run unconfined";
        return Finding::new("sandbox", Status::Warning, detail);
    }
    let reason = report.reason.clone().unwrap_or_default();
    match report.level {
        SandboxLevel::Full if reason.is_empty() => {
            Finding::new("sandbox", Status::Ok, "full: namespaces, Landlock and seccomp")
        }
        SandboxLevel::Full => Finding::new("sandbox", Status::Ok, format!("full; {reason}")),
        SandboxLevel::Reduced => {
            Finding::new("sandbox", Status::Warning, format!("reduced: {reason}")).with_hint(
                "allow user namespaces for the full sandbox (kernel.unprivileged_userns_clone, \
                 user.max_user_namespaces, or an AppArmor profile)",
            )
        }
        SandboxLevel::None => Finding::new("sandbox", Status::Failed, format!("none: {reason}"))
            .with_hint(
                "no command runs; danger-full-access runs them unconfined, for machines that are \
                 themselves a sandbox",
            ),
    }
}

fn check_config(loaded: &Loaded) -> Vec<Finding> {
    let used: Vec<String> = loaded
        .files
        .iter()
        .filter(|(_, file_use)| *file_use == FileUse::Read)
        .map(|(path, _)| path.display().to_string())
        .collect();
    let detail =
        if used.is_empty() { "no file; the defaults hold".to_owned() } else { used.join(", ") };
    let notes = loaded.resolved.config.notes.iter().map(|note| Finding {
        hint: note.hint.clone(),
        ..Finding::new("config", Status::Warning, note.message.clone())
    });
    std::iter::once(Finding::new("config", Status::Ok, detail)).chain(notes).collect()
}

fn check_key(config: &Config) -> Finding {
    let name = &config.provider.name;
    match &config.provider.key {
        ProviderKey::NotNeeded => Finding::new("key", Status::Ok, format!("{name} needs none")),
        ProviderKey::Found { source, .. } => {
            Finding::new("key", Status::Ok, format!("for {name}, from {source}"))
        }
        ProviderKey::Missing { looked_at } => {
            let detail = format!("none for {name}; looked at {}", looked_at.join(", "));
            Finding::new("key", Status::Warning, detail)
                .with_hint("`gimlet login` stores one, `gimlet demo` needs none")
        }
    }
}

fn check_state(state: &Path) -> Finding {
    let shown = state.display();
    let written = std::fs::create_dir_all(state)
        .and_then(|()| tempfile::Builder::new().prefix(".doctor-").tempfile_in(state));
    match written {
        Ok(_) => Finding::new("state", Status::Ok, format!("{shown} can be written")),
        Err(error) => Finding::new("state", Status::Failed, format!("{shown}: {error}"))
            .with_hint("sessions are kept there; GIMLET_HOME moves it"),
    }
}

fn check_program(name: &'static str) -> Finding {
    match find_program(name) {
        Some(path) => Finding::new(name, Status::Ok, path.display().to_string()),
        None => Finding::new(name, Status::Warning, "not on PATH; commands do without it"),
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // An entry that is relative means the working directory, which is the repository's.
    env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

fn check_terminal() -> Finding {
    let on = |is_terminal| if is_terminal { "a terminal" } else { "no terminal" };
    let term = env::var("TERM").unwrap_or_else(|_| "not set".to_owned());
    let detail = format!(
        "stdin is {}, stdout is {}, TERM is {term}",
        on(std::io::stdin().is_terminal()),
        on(std::io::stdout().is_terminal())
    );
    Finding::new("terminal", Status::Ok, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(level: SandboxLevel) -> LevelReport {
        LevelReport { level, reason: Some("a reason".to_owned()), exposed: None }
    }

    #[test]
    fn only_a_machine_without_any_sandbox_fails() {
        for (level, mode, expected) in [
            (SandboxLevel::Full, SandboxMode::ReadOnly, Status::Ok),
            (SandboxLevel::Reduced, SandboxMode::WorkspaceWrite, Status::Warning),
            (SandboxLevel::None, SandboxMode::WorkspaceWrite, Status::Failed),
            (SandboxLevel::None, SandboxMode::DangerFullAccess, Status::Warning),
        ] {
            assert_eq!(judge_level(&report(level), mode).status, expected, "{level:?} {mode:?}");
        }
    }

    #[test]
    fn a_finding_shows_no_control_characters() {
        let finding = Finding::new("config", Status::Failed, "bad\u{1b}[2J").with_hint("a\nb");
        assert_eq!(render(&finding), ["FAIL  config   bad␛[2J", "      hint: a␊b"]);
    }
}
