//! Works out what files hold after a patch, from what they hold before.
//!
//! All or nothing: the first place that does not fit ends it, and nothing has been written.
//! Files named several times are changed several times, in the order of the patch. Knows no
//! disk. Called by `tools/apply_patch.rs`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::patch::chunk::{Body, Chunk};
use crate::patch::content::Content;
use crate::patch::edit::Edits;
use crate::patch::explain::{explain, plural};
use crate::patch::find::{Cursor, Finder, OTHERS_MAX, Place};
use crate::patch::index::Budget;
use crate::patch::level::Level;
use crate::patch::lines::Lines;
use crate::patch::{FileAction, FilePatch, Form, Patch, PatchError, absolute};

/// Steps of searching spent on a patch, beside those that the size of the files and of the
/// patch grants. A patch that needs more is one whose lines are everywhere; without an end, a
/// small one could take minutes.
const STEPS_MAX: usize = 50_000_000;

/// Steps that a byte of a file or of the patch grants: a large file may be large.
const STEPS_PER_BYTE: usize = 8;

/// A larger file is not patched: lines are counted in 32 bits, and the patch adds to them.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Notes kept; a patch of a thousand doubtful chunks is told so once.
const NOTES_MAX: usize = 20;

/// What files hold after a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied<B: AsRef<[u8]> = Vec<u8>> {
    /// One entry per file that changes, in the order of the patch.
    pub(crate) writes: Vec<FileWrite<B>>,
    /// What the model should know although it worked, one line each.
    pub(crate) notes: Vec<String>,
}

/// What one file holds after a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileWrite<B: AsRef<[u8]> = Vec<u8>> {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    /// Its new bytes; `None` deletes it.
    pub(crate) content: Option<Content<B>>,
    /// The bytes it had; `None` when it did not exist.
    pub(crate) old: Option<B>,
    /// The file it was moved from, which has an entry of its own.
    pub(crate) moved_from: Option<PathBuf>,
    /// The file it was copied from.
    pub(crate) copied_from: Option<PathBuf>,
    /// Whether it is executable afterwards, where the patch says so.
    pub(crate) executable: Option<bool>,
}

/// Returns what the named files hold after the patch.
///
/// `files` has the bytes of every path of `Patch::paths`, `None` where there is no file.
pub(crate) fn apply<B: AsRef<[u8]> + Clone>(
    patch: &Patch,
    base: &Path,
    files: &BTreeMap<PathBuf, Option<B>>,
) -> Result<Applied<B>, PatchError> {
    apply_within(patch, base, files, &budget_for(patch, files))
}

/// Returns what a patch of these files may cost.
pub(super) fn budget_for<B: AsRef<[u8]>>(
    patch: &Patch,
    files: &BTreeMap<PathBuf, Option<B>>,
) -> Budget {
    let of_files: usize = files.values().flatten().map(|bytes| bytes.as_ref().len()).sum();
    let of_patch: usize = patch.files.iter().map(|file| file.text.len()).sum();
    let granted = of_files.saturating_add(of_patch).saturating_mul(STEPS_PER_BYTE);
    Budget::new(STEPS_MAX.saturating_add(granted))
}

/// Is `apply` with a budget that the caller can read.
pub(super) fn apply_within<B: AsRef<[u8]> + Clone>(
    patch: &Patch,
    base: &Path,
    files: &BTreeMap<PathBuf, Option<B>>,
    budget: &Budget,
) -> Result<Applied<B>, PatchError> {
    let mut state = State::new(patch, base, files, budget);
    for file in &patch.files {
        state.apply_file(file)?;
        if budget.left() == 0 {
            return Err(too_costly(file, 0));
        }
    }
    for (path, opened) in std::mem::take(&mut state.opened) {
        state.put(&path, Some(opened.into_content()));
    }
    let State { mut writes, mut notes, .. } = state;
    // A file that came and went again was never there.
    writes.retain(|write| write.content.is_some() || write.old.is_some());
    if notes.len() > NOTES_MAX {
        let more = notes.len() - NOTES_MAX;
        notes.truncate(NOTES_MAX);
        notes.push(format!("{more} more notes like these"));
    }
    Ok(Applied { writes, notes })
}

/// What a section of the patch begins with.
enum Source<'a, B> {
    /// What the file held before the patch.
    Original(&'a B),
    /// What the patch has made of it, or of another.
    Made(Vec<u8>),
}

/// A file while sections change it.
struct Opened<'a, B> {
    lines: Lines<'a>,
    original: Option<&'a B>,
}

