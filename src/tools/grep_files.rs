//! `grep_files`: lines that match a regular expression, below a directory or in a file.
//!
//! Needs no program: it is ripgrep's own searcher. Binary files are passed over. Knows no
//! session and no screen.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::protocol::{Effect, ToolCall, ToolOutput, ToolSafety, ToolSpec};
use crate::tools::files::{FileView, resolve_path, shown_path};
use crate::tools::read_file::clip_line;
use crate::tools::schema::{count_or_text, function_spec, parse_arguments};
use crate::tools::walk::{WALK_ENTRIES_MAX, walk};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Matches when the call does not say.
const MATCHES_DEFAULT: u64 = 100;
/// Matches of one answer, whatever the call says.
const MATCHES_MAX: u64 = 2000;
/// Bytes shown of one line; longer ones are mostly minified.
const LINE_BYTES_MAX: usize = 400;
/// Lines shown around a match at most.
const CONTEXT_LINES_MAX: u64 = 20;
/// Bytes the searcher may hold for one line; a file with a longer one is passed over.
const HEAP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Room for the closing note within the output's bound.
const NOTE_BYTES: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Rust regular expression, matched by line.
    pattern: String,
    /// File or directory, default here.
    #[serde(default)]
    path: Option<String>,
    /// Only these files, e.g. *.rs or !*.md.
    #[serde(default, alias = "include")]
    glob: Option<String>,
    /// Ignore case.
    #[serde(default)]
    ignore_case: Option<bool>,
    /// Lines around each match.
    #[serde(default, deserialize_with = "count_or_text")]
    context: Option<u64>,
    /// Matches, default 100.
    #[serde(default, deserialize_with = "count_or_text")]
    limit: Option<u64>,
}

/// The `grep_files` tool.
#[derive(Debug)]
pub(crate) struct GrepFiles;

/// What to search, checked.
#[derive(Debug)]
struct Search {
    matcher: RegexMatcher,
    path: PathBuf,
    cwd: PathBuf,
    files: Override,
    context_lines: usize,
    matches_max: usize,
    output_bytes_max: usize,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    text: String,
    matches: usize,
    files: usize,
    full: bool,
}

/// A search under way.
struct Grep<'a> {
    search: &'a Search,
    view: &'a FileView,
    searcher: Searcher,
    found: Found,
}

/// A file whose reading ends when the call was stopped.
struct StoppableReader<'a> {
    file: File,
    view: &'a FileView,
}

/// Takes the lines of one file.
struct FileSink<'a> {
    search: &'a Search,
    shown: &'a str,
    found: &'a mut Found,
    any: bool,
}

impl ToolHandler for GrepFiles {
    fn spec(&self) -> ToolSpec {
        function_spec::<Args>(
            "grep_files",
            "Searches file contents; answers path:line:text. Skips binary and git-ignored files.",
        )
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
            let mut search = parse(call, &cx.turn.cwd)?;
            search.output_bytes_max = cx.turn.output_bytes_max.saturating_sub(NOTE_BYTES);
            let text = cx.files.blocking(move |view| grep(view, &search)).await?;
            Ok(ToolOutput::text(text))
        })
    }
}

fn parse(call: &ToolCall, cwd: &Path) -> Result<Search, ToolError> {
    let args: Args = parse_arguments(call)?;
    let path = resolve_path(cwd, args.path.as_deref().unwrap_or("."))?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| ToolError::InvalidArguments(pattern_problem(&error.to_string())))?;
    let mut files = OverrideBuilder::new("");
    if let Some(glob) = args.glob.as_deref().filter(|glob| !glob.is_empty()) {
        let bad = |error| ToolError::InvalidArguments(format!("glob: {error}"));
        files.add(glob).map_err(bad)?;
    }
    let files =
        files.build().map_err(|error| ToolError::InvalidArguments(format!("glob: {error}")))?;
    let context_lines = args.context.unwrap_or(0).min(CONTEXT_LINES_MAX);
    let matches_max = args.limit.unwrap_or(MATCHES_DEFAULT).clamp(1, MATCHES_MAX);
    Ok(Search {
        matcher,
        path,
        cwd: cwd.to_path_buf(),
        files,
        context_lines: usize::try_from(context_lines).unwrap_or(0),
        matches_max: usize::try_from(matches_max).unwrap_or(1),
        output_bytes_max: usize::MAX,
    })
}

