//! Reads the sources and says where the house is not tidy: direction, purity, sizes, leftovers.
//!
//! It knows the text of the files and nothing of what they do. `check` gives one finding a
//! line, each with what to do instead; the tests below run it on the real tree and on copies
//! with one planted violation. Sources are first made bare (`bare`): comments and
//! literals go, so that words in them are not code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module of `src/` with its layer.
const LAYERS: &[(&str, u8)] = &[
    ("protocol", 0),
    ("text", 1),
    ("patch", 1),
    ("conversation", 1),
    ("policy", 1),
    ("config", 1),
    ("prompt", 2),
    ("model", 2),
    ("sandbox", 2),
    ("hooks", 2),
    ("mcp", 2),
    ("store", 2),
    ("tools", 3),
    ("agent", 4),
    ("frontend", 5),
    ("cli", 6),
    // In fuzzing builds only; it sees all, and nothing sees it.
    ("fuzzing", 7),
];
/// Imports inside one layer that are allowed.
const SIDEWAYS: &[(&str, &str)] = &[
    ("policy", "text"),
    ("patch", "text"),
    ("conversation", "text"),
    ("config", "text"),
    ("config", "policy"),
];
/// What tools make below `tests/fuzz` and git ignores.
const GENERATED: &[&str] = &["artifacts", "corpus", "coverage", "target"];
/// All that a front end may name, and all of `agent` that it may.
const FRONTEND_SEES: &[&str] = &["protocol", "text", "config", "agent"];
const AGENT_FACE: &[&str] = &["Engine", "Handle", "SessionSpec", "History", "Busy", "sessions"];
/// Front ends, which never see each other.
const FRONTENDS: &[&str] = &["exec", "tui", "acp", "mcp_server"];

/// Pure by place, pure by name wherever they are, and the files that touch the world all the same.
const PURE_MODULES: &[&str] = &["protocol", "text", "patch", "conversation", "policy", "config"];
const PURE_FILES: &[&str] = &[
    "encode.rs",
    "decode.rs",
    "parse.rs",
    "plan.rs",
    "profile.rs",
    "build.rs",
    "outcome.rs",
    "retry.rs",
    "sse.rs",
    "naming.rs",
];
const IMPURE: &[&str] = &["config/load.rs", "config/trust.rs"];
const WORLDLY: &[&str] = &[
    "tokio",
    "reqwest",
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "Instant::now",
    "SystemTime::now",
    "Utc::now",
    "Local::now",
    "async fn",
];

const FILE_LINES_MAX: usize = 800;
/// Of a `mod.rs`; documentation and blank lines are not counted.
const MOD_LINES_MAX: usize = 150;
const FUNCTION_LINES_MAX: usize = 70;
const EVENT_VARIANTS_MAX: usize = 36;
const OP_VARIANTS_MAX: usize = 14;

/// Each kind of fixture: the runner that reaches it, and the file every case must hold (for
/// a kind whose cases are single files, their common ending).
const FIXTURES: &[(&str, &str, &str)] = &[
    ("session", "tests/it/sessions.rs", "script.jsonl"),
    ("patch", "src/patch/tests.rs", "patch.txt"),
    ("apply_patch", "tests/it/apply_patch.rs", "patch.txt"),
    ("policy", "src/policy/tests.rs", ""),
    ("rules", "src/policy/tests.rs", "rules.toml"),
    ("execpolicy", "src/policy/command/tests.rs", ""),
    ("config", "src/config/tests.rs", ""),
    ("thread_events", "src/frontend/exec/tests.rs", "events.jsonl"),
    ("tui", "src/frontend/tui/tests.rs", "events.jsonl"),
    ("project_docs", "src/prompt/tests.rs", ""),
    ("secrets", "src/text/secrets/tests.rs", ""),
    ("conversation", "src/conversation/tests.rs", ""),
    ("sse", "src/model/tests.rs", "stream.sse"),
    ("request", "src/model/tests.rs", "prompt.json"),
    ("fake", "src/model/fake.rs", ""),
    ("tool_specs", "src/tools/schema.rs", ""),
    ("escape", "tests/it/escape.rs", ""),
    ("composer", "src/frontend/tui/composer/tests.rs", "keys.txt"),
    ("keymap", "src/frontend/tui/keymap/tests.rs", "keys.txt"),
    ("markdown", "src/frontend/tui/markdown/tests.rs", "input.md"),
    ("diffview", "src/frontend/tui/diff/tests.rs", "input.diff"),
];
const TOP_LEVEL: &[&str] = &[
    ".cargo",
    ".ci",
    ".clippy.toml",
    ".git",
    ".gitattributes",
    ".github",
    ".gitignore",
    ".rustfmt.toml",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "assets",
    "prompts",
    "src",
    "tests",
];

