//! `gimlet sandbox`: one command, confined as the agent's commands are.
//!
//! Its streams are ours, passed on, and its end is ours. Decides nothing: policy, plan and
//! limits come from the same configuration as a session's. Called by `cli/mod.rs`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::args::{SandboxArgs, SettingsArgs};
use crate::cli::commands::config::report_notes;
use crate::cli::engine::{build_runner, command_env};
use crate::cli::out::{report_error, write_err, write_out};
use crate::cli::settings::load_settings;
use crate::config::Config;
use crate::policy::{Listing, decide_connection};
use crate::protocol::{ApprovalPolicy, SandboxLevel, SandboxMode};
use crate::sandbox::{
    Attempt, AttemptsHeard, CommandRunner, ExecRequest, ExitState, HostJudge, LocalRunner,
    ProcessControl, SandboxError, Verdict, Wanted, attempt_line,
};
use crate::text::ansi::visible_line;

/// What we end with when the sandbox cannot be set up; `env` and `timeout` do so, too.
pub(crate) const CANNOT_CONFINE: u8 = 125;
/// There is such a command, and it cannot be executed.
const CANNOT_EXECUTE: u8 = 126;
/// There is no such command.
const NOT_FOUND: u8 = 127;
/// It was killed.
const KILLED: u8 = 137;

/// How long a command may take to end after it was asked to.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// Runs `gimlet sandbox`.
pub(crate) fn run(args: &SandboxArgs, settings: SettingsArgs) -> anyhow::Result<ExitCode> {
    let config = load_settings(&args.settings(settings), true)?.resolved.config;
    let policy = config.sandbox.policy(config.sandbox.mode, &config.cwd);
    let runner = build_runner(&config)?;
    let env = command_env(&config);
    let report = runner.level_under(&policy, &env);
    let is_confined = policy.mode != SandboxMode::DangerFullAccess;
    let (attempts, told) = attempt_line(judge_hosts(&config));
    let request = ExecRequest {
        argv: args.command.clone(),
        cwd: config.cwd.clone(),
        env,
        sandbox: Some(policy),
        attempts: Some(attempts),
    };
    report_notes(&config.notes)?;
    if args.explain {
        for line in runner.explain(&request)? {
            write_out(&line)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if is_confined && report.level == SandboxLevel::Reduced {
        let reason = report.reason.unwrap_or_default();
        write_err(&format!("note: reduced sandbox: {}", visible_line(&reason)))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            ended = run_passing(&runner, &request) => ended,
            ended = report_refused(told) => ended,
        }
    });
    let code = match ended {
        Ok(state) => code_of(state),
        Err(error) => {
            report_error(&error.to_string(), None);
            code_of_error(&error)
        }
    };
    Ok(code.into())
}

/// Runs the command to its end, and ends what it left running.
async fn run_passing(
    runner: &LocalRunner,
    request: &ExecRequest,
) -> Result<ExitState, SandboxError> {
    // Before the command is there: none of them may pass by it.
    let one = |kind| signal(kind).ok();
    let mut interrupts = one(SignalKind::interrupt());
    let mut others = [one(SignalKind::terminate()), one(SignalKind::hangup())];
    let mut control = runner.spawn_passing(request)?;
    let [terminate, hang_up] = &mut others;
    let mut interrupted = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = control.wait() => break ended,
            () = arrives(&mut interrupts) => {
                if interrupted {
                    break end(control.as_mut()).await;
                }
                interrupted = true;
                control.interrupt();
            }
            () = arrives(terminate) => break end(control.as_mut()).await,
            () = arrives(hang_up) => break end(control.as_mut()).await,
        }
    };
    control.kill().await;
    ended
}

/// Returns who says what hosts the command may reach: the user's list and rules.
fn judge_hosts(config: &Config) -> HostJudge {
    let rules = Arc::clone(&config.rules);
    Arc::new(move |Wanted { host, is_listed }| {
        let listing = if is_listed { Listing::Listed } else { Listing::Stranger };
        // Nobody is here to be asked.
        decide_connection(host, listing, ApprovalPolicy::Never, &rules)
    })
}

/// Says which hosts were refused; ends never, as the request keeps the line.
async fn report_refused<T>(mut told: AttemptsHeard) -> T {
    while let Some(Attempt { host: _, verdict }) = told.attempts.recv().await {
        let Verdict::Refused { reason } = verdict else { continue };
        // Nobody reads: the command goes on all the same.
        let _ = write_err(&format!("note: refused: {}", visible_line(&reason)));
    }
    std::future::pending().await
}

/// Asks all to end; who does not is killed afterwards.
async fn end(control: &mut dyn ProcessControl) -> Result<ExitState, SandboxError> {
    const SIGTERM: i32 = 15;
    control.terminate();
    tokio::time::timeout(TERMINATE_GRACE, control.wait())
        .await
        .unwrap_or(Ok(ExitState { code: None, signal: Some(SIGTERM) }))
}

async fn arrives(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        // Without a handler the system's own way stands.
        None => std::future::pending().await,
    }
}

fn code_of(state: ExitState) -> u8 {
    let code = state.code.or(state.signal.map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn code_of_error(error: &SandboxError) -> u8 {
    match error {
        SandboxError::NotFound { .. } => NOT_FOUND,
        SandboxError::Spawn(_) => CANNOT_EXECUTE,
        SandboxError::LimitReached(_) => KILLED,
        SandboxError::BadDirectory { .. }
        | SandboxError::Unavailable(_)
        | SandboxError::SupervisorKilled => CANNOT_CONFINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_code_as_shells_have_it() {
        assert_eq!(code_of(ExitState { code: Some(3), signal: None }), 3);
        assert_eq!(code_of(ExitState { code: None, signal: Some(9) }), 137);
        assert_eq!(code_of(ExitState { code: None, signal: None }), 255);
        assert_eq!(code_of_error(&SandboxError::NotFound { program: "x".to_owned() }), 127);
    }
}
