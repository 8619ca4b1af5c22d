//! Puts an engine together: drivers, tools and sandbox, as the configuration says.
//!
//! The only place that knows which parts a session is made of. Called by `commands/exec.rs`
//! and `commands/demo.rs`.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::agent::Engine;
use crate::agent::History;
use crate::agent::SessionSpec;
use crate::config::Config;
use crate::config::SandboxLimits;
use crate::model::catalog;
use crate::model::factory;
use crate::sandbox;
use crate::sandbox::LocalRunner;
use crate::sandbox::ResourceLimits;
use crate::sandbox::RunnerSettings;
use crate::tools;

/// Shells that read command lines, the first that is there.
const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/bin/sh"];

/// Returns an engine for this configuration. Nothing is started, read or sent yet.
pub(crate) fn build_engine(config: &Config) -> anyhow::Result<Engine> {
    Ok(Engine {
        drivers: factory::factory(config.provider.clone()),
        tools: tools::builtin(&catalog::lookup(&config.model), find_shell()),
        runner: Arc::new(build_runner(config)?),
        observers: Vec::new(),
    })
}

/// Returns what starts commands, as the configuration bounds them.
pub(crate) fn build_runner(config: &Config) -> std::io::Result<LocalRunner> {
    let settings = &config.sandbox;
    let limits = build_limits(&settings.limits);
    let settings = RunnerSettings { limits, level_max: settings.level_max };
    Ok(LocalRunner::with(find_helper()?, settings))
}

/// Returns the bounds of this machine, but for those that were configured.
fn build_limits(wished: &SandboxLimits) -> ResourceLimits {
    let default = ResourceLimits::for_memory(sandbox::load_memory_bytes());
    let choose = |wished: Option<u64>, unit: u64, default| match wished {
        Some(0) => None,
        Some(number) => Some(number.saturating_mul(unit)),
        None => default,
    };
    const MIB: u64 = 1 << 20;
    ResourceLimits {
        memory_bytes_max: choose(wished.memory_mib, MIB, default.memory_bytes_max),
        processes_max: choose(wished.processes, 1, default.processes_max),
        open_files_max: choose(wished.open_files, 1, default.open_files_max),
        disk_bytes_max: choose(wished.disk_mib, MIB, default.disk_bytes_max),
        output_bytes_max: choose(wished.output_mib, MIB, default.output_bytes_max),
    }
}

/// Returns the part of our environment that commands get.
pub(crate) fn command_env(config: &Config) -> Vec<(String, String)> {
    let ours = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    sandbox::command_env(ours, &config.shell_environment, &config.key_variables)
}

/// Returns what a session starts from, with the part of our environment that commands get.
pub(crate) fn build_spec(config: Arc<Config>, history: History) -> SessionSpec {
    let env = command_env(&config);
    SessionSpec { config, history, interactive: false, env, shell: find_shell().to_owned() }
}

/// Returns the program that is started as the sandbox's helper: this very one.
///
/// By its path it could be another by now: a confined command may replace it where it lies below
/// a writable root, and the helper runs unconfined.
fn find_helper() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

fn find_shell() -> &'static str {
    SHELLS.into_iter().find(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh")
}
