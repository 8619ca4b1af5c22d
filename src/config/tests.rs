//! Runs `tests/fixtures/config/*`: files, variables and flags in, the resolved `Config` out.
//!
//! A folder holds `user.toml`, `user_rules.toml`, the same of `project`, `NAME.profile.toml`, `env.txt`, `args.txt`, each
//! optional, and `expected.txt` (what differs from the defaults, then notes and explanations)
//! or `error.txt`. `args.txt` has one flag a line: `-c KEY=VALUE`, `--profile NAME`, `--cd DIR`,
//! `--add-dir DIR`, `--stored-key KEY`, and for the test alone `--trust` and `--explain KEY`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use proptest::prelude::*;

use crate::config::layers::{parse_key, parse_override, parse_value, set_key};
use crate::config::load::{LoadInputs, Loaded, find_directories, load};
use crate::config::resolve::SessionFlags;
use crate::config::trust::{Trust, TrustList, load_project, load_trust_list, trust_path};
use crate::config::{Config, ConfigError, ProviderKey};
use crate::protocol::Pattern;

/// A user, a project and what is typed, on disk below one temporary directory.
struct World {
    root: tempfile::TempDir,
    inputs: LoadInputs,
    explained: Vec<String>,
}

impl World {
    fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(root.path()).unwrap();
        for dir in ["home/gimlet", "project/.git", "project/.gimlet", "project/sub", "extra"] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        let text = |path: &str| top.join(path).to_string_lossy().into_owned();
        let env = BTreeMap::from([
            ("GIMLET_HOME".to_owned(), text("home/gimlet")),
            ("HOME".to_owned(), text("home")),
        ]);
        let inputs = LoadInputs {
            directories: find_directories(&env).unwrap(),
            flags: toml::Table::new(),
            session: SessionFlags::default(),
            profile: None,
            cwd: None,
            process_cwd: top.join("project"),
            env,
            stored_key: None,
            notes: Vec::new(),
        };
        Self { root, inputs, explained: Vec::new() }
    }

    fn top(&self) -> PathBuf {
        std::fs::canonicalize(self.root.path()).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let text = text.replace("[TOP]", &self.top().to_string_lossy());
        std::fs::write(self.top().join(path), text).unwrap();
    }

    fn from_fixture(folder: &Path) -> Self {
        let mut world = Self::empty();
        let mut args = String::new();
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for path in names {
            let text = std::fs::read_to_string(&path).unwrap();
            match path.file_name().unwrap().to_str().unwrap() {
                "user.toml" => world.write("home/gimlet/config.toml", &text),
                "project.toml" => world.write("project/.gimlet/config.toml", &text),
                "user_rules.toml" => world.write("home/gimlet/rules.toml", &text),
                "project_rules.toml" => world.write("project/.gimlet/rules.toml", &text),
                "env.txt" => {
                    world.inputs.env.extend(
                        text.lines()
                            .map(|line| line.split_once('=').unwrap())
                            .map(|(name, value)| (name.to_owned(), value.to_owned())),
                    );
                }
                "args.txt" => args = text,
                "expected.txt" | "error.txt" => {}
                name => match name.strip_suffix(".profile.toml") {
                    Some(name) => world.write(&format!("home/gimlet/{name}.config.toml"), &text),
                    None => panic!("{} is read by nobody", path.display()),
                },
            }
        }
        for line in args.lines() {
            world.apply_flag(line);
        }
        world
    }

    fn apply_flag(&mut self, line: &str) {
        let line = line.replace("[TOP]", &self.top().to_string_lossy());
        let (flag, value) = line.split_once(' ').unwrap_or((&line, ""));
        match flag {
            "-c" => {
                let given = parse_override(value).unwrap();
                set_key(&mut self.inputs.flags, &given.segments, given.value);
            }
            "--profile" => self.inputs.profile = Some(value.to_owned()),
            "--cd" => self.inputs.cwd = Some(value.into()),
            "--add-dir" => self.inputs.session.add_dirs.push(value.into()),
            "--ephemeral" => self.inputs.session.ephemeral = true,
            "--script" => self.inputs.session.script = Some(value.into()),
            "--stored-key" => self.inputs.stored_key = Some(value.to_owned()),
            "--explain" => self.explained.push(value.to_owned()),
            "--trust" => self.trust(),
            other => panic!("{other} is no flag of this runner"),
        }
    }

    fn trust(&self) {
        let content = load_project(&self.top().join("project")).unwrap();
        let mut list = load_trust_list(&self.inputs.directories.state).unwrap();
        list.trust(&content);
        self.save(&list);
    }

    fn save(&self, list: &TrustList) {
        let path = trust_path(&self.inputs.directories.state);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_vec(list).unwrap()).unwrap();
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        load(self.inputs.clone())
    }

    fn blank(&self, text: &str) -> String {
        text.replace(&*self.top().to_string_lossy(), "[TOP]")
    }
}

