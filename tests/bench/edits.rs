//! `edits`: how long changing files takes, beside other programs on the same edits.
//!
//! Ours and the peer's are called by the name `apply_patch`, through links; `git apply` and
//! GNU `patch` get the same edits as a unified diff, and `cp` shows what copying alone costs.
//! All play in one alternating run, each on a fresh copy of the same made-up tree, and what
//! comes out is compared byte by byte. The trees are `edit_cases.rs`, the table `edit_table.rs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::edit_cases::{Case, Tree, write_tree};
use crate::edit_table;
use crate::measure::{self, Run};
use crate::snapshots;

/// Figures by case and by program.
pub(crate) type Figures = BTreeMap<(&'static str, Program), Vec<Run>>;

/// Where syncing costs nothing, so that the rest of a run can be seen.
const MEMORY: &str = "/dev/shm";

/// What is measured. `Start` and `PeerStart` do nothing but print their version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Ours,
    Peer,
    Git,
    Patch,
    Copy,
    Start,
    PeerStart,
}

struct Options {
    gimlet: PathBuf,
    peer: Option<PathBuf>,
    rounds: usize,
    /// Divides every size; for trying the bench itself out.
    shrink: usize,
    only: String,
}

/// Runs the bench.
pub(crate) fn run(args: &[String]) {
    let options = parse_options(args);
    let folder = tempfile::tempdir().unwrap();
    let programs = Programs::new(folder.path(), &options);
    let mut figures = Figures::new();
    let cases = Case::all(options.shrink);
    for case in cases.iter().filter(|case| case.name.contains(&options.only)) {
        let memory = Path::new(MEMORY);
        let stage = match case.in_memory && memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let stage = Stage::new(stage.path(), case);
        for round in 0..=options.rounds {
            eprintln!("{}: round {round} of {}", case.name, options.rounds);
            for program in programs.of(case) {
                let run = stage.play(program, &programs);
                // The first round warms the page cache and is not counted.
                if round > 0 {
                    figures.entry((case.name, program)).or_default().push(run);
                }
            }
        }
    }
    edit_table::print(&cases, &figures);
    if snapshots::NAME.contains(&options.only) {
        snapshots::run(&options.gimlet, options.rounds, options.shrink);
    }
}

fn parse_options(args: &[String]) -> Options {
    let gimlet = crate::release_binary();
    let mut options = Options { gimlet, peer: None, rounds: 7, shrink: 1, only: String::new() };
    for pair in args.chunks(2) {
        let [name, value] = pair else { panic!("{} wants a value", pair[0]) };
        match name.as_str() {
            "--gimlet" => options.gimlet = value.into(),
            "--peer" => options.peer = Some(value.into()),
            "--rounds" => options.rounds = value.parse().expect("--rounds wants a number"),
            "--shrink" => options.shrink = value.parse().expect("--shrink wants a number"),
            "--only" => options.only.clone_from(value),
            _ => panic!(
                "unknown option {name}: --gimlet PATH, --peer PATH, --rounds N, --shrink N, --only NAME"
            ),
        }
    }
    options
}

/// The programs that are there, under the names they are called by.
struct Programs {
    paths: BTreeMap<Program, PathBuf>,
    home: PathBuf,
}

impl Programs {
    fn new(folder: &Path, options: &Options) -> Self {
        let home = folder.join("home");
        fs::create_dir(&home).unwrap();
        let link = |name: &str, program: &Path| {
            let link = folder.join(name).join("apply_patch");
            fs::create_dir(folder.join(name)).unwrap();
            std::os::unix::fs::symlink(program.canonicalize().ok()?, &link).unwrap();
            Some(link)
        };
        let peer = options.peer.as_deref();
        let found = [
            (Program::Ours, link("ours", &options.gimlet)),
            (Program::Start, options.gimlet.canonicalize().ok()),
            (Program::Peer, peer.and_then(|peer| link("peer", peer))),
            (Program::PeerStart, peer.and_then(|peer| peer.canonicalize().ok())),
            (Program::Git, find_program("git")),
            (Program::Patch, find_program("patch")),
            (Program::Copy, find_program("cp")),
        ];
        let is_there = |(program, path): (Program, Option<PathBuf>)| {
            if path.is_none() {
                eprintln!("{program:?} is not there: left out");
            }
            Some((program, path?))
        };
        Self { paths: found.into_iter().filter_map(is_there).collect(), home }
    }

    fn of(&self, case: &Case) -> Vec<Program> {
        let starts = [Program::Start, Program::PeerStart];
        let all = self.paths.keys().copied();
        all.filter(|program| case.beside_start || !starts.contains(program)).collect()
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// One case, written out once.
struct Stage {
    folder: PathBuf,
    before: Tree,
    after: Tree,
}

impl Stage {
    fn new(folder: &Path, case: &Case) -> Self {
        let edit = case.make();
        write_tree(&folder.join("pristine"), &edit.before);
        fs::write(folder.join("edit.patch"), &edit.patch).unwrap();
        fs::write(folder.join("edit.diff"), &edit.diff).unwrap();
        Self { folder: folder.to_owned(), before: edit.before, after: edit.after }
    }

    /// Makes room for the next tree. Some file systems pass over what was freed just now, one by
    /// one, for each file that is made: many files stay until the case is over, so that nobody
    /// pays for those of the program before.
    fn clear_away(&self, work: &Path) {
        if self.before.len() == 1 {
            let _ = fs::remove_dir_all(work);
            return;
        }
        let aside = (0..).map(|n| self.folder.join(format!("played{n}")));
        let free = aside.into_iter().find(|aside| !aside.exists()).unwrap();
        let _ = fs::rename(work, free);
    }

    /// Runs one program on a fresh copy, and checks what it did.
    fn play(&self, program: Program, programs: &Programs) -> Run {
        let work = self.folder.join("workspace");
        let copy = work.join("copy");
        self.clear_away(&work);
        write_tree(&work, &self.before);
        // What was written just now is not to be paid for by who syncs next.
        rustix::fs::sync();
        let pristine = self.folder.join("pristine").display().to_string();
        let (args, input): (&[&str], _) = match program {
            Program::Ours | Program::Peer => (&[], Some("edit.patch")),
            Program::Git => (&["apply", "-p1", "-"], Some("edit.diff")),
            Program::Patch => (&["-p1", "-s"], Some("edit.diff")),
            Program::Copy => (&["-r", &pristine, "copy"], None),
            Program::Start | Program::PeerStart => (&["--version"], None),
        };
        let stdin = input
            .map_or(Stdio::null(), |name| Stdio::from(File::open(self.folder.join(name)).unwrap()));
        let home = programs.home.display().to_string();
        let env = [("GIMLET_HOME", home.as_str()), ("CODEX_HOME", &home), ("HOME", &home)];
        let run = measure::run_reading(&self.folder, stdin, &programs.paths[&program], args, &env);
        let shown = |name| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let said = || format!("{}{}", shown("stdout.txt"), shown("stderr.txt"));
        assert_eq!(run.code, 0, "{program:?}: {}", said());
        let (root, expected) = match program {
            Program::Copy => (copy, &self.before),
            Program::Start | Program::PeerStart => (work, &self.before),
            Program::Ours | Program::Peer | Program::Git | Program::Patch => (work, &self.after),
        };
        for (name, bytes) in expected {
            let found = fs::read(root.join(name)).unwrap();
            assert!(found == *bytes, "{program:?} made something else of {name}: {}", said());
        }
        run
    }
}