impl<B: AsRef<[u8]> + Clone> Source<'_, B> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Original(bytes) => bytes.as_ref(),
            Self::Made(bytes) => bytes,
        }
    }
}

impl<B: AsRef<[u8]> + Clone> Opened<'_, B> {
    fn into_content(self) -> Content<B> {
        let (old, added, stretches) = self.lines.into_stretches();
        match self.original {
            Some(original) => Content::of_shared(original.clone(), added, stretches),
            None => Content::of_own(old.into_owned(), added, stretches),
        }
    }
}

struct State<'a, B: AsRef<[u8]>> {
    base: &'a Path,
    form: Form,
    files: &'a BTreeMap<PathBuf, Option<B>>,
    budget: &'a Budget,
    writes: Vec<FileWrite<B>>,
    /// Where in `writes` a path is.
    places: HashMap<PathBuf, usize>,
    /// How many sections still change a file.
    sections: HashMap<PathBuf, usize>,
    /// The files that the patch takes away.
    leaving: HashSet<PathBuf>,
    /// The files that came from elsewhere, or are new.
    arrived: HashSet<PathBuf>,
    /// The lines of files that more sections change.
    opened: HashMap<PathBuf, Opened<'a, B>>,
    notes: Vec<String>,
}

impl<'a, B: AsRef<[u8]> + Clone> State<'a, B> {
    fn new(
        patch: &Patch,
        base: &'a Path,
        files: &'a BTreeMap<PathBuf, Option<B>>,
        budget: &'a Budget,
    ) -> Self {
        let mut sections: HashMap<PathBuf, usize> = HashMap::new();
        let mut leaving = HashSet::new();
        for file in &patch.files {
            let path = || absolute(base, &file.path);
            match &file.action {
                FileAction::Add { .. } => continue,
                FileAction::Delete => leaving.insert(path()),
                FileAction::Update { move_to: Some(_), keeps_source: false, .. } => {
                    leaving.insert(path())
                }
                // A copy is made of what was there before.
                FileAction::Update { keeps_source: true, .. } => continue,
                FileAction::Update { .. } => false,
            };
            *sections.entry(path()).or_default() += 1;
        }
        Self {
            base,
            form: patch.form,
            files,
            budget,
            writes: Vec::new(),
            places: HashMap::new(),
            sections,
            leaving,
            arrived: HashSet::new(),
            opened: HashMap::new(),
            notes: Vec::new(),
        }
    }

    fn apply_file(&mut self, file: &FilePatch) -> Result<(), PatchError> {
        let path = absolute(self.base, &file.path);
        match &file.action {
            FileAction::Add { content } => {
                self.make_way(file, &path)?;
                self.arrived.insert(path.clone());
                self.put(&path, Some(Content::whole(content.content())));
                self.set_executable(&path, file);
            }
            FileAction::Delete => {
                let old = self.take(file, &path, "delete")?;
                if let Some(removed) = &file.removed {
                    check_removed(file, removed, old.bytes())?;
                }
                self.put(&path, None);
            }
            FileAction::Update { move_to, keeps_source, chunks } => {
                let target = move_to.as_ref().map(|target| absolute(self.base, target));
                match target.filter(|target| *target != path) {
                    None => self.update(file, path, chunks)?,
                    Some(target) if *keeps_source => self.copy(file, &path, (target, chunks))?,
                    Some(target) => self.move_file(file, &path, (target, chunks))?,
                }
            }
        }
        Ok(())
    }

    fn update(
        &mut self,
        file: &FilePatch,
        path: PathBuf,
        chunks: &[Chunk],
    ) -> Result<(), PatchError> {
        let mut opened = match self.opened.remove(&path) {
            Some(opened) => opened,
            None => {
                let source = self.source(file, &path, "update")?;
                self.open(file, source)?
            }
        };
        self.change(file, &mut opened.lines, chunks)?;
        let left = self.sections.get_mut(&path).map_or(0, |left| {
            *left = left.saturating_sub(1);
            *left
        });
        self.entry(&path);
        self.set_executable(&path, file);
        // Where a CR ends a line, a new LF ends that.
        if left > 0 && !opened.lines.cr_ends {
            self.opened.insert(path, opened);
        } else {
            self.put(&path, Some(opened.into_content()));
        }
        Ok(())
    }