/// One line for each setting, in the order of `Config`.
fn render_config(config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let pretty = format!("{config:#?}");
    let mut path: Vec<String> = Vec::new();
    for line in pretty.lines().skip(1) {
        let text = line.trim();
        let opens = text.ends_with(['{', '[', '(']);
        if text.starts_with(['}', ']', ')']) {
            path.pop();
        } else if opens {
            path.push(text.trim_end_matches(['{', '[', '(', ' ']).trim_end_matches(':').to_owned());
        } else {
            let text = text.trim_end_matches(',');
            let dotted = if path.is_empty() { String::new() } else { path.join("/") + "/" };
            lines.push(format!("{dotted}{text}"));
        }
    }
    lines.retain(|line| !line.starts_with("notes"));
    lines
}

fn render_loaded(world: &World, loaded: &Loaded) -> String {
    let config = &loaded.resolved.config;
    let usual = World::empty();
    let defaults: Vec<String> = render_config(&usual.load().unwrap().resolved.config)
        .iter()
        .map(|line| usual.blank(line))
        .collect();
    let mut text = String::new();
    for line in render_config(config) {
        let line = world.blank(&line);
        if !defaults.contains(&line) {
            writeln!(text, "{line}").unwrap();
        }
    }
    if let ProviderKey::Found { key, source } = &config.provider.key {
        writeln!(text, "key {key} from {source}").unwrap();
    }
    for note in &config.notes {
        let hint = note.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        writeln!(text, "note: {}{hint}", world.blank(&note.message)).unwrap();
    }
    for key in &world.explained {
        writeln!(text, "explain {key}").unwrap();
        for one in loaded.resolved.explain(key) {
            writeln!(text, "  {} = {} by {}", one.key, one.value, one.winner).unwrap();
            for (source, value) in one.losers {
                writeln!(text, "    over {value} by {source}").unwrap();
            }
        }
    }
    world.blank(&text)
}

#[test]
fn layers_resolve_as_written_down() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&fixtures).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 25, "the fixtures are there");
    for folder in folders {
        let world = World::from_fixture(&folder);
        let (name, other, actual) = match world.load() {
            Ok(loaded) => ("expected.txt", "error.txt", render_loaded(&world, &loaded)),
            Err(error) => {
                let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
                ("error.txt", "expected.txt", world.blank(&format!("{error}\n{hint}")))
            }
        };
        assert!(!folder.join(other).exists(), "{}: got\n{actual}", folder.display());
        expect_file![folder.join(name)].assert_eq(&actual);
    }
}

#[test]
fn the_defaults_are_as_documented() {
    let world = World::empty();
    let config = world.load().unwrap().resolved.config;
    let lines = render_config(&config).join("\n");
    for line in [
        "\"gpt-5.5\"",
        "provider: Provider/base_url: \"https://api.openai.com/v1\"",
        "provider: Provider/request_retries_max: 4",
        "provider: Provider/stream_retries_max: 5",
        "provider: Provider/stream_idle_timeout_ms: 300000",
        "approval: OnRequest",
        "sandbox: SandboxSettings/mode: WorkspaceWrite",
        "sandbox: SandboxSettings/fallback: Reduced",
        "max_steps: 200",
        "tool_output_tokens_max: 10000",
        "project_docs: ProjectDocs/bytes_max: 32768",
        "trusted: false",
    ] {
        assert!(lines.contains(line), "{line} is not in\n{lines}");
    }
    assert_eq!(config.notes, []);
    let hidden: Vec<&str> = config.sandbox.deny_read.iter().map(|hidden| &*hidden.0).collect();
    assert!(hidden.contains(&"~/.ssh") && hidden.iter().any(|path| path.ends_with("auth.json")));
}