/// Returns the one line of a regex error that says what is wrong.
fn pattern_problem(error: &str) -> String {
    let line = error.lines().find_map(|line| line.trim().strip_prefix("error: "));
    format!("pattern: {}", line.unwrap_or_else(|| error.lines().next().unwrap_or("not a regex")))
}

fn grep(view: &FileView, search: &Search) -> Result<String, ToolError> {
    let root = view.real_path(&search.path)?;
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(search.context_lines)
        .after_context(search.context_lines)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP_BYTES_MAX))
        .build();
    let mut grep = Grep { search, view, searcher, found: Found::default() };
    if root.is_dir() {
        grep.below(&root)?;
    } else {
        let file = view.open(&search.path)?;
        grep.file(file, &shown_path(&search.path, &search.cwd))?;
    }
    Ok(finish(grep.found))
}

impl Grep<'_> {
    fn below(&mut self, root: &Path) -> Result<(), ToolError> {
        for (count, entry) in walk(self.view, root).build().enumerate() {
            self.view.check_running()?;
            if self.found.full || count >= WALK_ENTRIES_MAX {
                self.found.full = true;
                return Ok(());
            }
            let Ok(entry) = entry else { continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
            if !is_file || self.search.files.matched(below, false).is_ignore() {
                continue;
            }
            // A file that cannot be read is passed over: the others still answer.
            if let Ok(file) = self.view.open_real(entry.path()) {
                // Named as the model would, also where the root was reached through a link.
                let shown = shown_path(&self.search.path.join(below), &self.search.cwd);
                self.file(file, &shown)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, file: File, shown: &str) -> Result<(), ToolError> {
        let (search, view) = (self.search, self.view);
        let mut sink = FileSink { search, shown, found: &mut self.found, any: false };
        let reader = StoppableReader { file, view };
        // Errors here are this file's: unreadable, or a line beyond the heap limit.
        let _ = self.searcher.search_reader(&search.matcher, reader, &mut sink);
        let any = usize::from(sink.any);
        self.found.files += any;
        view.check_running()
    }
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.view.check_running().map_err(io::Error::other)?;
        self.file.read(buffer)
    }
}

fn finish(mut found: Found) -> String {
    if found.matches == 0 {
        let whole =
            if found.full { " in what was searched; there is more, narrow path" } else { "" };
        return format!("no matches{whole}");
    }
    if found.full {
        let (matches, files) = (found.matches, found.files);
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let _ = write!(
            found.text,
            "… stopped after {matches} matches in {files}; narrow pattern, path or glob for the rest"
        );
    } else {
        // One trailing line end less is one token less.
        found.text.pop();
    }
    found.text
}

impl FileSink<'_> {
    /// Adds one line; returns whether there is room for more.
    fn push(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) -> bool {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = clip_line(line, line.len(), LINE_BYTES_MAX);
        let number = number.unwrap_or_default();
        let line = format!("{}{mark}{number}{mark}{text}\n", self.shown);
        if !self.found.text.is_empty()
            && self.found.text.len() + line.len() > self.search.output_bytes_max
        {
            self.found.full = true;
            return false;
        }
        self.found.text.push_str(&line);
        true
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.matches >= self.search.matches_max {
            self.found.full = true;
            return Ok(false);
        }
        if !self.push(found.line_number(), ':', found.bytes()) {
            return Ok(false);
        }
        self.any = true;
        self.found.matches += 1;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        let is_before = *line.kind() == SinkContextKind::Before;
        if is_before && self.found.matches >= self.search.matches_max {
            // A match follows that will not be shown.
            self.found.full = true;
            return Ok(false);
        }
        Ok(self.push(line.line_number(), '-', line.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.found.text.push_str("--\n");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tools::testing::{OUTPUT_BYTES_MAX, call, run};

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let files: [(&str, &[u8]); 7] = [
            ("b.rs", b"fn one() {}\nfn two() {}\r\n\nstruct Two;\n"),
            ("a/x.rs", b"// two\n"),
            ("a/x.md", b"two and Two\n"),
            ("target/t.rs", b"two\n"),
            (".github/w.yml", b"run: two\n"),
            ("bin.dat", b"two\0two\n"),
            (".git/config", b"two\n"),
        ];
        for (path, bytes) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        fs::write(dir.path().join(".gitignore"), "target\n").unwrap();
        std::os::unix::fs::symlink(dir.path().join("b.rs"), dir.path().join("z.rs")).unwrap();
        dir
    }

    async fn answer(dir: &Path, arguments: &str) -> Result<String, String> {
        let output = run(&GrepFiles, &call("grep_files", arguments), dir).await;
        let root = format!("{}/", dir.display());
        output
            .map(|output| output.joined_text())
            .map_err(|error| error.to_string().replace(&root, ""))
    }

    #[tokio::test]
    async fn lines_are_found_in_order() {
        let dir = tree();
        let all =
            ".github/w.yml:1:run: two\na/x.md:1:two and Two\na/x.rs:1:// two\nb.rs:2:fn two() {}";
        let stopped = |matches: usize, files: &str| {
            format!(
                "… stopped after {matches} matches in {files}; narrow pattern, path or glob for the rest"
            )
        };
        let cases = [
            (r#"{"pattern":"two"}"#, all.to_owned()),
            (r#"{"pattern":"two","glob":"*.rs"}"#, "a/x.rs:1:// two\nb.rs:2:fn two() {}".into()),
            (
                r#"{"pattern":"two","include":"a/**"}"#,
                "a/x.md:1:two and Two\na/x.rs:1:// two".into(),
            ),
            (r#"{"pattern":"two","glob":"!*.rs","path":"a"}"#, "a/x.md:1:two and Two".into()),
            (r#"{"pattern":"two","path":"b.rs"}"#, "b.rs:2:fn two() {}".into()),
            (r#"{"pattern":"TWO;","ignore_case":true}"#, "b.rs:4:struct Two;".into()),
            (r#"{"pattern":"^struct","context":1}"#, "b.rs-3-\nb.rs:4:struct Two;".into()),
            (
                r#"{"pattern":"one|Two;","path":"b.rs","context":"1"}"#,
                "b.rs:1:fn one() {}\nb.rs-2-fn two() {}\nb.rs-3-\nb.rs:4:struct Two;".into(),
            ),
            (
                r#"{"pattern":"one|Two;","path":"b.rs","context":0}"#,
                "b.rs:1:fn one() {}\nb.rs:4:struct Two;".into(),
            ),
            (r#"{"pattern":"none"}"#, "no matches".into()),
            (
                r#"{"pattern":"two","limit":1}"#,
                format!(".github/w.yml:1:run: two\n{}", stopped(1, "1 file")),
            ),
            (r#"{"pattern":"two","limit":4}"#, all.to_owned()),
            (
                r#"{"pattern":"one|struct","path":"b.rs","context":1,"limit":1}"#,
                format!("b.rs:1:fn one() {{}}\nb.rs-2-fn two() {{}}\n{}", stopped(1, "1 file")),
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(answer(dir.path(), arguments).await, Ok(expected), "{arguments}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_named() {
        let dir = tree();
        let cases = [
            (r#"{"pattern":"a("}"#, "invalid arguments: pattern: unclosed group"),
            (r#"{"pattern":"a","glob":"a[b"}"#, "invalid arguments: glob: "),
            (r#"{"pattern":"a","path":"none"}"#, "none does not exist"),
            (r#"{"path":"a"}"#, "invalid arguments: missing field `pattern`"),
        ];
        for (arguments, expected) in cases {
            let error = answer(dir.path(), arguments).await.unwrap_err();
            assert!(error.starts_with(expected), "{arguments}: {error}");
        }
    }

    #[tokio::test]
    async fn what_the_policy_hides_is_not_searched() {
        use crate::protocol::Pattern;
        use crate::tools::{FileAccess, testing};

        let dir = tree();
        let search = parse(&call("grep_files", r#"{"pattern":"two"}"#), dir.path()).unwrap();
        let mut policy = testing::policy(dir.path());
        policy.deny_read = vec![Pattern("*.yml".into()), Pattern("~/a".into())];
        let effect = Effect::Read { paths: vec![dir.path().to_path_buf()] };
        let files = FileAccess::new(&effect, &policy, dir.path());
        let text = files.blocking(move |view| grep(view, &search)).await.unwrap();
        assert_eq!(text, "b.rs:2:fn two() {}");
    }

    #[tokio::test]
    async fn answers_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("{}\n", "x".repeat(1000));
        fs::write(dir.path().join("f"), long.repeat(500)).unwrap();
        let text = answer(dir.path(), r#"{"pattern":"x","limit":2000}"#).await.unwrap();
        assert!(text.len() <= OUTPUT_BYTES_MAX, "{}", text.len());
        assert!(text.starts_with(&format!("f:1:{}… [600 more bytes]\n", "x".repeat(400))));
        assert!(text.contains("… stopped after "), "{text}");
    }
}
