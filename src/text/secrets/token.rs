//! The token that stands for a secret: `[secret:3:github-token:k7f3qa]`.
//!
//! Plain ASCII without a character that JSON, a shell or a server's encoder would change. The
//! last word is drawn at random for each process, so that no file can hold a token of it.

use std::ops::Range;

/// What every token begins with.
const START: &str = "[secret:";
/// No token is longer.
const BYTES_MAX: usize = 80;
/// Letters of the last word.
pub(super) const NONCE_BYTES: usize = 6;

/// Something with the form of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form<'a> {
    /// Where it stands.
    pub(super) range: Range<usize>,
    /// The whole of it.
    pub(super) text: &'a str,
}

/// Returns the token of a secret.
pub(super) fn render(number: usize, kind: &str, nonce: &str) -> String {
    format!("{START}{number}:{kind}:{nonce}]")
}

/// Returns everything in a text that has the form of a token, in order.
pub(super) fn find(text: &str) -> impl Iterator<Item = Form<'_>> {
    let starts = memchr::memmem::find_iter(text.as_bytes(), START).collect::<Vec<_>>();
    starts.into_iter().filter_map(move |start| {
        let rest = text.get(start..)?;
        let end = rest.bytes().take(BYTES_MAX).position(|byte| byte == b']')? + 1;
        let form = rest.get(..end)?;
        is_form(form).then(|| Form { range: start..start + end, text: form })
    })
}

fn is_form(text: &str) -> bool {
    let inner = text.strip_prefix(START).and_then(|rest| rest.strip_suffix(']'));
    let mut parts = inner.unwrap_or_default().split(':');
    let (number, kind, nonce) = (parts.next(), parts.next(), parts.next());
    let is = |part: Option<&str>, test: fn(u8) -> bool| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(test))
    };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    is(number, |byte| byte.is_ascii_digit())
        && is(kind, is_word)
        && is(nonce, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && nonce.is_some_and(|nonce| nonce.len() == NONCE_BYTES)
        && parts.next().is_none()
}
