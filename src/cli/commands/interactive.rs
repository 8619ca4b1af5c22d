//! `gimlet`: the screen, for a person at a terminal.
//!
//! Puts configuration, engine and screen together, and says so where there is no terminal to
//! show it on. Called by `cli/mod.rs`.

use std::io::IsTerminal;
use std::sync::Arc;

use clap::CommandFactory;

use crate::agent::Engine;
use crate::agent::History;
use crate::agent::SessionSpec;
use crate::agent::StartError;
use crate::cli::args::Cli;
use crate::cli::args::ResumeScreenArgs;
use crate::cli::args::ResumeTarget;
use crate::cli::args::SettingsArgs;
use crate::cli::commands::exec::find_history;
use crate::cli::engine::build_engine;
use crate::cli::engine::build_spec;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::write_err;
use crate::cli::settings::load_settings;
use crate::config::Config;
use crate::config::ProviderKey;
use crate::frontend::exec;
use crate::frontend::tui;
use crate::frontend::tui::theme::Depth;
use crate::frontend::tui::theme::Theme;
use crate::model::catalog;
use crate::prompt::read_branch;
use crate::protocol::Event;
use crate::store::session_file;
use crate::text::closest::closest;

/// Threads for blocking file work; more would only cost memory.
const BLOCKING_THREADS_MAX: usize = 4;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScreenError {
    /// Input or output is no terminal.
    #[error("the screen needs a terminal, and {0} is none")]
    NoTerminal(&'static str),
    /// The terminal cannot move its cursor.
    #[error("the screen needs a terminal that can move its cursor; TERM is `{0}`")]
    Dumb(String),
    /// A prompt that looks like a subcommand with a slip in it: it is not sent to a model.
    #[error("there is no command `{word}`")]
    Mistyped {
        /// What was typed.
        word: String,
        /// What was probably meant.
        name: String,
    },
}

impl ScreenError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NoTerminal(_) | Self::Dumb(_) => {
                "gimlet exec \"what to do\" works without a screen".to_owned()
            }
            Self::Mistyped { word, name } => format!(
                "did you mean `gimlet {name}`? As a prompt, `{word}` can be typed on the screen"
            ),
        }
    }
}

/// Runs the screen.
pub(crate) fn run(prompt: Option<String>, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    check_word(prompt.as_deref())?;
    check_terminal()?;
    let config = Arc::new(load_settings(settings, false)?.resolved.config);
    drive(&config, History::New, prompt)
}

/// Runs the screen on an earlier session.
pub(crate) fn run_resume(
    args: ResumeScreenArgs,
    settings: SettingsArgs,
) -> anyhow::Result<ExitCode> {
    check_terminal()?;
    let target = match args.session {
        Some(id) => ResumeTarget::Id(id),
        None => ResumeTarget::Last { any_directory: args.all },
    };
    let settings = args.settings.over(settings);
    let config = Arc::new(load_settings(&settings, false)?.resolved.config);
    let history = find_history(Some(target), &config)?;
    drive(&config, history, args.prompt)
}

