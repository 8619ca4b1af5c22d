//! What `FileAccess` lets through, and what it does not.

use std::os::unix::fs::symlink;

use super::*;
use crate::protocol::{ChangeKind, FileChange};
use crate::tools::testing::policy;

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// A workspace `w` with a file, a directory, and links out of it to `secret/key`.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["w/dir", "secret"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for file in ["w/a.txt", "w/dir/b.txt", "w/.env", "secret/key"] {
            fs::write(root.path().join(file), file).unwrap();
        }
        let key = root.path().join("secret/key");
        symlink(&key, root.path().join("w/link")).unwrap();
        symlink(&key, root.path().join("w/dir/link")).unwrap();
        symlink(root.path().join("w/a.txt"), root.path().join("w/dir/inside")).unwrap();
        Self { root }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    async fn read(&self, named: &str, deny: &[&str], path: &str) -> Result<String, String> {
        let effect = Effect::Read { paths: vec![self.path(named)] };
        let mut policy = policy(&self.path("w"));
        policy.deny_read = deny
            .iter()
            .map(|text| Pattern(text.replace("ROOT", &self.root.path().to_string_lossy())))
            .collect();
        let files = FileAccess::new(&effect, &policy, self.root.path());
        let read = files.read(&self.path(path), 1000).await;
        let root = format!("{}/", self.root.path().display());
        read.map(|bytes| String::from_utf8(bytes).unwrap())
            .map_err(|error| error.to_string().replace(&root, ""))
    }
}

#[tokio::test]
async fn only_what_was_named_is_read() {
    let place = Place::new();
    let outside = |path: &str| Err(format!("declined: {path} leads outside what was asked for"));
    let cases = [
        ("w/a.txt", "w/a.txt", Ok("w/a.txt".to_owned())),
        ("w", "w/dir/b.txt", Ok("w/dir/b.txt".to_owned())),
        ("w/dir", "w/a.txt", outside("w/a.txt")),
        // A link that was named itself is followed; one found below a directory is not.
        ("w/link", "w/link", Ok("secret/key".to_owned())),
        ("w", "w/dir/link", outside("w/dir/link")),
        ("w", "w/dir/inside", Ok("w/a.txt".to_owned())),
        ("w/dir", "w/dir/inside", outside("w/dir/inside")),
        ("w", "w/none", Err("w/none does not exist".to_owned())),
        ("w/a", "w/a.txt", outside("w/a.txt")),
        ("w", "w/dir", Err("w/dir is a directory; list_dir shows what is in it".to_owned())),
    ];
    for (named, path, expected) in cases {
        assert_eq!(place.read(named, &[], path).await, expected, "{named} {path}");
    }
}

#[tokio::test]
async fn what_the_policy_hides_stays_hidden() {
    let place = Place::new();
    let cases = [
        ("ROOT/secret", "w/link", true),
        ("ROOT/secret/", "w/link", true),
        ("ROOT/secret/*", "w/link", true),
        ("~/secret", "w/link", true),
        ("~/secret/k?y", "w/link", true),
        (".env", "w/.env", true),
        ("**/.env", "w/.env", true),
        ("dir/b.txt", "w/dir/b.txt", true),
        // The rule names the link, the call its target, and the other way round.
        ("~/w/link", "secret/key", true),
        ("~/w/dir/inside", "w/a.txt", true),
        ("!.env", "w/.env", false),
        ("#.env", "w/.env", false),
        ("~x/secret", "w/link", false),
        (".en", "w/.env", false),
    ];
    for (pattern, path, hidden) in cases {
        let read = place.read(path, &[pattern], path).await;
        let expected = format!("declined: {path} is hidden by deny_read");
        if hidden {
            assert_eq!(read, Err(expected), "{pattern} {path}");
        } else {
            assert!(read.is_ok(), "{pattern} {path}: {read:?}");
        }
    }
}

#[tokio::test]
async fn hidden_files_do_not_tell_whether_they_exist() {
    let place = Place::new();
    let read = place.read("secret/none", &["~/secret"], "secret/none").await;
    assert_eq!(read, Err("declined: secret/none is hidden by deny_read".to_owned()));
}

#[tokio::test]
async fn a_broken_pattern_stops_reading() {
    let place = Place::new();
    let read = place.read("w/a.txt", &["[b-a]"], "w/a.txt").await;
    assert!(read.unwrap_err().starts_with("deny_read holds a pattern that is no glob"));
}

#[tokio::test]
async fn large_files_and_fifos_are_refused() {
    let place = Place::new();
    fs::write(place.path("w/big"), vec![0; 1001]).unwrap();
    let read = place.read("w", &[], "w/big").await;
    assert_eq!(read, Err("w/big is larger than 1000 bytes".to_owned()));

    let fifo = place.path("w/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let read = place.read("w", &[], "w/fifo").await;
    assert_eq!(read, Err("w/fifo is not a regular file".to_owned()));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_of_processes_are_refused() {
    let policy = policy(Path::new("/"));
    for path in ["/proc/self/environ", "/proc/1/environ", "/proc/thread-self/environ"] {
        let effect = Effect::Read { paths: vec![path.into()] };
        let files = FileAccess::new(&effect, &policy, Path::new("/"));
        let error = files.read(Path::new(path), 1000).await.unwrap_err();
        assert_eq!(error.to_string(), format!("declined: {path} belongs to a process"));
    }
    let effect = Effect::Read { paths: vec!["/proc/version".into()] };
    let files = FileAccess::new(&effect, &policy, Path::new("/"));
    assert!(files.read(Path::new("/proc/version"), 1000).await.is_ok());
}

#[test]
fn a_patch_reads_both_ends_of_a_move() {
    let change = FileChange {
        path: "/w/a".into(),
        kind: ChangeKind::Update,
        move_to: Some("/w/b".into()),
        diff: String::new(),
    };
    let effect = Effect::Write { changes: vec![change] };
    let files = FileAccess::new(&effect, &policy(Path::new("/w")), Path::new("/"));
    assert_eq!(files.limits.named, [PathBuf::from("/w/a"), PathBuf::from("/w/b")]);
}

#[test]
fn paths_are_resolved_by_their_text() {
    let cases = [
        ("a", "/w/a"),
        (".", "/w"),
        ("./a/../b//c/", "/w/b/c"),
        ("../x", "/x"),
        ("../../../x", "/x"),
        ("/etc/x", "/etc/x"),
    ];
    for (text, expected) in cases {
        assert_eq!(resolve_path(Path::new("/w"), text).unwrap(), Path::new(expected), "{text}");
    }
    for text in ["", "a\0b"] {
        assert_eq!(resolve_path(Path::new("/w"), text).unwrap_err().code(), "invalid_arguments");
    }
}
