//! What `markdown` promises: its layout by fixtures, its exactness by properties.

use super::*;
use crate::frontend::tui::testing::{cases, columns, noted};
use crate::frontend::tui::theme::{Depth, Role};
use expect_test::expect_file;
use proptest::prelude::*;

fn page(text: &str, width: u16) -> String {
    render(text, width, Theme::default()).iter().map(|line| line.to_string() + "\n").collect()
}

#[test]
fn fixtures_are_laid_out_as_expected() {
    for case in cases("markdown") {
        let input = std::fs::read_to_string(case.join("input.md")).unwrap();
        for width in [80, 40] {
            let lines = render(&input, width, Theme::default());
            assert!(lines.iter().all(|line| columns(line) <= usize::from(width)), "{case:?}");
            expect_file![case.join(format!("{width}.txt"))].assert_eq(&noted(&lines));
        }
    }
}

#[test]
fn a_line_of_code_is_final_when_it_ends_and_a_paragraph_when_the_next_block_begins() {
    let mut markdown = Markdown::new();
    let mut finished = |delta: &str| {
        markdown.push(delta);
        let lines = markdown.finished(80, Theme::default());
        lines.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(finished("one\ntwo\n").is_empty());
    assert_eq!(finished("\n"), ["one", "two"]);
    assert!(finished("```rust\nfn a()").is_empty());
    assert_eq!(finished(" {\n"), ["", "fn a() {"]);
    assert_eq!(finished("}\n```\n"), ["}"]);
    assert!(finished("| a | b |\n|---|---|\n| 1 | 2 |\n").is_empty());
    assert_eq!(finished("- next\n"), ["", "a  b", "─  ─", "1  2"]);
    assert!(finished("  more\n").is_empty());
    assert_eq!(finished("- item\n"), ["", "- next", "  more"]);
}

#[test]
fn what_is_live_is_bounded_however_long_the_text() {
    let endless = [("x ".repeat(50), "words"), ("x".repeat(100), "one word")];
    let long = endless.into_iter().chain([
        ("some words of a line\n".repeat(5), "lines"),
        ("> quoted\n".repeat(12), "a quote"),
        ("- item\n".repeat(15), "a list"),
        ("```\ncode\n\n".repeat(10), "code"),
        ("| a | b |\n|---|---|\n".repeat(5), "tables"),
        ("|---|---|\n".repeat(10), "rows"),
    ]);
    for (piece, name) in long {
        let mut markdown = Markdown::new();
        let mut handed_out = 0;
        for _ in 0..400 {
            markdown.push(&piece);
            handed_out += markdown.finished(80, Theme::default()).len();
        }
        let live = markdown.live(80, Theme::default());
        let letters: usize = live.iter().map(|line| line.to_string().len()).sum();
        assert!(letters <= 3 * 16 * 1024, "{name}: {letters} bytes are live");
        assert!(handed_out > 150, "{name}: only {handed_out} lines were handed out");
    }
}

#[test]
fn a_huge_line_is_taken_in_pieces_and_loses_nothing() {
    let text: String =
        (0..8_000).map(|number| format!("w{number:06}{} ", "x".repeat(44))).collect();
    let shown = page(&text, 80).replace('\n', " ");
    assert_eq!(shown.split_whitespace().count(), 8_000);
    assert!(text.split_whitespace().eq(shown.split_whitespace()));
}

#[test]
fn a_window_of_one_column_is_enough() {
    for case in cases("markdown") {
        let input = std::fs::read_to_string(case.join("input.md")).unwrap();
        for width in [0, 1, 3] {
            let lines = render(&input, width, Theme::default());
            assert!(
                lines.iter().all(|line| columns(line) <= usize::from(width.max(1))),
                "{case:?}"
            );
        }
    }
}

#[test]
fn without_colours_the_text_is_the_same() {
    let mono = Theme { depth: Depth::Mono, ..Theme::default() };
    for case in cases("markdown") {
        let input = std::fs::read_to_string(case.join("input.md")).unwrap();
        let plain = |theme| -> Vec<String> {
            render(&input, 60, theme).iter().map(ToString::to_string).collect()
        };
        assert_eq!(plain(mono), plain(Theme::named("dusk").unwrap()));
    }
}

#[test]
fn headings_code_and_links_have_the_themes_styles() {
    let theme = Theme::named("paper").unwrap();
    let lines = render("## a\n`b` [c](https://d.example)", 80, theme);
    assert_eq!(lines[0].spans[0].style.fg, theme.style(Role::Heading).fg);
    assert_eq!(lines[1].spans[0].style.fg, theme.style(Role::Code).fg);
    assert_eq!(lines[1].spans[2].style.fg, theme.style(Role::Accent).fg);
}

/// Pieces of which texts are made that exercise every rule.
fn pieces() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "- ",
        "* ",
        "1. ",
        "2) ",
        "> ",
        "# ",
        "## ",
        "```",
        "```rust\n",
        "~~~\n",
        "    ",
        "  ",
        "\t",
        "|",
        "| a | b |\n|---|:-:|\n",
        "---\n",
        "===\n",
        "***",
        "**",
        "_",
        "~~",
        "`",
        "[x](y)",
        "[ ] ",
        "<br>",
        "<!-- c -->",
        "\\",
        "&#27;",
        "&amp;",
        "你好",
        "e\u{301}",
        "👩‍👩‍👧",
        "\u{202e}",
        "\u{1b}[1m",
        "שלום",
        "\r\n",
        "\r",
        "\n",
        "\n\n",
        "\n",
        "word ",
        "fn a() {}",
        "\0",
        "x = \"1\";",
    ]);
    prop_oneof![8 => marks.prop_map(str::to_owned), 1 => "\\PC{0,8}", 1 => "[a-z ]{0,90}"]
}

fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(pieces(), 0..40).prop_map(|pieces| pieces.concat())
}

/// Returns all lines of a text that arrives in pieces of these sizes.
fn arrive(text: &str, sizes: &[usize], width: u16) -> Vec<Line<'static>> {
    let mut markdown = Markdown::new();
    let mut lines = Vec::new();
    let mut rest = text;
    for size in sizes.iter().cycle().take(text.len() + 1) {
        let (piece, after) = rest.split_at(rest.floor_char_boundary((*size).min(rest.len())));
        let (piece, after) = match rest.chars().next() {
            Some(first) if piece.is_empty() => rest.split_at(first.len_utf8()),
            _ => (piece, after),
        };
        markdown.push(piece);
        rest = after;
        if size % 2 == 0 {
            lines.extend(markdown.finished(width, Theme::default()));
        } else if rest.len().is_multiple_of(7) && text.len() < 4_000 {
            markdown.live(width, Theme::default());
        }
    }
    lines.extend(markdown.finish(width, Theme::default()));
    lines
}

proptest! {
    // The whole is laid out for every piece, in a build that is not optimized.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_it_is_cut_the_lines_are_those_of_the_whole(
        text in texts(), sizes in prop::collection::vec(1_usize..12, 1..6), width in 1_u16..60,
    ) {
        let whole = noted(&render(&text, width, Theme::default()));
        prop_assert_eq!(noted(&arrive(&text, &sizes, width)), whole);
    }

    #[test]
    fn no_line_is_wider_and_nothing_panics(text in texts(), width in 0_u16..60) {
        for line in render(&text, width, Theme::default()) {
            prop_assert!(columns(&line) <= usize::from(width.max(1)), "{:?}", line.to_string());
            prop_assert!(!line.to_string().contains(char::is_control));
        }
    }

    #[test]
    fn any_bytes_are_shown_safely(bytes in prop::collection::vec(any::<u8>(), 0..400), width in 0_u16..40) {
        let text = String::from_utf8_lossy(&bytes);
        for line in render(&text, width, Theme::default()) {
            prop_assert!(columns(&line) <= usize::from(width.max(1)));
            prop_assert!(!line.to_string().contains(char::is_control));
        }
    }

    #[test]
    fn no_word_is_lost(marks in prop::collection::vec(prop::sample::select(vec![
        "", "", "- ", "  - ", "1. ", "> ", "# ", "    ", "| ", " | ", "\n", "\n", "\n\n", "**", "_", "`a` ",
        "\n```\n", "\n|---|---|\n", "\n---\n", "\n===\n", "  \n", "\\\n", "~~",
    ]), 0..40)) {
        let text: String =
            marks.iter().enumerate().map(|(place, mark)| format!("{mark}w{place} ")).collect();
        let shown = page(&text, 300);
        for place in 0..marks.len() {
            prop_assert!(shown.split(|c: char| !c.is_alphanumeric()).any(|it| it == format!("w{place}")),
                "w{} of {:?} is not in {:?}", place, text, shown);
        }
    }
}

#[test]
fn long_lines_are_cut_alike_however_they_arrive() {
    let word = |number: usize| format!("{number:04}{}", "é".repeat(number % 40));
    let line: String = (0..400).map(|number| word(number) + " ").collect();
    for text in [
        line.clone(),
        "x".repeat(20_000),
        format!("- {line}\n\n| {line} |\n|---|\n| {line} |\n```\n{line}\n```\n"),
    ] {
        let whole = noted(&render(&text, 70, Theme::default()));
        for sizes in [vec![1], vec![4096], vec![8191, 3], vec![8192], vec![100_000]] {
            assert_eq!(noted(&arrive(&text, &sizes, 70)), whole);
        }
    }
}
