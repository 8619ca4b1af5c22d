//! The escape suite: every attempt of `fixtures/escape/attempts.toml`, proven bare and then tried
//! in the sandbox: in each mode, at both levels, as whoever runs the tests and, where that is
//! root, as an ordinary user too.
//!
//! An attempt has a stage of its own: a home with secrets, a workspace, a place outside, a
//! victim. What this machine does not let us prove is said with `SKIPPED: why`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use gimlet::protocol::SandboxLevel;
use gimlet::sandbox::{level, open_at_reduced_level};
use serde::Deserialize;

use crate::support::run::{RUN_AT_MOST, copy_program};

/// How often an attempt that must succeed is made before it counts as failed.
const TRIES: u32 = 10;

/// The user that nobody is.
const ORDINARY_USER: u32 = 65_534;
/// Attempts at once. They wait more than they work.
const THREADS: usize = 4;
/// The text of every secret.
const SECRET: &str = "hidden-words";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    attempt: Vec<Attempt>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    name: String,
    script: String,
    needs: Option<String>,
    reduced: Option<String>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    reduced_network: bool,
}

/// How an attempt is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Bare,
    Sandbox { mode: &'static str, network: bool, reduced: bool },
}

impl Setting {
    const READ_ONLY: Self = Self::Sandbox { mode: "read-only", network: false, reduced: false };
    const WRITE: Self = Self::Sandbox { mode: "workspace-write", network: false, reduced: false };
    const NETWORK: Self = Self::Sandbox { mode: "workspace-write", network: true, reduced: false };
    const REDUCED: Self = Self::Sandbox { mode: "workspace-write", network: false, reduced: true };

    fn is_read_only(self) -> bool {
        matches!(self, Self::Sandbox { mode: "read-only", .. })
    }
}

fn load_table() -> Vec<Attempt> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/escape/attempts.toml");
    let table: Table = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    table.attempt
}

/// What all attempts of one user share: programs in reach, servers, a segment of memory.
struct Ground {
    directory: tempfile::TempDir,
    user: Option<u32>,
    words: BTreeMap<&'static str, String>,
}

impl Ground {
    fn new(user: Option<u32>) -> Self {
        let directory = tempfile::Builder::new().prefix("escape-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let tests = std::env::current_exe().unwrap();
        let probe = tests.parent().and_then(Path::parent).unwrap().join("examples/probe");
        copy_program(&probe, directory.path());
        copy_program(Path::new(env!("CARGO_BIN_EXE_gimlet")), directory.path());
        let mut ground = Self { directory, user, words: BTreeMap::new() };
        // What a first run leaves in the state directory is not an attempt's doing.
        let first = Command::new(ground.path("gimlet"))
            .args(["sandbox", "--mode", "read-only", "--", "true"])
            .env("GIMLET_HOME", ground.path("first"))
            .output();
        assert!(first.is_ok_and(|first| first.status.success()));
        ground.start_servers();
        let segment = ground.bare("probe", &["shm-make"]).output().unwrap();
        let segment = String::from_utf8_lossy(&segment.stdout).trim().to_owned();
        ground.words.insert("segment", segment);
        let probe = ground.path("probe").display().to_string();
        ground.words.insert("probe", probe);
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a command as the user, with nothing of our environment but PATH.
    fn bare(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(match program {
            "probe" | "gimlet" => self.path(program),
            other => other.into(),
        });
        command.args(args).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn start_servers(&mut self) {
        let listen = |address: &str| {
            let listener = TcpListener::bind(address).ok()?;
            let name = listener.local_addr().ok()?.to_string();
            // They live as long as the tests do.
            thread::spawn(move || listener.incoming().flatten().for_each(drop));
            Some(name)
        };
        let tcp = listen("127.0.0.1:0").unwrap();
        self.words.insert("tcp_slash", tcp.replace(':', "/"));
        self.words.insert("tcp", tcp);
        self.words.insert("tcp6", listen("[::1]:0").unwrap_or_else(|| "[::1]:9".to_owned()));
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        self.words.insert("udp", echo.local_addr().unwrap().to_string());
        thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((count, from)) = echo.recv_from(&mut bytes) {
                let _ = echo.send_to(&bytes[..count], from);
            }
        });
        // Nothing is sent: the system says which address it would use.
        let address = UdpSocket::bind("0.0.0.0:0")
            .and_then(|socket| {
                socket.connect("192.0.2.1:9")?;
                socket.local_addr()
            })
            .map_or_else(|_| "192.0.2.1".to_owned(), |address| address.ip().to_string());
        self.words.insert("address", address);
        let name = self.directory.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let _ = connection.read(&mut [0; 64]);
            }
        });
        self.words.insert("abstract", name);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(segment) = self.words.get("segment") {
            let _ = self.bare("probe", &["shm-remove", segment]).output();
        }
    }
}