/// Runs one screen to its end.
fn drive(
    config: &Arc<Config>,
    history: History,
    prompt: Option<String>,
) -> anyhow::Result<ExitCode> {
    // Read before the session is opened, which adds to it.
    let past = match history {
        History::New => Vec::new(),
        History::Resume(id) => session_file::read(&config.directories.state, id)?.events,
    };
    let engine = build_engine(config)?;
    let spec = SessionSpec { interactive: true, ..build_spec(Arc::clone(config), history) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let outcome = runtime.block_on(async {
        let handle = engine.start(spec.clone())?;
        anyhow::Ok(tui::run(handle, options(config, engine, spec, Opening { past, prompt })).await?)
    })?;
    // What still blocks by now (a read of a dead network mount) must not hold up the exit.
    runtime.shutdown_background();
    if outcome.has_turns && !config.ephemeral {
        write_err(&format!("gimlet resume {} goes on", outcome.session))?;
    }
    Ok(outcome.stopped_by.map_or(ExitCode::Done, ExitCode::from_stop))
}

/// Says what is missing for a screen.
/// Refuses a single word that is nearly a subcommand.
fn check_word(prompt: Option<&str>) -> Result<(), ScreenError> {
    let is_word = |text: &&str| {
        text.len() > 3 && text.bytes().all(|it| it.is_ascii_lowercase() || it == b'-')
    };
    let Some(word) = prompt.filter(is_word) else { return Ok(()) };
    let cli = Cli::command();
    match closest(word, cli.get_subcommands().map(clap::Command::get_name)) {
        Some(name) => Err(ScreenError::Mistyped { word: word.to_owned(), name: name.to_owned() }),
        None => Ok(()),
    }
}

fn check_terminal() -> Result<(), ScreenError> {
    if !std::io::stdin().is_terminal() {
        return Err(ScreenError::NoTerminal("stdin"));
    }
    if !std::io::stdout().is_terminal() {
        return Err(ScreenError::NoTerminal("stdout"));
    }
    match std::env::var("TERM") {
        Ok(term) if term == "dumb" => Err(ScreenError::Dumb(term)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What the screen begins with.
struct Opening {
    past: Vec<Event>,
    prompt: Option<String>,
}

fn options(
    config: &Arc<Config>,
    engine: Engine,
    spec: SessionSpec,
    opening: Opening,
) -> tui::ScreenOptions {
    let Opening { past, prompt } = opening;
    let facts = tui::Facts {
        cwd: config.cwd.clone(),
        home: config.directories.home.clone(),
        branch: read_branch(&config.cwd),
        models: catalog::NAMES.iter().map(|name| (*name).to_owned()).collect(),
        welcome: welcome(config),
    };
    let session = tui::SessionState {
        model: config.model.clone(),
        effort: config
            .reasoning_effort
            .clone()
            .or_else(|| catalog::lookup(&config.model).reasoning.map(str::to_owned)),
        approval: config.approval,
        sandbox: config.sandbox.mode,
        context_window: config.context_window.or(catalog::lookup(&config.model).context_window),
        ..tui::SessionState::default()
    };
    let start: tui::Starter = Box::new(move || {
        let spec = SessionSpec { history: History::New, ..spec.clone() };
        engine.start(spec).map_err(|error: StartError| (error.to_string(), error.hint()))
    });
    let load_images: tui::ImageLoader = Box::new(|paths| {
        exec::load_images(paths).map_err(|error| (error.to_string(), Some(error.hint().to_owned())))
    });
    let history_file = config.directories.state.join("history.jsonl");
    tui::ScreenOptions {
        facts,
        session,
        theme: theme(),
        reflows: reflows(),
        past,
        prompt,
        start,
        history_file: (!config.ephemeral).then_some(history_file),
        keymap: config.keys.clone(),
        editor: editor(),
        load_images,
    }
}

/// Returns what to tell somebody who has no key yet.
fn welcome(config: &Config) -> Option<String> {
    match &config.provider.key {
        ProviderKey::Missing { .. } if config.provider.script.is_none() => Some(
            "no key is set up yet: gimlet login stores one, OPENAI_API_KEY is read too, and \
             gimlet demo shows the program without one"
                .to_owned(),
        ),
        ProviderKey::Missing { .. } | ProviderKey::NotNeeded | ProviderKey::Found { .. } => None,
    }
}

/// Returns how many colours the terminal shows, as its environment says.
fn theme() -> Theme {
    let read = |name: &str| std::env::var(name).unwrap_or_default();
    let depth = match (read("NO_COLOR").as_str(), read("COLORTERM").as_str(), read("TERM")) {
        (no_color, _, _) if !no_color.is_empty() => Depth::Mono,
        (_, "truecolor" | "24bit", _) => Depth::True,
        (_, _, term) if term.contains("256color") => Depth::Ansi256,
        (_, _, term) if term.starts_with("vt1") => Depth::Mono,
        _ => Depth::Ansi16,
    };
    Theme { depth, ..Theme::default() }
}

/// Returns the user's editor, as git finds it.
fn editor() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}

/// Returns whether the terminal lays lines out anew when it gets narrower. Most do.
fn reflows() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_console = std::env::var("TERM").is_ok_and(|term| term == "linux");
    // In order: xterm itself, GNU screen, the console.
    !(is_set("XTERM_VERSION") || is_set("STY") || is_console)
}
