//! Tests of the composer: the cases of `tests/fixtures/composer`, and what holds for all.
//!
//! A case is `keys.txt`, one step a line, and `expected.txt`, what is seen at each `show` and at
//! the end. Keys go through the keymap, as on the screen. Steps: `size 20x4` · `type TEXT` ·
//! `key CHORD…` · `paste TEXT` · `more TEXT` · `lines N TEXT` (a paste of N lines) · `drag TEXT`
//! (files whose name holds `missing` are none) · `set TEXT` · `complete TEXT` · `history TEXT`
//! (one message a line) · `vim` · `show`. `\n`, `\t` and `\u{…}` in a text are what they say.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use unicode_segmentation::UnicodeSegmentation;

use crate::frontend::tui::composer::view::ComposerView;
use crate::frontend::tui::composer::{Composer, Kind, Outcome, VimKeys, image_paths};
use crate::frontend::tui::keymap::{Keymap, Pending, Step, key_event, typed};
use crate::frontend::tui::theme::{Role, Theme};

/// Presses keys as the screen's `update` does.
struct Desk {
    composer: Composer,
    keymap: Keymap,
    pending: Pending,
    size: (u16, u16),
    seen: String,
}

impl Desk {
    fn new() -> Self {
        let mut composer = Composer::new();
        let size = (20, 4);
        composer.fit(size.0, size.1);
        let keymap = Keymap::default();
        Self { composer, keymap, pending: Pending::default(), size, seen: String::new() }
    }

    fn press(&mut self, key: &str) -> Outcome {
        let key = key_event(key);
        match self.keymap.step(&mut self.pending, key, self.composer.context()) {
            Step::Wait => Outcome::Nothing,
            Step::Unbound => typed(key)
                .map_or(Outcome::Ignored, |c| self.composer.insert(c.encode_utf8(&mut [0; 4]))),
            Step::Act(action) => match self.composer.apply(action) {
                Outcome::Send => {
                    let draft = self.composer.take();
                    writeln!(self.seen, "sent {:?} {:?}", draft.kind, draft.text).unwrap();
                    for image in draft.images {
                        writeln!(self.seen, "  with {}", image.display()).unwrap();
                    }
                    Outcome::Send
                }
                Outcome::Ignored => {
                    writeln!(self.seen, "not the composer's: {action:?}").unwrap();
                    Outcome::Ignored
                }
                outcome => outcome,
            },
        }
    }

    fn step(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let text = unescape(rest);
        match word {
            "size" => {
                let (width, height) = rest.split_once('x').unwrap();
                self.size = (width.parse().unwrap(), height.parse().unwrap());
                self.composer.fit(self.size.0, self.size.1);
            }
            "type" => text.graphemes(true).for_each(|typed| {
                self.composer.insert(typed);
            }),
            "key" => rest.split(' ').for_each(|key| {
                self.press(key);
            }),
            "paste" => drop(self.composer.paste(&text)),
            "more" => drop(self.composer.paste_more(&text)),
            "lines" => {
                let (count, text) = text.split_once(' ').unwrap();
                let lines = format!("{text}\n").repeat(count.parse().unwrap());
                self.composer.paste(&lines);
            }
            "drag" => {
                let is_file = |path: &Path| !path.to_string_lossy().contains("missing");
                self.composer.paste_or_attach(&text, is_file);
            }
            "set" => drop(self.composer.set_text(&text)),
            "complete" => drop(self.composer.complete(&text)),
            "history" => self.composer.history(text.lines().map(str::to_owned).collect()),
            "vim" => self.composer.set_vim(VimKeys::On),
            "show" => self.show(),
            other => panic!("unknown step `{other}`"),
        }
    }