/// What one attempt may find.
struct Stage<'a> {
    ground: &'a Ground,
    directory: tempfile::TempDir,
    victim: Child,
    mark: String,
    /// Open as long as the stage.
    _kept: (File, UnixListener, UnixListener, UnixDatagram),
}

impl<'a> Stage<'a> {
    fn new(ground: &'a Ground) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{:07}{number:06}", std::process::id());
        let directory =
            tempfile::Builder::new().prefix("stage-").tempdir_in(ground.directory.path()).unwrap();
        let root = directory.path();
        lay_out(root);
        copy_links(&ground.path("first/commands"), &root.join("gimlet/commands"));
        fs::write(format!("/tmp/gimlet-{mark}"), "tmp-words").unwrap();
        fs::write(format!("/dev/shm/gimlet-{mark}"), "shm-words").unwrap();
        let outside = root.join("outside");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            outside.join("pipe"),
            rustix::fs::FileType::Fifo,
            0o666.into(),
            0,
        )
        .unwrap();
        let kept = (
            // A reader, so that a writer does not wait for one.
            File::options().read(true).write(true).open(outside.join("pipe")).unwrap(),
            UnixListener::bind(outside.join("stream.sock")).unwrap(),
            UnixListener::bind(root.join("work/inner.sock")).unwrap(),
            UnixDatagram::bind(outside.join("datagram.sock")).unwrap(),
        );
        let stdin = File::options().write(true).open(outside.join("file")).unwrap();
        if let Some(user) = ground.user {
            give_all(root, user);
            for path in [format!("/tmp/gimlet-{mark}"), format!("/dev/shm/gimlet-{mark}")] {
                chown(path, Some(user), Some(user)).unwrap();
            }
        }
        let victim = ground
            .bare("sleep", &["1000"])
            .env("API_TOKEN", SECRET)
            .current_dir(&outside)
            .stdin(stdin)
            .process_group(0)
            .spawn()
            .unwrap();
        Self { ground, directory, victim, mark, _kept: kept }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn fill(&self, script: &str) -> String {
        let mut script = script.to_owned();
        for name in ["outside", "work", "home", "gimlet"] {
            let path = self.path(name).display().to_string();
            script = script.replace(&format!("{{{name}}}"), &path);
        }
        let own = [
            ("victim", self.victim.id().to_string()),
            ("mark", self.mark.clone()),
            ("token", format!("/tmp/gimlet-{}", self.mark)),
            ("shm", format!("/dev/shm/gimlet-{}", self.mark)),
            ("mounted", "/proc".to_owned()),
        ];
        for (name, value) in own.iter().map(|(name, value)| (*name, value)) {
            script = script.replace(&format!("{{{name}}}"), value);
        }
        for (name, value) in &self.ground.words {
            script = script.replace(&format!("{{{name}}}"), value);
        }
        script
    }

