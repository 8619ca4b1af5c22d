//! What `markdown` promises: its layout by fixtures, its exactness by properties.

use super::*;
use crate::frontend::tui::wrap;
use proptest::prelude::*;
use ratatui::style::{Modifier, Style};
use std::path::Path;

/// Returns the lines with what is styled in marks: `«B text»`.
fn noted(lines: &[Line<'_>]) -> String {
    let theme = Theme::default();
    let span = |text: &str, style: Style| {
        let tag = tag_of(style, theme);
        if tag.is_empty() || text.trim().is_empty() {
            text.to_owned()
        } else {
            format!("«{tag} {text}»")
        }
    };
    let line = |line: &Line<'_>| -> String {
        let spans = line.spans.iter().map(|it| span(&it.content, line.style.patch(it.style)));
        spans.collect()
    };
    lines.iter().map(|it| line(it) + "\n").collect()
}

/// A letter for each colour and modifier.
fn tag_of(style: Style, _theme: Theme) -> String {
    let colour = style.fg.map(|colour| format!("{colour:?}").to_lowercase()).unwrap_or_default();
    let modifiers = [
        (Modifier::BOLD, 'B'),
        (Modifier::DIM, 'D'),
        (Modifier::ITALIC, 'I'),
        (Modifier::UNDERLINED, 'U'),
        (Modifier::CROSSED_OUT, 'X'),
    ];
    let letters = modifiers.into_iter().filter(|it| style.add_modifier.contains(it.0));
    letters.map(|it| it.1).collect::<String>() + &colour
}

#[test]
fn fixtures_are_laid_out_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/markdown");
    let mut cases: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for case in cases {
        let input = std::fs::read_to_string(case.join("input.md")).unwrap();
        for columns in [80, 40] {
            let text = noted(&render(&input, columns, Theme::default()));
            expect_test::expect_file![case.join(format!("{columns}.txt"))].assert_eq(&text);
        }
    }
}
