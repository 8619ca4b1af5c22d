//! The environment of commands: what they get of ours. Pure.
//!
//! Whatever the configuration inherits, secrets and what makes programs load code stay out.
//! Called once per session by `cli`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::layers::LOADING_VARIABLES;
use crate::config::{Inherit, ShellEnvironment};

/// Names that commands get by default.
const CORE: [&str; 36] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CARGO_*",
    "RUSTUP_*",
    "RUSTFLAGS",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOFLAGS",
    "GOPROXY",
    "JAVA_HOME",
    "NVM_DIR",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYENV_ROOT",
    "CONDA_PREFIX",
    "CC",
    "CXX",
    "PKG_CONFIG_PATH",
    "CI",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_*",
];

/// Names that look like secrets.
const SECRET: [&str; 4] = ["*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*"];

/// The only names of git's that are passed on: who the author is.
const GIT_PASSED: [&str; 4] =
    ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];

/// What every command gets: no colours, no pagers, nobody to type, and who runs it.
const ALWAYS: [(&str, &str); 7] = [
    ("GIMLET", "1"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Names the directory of our own commands, for shells whose start sets `PATH` anew.
pub const OWN_COMMANDS: &str = "GIMLET_COMMANDS";

/// Where programs are looked for when nobody says.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Puts a directory of our own commands first on the `PATH` of an environment.
pub fn add_own_commands(env: &mut Vec<(String, String)>, directory: &Path) {
    // No PATH can name any other; the environment is text.
    let Some(directory) = directory.to_str().filter(|text| !text.contains(':')) else { return };
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, path)| path.as_str());
    let path = format!("{directory}:{path}");
    env.retain(|(name, _)| name != "PATH" && name != OWN_COMMANDS);
    env.push((OWN_COMMANDS.to_owned(), directory.to_owned()));
    env.push(("PATH".to_owned(), path));
    env.sort();
}

/// Returns the environment of commands, sorted by name. `key_vars` are the names that hold
/// providers' keys; they are never passed on, not even when the user keeps other secrets.
pub fn command_env(
    ours: impl Iterator<Item = (String, String)>,
    policy: &ShellEnvironment,
    key_vars: &[String],
) -> Vec<(String, String)> {
    let mut env: BTreeMap<String, String> =
        ours.filter(|(name, _)| is_passed(name, policy, key_vars)).collect();
    env.extend(ALWAYS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    env.extend(policy.set.clone());
    env.retain(|name, value| is_possible(name) && !value.contains('\0'));
    env.into_iter().collect()
}

fn is_passed(name: &str, policy: &ShellEnvironment, key_vars: &[String]) -> bool {
    let inherited = match policy.inherit {
        Inherit::Core => matches_any(name, &CORE),
        Inherit::All => true,
        Inherit::None => false,
    };
    let is_foreign_git = matches_any(name, &["GIT_*"]) && !GIT_PASSED.contains(&name);
    inherited
        && (policy.include_only.is_empty() || matches_any(name, &policy.include_only))
        && !matches_any(name, &policy.exclude)
        && (policy.keep_secrets || !matches_any(name, &SECRET))
        && !matches_any(name, &LOADING_VARIABLES)
        && !is_foreign_git
        && !key_vars.iter().any(|key| key == name)
}

fn is_possible(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn matches_any<P: AsRef<str>>(name: &str, patterns: &[P]) -> bool {
    let name = name.to_uppercase();
    patterns.iter().any(|pattern| matches_glob(&name, &pattern.as_ref().to_uppercase()))
}

/// Returns whether a name matches a pattern in which `*` stands for anything.
pub(crate) fn matches_glob(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            match rest.split_once(previous) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [&str; 14] = [
        "PATH",
        "HOME",
        "LC_ALL",
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_DIR",
        "GIT_AUTHOR_NAME",
        "MY_PROVIDER",
        "EDITOR",
        "CARGO_REGISTRY_TOKEN",
        "CARGO_HOME",
        "SSH_AUTH_SOCK",
    ];

    fn names(policy: &ShellEnvironment) -> Vec<String> {
        let ours = OURS.map(|name| (name.to_owned(), "ours".to_owned()));
        command_env(ours.into_iter(), policy, &["MY_PROVIDER".to_owned()])
            .into_iter()
            .filter(|(_, value)| value == "ours")
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn the_default_is_an_allow_list() {
        let expected = ["CARGO_HOME", "GIT_AUTHOR_NAME", "HOME", "LC_ALL", "PATH"];
        assert_eq!(names(&ShellEnvironment::default()), expected);
    }

    #[test]
    fn inheriting_all_still_leaves_secrets_and_loaders_out() {
        let all = ShellEnvironment { inherit: Inherit::All, ..ShellEnvironment::default() };
        let expected =
            ["CARGO_HOME", "EDITOR", "GIT_AUTHOR_NAME", "HOME", "LC_ALL", "PATH", "SSH_AUTH_SOCK"];
        assert_eq!(names(&all), expected);
    }

    #[test]
    fn the_providers_key_stays_out_even_when_secrets_are_kept() {
        let all = ShellEnvironment {
            inherit: Inherit::All,
            keep_secrets: true,
            exclude: vec!["E*".to_owned(), "ssh_*".to_owned()],
            include_only: vec!["*_*".to_owned()],
            ..ShellEnvironment::default()
        };
        let expected = [
            "CARGO_HOME",
            "CARGO_REGISTRY_TOKEN",
            "GITHUB_TOKEN",
            "GIT_AUTHOR_NAME",
            "LC_ALL",
            "OPENAI_API_KEY",
        ];
        assert_eq!(names(&all), expected);
    }

    #[test]
    fn our_own_commands_come_first() {
        let added = |path: Option<&str>, directory: &str| {
            let path = path.map(|path| ("PATH".to_owned(), path.to_owned()));
            let mut env: Vec<(String, String)> = path.into_iter().collect();
            add_own_commands(&mut env, Path::new(directory));
            env.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let expected = ["GIMLET_COMMANDS=/s", "PATH=/s:/bin"];
        assert_eq!(added(Some("/bin"), "/s"), expected);
        let expected = ["GIMLET_COMMANDS=/s", "PATH=/s:/usr/local/bin:/usr/bin:/bin"];
        assert_eq!(added(None, "/s"), expected);
        assert_eq!(added(Some("/bin"), "/a:b"), ["PATH=/bin"]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (name, pattern, expected) in [
            ("A_KEY_B", "*KEY*", true),
            ("KEY", "*KEY*", true),
            ("KEYS", "*KEY", false),
            ("LC_ALL", "LC_*", true),
            ("LC", "LC_*", false),
            ("AXBXC", "A*B*C", true),
            ("ABAB", "A*AB", true),
            ("", "*", true),
            ("A", "", false),
        ] {
            assert_eq!(matches_glob(name, pattern), expected, "{name} {pattern}");
        }
    }
}