/// One source file, as written and bare.
struct Source {
    /// From the root, with forward slashes.
    path: String,
    raw: String,
    /// Without comments and literals; same lines.
    bare: String,
    /// `bare` up to the inline test module.
    code: String,
}

/// Returns everything that is untidy below `root`, one line each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let sources: Vec<Source> = ["src", "tests"]
        .iter()
        .flat_map(|folder| walk(&root.join(folder)))
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| read_source(root, &path))
        .filter(|source| !source.path.starts_with("tests/fixtures/"))
        .collect();
    let mut found = Vec::new();
    for source in &sources {
        check_shape(source, &mut found);
        if let Some(inner) = source.path.strip_prefix("src/").filter(|p| !p.ends_with("tests.rs")) {
            check_imports(source, inner, &mut found);
            check_words(source, inner, &mut found);
        }
    }
    check_variants(&sources, &mut found);
    check_fixtures(root, &sources, &mut found);
    check_prompts(root, &sources, &mut found);
    check_top_level(root, &mut found);
    found
}

/// Opening doc, and the lengths of the file and its functions.
fn check_shape(source: &Source, found: &mut Vec<String>) {
    let path = &source.path;
    if !source.raw.starts_with("//!") && !source.raw.starts_with("#![doc = include_str!") {
        found.push(format!(
            "{path}:1: open the file with a `//!` doc: what it is, what it must not know, who calls it"
        ));
    }
    let lines = source.code.lines().count();
    if lines > FILE_LINES_MAX && !path.ends_with("tests.rs") {
        found.push(format!(
            "{path}: {lines} lines without tests, at most {FILE_LINES_MAX}: split it by concern"
        ));
    }
    let dense = source.code.lines().filter(|line| !line.trim().is_empty()).count();
    if path.ends_with("/mod.rs") && dense > MOD_LINES_MAX {
        found.push(format!(
            "{path}: {dense} lines of code, at most {MOD_LINES_MAX} in a mod.rs: move what is not the module's face to a file of its own"
        ));
    }
    for (line, name, length) in functions(&source.bare) {
        if length > FUNCTION_LINES_MAX {
            found.push(format!(
                "{path}:{line}: `{name}` has {length} lines, at most {FUNCTION_LINES_MAX}: name its steps and make them functions"
            ));
        }
    }
}

/// The direction of imports. `inner` is the path below `src/`.
fn check_imports(source: &Source, inner: &str, found: &mut Vec<String>) {
    let Some((module, rest)) = inner.split_once('/') else { return };
    let Some(layer) = layer_of(module) else {
        found.push(format!(
            "{}: `{module}` is not one of the sixteen modules: give it a layer in LAYERS of tidy.rs, or put it inside one",
            source.path
        ));
        return;
    };
    for (number, line) in (1..).zip(source.code.lines()) {
        let mut say = |what: String| found.push(format!("{}:{number}: {what}", source.path));
        if line.contains("super::super") || (rest == "mod.rs" && has_word(line, "super")) {
            say("write the path from `crate::`, so that direction can be read".to_owned());
        }
        if line.contains("use crate::{") || line.contains("use super::{self") {
            say("write one `use crate::<module>::…` line per module".to_owned());
        }
        for target in line.split("crate::").skip(1) {
            if let Some(why) = judge_import(module, layer, rest, target) {
                say(why);
            }
        }
    }
}

