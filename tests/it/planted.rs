//! Plants one violation after another in a copy of the house: each gives exactly one finding.
//!
//! The real tree gives none. What a planted case must not depend on is the state of the real
//! tree, so only what is found beyond it counts.

use std::fs;
use std::path::Path;

use crate::tidy::{check, walk};

fn copy_tree(from: &Path, to: &Path) {
    for file in walk(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

/// A copy of a corner of the house (the whole takes longer), and what `check` finds there.
struct Copy {
    folder: tempfile::TempDir,
    before: Vec<String>,
}

impl Copy {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        for name in ["src/protocol", "src/text", "tests/it"] {
            copy_tree(&root.join(name), &folder.path().join(name));
        }
        let before = check(folder.path());
        Self { folder, before }
    }

    /// Returns what is found beyond `before` while one file holds `text`.
    fn plant(&self, path: &str, text: &str) -> Vec<String> {
        let path = self.folder.path().join(path);
        let old = fs::read(&path).ok();
        // The topmost folder that is made for it goes away with it.
        let made = path.ancestors().skip(1).take_while(|folder| !folder.exists()).last();
        let made = made.map(Path::to_owned);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let found = check(self.folder.path());
        match (old, made) {
            (Some(old), _) => fs::write(&path, old).unwrap(),
            (None, Some(folder)) => fs::remove_dir_all(folder).unwrap(),
            (None, None) => fs::remove_file(&path).unwrap(),
        }
        found.into_iter().filter(|line| !self.before.contains(line)).collect()
    }
}

#[test]
fn the_house_is_tidy() {
    let found = check(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_planted_violation_gives_exactly_one_finding() {
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "upward import",
            "src/text/planted.rs",
            "//! x\nuse crate::tools::ToolError;\n",
            "above it",
        ),
        ("sideways import", "src/store/planted.rs", "//! x\nuse crate::mcp::Client;\n", "sibling"),
        (
            "front end sees a tool",
            "src/frontend/planted.rs",
            "//! x\nuse crate::tools::ToolError;\n",
            "may name only",
        ),
        (
            "front end sees the turn",
            "src/frontend/planted.rs",
            "//! x\nuse crate::agent::{Handle, Turn};\n",
            "`Turn`",
        ),
        (
            "front ends see each other",
            "src/frontend/exec/planted.rs",
            "//! x\nuse crate::frontend::tui::Model;\n",
            "sees front end",
        ),
        (
            "path upwards",
            "src/agent/planted.rs",
            "//! x\nuse super::super::tools::X;\n",
            "from `crate::`",
        ),
        (
            "grouped import",
            "src/agent/planted.rs",
            "//! x\nuse crate::{tools, text};\n",
            "one `use",
        ),
        ("println", "src/store/planted.rs", "//! x\nfn f() { println!(\"x\") }\n", "print"),
        ("unsafe", "src/store/planted.rs", "//! x\nfn f() { unsafe { g() } }\n", "sandbox/ only"),
        (
            "clock in a pure file",
            "src/model/x/decode.rs",
            "//! x\nfn f() { Instant::now(); }\n",
            "pure file",
        ),
        (
            "grouped fs in a pure file",
            "src/policy/planted.rs",
            "//! x\nuse std::{fmt, fs};\n",
            "`fs`",
        ),
        ("no opening doc", "src/text/planted.rs", "// x\n", "open the file"),
        ("seventeenth module", "src/helpers/planted.rs", "//! x\n", "sixteen modules"),
        ("forgotten fixture", "tests/fixtures/forgotten/a_case/input.txt", "x", "no runner"),
        (
            "fixture without its file",
            "tests/fixtures/session/no_script/prompt.txt",
            "x",
            "passes it over",
        ),
        ("prompt that is not used", "prompts/planted.md", "x", "nothing includes"),
        ("file at the top", "planted.sh", "x", "top level"),
    ];
    let copy = Copy::new();
    for (name, path, text, word) in cases {
        let found = copy.plant(path, text);
        assert_eq!(found.len(), 1, "{name}: {found:#?}");
        assert!(found[0].contains(word), "{name}: {found:#?}");
    }
}

#[test]
fn sizes_are_counted_exactly() {
    let function = |lines: usize| format!("//! x\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines));
    let copy = Copy::new();
    let plant = |path: &str, text: String| copy.plant(path, &text);
    let path = "src/text/planted.rs";
    assert_eq!(plant(path, function(70)), [""; 0]);
    assert_eq!(plant(path, function(71)).len(), 1);
    let constants = |lines: usize| format!("//! x\n{}", "const X: u8 = 1;\n".repeat(lines - 1));
    assert_eq!(plant(path, constants(800)), [""; 0]);
    assert_eq!(plant(path, constants(801)).len(), 1);
    let tail = format!("{}#[cfg(test)]\nmod tests {{\n}}\n", constants(800));
    assert_eq!(plant(path, tail), [""; 0]);
    let enums =
        |count: usize| format!("//! x\npub enum Op {{\n{}}}\n", "    A { x: u8 },\n".repeat(count));
    assert_eq!(plant("src/protocol/op.rs", enums(14)), [""; 0]);
    assert_eq!(plant("src/protocol/op.rs", enums(15)).len(), 1);
}

#[test]
fn words_in_comments_and_literals_are_not_code() {
    let text = "//! x\n// println!(\"x\") unsafe\nconst A: &str = \"unsafe \\\" {{{\";\n\
                const B: &str = r#\"println!(\"{\")\"#;\nconst C: [char; 3] = ['{', '\\'', '\"'];\n\
                fn f<'a>(x: &'a str) -> &'a str { x } /* unsafe */\n\
                #[cfg(test)]\nmod tests {\n    fn g() { println!(); unsafe { h() } }\n}\n";
    assert_eq!(Copy::new().plant("src/text/planted.rs", text), [""; 0]);
}
