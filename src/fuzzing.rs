//! What the fuzz targets of `tests/fuzz` call: one function per parser of untrusted bytes.
//!
//! Each takes the fuzzer's bytes, makes the parser's inputs of them and panics when a promise
//! is broken. Built with `--cfg fuzzing` only, so that private modules stay private. Nothing
//! of ours calls it.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a panic is the finding")]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::model::ResponseEvent;
use crate::model::responses::decode::Decoder;
use crate::model::sse::SseGuard;
use crate::patch;
use crate::patch::{FileAction, FilePatch, FileWrite, LineKind, Patch};
use crate::policy;
use crate::protocol::{
    CommandLine, EVENT_VERSION, Event, EventMsg, SessionId, TurnId, WarningKind,
};
use crate::store;
use crate::store::session_file::{SessionFile, SessionFileError, path_of};
use crate::text::diff::unified_bytes;
use crate::text::secrets::{MaskedStream, UnknownToken, Vault};

/// Files longer than this are not compared line by line: the table grows with the square.
const LINES_COMPARED_MAX: usize = 200;

/// Holds that events do not depend on where the network cut the stream. The first byte says
/// how many of the following ones are sizes of chunks; the stream is what remains.
pub fn sse(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let (sizes, stream) = rest.split_at(usize::from(count % 16).min(rest.len()));
    let whole = decode([stream].into_iter());
    let mut chunks = Vec::new();
    let mut left = stream;
    for size in sizes.iter().cycle() {
        let (chunk, after) = left.split_at(usize::from(*size % 32 + 1).min(left.len()));
        chunks.push(chunk);
        left = after;
        if left.is_empty() {
            break;
        }
    }
    chunks.push(left);
    assert_eq!(decode(chunks.into_iter()), whole, "cut and whole differ");
}

/// Holds that masked text comes back as it was, and that a stream of it ends without a panic.
/// The first byte says how large its pieces are.
pub fn secrets(data: &[u8]) {
    let Some((&size, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let mut vault = Vault::new(u64::from(size), &[]);
    let masked = vault.mask(&text).into_owned();
    let put_back = |out: &mut String, secret: &str, _: &str| {
        out.push_str(secret);
        Ok::<(), UnknownToken>(())
    };
    let back = vault.unmask(&masked, put_back).unwrap_or_else(|_| Some(text.to_string()));
    assert_eq!(back.unwrap_or(masked), text, "masked text does not come back");
    let mut stream = MaskedStream::default();
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(usize::from(size).max(1)) {
        stream.push(&String::from_iter(piece), &mut vault);
    }
    stream.finish(&mut vault);
}

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<ResponseEvent>, String) {
    let (mut guard, mut frames) = (SseGuard::default(), Vec::new());
    let mut framed = Ok(());
    for chunk in chunks {
        framed = framed.and_then(|()| guard.feed(chunk, &mut frames));
    }
    framed = framed.and_then(|()| guard.finish(&mut frames));
    let (mut decoder, mut events) = (Decoder::default(), VecDeque::new());
    let decoded = frames.iter().try_for_each(|frame| decoder.decode(frame, &mut events));
    (join_deltas(events), format!("{framed:?} {decoded:?} {}", decoder.is_completed()))
}

/// Joins neighbouring deltas of one kind: how text is divided promises nothing.
fn join_deltas(events: VecDeque<ResponseEvent>) -> Vec<ResponseEvent> {
    let mut joined: Vec<ResponseEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), &event) {
            (Some(ResponseEvent::TextDelta(text)), ResponseEvent::TextDelta(more))
            | (Some(ResponseEvent::ReasoningDelta(text)), ResponseEvent::ReasoningDelta(more))
            | (Some(ResponseEvent::ArgumentsDelta(text)), ResponseEvent::ArgumentsDelta(more)) => {
                text.push_str(more);
            }
            _ => joined.push(event),
        }
    }
    joined
}

/// Holds that a patch changes no line that it does not name, and that chunks made from two
/// files lead from the one to the other. The input is cut at zero bytes into the patch, what
/// the files hold that it names, and other bytes for one of them.
pub fn patch(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let text = parts.next().unwrap_or(b"");
    let content = parts.next();
    apply_any(text, content);
    if let (Some(old), Some(new)) = (content, parts.next()) {
        // The patch that leads from old to new, with what came first mixed in.
        let diff = unified_bytes(old, new, "f", "f");
        let chunks: Vec<u8> = diff
            .split_inclusive(|byte| *byte == b'\n')
            .skip(2)
            .filter(|line| !line.starts_with(b"\\"))
            .flat_map(|line| if line.starts_with(b"@@") { b"@@\n" } else { line })
            .copied()
            .collect();
        let framed = [b"*** Begin Patch\n*** Update File: f\n", &chunks[..], b"*** End Patch\n"];
        apply_any(&framed.concat(), content);
        let (head, tail) = chunks.split_at(chunks.len() / 2);
        let mixed =
            [b"*** Begin Patch\n*** Update File: f\n", head, text, tail, b"\n*** End Patch\n"];
        apply_any(&mixed.concat(), content);
    }
}