    fn copy(
        &mut self,
        file: &FilePatch,
        path: &Path,
        (target, chunks): (PathBuf, &[Chunk]),
    ) -> Result<(), PatchError> {
        self.make_way(file, &target)?;
        // A diff tells how files are made of those that were there before all of it.
        let source = match self.original(path) {
            Some(original) => Source::Original(original),
            None => {
                let source = self.take(file, path, "copy")?;
                self.put(path, Some(Content::whole(source.bytes().to_vec())));
                source
            }
        };
        self.budget.spend(source.bytes().len() / 64);
        let mut opened = self.open(file, source)?;
        self.change(file, &mut opened.lines, chunks)?;
        self.arrived.insert(target.clone());
        self.put(&target, Some(opened.into_content()));
        let entry = self.entry(&target);
        (entry.copied_from, entry.executable) = (Some(path.to_owned()), file.executable);
        Ok(())
    }

    fn move_file(
        &mut self,
        file: &FilePatch,
        path: &Path,
        (target, chunks): (PathBuf, &[Chunk]),
    ) -> Result<(), PatchError> {
        self.make_way(file, &target)?;
        let is_swapped = self.form == Form::Unified && self.arrived.contains(path);
        let original = self.original(path).filter(|_| is_swapped);
        let origin = match self.places.get(path).and_then(|at| self.writes.get(*at)) {
            Some(write) if original.is_none() => write.moved_from.clone(),
            Some(_) | None => None,
        };
        let origin = origin.unwrap_or_else(|| path.to_owned());
        let executable = self.places.get(path).and_then(|at| self.writes.get(*at)?.executable);
        let mut opened = match original {
            Some(original) => self.open(file, Source::Original(original))?,
            None => match self.opened.remove(path) {
                Some(opened) => opened,
                None => {
                    let source = self.source(file, path, "move")?;
                    self.open(file, source)?
                }
            },
        };
        self.change(file, &mut opened.lines, chunks)?;
        let content = opened.into_content();
        if original.is_none() {
            self.put(path, None);
        }
        self.arrived.insert(target.clone());
        self.put(&target, Some(content));
        let entry = self.entry(&target);
        entry.moved_from = (origin != target).then_some(origin);
        entry.executable = file.executable.or(executable.filter(|_| original.is_none()));
        Ok(())
    }

    /// Finds the places of the chunks and makes their changes.
    fn change(
        &mut self,
        file: &FilePatch,
        lines: &mut Lines<'a>,
        chunks: &[Chunk],
    ) -> Result<(), PatchError> {
        lines.expect_searches(chunks.len());
        let mut cursor = Cursor::default();
        let mut edits = Edits::default();
        for (index, chunk) in chunks.iter().enumerate() {
            let found = Finder::new(lines, cursor).find(chunk);
            if self.budget.left() == 0 {
                return Err(too_costly(file, index));
            }
            let place = found.map_err(|miss| explain(lines, file, (chunk, index + 1), miss))?;
            if self.notes.len() <= NOTES_MAX {
                self.notes.extend(note_of(file, (chunk, index + 1), &place));
            }
            edits.add(lines, chunk, &place).map_err(|_| too_large(file))?;
            cursor.pass(&place, edits.changed_to());
        }
        edits.make(lines);
        Ok(())
    }

    // ---- What files hold.

    fn open(&self, file: &FilePatch, source: Source<'a, B>) -> Result<Opened<'a, B>, PatchError> {
        if source.bytes().len() > FILE_BYTES_MAX {
            return Err(too_large(file));
        }
        let (bytes, original) = match source {
            Source::Original(original) => (Cow::Borrowed(original.as_ref()), Some(original)),
            Source::Made(bytes) => (Cow::Owned(bytes), None),
        };
        Ok(Opened { lines: Lines::new(bytes, self.form, self.budget), original })
    }

    /// Returns what the file held before the patch.
    fn original(&self, path: &Path) -> Option<&'a B> {
        self.files.get(path).and_then(Option::as_ref)
    }

