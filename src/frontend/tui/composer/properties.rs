//! What holds for the composer whatever is typed: boundaries, undo, nothing lost, bounded work.

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::frontend::tui::composer::graphemes::STEPS;
use crate::frontend::tui::composer::layout::Layout;
use crate::frontend::tui::composer::tests::assert_view;
use crate::frontend::tui::composer::tokens::Tokens;
use crate::frontend::tui::composer::{Burst, Composer, Input, Outcome, VimKeys};
use crate::frontend::tui::keymap::{Action, typed};
use crate::frontend::tui::theme::Theme;

/// Pieces of text that join, stand alone, are wide, hidden, reserved or of no width.
const PIECES: &[&str] = &[
    "a",
    "word ",
    " ",
    "\n",
    "\t",
    "é",
    "e\u{301}",
    "\u{301}",
    "你",
    "👍🏽",
    "👩",
    "\u{200D}",
    "🇩",
    "🇪",
    "ש",
    "\u{202E}",
    "\u{200B}",
    "\u{7}",
    "\u{1B}[",
    "\u{108000}",
    "\u{10FFFD}",
    "\u{600}",
    "क",
    "\u{94D}",
    "ष",
    "\r\n",
    "\r",
    "@src/",
    "/",
    "(",
    "ᄀ",
    "ᅡ",
    "\u{FE0F}",
    "0123456789",
];

const ACTIONS: &[Action] = &[
    Action::Left,
    Action::Right,
    Action::Up,
    Action::Down,
    Action::WordLeft,
    Action::WordRight,
    Action::LineStart,
    Action::LineEnd,
    Action::TextStart,
    Action::TextEnd,
    Action::DeleteLeft,
    Action::DeleteRight,
    Action::KillWordLeft,
    Action::KillWordRight,
    Action::KillArgumentLeft,
    Action::KillToLineStart,
    Action::KillToLineEnd,
    Action::Yank,
    Action::YankPop,
    Action::Undo,
    Action::Redo,
    Action::Newline,
    Action::UnfoldPaste,
    Action::SearchHistory,
    Action::SearchNewer,
    Action::SearchCancel,
    Action::SearchAccept,
    Action::Interrupt,
    Action::VimRedo,
];

#[derive(Debug, Clone)]
enum Doing {
    Type(String),
    Paste(String),
    More(String),
    Act(Action),
    Vim(String),
    Fit(u16, u16),
    Complete,
    Set(String),
    Clear,
}

