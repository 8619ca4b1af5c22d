//! `gimlet exec`: one prompt, worked on to its end.
//!
//! Everything that can be wrong with the call is found before a session starts. Puts
//! configuration, engine and front end together and turns the outcome into an exit code.
//! Called by `cli/mod.rs`; the demo shares `drive`.

use std::path::Path;
use std::sync::Arc;

use crate::agent;
use crate::agent::History;
use crate::cli::args::ColorArg;
use crate::cli::args::ExecRequest;
use crate::cli::args::OutputArgs;
use crate::cli::args::ResumeTarget;
use crate::cli::engine::build_engine;
use crate::cli::engine::build_spec;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::write_err;
use crate::cli::out::write_out;
use crate::cli::settings::load_settings;
use crate::config::Config;
use crate::frontend::exec;
use crate::frontend::exec::Color;
use crate::frontend::exec::ExecOptions;
use crate::frontend::exec::ExecOutput;
use crate::protocol::SessionId;
use crate::protocol::UserInput;

/// What is told to who stops a run.
const GO_ON: &str = "gimlet exec resume --last \"go on\"";
/// Threads for blocking file work; more would only cost memory.
const BLOCKING_THREADS_MAX: usize = 4;

/// Which session to go on with cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResumeError {
    /// The id is none.
    #[error("`{0}` is not a session id")]
    BadId(String),
    /// There is nothing to go on with.
    #[error("there is no earlier session{}", if *any_directory { "" } else { " in this directory" })]
    None {
        /// Whether all directories were looked at.
        any_directory: bool,
    },
}

impl ResumeError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::BadId(_) => {
                "an id looks like 0198c0de-1234-7abc-8def-0123456789ab; --last takes the latest"
            }
            Self::None { any_directory: false } => "--last --all looks in all directories",
            Self::None { any_directory: true } => "start one with gimlet exec \"what to do\"",
        }
    }
}

/// Runs `gimlet exec`.
pub(crate) fn run(request: ExecRequest) -> anyhow::Result<ExitCode> {
    let format = output_of(&request.output);
    let result = start(request);
    if let (Err(error), ExecOutput::ThreadEvents) = (&result, format) {
        // Who reads these lines need not look at the exit code as well.
        write_out(exec::render_start_failure(&format!("{error:#}")).trim_end())?;
    }
    result
}

fn start(request: ExecRequest) -> anyhow::Result<ExitCode> {
    let ExecRequest { prompt, resume, output, images, settings } = request;
    let config = load_settings(&settings, output.ephemeral)?.resolved.config;
    let history = find_history(resume, &config)?;
    let schema = output.schema_file.as_deref().map(exec::load_schema).transpose()?;
    let images = exec::load_images(&images)?;
    let prompt = exec::read_prompt(prompt.as_deref(), || {
        // A closed stderr keeps nobody from waiting.
        let _ = write_err("note: waiting for stdin");
    })?;
    if let Some(note) = prompt.note {
        write_err(&format!("note: {note}"))?;
    }
    let mut input = vec![UserInput::Text { text: prompt.text }];
    input.extend(images);
    output.last_message_file.as_deref().map(exec::check_message_file).transpose()?;
    let options = ExecOptions {
        input,
        output: output_of(&output),
        color: color_of(output.color),
        schema,
        last_message_file: output.last_message_file,
        go_on: (!config.ephemeral).then_some(GO_ON),
    };
    drive(&Arc::new(config), history, options)
}

/// Runs one session to its end.
pub(crate) fn drive(
    config: &Arc<Config>,
    history: History,
    options: ExecOptions,
) -> anyhow::Result<ExitCode> {
    let engine = build_engine(config)?;
    let spec = build_spec(Arc::clone(config), history);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let outcome = runtime.block_on(async {
        let handle = engine.start(spec)?;
        anyhow::Ok(exec::run(handle, options).await?)
    })?;
    // What still blocks by now (a read of a dead network mount) must not hold up the exit.
    runtime.shutdown_background();
    Ok(ExitCode::from_outcome(&outcome.outcome))
}

/// Returns the options of a plain run that a person watches.
pub(crate) fn plain_options(prompt: String) -> ExecOptions {
    ExecOptions {
        input: vec![UserInput::Text { text: prompt }],
        output: ExecOutput::Human,
        color: Color::Auto,
        schema: None,
        last_message_file: None,
        go_on: None,
    }
}

/// Returns what a run goes on with.
pub(crate) fn find_history(
    resume: Option<ResumeTarget>,
    config: &Config,
) -> Result<History, ResumeError> {
    let state: &Path = &config.directories.state;
    match resume {
        None => Ok(History::New),
        Some(ResumeTarget::Id(text)) => match SessionId::parse(&text) {
            Some(id) => Ok(History::Resume(id)),
            None => Err(ResumeError::BadId(text)),
        },
        Some(ResumeTarget::Last { any_directory }) => {
            let cwd = (!any_directory).then_some(config.cwd.as_path());
            let last = agent::last_session(state, cwd);
            last.map(History::Resume).ok_or(ResumeError::None { any_directory })
        }
    }
}

fn output_of(output: &OutputArgs) -> ExecOutput {
    match (output.json, output.events) {
        (_, true) => ExecOutput::Events,
        (true, false) => ExecOutput::ThreadEvents,
        (false, false) => ExecOutput::Human,
    }
}

fn color_of(color: ColorArg) -> Color {
    match color {
        ColorArg::Auto => Color::Auto,
        ColorArg::Always => Color::Always,
        ColorArg::Never => Color::Never,
    }
}