    /// Runs an attempt; returns by what it is seen to have succeeded, and what it said.
    fn play(&mut self, attempt: &Attempt, setting: Setting) -> (Vec<String>, String) {
        let script = self.fill(&attempt.script);
        let guarded = self.guarded(setting);
        let before = guarded.iter().map(|path| snapshot(path)).collect::<Vec<_>>();
        let mut command = self.command(&script, setting);
        command.current_dir(self.path("work"));
        let (hung, said) = self.run(command);
        let mut seen = Vec::new();
        if hung {
            seen.push("it did not end".to_owned());
        }
        if said.contains("ESCAPED") {
            seen.push("it says so".to_owned());
        }
        for (path, before) in guarded.iter().zip(before) {
            let after = snapshot(path);
            let changed = before.symmetric_difference(&after).next();
            seen.extend(changed.map(|it| format!("changed: {it}")));
        }
        if self.victim.try_wait().unwrap().is_some() {
            seen.push("the victim is dead".to_owned());
        }
        let survivors = find_processes(&format!("7{}", self.mark));
        seen.extend((!survivors.is_empty()).then(|| "a process is left".to_owned()));
        for pid in survivors {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        (seen, said)
    }

    /// Runs a command; returns whether it had to be killed, and what it said. Into a file, since
    /// what an attempt leaves behind would hold a pipe open.
    fn run(&self, mut command: Command) -> (bool, String) {
        let said = self.path("said");
        let file = File::create(&said).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.process_group(0).spawn().unwrap();
        let group = rustix::process::Pid::from_child(&child);
        let (tx, rx) = mpsc::channel();
        thread::spawn(move || tx.send(child.wait()));
        let hung = rx.recv_timeout(RUN_AT_MOST).is_err();
        if hung {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        (hung, String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned())
    }

    /// Returns what nothing may change: all but the workspace, and what is protected in it.
    fn guarded(&self, setting: Setting) -> Vec<PathBuf> {
        let protected = [
            "work/.git",
            "work/.codex",
            "work/nested/.git",
            "work/nested/.agents",
            "work/linked/.git",
            "work/store",
            "work/aliased/.git",
            "work/target",
        ];
        let mut guarded = vec![self.path("outside"), self.path("home"), self.path("gimlet")];
        guarded.extend(protected.map(|name| self.path(name)));
        guarded.push(format!("/tmp/gimlet-{}", self.mark).into());
        guarded.push(format!("/dev/shm/gimlet-{}", self.mark).into());
        if setting.is_read_only() {
            guarded.push(self.path("work"));
        }
        guarded
    }

    fn command(&self, script: &str, setting: Setting) -> Command {
        let home = self.path("home");
        let Setting::Sandbox { mode, network, reduced } = setting else {
            // Below a shell of the same user, so that there is a parent to look into.
            let mut command = self.ground.bare("sh", &["-c", "sh -c \"$0\"; :", script]);
            command.env("HOME", home);
            return command;
        };
        let level = if reduced { "reduced" } else { "full" };
        let mut args = vec!["sandbox".to_owned(), "--mode".to_owned(), mode.to_owned()];
        args.extend(["-c".to_owned(), format!("sandbox_level_max={level}")]);
        args.extend(["--network".to_owned(), if network { "on" } else { "off" }.to_owned()]);
        args.extend(["--", "sh", "-c", script].map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.ground.bare("gimlet", &args);
        command.env("HOME", home).env("GIMLET_HOME", self.path("gimlet"));
        command
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_file(format!("/tmp/gimlet-{}", self.mark));
        let _ = fs::remove_file(format!("/dev/shm/gimlet-{}", self.mark));
    }
}

/// Copies directories and the links in them.
fn copy_links(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = {
            let name = entry.unwrap().file_name();
            (from.join(&name), to.join(&name))
        };
        match fs::read_link(&from) {
            Ok(target) => std::os::unix::fs::symlink(target, &to).unwrap(),
            Err(_) => copy_links(&from, &to),
        }
    }
}

/// Makes the files of a stage.
fn lay_out(root: &Path) {
    let directories = [
        "outside/empty",
        "home/.ssh",
        "home/.aws",
        "home/mine",
        "gimlet/sessions",
        "work/.codex",
        "work/.git/hooks",
        "work/.git/objects",
        "work/.git/refs",
        "work/nested/.git/hooks",
        "work/nested/.agents",
        "work/linked",
        "work/store/hooks",
        "work/aliased",
        "work/target/hooks",
        "work/deep/keys",
        "work/far/in/side",
    ];
    for name in directories {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let deny = format!(
        "deny_read = [\"{0}/home/mine\", \"{0}/work/*.pem\", \"{0}/work/deep/keys\", \"{0}/work/far/in/side/key\"]\n",
        root.display()
    );
    let files = [
        ("outside/file", "outside\n"),
        ("home/.profile", "\n"),
        ("home/.ssh/id", SECRET),
        ("home/.aws/credentials", SECRET),
        ("home/.netrc", SECRET),
        ("home/.npmrc", SECRET),
        ("home/mine/secret", SECRET),
        ("gimlet/config.toml", &deny),
        ("gimlet/auth.json", &format!("{{\"OPENAI_API_KEY\": \"{SECRET}\"}}")),
        ("gimlet/sessions/one.jsonl", SECRET),
        ("work/file", "inside\n"),
        ("work/secret.pem", SECRET),
        ("work/deep/keys/one", SECRET),
        ("work/far/in/side/key", SECRET),
        ("work/.codex/config.toml", "\n"),
        ("work/.git/HEAD", "ref: refs/heads/main\n"),
        ("work/.git/config", "[core]\n\trepositoryformatversion = 0\n"),
        ("work/.git/hooks/sample", "#!/bin/sh\n"),
        ("work/nested/.git/HEAD", "ref: refs/heads/main\n"),
        ("work/nested/.agents/rules", "\n"),
        ("work/linked/.git", "gitdir: ../store\n"),
    ];
    for (name, text) in files {
        fs::write(root.join(name), text).unwrap();
    }
    for name in ["auth.json", "config.toml"] {
        let path = root.join("gimlet").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    symlink("../target", root.join("work/aliased/.git")).unwrap();
    symlink("../outside", root.join("work/link")).unwrap();
    symlink("../outside/dangling-target", root.join("work/dangling")).unwrap();
    symlink("../home/.ssh/id", root.join("work/key")).unwrap();
}

fn give_all(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    let is_directory = fs::symlink_metadata(path).unwrap().is_dir();
    for entry in is_directory.then(|| fs::read_dir(path).unwrap()).into_iter().flatten() {
        give_all(&entry.unwrap().path(), user);
    }
}

/// Returns all that there is to a path and what lies below it, one line each.
fn snapshot(path: &Path) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let Ok(metadata) = fs::symlink_metadata(path) else { return lines };
    let kind = metadata.file_type();
    let content = match () {
        () if kind.is_symlink() => fs::read_link(path).unwrap().display().to_string(),
        () if kind.is_file() => String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
        () => String::new(),
    };
    let times = match kind.is_fifo() || kind.is_socket() {
        // Who opens one is told by the probe.
        true => (0, 0),
        // Every change of a mode, an owner, an attribute shows in the second.
        false => (metadata.mtime_nsec(), metadata.ctime_nsec()),
    };
    // A workspace's own times change with the mount points that come and go in it.
    let times = if path.ends_with("work") { (0, 0) } else { times };
    let (mode, owner) = (metadata.mode(), metadata.uid());
    lines.insert(format!("{} {mode:o} {owner} {times:?} {content:?}", path.display()));
    for entry in kind.is_dir().then(|| fs::read_dir(path).unwrap()).into_iter().flatten() {
        lines.extend(snapshot(&entry.unwrap().path()));
    }
    lines
}

/// Returns the processes that have this in their arguments.
fn find_processes(mark: &str) -> Vec<rustix::process::Pid> {
    let has = |pid: &i32| {
        let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(mark)
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(has)
        .filter_map(rustix::process::Pid::from_raw)
        .collect()
}

/// What came of all attempts in one setting.
#[derive(Default)]
struct Outcome {
    wrong: Vec<String>,
    unproven: Vec<String>,
}

fn play_all(ground: &Ground, table: &[Attempt], setting: Setting) -> Outcome {
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Outcome::default());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(attempt) = table.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut played = Stage::new(ground).play(attempt, setting);
                    // What must succeed may need luck: it may be looked for before it is there.
                    for _ in 1..TRIES {
                        let failed = played.0.is_empty();
                        if !failed || !matches!(judge(attempt, setting, false), Verdict::Wrong) {
                            break;
                        }
                        played = Stage::new(ground).play(attempt, setting);
                    }
                    let (seen, said) = played;
                    let told =
                        format!("{setting:?} {:?} {}: {seen:?}\n{said}", ground.user, attempt.name);
                    let mut outcome = outcome.lock().unwrap();
                    match judge(attempt, setting, !seen.is_empty()) {
                        Verdict::Right => {}
                        Verdict::Unproven => outcome.unproven.push(attempt.name.clone()),
                        Verdict::Wrong => outcome.wrong.push(told),
                    }
                }
            });
        }
    });
    outcome.into_inner().unwrap()
}

