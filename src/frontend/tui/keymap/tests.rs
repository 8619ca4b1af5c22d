//! Tests of the keymap: what users write, what terminals send, and the table itself.
//!
//! A case of `tests/fixtures/keymap` is `keys.txt`: lines `NAME = KEYS, KEYS` as the user writes
//! them, then lines `press CONTEXT KEYS` and `help plain` or `help kitty`; `expected.txt` has the
//! errors, or what each press does and the list for `?`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use expect_test::expect_file;
use proptest::prelude::*;

use crate::frontend::tui::keymap::actions::TABLE;
use crate::frontend::tui::keymap::config::{meet, overlap, parse_keys, shown_keys};
use crate::frontend::tui::keymap::{
    Action, Chord, Context, Keyboard, Keymap, Pending, Step, key_event, typed,
};

const CONTEXTS: &[Context] = &[
    Context::Global,
    Context::Composer,
    Context::EmptyComposer,
    Context::VimNormal,
    Context::Search,
    Context::Completion,
    Context::Approval,
    Context::Hunks,
    Context::List,
    Context::Scroll,
    Context::Pager,
    Context::Transcript,
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/keymap").join(name)
}

fn press(keymap: &Keymap, line: &str) -> String {
    let mut words = line.split(' ');
    let place = words.next().unwrap();
    let context = CONTEXTS.iter().find(|context| format!("{context:?}") == place).unwrap();
    let mut pending = Pending::default();
    let steps =
        words.map(|key| format!("{:?}", keymap.step(&mut pending, key_event(key), *context)));
    steps.collect::<Vec<_>>().join(" ")
}

fn help(keymap: &Keymap, keyboard: Keyboard) -> String {
    let mut seen = String::new();
    for section in keymap.help(keyboard) {
        writeln!(seen, "{}", section.title).unwrap();
        for row in section.rows {
            writeln!(seen, "  {:<34} {}  ({})", row.keys, row.what, row.name).unwrap();
        }
    }
    seen
}

#[test]
fn cases() {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    for case in cases {
        let text = std::fs::read_to_string(case.join("keys.txt")).unwrap();
        let binds = text.lines().filter_map(|line| line.split_once(" = "));
        let entries: Vec<(&str, Vec<&str>)> = binds
            .map(|(name, keys)| (name, keys.split(", ").filter(|keys| *keys != "none").collect()))
            .collect();
        let mut seen = String::new();
        match Keymap::from_config(entries) {
            Err(errors) => {
                for error in errors {
                    writeln!(seen, "{error}").unwrap();
                }
            }
            Ok(keymap) => {
                for line in text.lines() {
                    match line.split_once(' ') {
                        Some(("press", keys)) => {
                            writeln!(seen, "{keys}: {}", press(&keymap, keys)).unwrap();
                        }
                        Some(("help", "plain")) => seen += &help(&keymap, Keyboard::Plain),
                        Some(("help", "kitty")) => seen += &help(&keymap, Keyboard::Kitty),
                        _ => {}
                    }
                }
            }
        }
        expect_file![case.join("expected.txt")].assert_eq(&seen);
    }
}

#[test]
fn every_default_can_be_read_and_reached() {
    for entry in TABLE {
        assert!(!entry.keys.is_empty(), "{}", entry.name);
        for keys in entry.keys {
            let parsed = parse_keys(keys).unwrap_or_else(|why| panic!("{keys}: {why}"));
            assert_eq!(shown_keys(&parsed), *keys, "of {}", entry.name);
        }
        let plain = entry
            .keys
            .iter()
            .any(|keys| !parse_keys(keys).unwrap().iter().any(|chord| chord.needs_kitty()));
        assert!(plain, "{} has no key that every terminal sends", entry.name);
        assert!(!entry.help.ends_with('.') && !entry.name.contains(['_', ' ']), "{}", entry.name);
        let same = TABLE.iter().filter(|other| other.name == entry.name);
        assert_eq!(same.count(), 1, "{}", entry.name);
    }
}

#[test]
fn no_two_defaults_are_in_each_others_way() {
    for (index, one) in TABLE.iter().enumerate() {
        for other in TABLE.iter().skip(index + 1).filter(|other| meet(one.context, other.context)) {
            for keys in one.keys.iter().flat_map(|one| other.keys.iter().map(move |o| (one, o))) {
                let (one_keys, other_keys) =
                    (parse_keys(keys.0).unwrap(), parse_keys(keys.1).unwrap());
                let clash = overlap(&one_keys, &other_keys);
                assert!(!clash, "{} and {} are both on {keys:?}", one.name, other.name);
            }
        }
    }
}

#[test]
fn the_ways_a_key_arrives_are_one() {
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    let shift = |code| KeyEvent::new(code, KeyModifiers::SHIFT);
    let keymap = Keymap::default();
    for (key, action) in [
        (control('7'), Action::Undo),
        (control('_'), Action::Undo),
        (control('/'), Action::Undo),
        (control('h'), Action::DeleteLeft),
        (control('m'), Action::Send),
        (control('i'), Action::Queue),
        (control('['), Action::Interrupt),
        (shift(KeyCode::BackTab), Action::CycleMode),
        (shift(KeyCode::Tab), Action::CycleMode),
        (KeyEvent::new(KeyCode::BackTab, KeyModifiers::NONE), Action::CycleMode),
        (KeyEvent::new(KeyCode::Char('K'), KeyModifiers::CONTROL), Action::KillToLineEnd),
        (
            KeyEvent::new(KeyCode::Char('Z'), KeyModifiers::CONTROL | KeyModifiers::SHIFT),
            Action::Redo,
        ),
        (
            KeyEvent::new(KeyCode::Char('<'), KeyModifiers::ALT | KeyModifiers::SHIFT),
            Action::TextStart,
        ),
    ] {
        assert_eq!(keymap.lookup(key, Context::Composer), Some(action), "{key:?}");
    }
    let letter = shift(KeyCode::Char('g'));
    assert_eq!(keymap.lookup(letter, Context::Pager), Some(Action::PagerBottom));
    assert_eq!(typed(letter), Some('G'));
}

#[test]
fn a_release_is_nothing() {
    let mut key = key_event("enter");
    key.kind = KeyEventKind::Release;
    assert_eq!(Keymap::default().lookup(key, Context::Composer), None);
    let mut letter = key_event("a");
    letter.kind = KeyEventKind::Release;
    assert_eq!(typed(letter), None);
    // The release of the first key of a sequence does not end it.
    let mut pending = Pending::default();
    let keymap = Keymap::default();
    let mut first = key_event("ctrl-x");
    assert_eq!(keymap.step(&mut pending, first, Context::Composer), Step::Wait);
    first.kind = KeyEventKind::Release;
    assert_eq!(keymap.step(&mut pending, first, Context::Composer), Step::Wait);
    let step = keymap.step(&mut pending, key_event("ctrl-e"), Context::Composer);
    assert_eq!(step, Step::Act(Action::OpenEditor));
}

proptest! {
    #[test]
    fn a_chord_reads_as_it_is_shown(text in "((ctrl|alt|shift|super|meta)-){0,3}([a-zA-Z0-9]|[!-~]|enter|tab|f[0-9]{1,2}|space|é)") {
        if let Ok(chord) = Chord::parse(&text) {
            prop_assert_eq!(Chord::parse(&chord.to_string()), Ok(chord), "{}", chord);
        }
    }

    #[test]
    fn reading_keys_never_panics(text in any::<String>()) {
        let _ = parse_keys(&text);
        let _ = Keymap::from_config([("newline", vec![text.as_str()]), (text.as_str(), vec![])]);
    }
}
