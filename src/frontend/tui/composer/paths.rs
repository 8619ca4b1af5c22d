//! Paths of images in what a terminal sends when files are dragged onto it.
//!
//! Terminals quote them, escape them with backslashes, or send `file://` addresses, several
//! with spaces between. Pure: says what could be a path; whether it is a file is asked by who
//! may look. Called by the composer's paste and by the screen.

use std::path::{Path, PathBuf};

/// A drag is short; a longer paste is text.
const DRAG_BYTES_MAX: usize = 16 << 10;
/// Images a message can carry by one drag.
const PATHS_MAX: usize = 32;
/// What models read.
const ENDINGS: &[&str] = &["png", "jpg", "jpeg", "gif", "webp"];

/// Returns the paths when the text is nothing but paths of images, else `None`.
pub(crate) fn image_paths(pasted: &str) -> Option<Vec<PathBuf>> {
    if pasted.len() > DRAG_BYTES_MAX {
        return None;
    }
    let whole = PathBuf::from(pasted.trim());
    let words = words(pasted.trim())?;
    let paths: Vec<PathBuf> = words.iter().filter_map(|word| path_of(word)).collect();
    let all = !paths.is_empty() && paths.len() == words.len() && paths.len() <= PATHS_MAX;
    if all && paths.iter().all(|path| is_image(path)) {
        return Some(paths);
    }
    // A path with spaces that nobody quoted.
    let one_line = !pasted.trim().contains('\n');
    (one_line && whole.is_absolute() && is_image(&whole)).then(|| vec![whole])
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Splits as a shell would; `None` when a quote stays open.
fn words(text: &str) -> Option<Vec<String>> {
    shlex::split(text)
}

fn path_of(word: &str) -> Option<PathBuf> {
    match word.strip_prefix("file://") {
        None => Some(PathBuf::from(word)),
        Some(address) => {
            let path = address.strip_prefix("localhost").unwrap_or(address);
            path.starts_with('/').then(|| unescape(path)).flatten().map(PathBuf::from)
        }
    }
}

/// Undoes percent encoding.
fn unescape(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
