//! Reads what a configuration is made of: files, directories and variables that are handed in.
//!
//! Does nothing slow: no process, no network, a handful of small files. What the text means
//! is decided in `resolve.rs`; which project acts, in `trust.rs`. Called by `cli`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::file::{ConfigToml, TrustLevelToml, parse_config, parse_table};
use crate::config::layers::{
    Layer, Source, build_environment_table, merge_layers, resolve_path, resolve_table_paths,
    restrict_project,
};
use crate::config::resolve::{Facts, Resolved, SessionFlags, build_defaults, resolve};
use crate::config::trust::{
    ProjectContent, RULES_FILE, Trust, find_unread, load_project, load_text, load_trust_list,
};
use crate::config::{ConfigError, ConfigNote, Directories};
use crate::policy::{Origin, RuleFile, Rules};

/// All that `load` starts from.
#[derive(Debug, Clone)]
pub struct LoadInputs {
    /// Where things live; see `find_directories`.
    pub directories: Directories,
    /// What flags and `-c` say, in the words of a file.
    pub flags: Table,
    /// What flags say that is no setting. Its paths are made absolute here.
    pub session: SessionFlags,
    /// The profile's name.
    pub profile: Option<String>,
    /// Where to work; relative paths start from `process_cwd`.
    pub cwd: Option<PathBuf>,
    /// Where the process was started.
    pub process_cwd: PathBuf,
    /// Our variables.
    pub env: BTreeMap<String, String>,
    /// The key in `auth.json`.
    pub stored_key: Option<String>,
    /// What was odd so far.
    pub notes: Vec<ConfigNote>,
}

/// A configuration, and the files that were looked at.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration, and who set what.
    pub resolved: Resolved,
    /// The project's root; the session's directory where no marker was found.
    pub project_root: PathBuf,
    /// Files that were looked at, strongest first, and what came of each.
    pub files: Vec<(PathBuf, FileUse)>,
}

/// What came of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// It was read.
    Read,
    /// There is none.
    Absent,
    /// It was left out, for want of trust.
    Untrusted,
}

/// Finds where things live. `GIMLET_HOME` moves everything below itself.
pub fn find_directories(env: &BTreeMap<String, String>) -> Result<Directories, ConfigError> {
    let home = env
        .get("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
        .or_else(|| directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_path_buf()));
    if let Some(own) = env.get("GIMLET_HOME").filter(|own| !own.is_empty()) {
        let own = PathBuf::from(own);
        if !own.is_absolute() {
            return Err(ConfigError::Value {
                key: "GIMLET_HOME".to_owned(),
                message: format!("is not an absolute path: {}", own.display()),
                hint: Some("begin it with /".to_owned()),
            });
        }
        let home = home.unwrap_or_else(|| own.clone());
        return Ok(Directories { config: own.clone(), state: own, home });
    }
    let dirs = directories::ProjectDirs::from("", "", "gimlet");
    match (home, dirs) {
        (Some(home), Some(dirs)) => Ok(Directories {
            config: dirs.config_dir().to_path_buf(),
            state: dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir()).to_path_buf(),
            home,
        }),
        (_, _) => Err(ConfigError::Home { message: "HOME is not set".to_owned() }),
    }
}

