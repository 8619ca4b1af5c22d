//! Commands that outlive their calls: interactive programs in terminals of their own, and
//! that nothing is left of any command, however the program itself ends.
//!
//! A process is known by a number that only its command line holds, since inside a sandbox it
//! has another id than outside. Linux only.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gimlet::protocol::{GitAccess, Network, SandboxLevel, SandboxMode, SandboxPolicy};
use gimlet::sandbox::{
    CommandRunner, ExecRequest, ExitState, Input, LocalRunner, Process, TerminalSize, level,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::run::{House, RUN_AT_MOST, Stdin, start};

/// Where commands run in these tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Sandbox,
    Outside,
}

fn places() -> Vec<Place> {
    if let Err(error) = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR) {
        eprintln!("SKIPPED: no terminal is to be had here: {error}");
        return Vec::new();
    }
    let (level, reason) = level();
    if level == SandboxLevel::None {
        eprintln!("SKIPPED: in the sandbox: {}", reason.unwrap_or_default());
        return vec![Place::Outside];
    }
    vec![Place::Sandbox, Place::Outside]
}

// ---------------------------------------------------------------- interactive programs

/// Starts a program in a terminal and speaks with it: each step waits for a text and then types.
fn converse(
    directory: &Path,
    argv: &[&str],
    place: Place,
    steps: &[(&str, &str)],
) -> (String, ExitState) {
    let policy = SandboxPolicy {
        mode: SandboxMode::WorkspaceWrite,
        roots: vec![directory.to_path_buf()],
        network: Network::Off,
        deny_read: Vec::new(),
        deny_write: Vec::new(),
        git: GitAccess::Allow,
        tmp: true,
    };
    let env = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", directory.display().to_string()),
        ("TERM", "xterm".to_owned()),
        ("PYENV_ROOT", std::env::var("PYENV_ROOT").unwrap_or_default()),
    ];
    let request = ExecRequest {
        argv: argv.iter().map(|part| (*part).to_owned()).collect(),
        cwd: directory.to_path_buf(),
        env: env.map(|(name, value)| (name.to_owned(), value)).into(),
        attempts: None,
        sandbox: (place == Place::Sandbox).then_some(policy),
    };
    let runner = LocalRunner::new(PathBuf::from(env!("CARGO_BIN_EXE_gimlet")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let input = Input::Terminal(TerminalSize::default());
        let mut process = runner.spawn_with(request, input).unwrap();
        let spoken = tokio::time::timeout(RUN_AT_MOST, speak(&mut process, steps)).await;
        let spoken = spoken.unwrap_or_else(|_| panic!("{argv:?} hangs at {place:?}"));
        process.control.kill().await;
        spoken
    })
}

