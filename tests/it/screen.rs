//! The screen in a real terminal: a pseudo-terminal whose other end is an emulator.
//!
//! Plays a person: types, waits until something can be read, answers, and looks at what is left
//! in the scrollback. Waiting is bounded far beyond what a slow machine needs, and nothing
//! depends on how long anything takes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::run::{House, RUN_AT_MOST, Stdin, run};

/// Rows of scrollback that are kept: more than any test makes.
const SCROLLBACK: usize = 10_000;

/// Returns whether this machine gives out terminals; some containers have none.
fn has_terminals() -> bool {
    let opened = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY);
    if let Err(error) = &opened {
        eprintln!("SKIPPED: no terminal is to be had here: {error}");
    }
    opened.is_ok()
}

/// A program in a terminal.
struct Seat {
    child: Child,
    keyboard: File,
    /// The terminal's own side, to look at its modes.
    tty: File,
    output: Receiver<Vec<u8>>,
    terminal: vt100::Parser,
    /// All bytes that came.
    bytes: Vec<u8>,
}

impl Seat {
    fn open(house: &House, script: &str, (columns, rows): (u16, u16)) -> Self {
        let path = house.root().join("script.jsonl");
        std::fs::write(&path, script).unwrap();
        let mut command = house.command(["--driver", "fake", "--script"]);
        command.arg(path).env("TERM", "xterm-256color").env("XTERM_VERSION", "none");
        Self::start(command, (columns, rows))
    }

    fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            use rustix::fs::{Mode, OFlags};
            rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap()
        };
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let end = || Stdio::from(open());
        command.process_group(0).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let tty = File::from(open());
        let output = read_in_background(master.try_clone().unwrap());
        Self {
            child,
            keyboard: File::from(master),
            tty,
            output,
            // The emulator itself does not survive the smallest sizes.
            terminal: vt100::Parser::new(rows.max(10), columns.max(20), SCROLLBACK),
            bytes: Vec::new(),
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the terminal shows what is asked for.
    fn wait_for(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let until = Instant::now() + RUN_AT_MOST;
        while !holds(&self.terminal.screen().contents()) {
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => {
                    panic!("{what}: {error}\n{}", self.terminal.screen().contents())
                }
            }
        }
    }

    fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |shown| shown.contains(text));
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.terminal.process(bytes);
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
        self.terminal.screen_mut().set_size(rows, columns);
        // The program has no controlling terminal here, so nobody else tells it.
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    /// Waits for the end, and takes in what was said until then.
    fn wait_for_end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let until = Instant::now() + RUN_AT_MOST;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
                    self.take(&bytes);
                }
                return status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(-1);
            }
            match self.output.recv_timeout(Duration::from_millis(20)) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if Instant::now() > until {
                self.child.kill().unwrap();
                panic!("it did not end\n{}", self.terminal.screen().contents());
            }
        }
    }

    /// Returns all lines, the scrolled ones first.
    fn lines(&mut self) -> Vec<String> {
        let (_, columns) = self.terminal.screen().size();
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        let count = screen.scrollback();
        let mut lines = Vec::new();
        for offset in (1..=count).rev() {
            screen.set_scrollback(offset);
            lines.extend(screen.rows(0, columns).next().map(|row| row.trim_end().to_owned()));
        }
        screen.set_scrollback(0);
        lines.extend(screen.rows(0, columns).map(|row| row.trim_end().to_owned()));
        lines
    }

    fn count(&mut self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }

    /// Returns whether the terminal echoes and collects lines, as shells want it.
    fn is_itself(&self) -> bool {
        let modes = tcgetattr(&self.tty).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_in_background(master: OwnedFd) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut master = File::from(master);
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

const ANSWER: &str = r#"{"delta": "First paragraph.\n\n"}
{"delta": "Second paragraph."}
{"item": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "First paragraph.\n\nSecond paragraph."}]}}
{"end": {"usage": {"input_tokens": 10, "output_tokens": 3}}}
"#;

#[test]
fn a_prompt_is_answered_and_the_terminal_is_given_back() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let mut seat = Seat::open(&house, ANSWER, (80, 24));
    seat.wait_for_text("sandboxed");
    assert!(!seat.is_itself(), "keys come one by one");
    seat.type_in("say something\r");
    seat.wait_for_text("Second paragraph.");
    seat.wait_for_text("tokens");
    seat.type_in("\u{3}\u{3}");
    assert_eq!(seat.wait_for_end(), 0);
    assert!(seat.is_itself(), "the shell finds its terminal as it was");
    assert!(!seat.terminal.screen().hide_cursor() && !seat.terminal.screen().alternate_screen());
    assert!(!seat.terminal.screen().bracketed_paste());
    for line in ["gimlet 0.1.0", "› say something", "First paragraph.", "Second paragraph."] {
        assert_eq!(seat.count(line), 1, "{line}: {:#?}", seat.lines());
    }
    assert_eq!(seat.count("────"), 0, "nothing of what moved is left");
}

