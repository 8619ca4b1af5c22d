//! The corpus of secret and innocent lines, and what holds of any text.
//!
//! In `secret.txt`, `«` and `»` stand around what must be masked, and `¦` within it keeps other
//! people's scanners quiet; all three are taken out first.

use proptest::prelude::*;

use super::find::find_all;
use super::*;

const SECRET: &str = include_str!("../../../tests/fixtures/secrets/secret.txt");
const INNOCENT: &str = include_str!("../../../tests/fixtures/secrets/innocent.txt");

fn vault() -> Vault {
    Vault::new(0x0123_4567_89ab_cdef, &[])
}

fn unmasked(vault: &Vault, text: &str) -> String {
    let put = |out: &mut String, secret: &str, _: &str| {
        out.push_str(secret);
        Ok::<(), UnknownToken>(())
    };
    vault.unmask(text, put).unwrap().unwrap_or_else(|| text.to_owned())
}

#[test]
fn every_secret_of_the_corpus_is_masked_and_comes_back() {
    let mut missed = Vec::new();
    for line in SECRET.lines() {
        let line = line.replace('¦', "");
        let (before, rest) = line.split_once('«').expect("each line marks a secret");
        let (secret, after) = rest.split_once('»').unwrap();
        let plain = format!("{before}{secret}{after}");
        let mut vault = vault();
        let masked = vault.mask(&plain).into_owned();
        let shape = masked.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        let is_token = shape.is_some_and(|token| {
            token.starts_with("[secret:1:") && token.ends_with(']') && token.len() < 80
        });
        if !is_token {
            missed.push(format!("{plain}\n    {masked}"));
        }
        assert_eq!(unmasked(&vault, &masked), plain);
    }
    assert!(missed.is_empty(), "{} are missed:\n{}", missed.len(), missed.join("\n"));
    assert!(SECRET.lines().count() >= 90);
}

#[test]
fn no_innocent_line_of_the_corpus_is_masked() {
    let masked = |line: &&str| vault().mask(line) != **line;
    let wrong: Vec<&str> = INNOCENT.lines().filter(masked).collect();
    assert!(wrong.is_empty(), "{} are masked:\n{}", wrong.len(), wrong.join("\n"));
    assert!(INNOCENT.lines().count() >= 120);
    assert_eq!(vault().mask(INNOCENT), INNOCENT);
}

const KEY: &str = "\
before
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACDqJ1m2h3Zk9v8s7w6e5d4c3b2a1Z0Y9X8W7V6U5T4S3R2Q1PAAAJhq2b3c
QIDBAU=
-----END OPENSSH PRIVATE KEY-----
after
";

#[test]
fn a_private_key_is_masked_line_by_line_whatever_stands_before_its_lines() {
    for prefix in ["", "  ", "12\t", "+", "-", "id_rsa:7:", "> "] {
        let text: String = KEY.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let mut vault = vault();
        let masked = vault.mask(&text).into_owned();
        assert_eq!(masked.lines().count(), 7, "{masked}");
        assert_eq!(masked.matches("[secret:").count(), 3, "{masked}");
        for part in ["b3Blbn", "QyNTUx", "QIDBAU"] {
            assert!(!masked.contains(part), "{masked}");
        }
        assert!(masked.contains("BEGIN OPENSSH PRIVATE KEY"), "{masked}");
        assert_eq!(unmasked(&vault, &masked), text);
    }
    let escaped = KEY.replace('\n', "\\n");
    let masked = vault().mask(&escaped).into_owned();
    assert!(!masked.contains("3BlbnNza") && !masked.contains("yNTUxOQ"), "{masked}");
}

#[test]
fn the_end_of_a_private_key_whose_beginning_was_cut_off_is_masked() {
    let cut = KEY.lines().skip(2).collect::<Vec<_>>().join("\n");
    let masked = vault().mask(&cut).into_owned();
    assert_eq!(masked.matches("[secret:").count(), 3, "{masked}");
}

#[test]
fn a_secret_has_one_token_wherever_it_turns_up() {
    let mut vault = vault();
    let first = vault.mask("bare hunter2hunter2 and\npassword=hunter2hunter2\n").into_owned();
    let token = first.trim_end().rsplit('=').next().unwrap();
    assert_eq!(first, format!("bare {token} and\npassword={token}\n"));
    assert_eq!(vault.mask("later: hunter2hunter2"), format!("later: {token}"));
    // Within another word it is another word.
    assert_eq!(vault.mask("xhunter2hunter2x"), "xhunter2hunter2x");
    // A long one is found within anything.
    let known = KnownSecret { name: "CI_KEY".to_owned(), value: "0123456789abcdefX".to_owned() };
    let mut vault = Vault::new(7, &[known]);
    assert!(vault.mask("zz0123456789abcdefXzz").starts_with("zz[secret:1:ci-key:"));
}