async fn speak(process: &mut Process, steps: &[(&str, &str)]) -> (String, ExitState) {
    let mut input = process.input.take().unwrap();
    let (mut seen, mut from) = (String::new(), 0);
    for (awaited, typed) in steps {
        while !seen[from..].contains(awaited) {
            let mut buffer = [0; 4096];
            let count = process.output.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "it ended before {awaited:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        from = seen.len();
        input.write_all(typed.as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }
    let mut rest = Vec::new();
    process.output.read_to_end(&mut rest).await.unwrap();
    seen.push_str(&String::from_utf8_lossy(&rest));
    (seen, process.control.wait().await.unwrap())
}

/// Returns whether a program is there and works.
fn works(argv: &[&str]) -> bool {
    let status = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let works = status.is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: {} is not here", argv[0]);
    }
    works
}

const ENDED_WELL: ExitState = ExitState { code: Some(0), signal: None };

#[test]
fn a_shell_is_spoken_with_and_interrupted() {
    for place in places() {
        let house = House::new();
        let steps = [
            ("$ ", "stty size; tty; echo $((6*7))-\n"),
            // Interrupted once it speaks: until then the terminal may still be the shell's.
            ("42-", "sh -c 'echo up-$((1+1)); exec sleep 600'\n"),
            ("up-2", "\u{3}"),
            ("$ ", "jobs; echo still-$((1+1))\n"),
            ("still-2", "\u{4}"),
        ];
        let argv = ["env", "PS1=$ ", "/bin/sh", "-i"];
        let (seen, _) = converse(&house.workspace(), &argv, place, &steps);
        assert!(seen.contains("24 80") && seen.contains("/dev/pts/"), "{place:?}: {seen}");
        assert!(!seen.contains("job control turned off"), "{place:?}: {seen}");
    }
}

#[test]
fn python_answers_line_by_line() {
    let argv = ["/usr/bin/python3", "-q"];
    if !works(&["/usr/bin/python3", "-V"]) {
        return;
    }
    for place in places() {
        let house = House::new();
        let steps = [
            (">>> ", "6*7\r"),
            // Interrupted once it is within: until then the key may go to the line's editor.
            ("42", "while True: __import__('time').sleep(print('in'+'side') or 600)\r\r"),
            ("inside", "\u{3}"),
            ("KeyboardInterrupt", "import os; print(os.isatty(0), 'tty')\r"),
            ("True tty", "exit(0)\r"),
        ];
        let (seen, end) = converse(&house.workspace(), &argv, place, &steps);
        assert_eq!(end, ENDED_WELL, "{place:?}: {seen}");
    }
}

#[test]
fn vim_writes_a_file() {
    let Some(vim) = ["vim", "vi"].into_iter().find(|vim| works(&[vim, "--version"])) else {
        return;
    };
    for place in places() {
        let house = House::new();
        let argv = [vim, "-u", "NONE", "-i", "NONE", "-n", "new.txt"];
        let steps = [("~", "ihello from vim\u{1b}"), ("from vim", ":wq\r")];
        let (seen, end) = converse(&house.workspace(), &argv, place, &steps);
        assert_eq!(end, ENDED_WELL, "{place:?}: {seen}");
        let written = fs::read_to_string(house.workspace().join("new.txt")).unwrap();
        assert_eq!(written, "hello from vim\n", "{place:?}");
    }
}

#[test]
fn git_adds_hunk_by_hunk() {
    if !works(&["git", "--version"]) {
        return;
    }
    for place in places() {
        let house = House::new();
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
            command.current_dir(house.workspace()).env("HOME", house.root());
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let file = house.workspace().join("f");
        git(&["init", "-q"]);
        fs::write(&file, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n").unwrap();
        git(&["add", "f"]);
        git(&["commit", "-qm", "one"]);
        fs::write(&file, "A\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nL\n").unwrap();
        let steps = [("[y,n", "n\n"), ("[y,n", "y\n")];
        let (seen, end) = converse(&house.workspace(), &["git", "add", "-p"], place, &steps);
        assert_eq!(end, ENDED_WELL, "{place:?}: {seen}");
        let staged = git(&["diff", "--cached"]);
        assert!(staged.contains("+L") && !staged.contains("+A"), "{place:?}: {staged}");
    }
}

// ---------------------------------------------------------------- nothing survives

/// How many processes the tree has.
const SLEEPERS: usize = 5;

/// Returns a number of seconds that no other process sleeps.
fn unique_seconds() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("86400.{}{count:03}", std::process::id())
}

/// Returns the command lines of all processes that hold a text.
fn find_processes(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(mark)).collect()
}

/// Waits until a condition of the machine holds; only a fault takes long.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < RUN_AT_MOST, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How the command is run, and where the model is when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The call waits for the command.
    Called,
    /// The command was left running, with pipes.
    Kept,
    /// The command was left running, in a terminal.
    KeptInTerminal,
}

const STAGES: [Stage; 3] = [Stage::Called, Stage::Kept, Stage::KeptInTerminal];

/// Returns the arguments of a run whose command starts a tree of processes that all leave it:
/// by session, by double fork, by ignoring the hangup.
fn plant(house: &House, stage: Stage, place: Place, seconds: &str) -> Vec<String> {
    let cmd = format!(
        "setsid sleep {seconds} & (setsid sh -c 'sleep {seconds} & sleep {seconds}' &)\n\
         nohup sleep {seconds} > /dev/null 2>&1 &\nsleep {seconds}; true"
    );
    let kept = stage != Stage::Called;
    let arguments = json!({
        "cmd": cmd,
        "yield_time_ms": if kept { 250 } else { 30_000 },
        "tty": stage == Stage::KeptInTerminal,
    });
    let script = [
        json!({"call": {"name": "exec_command", "arguments": arguments}}),
        json!({"end": {}}),
        json!({"delay_ms": 600_000}),
        json!({"say": "Done."}),
        json!({"end": {}}),
    ];
    let path = house.root().join("script.jsonl");
    fs::write(&path, script.map(|line| line.to_string() + "\n").concat()).unwrap();
    let mut args = ["exec", "--driver", "fake", "--events", "--script"].map(str::to_owned).to_vec();
    args.push(path.display().to_string());
    if place == Place::Outside {
        args.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
    }
    args.push("go".to_owned());
    args
}

