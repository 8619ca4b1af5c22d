//! `gimlet demo`: a small bundled project with a failing test, fixed before the user's eyes.
//!
//! The model is a script and says so; everything else is real: the loop, the sandbox, the
//! patch engine, the session file. It reads no configuration of the user's, needs no key and
//! no network, and leaves the tree to look at. Called by `cli/mod.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::agent::History;
use crate::cli::args::DemoArgs;
use crate::cli::commands::exec;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::write_err;
use crate::config::Config;
use crate::config::Directories;
use crate::config::load::LoadInputs;
use crate::config::load::load;
use crate::config::resolve::SessionFlags;

/// The bundled project: file names and contents.
const PROJECT: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../assets/demo/project/README.md")),
    ("leap.sh", include_str!("../../../assets/demo/project/leap.sh")),
    ("test.sh", include_str!("../../../assets/demo/project/test.sh")),
];
/// What the scripted model says.
const SCRIPT: &str = include_str!("../../../assets/demo/script.jsonl");
/// What the user says.
const PROMPT: &str = include_str!("../../../assets/demo/prompt.txt");

/// Runs `gimlet demo`.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let root = match args.keep {
        Some(directory) => create_empty(&directory)?,
        None => tempfile::Builder::new().prefix("gimlet-demo-").tempdir()?.keep(),
    };
    let project = root.join("project");
    write_project(&root, &project)
        .with_context(|| format!("cannot write to {}", root.display()))?;
    let config = Arc::new(load_demo_config(&root, &project)?);
    write_err(
        "The model in this demo is a script. The loop, the sandbox, the patch engine and the",
    )?;
    write_err("session file are the real ones.")?;
    write_err("")?;
    let prompt = PROMPT.trim_end().to_owned();
    let code = exec::drive(&config, History::New, exec::plain_options(prompt))?;
    write_err("")?;
    write_err(&format!("The fixed project: {}", project.display()))?;
    write_err(&format!("The session's log: {}", root.join("home").join("sessions").display()))?;
    Ok(code)
}

fn create_empty(directory: &Path) -> anyhow::Result<PathBuf> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {shown}"))?;
    let directory = directory.canonicalize()?;
    if std::fs::read_dir(&directory)?.next().is_some() {
        anyhow::bail!("{shown} is not empty; the demo only works in a directory of its own");
    }
    Ok(directory)
}

fn write_project(root: &Path, project: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(project)?;
    for (name, content) in PROJECT {
        std::fs::write(project.join(name), content)?;
    }
    std::fs::write(root.join("script.jsonl"), SCRIPT)
}

/// The project alone can be written: the demo's own session file lies in the same temporary
/// directory, and is hidden from commands as any other.
fn build_flags() -> toml::Table {
    let closed = |key: &str| (key.to_owned(), toml::Value::Boolean(true));
    let tmp = ["exclude_tmpdir_env_var", "exclude_slash_tmp"].map(closed);
    let section = toml::Value::Table(tmp.into_iter().collect());
    std::iter::once(("sandbox_workspace_write".to_owned(), section)).collect()
}

/// Resolves a configuration of defaults alone, with a home directory inside the demo's own.
fn load_demo_config(root: &Path, project: &Path) -> anyhow::Result<Config> {
    let home = root.join("home");
    let user_home = std::env::home_dir().unwrap_or_else(|| home.clone());
    let loaded = load(LoadInputs {
        directories: Directories { config: home.clone(), state: home, home: user_home },
        flags: build_flags(),
        session: SessionFlags {
            add_dirs: Vec::new(),
            ephemeral: false,
            script: Some(root.join("script.jsonl")),
        },
        profile: None,
        cwd: Some(project.to_path_buf()),
        process_cwd: project.to_path_buf(),
        env: BTreeMap::new(),
        stored_key: None,
        notes: Vec::new(),
    })?;
    Ok(loaded.resolved.config)
}