    fn show(&mut self) {
        let (width, height) = self.size;
        let view = self.composer.view(width, height, Theme::default());
        let mut seen = format!("{width}x{height} {:?}", self.composer.context());
        let more = [(view.more_above, "above"), (view.more_below, "below")];
        for (_, side) in more.iter().filter(|(is, _)| *is) {
            write!(seen, ", more {side}").unwrap();
        }
        if let Some(vim) = self.composer.vim_state() {
            write!(seen, ", vim {vim}").unwrap();
        }
        if self.composer.kind() != Kind::Prompt {
            write!(seen, ", kind {:?}", self.composer.kind()).unwrap();
        }
        seen.push('\n');
        let rest = usize::from(width);
        for (number, line) in view.lines.iter().enumerate() {
            let text = notate(line);
            let padding = " ".repeat(rest.saturating_sub(line.width()));
            let cursor = if number == usize::from(view.cursor.1) {
                format!(" ‹{}", view.cursor.0)
            } else {
                String::new()
            };
            writeln!(seen, "│{text}{padding}│{cursor}").unwrap();
        }
        if let Some(query) = self.composer.query() {
            writeln!(seen, "completes {query:?}").unwrap();
        }
        assert_view(&view, width, height);
        self.seen.push_str(&seen);
    }
}

/// Writes a line with what is not plain text in `‹›`, the sign before it for its role.
fn notate(line: &ratatui::text::Line<'_>) -> String {
    let theme = Theme::default();
    let mut text = String::new();
    for span in &line.spans {
        let sign = match span.style {
            style if style == theme.style(Role::Accent) => "*",
            style if style == theme.style(Role::Warn) => "!",
            style if style == theme.style(Role::Dim) => "~",
            _ => "",
        };
        write!(text, "{sign}{}{sign}", span.content).unwrap();
    }
    text
}

/// What holds for every view.
pub(super) fn assert_view(view: &ComposerView, width: u16, height: u16) {
    assert!(!view.lines.is_empty());
    assert!(view.lines.len() <= usize::from(height.max(1)), "{view:?}");
    assert!(view.cursor.0 < width.max(1) && usize::from(view.cursor.1) < view.lines.len());
    for line in &view.lines {
        assert!(line.width() <= usize::from(width.max(1)), "{} > {width}: {line:?}", line.width());
        for span in &line.spans {
            assert!(!span.content.chars().any(char::is_control), "{line:?}");
        }
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let mut after_one = after.chars();
        let sign = after_one.next();
        rest = after_one.as_str();
        match sign {
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('u') => {
                let (number, behind) = rest.strip_prefix('{').unwrap().split_once('}').unwrap();
                plain.push(char::from_u32(u32::from_str_radix(number, 16).unwrap()).unwrap());
                rest = behind;
            }
            other => plain.extend(other),
        }
    }
    plain + rest
}

#[test]
fn cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/composer");
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    for case in cases {
        let mut desk = Desk::new();
        let keys = std::fs::read_to_string(case.join("keys.txt")).unwrap();
        for line in keys.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            desk.step(line);
        }
        desk.show();
        expect_file![case.join("expected.txt")].assert_eq(&desk.seen);
    }
}

#[test]
fn only_paths_of_images_are_a_drag() {
    let paths = |text: &str| {
        let found = image_paths(text).unwrap_or_default();
        found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("|")
    };
    for (pasted, found) in [
        ("/a/b.png", "/a/b.png"),
        ("  /a/b.PNG \n", "/a/b.PNG"),
        ("/a\\ b.jpg /c.webp", "/a b.jpg|/c.webp"),
        ("\"/a b.gif\" '/c d.jpeg'", "/a b.gif|/c d.jpeg"),
        ("/a b.png", "/a b.png"),
        ("file:///a%20b.png\nfile://localhost/c.png", "/a b.png|/c.png"),
        ("file:///a%2.png", ""),
        ("file:///a%FF.png", ""),
        ("file://elsewhere/a.png", ""),
        ("see /a/b.png", ""),
        ("/a/b.txt", ""),
        ("it's in /a/b.png", ""),
        ("", ""),
        ("\n", ""),
    ] {
        assert_eq!(paths(pasted), found, "{pasted:?}");
    }
}