/// Holds that a unified diff leads from any bytes to any others, and that what is not one of
/// them changes no line that it does not name. The input is cut at zero bytes into a text, what
/// a file holds, and what it shall hold.
pub fn unified(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let text = parts.next().unwrap_or(b"");
    let (old, new) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    apply_any(text, Some(old));
    let bare = [b"--- a/f\n+++ b/f\n", text].concat();
    apply_any(&bare, Some(old));
    if old == new {
        return;
    }
    let diff = unified_bytes(old, new, "a/f", "b/f");
    let base = Path::new("/project");
    let patch = patch::parse_bytes(diff.clone()).unwrap();
    let files = BTreeMap::from([(base.join("f"), Some(old))]);
    let applied = patch::apply(&patch, base, &files).unwrap();
    let content = applied.writes[0].content.as_ref();
    assert_eq!(content.map(|it| it.to_bytes()).as_deref(), Some(new), "not what the diff says");
    assert_eq!(applied.notes, Vec::<String>::new());
    // The same diff on other bytes, and a broken one on the same.
    apply_any(&diff, Some(new));
    let (head, tail) = diff.split_at(diff.len() / 2);
    apply_any(&[head, text, tail].concat(), Some(old));
}

/// Applies any bytes to files that hold the same, and checks what may be said of the outcome.
fn apply_any(text: &[u8], content: Option<&[u8]>) {
    let Ok(patch) = patch::parse_bytes(text.to_vec()) else { return };
    let base = Path::new("/project");
    let paths = patch.paths(base);
    let files: BTreeMap<_, _> = paths.iter().map(|path| (path.clone(), content)).collect();
    let Ok(applied) = patch::apply(&patch, base, &files) else { return };
    for write in &applied.writes {
        assert!(paths.contains(&write.path), "{} is not named", write.path.display());
        assert_eq!(write.old, content, "not what the file held");
        check_kept_lines(&patch, base, write);
    }
}

fn check_kept_lines(patch: &Patch, base: &Path, write: &FileWrite<&[u8]>) {
    let names = |path: &Path| patch::absolute(base, path) == write.path;
    let moved_here = |file: &FilePatch| matches!(&file.action, FileAction::Update { move_to: Some(to), .. } if names(to));
    let changes: Vec<_> =
        patch.files.iter().filter(|file| names(&file.path) || moved_here(file)).collect();
    let [file] = changes.as_slice() else { return };
    let FileAction::Update { move_to: None, chunks, .. } = &file.action else { return };
    let (Some(old), Some(new)) = (&write.old, &write.content) else { return };
    let new = new.to_bytes();
    let (mut added, mut removed) = (0, 0);
    for line in chunks.iter().flat_map(|chunk| chunk.body.lines()) {
        match line.kind {
            LineKind::Context => {}
            // In a file whose lines end in CR alone, each one in the text ends a line.
            LineKind::Add => {
                added += 1 + line.text.iter().filter(|byte| **byte == b'\r').count();
            }
            LineKind::Remove => removed += 1,
        }
    }
    let is_cr = patch.form == patch::Form::Chunks && old.contains(&b'\r') && !old.contains(&b'\n');
    let end = if is_cr { b'\r' } else { b'\n' };
    let mark = "\u{FEFF}".as_bytes();
    let text_of = |bytes| match patch.form {
        // The mark at the start is no part of the first line.
        patch::Form::Chunks => <[u8]>::strip_prefix(bytes, mark).unwrap_or(bytes),
        patch::Form::Unified => bytes,
    };
    let (old, new) = (split_lines(text_of(old), end), split_lines(text_of(&new), end));
    if old.len().max(new.len()) > LINES_COMPARED_MAX {
        return;
    }
    let kept = count_common(&old, &new);
    assert!(kept + removed >= old.len(), "{removed} lines go, but {kept} stay of {}", old.len());
    assert!(kept + added >= new.len(), "{added} lines come, but {} are there", new.len());
}

fn split_lines(bytes: &[u8], end: u8) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == end).collect()
}

/// Returns the length of the longest common subsequence.
fn count_common(left: &[&[u8]], right: &[&[u8]]) -> usize {
    let mut above = vec![0; right.len() + 1];
    for one in left {
        let mut row = vec![0; right.len() + 1];
        for (column, other) in right.iter().enumerate() {
            row[column + 1] = if same_line(one, other) {
                above[column] + 1
            } else {
                above[column + 1].max(row[column])
            };
        }
        above = row;
    }
    above.last().copied().unwrap_or(0)
}