#[test]
fn a_question_is_answered_by_a_key_and_the_command_runs() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let script = r#"{"call": {"name": "exec_command", "arguments": {"cmd": "echo from-the-command", "sandbox_permissions": "require_escalated", "justification": "to see it"}}}
{"end": {}}
{"expect": {"last_output_contains": "from-the-command"}}
{"say": "It ran."}
{"end": {}}
"#;
    let mut seat = Seat::open(&house, script, (80, 24));
    seat.wait_for_text("sandboxed");
    seat.type_in("run it\r");
    seat.wait_for_text("yes, once");
    // What comes while the user types counts as meant for the composer, so a pause goes before
    // each try.
    let until = Instant::now() + RUN_AT_MOST;
    while !seat.terminal.screen().contents().contains("It ran.") && Instant::now() < until {
        while let Ok(bytes) = seat.output.recv_timeout(Duration::from_millis(1_200)) {
            seat.take(&bytes);
        }
        seat.type_in("y");
    }
    seat.wait_for_text("It ran.");
    assert_eq!(seat.count("you allowed it once"), 1);
    assert!(seat.count("from-the-command") >= 2, "the command and what it printed");
}

#[test]
fn escape_stops_a_turn_and_nothing_is_lost() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let script = "{\"delta\": \"Half of a\"}\n{\"delay_ms\": 600000}\n{\"end\": {}}\n";
    let mut seat = Seat::open(&house, script, (80, 24));
    seat.wait_for_text("sandboxed");
    seat.type_in("begin\r");
    seat.wait_for_text("Half of a");
    seat.type_in("\u{1b}");
    seat.wait_for_text("stopped; what was done so far is kept");
    assert_eq!(seat.count("Half of a"), 1);
    seat.type_in("\u{4}");
    assert_eq!(seat.wait_for_end(), 0);
}

#[test]
fn a_resize_leaves_every_finished_line_once() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let mut seat = Seat::open(&house, ANSWER, (80, 24));
    seat.wait_for_text("sandboxed");
    seat.type_in("say something\r");
    seat.wait_for_text("tokens");
    seat.resize(50, 30);
    seat.wait_for("the rule is as wide as the terminal", |shown| {
        shown.lines().any(|line| line == "─".repeat(50))
    });
    seat.resize(100, 30);
    seat.wait_for("the rule is as wide as the terminal", |shown| {
        shown.lines().any(|line| line == "─".repeat(100))
    });
    for line in ["gimlet 0.1.0", "› say something", "First paragraph.", "Second paragraph."] {
        assert_eq!(seat.count(line), 1, "{line}: {:#?}", seat.lines());
    }
    assert_eq!(seat.count("────"), 1, "{:#?}", seat.lines());
}

#[test]
fn signals_end_it_and_give_the_terminal_back() {
    if !has_terminals() {
        return;
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let house = House::new();
        let script = "{\"delta\": \"Half of a\"}\n{\"delay_ms\": 600000}\n{\"end\": {}}\n";
        let mut seat = Seat::open(&house, script, (80, 24));
        seat.wait_for_text("sandboxed");
        seat.type_in("begin\r");
        seat.wait_for_text("Half of a");
        kill_process(Pid::from_child(&seat.child), signal).unwrap();
        assert_eq!(seat.wait_for_end(), code, "{signal:?}");
        assert!(seat.is_itself(), "{signal:?}");
        assert_eq!(seat.count("Half of a"), 1, "{signal:?}");
    }
}

#[test]
fn a_lost_terminal_ends_the_session() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let script = "{\"delta\": \"Half of a\"}\n{\"delay_ms\": 600000}\n{\"end\": {}}\n";
    let mut seat = Seat::open(&house, script, (80, 24));
    seat.wait_for_text("sandboxed");
    seat.type_in("begin\r");
    seat.wait_for_text("Half of a");
    // The last holders of the terminal's other end, but for the thread that reads.
    seat.type_in("\u{1b}[?");
    kill_process(Pid::from_child(&seat.child), Signal::HUP).unwrap();
    assert_eq!(seat.wait_for_end(), 129);
    let log = house.run(&["audit", "last"]);
    assert_eq!(log.code, 0, "{log:?}");
}

#[test]
fn tiny_terminals_are_survived() {
    if !has_terminals() {
        return;
    }
    for size in [(1, 1), (2, 2), (9, 3), (40, 4)] {
        let house = House::new();
        let mut seat = Seat::open(&house, ANSWER, size);
        seat.wait_for("a prompt", |shown| !shown.trim().is_empty());
        seat.type_in("say\r");
        seat.type_in("\u{3}\u{3}");
        let code = seat.wait_for_end();
        assert!(code == 0, "{size:?}: {code}\n{}", String::from_utf8_lossy(&seat.bytes));
        assert!(seat.is_itself(), "{size:?}");
    }
}

#[test]
fn a_mistyped_command_is_not_sent_to_a_model() {
    let house = House::new();
    let ended = run(house.command(["aprovals"]), Stdin::Nothing);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("did you mean `gimlet approvals`?"), "{ended:?}");
    // A word like no command is a prompt.
    let ended = run(house.command(["simplify"]), Stdin::Nothing);
    assert!(ended.stderr.contains("needs a terminal"), "{ended:?}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    if !has_terminals() {
        return;
    }
    let house = House::new();
    let ended = run(house.command(["hello"]), Stdin::Nothing);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("gimlet exec"), "{}", ended.stderr);
    let mut command = house.command(["hello"]);
    command.env("TERM", "dumb");
    let mut seat = Seat::start(command, (80, 24));
    assert_eq!(seat.wait_for_end(), 2);
    assert_eq!(seat.count("TERM is `dumb`"), 1, "{:#?}", seat.lines());
    assert!(seat.is_itself());
}

#[test]
fn a_whole_session_goes_well_in_tmux() {
    let has_tmux = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
    if !has_tmux.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: tmux is not here");
        return;
    }
    let mut command = Command::new("sh");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tmux/session.sh");
    command.args([script, env!("CARGO_BIN_EXE_gimlet")]);
    let ended = run(command, Stdin::Nothing);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
}
