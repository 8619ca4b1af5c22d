//! Reads the text of a change: of the patch grammar or of a unified diff, or of several files.
//!
//! Judges nothing: what it does not know it keeps as a note, so no line of a change is hidden
//! from who must approve it. Knows no colours. Called by `mod.rs`.

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FileDiff<'a> {
    /// Its name; empty for lines before the first.
    pub path: String,
    /// Its new name.
    pub move_to: Option<String>,
    /// Whether it comes or goes as a whole.
    pub whole: Option<Whole>,
    /// Lines that say something else.
    pub notes: Vec<&'a str>,
    /// The changes in order.
    pub hunks: Vec<Hunk<'a>>,
}

/// A file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    New,
    Deleted,
}

/// Lines that are changed together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Hunk<'a> {
    /// The first line's number of each side, where known.
    pub start: Option<(usize, usize)>,
    /// What it is in, such as a function.
    pub title: String,
    /// Its lines.
    pub lines: Vec<(Sign, &'a str)>,
}

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Context,
    Added,
    Removed,
    /// It is no line of the file, but says something of the one above.
    Note,
}

impl FileDiff<'_> {
    /// Returns how many lines come and go.
    pub(super) fn counts(&self) -> (usize, usize) {
        let count = |wanted: Sign| {
            let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
            lines.filter(|(sign, _)| *sign == wanted).count()
        };
        (count(Sign::Added), count(Sign::Removed))
    }
}

/// Returns the files of the text in order.
pub(super) fn parse_files(text: &str) -> Vec<FileDiff<'_>> {
    let mut parser = Parser::default();
    let mut lines = text.split_terminator('\n').peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied().unwrap_or_default();
        parser.take(line, next);
    }
    let mut files = parser.files;
    for file in &mut files {
        drop_returns(file);
        drop_last_blank(file);
    }
    files.retain(|file| *file != FileDiff::default());
    files
}

#[derive(Default)]
struct Parser<'a> {
    files: Vec<FileDiff<'a>>,
    /// Lines that the hunk's header announces and that are still to come, of each side.
    left: (usize, usize),
    /// Whether `--- ` and `+++ ` of this file are still to come.
    is_in_header: bool,
}

impl<'a> Parser<'a> {
    fn take(&mut self, line: &'a str, next: &str) {
        if self.left != (0, 0) && self.take_body(line) {
            return;
        }
        self.left = (0, 0);
        let bare = line.trim_end();
        let named = |prefix: &str| bare.strip_prefix(prefix).map(|name| name.trim().to_owned());
        if let Some(path) = named("*** Add File:") {
            self.begin(path, Some(Whole::New));
        } else if let Some(path) = named("*** Delete File:") {
            self.begin(path, Some(Whole::Deleted));
        } else if let Some(path) = named("*** Update File:") {
            self.begin(path, None);
        } else if let Some(path) = named("*** Move to:") {
            self.file().move_to = Some(path);
        } else if bare == "*** End of File" {
            self.push(Sign::Note, "end of file");
        } else if let "*** Begin Patch" | "*** End Patch" = bare {
        } else if let Some(names) = named("diff --git ") {
            let path = names.rsplit_once(" b/").map_or(names.clone(), |(_, path)| path.to_owned());
            self.begin(path, None);
            self.is_in_header = true;
        } else if line.starts_with("--- ") && next.starts_with("+++ ") {
            if !self.is_in_header {
                self.begin(String::new(), None);
            }
            self.is_in_header = true;
            self.name_old(line.get(4..).unwrap_or_default());
        } else if self.is_in_header && line.starts_with("+++ ") {
            self.is_in_header = false;
            self.name_new(line.get(4..).unwrap_or_default());
        } else if let Some(rest) = line.strip_prefix("@@") {
            self.is_in_header = false;
            self.begin_hunk(rest);
        } else if self.is_in_header || !self.take_body(line) {
            self.take_note(bare);
        }
    }

    fn begin(&mut self, path: String, whole: Option<Whole>) {
        // What stands before the first name belongs to it.
        let is_first = self.files.len() == 1;
        let early = self.files.pop_if(|it| is_first && it.path.is_empty() && it.hunks.is_empty());
        let notes = early.unwrap_or_default().notes;
        let mut file = FileDiff { path, whole, notes, ..FileDiff::default() };
        if whole == Some(Whole::New) {
            file.hunks.push(Hunk { start: Some((1, 1)), ..Hunk::default() });
        }
        self.is_in_header = false;
        self.files.push(file);
    }