/// Returns why a file of `module` may not name `target`, a path from `crate::` on.
fn judge_import(module: &str, layer: u8, rest: &str, target: &str) -> Option<String> {
    let name = leading_name(target);
    let target_layer = layer_of(name)?;
    let inside = target.get(name.len()..).and_then(|t| t.strip_prefix("::")).unwrap_or_default();
    if module == "frontend" && name == "frontend" {
        let (own, other) = (leading_name(rest), leading_name(inside));
        let sideways = FRONTENDS.contains(&own) && FRONTENDS.contains(&other) && own != other;
        return sideways.then(|| format!("front end `{own}` sees front end `{other}`: share through `frontend/mod.rs` or `text`"));
    }
    if name == module || module == "cli" {
        return None;
    }
    if module == "frontend" && !FRONTEND_SEES.contains(&name) {
        return Some(format!(
            "a front end may name only {FRONTEND_SEES:?}, not `{name}`: let `agent` say it in an event"
        ));
    }
    if module == "frontend" && name == "agent" {
        let mut parts =
            inside.trim_start_matches('{').split([',', '}']).map(|p| leading_name(p.trim()));
        let secret = parts.find(|part| !part.is_empty() && !AGENT_FACE.contains(part))?;
        return Some(format!(
            "of `agent` a front end may name only {AGENT_FACE:?}, not `{secret}`"
        ));
    }
    if target_layer > layer {
        return Some(format!(
            "`{module}` (layer {layer}) imports `{name}` (layer {target_layer}) above it: move the shared part down, or pass the value in"
        ));
    }
    let sideways = target_layer == layer && !SIDEWAYS.contains(&(module, name));
    sideways.then(|| format!("`{module}` imports its sibling `{name}`: move the shared part down, or join them one layer up"))
}

/// Words that belong to certain places only.
fn check_words(source: &Source, inner: &str, found: &mut Vec<String>) {
    let module = inner.split('/').next().unwrap_or_default();
    let file = inner.rsplit('/').next().unwrap_or_default();
    let pure = (PURE_MODULES.contains(&module) && inner.contains('/')
        || PURE_FILES.contains(&file))
        && !IMPURE.contains(&inner);
    let prints = module == "cli" || inner.starts_with("frontend/exec");
    for (number, line) in (1..).zip(source.code.lines()) {
        let mut say = |what: String| found.push(format!("{}:{number}: {what}", source.path));
        let world =
            WORLDLY.iter().copied().find(|word| line.contains(word)).or_else(|| grouped(line));
        if let Some(word) = world.filter(|_| pure) {
            say(format!(
                "a pure file mentions `{word}`: take the value as an argument and touch the world in the caller"
            ));
        }
        if !prints && (line.contains("print!(") || line.contains("println!(")) {
            say("only cli/ and frontend/exec/ print: return the text, or make it an event"
                .to_owned());
        }
        if module != "sandbox" && has_word(line, "unsafe") {
            say("`unsafe` lives in sandbox/ only: use a safe crate, or put the call behind a function there".to_owned());
        }
    }
}

/// Returns the worldly member of a grouped `use std::{…}`.
fn grouped(line: &str) -> Option<&'static str> {
    let group = line.trim_start().strip_prefix("use std::{")?;
    ["fs", "net", "process", "env"].into_iter().find(|name| has_word(group, name))
}

