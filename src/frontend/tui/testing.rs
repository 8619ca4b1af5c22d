//! How tests write down styled lines: `«Bcyan text»`, a letter per attribute and the colour.
//!
//! Only in tests. Called by the fixtures of `markdown` and `diff`.

use std::path::{Path, PathBuf};

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

/// Returns the lines as text, each stretch with a style in marks.
pub(crate) fn noted(lines: &[Line<'_>]) -> String {
    let span = |text: &str, style: Style| match tag_of(style) {
        tag if tag.is_empty() || text.trim().is_empty() => text.to_owned(),
        tag => format!("«{tag} {text}»"),
    };
    let line = |line: &Line<'_>| -> String {
        line.spans.iter().map(|it| span(&it.content, line.style.patch(it.style))).collect()
    };
    lines.iter().map(|it| line(it) + "\n").collect()
}

fn tag_of(style: Style) -> String {
    let letters = [
        (Modifier::BOLD, 'B'),
        (Modifier::DIM, 'D'),
        (Modifier::ITALIC, 'I'),
        (Modifier::UNDERLINED, 'U'),
        (Modifier::CROSSED_OUT, 'X'),
    ];
    let has = |it: &&(Modifier, char)| style.add_modifier.contains(it.0);
    let mut tag: String = letters.iter().filter(has).map(|it| it.1).collect();
    tag.extend(style.fg.map(|colour| format!("{colour:?}").to_lowercase()));
    tag.extend(style.bg.map(|colour| format!("/{colour:?}").to_lowercase()));
    tag
}

/// Returns the folders of a kind of fixture.
pub(crate) fn cases(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
    let mut cases: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// Returns the columns that a line takes in a terminal's cells.
pub(crate) fn columns(line: &Line<'_>) -> usize {
    crate::frontend::tui::wrap::width(&line.to_string())
}