/// Reads all layers and resolves them.
pub fn load(inputs: LoadInputs) -> Result<Loaded, ConfigError> {
    let cwd = find_cwd(&inputs)?;
    let home = inputs.directories.home.clone();
    let mut notes = inputs.notes.clone();
    let mut files = Vec::new();

    let mut layers = load_flag_layers(&inputs, &cwd, &mut notes)?;
    let stronger_count = layers.len();
    if let Some(name) = &inputs.profile {
        let path = inputs.directories.config.join(format!("{name}.config.toml"));
        let Some(layer) = load_file_layer(&path, Source::Profile(path.clone()), &home, &mut notes)?
        else {
            return Err(missing_profile(name, path, &inputs.directories.config));
        };
        files.push((path, FileUse::Read));
        layers.push(layer);
    }
    let path = inputs.directories.config.join("config.toml");
    let layer = load_file_layer(&path, Source::User(path.clone()), &home, &mut notes)?;
    files.push((path, if layer.is_some() { FileUse::Read } else { FileUse::Absent }));
    layers.extend(layer);

    let own = read_own_settings(&layers)?;
    let markers = own.project_root_markers.clone().unwrap_or_default();
    let project_root = find_project_root(&cwd, &markers);
    let project = Project { root: &project_root, directories: &inputs.directories, own: &own };
    let mut rules = load_own_rules(&inputs.directories.config, &mut files, &mut notes)?;
    let (trusted, layer) = load_project_layer(project, &mut rules, &mut files, &mut notes)?;
    if let Some(layer) = layer {
        layers.insert(stronger_count, layer);
    }

    let mut session = inputs.session;
    session.add_dirs = real_directories(&session.add_dirs, &inputs.process_cwd)?;
    session.script = session.script.map(|script| inputs.process_cwd.join(script));
    let linked_profiles = find_linked_profiles(&inputs.directories.config);
    let facts = Facts {
        directories: inputs.directories,
        linked_profiles,
        cwd,
        project_root: project_root.clone(),
        env: inputs.env,
        stored_key: inputs.stored_key,
        trusted,
        rules,
        session,
        notes,
    };
    Ok(Loaded { resolved: resolve(layers, facts)?, project_root, files })
}

fn find_cwd(inputs: &LoadInputs) -> Result<PathBuf, ConfigError> {
    let cwd = match &inputs.cwd {
        Some(cwd) => inputs.process_cwd.join(cwd),
        None => inputs.process_cwd.clone(),
    };
    real_directory(&cwd)
}