/// The vocabulary stays small.
fn check_variants(sources: &[Source], found: &mut Vec<String>) {
    for (file, name, max) in [
        ("src/protocol/event.rs", "EventMsg", EVENT_VARIANTS_MAX),
        ("src/protocol/op.rs", "Op", OP_VARIANTS_MAX),
    ] {
        let source = sources.iter().find(|s| s.path == file);
        let body = source.and_then(|s| s.bare.split_once(&format!("pub enum {name} {{")));
        let Some((_, body)) = body else {
            found.push(format!("{file}: `pub enum {name}` is gone: tell tidy.rs where it lives"));
            continue;
        };
        let count = variants(body);
        if count > max {
            found.push(format!("{file}: `{name}` has {count} variants, at most {max}: use an existing one, or say in the commit why none serves"));
        }
    }
}

/// Every fixture is reached by a runner.
fn check_fixtures(root: &Path, sources: &[Source], found: &mut Vec<String>) {
    for kind in children(&root.join("tests/fixtures")).iter().filter(|p| p.is_dir()) {
        let name = file_name(kind);
        let Some((_, runner, file)) = FIXTURES.iter().find(|(kind, ..)| *kind == name) else {
            found.push(format!("tests/fixtures/{name}: no runner reaches it: write one and add a row to FIXTURES of tidy.rs, or delete it"));
            continue;
        };
        let reached = sources.iter().any(|s| s.path == *runner && mentions(&s.raw, &name));
        if !reached {
            found.push(format!("tests/fixtures/{name}: {runner} does not mention it: run it there, or correct FIXTURES of tidy.rs"));
        }
        for case in leaves(kind, file) {
            let shown = case.strip_prefix(root).unwrap_or(&case).display().to_string();
            if walk(&case).is_empty() {
                found.push(format!("{shown}: an empty case tests nothing: fill it or delete it"));
            } else if !file.is_empty() && !case.join(file).is_file() {
                found.push(format!(
                    "{shown}: no `{file}`, so the runner passes it over: add it or delete the case"
                ));
            }
        }
    }
}

/// Returns the case folders of a kind: its children, or theirs where a child only groups
/// (`sse/responses/…`), which shows in that it holds folders alone and no case file.
fn leaves(kind: &Path, file: &str) -> Vec<PathBuf> {
    let mut cases = Vec::new();
    for child in children(kind).into_iter().filter(|p| p.is_dir()) {
        let inner = children(&child);
        let groups = !file.is_empty()
            && !inner.is_empty()
            && inner.iter().all(|p| p.is_dir() && p.join(file).is_file());
        if groups { cases.extend(inner) } else { cases.push(child) }
    }
    cases
}

/// Every text for the model is used.
fn check_prompts(root: &Path, sources: &[Source], found: &mut Vec<String>) {
    for path in walk(&root.join("prompts")) {
        let name = relative(root, &path);
        let used = sources.iter().any(|s| s.raw.contains("include_str!") && s.raw.contains(&name));
        if !used {
            found.push(format!("{name}: nothing includes it: `include_str!` it, or delete it"));
        }
    }
}

/// Nothing grows at the top level.
fn check_top_level(root: &Path, found: &mut Vec<String>) {
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    for path in children(root) {
        let name = file_name(&path);
        let known = TOP_LEVEL.contains(&name.as_str())
            || ignored.lines().any(|line| line.trim_matches('/') == name);
        if !known {
            found.push(format!("{name}: not a name of the top level: put it below src/, tests/, assets/ or prompts/, or ignore it"));
        }
    }
}

