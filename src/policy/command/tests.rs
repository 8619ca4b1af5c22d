//! Runs the verdicts of `tests/fixtures/execpolicy` and properties of the tokenizer.
//!
//! A line is a command below a heading `[verdict] why`. `<NL>`, `<CR>`, `<TAB>`, `<ESC>`,
//! `<NUL>`, `<DEL>` and `<U+200B>` stand for the characters they name.

use std::sync::LazyLock;

use proptest::prelude::*;

use crate::policy::command::{
    Knowledge, check_command, collect_parts, is_known_read_only, read_line,
};
use crate::protocol::CommandLine;

/// The share of harmless commands, in percent, that may be asked for.
const FRICTION_PERCENT_MAX: usize = 5;

fn shell(script: &str) -> CommandLine {
    CommandLine::Shell { program: "/bin/bash".to_owned(), login: false, script: script.to_owned() }
}

fn is_known(script: &str) -> bool {
    is_known_read_only(&shell(script))
}

fn why_not(script: &str) -> String {
    let known = Knowledge { tables: true, allows: None };
    check_command(&shell(script), known).err().unwrap_or_else(|| "it is known".to_owned())
}

/// Puts the characters in that a fixture names.
fn spell_out(line: &str) -> String {
    let named = [
        ("<NL>", "\n"),
        ("<CR>", "\r"),
        ("<TAB>", "\t"),
        ("<ESC>", "\u{1b}"),
        ("<NUL>", "\0"),
        ("<DEL>", "\u{7f}"),
    ];
    let mut text =
        named.iter().fold(line.to_owned(), |text, (name, real)| text.replace(name, real));
    while let Some((before, rest)) = text.split_once("<U+") {
        let (code, after) = rest.split_once('>').unwrap();
        let letter = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
        text = format!("{before}{letter}{after}");
    }
    text
}

/// The verdict and the command of every line.
static CORPUS: LazyLock<Vec<(String, String)>> = LazyLock::new(read_corpus);

/// The harmless lines and the unsafe ones, as they are known. A backslash at the end would
/// swallow what is put beside it, in a shell too.
static SORTED: LazyLock<[Vec<String>; 2]> = LazyLock::new(|| {
    ["allow", "ask"].map(|verdict| {
        let lines = CORPUS.iter().filter(|(said, line)| {
            said == verdict && is_known(line) == (verdict == "allow") && !line.ends_with('\\')
        });
        lines.map(|(_, line)| line.clone()).collect()
    })
});

fn read_corpus() -> Vec<(String, String)> {
    let folder = format!("{}/tests/fixtures/execpolicy", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut commands = Vec::new();
    for file in files {
        let mut verdict = String::new();
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let heading = ["[allow] ", "[ask] "].iter().find(|start| line.starts_with(**start));
            if let Some(start) = heading {
                verdict = start.trim_matches(['[', ']', ' ']).to_owned();
            } else if !line.is_empty() && !line.starts_with("# ") {
                assert!(!verdict.is_empty(), "no heading above {line}");
                commands.push((verdict.clone(), spell_out(line)));
            }
        }
    }
    commands
}

#[test]
fn nothing_unsafe_is_known_and_little_harmless_is_asked() {
    let corpus = &*CORPUS;
    let of = |verdict: &str| -> Vec<&String> {
        corpus.iter().filter(|(said, _)| said == verdict).map(|(_, command)| command).collect()
    };
    let (harmless, unsafe_ones) = (of("allow"), of("ask"));
    let asked: Vec<_> = harmless.iter().filter(|line| !is_known(line)).collect();
    let allowed: Vec<_> = unsafe_ones.iter().filter(|line| is_known(line)).collect();
    let shown = |line: &&&String| format!("{line:?}: {}", why_not(line));
    println!("harmless: {}, asked: {}", harmless.len(), asked.len());
    asked.iter().for_each(|line| println!("  {}", shown(line)));
    println!("unsafe: {}, allowed: {}", unsafe_ones.len(), allowed.len());
    assert!(harmless.len() >= 200 && unsafe_ones.len() >= 300, "the corpus is too small");
    assert!(allowed.is_empty(), "unsafe and allowed: {allowed:#?}");
    assert!(
        asked.len() * 100 <= harmless.len() * FRICTION_PERCENT_MAX,
        "{} of {} harmless commands are asked for: {:#?}",
        asked.len(),
        harmless.len(),
        asked.iter().map(shown).collect::<Vec<_>>()
    );
}

