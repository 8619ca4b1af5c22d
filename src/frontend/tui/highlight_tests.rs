//! What `highlight` promises: the text stays, colours mean roles, and size is bounded.

use super::*;
use proptest::prelude::*;

fn roles(language: &str, code: &str) -> String {
    let mut highlighter = Highlighter::new(language);
    let line = |line: &str| -> String {
        let tokens = highlighter.line(line);
        tokens
            .iter()
            .map(|(role, text)| match role {
                Role::Text => text.clone(),
                role => format!("<{role:?} {text}>"),
            })
            .collect()
    };
    code.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn rust_has_keywords_names_types_strings_and_comments() {
    expect_test::expect![[r#"
        <Keyword pub fn ><Name add>(a: <Keyword u32>) -> <Type Option><<Keyword u32>> {
            <Keyword let> s = <Literal "x">; <Comment // why>
            <Type Some>(a + <Literal 1>)
        }"#]]
    .assert_eq(&roles(
        "rust",
        "pub fn add(a: u32) -> Option<u32> {\n    let s = \"x\"; // why\n    Some(a + 1)\n}",
    ));
}

#[test]
fn a_comment_goes_on_over_lines() {
    let mut highlighter = Highlighter::new("c");
    highlighter.line("/* one");
    assert_eq!(highlighter.line("two"), [(Role::Comment, "two".to_owned())]);
    highlighter.line("*/");
    assert_ne!(highlighter.line("int a;").first().map(|token| token.0), Some(Role::Comment));
}

#[test]
fn names_of_fences_are_known() {
    let known = [
        "rust",
        "rs",
        "python",
        "py",
        "python3",
        "js",
        "javascript",
        "jsx",
        "ts",
        "typescript",
        "tsx",
        "json",
        "jsonc",
        "yaml",
        "yml",
        "toml",
        "bash",
        "sh",
        "shell",
        "zsh",
        "go",
        "golang",
        "c",
        "cpp",
        "c++",
        "csharp",
        "c#",
        "java",
        "kotlin",
        "swift",
        "ruby",
        "php",
        "html",
        "css",
        "sql",
        "diff",
        "patch",
        "dockerfile",
        "make",
        "makefile",
        "lua",
        "xml",
        "markdown",
        "md",
        "ini",
        "nix",
        "zig",
        "haskell",
        "Rust",
    ];
    let unknown: Vec<_> =
        known.into_iter().filter(|name| Highlighter::new(name).state.is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for plain in ["", "text", "console", "no such language", &"x".repeat(5000)] {
        assert!(Highlighter::new(plain).state.is_none());
    }
}

#[test]
fn a_long_line_and_a_long_block_are_plain_from_there_on() {
    let mut highlighter = Highlighter::new("rust");
    assert_eq!(highlighter.line("fn").first().map(|token| token.0), Some(Role::Keyword));
    highlighter.line(&"x".repeat(LINE_BYTES_MAX + 1));
    assert_eq!(highlighter.line("fn a() {}").len(), 1);

    let mut highlighter = Highlighter::new("rust");
    for _ in 0..BLOCK_LINES_MAX {
        highlighter.line("");
    }
    assert_eq!(highlighter.line("fn a() {}").len(), 1);
}

#[test]
fn odd_characters_in_code_show() {
    let text: String = Highlighter::new("c")
        .line("int a; // \u{202e}\u{1b}[2J")
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(text, "int a; // ⟨U+202E⟩␛[2J");
}

#[test]
fn colours_come_from_the_theme() {
    let lines = highlight("rust", "fn a() {}\n\n// b", Theme::default());
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0].spans[0].style, Theme::default().style(Role::Keyword));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_stretches_are_the_line(
        language in prop::sample::select(vec!["py", "html", "md"]),
        lines in prop::collection::vec("\\PC{0,30}|[\"'`/*<>{}()#$ \\\\a-c]{0,30}", 0..8),
    ) {
        let mut highlighter = Highlighter::new(language);
        for line in &lines {
            let text: String = highlighter.line(line).into_iter().map(|token| token.1).collect();
            prop_assert_eq!(text, shown(line).into_owned());
        }
    }
}
