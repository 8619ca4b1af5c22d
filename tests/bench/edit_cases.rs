//! The made-up trees of `edits` and what is changed in them: the same each time.
//!
//! A case says how many files of how many lines there are, and how many changes; the patch,
//! the unified diff and the tree that must come out follow from that. Knows no program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Files by name.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// Lines around a change.
const CONTEXT: usize = 3;

/// One kind of edit.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    files: usize,
    lines: usize,
    /// In each file.
    chunks: usize,
    /// Whether it plays where syncing costs nothing.
    pub(crate) in_memory: bool,
    /// Whether it is held against programs that only start.
    pub(crate) beside_start: bool,
    pub(crate) goal: Goal,
}

/// What is wanted of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// Nothing of the time, but it is shown.
    None,
    /// At most so many ms.
    Ms(f64),
    /// At most so many ms more than the start alone.
    MsOverStart(f64),
    /// At most so much of the peer's time.
    OfPeer(f64),
}

/// An edit in all its forms.
pub(crate) struct Edit {
    pub(crate) before: Tree,
    pub(crate) after: Tree,
    pub(crate) patch: String,
    pub(crate) diff: String,
}

impl Case {
    /// Returns all cases, with every size divided.
    pub(crate) fn all(shrink: usize) -> Vec<Self> {
        let case = |name, (files, lines, chunks), goal| Self {
            name,
            files,
            lines,
            chunks,
            in_memory: false,
            beside_start: false,
            goal,
        };
        let small = |n: usize| (n / shrink).max(1);
        let one = (1, 200, 1);
        vec![
            Self {
                in_memory: true,
                beside_start: true,
                ..case("one chunk, syncs cost nothing", one, Goal::MsOverStart(1.0))
            },
            Self { beside_start: true, ..case("one chunk, on disk", one, Goal::None) },
            case(
                "1,000 chunks in 100,000 lines",
                (1, small(100_000), small(1_000)),
                Goal::Ms(12.0),
            ),
            case("2,000 files, a chunk each", (small(2_000), 50, 1), Goal::OfPeer(1.0)),
            // Lines of 50 bytes.
            case("one chunk in 50 MB", (1, small(1_000_000), 1), Goal::None),
        ]
    }

    /// Returns the tree and its edit.
    pub(crate) fn make(&self) -> Edit {
        let mut edit = Edit {
            before: Tree::new(),
            after: Tree::new(),
            patch: "*** Begin Patch\n".to_owned(),
            diff: String::new(),
        };
        for file in 0..self.files {
            let name = format!("part{:02}/file{file:04}.txt", file % 40);
            let lines: Vec<String> = (0..self.lines).map(|line| text_line(file, line)).collect();
            let mut changed = lines.clone();
            let _ = writeln!(edit.patch, "*** Update File: {name}");
            let _ = write!(edit.diff, "diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n");
            for chunk in 0..self.chunks {
                let at = (2 * chunk + 1) * self.lines / (2 * self.chunks);
                changed[at] = format!("{} was changed\n", lines[at].trim_end());
                write_chunk(&mut edit, (&lines, &changed), at);
            }
            edit.before.insert(name.clone(), lines.concat().into_bytes());
            edit.after.insert(name, changed.concat().into_bytes());
        }
        edit.patch.push_str("*** End Patch\n");
        edit
    }

    /// Returns how many bytes the edit touches.
    pub(crate) fn touched_bytes(&self) -> usize {
        (0..self.lines).map(|line| text_line(0, line).len()).sum::<usize>() * self.files
    }
}

fn write_chunk(edit: &mut Edit, (lines, changed): (&[String], &[String]), at: usize) {
    let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
    let context = |range: std::ops::Range<usize>| {
        lines[range].iter().map(|line| format!(" {line}")).collect::<String>()
    };
    let (above, below) = (context(from..at), context(at + 1..to));
    let body = format!("{above}-{}+{}{below}", lines[at], changed[at]);
    let count = to - from;
    let _ = write!(edit.patch, "@@\n{body}");
    let _ = write!(edit.diff, "@@ -{},{count} +{},{count} @@\n{body}", from + 1, from + 1);
}

/// Returns a line of 50 bytes that stands nowhere else.
fn text_line(file: usize, line: usize) -> String {
    let mixed = (file * 1_000_003 + line).wrapping_mul(2_654_435_761) % 100_000_000;
    format!("file {file:05} line {line:08} holds {mixed:08} of it all\n")
}

/// Writes a tree out.
pub(crate) fn write_tree(root: &Path, tree: &Tree) {
    fs::create_dir_all(root).unwrap();
    for (name, bytes) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