#[test]
fn a_vector_is_judged_without_a_shell() {
    let known = |argv: &[&str]| {
        is_known_read_only(&CommandLine::Argv { argv: argv.iter().map(|&w| w.into()).collect() })
    };
    assert!(known(&["ls", "-la", "a;b", "$(x)"]));
    assert!(known(&["/bin/ls"]));
    assert!(known(&["bash", "-lc", "ls | head"]));
    assert!(!known(&["bash", "-lc", "ls > x"]));
    assert!(!known(&["./ls"]));
    assert!(!known(&["ls", "a\u{1b}[2J"]));
    assert!(!known(&[]));
    assert!(!known(&[""]));
    assert!(!known(&["cat", &"x".repeat(5000)]));
    assert!(!known(&["LD_PRELOAD=./x", "ls"]));
}

#[test]
fn a_shell_of_another_place_is_unknown() {
    let shell = |program: &str| CommandLine::Shell {
        program: program.to_owned(),
        login: true,
        script: "ls".to_owned(),
    };
    assert!(is_known_read_only(&shell("/usr/bin/zsh")));
    assert!(!is_known_read_only(&shell("/tmp/bash")));
    assert!(!is_known_read_only(&shell("./bash")));
    assert!(!is_known_read_only(&shell("/bin/../tmp/bash")));
    assert!(!is_known_read_only(&shell("/usr/bin/fish")));
}

#[test]
fn what_is_not_understood_is_named_with_its_place() {
    let table = [
        ("ls > x", "it redirects to or from a file (at byte 4)"),
        ("echo $HOME", "it expands a variable (at byte 6)"),
        ("ls; cat 'x", "a quote is not closed (at byte 9)"),
        ("rm x", "`rm` is not known to only read"),
        ("sort -o x", "`sort -o` is not known to only read"),
        ("git push", "`git push` is not known to only read"),
        ("git log --output=x", "`git log --output` is not known to only read"),
        ("./ls", "`./ls` is not a program of the system"),
        ("ls | xargs rm", "`xargs` adds words, and with some `rm` may do more than read"),
    ];
    for (line, why) in table {
        assert_eq!(why_not(line), why, "{line}");
    }
}

#[test]
fn length_and_depth_end_somewhere() {
    assert!(!is_known(&format!("ls {}", "x".repeat(5000))));
    let nested = (0..50).fold("ls".to_owned(), |inner, _| format!("time {inner}"));
    assert!(!is_known(&nested));
    for open in ["$(", "(", "`", "\"$(", "{ ", "<(", "${", "$'", "<<a\n", "["] {
        let line = read_line(&open.repeat(50_000));
        assert!(line.odd.is_some() || open == "[", "{open}");
    }
}

#[test]
fn what_wraps_itself_is_searched_within_bounds() {
    let hostile = [
        "watch ".repeat(5_000),
        "sudo ".repeat(5_000),
        "eval ".repeat(5_000),
        "sh<<<a;".repeat(5_000),
        "sh<<a\n".repeat(5_000),
        "find -exec ".repeat(5_000),
        "git -c ".repeat(5_000),
        "env -S 'env -S ".repeat(2_000),
        format!("watch {}", "ls ".repeat(10_000)),
        "x".repeat(300_000),
        "ls;".repeat(10_000),
    ];
    for line in hostile {
        let parts = collect_parts(&shell(&line));
        assert!(parts.parts.len() <= 4096);
        let is_beyond = line.len() > 256 * 1024 || line.starts_with("sudo");
        assert!(parts.hidden.is_some() || !is_beyond, "{line:.20}");
    }
}