    fn file(&mut self) -> &mut FileDiff<'a> {
        if self.files.is_empty() {
            self.files.push(FileDiff::default());
        }
        let last = self.files.len() - 1;
        &mut self.files[last]
    }

    fn name_old(&mut self, label: &str) {
        let path = name_of(label, "a/");
        let file = self.file();
        match path {
            None => file.whole = Some(Whole::New),
            Some(path) => file.path = path,
        }
    }

    fn name_new(&mut self, label: &str) {
        let path = name_of(label, "b/");
        let file = self.file();
        match path {
            None => file.whole = Some(Whole::Deleted),
            Some(path) if file.whole == Some(Whole::New) || file.path.is_empty() => {
                file.path = path;
            }
            Some(path) if path != file.path => file.move_to = Some(path),
            Some(_) => {}
        }
    }

    fn begin_hunk(&mut self, rest: &str) {
        let (ranges, title) = match rest.split_once("@@") {
            Some((ranges, title)) => (parse_ranges(ranges), title),
            None => (None, rest),
        };
        let title = if ranges.is_some() { title.trim() } else { rest.trim() };
        if let Some([old, new]) = ranges {
            self.left = (old.1, new.1);
        }
        let start = ranges.map(|[old, new]| (old.0, new.0));
        match self.file().hunks.last_mut() {
            // Several anchors in a row say where one hunk is.
            Some(last) if last.lines.is_empty() && !last.title.is_empty() && start.is_none() => {
                last.title.push_str(" · ");
                last.title.push_str(title);
            }
            Some(_) | None => {
                let title = title.to_owned();
                self.file().hunks.push(Hunk { start, title, lines: Vec::new() });
            }
        }
    }

    /// Takes a line of a hunk; returns whether it is one.
    fn take_body(&mut self, line: &'a str) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let (sign, text) = match line.as_bytes().first() {
            Some(b'+') => (Sign::Added, line.get(1..)),
            Some(b'-') => (Sign::Removed, line.get(1..)),
            Some(b' ') => (Sign::Context, line.get(1..)),
            None | Some(b'\r') => (Sign::Context, Some(line)),
            Some(b'\\') => (Sign::Note, line.get(1..).map(str::trim)),
            Some(_) => return false,
        };
        let (old, new) = &mut self.left;
        if matches!(sign, Sign::Context | Sign::Removed) {
            *old = old.saturating_sub(1);
        }
        if matches!(sign, Sign::Context | Sign::Added) {
            *new = new.saturating_sub(1);
        }
        self.push(sign, text.unwrap_or_default());
        true
    }

    fn push(&mut self, sign: Sign, text: &'a str) {
        let file = self.file();
        if file.hunks.is_empty() {
            file.hunks.push(Hunk::default());
        }
        if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push((sign, text));
        }
    }

    /// Takes a line that changes nothing in the file itself.
    fn take_note(&mut self, line: &'a str) {
        let is_in_header = self.is_in_header;
        let file = self.file();
        if !is_in_header {
            file.notes.extend(Some(line).filter(|line| !line.is_empty()));
        } else if let Some(path) = line.strip_prefix("rename from ") {
            path.clone_into(&mut file.path);
        } else if let Some(path) = line.strip_prefix("rename to ") {
            file.move_to = Some(path.to_owned());
        } else if line.starts_with("deleted file mode ") {
            file.whole = Some(Whole::Deleted);
        } else if !line.starts_with("index ") && !line.starts_with("similarity index ") {
            if line.starts_with("new file mode ") {
                file.whole = Some(Whole::New);
            }
            file.notes.extend(Some(line).filter(|line| !line.is_empty()));
        }
    }
}

/// Returns the name that a header says; `None` for no file.
fn name_of(label: &str, side: &str) -> Option<String> {
    let label = label.split('\t').next().unwrap_or_default().trim_end();
    let bare = label.strip_prefix(side).unwrap_or(label);
    (label != "/dev/null").then(|| bare.to_owned())
}

/// Returns where the hunk begins and how long it is, for each side.
fn parse_ranges(text: &str) -> Option<[(usize, usize); 2]> {
    let range = |word: &str, sign: char| {
        let (start, count) = match word.strip_prefix(sign)?.split_once(',') {
            Some((start, count)) => (start, count.parse().ok()?),
            None => (word.strip_prefix(sign)?, 1),
        };
        Some((start.parse().ok()?, count))
    };
    let mut words = text.split_whitespace();
    let ranges = [range(words.next()?, '-')?, range(words.next()?, '+')?];
    words.next().is_none().then_some(ranges)
}

/// Takes the CR from the end of every line where all have one: it is not what changes.
fn drop_returns(file: &mut FileDiff<'_>) {
    let mut lines = file.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines);
    let is_mixed = lines.any(|(sign, text)| *sign != Sign::Note && !text.ends_with('\r'));
    if !is_mixed {
        for (_, text) in file.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
            *text = text.strip_suffix('\r').unwrap_or(text);
        }
    }
}

/// Drops blank lines between files that look like the last hunk's.
fn drop_last_blank(file: &mut FileDiff<'_>) {
    let Some(hunk) = file.hunks.last_mut() else { return };
    let is_blank = |line: &(Sign, &str)| *line == (Sign::Context, "");
    if hunk.start.is_none() {
        while hunk.lines.last().is_some_and(is_blank) {
            hunk.lines.pop();
        }
    }
}