/// Waits until the whole tree runs, and the command was left running where it is to be.
fn wait_for_tree(house: &House, stage: Stage, seconds: &str) {
    let mark = format!("sleep {seconds} ");
    let is_sleeper = |line: &String| line.starts_with(&mark);
    wait_until("the tree", || {
        find_processes(seconds).iter().filter(|line| is_sleeper(line)).count() == SLEEPERS
    });
    if stage != Stage::Called {
        wait_until("the yield", || read_log(house).contains("process_started"));
    }
}

fn read_log(house: &House) -> String {
    fn collect(directory: &Path, log: &mut String) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, log);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                log.push_str(&fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut log = String::new();
    collect(&house.home(), &mut log);
    log
}

fn each_case(mut case: impl FnMut(Stage, Place)) {
    for place in places() {
        for stage in STAGES {
            case(stage, place);
        }
    }
}

#[test]
fn a_signal_leaves_nothing_of_any_command() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        each_case(|stage, place| {
            let (house, seconds) = (House::new(), unique_seconds());
            let args = plant(&house, stage, place, &seconds);
            let (running, _pipe) = start(house.command(args), Stdin::Nothing);
            wait_for_tree(&house, stage, &seconds);
            running.signal(signal);
            let ended = running.wait();
            let left = find_processes(&seconds);
            assert_eq!(left, Vec::<String>::new(), "{signal:?} {stage:?} {place:?}");
            assert_eq!(ended.code, code, "{signal:?} {stage:?} {place:?}: {ended:?}");
            if stage != Stage::Called {
                let log = read_log(&house);
                let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let ends = events.filter(|event| event["msg"]["type"] == "process_ended");
                assert_eq!(ends.count(), 1, "{log}");
            }
        });
    }
}

#[test]
fn a_killed_program_leaves_nothing_of_any_command() {
    each_case(|stage, place| {
        let (house, seconds) = (House::new(), unique_seconds());
        let args = plant(&house, stage, place, &seconds);
        let (running, _pipe) = start(house.command(args), Stdin::Nothing);
        wait_for_tree(&house, stage, &seconds);
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code, 137);
        // Nobody waits for those who end it then.
        wait_until("the end of all", || find_processes(&seconds).is_empty());
    });
}

#[test]
fn a_terminal_that_closes_leaves_nothing_of_any_command() {
    if !works(&["setsid", "--version"]) {
        return;
    }
    each_case(|stage, place| {
        let (house, seconds) = (House::new(), unique_seconds());
        let args = plant(&house, stage, place, &seconds);
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let near = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::unlockpt(&near).unwrap();
        let far = rustix::pty::ioctl_tiocgptpeer(&near, flags).unwrap();
        let gimlet = house.command(args);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(gimlet.get_program()).args(gimlet.get_args());
        command.current_dir(house.workspace()).env_clear();
        command.envs(gimlet.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(far.try_clone().unwrap()).stdout(far.try_clone().unwrap()).stderr(far);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut near = fs::File::from(near);
        wait_for_tree(&house, stage, &seconds);
        // Something was printed; what more comes nobody reads.
        assert!(near.read(&mut [0; 64]).unwrap() > 0);
        drop(near);
        child.wait().unwrap();
        wait_until("the end of all", || find_processes(&seconds).is_empty());
    });
}

#[test]
fn an_ordinary_end_leaves_nothing_of_any_command() {
    each_case(|stage, place| {
        if stage == Stage::Called {
            return;
        }
        let (house, seconds) = (House::new(), unique_seconds());
        let args = plant(&house, stage, place, &seconds);
        let script = house.root().join("script.jsonl");
        let text = fs::read_to_string(&script).unwrap();
        fs::write(&script, text.replace("{\"delay_ms\":600000}\n", "")).unwrap();
        let (running, _pipe) = start(house.command(args), Stdin::Nothing);
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(find_processes(&seconds), Vec::<String>::new(), "{stage:?} {place:?}");
        assert!(read_log(&house).contains("process_ended"), "{stage:?} {place:?}");
    });
}

#[test]
fn a_timeout_ends_what_was_left_running() {
    each_case(|stage, place| {
        let (house, seconds) = (House::new(), unique_seconds());
        let args = plant(&house, stage, place, &seconds);
        let script = house.root().join("script.jsonl");
        let text = fs::read_to_string(&script).unwrap();
        let text = text.replace("\"tty\"", "\"timeout_ms\":1500,\"tty\"");
        fs::write(&script, text).unwrap();
        let (running, _pipe) = start(house.command(args), Stdin::Nothing);
        wait_for_tree(&house, stage, &seconds);
        wait_until("the timeout", || find_processes(&seconds).is_empty());
        running.signal(Signal::TERM);
        assert_eq!(running.wait().code, 143);
    });
}
