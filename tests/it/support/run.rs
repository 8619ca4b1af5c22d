//! Runs the built binary in a house of its own: an empty home, a workspace, a clean environment.
//!
//! Both lie below the target directory, not below `/tmp`, which commands may write. Every run
//! is bounded: what does not end is killed with its group and reported. Knows nothing of what
//! the arguments mean. Used by every test that needs the whole program.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Far beyond what any test needs on a loaded machine; only a hang reaches it.
pub(crate) const RUN_AT_MOST: Duration = Duration::from_secs(60);

/// A home and a workspace that vanish with it.
pub(crate) struct House {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// As a shell has it: 128 + n for signal n.
    pub(crate) code: i32,
    /// Whether it had to be killed.
    pub(crate) hung: bool,
}

/// A run under way.
pub(crate) struct Running {
    child: Child,
    stdout: Option<thread::JoinHandle<Vec<u8>>>,
    stderr: Option<thread::JoinHandle<Vec<u8>>>,
}

/// What a run gets on stdin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stdin<'a> {
    Nothing,
    /// A pipe with this text, then its end.
    Text(&'a str),
    /// A pipe that says nothing and stays open.
    Open,
}

/// Returns a directory for tests that commands may not write of themselves: the target
/// directory's, unless the checkout itself lies in a temporary directory.
pub(crate) fn closed_directory() -> &'static Path {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_open = own.starts_with("/tmp") || own.starts_with(std::env::temp_dir());
    if is_open { Path::new("/var/tmp") } else { own }
}

impl House {
    pub(crate) fn new() -> Self {
        let folder =
            tempfile::Builder::new().prefix("house-").tempdir_in(closed_directory()).unwrap();
        for name in ["home", "gimlet", "workspace"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, env: Vec::new() }
    }

    /// Returns `GIMLET_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("gimlet")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root().join("workspace")
    }

    /// Returns the real path above both.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn write_config(&self, text: &str) {
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// Points the default provider to a mock server.
    pub(crate) fn use_server(&self, base_url: &str) {
        self.write_config(&format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{base_url}\"\n\
             wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
        ));
    }

    /// Returns the binary with arguments, in the workspace, with nothing of our environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
        command
            .args(args)
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root().join("home"))
            .env("GIMLET_HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .envs(self.env.iter().cloned());
        command
    }

    /// Runs to the end without stdin.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args), Stdin::Nothing)
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: Command, stdin: Stdin<'_>) -> Ended {
    let (running, pipe) = start(command, stdin);
    let ended = running.wait();
    // An open pipe must outlive the run: that is what the test is about.
    drop(pipe);
    ended
}

/// Starts a command in a group of its own, its output read in the background.
pub(crate) fn start(
    mut command: Command,
    stdin: Stdin<'_>,
) -> (Running, Option<std::process::ChildStdin>) {
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if matches!(stdin, Stdin::Nothing) { Stdio::null() } else { Stdio::piped() });
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take();
    if let (Stdin::Text(text), Some(mut pipe)) =
        (stdin, pipe.take_if(|_| matches!(stdin, Stdin::Text(_))))
    {
        let text = text.to_owned();
        // It may exit without reading: then the pipe breaks, which is its right.
        thread::spawn(move || pipe.write_all(text.as_bytes()));
    }
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    (Running { child, stdout, stderr }, pipe)
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        all
    })
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the program alone.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end, or ends it.
    pub(crate) fn wait(mut self) -> Ended {
        let pid = self.pid();
        let (tx, rx) = mpsc::channel();
        let mut child = self.child;
        thread::spawn(move || tx.send(child.wait()));
        let first = rx.recv_timeout(RUN_AT_MOST);
        let hung = first.is_err();
        if hung {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = first.unwrap_or_else(|_| rx.recv().unwrap()).unwrap();
        let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
            let bytes = reader.map(|r| r.join().unwrap()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let code = status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(-1);
        Ended { stdout: text(self.stdout.take()), stderr: text(self.stderr.take()), code, hung }
    }
}

/// Copies a program into a folder. By a process of its own: a child that another thread starts
/// meanwhile would hold the copy open for writing, and it could not be executed.
pub(crate) fn copy_program(program: &Path, folder: &Path) {
    let copied = Command::new("cp").arg(program).arg(folder).status().unwrap();
    assert!(copied.success(), "{} cannot be copied", program.display());
}

/// Copies a folder with all below it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