enum Verdict {
    Right,
    Unproven,
    Wrong,
}

fn judge(attempt: &Attempt, setting: Setting, succeeded: bool) -> Verdict {
    let (network, reduced) = match setting {
        Setting::Bare if succeeded => return Verdict::Right,
        Setting::Bare if attempt.needs.is_some() => return Verdict::Unproven,
        Setting::Bare => return Verdict::Wrong,
        Setting::Sandbox { network, reduced, .. } => (network, reduced),
    };
    let may = (network && (attempt.network || reduced && attempt.reduced_network))
        || (reduced && attempt.reduced.is_some());
    let must = reduced && attempt.reduced.is_some() && attempt.needs.is_none();
    match (succeeded, may, must) {
        (true, true, _) | (false, _, false) => Verdict::Right,
        (true, false, _) | (false, _, true) => Verdict::Wrong,
    }
}

/// Plays all attempts in some settings; none may be wrong.
fn hold(user: Option<u32>, settings: &[Setting]) {
    let table = load_table();
    let ground = Ground::new(user);
    for setting in settings {
        let outcome = play_all(&ground, &table, *setting);
        if !outcome.unproven.is_empty() {
            let names = outcome.unproven.join(", ");
            eprintln!("SKIPPED: not to be proven here as {user:?}: {names}");
        }
        assert!(outcome.wrong.is_empty(), "{}", outcome.wrong.join("\n"));
    }
}

