//! Screens from recorded events and keys, as a terminal shows them.
//!
//! A case of `tests/fixtures/tui` is `events.jsonl`: a line is an event's `msg` with `call_id`,
//! `turn` beside it, or one of `keys`, `paste`, `tick`, `size`, `focus`, `files`, `shot`. It is played at every
//! size through the real bytes into a terminal emulator, and what that shows is compared with
//! `<columns>x<rows>.txt` (with `-light`, `-mono` or `-styles` for how). Whatever the case, each
//! finished line stands in the scrollback exactly once.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::input::{Input, InputParser};
use crate::frontend::tui::model::{Facts, Model};
use crate::frontend::tui::msg::{Msg, Size};
use crate::frontend::tui::screen::Screen;
use crate::frontend::tui::theme::{Depth, Shade, Theme};
use crate::frontend::tui::update::{fit, update};
use crate::frontend::tui::view::view;
use crate::protocol::Event;

/// What a case is played at when it says nothing.
const SIZES: &str = "80x24 40x12";
/// Played for what must hold everywhere, and not compared.
const ODD_SIZES: [(u16, u16); 6] = [(1, 1), (2, 3), (7, 2), (20, 5), (33, 40), (120, 40)];

/// A terminal with a screen in it.
struct Stage {
    model: Model,
    screen: Screen,
    terminal: vt100::Parser,
    parser: InputParser,
    cmds: Vec<String>,
    /// Lines as they were printed.
    printed: Vec<String>,
    bytes: usize,
    shots: String,
    with_styles: bool,
}

impl Stage {
    fn new(size: Size, theme: Theme) -> Self {
        let facts = Facts {
            cwd: PathBuf::from("/home/ada/parser"),
            home: PathBuf::from("/home/ada"),
            branch: Some("main".to_owned()),
            models: vec!["gpt-5.5".to_owned(), "gpt-5-mini".to_owned()],
            ..Facts::default()
        };
        let mut model = Model::new(facts, size, theme);
        fit(&mut model);
        Self {
            model,
            screen: Screen::new(size, false),
            terminal: vt100::Parser::new(size.height, size.width, 100_000),
            parser: InputParser::default(),
            cmds: Vec::new(),
            printed: Vec::new(),
            bytes: 0,
            shots: String::new(),
            with_styles: false,
        }
    }

    fn take(&mut self, msg: Msg) {
        for cmd in update(&mut self.model, msg) {
            self.cmds.push(match cmd {
                Cmd::Submit(op) => serde_json::to_string(&op).unwrap(),
                other => format!("{other:?}"),
            });
        }
    }

    fn frame(&mut self) {
        self.model.settle();
        let view = view(&self.model);
        let finished = if view.is_full { Vec::new() } else { self.model.take_printed() };
        self.printed.extend(finished.iter().map(|line| {
            let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
            text.trim_end().to_owned()
        }));
        let bytes = self.screen.paint(&finished, &view);
        self.feed(&bytes);
        self.take(Msg::Drawn);
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.terminal.process(bytes);
    }

    fn keys(&mut self, text: &str) {
        let mut inputs = self.parser.push(&bytes_of(text));
        inputs.extend(self.parser.flush());
        for input in inputs {
            self.take(match input {
                Input::Key(key) => Msg::Key(key),
                Input::Paste(text) => Msg::Paste { text, files: Vec::new() },
                Input::Focus(focused) => Msg::Focus(focused),
                Input::Background(shade) => Msg::Background(shade),
            });
        }
    }

    /// Plays one line of a case.
    fn play(&mut self, line: &str) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = text("shot") {
            let shown = self.dump();
            self.shots.push_str(&format!("=== {name}\n{shown}"));
            return;
        }
        if let Some(keys) = text("keys") {
            self.keys(&keys);
        } else if let Some(pasted) = text("paste") {
            self.take(Msg::Paste { text: pasted, files: Vec::new() });
        } else if let Some(now_ms) = value.get("tick").and_then(Value::as_u64) {
            self.take(Msg::Tick(now_ms));
        } else if let Some(focused) = value.get("focus").and_then(Value::as_bool) {
            self.take(Msg::Focus(focused));
        } else if let Some(files) = value.get("files").and_then(Value::as_array) {
            let names = files.iter().filter_map(Value::as_str).map(str::to_owned);
            self.take(Msg::Files(names.collect()));
        } else {
            self.take(Msg::Agent(Box::new(parse_event(line))));
        }
        self.frame();
    }

    /// Returns all lines of the terminal, the scrolled ones first.
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

    fn dump(&mut self) -> String {
        let (rows, columns) = self.terminal.screen().size();
        let mut lines = self.lines();
        let visible = lines.split_off(lines.len() - usize::from(rows));
        let mut shown = String::new();
        for line in lines {
            shown.push_str(&format!("{line}\n"));
        }
        shown.push_str(&format!("{}\n", "=".repeat(usize::from(columns.min(20)))));
        let end = visible.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
        for (row, line) in (0..).zip(visible.iter().take(end)) {
            shown.push_str(&format!("{line}\n"));
            if self.with_styles {
                shown.push_str(&self.styles(row, columns));
            }
        }
        let screen = self.terminal.screen();
        let (row, column) = screen.cursor_position();
        match screen.hide_cursor() {
            true => shown.push_str("~ no cursor\n"),
            false => shown.push_str(&format!("~ cursor {column},{row}\n")),
        }
        shown
    }

    /// Returns a line of letters under a row: which colour or weight each cell has.
    fn styles(&self, row: u16, columns: u16) -> String {
        let letter = |column: u16| {
            let Some(cell) = self.terminal.screen().cell(row, column) else { return ' ' };
            let weight = match () {
                () if cell.inverse() => 'i',
                () if cell.underline() => 'u',
                () if cell.bold() => 'b',
                () if cell.dim() => 'd',
                () if cell.italic() => '/',
                () => ' ',
            };
            match cell.fgcolor() {
                vt100::Color::Default => weight,
                vt100::Color::Idx(number) if weight == ' ' => {
                    "krgymcwWKRGYBMCX".chars().nth(usize::from(number)).unwrap_or('*')
                }
                vt100::Color::Idx(number) => {
                    "0RGYBMCW".chars().nth(usize::from(number % 8)).unwrap_or('*')
                }
                vt100::Color::Rgb(..) => '#',
            }
        };
        let letters: String = (0..columns).map(letter).collect();
        let letters = letters.trim_end();
        if letters.is_empty() { String::new() } else { format!("{letters} <\n") }
    }

    /// Ends as the program does, and checks that what is left is what was printed.
    fn assert_printed_once(mut self, case: &str) {
        self.model.overlays.clear();
        self.model.is_quitting = true;
        self.model.end_stream(None);
        self.frame();
        let bytes = self.screen.clear();
        self.feed(&bytes);
        let mut lines = self.lines();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let columns = usize::from(self.terminal.screen().size().1);
        // The emulator measures joined emoji by their parts.
        let is_measured = self.printed.iter().all(|line| !line.contains('\u{200d}'));
        if columns >= 20 && is_measured {
            while self.printed.last().is_some_and(String::is_empty) {
                self.printed.pop();
            }
            assert_eq!(lines, self.printed, "{case}: printed once, and nothing else is left");
        }
    }
}