    /// Takes what the file holds now out of the writes, to be put back changed.
    fn source(
        &mut self,
        file: &FilePatch,
        path: &Path,
        verb: &'static str,
    ) -> Result<Source<'a, B>, PatchError> {
        let known = self.places.get(path).and_then(|at| self.writes.get_mut(*at));
        let bytes = match known {
            Some(write) => write.content.take().map(|content| Source::Made(content.into_vec())),
            None => self.original(path).map(Source::Original),
        };
        bytes.ok_or_else(|| PatchError::Missing {
            path: file.path.clone(),
            patch_line: file.patch_line,
            verb,
        })
    }

    /// Returns what the file holds now.
    fn take(
        &mut self,
        file: &FilePatch,
        path: &Path,
        verb: &'static str,
    ) -> Result<Source<'a, B>, PatchError> {
        match self.opened.remove(path) {
            Some(opened) => Ok(Source::Made(opened.into_content().into_vec())),
            None => self.source(file, path, verb),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        let written = self.places.get(path).and_then(|at| self.writes.get(*at));
        self.opened.contains_key(path)
            || written.map_or(self.original(path).is_some(), |write| write.content.is_some())
    }

    /// Sees to it that a file may be put there.
    fn make_way(&mut self, file: &FilePatch, path: &Path) -> Result<(), PatchError> {
        if !self.exists(path) {
            return Ok(());
        }
        let shown = match &file.action {
            FileAction::Update { move_to: Some(target), .. } => target.display(),
            _ => file.path.display(),
        };
        // What the diff itself takes away is not in the way.
        let is_leaving = self.leaving.contains(path) && !self.arrived.contains(path);
        if self.form == Form::Unified && !is_leaving {
            let problem = format!("the diff makes {shown} anew, but there is such a file already");
            let (path, patch_line) = (file.path.clone(), file.patch_line);
            return Err(PatchError::Refused { path, patch_line, problem });
        }
        if self.form == Form::Chunks {
            self.notes.push(format!("{shown}: existed before and was replaced whole"));
        }
        self.opened.remove(path);
        Ok(())
    }

    /// Returns the file's entry, which it may make.
    fn entry(&mut self, path: &Path) -> &mut FileWrite<B> {
        let at = *self.places.entry(path.to_owned()).or_insert_with(|| {
            self.writes.push(FileWrite {
                path: path.to_owned(),
                content: None,
                old: self.files.get(path).cloned().flatten(),
                moved_from: None,
                copied_from: None,
                executable: None,
            });
            self.writes.len() - 1
        });
        &mut self.writes[at]
    }

    fn put(&mut self, path: &Path, content: Option<Content<B>>) {
        let entry = self.entry(path);
        if content.is_none() {
            (entry.moved_from, entry.copied_from, entry.executable) = (None, None, None);
        }
        entry.content = content;
    }

    fn set_executable(&mut self, path: &Path, file: &FilePatch) {
        if file.executable.is_some() {
            self.entry(path).executable = file.executable;
        }
    }
}

/// Checks that a file to delete holds what the patch says.
fn check_removed(file: &FilePatch, removed: &Body, old: &[u8]) -> Result<(), PatchError> {
    let content = removed.content();
    let without_cr =
        |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|byte| *byte != b'\r').collect() };
    if content == old || (removed.is_crlf && without_cr(&content) == without_cr(old)) {
        return Ok(());
    }
    let mut pairs = content.split(|byte| *byte == b'\n').zip(old.split(|byte| *byte == b'\n'));
    let alike = pairs.by_ref().take_while(|(left, right)| left == right).count();
    let problem = format!(
        "the file holds other lines than the diff deletes; the first that differs is line {}",
        alike + 1
    );
    let (path, patch_line) = (file.path.clone(), file.patch_line);
    Err(PatchError::Refused { path, patch_line, problem })
}

fn note_of(file: &FilePatch, (chunk, number): (&Chunk, usize), place: &Place) -> Option<String> {
    let head = || {
        format!(
            "{}: chunk {number} (line {} of the patch) was placed at line {}",
            file.path.display(),
            chunk.patch_line,
            place.start + 1
        )
    };
    let mut reasons = Vec::new();
    if place.others > 0 {
        let or_more = if place.others >= OTHERS_MAX { " or more" } else { "" };
        let places = plural(place.others, "place");
        reasons.push(format!(
            "the first that fits; {places}{or_more} below would fit as well, so check it, and name an enclosing line after `@@`"
        ));
    }
    if place.shift != 0 {
        let direction = if place.shift > 0 { "below" } else { "above" };
        let lines = plural(place.shift.unsigned_abs(), "line");
        reasons.push(format!("{lines} {direction} where the diff says"));
    }
    if place.level >= Level::Trimmed {
        reasons.push("although spaces or punctuation differ".to_owned());
    }
    (!reasons.is_empty()).then(|| format!("{}, {}", head(), reasons.join(", ")))
}

fn too_large(file: &FilePatch) -> PatchError {
    let problem = format!("a file of more than {FILE_BYTES_MAX} bytes is not patched");
    PatchError::Refused { path: file.path.clone(), patch_line: file.patch_line, problem }
}

fn too_costly(file: &FilePatch, index: usize) -> PatchError {
    let chunk = match &file.action {
        FileAction::Update { chunks, .. } => chunks.get(index),
        FileAction::Add { .. } | FileAction::Delete => None,
    };
    PatchError::TooCostly {
        path: file.path.clone(),
        chunk: index + 1,
        patch_line: chunk.map_or(file.patch_line, |chunk| chunk.patch_line),
    }
}