fn ordinary_user() -> Option<u32> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // In a user namespace that knows no other user, nobody else can be.
    let can = Command::new("true").uid(ORDINARY_USER).gid(ORDINARY_USER).status();
    match can {
        Ok(_) => Some(ORDINARY_USER),
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied || error.raw_os_error() == Some(22) =>
        {
            eprintln!("SKIPPED: another user cannot be had here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn has_level(wanted: SandboxLevel) -> bool {
    let (level, reason) = level();
    if level < wanted {
        eprintln!("SKIPPED: no {wanted:?} sandbox here: {}", reason.unwrap_or_default());
    }
    level >= wanted
}

#[test]
fn every_attempt_succeeds_where_nothing_confines_it() {
    hold(None, &[Setting::Bare]);
    if let Some(user) = ordinary_user() {
        hold(Some(user), &[Setting::Bare]);
    }
}

#[test]
fn no_attempt_escapes_the_full_sandbox() {
    if has_level(SandboxLevel::Full) {
        hold(None, &[Setting::READ_ONLY, Setting::WRITE, Setting::NETWORK]);
    }
}

#[test]
fn no_attempt_of_an_ordinary_user_escapes_the_full_sandbox() {
    if let Some(user) = ordinary_user().filter(|_| has_level(SandboxLevel::Full)) {
        hold(Some(user), &[Setting::READ_ONLY, Setting::WRITE]);
    }
}

#[test]
fn the_reduced_sandbox_stops_all_but_what_is_listed() {
    if has_level(SandboxLevel::Reduced) {
        hold(None, &[Setting::REDUCED]);
        if let Some(user) = ordinary_user() {
            hold(Some(user), &[Setting::REDUCED]);
        }
    }
}

#[test]
fn what_the_reduced_level_leaves_open_is_what_is_told() {
    let listed: BTreeSet<&str> = open_at_reduced_level().iter().copied().collect();
    let table = load_table();
    let proven: BTreeSet<&str> = table.iter().filter_map(|it| it.reduced.as_deref()).collect();
    let unproven: Vec<_> = listed.difference(&proven).collect();
    assert!(unproven.is_empty(), "no attempt shows: {unproven:?}");
    let untold: Vec<_> = proven.difference(&listed).collect();
    assert!(untold.is_empty(), "the list does not say: {untold:?}");
    let names: BTreeSet<&str> = table.iter().map(|attempt| attempt.name.as_str()).collect();
    assert_eq!(names.len(), table.len(), "two attempts have one name");
    assert!(table.len() >= 110);
    // A script that fails in its first word proves nothing.
    assert!(table.iter().all(|attempt| !attempt.script.is_empty()));
    std::io::stderr().flush().unwrap();
}