/// Returns the bytes of keys as they are written in a case: `<enter>`, `<ctrl-t>`, text.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        bytes.extend_from_slice(before.as_bytes());
        let (name, after) = after.split_once('>').unwrap_or((after, ""));
        let named: &[u8] = match name {
            "enter" => b"\r",
            "esc" => b"\x1b",
            "tab" => b"\t",
            "up" => b"\x1b[A",
            "down" => b"\x1b[B",
            "left" => b"\x1b[D",
            "right" => b"\x1b[C",
            "backspace" => b"\x7f",
            "pgup" => b"\x1b[5~",
            "pgdn" => b"\x1b[6~",
            "home" => b"\x1b[H",
            "end" => b"\x1b[F",
            "shift-tab" => b"\x1b[Z",
            "alt-enter" => b"\x1b\r",
            "alt-up" => b"\x1b[1;3A",
            _ => {
                let letter = name.strip_prefix("ctrl-").unwrap_or_else(|| panic!("<{name}>"));
                bytes.push(letter.as_bytes()[0] & 0x1f);
                b""
            }
        };
        bytes.extend_from_slice(named);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn parse_event(line: &str) -> Event {
    let Value::Object(mut msg) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
    let call_id = msg.remove("call_id").unwrap_or(Value::Null);
    let turn = msg.get("turn").cloned().unwrap_or_else(|| json!(1));
    serde_json::from_value(json!({
        "v": 1, "seq": 1, "prev_hash": "", "at": "2026-11-21T10:00:00.000Z", "turn": turn,
        "call_id": call_id, "msg": msg, "session": "01a1fd0d-043f-7c81-b79a-636f3f116ff1",
    }))
    .unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn play(script: &str, size: Size, theme: Theme) -> Stage {
    let mut stage = Stage::new(size, theme);
    stage.frame();
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        stage.play(line);
    }
    stage
}

/// Reads `80x24-light`.
fn parse_look(name: &str) -> (Size, Theme, bool) {
    let (size, how) = name.split_once('-').unwrap_or((name, ""));
    let (width, height) = size.split_once('x').unwrap();
    let size = Size { width: width.parse().unwrap(), height: height.parse().unwrap() };
    let theme = match how {
        "light" => Theme { shade: Shade::Light, ..Theme::default() },
        "mono" => Theme { depth: Depth::Mono, ..Theme::default() },
        _ => Theme::default(),
    };
    (size, theme, !how.is_empty())
}

fn cases() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tui");
    let mut cases: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|case| case.unwrap().path())
        .map(|case| {
            let name = case.file_name().unwrap().to_string_lossy().into_owned();
            let script = fs::read_to_string(case.join("events.jsonl")).unwrap();
            (name, case, script)
        })
        .collect();
    cases.sort();
    cases
}

#[test]
fn fixtures() {
    let cases = cases();
    for (name, case, script) in &cases {
        let looks = fs::read_to_string(case.join("sizes.txt")).unwrap_or_else(|_| SIZES.to_owned());
        for look in looks.split_whitespace() {
            let (size, theme, with_styles) = parse_look(look);
            let mut stage = Stage::new(size, theme);
            stage.with_styles = with_styles;
            stage.frame();
            script.lines().filter(|line| !line.trim().is_empty()).for_each(|line| stage.play(line));
            let mut shown = std::mem::take(&mut stage.shots);
            shown.push_str(&stage.dump());
            for cmd in &stage.cmds {
                shown.push_str(&format!("> {cmd}\n"));
            }
            expect_file![case.join(format!("{look}.txt"))].assert_eq(&shown);
            stage.assert_printed_once(&format!("{name} at {look}"));
        }
    }
    assert!(cases.len() >= 2, "the fixtures were found");
}

#[test]
fn every_case_holds_at_every_size() {
    for (name, _, script) in cases() {
        for (width, height) in ODD_SIZES {
            let stage = play(&script, Size { width, height }, Theme::default());
            stage.assert_printed_once(&format!("{name} at {width}x{height}"));
        }
    }
}