fn some_text() -> impl Strategy<Value = String> {
    let known = proptest::collection::vec(proptest::sample::select(PIECES), 0..12);
    prop_oneof![8 => known.prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

fn long_text() -> impl Strategy<Value = String> {
    (some_text(), 1..40usize).prop_map(|(text, times)| format!("{text}\n").repeat(times))
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        6 => some_text().prop_map(Doing::Type),
        1 => long_text().prop_map(Doing::Paste),
        1 => some_text().prop_map(Doing::More),
        12 => proptest::sample::select(ACTIONS).prop_map(Doing::Act),
        6 => "[0-9hjklwbeWBEgG$^dcyxXDCpPuiaIAoOr ]{1,6}".prop_map(Doing::Vim),
        1 => (1..30u16, 1..6u16).prop_map(|(width, height)| Doing::Fit(width, height)),
        1 => Just(Doing::Complete),
        1 => some_text().prop_map(Doing::Set),
        1 => Just(Doing::Clear),
    ]
}

fn act(composer: &mut Composer, doing: &Doing) {
    match doing {
        Doing::Type(text) => {
            composer.insert(text);
        }
        Doing::Paste(text) => {
            composer.paste(text);
        }
        Doing::More(text) => {
            composer.paste_more(text);
        }
        Doing::Act(action) => {
            composer.apply(*action);
        }
        Doing::Vim(keys) => {
            composer.set_vim(VimKeys::On);
            composer.apply(Action::Interrupt);
            composer.insert(keys);
        }
        Doing::Fit(width, height) => composer.fit(*width, *height),
        Doing::Complete => {
            composer.complete("some where/file.rs");
        }
        Doing::Set(text) => {
            composer.set_text(text);
        }
        Doing::Clear => {
            composer.clear();
        }
    }
}

fn assert_boundary(composer: &Composer) {
    let (text, cursor) = (composer.buffer.text(), composer.buffer.cursor());
    let on = cursor == text.len() || text.grapheme_indices(true).any(|(at, _)| at == cursor);
    assert!(on, "{cursor} in {text:?}");
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_cursor_on_a_boundary_and_can_be_undone(
        doings in proptest::collection::vec(doing(), 0..40),
    ) {
        let mut composer = Composer::new();
        composer.history(vec!["earlier\nmessage".to_owned(), "an\u{301} other".to_owned()]);
        for doing in &doings {
            act(&mut composer, doing);
            assert_boundary(&composer);
            for (width, height) in [(1, 1), (7, 3), (40, 5)] {
                let view = composer.view(width, height, Theme::default());
                assert_view(&view, width, height);
            }
        }
        composer.set_vim(VimKeys::Off);
        composer.apply(Action::SearchCancel);
        let redone = composer.apply(Action::Redo);
        prop_assert!(redone != Outcome::Ignored);
        while composer.apply(Action::Redo) == Outcome::Edited {}
        let end = composer.buffer.text().to_owned();
        while composer.apply(Action::Undo) == Outcome::Edited {}
        prop_assert_eq!(composer.buffer.text(), "");
        while composer.apply(Action::Redo) == Outcome::Edited {}
        prop_assert_eq!(composer.buffer.text(), end);
    }

    #[test]
    fn what_is_taken_is_what_was_typed_and_pasted(
        parts in proptest::collection::vec((0..4u8, long_text()), 0..8),
    ) {
        let mut composer = Composer::new();
        let mut written = String::new();
        for (how, text) in &parts {
            match how {
                0 => composer.insert(text),
                1 => composer.paste(text),
                2 => composer.set_text(&(composer.text() + text)),
                _ => composer.paste_more(text),
            };
            composer.apply(Action::TextEnd);
            // The parts of a paste may be cut between a CR and its LF; here they are not.
            written.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
        }
        prop_assert_eq!(composer.text(), written.clone());
        prop_assert_eq!(composer.take().text, written.clone());
        prop_assert!(composer.is_empty());
        // It comes back as it was.
        if !written.trim().is_empty() {
            composer.apply(Action::Up);
            prop_assert_eq!(composer.take().text, written);
        }
    }

    #[test]
    fn rows_cover_the_text_and_fit(text in long_text(), width in 1..30usize) {
        let mut tokens = Tokens::default();
        let text = tokens.admit(&text).into_owned();
        let layout = Layout { text: &text, tokens: &tokens, width };
        let mut all = vec![layout.rows(0)[0]];
        all.extend(layout.below(0, usize::MAX));
        let mut covered = 0;
        for row in &all {
            prop_assert!(row.start == covered || text.get(covered..row.start) == Some("\n"));
            prop_assert!(layout.column(*row, row.end) <= width);
            covered = row.end;
        }
        prop_assert_eq!(covered, text.len());
        let mut back = layout.above(text.len(), usize::MAX);
        back.reverse();
        let last = layout.row_of(text.len());
        back.push(last.0[last.1]);
        prop_assert_eq!(back, all);
    }

    #[test]
    fn a_burst_loses_no_key(
        batches in proptest::collection::vec((0..60u64, "[a-z\n\t ]{0,40}"), 0..8),
    ) {
        let (mut burst, mut now_ms) = (Burst::default(), 0);
        let (mut pressed, mut seen) = (String::new(), String::new());
        for (gap_ms, text) in &batches {
            now_ms += gap_ms;
            pressed.push_str(text);
            let keys: Vec<KeyEvent> = text.chars().map(key_of).collect();
            for input in burst.read(&keys, now_ms) {
                match input {
                    Input::Paste(text) | Input::PasteMore(text) => seen.push_str(&text),
                    Input::Key(key) => seen.push(match key.code {
                        KeyCode::Enter => '\n',
                        KeyCode::Tab => '\t',
                        _ => typed(key).unwrap(),
                    }),
                }
            }
        }
        prop_assert_eq!(seen, pressed);
    }
}

fn key_of(c: char) -> KeyEvent {
    let code = match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        other => KeyCode::Char(other),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn keys_of(text: &str) -> Vec<KeyEvent> {
    text.chars().map(key_of).collect()
}

#[test]
fn a_typed_line_is_no_paste_and_a_pasted_one_sends_nothing() {
    let mut burst = Burst::default();
    let typed_line = burst.read(&keys_of("ok\n"), 0);
    assert!(typed_line.iter().all(|input| matches!(input, Input::Key(_))));
    let pasted = burst.read(&keys_of("first line\nsecond"), 1_000);
    assert_eq!(pasted, [Input::Paste("first line\nsecond".to_owned())]);
    // The rest of it comes with the next read, its newline at the end included.
    let rest = burst.read(&keys_of(" line\n"), 1_010);
    assert_eq!(rest, [Input::PasteMore(" line\n".to_owned())]);
    let later = burst.read(&keys_of("\n"), 2_000);
    assert_eq!(later, [Input::Key(key_of('\n'))]);
}

/// Most steps over characters that one key and one drawing may take, whatever the length of
/// the text: a few stretches of a line, laid out a few times.
const STEPS_MAX: usize = 60_000;

fn steps(composer: &mut Composer, doing: impl FnOnce(&mut Composer) -> Outcome) -> usize {
    let before = STEPS.get();
    doing(composer);
    let view = composer.view(80, 20, Theme::default());
    assert_view(&view, 80, 20);
    STEPS.get() - before
}

#[test]
fn a_key_in_a_line_of_a_megabyte_is_bounded_work() {
    let pieces =
        ["some words and more ", "你", "e\u{301}", "\u{301}", "🇩", "👩\u{200D}👩\u{200D}👦", "\n"];
    for piece in pieces {
        let mut composer = Composer::new();
        composer.fit(80, 20);
        let whole = piece.repeat((1 << 20) / piece.len());
        assert_eq!(composer.set_text(&whole), Outcome::Edited);
        for place in [whole.len() / 2, whole.len()] {
            composer.buffer.move_to(place);
            let word = piece.contains(char::is_whitespace);
            for action in ACTIONS {
                let by_words = matches!(
                    action,
                    Action::WordLeft
                        | Action::WordRight
                        | Action::KillWordLeft
                        | Action::KillWordRight
                        | Action::KillArgumentLeft
                );
                // A word of a megabyte is a megabyte to cross.
                if by_words && !(word && piece.len() > 2) {
                    continue;
                }
                composer.buffer.move_to(place.min(composer.buffer.text().len()));
                let taken = steps(&mut composer, |composer| composer.apply(*action));
                assert!(taken <= STEPS_MAX, "{action:?} at {place} of {piece:?}: {taken} steps");
                if !matches!(action, Action::Undo) {
                    composer.apply(Action::SearchCancel);
                }
            }
            composer.set_text(&whole);
            composer.buffer.move_to(place);
            let taken = steps(&mut composer, |composer| composer.insert("q"));
            assert!(taken <= STEPS_MAX, "typing at {place} of {piece:?}: {taken} steps");
        }
    }
}

#[test]
fn a_text_too_long_is_refused_and_nothing_is_lost() {
    let mut composer = Composer::new();
    composer.insert("kept");
    let huge = "x".repeat(super::state::TEXT_BYTES_MAX + 1);
    assert_eq!(composer.insert(&huge), Outcome::Full);
    assert_eq!(composer.set_text(&huge), Outcome::Full);
    assert_eq!(composer.text(), "kept");
    let more = "x\n".repeat(super::state::PASTES_BYTES_MAX / 2 + 1);
    assert_eq!(composer.paste(&more), Outcome::Full);
    assert_eq!(composer.take().text, "kept");
}

#[test]
fn pastes_that_nothing_can_bring_back_are_forgotten() {
    let mut composer = Composer::new();
    for _ in 0..3 {
        composer.paste(&"line\n".repeat(100));
        composer.apply(Action::DeleteLeft);
    }
    assert_eq!(composer.tokens.bytes(), 3 * 500);
    composer.insert("short");
    composer.take();
    assert_eq!(composer.tokens.bytes(), 0);
    // A day of large pastes does not fill the memory, nor refuse the next.
    let large = "line\n".repeat(1 << 18);
    for _ in 0..60 {
        assert_eq!(composer.paste(&large), Outcome::Edited);
        assert_eq!(composer.take().text.len(), large.len());
        assert!(composer.tokens.bytes() <= 4 << 20);
    }
}
