//! What `wrap` promises: nothing wider than asked, nothing lost but spaces at breaks.

use super::*;
use proptest::prelude::*;
use ratatui::style::Modifier;

fn texts(lines: &[Line<'_>]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

fn wrapped(text: &str, width: u16) -> Vec<String> {
    texts(&wrap_line(&Line::raw(text.to_owned()), width))
}

#[test]
fn words_stay_whole_and_long_ones_are_cut() {
    assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    assert_eq!(wrapped("a abcdefghij b", 4), ["a", "abcd", "efgh", "ij b"]);
    assert_eq!(wrapped("", 4), [""]);
    assert_eq!(wrapped("exact fit", 9), ["exact fit"]);
}

#[test]
fn wide_characters_break_anywhere_but_before_what_closes() {
    assert_eq!(wrapped("ab 你好世界", 6), ["ab 你", "好世界"]);
    assert_eq!(wrapped("你好世。", 6), ["你好", "世。"]);
}

#[test]
fn graphemes_are_never_torn() {
    let family = "👨‍👩‍👧‍👦";
    assert_eq!(wrapped(&format!("a{family}b"), 3), [format!("a{family}"), "b".to_owned()]);
    assert_eq!(wrapped("e\u{301}e\u{301}", 1), ["e\u{301}", "e\u{301}"]);
}

#[test]
fn what_does_not_fit_in_one_column_is_replaced() {
    assert_eq!(wrapped("你", 1), ["\u{FFFD}"]);
    assert_eq!(wrapped("ab", 0), ["a", "b"]);
}

#[test]
fn indents_stand_before_the_first_and_the_other_lines() {
    let lines = wrap_with(&Line::raw("one two three"), 10, "- ", "  ");
    assert_eq!(texts(&lines), ["- one two", "  three"]);
    let lines = wrap_with(&Line::raw("abcdef"), 4, "12345. ", "       ");
    assert_eq!(texts(&lines), ["12ab", "  cd", "  ef"]);
}

#[test]
fn styles_survive_a_break() {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let line = Line::from(vec![Span::raw("one "), Span::styled("two three", bold)]);
    let lines = wrap_line(&line, 7);
    assert_eq!(texts(&lines), ["one two", "three"]);
    assert_eq!(lines[0].spans[1], Span::styled("two", bold));
    assert_eq!(lines[1].spans[0], Span::styled("three", bold));
}

#[test]
fn tabs_go_to_the_next_stop_and_odd_characters_show() {
    assert_eq!(shown("a\tb\t\tc"), "a   b       c");
    assert_eq!(shown("a\u{1b}[2Jb\u{202e}"), "a␛[2Jb⟨U+202E⟩");
    assert_eq!(clip("你好", 3), "你");
}

proptest! {
    #[test]
    fn no_line_is_wider_and_no_word_is_lost(
        parts in prop::collection::vec("[a-c你👍🏽é\u{301} \u{200d}\u{5d0}क्षि\t\u{1b}]{0,12}", 0..6),
        columns in 0_u16..40, first in "[-> 你]{0,6}", rest in " {0,9}",
    ) {
        let spans: Vec<_> = parts.iter().enumerate().map(|(place, part)| {
            let style = if place % 2 == 0 { Style::new() } else { Style::new().add_modifier(Modifier::BOLD) };
            Span::styled(part.clone(), style)
        }).collect();
        let lines = wrap_with(&Line::from(spans), columns, &first, &rest);
        prop_assert!(!lines.is_empty());
        for line in &lines {
            let text = line.to_string();
            prop_assert!(width(&text) <= usize::from(columns.max(1)), "{text:?}");
            prop_assert!(line.width() <= usize::from(columns.max(1)), "{text:?}");
        }
        if columns >= 20 {
            let kept = |text: &str| text.chars().filter(|c| "abc你".contains(*c)).collect::<String>();
            let all: String = texts(&lines).concat();
            let whole = if first.contains('你') { format!("{first}{}", parts.concat()) } else { parts.concat() };
            prop_assert_eq!(kept(&all), kept(&whole));
        }
    }
}