fn real_directory(path: &Path) -> Result<PathBuf, ConfigError> {
    let refuse = |message: String| ConfigError::Directory { path: path.to_path_buf(), message };
    let real = std::fs::canonicalize(path).map_err(|error| refuse(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(refuse("it is not a directory".to_owned())) }
}

fn real_directories(dirs: &[PathBuf], base: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    dirs.iter().map(|dir| real_directory(&base.join(dir))).collect()
}

fn load_flag_layers(
    inputs: &LoadInputs,
    cwd: &Path,
    notes: &mut Vec<ConfigNote>,
) -> Result<Vec<Layer>, ConfigError> {
    let (variables, odd) = build_environment_table(&inputs.env);
    notes.extend(odd);
    let named = [
        (Source::CommandLine, inputs.flags.clone(), inputs.process_cwd.as_path()),
        (Source::Environment, variables, cwd),
    ];
    let mut layers = Vec::new();
    for (source, mut table, base) in named {
        if table.is_empty() {
            continue;
        }
        let (_, odd) = parse_table(&table, &source.to_string())?;
        notes.extend(odd);
        resolve_table_paths(&mut table, base, &inputs.directories.home);
        layers.push(Layer { source, base: base.to_path_buf(), table });
    }
    Ok(layers)
}

fn load_file_layer(
    path: &Path,
    source: Source,
    home: &Path,
    notes: &mut Vec<ConfigNote>,
) -> Result<Option<Layer>, ConfigError> {
    let Some(text) = load_text(path)? else { return Ok(None) };
    let (mut table, odd) = parse_config(&text, &path.display().to_string())?;
    notes.extend(odd);
    let base = path.parent().unwrap_or(path).to_path_buf();
    resolve_table_paths(&mut table, &base, home);
    Ok(Some(Layer { source, base, table }))
}

/// A profile list longer than this helps nobody.
const PROFILES_SHOWN_MAX: usize = 20;

fn missing_profile(name: &str, file: PathBuf, config: &Path) -> ConfigError {
    let mut existing = list_profiles(config);
    existing.truncate(PROFILES_SHOWN_MAX);
    ConfigError::Profile { name: name.to_owned(), file, existing }
}

/// Returns the names of the profiles that exist, sorted.
fn list_profiles(config: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(config)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".config.toml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Returns the profiles' files whose real path is another: a pattern hides the name alone, while
/// a path that is named is followed by all who hide it.
fn find_linked_profiles(config: &Path) -> Vec<PathBuf> {
    list_profiles(config)
        .iter()
        .map(|name| config.join(format!("{name}.config.toml")))
        .filter(|path| std::fs::canonicalize(path).is_ok_and(|real| real != *path))
        .collect()
}

/// Reads what the user alone says, for what must be known before a project is looked at.
fn read_own_settings(layers: &[Layer]) -> Result<ConfigToml, ConfigError> {
    let mut own = layers.to_vec();
    own.push(build_defaults());
    parse_table(&merge_layers(&own), "configuration").map(|(config, _)| config)
}

/// Finds the nearest directory above that holds a marker; `cwd` itself where none does.
fn find_project_root(cwd: &Path, markers: &[String]) -> PathBuf {
    let is_root = |dir: &&Path| {
        markers
            .iter()
            .filter(|marker| !marker.is_empty())
            .any(|marker| std::fs::symlink_metadata(dir.join(marker)).is_ok())
    };
    cwd.ancestors().find(is_root).unwrap_or(cwd).to_path_buf()
}

/// Reads the user's own rules; what is wrong with them must be mended first.
fn load_own_rules(
    config: &Path,
    files: &mut Vec<(PathBuf, FileUse)>,
    notes: &mut Vec<ConfigNote>,
) -> Result<Rules, ConfigError> {
    let mut rules = Rules::default();
    let path = config.join("rules.toml");
    let Some(text) = load_text(&path)? else { return Ok(rules) };
    let shown = path.display().to_string();
    let file =
        RuleFile { label: "your rules.toml", path: &shown, text: &text, origin: Origin::User };
    let ignored = rules.read(&file)?;
    notes.extend(ignored.into_iter().map(|message| ConfigNote { message, hint: None }));
    files.push((path, FileUse::Read));
    Ok(rules)
}

/// Adds the rules of a trusted project. Where they cannot be read, one may be among them that
/// denies: all that does more than look is asked for.
fn read_project_rules(
    content: &ProjectContent,
    trusted: bool,
    rules: &mut Rules,
    files: &mut Vec<(PathBuf, FileUse)>,
    notes: &mut Vec<ConfigNote>,
) {
    let Some(text) = content.text(RULES_FILE) else { return };
    let path = content.root.join(RULES_FILE);
    if !trusted {
        return files.insert(0, (path, FileUse::Untrusted));
    }
    let shown = path.display().to_string();
    let file = RuleFile { label: RULES_FILE, path: &shown, text, origin: Origin::Project };
    match rules.read(&file) {
        Ok(ignored) => {
            notes.extend(ignored.into_iter().map(|message| ConfigNote { message, hint: None }));
        }
        Err(error) => {
            let place = format!("{RULES_FILE}:{}", error.line);
            rules.ask_for_everything(&place, "the project's rules cannot be read");
            let message =
                format!("all but reading is asked for, because of the project's rules: {error}");
            notes.push(ConfigNote { message, hint: Some(error.hint) });
        }
    }
    files.insert(0, (path, FileUse::Read));
}

#[derive(Clone, Copy)]
struct Project<'a> {
    root: &'a Path,
    directories: &'a Directories,
    own: &'a ConfigToml,
}

fn load_project_layer(
    project: Project<'_>,
    rules: &mut Rules,
    files: &mut Vec<(PathBuf, FileUse)>,
    notes: &mut Vec<ConfigNote>,
) -> Result<(bool, Option<Layer>), ConfigError> {
    // Where GIMLET_HOME is below the project's root, the file there is the user's own.
    if project.root.join(".gimlet") == project.directories.config {
        return Ok((false, None));
    }
    let unread = find_unread(project.root);
    if !unread.is_empty() {
        notes.push(ConfigNote {
            message: format!("not used, because Gimlet does not read it: {}", unread.join(", ")),
            hint: Some("a project's configuration is .gimlet/config.toml".to_owned()),
        });
    }
    let content = match load_project(project.root) {
        Ok(content) => content,
        Err(error) => {
            // Whatever a repository holds there, it must not keep the program from starting.
            notes.push(ConfigNote { message: error.to_string(), hint: None });
            return Ok((false, None));
        }
    };
    let trusted = judge_project(project, &content, notes);
    read_project_rules(&content, trusted, rules, files, notes);
    let path = project.root.join(".gimlet/config.toml");
    let Some(text) = content.text(".gimlet/config.toml") else {
        files.insert(0, (path, FileUse::Absent));
        return Ok((trusted, None));
    };
    if !trusted {
        files.insert(0, (path, FileUse::Untrusted));
        return Ok((false, None));
    }
    let (mut table, odd) = parse_config(text, &path.display().to_string())?;
    notes.extend(odd);
    notes.extend(restrict_project(&mut table, project.root));
    drop_outer_roots(&mut table, project.root, notes);
    resolve_table_paths(&mut table, project.root, &project.directories.home);
    files.insert(0, (path.clone(), FileUse::Read));
    let layer = Layer { source: Source::Project(path), base: project.root.to_path_buf(), table };
    Ok((true, Some(layer)))
}

fn judge_project(
    project: Project<'_>,
    content: &ProjectContent,
    notes: &mut Vec<ConfigNote>,
) -> bool {
    let listed = load_trust_list(&project.directories.state).unwrap_or_else(|error| {
        notes.push(ConfigNote {
            message: format!("no project is trusted: {error}"),
            hint: Some("run `gimlet trust` again after moving the file away".to_owned()),
        });
        crate::config::trust::TrustList::default()
    });
    let named = project.own.projects.iter().find(|(path, _)| {
        resolve_path(path, project.root, &project.directories.home) == project.root
    });
    match named.and_then(|(_, project)| project.trust_level) {
        Some(TrustLevelToml::Trusted) => return true,
        Some(TrustLevelToml::Untrusted) => return false,
        None => {}
    }
    let judgement = listed.judge(content);
    let names: Vec<&str> = content.files.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let message = match judgement {
        Trust::Trusted => return true,
        Trust::Changed if names.is_empty() => {
            "the project's own configuration is gone since you trusted it".to_owned()
        }
        Trust::Changed => format!(
            "the project's own configuration changed since you trusted it, so it is not used: {names}"
        ),
        Trust::Unknown if names.is_empty() => return false,
        Trust::Unknown => {
            format!("the project's own configuration is not used, you have not trusted it: {names}")
        }
    };
    notes.push(ConfigNote {
        message,
        hint: Some("`gimlet trust` shows what it holds and trusts it".to_owned()),
    });
    false
}

/// Takes out writable roots that lead out of the project through a link, or do not exist: what
/// they become later is not what was trusted.
fn drop_outer_roots(table: &mut Table, root: &Path, notes: &mut Vec<ConfigNote>) {
    let Some(Value::Table(workspace)) = table.get_mut("sandbox_workspace_write") else { return };
    let Some(Value::Array(roots)) = workspace.get_mut("writable_roots") else { return };
    roots.retain(|value| {
        let Some(text) = value.as_str() else { return false };
        let is_inside = std::fs::canonicalize(root.join(text))
            .is_ok_and(|real| real.starts_with(root) && real.is_dir());
        if !is_inside {
            notes.push(ConfigNote {
                message: format!("the project's writable root {text:?} is ignored: it is no directory inside the project"),
                hint: None,
            });
        }
        is_inside
    });
}