/// Compares lines; the one that ended a file may have got a line end.
fn same_line(left: &[u8], right: &[u8]) -> bool {
    let ended = |long: &[u8], short: &[u8]| {
        matches!(long.strip_prefix(short), Some(b"" | b"\n" | b"\r" | b"\r\n"))
    };
    ended(left, right) || ended(right, left)
}

/// Holds that every command is judged, always the same, and that nothing put in front of a denied
/// command hides it from its rule: neither words that are understood, nor any wrapper among them.
pub fn command(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let argv = text.split('\0').map(str::to_owned).collect();
    let shell =
        |script: String| CommandLine::Shell { program: "/bin/sh".to_owned(), login: false, script };
    for command in [shell(text.clone()), CommandLine::Argv { argv }] {
        let known = policy::is_known_read_only(&command);
        assert_eq!(policy::is_known_read_only(&command), known);
        let _ = patch::detect(&command);
    }
    let mut rules = policy::Rules::default();
    let denies_zap = policy::RuleFile {
        label: "r",
        path: "r",
        text: "[[rule]]\naction = \"deny\"\nprogram = \"zap\"\n",
        origin: policy::Origin::User,
    };
    rules.read(&denies_zap).unwrap();
    let root = Path::new("/");
    let said = |line: String| policy::check(&shell(line), &rules, root, root).decision;
    let _ = said(text.clone());
    if policy::is_known_read_only(&shell(text.clone())) {
        check_known(&text);
        for joint in ["; ", " && ", " | ", "\n"] {
            let line = format!("{text}{joint}zap x");
            assert_eq!(said(line), policy::CheckDecision::Deny, "{joint:?}");
        }
    }
}

/// A known line of one command has the words that another reader of shell words finds in it.
fn check_known(text: &str) {
    let words = policy::read_words(text);
    if !text.contains(['\n', '|', ';', '&', '<', '>']) {
        assert_eq!(shlex::split(text), words, "the words differ");
    }
}

/// Holds that the journal may hold a record of any bytes: nothing is renamed or removed that is
/// not named as a temporary file of that record. After a first zero the bytes make a tree and a
/// record that checks out, and no file of a user may be lost by what is done about it.
pub fn journal(data: &[u8]) {
    let place = tempfile::tempdir().unwrap();
    let base = std::fs::canonicalize(place.path()).unwrap();
    let (root, journal) = (base.join("work"), base.join("journal"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(&journal).unwrap();
    std::fs::write(root.join("kept"), "kept").unwrap();
    std::fs::write(base.join("outside"), "outside").unwrap();
    let mut ours = HashSet::new();
    let record = match data.strip_prefix(&[0]) {
        Some(choices) => record_of(&root, choices, &mut ours),
        None => data.to_vec(),
    };
    std::fs::write(journal.join("0"), record).unwrap();
    let before = list_files(&base.join("work"));
    let said = store::commit::recover(&journal, &[root.clone()]);
    assert_eq!(std::fs::read(root.join("kept")).unwrap(), b"kept");
    assert_eq!(std::fs::read(base.join("outside")).unwrap(), b"outside");
    let after: HashSet<String> = list_files(&root).into_values().collect();
    for (path, text) in before {
        let is_temporary = path.to_string_lossy().contains(COMMIT);
        assert!(
            is_temporary || ours.contains(&text) || after.contains(&text),
            "{} is lost: {said:?}",
            path.display()
        );
    }
    if !said.iter().any(|said| said.contains("could not")) {
        let again = store::commit::recover(&journal, &[root]);
        assert!(again.is_empty(), "done twice: {said:?} {again:?}");
    }
}

/// The commit of the records that are made up.
const COMMIT: &str = "c0ffee";

/// The fuzzer's bytes, as answers to questions.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    /// Returns a number below this one.
    fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % count
    }

    /// Returns the stamp of one of these files, which may belong to the commit.
    fn stamp(&mut self, paths: &[PathBuf], ours: Option<&mut HashSet<String>>) -> Value {
        let path = &paths[self.below(paths.len())];
        let Ok(found) = std::fs::symlink_metadata(path) else { return Value::Null };
        if let (Some(ours), Ok(text)) = (ours, std::fs::read_to_string(path)) {
            ours.insert(text);
        }
        json!({
            "number": found.ino(),
            "size": found.size(),
            "changed_ns": found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            "is_link": found.is_symlink(),
        })
    }

    /// Returns one step of a commit.
    fn step(&mut self, dirs: usize, paths: &[PathBuf]) -> Value {
        let acts = [
            json!("take"),
            json!("put"),
            json!("swap"),
            json!("make_dir"),
            json!({"remove_dir": {"mode": 0o755}}),
            json!("drop_dir"),
            json!({"set_mode": {"old": 0o755, "new": 0o711}}),
        ];
        let mut step = json!({
            "act": acts[self.below(acts.len())],
            "dir": self.below(dirs),
            "name": NAMES[self.below(NAMES.len())],
            "temp_dir": self.below(dirs),
        });
        if self.below(2) == 1 {
            step["old"] = self.stamp(paths, None);
        }
        step
    }
}