fn layer_of(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn leading_name(text: &str) -> &str {
    text.split(|c| !is_name(c)).next().unwrap_or_default()
}

fn has_word(line: &str, word: &str) -> bool {
    line.contains(word) && line.split(|c| !is_name(c)).any(|part| part == word)
}

fn mentions(raw: &str, kind: &str) -> bool {
    raw.contains(&format!("fixtures/{kind}")) || raw.contains(&format!("\"{kind}"))
}

/// Returns (line, name, lines of code in the body) of every function in bare code.
fn functions(bare: &str) -> Vec<(usize, String, usize)> {
    let mut all = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for (at, _) in bare.match_indices("fn ") {
        line += bare[counted..at].matches('\n').count();
        counted = at;
        let after = &bare[at + 3..];
        let name = leading_name(after);
        if name.is_empty() || bare[..at].ends_with(is_name) {
            continue;
        }
        let Some(open) = after.find(['{', ';']).filter(|at| after[*at..].starts_with('{')) else {
            continue;
        };
        let body = &after[open..];
        let dense = body[1..closing(body)].lines().skip(1).filter(|line| !line.trim().is_empty());
        all.push((line, name.to_owned(), dense.count()));
    }
    all
}

/// Returns where the brace that opens `body` closes.
fn closing(body: &str) -> usize {
    let mut depth = 0_usize;
    for (at, brace) in body.match_indices(['{', '}']) {
        match brace {
            "{" => depth += 1,
            _ if depth == 1 => return at,
            _ => depth -= 1,
        }
    }
    body.len()
}

/// Counts the variants of an enum from the text after its opening brace.
fn variants(body: &str) -> usize {
    let (mut depth, mut count) = (1_usize, 0);
    for line in body.lines() {
        if depth == 1 && line.trim_start().starts_with(char::is_uppercase) {
            count += 1;
        }
        for c in line.chars() {
            match c {
                '{' | '(' => depth += 1,
                '}' | ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return count;
            }
        }
    }
    count
}

fn read_source(root: &Path, path: &Path) -> Source {
    let raw = fs::read_to_string(path).unwrap();
    let bare = bare(&raw);
    // An inline test module is the last thing in a file; `mod tests;` is only a declaration.
    let tail = bare.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|at| {
        let item = bare[at + 12..].trim_start();
        item.starts_with("mod ")
            && item[..item.find(['{', ';']).map_or(0, |at| at + 1)].ends_with('{')
    });
    let code = bare[..tail.unwrap_or(bare.len())].to_owned();
    Source { path: relative(root, path), raw, bare, code }
}

/// Returns the source without comments and literals; lines stay where they are.
fn bare(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = skipped(rest, &out);
        if length == 0 {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        } else {
            out.push(' ');
            out.extend(rest[..length].matches('\n'));
            rest = &rest[length..];
        }
    }
    out + rest
}

/// Returns the length of the comment or literal that `rest` starts with, 0 if none.
fn skipped(rest: &str, before: &str) -> usize {
    let to = |end: Option<usize>, extra: usize| end.map_or(rest.len(), |at| at + extra);
    if rest.starts_with("//") {
        return to(rest.find('\n'), 0);
    }
    if rest.starts_with("/*") {
        return to(rest.find("*/"), 2);
    }
    if let Some(inside) = rest.strip_prefix('"') {
        let hashes = before.len() - before.trim_end_matches('#').len();
        if !before.trim_end_matches('#').ends_with('r') {
            return quoted(rest, '"');
        }
        let end = format!("\"{}", "#".repeat(hashes));
        return to(inside.find(&end), 2 + hashes);
    }
    // A character literal closes after one character or an escape; a lifetime does not.
    let mut next = rest.chars().skip(1);
    match (rest.starts_with('\''), next.next(), next.next()) {
        (true, Some('\\'), _) => quoted(rest, '\''),
        (true, Some(c), Some('\'')) if c != '\'' => 2 + c.len_utf8(),
        _ => 0,
    }
}

/// Returns the length of a literal with escapes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string().replace('\\', "/")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns what a folder holds, sorted; nothing for one that is not there.
fn children(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Returns all files below a folder.
pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let (folders, mut files): (Vec<_>, Vec<_>) =
        children(folder).into_iter().partition(|p| p.is_dir() && !p.is_symlink());
    let is_ours = |path: &&PathBuf| {
        !(folder.ends_with("tests/fuzz") && GENERATED.contains(&file_name(path).as_str()))
    };
    files.extend(folders.iter().filter(is_ours).flat_map(|folder| walk(folder)));
    files
}
