//! Secrets that are known by their own shape: the tokens that services give out.
//!
//! A table of beginnings and of what may follow. What follows must be a whole run of its
//! letters within bounds, so that longer data is none. Called by `find.rs`.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::find::{Finding, is_placeholder};

/// A shape of tokens.
struct Shape {
    start: &'static str,
    rest: Rest,
    /// Bytes of the rest, at least and at most.
    bytes: (usize, usize),
    kind: &'static str,
}

/// What may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Hex,
    UpperDigits,
    Alnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The same, and it must look random: the beginning alone says little.
    Mixed,
    /// The same and `.`.
    Dotted,
    /// The same and `/`.
    Path,
    /// Three parts of base64url.
    Jwt,
}

const fn shape(
    start: &'static str,
    rest: Rest,
    bytes: (usize, usize),
    kind: &'static str,
) -> Shape {
    Shape { start, rest, bytes, kind }
}

const SHAPES: &[Shape] = &[
    shape("AKIA", Rest::UpperDigits, (16, 16), "aws-key-id"),
    shape("ASIA", Rest::UpperDigits, (16, 16), "aws-key-id"),
    shape("ghp_", Rest::Alnum, (30, 255), "github-token"),
    shape("gho_", Rest::Alnum, (30, 255), "github-token"),
    shape("ghu_", Rest::Alnum, (30, 255), "github-token"),
    shape("ghs_", Rest::Dotted, (30, 600), "github-token"),
    shape("ghr_", Rest::Alnum, (30, 255), "github-token"),
    shape("github_pat_", Rest::Word, (22, 255), "github-token"),
    shape("glpat-", Rest::Dotted, (20, 300), "gitlab-token"),
    shape("gldt-", Rest::Word, (20, 64), "gitlab-token"),
    shape("glrt-", Rest::Dotted, (20, 300), "gitlab-token"),
    shape("glcbt-", Rest::Word, (20, 80), "gitlab-token"),
    shape("glptt-", Rest::Word, (20, 80), "gitlab-token"),
    shape("xoxb-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxp-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxa-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxr-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxs-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxc-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxd-", Rest::Word, (16, 255), "slack-token"),
    shape("xoxe.", Rest::Word, (16, 255), "slack-token"),
    shape("xapp-", Rest::Word, (16, 255), "slack-token"),
    shape("hooks.slack.com/services/", Rest::Path, (30, 120), "slack-webhook"),
    shape("discord.com/api/webhooks/", Rest::Path, (60, 140), "webhook"),
    shape("sk_live_", Rest::Alnum, (16, 255), "stripe-key"),
    shape("sk_test_", Rest::Alnum, (16, 255), "stripe-key"),
    shape("rk_live_", Rest::Alnum, (16, 255), "stripe-key"),
    shape("rk_test_", Rest::Alnum, (16, 255), "stripe-key"),
    shape("whsec_", Rest::Mixed, (24, 255), "stripe-key"),
    shape("sk-ant-", Rest::Word, (20, 255), "anthropic-key"),
    shape("sk-proj-", Rest::Word, (20, 255), "openai-key"),
    shape("sk-svcacct-", Rest::Word, (20, 255), "openai-key"),
    shape("sk-admin-", Rest::Word, (20, 255), "openai-key"),
    shape("sk-or-v1-", Rest::Hex, (32, 128), "api-key"),
    shape("sk-", Rest::Mixed, (20, 255), "api-key"),
    shape("AIza", Rest::Word, (35, 35), "google-key"),
    shape("GOCSPX-", Rest::Word, (24, 40), "google-secret"),
    shape("ya29.", Rest::Word, (20, 2048), "google-token"),
    shape("npm_", Rest::Alnum, (36, 80), "npm-token"),
    shape("pypi-", Rest::Mixed, (40, 255), "pypi-token"),
    shape("rubygems_", Rest::Hex, (48, 48), "rubygems-key"),
    shape("cio", Rest::Mixed, (32, 32), "crates-token"),
    shape("dckr_pat_", Rest::Word, (20, 64), "docker-token"),
    shape("hf_", Rest::Alnum, (30, 60), "huggingface-token"),
    shape("gsk_", Rest::Alnum, (40, 80), "api-key"),
    shape("xai-", Rest::Alnum, (60, 120), "api-key"),
    shape("r8_", Rest::Alnum, (37, 40), "api-key"),
    shape("pplx-", Rest::Alnum, (40, 80), "api-key"),
    shape("dop_v1_", Rest::Hex, (64, 64), "digitalocean-token"),
    shape("doo_v1_", Rest::Hex, (64, 64), "digitalocean-token"),
    shape("shpat_", Rest::Hex, (32, 32), "shopify-token"),
    shape("shpss_", Rest::Hex, (32, 32), "shopify-token"),
    shape("SG.", Rest::Dotted, (40, 90), "sendgrid-key"),
    shape("sq0atp-", Rest::Word, (20, 64), "square-token"),
    shape("sq0csp-", Rest::Word, (20, 64), "square-token"),
    shape("hvs.", Rest::Word, (24, 255), "vault-token"),
    shape("hvb.", Rest::Word, (24, 500), "vault-token"),
    shape("dapi", Rest::Hex, (32, 34), "databricks-token"),
    shape("lin_api_", Rest::Alnum, (32, 64), "linear-key"),
    shape("ntn_", Rest::Alnum, (40, 64), "notion-token"),
    shape("pul-", Rest::Hex, (40, 40), "pulumi-token"),
    shape("ATATT3", Rest::Mixed, (40, 255), "atlassian-token"),
    shape("AGE-SECRET-KEY-1", Rest::UpperDigits, (58, 58), "age-key"),
    shape("eyJ", Rest::Jwt, (30, 4000), "jwt"),
];

static STARTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let starts = SHAPES.iter().map(|shape| shape.start);
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(starts).ok()
});

/// Adds the secrets of a line that have a known shape.
pub(super) fn find(line: &str, found: &mut Vec<Finding>) {
    let Some(starts) = &*STARTS else { return };
    for hit in starts.find_iter(line) {
        let Some(shape) = SHAPES.get(hit.pattern().as_usize()) else { continue };
        if let Some(range) = shape.fit(line, hit.range()) {
            found.push(Finding { range, kind: shape.kind.into() });
        }
    }
}

/// Returns whether a word that was cut holds the beginning of a known shape.
pub(super) fn holds_beginning(word: &str) -> bool {
    STARTS.as_ref().is_some_and(|starts| starts.is_match(word))
}

impl Shape {
    fn fit(&self, line: &str, start: Range<usize>) -> Option<Range<usize>> {
        let bytes = line.as_bytes();
        let before = start.start.checked_sub(1).and_then(|at| bytes.get(at));
        // `\n` and `\t` as JSON writes them are no part of a word.
        let two_before = start.start.checked_sub(2).and_then(|at| bytes.get(at));
        let is_escape = two_before == Some(&b'\\') && matches!(before, Some(b'n' | b't' | b'r'));
        if before.is_some_and(u8::is_ascii_alphanumeric) && !is_escape {
            return None;
        }
        let rest = bytes.get(start.end..)?;
        let (least, most) = self.bytes;
        let run = rest.iter().take(most + 1).take_while(|byte| self.rest.takes(**byte)).count();
        let mut end = start.end + run;
        while end > start.end && bytes.get(end - 1) == Some(&b'.') {
            end -= 1;
        }
        if end - start.end < least || end - start.end > most {
            return None;
        }
        let whole = line.get(start.start..end)?;
        let tail = line.get(start.end..end)?;
        let fits = !is_placeholder(whole) && self.rest.holds(tail);
        fits.then_some(start.start..end)
    }
}

impl Rest {
    fn takes(self, byte: u8) -> bool {
        let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::UpperDigits => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word | Self::Mixed => is_word,
            Self::Dotted | Self::Jwt => is_word || byte == b'.',
            Self::Path => is_word || byte == b'/',
        }
    }

    fn holds(self, tail: &str) -> bool {
        match self {
            Self::Mixed => {
                let digits = tail.bytes().filter(u8::is_ascii_digit).count();
                let upper = tail.bytes().any(|byte| byte.is_ascii_uppercase());
                let lower = tail.bytes().any(|byte| byte.is_ascii_lowercase());
                digits >= 2 && (upper && lower || digits >= tail.len() / 5)
            }
            Self::Jwt => {
                let parts: Vec<&str> = tail.split('.').collect();
                matches!(parts.len(), 3 | 5)
                    && parts.first().is_some_and(|part| part.len() >= 8)
                    && parts.last().is_some_and(|part| part.len() >= 8)
            }
            Self::Hex
            | Self::UpperDigits
            | Self::Alnum
            | Self::Word
            | Self::Dotted
            | Self::Path => true,
        }
    }
}