/// Names in the made-up trees.
const NAMES: [&str; 3] = ["x", "y", "z"];

/// Makes a tree, and a record of a commit in it. What the record calls a new file of the commit
/// is its own to remove: it goes to `ours`.
fn record_of(root: &Path, choices: &[u8], ours: &mut HashSet<String>) -> Vec<u8> {
    let mut choices = Choices(choices);
    let dirs = [root.to_owned(), root.join("a"), root.join("a/b"), root.join("../elsewhere")];
    for dir in dirs.get(..choices.below(dirs.len())).unwrap_or(&[]) {
        std::fs::create_dir_all(dir).unwrap();
    }
    let count = choices.below(6);
    let temps = (0..count).flat_map(|n| {
        let temp = format!(".gimlet-{COMMIT}-{n}");
        [format!("{temp}a"), temp]
    });
    let names: Vec<String> = NAMES.map(str::to_owned).into_iter().chain(temps).collect();
    let paths: Vec<_> =
        dirs.iter().flat_map(|dir| names.iter().map(|name| dir.join(name))).collect();
    for path in &paths {
        // Where there is no such directory there is no such file.
        let _ = match choices.below(4) {
            0 => Ok(()),
            1 => std::fs::create_dir(path),
            2 => std::os::unix::fs::symlink("x", path),
            _ => std::fs::write(path, format!("what {} holds", path.display())),
        };
    }
    let steps: Vec<_> = (0..count).map(|_| choices.step(dirs.len(), &paths)).collect();
    let plan = json!({
        "version": 1, "commit": COMMIT, "roots": [root], "dirs": dirs, "steps": steps,
    });
    let mut record = store::commit::seal_line("plan", &plan.to_string());
    let progress = choices.below(3);
    if progress > 0 {
        let stamps: Vec<_> = (0..count).map(|_| choices.stamp(&paths, Some(ours))).collect();
        record.push_str(&store::commit::seal_line("ready", &json!(stamps).to_string()));
    }
    if progress > 1 {
        record.push_str(&store::commit::seal_line("done", "null"));
    }
    let cut = choices.below(256);
    if cut < 64 {
        record.truncate(record.len() - cut.min(record.len()));
    }
    record.into_bytes()
}

/// Returns what the files below a directory hold.
fn list_files(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let found = std::fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            files.append(&mut list_files(&path));
        } else if found.is_file() {
            files.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
        }
    }
    files
}

/// Holds that a session file of any bytes behind a first event opens, and that what is appended
/// to it is read back; after a first zero there is no such event, and nothing need be readable.
pub fn session_file(data: &[u8]) {
    let state = tempfile::tempdir().unwrap();
    let id = SessionId(Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0001));
    let (has_first, data) = data.strip_prefix(&[0]).map_or((true, data), |rest| (false, rest));
    let mut file = SessionFile::create(state.path(), id).unwrap();
    if has_first {
        file.append(&next_event(&file, id)).unwrap();
    }
    drop(file);
    let path = path_of(state.path(), id);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(data);
    std::fs::write(&path, bytes).unwrap();
    let (mut file, first) = match SessionFile::open(state.path(), id) {
        Err(SessionFileError::Empty(_)) if !has_first => return,
        opened => opened.unwrap(),
    };
    let event = next_event(&file, id);
    file.append(&event).unwrap();
    drop(file);
    let (_, second) = SessionFile::open(state.path(), id).unwrap();
    assert_eq!(second.torn_bytes, 0, "torn twice");
    assert_eq!(second.events.len(), first.events.len() + 1);
    assert_eq!(second.events.last(), Some(&event));
}

/// Returns the event that comes next in a file.
fn next_event(file: &SessionFile, id: SessionId) -> Event {
    let (seq, prev_hash) = file.next();
    Event {
        v: EVENT_VERSION,
        seq,
        prev_hash: prev_hash.to_owned(),
        at: String::new(),
        session: id,
        turn: TurnId(0),
        parent: None,
        response_id: None,
        call_id: None,
        msg: EventMsg::Warning { kind: WarningKind::Other, message: "more".to_owned(), hint: None },
    }
}
