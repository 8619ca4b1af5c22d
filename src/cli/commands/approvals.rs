//! `gimlet approvals`: what you allowed for a project or always, and how to take it back.
//!
//! Session approvals end with their session and are not listed. Knows the file only through
//! `store/approvals.rs`.

use serde_json::{Value, json};

use crate::cli::args::{ApprovalsArgs, ApprovalsCommand};
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{report_error, write_out};
use crate::cli::settings::load_directories;
use crate::policy::grants::describe_key;
use crate::protocol::{AnswerScope, Grant, GrantKey, Network, Reach, SandboxLevel, SandboxMode};
use crate::store::approvals::{ApprovalsError, Cleared, clear, load, revoke};
use crate::text::ansi::visible_line;

/// What a subcommand has to say: lines for people, a value for programs, and how it went.
struct Said {
    lines: Vec<String>,
    value: Value,
    code: ExitCode,
}

/// Runs `gimlet approvals`.
pub(crate) fn run(args: &ApprovalsArgs) -> anyhow::Result<ExitCode> {
    let state = load_directories()?.state;
    let said = match args.command.as_ref().unwrap_or(&ApprovalsCommand::List) {
        ApprovalsCommand::List => load(&state).map(|grants| list(&grants)),
        ApprovalsCommand::Revoke { id } => revoke(&state, id).map(|gone| say_revoked(id, &gone)),
        ApprovalsCommand::Clear => clear(&state).map(|cleared| say_cleared(&cleared)),
    };
    let said = match said {
        Ok(said) => said,
        Err(error) => return Ok(fail(&error)),
    };
    if said.code != ExitCode::Done {
        report_error(&said.lines.join("; "), Some("`gimlet approvals list` shows the ids"));
    } else if !args.json {
        said.lines.iter().try_for_each(|line| write_out(line))?;
    }
    if args.json {
        write_out(&said.value.to_string())?;
    }
    Ok(said.code)
}

fn fail(error: &ApprovalsError) -> ExitCode {
    report_error(&error.to_string(), error.hint().as_deref());
    ExitCode::Failed
}

fn list(grants: &[Grant]) -> Said {
    let mut lines: Vec<String> = grants.iter().flat_map(render_grant).collect();
    if lines.is_empty() {
        lines.push("You allowed nothing for good.".to_owned());
    }
    let approvals: Vec<Value> = grants.iter().map(encode_grant).collect();
    Said { lines, value: json!({"approvals": approvals}), code: ExitCode::Done }
}

fn say_revoked(id: &str, revoked: &[Grant]) -> Said {
    let ids: Vec<&str> = revoked.iter().map(|grant| grant.id.as_str()).collect();
    let value = json!({"revoked": ids});
    match revoked.first() {
        Some(grant) => {
            let what = visible_line(&describe_key(&grant.key)).into_owned();
            let lines = vec![format!("Will be asked again: {what}")];
            Said { lines, value, code: ExitCode::Done }
        }
        None => {
            let lines = vec![format!("there is no approval {id}")];
            Said { lines, value, code: ExitCode::Failed }
        }
    }
}

fn say_cleared(cleared: &Cleared) -> Said {
    let (line, value) = match cleared {
        Cleared::Grants(0) => ("There was nothing to take back.".to_owned(), json!({"cleared": 0})),
        Cleared::Grants(1) => ("Took back 1 approval.".to_owned(), json!({"cleared": 1})),
        Cleared::Grants(count) => {
            (format!("Took back {count} approvals."), json!({"cleared": count}))
        }
        Cleared::SetAside(path) => {
            let shown = path.display().to_string();
            let line =
                format!("The file could not be used and lies in {} now.", visible_line(&shown));
            (line, json!({"cleared": 0, "set_aside": shown}))
        }
    };
    Said { lines: vec![line], value, code: ExitCode::Done }
}

/// Returns a grant as programs read it: with what it covers in words.
fn encode_grant(grant: &Grant) -> Value {
    let mut value = json!(grant);
    if let Some(members) = value.as_object_mut() {
        members.insert("shown".to_owned(), json!(describe_key(&grant.key)));
    }
    value
}

fn render_grant(grant: &Grant) -> Vec<String> {
    let place = match (grant.scope, &grant.project) {
        (AnswerScope::Project, Some(project)) => format!("in the project {}", project.display()),
        _ => "always".to_owned(),
    };
    let day = grant.at.split('T').next().unwrap_or_default();
    let mut lines = vec![
        format!("{}  {place}, since {day}", grant.id),
        format!("    {}", describe_key(&grant.key)),
    ];
    if let GrantKey::Command { cwd, reach, .. } = &grant.key {
        lines.push(format!("    in {}; {}", cwd.display(), describe_reach(reach)));
    }
    lines.iter().map(|line| visible_line(line).into_owned()).collect()
}

fn describe_reach(reach: &Reach) -> String {
    if reach.outside {
        return "outside the sandbox".to_owned();
    }
    let mode = match reach.mode {
        SandboxMode::ReadOnly => "read-only",
        SandboxMode::WorkspaceWrite => "workspace-write",
        SandboxMode::DangerFullAccess => "danger-full-access",
    };
    let level = match reach.level {
        SandboxLevel::Full => "",
        SandboxLevel::Reduced => " (reduced)",
        SandboxLevel::None => " (none)",
    };
    let network = match &reach.network {
        Network::Off => "network off".to_owned(),
        Network::On => "network on".to_owned(),
        Network::Hosts(hosts) => {
            let names: Vec<&str> = hosts.iter().map(|host| host.0.as_str()).collect();
            format!("network to {}", names.join(", "))
        }
    };
    let roots: Vec<String> = reach.roots.iter().map(|root| root.display().to_string()).collect();
    match roots.is_empty() {
        true => format!("sandbox {mode}{level}, {network}"),
        false => format!("sandbox {mode}{level}, {network}, writes in {}", roots.join(", ")),
    }
}