#[test]
fn known_values_are_masked_but_for_paths_and_short_ones() {
    let known = |name: &str, value: &str| KnownSecret { name: name.into(), value: value.into() };
    let all = [
        known("SSH_KEY", "/home/me/.ssh/id_main"),
        known("PIN_TOKEN", "1234567"),
        known("APP_SECRET", "swordfish"),
        known("KEY_PAIR", "-----BEGIN X PRIVATE KEY-----\nabcdefgh12\n-----END X PRIVATE KEY-----"),
    ];
    let mut vault = Vault::new(7, &all);
    let masked = vault.mask("/home/me/.ssh/id_main 1234567 swordfish abcdefgh12").into_owned();
    let (paths, secrets) = masked.split_once(" [").unwrap();
    assert_eq!(paths, "/home/me/.ssh/id_main 1234567");
    assert_eq!(secrets.matches("app-secret").count(), 1, "{masked}");
    assert_eq!(secrets.matches("key-pair").count(), 1, "{masked}");
}

#[test]
fn what_only_looks_like_a_token_is_masked_and_comes_back() {
    let mut vault = vault();
    let literal = "see [secret:1:github-token:zzzzzz] there";
    let masked = vault.mask(literal).into_owned();
    assert!(masked.contains(":text:") && !masked.contains("zzzzzz"), "{masked}");
    assert_eq!(unmasked(&vault, &masked), literal);
    let error = vault.unmask("[secret:9:jwt:zzzzzz]", |_, _, _| Ok::<(), UnknownToken>(()));
    assert_eq!(error, Err(UnknownToken("[secret:9:jwt:zzzzzz]".to_owned())));
}

#[test]
fn a_cut_leaves_no_part_of_a_word() {
    assert_eq!(before_cut("one two thr"), "one two ");
    assert_eq!(after_cut("ee four"), " four");
    assert_eq!(before_cut("ends well\n"), "ends well\n");
    assert_eq!(line_before_cut("key ghp_abc"), "key ");
    let data = "x".repeat(400);
    assert_eq!(line_before_cut(&data), data);
    let long = format!("a eyJ{}", "x".repeat(400));
    assert_eq!(line_before_cut(&long), "a ");
}

#[test]
fn names_of_variables_tell_secrets() {
    for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "MYSECRET", "GH_PAT", "x-api-key"]
    {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["PATH", "KEYBOARD", "PATIENT", "MONKEY", "SSH_AUTH_SOCK", "TOKENIZER"] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn a_stream_shows_what_is_harmless_at_once_and_holds_back_the_rest() {
    let mut vault = vault();
    let mut stream = MaskedStream::default();
    assert_eq!(stream.push("Continue? ", &mut vault), "Continue? ");
    assert_eq!(stream.push("yes\nghp_", &mut vault), "yes\n");
    assert_eq!(stream.push("0123456789012345678901234", &mut vault), "");
    assert_eq!(stream.push("56789abcdef more", &mut vault).matches("[secret:1:").count(), 1);
    assert_eq!(stream.finish(&mut vault), "more");
    let mut stream = MaskedStream::default();
    let coloured = "ghp_\u{1b}[31m0123456789012345678901234\u{1b}[m56789abcdef\n";
    let shown = stream.push(coloured, &mut vault);
    assert!(shown.starts_with("[secret:1:"), "{shown}");
}

/// Pieces of texts that come near to secrets.
fn piece() -> impl Strategy<Value = String> {
    const SOME: &[&str] = &[
        "ghp_",
        "password=",
        "\"token\": \"",
        "Bearer ",
        "https://u:",
        "@host",
        "\n",
        " ",
        "\"",
        "-----BEGIN X PRIVATE KEY-----\n",
        "-----END X PRIVATE KEY-----",
        "hunter2hunter2",
        "[secret:1:text:",
        "[secret:2:jwt:aaaaaa]",
        "]",
        "é",
        "\u{1b}[m",
        "=",
        "AKIA",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ",
        "eyJ",
        ".",
        "aB3dE6gH9jK2mN5pQ8rS1tU4vW7yZ0",
    ];
    prop_oneof![
        4 => prop::sample::select(SOME).prop_map(str::to_owned),
        2 => "[a-zA-Z0-9_/+=-]{0,40}",
        1 => "\\PC{0,6}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn masked_text_comes_back_also_when_it_is_masked_twice(text in text()) {
        let mut vault = vault();
        let masked = vault.mask(&text).into_owned();
        prop_assert_eq!(unmasked(&vault, &masked), text.as_str());
        let again = vault.mask(&masked).into_owned();
        prop_assert_eq!(unmasked(&vault, &again), text.as_str());
        for finding in find_all(&text) {
            prop_assert!(!text.get(finding.range).unwrap().contains('\n'));
        }
    }

    #[test]
    fn a_stream_shows_the_same_however_it_is_cut(text in text(), cuts in prop::collection::vec(0..400_usize, 0..6)) {
        let text: String = text.chars().filter(|c| c.is_ascii() && *c != '\u{1b}').collect();
        let shown = |places: &[usize]| {
            let (mut vault, mut stream) = (vault(), MaskedStream::default());
            let pairs = places.windows(2);
            let mut shown: String =
                pairs.map(|pair| stream.push(text.get(pair[0]..pair[1]).unwrap(), &mut vault)).collect();
            shown += &stream.finish(&mut vault);
            shown
        };
        let mut places: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        prop_assert_eq!(shown(&places), shown(&[0, text.len()]));
    }
}
