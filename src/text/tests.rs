//! Tables and properties of the text functions.

use std::borrow::Cow;

use proptest::prelude::*;

use crate::text::ansi::{strip, visible, visible_line};
use crate::text::closest::closest;
use crate::text::diff::unified;
use crate::text::hex::encode_hex;
use crate::text::truncate::{MARKER_BYTES_MAX, bound, grouped};

#[test]
fn visible_shows_what_a_terminal_would_act_on() {
    let table = [
        ("plain\ttext\n", "plain\ttext\n"),
        ("grüße 世界 🙂", "grüße 世界 🙂"),
        ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
        ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
        ("a\rb", "a␍b"),
        ("\u{7f}\u{0}", "␡␀"),
        ("\u{9b}2J", "\\u{9b}2J"),
        ("abc\u{202e}fed", "abc⟨U+202E⟩fed"),
        ("a\u{200b}b", "a⟨U+200B⟩b"),
        ("a\u{200d}b", "a⟨U+200D⟩b"),
        ("👩\u{200d}💻", "👩\u{200d}💻"),
        ("hi\u{e0041}", "hi⟨U+E0041⟩"),
    ];
    for (text, shown) in table {
        assert_eq!(visible(text), shown, "{text:?}");
    }
    assert!(matches!(visible("all plain\n"), Cow::Borrowed(_)));
    assert_eq!(visible_line("a\nb\u{1b}"), "a␊b␛");
}

#[test]
fn strip_leaves_what_a_reader_would_have_seen() {
    let table = [
        ("\u{1b}[1;31mred\u{1b}[0m", "red"),
        ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}", "link"),
        ("\u{1b}P1;2|data\u{9c}after", "after"),
        ("\u{1b}]never ends\nnext", "\nnext"),
        ("\u{1b}(Bplain\u{1b}=", "plain"),
        ("\u{9b}2Jcleared", "cleared"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("kept\r", "kept"),
        ("bell\u{7}\u{8}", "bell"),
        ("a\u{e0041}b", "a⟨U+E0041⟩b"),
        ("\u{1b}", ""),
    ];
    for (text, kept) in table {
        assert_eq!(strip(text), kept, "{text:?}");
    }
    assert!(matches!(strip("tab\tand grüße\n"), Cow::Borrowed(_)));
}

#[test]
fn bound_names_the_omitted_amount() {
    let text = "line\n".repeat(1_000);
    assert_eq!(bound(&text, 5_000), text);
    let cut = bound(&text, 40);
    assert_eq!(
        cut,
        "line\nline\nline\nline\n… 4,960 bytes (992 lines) omitted …\nline\nline\nline\nline\n"
    );
    assert_eq!(bound("0123456789", 4), "01\n… 6 bytes (1 line) omitted …\n89");
    assert_eq!(bound("ääää", 3), "\n… 6 bytes (1 line) omitted …\nä".trim_start());
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(12), "12");
}

#[test]
fn unified_is_a_diff_or_two_sizes() {
    let diff = unified(b"a\nb\nc\n", b"a\nB\nc\n", "a/f", "b/f");
    assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    assert_eq!(unified(b"same", b"same", "x", "y"), "");
    assert!(unified(b"\0", b"text", "x", "y").contains("1 bytes -> 4 bytes"));
    let many = |word: &str| {
        (0..6_000).map(|number| format!("{word}{number}\n")).collect::<String>().into_bytes()
    };
    assert!(unified(&many("a"), &many("b"), "x", "y").contains("large file changed"));
}

#[test]
fn hashes_are_lower_case_digits() {
    assert_eq!(encode_hex(&[0, 0x1f, 0xa0, 0xff]), "001fa0ff");
}

#[test]
fn closest_finds_slips_and_nothing_far_off() {
    let keys = ["model", "model_provider", "sandbox_mode", "profile"];
    let table = [
        ("modle", Some("model")),
        ("Model", Some("model")),
        ("sandbox-mode", Some("sandbox_mode")),
        ("profiel", Some("profile")),
        ("x", None),
        ("", None),
        ("telemetry", None),
    ];
    for (name, found) in table {
        assert_eq!(closest(name, keys.into_iter()), found, "{name}");
    }
}

proptest! {
    #[test]
    fn bound_keeps_head_and_tail_within_the_limit(text in "(?s).{0,400}", bytes_max in 0_usize..300) {
        let cut = bound(&text, bytes_max);
        if text.len() <= bytes_max {
            prop_assert_eq!(&cut, &text);
        } else {
            prop_assert!(cut.len() <= bytes_max + MARKER_BYTES_MAX);
            let (head, rest) = cut.rsplit_once("… ").and_then(|(left, _)| left.rsplit_once("… "))
                .unwrap_or((&cut, ""));
            if !rest.is_empty() {
                let head = head.strip_suffix('\n').unwrap_or(head);
                prop_assert!(text.starts_with(head));
            }
            let tail = cut.rsplit_once(" omitted …").map_or("", |(_, tail)| tail);
            prop_assert!(text.ends_with(tail.strip_prefix('\n').unwrap_or(tail)));
        }
    }

    #[test]
    fn outside_text_is_harmless_and_cleaned_once(
        text in "(?s)([ -~]|[\u{0}-\u{9f}]|\u{1b}[\\[\\]P][0-9;]{0,3}[a-zA-Z\u{7}]?|\r|\n|\u{202e}|\u{200d}|é|👩|.){0,60}",
    ) {
        for clean in [visible, strip] {
            let once = clean(&text).into_owned();
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            let twice = clean(&once).into_owned();
            prop_assert_eq!(&once, &twice);
        }
    }
}
