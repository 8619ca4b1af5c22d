//! Names and descriptions of remote tools as a model reads them. Pure.
//!
//! A name is `mcp__SERVER__TOOL` in the letters servers allow; whatever is cut, changed into
//! another's name or otherwise ambiguous carries a short hash of what it really is, so that a
//! tool's name never depends on which other came first. Called by `tools/mcp.rs`.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::text::ansi::is_invisible;
use crate::text::hex::encode_hex;

/// Servers of models refuse longer names.
const NAME_BYTES_MAX: usize = 64;
/// Hex digits of the hash, with the underscore before it.
const HASH_BYTES: usize = 9;
/// Every remote tool's name begins so, and no built-in tool's does.
const PREFIX: &str = "mcp__";

/// Returns the name of each `(server, tool)`, in their order.
///
/// A pair that is listed twice gets its name once; the later one gets `None`.
pub(crate) fn build_tool_names(tools: &[(&str, &str)]) -> Vec<Option<String>> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain_name(server, tool)).collect();
    let mut owners: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (name, tool) in plain.iter().zip(tools) {
        let owners = owners.entry(name).or_default();
        if !owners.contains(tool) {
            owners.push(*tool);
        }
    }
    let mut given = std::collections::BTreeSet::new();
    let mut names = Vec::with_capacity(tools.len());
    for (name, tool) in plain.iter().zip(tools) {
        let is_shared = owners.get(name.as_str()).is_some_and(|owners| owners.len() > 1);
        let name = if is_shared || name.len() > NAME_BYTES_MAX {
            hashed_name(name, tool)
        } else {
            name.clone()
        };
        names.push(given.insert(name.clone()).then_some(name));
    }
    names
}

/// Returns a server's description of its tool as one bounded text without hidden letters.
pub(crate) fn build_description(server: &str, text: &str, bytes_max: usize) -> String {
    let mut clean: String = text.chars().filter(|letter| is_visible(*letter)).collect();
    if clean.len() > bytes_max {
        clean.truncate(clean.floor_char_boundary(bytes_max));
        clean.push('…');
    }
    let clean = clean.trim();
    let server: String = server.chars().filter(|letter| is_visible(*letter)).collect();
    if clean.is_empty() {
        return format!("[MCP server {server}]");
    }
    format!("[MCP server {server}] {clean}")
}

fn plain_name(server: &str, tool: &str) -> String {
    format!("{PREFIX}{}__{}", plain_part(server), plain_part(tool))
}

fn plain_part(text: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }
    };
    let part: String = text.chars().map(plain).collect();
    if part.is_empty() { "_".to_owned() } else { part }
}

fn hashed_name(name: &str, (server, tool): &(&str, &str)) -> String {
    let mut hasher = Sha256::new();
    hasher.update(server.as_bytes());
    hasher.update([0]);
    hasher.update(tool.as_bytes());
    let hash = hasher.finalize();
    let hex = encode_hex(hash.get(..4).unwrap_or_default());
    // The name is ASCII, so every length is a boundary.
    let kept: String = name.chars().take(NAME_BYTES_MAX - HASH_BYTES).collect();
    format!("{kept}_{hex}")
}

/// Letters a person cannot see must not speak to the model behind their back.
fn is_visible(letter: char) -> bool {
    letter == '\n' || letter == '\t' || !(letter.is_control() || is_invisible(letter))
}