#[test]
fn trust_ends_when_the_content_changes() {
    let world = World::empty();
    let state = &world.inputs.directories.state;
    let judge = || {
        let content = load_project(&world.top().join("project")).unwrap();
        load_trust_list(state).unwrap().judge(&content)
    };
    world.write("project/.gimlet/config.toml", "model = 'a'");
    assert_eq!(judge(), Trust::Unknown);
    world.trust();
    assert_eq!(judge(), Trust::Trusted);
    assert_eq!(world.load().unwrap().resolved.config.model.0, "a");
    world.write("project/.gimlet/config.toml", "model = 'b'");
    assert_eq!(judge(), Trust::Changed);
    let config = world.load().unwrap().resolved.config;
    assert_eq!(config.model.0, "gpt-5.5");
    assert!(config.notes[0].message.contains("changed"), "{:?}", config.notes);
    std::fs::remove_file(world.top().join("project/.gimlet/config.toml")).unwrap();
    assert_eq!(judge(), Trust::Changed);
    let mut list = load_trust_list(state).unwrap();
    assert!(list.revoke(&world.top().join("project")));
    world.save(&list);
    assert_eq!(judge(), Trust::Unknown);
}

#[test]
fn trust_ends_when_a_script_changes_that_the_content_names() {
    let world = World::empty();
    let judge = || {
        let content = load_project(&world.top().join("project")).unwrap();
        load_trust_list(&world.inputs.directories.state).unwrap().judge(&content)
    };
    world.write(
        "project/.gimlet/config.toml",
        "[mcp_servers.x]\ncommand = './run.sh'\nargs = ['serve.js', '/etc/hosts', '../extra/x']\ncwd = 'sub'",
    );
    for path in ["project/run.sh", "project/sub/serve.js", "extra/x"] {
        world.write(path, "one");
    }
    world.trust();
    assert_eq!(judge(), Trust::Trusted);
    for (path, trust) in [
        ("extra/x", Trust::Trusted),
        ("project/run.sh", Trust::Changed),
        ("project/sub/serve.js", Trust::Changed),
    ] {
        world.write(path, "two");
        assert_eq!(judge(), trust, "{path}");
        world.trust();
    }
}

#[test]
fn a_file_moved_into_trusted_text_does_not_keep_the_hash() {
    let world = World::empty();
    world.trust();
    world.write("project/.gimlet/config.toml", "");
    let content = load_project(&world.top().join("project")).unwrap();
    let list = load_trust_list(&world.inputs.directories.state).unwrap();
    assert_eq!(list.judge(&content), Trust::Changed, "an empty file is not an absent one");
}

#[cfg(unix)]
#[test]
fn links_out_of_the_project_are_not_followed() {
    let world = World::empty();
    world.write("extra/config.toml", "model = 'outside'");
    let inside = world.top().join("project/.gimlet/config.toml");
    std::os::unix::fs::symlink(world.top().join("extra/config.toml"), &inside).unwrap();
    world.write("home/gimlet/config.toml", "projects.\"[TOP]/project\".trust_level = 'trusted'");
    let config = world.load().unwrap().resolved.config;
    assert_eq!((config.model.0.as_str(), config.trusted), ("gpt-5.5", false));
    assert!(config.notes[0].message.contains("leads out of the project"), "{:?}", config.notes);

    std::fs::remove_file(&inside).unwrap();
    let link = world.top().join("project/out");
    std::os::unix::fs::symlink(world.top().join("extra"), link).unwrap();
    world.write(
        "project/.gimlet/config.toml",
        "sandbox_workspace_write.writable_roots = ['out', 'sub', 'none', '../extra', '~']",
    );
    let config = world.load().unwrap().resolved.config;
    assert_eq!(config.sandbox.writable_roots, [world.top().join("project/sub")]);
}