/// Returns the words that a real shell makes of a line.
fn words_of_sh(shell: &str, line: &str) -> Option<Vec<String>> {
    let output = std::process::Command::new(shell)
        .args(["-c", &format!("printf '%s\\0' {line}")])
        .env_clear()
        .stdin(std::process::Stdio::null())
        .current_dir("/")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split_terminator('\0').map(str::to_owned).collect())
}

proptest! {
    #[test]
    fn no_text_panics_and_every_answer_is_the_same(
        script in "\\PC*|[ -~\\n]{0,60}|([a-z]{1,5}|[|;&<>'\"$\\\\(){}*-]){0,30}",
    ) {
        prop_assert_eq!(is_known(&script), is_known(&script));
    }

    #[test]
    fn what_a_shell_would_expand_is_unknown(
        before in "(ls|cat|echo|git status|find \\.) [a-z. ]{0,10}",
        trick in "`|\\$|>|<|\\(|\\)|\\{|\\\\|~/| #|\u{1b}|\r|\0|é|\u{202e}|& |>>|<<| =|!",
        after in "[a-z]{1,8}",
    ) {
        let script = format!("{before} {trick}{after}");
        prop_assert!(!is_known(&script), "{}", script);
    }

    #[test]
    fn double_quotes_do_not_hide_an_expansion(trick in "`|\\$|!", text in "[a-z]{1,8}") {
        let script = format!("echo \"{text} {trick}{text}\"");
        prop_assert!(!is_known(&script), "{}", script);
    }

    /// A harmless line with an unsafe part anywhere is not harmless.
    #[test]
    fn one_unsafe_part_makes_the_line_unknown(pick in any::<(usize, usize, usize, usize, bool)>()) {
        let pick_of = |verdict: &str, at: usize| {
            let lines = &SORTED[usize::from(verdict == "ask")];
            lines[at % lines.len()].clone()
        };
        let (one, two) = (pick_of("allow", pick.0), pick_of("allow", pick.1));
        let bad = pick_of("ask", pick.2);
        let joint = ["; ", " && ", " || ", " | ", "\n"][pick.3 % 5];
        let line = if pick.4 { format!("{one}{joint}{bad}{joint}{two}") } else { format!("{one}{joint}{bad}") };
        let needs_whole_quotes = bad.matches(['\'', '"']).count() > 0;
        prop_assume!(!needs_whole_quotes || !pick.4);
        // What is wrong at a line's end alone may be right before another command.
        let ends_open = ["ls &&", "ls |", "ls ||", "xargs", "; ls", "| ls", "&& ls", "&", ";", "A=b"];
        prop_assume!(!ends_open.contains(&bad.as_str()));
        prop_assert!(!is_known(&line), "{}", line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    /// What the tokenizer understands, a shell understands in the same way.
    #[test]
    fn words_are_those_of_a_shell(
        words in prop::collection::vec(
            "[a-z0-9_./,:+@%^-]{1,6}|'[ -&(-~]{0,8}'|\"([ #%-\\[\\]-_a-~]|\\\\[ -~]){0,6}\"|\\\\[ -/:-@]|[a-z~#{}]{1,4}|[a-c'\"\\\\ ]{1,5}",
            1..5,
        ),
    ) {
        let line = words.join(" ");
        let read = read_line(&format!("printf {line}"));
        prop_assume!(read.odd.is_none() && read.calls.len() == 1 && read.calls[0].words.len() > 1);
        let ours = &read.calls[0].words[1..];
        prop_assume!(ours.iter().all(|word| word.wild.is_none()));
        let ours: Vec<&str> = ours.iter().map(|word| word.text.as_str()).collect();
        for shell in ["sh", "bash"] {
            let Some(theirs) = words_of_sh(shell, &line) else { continue };
            prop_assert_eq!(&ours, &theirs, "{}: {}", shell, line);
        }
    }
}
