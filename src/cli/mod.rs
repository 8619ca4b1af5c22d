//! The door: arguments in, a front end started, an exit code out.
//!
//! The only place that sees every layer, and the only one that puts them together. Each
//! subcommand is a file in `commands/`. Called by `main.rs` alone.

mod args;
mod commands;
mod engine;
mod exit_code;
mod log;
mod out;
mod settings;

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode as ProcessExitCode;

use clap::Parser;

use crate::agent::StartError;
use crate::cli::args::Cli;
use crate::cli::args::Command;
use crate::cli::commands::exec::ResumeError;
use crate::cli::commands::interactive::ScreenError;
use crate::cli::exit_code::ExitCode;
use crate::config::ConfigError;
use crate::frontend::exec::InputError;
use crate::frontend::exec::SchemaError;
use crate::sandbox;
use crate::store::session_file::SessionFileError;
use crate::text::ansi::visible;

/// Runs the program.
pub fn main() -> ProcessExitCode {
    if let Some(code) = commands::apply_patch::run_if_named(std::env::args_os()) {
        return code.into();
    }
    // The binary is also its own sandbox helper, which must start before all else.
    if let Some(code) = sandbox::run_if_asked() {
        return code;
    }
    if wants_version(std::env::args_os().skip(1)) {
        // When nobody reads any more, there is nobody to tell.
        let _ = out::write_out(concat!("gimlet ", env!("CARGO_PKG_VERSION")));
        return ExitCode::Done.into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error),
    };
    log::start();
    let Cli { settings, command, prompt } = cli;
    if let Some(Command::Sandbox(args)) = command {
        // Its code is the command's own.
        return commands::sandbox::run(&args, settings).unwrap_or_else(|error| {
            report(&error);
            commands::sandbox::CANNOT_CONFINE.into()
        });
    }
    run(Cli { settings, command, prompt }).unwrap_or_else(|error| report(&error)).into()
}

/// Returns whether nothing but the version is wanted: scripts ask often, and it is there before
/// a command line of all our subcommands could be built.
fn wants_version(mut args: impl Iterator<Item = OsString>) -> bool {
    let is_asked = args.next().is_some_and(|first| first == "--version" || first == "-V");
    is_asked && args.next().is_none()
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli { settings, command, prompt } = cli;
    match command {
        Some(Command::Exec(args)) => commands::exec::run(args.into_request(settings)),
        Some(Command::Resume(args)) => commands::interactive::run_resume(*args, settings),
        Some(Command::ApplyPatch(args)) => Ok(commands::apply_patch::run(args, settings)),
        Some(Command::Demo(args)) => commands::demo::run(args),
        Some(Command::Login(args)) => commands::login::run(&args, &settings),
        Some(Command::Logout) => commands::login::run_logout(),
        Some(Command::Approvals(args)) => commands::approvals::run(&args),
        Some(Command::Trust(args)) => commands::trust::run(&args, &settings),
        Some(Command::Undo(args)) => commands::undo::run(&args, &settings),
        Some(Command::Redo(args)) => commands::undo::run_redo(&args, &settings),
        Some(Command::Changes(args)) => commands::changes::run(&args, &settings),
        Some(Command::Audit(args)) => commands::audit::run(&args),
        Some(Command::Config(args)) => commands::config::run(&args, &settings),
        Some(Command::Execpolicy(args)) => commands::execpolicy::run(&args, &settings),
        Some(Command::Doctor(args)) => commands::doctor::run(&args, &settings),
        // `main` has run it.
        Some(Command::Sandbox(_)) => Ok(ExitCode::Failed),
        None => commands::interactive::run(prompt, &settings),
    }
}

/// Prints what clap says: help and version to stdout, mistakes to stderr.
fn report_usage(error: &clap::Error) -> ProcessExitCode {
    let is_mistake = error.use_stderr();
    let plain = error.render().to_string();
    // Printing fails when nobody reads any more, and then there is nobody to tell.
    let _ = match visible(&plain) {
        // Its colours are clap's own.
        Cow::Borrowed(_) => error.print(),
        Cow::Owned(shown) if is_mistake => out::write_err(shown.trim_end()),
        Cow::Owned(shown) => out::write_out(shown.trim_end()),
    };
    let code = if is_mistake { ExitCode::Usage } else { ExitCode::Done };
    code.into()
}

/// Says what went wrong in one line and a hint, and returns the code for it.
fn report(error: &anyhow::Error) -> ExitCode {
    let (code, hint) = if let Some(error) = error.downcast_ref::<ConfigError>() {
        (ExitCode::Usage, error.hint())
    } else if let Some(error) = error.downcast_ref::<InputError>() {
        (ExitCode::Usage, Some(error.hint().to_owned()))
    } else if let Some(error) = error.downcast_ref::<SchemaError>() {
        (ExitCode::Usage, Some(error.hint().to_owned()))
    } else if let Some(error) = error.downcast_ref::<ResumeError>() {
        (ExitCode::Usage, Some(error.hint().to_owned()))
    } else if let Some(error) = error.downcast_ref::<StartError>() {
        (code_of_start(error), error.hint())
    } else if let Some(error) = error.downcast_ref::<ScreenError>() {
        (ExitCode::Usage, Some(error.hint()))
    } else {
        (ExitCode::Failed, None)
    };
    out::report_error(&format!("{error:#}"), hint.as_deref());
    code
}

fn code_of_start(error: &StartError) -> ExitCode {
    match error {
        StartError::Driver(error) => ExitCode::from_error(error.kind),
        StartError::File(SessionFileError::NotFound(_)) => ExitCode::Usage,
        StartError::File(_) => ExitCode::Failed,
    }
}
