//! `list_dir`: names in a directory, a few levels deep.
//!
//! The first level is shown as it is; what git ignores is left out below it. Links are shown,
//! never followed. Knows no session and no screen. The tool to copy when writing a new one.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::protocol::{Effect, ToolCall, ToolOutput, ToolSafety, ToolSpec};
use crate::text::ansi::visible_line;
use crate::tools::files::{FileView, io_failure, resolve_path};
use crate::tools::schema::{count_or_text, function_spec, parse_arguments};
use crate::tools::walk::{WALK_ENTRIES_MAX, walk};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Levels when the call does not say: the directory and one below.
const DEPTH_DEFAULT: u64 = 2;
/// Levels beyond this are better searched than listed.
const DEPTH_MAX: u64 = 8;
/// Entries when the call does not say.
const ENTRIES_DEFAULT: u64 = 300;
/// Entries of one answer, whatever the call says.
const ENTRIES_MAX: u64 = 2000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The directory, default here.
    #[serde(default, alias = "dir_path")]
    path: Option<String>,
    /// Levels, 1 to 8, default 2.
    #[serde(default, deserialize_with = "count_or_text")]
    depth: Option<u64>,
    /// Entries, default 300.
    #[serde(default, deserialize_with = "count_or_text")]
    limit: Option<u64>,
}

/// The `list_dir` tool.
#[derive(Debug)]
pub(crate) struct ListDir;

/// What to list, checked.
#[derive(Debug)]
struct Listing {
    path: PathBuf,
    depth: usize,
    limit: usize,
}

impl ToolHandler for ListDir {
    fn spec(&self) -> ToolSpec {
        function_spec::<Args>("list_dir", "Lists a directory; / marks directories, @ links.")
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety::reads_files()
    }

    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError> {
        Ok(Effect::Read { paths: vec![parse(call, cwd)?.path] })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let listing = parse(call, &cx.turn.cwd)?;
            let text = cx.files.blocking(move |view| list(view, &listing)).await?;
            Ok(ToolOutput::text(text))
        })
    }
}

fn parse(call: &ToolCall, cwd: &Path) -> Result<Listing, ToolError> {
    let args: Args = parse_arguments(call)?;
    let depth = args.depth.unwrap_or(DEPTH_DEFAULT).clamp(1, DEPTH_MAX);
    let limit = args.limit.unwrap_or(ENTRIES_DEFAULT).clamp(1, ENTRIES_MAX);
    Ok(Listing {
        path: resolve_path(cwd, args.path.as_deref().unwrap_or("."))?,
        depth: usize::try_from(depth).unwrap_or(1),
        limit: usize::try_from(limit).unwrap_or(1),
    })
}

fn list(view: &FileView, listing: &Listing) -> Result<String, ToolError> {
    let root = view.real_path(&listing.path)?;
    let mut entries = first_level(view, &root, &listing.path)?;
    if listing.depth > 1 && entries.len() < WALK_ENTRIES_MAX {
        deeper_levels(view, &root, listing.depth, &mut entries)?;
    }
    if entries.is_empty() {
        return Ok(format!("{} is empty", listing.path.display()));
    }
    let mut text: Vec<String> =
        entries.iter().take(listing.limit).map(|(path, mark)| render_entry(path, mark)).collect();
    let left = entries.len() - text.len();
    if left > 0 {
        let floor = if entries.len() >= WALK_ENTRIES_MAX { "over " } else { "" };
        text.push(format!("… {floor}{left} more entries; list a directory below, or less deep"));
    }
    Ok(text.join("\n"))
}

/// Entries by their path below the root, with the mark of their kind.
type Entries = BTreeMap<PathBuf, &'static str>;

fn first_level(view: &FileView, root: &Path, shown: &Path) -> Result<Entries, ToolError> {
    let mut entries = Entries::new();
    for entry in fs::read_dir(root).map_err(|error| io_failure(shown, &error))? {
        view.check_running()?;
        let entry = entry.map_err(|error| io_failure(shown, &error))?;
        if view.is_hidden(&entry.path()) {
            continue;
        }
        entries.insert(entry.file_name().into(), mark(entry.file_type().ok()));
        if entries.len() >= WALK_ENTRIES_MAX {
            break;
        }
    }
    Ok(entries)
}

fn deeper_levels(
    view: &FileView,
    root: &Path,
    depth: usize,
    entries: &mut Entries,
) -> Result<(), ToolError> {
    for entry in walk(view, root).max_depth(Some(depth)).build() {
        view.check_running()?;
        // A directory that cannot be read is listed, just not what is in it.
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(root) else { continue };
        if entry.depth() > 1 {
            entries.insert(path.to_path_buf(), mark(entry.file_type()));
        }
        if entries.len() >= WALK_ENTRIES_MAX {
            break;
        }
    }
    Ok(())
}

fn mark(kind: Option<FileType>) -> &'static str {
    match kind {
        Some(kind) if kind.is_dir() => "/",
        Some(kind) if kind.is_symlink() => "@",
        Some(_) | None => "",
    }
}

/// One entry is one line, whatever its name holds.
fn render_entry(path: &Path, mark: &str) -> String {
    format!("{}{mark}", visible_line(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::testing::{call, run};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in [".git/x", "src/a/b/deep.rs", "src/lib.rs", "target/out", "src/gen/out"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(dir.path().join(".gitignore"), "/target\ngen/\n").unwrap();
        fs::create_dir(dir.path().join("none")).unwrap();
        symlink("/etc", dir.path().join("link")).unwrap();
        dir
    }

    async fn list(dir: &Path, arguments: &str) -> Result<String, String> {
        let output = run(&ListDir, &call("list_dir", arguments), dir).await;
        let root = format!("{}/", dir.display());
        output
            .map(|output| output.joined_text().replace(&root, ""))
            .map_err(|error| error.to_string().replace(&root, ""))
    }

    #[tokio::test]
    async fn levels_and_bounds() {
        let dir = tree();
        let first = ".git/\n.gitignore\nlink@\nnone/\nsrc/\ntarget/";
        let cases = [
            (r#"{"depth":1}"#, Ok(first.to_owned())),
            ("", Ok(first.replace("target/", "src/a/\nsrc/lib.rs\ntarget/"))),
            (r#"{"path":"src","depth":"8"}"#, Ok("a/\na/b/\na/b/deep.rs\ngen/\nlib.rs".to_owned())),
            (r#"{"dir_path":".git"}"#, Ok("x".to_owned())),
            (r#"{"path":"none"}"#, Ok("none is empty".to_owned())),
            (
                r#"{"limit":2}"#,
                Ok(".git/\n.gitignore\n… 6 more entries; list a directory below, or less deep"
                    .to_owned()),
            ),
            (r#"{"path":"src/lib.rs"}"#, Err("src/lib.rs is not a directory".to_owned())),
            (r#"{"path":"nowhere"}"#, Err("nowhere does not exist".to_owned())),
        ];
        for (arguments, expected) in cases {
            assert_eq!(list(dir.path(), arguments).await, expected, "{arguments}");
        }
    }

    #[tokio::test]
    async fn a_fifo_as_ignore_file_holds_nobody() {
        let dir = tree();
        let fifo = dir.path().join("src/.gitignore");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let text = list(dir.path(), "").await.unwrap();
        assert!(!text.contains("src/lib.rs"), "{text}");
        let text = list(dir.path(), r#"{"path":"src"}"#).await.unwrap();
        assert!(text.contains("gen/out"), "{text}");
    }
}
