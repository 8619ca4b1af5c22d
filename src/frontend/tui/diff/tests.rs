//! What `diff` promises: its layout by fixtures, that nothing is hidden by properties.

use super::*;
use crate::frontend::tui::testing::{cases, columns, noted};
use expect_test::{expect, expect_file};
use proptest::prelude::*;
use std::path::PathBuf;

fn all(patch: &str, width: u16) -> Vec<Line<'static>> {
    render_diff(patch, width, Theme::default(), Fold::All)
}

fn page(lines: &[Line<'_>]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

#[test]
fn fixtures_are_laid_out_as_expected() {
    for case in cases("diffview") {
        let input = std::fs::read_to_string(case.join("input.diff")).unwrap();
        let fold = match std::fs::read_to_string(case.join("fold")) {
            Ok(count) => Fold::Lines(count.trim().parse().unwrap()),
            Err(_) => Fold::All,
        };
        for width in [80, 40] {
            let lines = render_diff(&input, width, Theme::default(), fold);
            assert!(lines.iter().all(|line| columns(line) <= usize::from(width)), "{case:?}");
            expect_file![case.join(format!("{width}.txt"))].assert_eq(&noted(&lines));
        }
    }
}

fn change(kind: ChangeKind, move_to: Option<&str>, diff: &str) -> String {
    let change = FileChange {
        path: PathBuf::from("/work/parser/src/a.rs"),
        kind,
        move_to: move_to.map(PathBuf::from),
        diff: diff.to_owned(),
    };
    let view = View { width: 80, theme: Theme::default(), fold: Fold::All };
    page(&render_change(&change, Path::new("/work/parser"), view))
}

#[test]
fn a_change_without_text_still_says_what_happens() {
    expect![[r#"
        ± src/a.rs → /elsewhere/b.rs
    "#]]
    .assert_eq(&change(ChangeKind::Update, Some("/elsewhere/b.rs"), ""));
    expect![[r#"
        ± src/a.rs  deleted
    "#]]
    .assert_eq(&change(ChangeKind::Delete, None, ""));
}

#[test]
fn a_change_is_named_as_the_event_names_it() {
    let text = "old mode 100644\nnew mode 100755\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    expect![[r#"
        ± src/a.rs  +1 −1
          old mode 100644
          new mode 100755
            1 - a
            1 + b
    "#]]
    .assert_eq(&change(ChangeKind::Update, None, text));
    expect![[r#"
        ± src/a.rs  new  +1 −0
            1 + fn a() {}
    "#]]
    .assert_eq(&change(ChangeKind::Add, None, "*** Add File: a.rs\n+fn a() {}\n"));
}

#[test]
fn a_text_of_several_files_keeps_their_names() {
    let text = "*** Delete File: one\n*** Delete File: two\n";
    expect![[r#"
        ± one  deleted
        ± two  deleted
    "#]]
    .assert_eq(&change(ChangeKind::Update, None, text));
}

#[test]
fn in_a_theme_with_tints_changed_lines_keep_the_colours_of_their_language() {
    let theme = Theme::named("dusk").unwrap();
    let lines = render_diff(
        "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-let a = 1;\n+let a = 2;\n",
        80,
        theme,
        Fold::All,
    );
    let spans: Vec<_> = lines[1].spans.iter().map(|it| (it.content.as_ref(), it.style)).collect();
    let keyword = theme.style(Role::Keyword).bg(theme.tint(Role::Removed).unwrap());
    assert!(spans.contains(&("let", keyword)), "{spans:?}");
    let word = theme.style(Role::RemovedWord).bg(theme.tint(Role::RemovedWord).unwrap());
    assert!(spans.contains(&("1", word)), "{spans:?}");
}

#[test]
fn ten_thousand_lines_are_folded_or_shown_whole() {
    let body: String = (0..5_000).map(|it| format!("-old line {it}\n+new line {it}\n")).collect();
    let patch = format!("--- a/a.txt\n+++ b/a.txt\n@@ -1,5000 +1,5000 @@\n{body}");
    assert_eq!(all(&patch, 80).len(), 10_001);
    let folded = render_diff(&patch, 80, Theme::default(), Fold::Lines(20));
    assert_eq!(folded.len(), 22);
    assert_eq!(folded[15].to_string(), "  … 9980 lines more");
    assert_eq!(folded[0].to_string(), "± a.txt  +5000 −5000");
}

#[test]
fn a_fold_never_hides_a_single_line() {
    let patch = "--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@\n one\n two\n three\n four\n";
    let folded = |count| page(&render_diff(patch, 80, Theme::default(), Fold::Lines(count)));
    assert!(!folded(3).contains('…'));
    assert!(folded(2).contains("… 2 lines more"));
    assert!(folded(0).contains("… 4 lines more"));
}

fn patches() -> impl Strategy<Value = String> {
    let lines = prop::sample::select(vec![
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: a.rs",
        "*** Update File: b.py",
        "*** Move to: c",
        "*** Delete File: d",
        "*** End of File",
        "@@",
        "@@ fn x",
        "@@ -1,2 +1,2 @@",
        "@@ -1 +1,9 @@ fn y",
        "@@ -999999999999999999 +18446744073709551615,18446744073709551615 @@",
        "--- a/x",
        "+++ b/x",
        "--- /dev/null",
        "+++ /dev/null",
        "diff --git a/x b/x",
        "old mode 1",
        "rename from x",
        "\\ No newline",
        "+added",
        "-removed",
        " context",
        "",
        "\r",
        "+\u{202e}\u{1b}[2J",
        "-你好世界",
        "+let a = \"x\";",
        "-let a = 'y';",
    ]);
    prop::collection::vec(prop_oneof![9 => lines.prop_map(str::to_owned), 1 => "\\PC{0,60}"], 0..30)
        .prop_map(|lines| lines.join("\n"))
}

proptest! {
    // Grammars are slow in a build that is not optimized.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_line_is_wider_and_nothing_panics(patch in patches(), width in 0_u16..90, count in 0_usize..9) {
        for fold in [Fold::All, Fold::Lines(count)] {
            for line in render_diff(&patch, width, Theme::default(), fold) {
                prop_assert!(columns(&line) <= usize::from(width.max(1)), "{:?}", line.to_string());
                prop_assert!(!line.to_string().contains(char::is_control));
            }
        }
    }

    #[test]
    fn any_bytes_are_shown_safely(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for line in all(&text, 40) {
            prop_assert!(!line.to_string().contains(char::is_control));
        }
    }

    #[test]
    fn no_word_of_a_change_is_hidden(starts in prop::collection::vec(prop::sample::select(vec![
        "+", "-", " ", "", "++", "---", "@@ ", "@@ -1,2 +1,2 @@ ", "--- ", "+++ ", "*** Update File: ", "\\ ",
        "+*** End Patch ", "*** ", "*** Move to: ", "diff --git a/", "old mode ", "index ",
    ]), 0..30)) {
        let text: String =
            starts.iter().enumerate().map(|(place, start)| format!("{start}w{place}\n")).collect();
        let shown = page(&all(&text, 200));
        // A name may be replaced by the one after it; all else stays.
        let names = ["--- ", "+++ ", "*** Move to: ", "diff --git a/", "index "];
        for (place, start) in starts.iter().enumerate().filter(|(_, start)| !names.contains(start)) {
            prop_assert!(shown.split(|c: char| !c.is_alphanumeric()).any(|it| it == format!("w{place}")),
                "w{place} after {start:?} of {text:?} is not in {shown:?}");
        }
    }
}