#[test]
fn a_damaged_trust_list_trusts_nothing() {
    let world = World::empty();
    world.trust();
    std::fs::write(trust_path(&world.inputs.directories.state), "{").unwrap();
    let config = world.load().unwrap().resolved.config;
    assert!(!config.trusted);
    assert!(config.notes[0].message.contains("trust.json"), "{:?}", config.notes);
}

#[test]
fn what_may_hold_keys_is_hidden_and_gimlets_own_is_closed() {
    let world = World::empty();
    let sandbox = world.load().unwrap().resolved.config.sandbox;
    let home = world.top().join("home/gimlet");
    for name in ["auth.json", "config.toml", "*.config.toml"] {
        let path = home.join(name).to_string_lossy().into_owned();
        assert!(sandbox.deny_read.iter().any(|pattern| pattern.0 == path), "{path}");
    }
    assert_eq!(sandbox.deny_write, [home]);
}

#[test]
fn a_profile_that_is_a_link_is_hidden_by_its_path() {
    let world = World::empty();
    let home = world.top().join("home/gimlet");
    for file in ["extra/work.toml", "home/gimlet/plain.config.toml"] {
        std::fs::write(world.top().join(file), "").unwrap();
    }
    let link = home.join("work.config.toml");
    std::os::unix::fs::symlink(world.top().join("extra/work.toml"), &link).unwrap();
    let sandbox = world.load().unwrap().resolved.config.sandbox;
    let is_named = |path: &std::path::Path| {
        sandbox.deny_read.contains(&Pattern(path.to_string_lossy().into_owned()))
    };
    assert!(is_named(&link));
    // The pattern does for it.
    assert!(!is_named(&home.join("plain.config.toml")));
}

#[test]
fn keys_never_show_in_debug() {
    let mut world = World::empty();
    world.inputs.env.insert("OPENAI_API_KEY".to_owned(), "sk-very-secret".to_owned());
    let config = world.load().unwrap().resolved.config;
    assert!(!format!("{config:?}").contains("sk-very-secret"));
    assert!(matches!(config.provider.key, ProviderKey::Found { .. }));
}

#[test]
fn a_file_larger_than_a_configuration_is_refused() {
    let world = World::empty();
    world.write("home/gimlet/config.toml", &"#".repeat(1024 * 1024 + 1));
    assert!(world.load().unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn overrides_are_toml_or_text() {
    let table = [
        ("a.b=1", "a.b", "1"),
        ("a=high", "a", "\"high\""),
        ("a=\"x\"", "a", "\"x\""),
        ("k={}", "k", "{}"),
        ("a=[1, 2]", "a", "[1, 2]"),
        ("a.\"b.c\" = {d = true}", "a.\"b.c\"", "{ d = true }"),
        ("a=", "a", "\"\""),
        ("a=b=c", "a", "\"b=c\""),
        ("a=1\nb=2", "a", "\"1\\nb=2\""),
    ];
    for (text, key, value) in table {
        let read = parse_override(text).unwrap();
        assert_eq!(read.segments, parse_key(key).unwrap(), "{text}");
        assert_eq!(read.value, parse_value(value), "{text}");
    }
    for text in ["", "a", "=1", ".=1", "a..b=1", "a b=1", "[a]=1", "# =1"] {
        assert!(parse_override(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_override_panics(text in "\\PC{0,40}", wild in ".{0,40}") {
        let _ = parse_override(&text);
        let _ = parse_override(&wild);
    }

    #[test]
    fn no_file_panics(text in "[a-z_.\\[\\]=\"'{}0-9\n #-]{0,80}") {
        let _ = crate::config::file::parse_config(&text, "user");
    }
}
