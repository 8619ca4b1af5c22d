//! `gimlet apply-patch`: the engine that changes files, for people and for other programs.
//!
//! Also what the program is when it is called `apply_patch`, as models call it from scripts.
//! Starts light: no runtime, no configuration, no session. Where a patch may write is the rule
//! of `tools/`, with the directory as the only root and nobody there to be asked; the words for
//! it are `apply_patch_report.rs`. Called by `cli/mod.rs`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::args::{ApplyPatchArgs, SettingsArgs};
use crate::cli::commands::apply_patch_report::{Form, Problem, Report};
use crate::cli::exit_code::ExitCode;
use crate::cli::settings::load_directories;
use crate::patch::{self, FileAction, PATCH_BYTES_MAX, Patch};
use crate::protocol::{GitAccess, Network, SandboxMode, SandboxPolicy};
use crate::store::commit::recover;
use crate::store::own_commands::is_own_name;
use crate::tools::SeenFiles;
use crate::tools::edit::{self, Asks, EditScope, FileWrite};

/// Acts as `apply_patch PATCH` when the program was called by that name; else returns `None`.
pub(crate) fn run_if_named(mut argv: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = PathBuf::from(argv.next()?);
    let name = program.file_name().filter(|name| is_own_name(name))?.display();
    let request = Request { patch: argv.next(), directory: None, dry_run: false };
    let outcome = match argv.next() {
        Some(_) => Err(Problem::usage(format!("{name} takes one argument at most, the patch"))),
        None => apply(request),
    };
    Some(Report { form: Form::Text, outcome }.print())
}

/// Runs `gimlet apply-patch`.
pub(crate) fn run(args: ApplyPatchArgs, settings: SettingsArgs) -> ExitCode {
    let form = if args.json { Form::Json } else { Form::Text };
    let request = Request {
        patch: args.patch.filter(|patch| patch != "-"),
        directory: args.cd.or(settings.cd),
        dry_run: args.dry_run,
    };
    let outcome = check_spelling(request.patch.as_deref()).and_then(|()| apply(request));
    Report { form, outcome }.print()
}

/// What to do.
struct Request {
    /// The patch; stdin when absent.
    patch: Option<OsString>,
    /// Where; the working directory when absent.
    directory: Option<PathBuf>,
    dry_run: bool,
}

/// What was done, or would be.
pub(super) struct Done {
    pub(super) writes: Vec<FileWrite>,
    /// What is to be known although it worked, one line each.
    pub(super) notes: Vec<String>,
    /// The directory, real.
    pub(super) base: PathBuf,
    pub(super) dry_run: bool,
}

/// Takes a mistyped option for what it is: a patch that begins with a dash has several lines.
fn check_spelling(patch: Option<&OsStr>) -> Result<(), Problem> {
    let Some(patch) = patch else { return Ok(()) };
    let bytes = patch.as_encoded_bytes();
    if !bytes.starts_with(b"-") || bytes.contains(&b'\n') {
        return Ok(());
    }
    let hint = "gimlet apply-patch --help lists the options";
    Err(Problem::usage(format!("there is no option {}", patch.to_string_lossy())).with_hint(hint))
}

fn apply(request: Request) -> Result<Done, Problem> {
    let Request { patch, directory, dry_run } = request;
    let base = find_base(directory.as_deref())?;
    let patch = patch::parse_bytes(read_patch(patch)?)?;
    check_inside(&patch, &base)?;
    let scope = build_scope(base);
    let mut notes = Vec::new();
    if let Some(journal) = scope.journal.as_deref().filter(|_| !dry_run) {
        // What a killed edit left is settled first: the patch is for the tree that comes of it.
        notes.extend(recover(journal, std::slice::from_ref(&scope.base)));
    }
    let mut planned = edit::plan(patch, &scope)?;
    notes.append(&mut planned.applied.notes);
    if !dry_run {
        notes.extend(edit::commit(&planned, &scope, &|| true)?);
    }
    Ok(Done { writes: planned.applied.writes, notes, base: scope.base, dry_run })
}

/// Returns what a patch may do: write below the directory, but not what runs or belongs to us.
fn build_scope(base: PathBuf) -> EditScope {
    let own = load_directories().ok();
    EditScope {
        policy: SandboxPolicy {
            mode: SandboxMode::WorkspaceWrite,
            roots: vec![base.clone()],
            network: Network::Off,
            deny_read: Vec::new(),
            deny_write: own
                .iter()
                .flat_map(|own| [own.config.clone(), own.state.clone()])
                .collect(),
            git: GitAccess::Ask,
            tmp: false,
        },
        journal: own.as_ref().map(|own| own.state.join("journal")),
        home: own.map_or_else(|| PathBuf::from("/"), |own| own.home),
        base,
        rules: Arc::default(),
        asks: Asks::Refuse,
        seen: SeenFiles::default(),
    }
}

/// Returns the directory that paths start from and stay in, without links.
fn find_base(directory: Option<&Path>) -> Result<PathBuf, Problem> {
    let directory = directory.unwrap_or(Path::new("."));
    let unusable =
        |why: String| Problem::usage(format!("cannot work in {}: {why}", directory.display()));
    let base = directory.canonicalize().map_err(|error| unusable(error.to_string()))?;
    if base.is_dir() { Ok(base) } else { Err(unusable("it is no directory".to_owned())) }
}

/// Returns the bytes of the patch.
fn read_patch(argument: Option<OsString>) -> Result<Vec<u8>, Problem> {
    if let Some(argument) = argument {
        return Ok(argument.into_vec());
    }
    let no_patch = || {
        let hint = "give it as the argument or on stdin: git diff | gimlet apply-patch";
        Problem::usage("there is no patch".to_owned()).with_hint(hint)
    };
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(no_patch());
    }
    let mut bytes = Vec::new();
    // One byte more than a patch may have shows that there are too many.
    let mut bounded = stdin.lock().take(PATCH_BYTES_MAX as u64 + 1);
    match bounded.read_to_end(&mut bytes) {
        Ok(0) => Err(no_patch()),
        Ok(count) if count > PATCH_BYTES_MAX => Err(Problem::too_large(PATCH_BYTES_MAX)),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Problem::failed(format!("cannot read stdin: {error}"))),
    }
}

/// Refuses a path that leaves the directory by its text. Where a link leads is judged later.
fn check_inside(patch: &Patch, base: &Path) -> Result<(), Problem> {
    for file in &patch.files {
        let target = match &file.action {
            FileAction::Update { move_to, .. } => move_to.as_ref(),
            FileAction::Add { .. } | FileAction::Delete => None,
        };
        for path in std::iter::once(&file.path).chain(target) {
            if !patch::absolute(base, path).starts_with(base) {
                let hint = "all files must lie below the directory it works in; -C names another";
                let reason = format!("{} is outside {}", path.display(), base.display());
                return Err(Problem::refused(path, reason).with_hint(hint));
            }
        }
    }
    Ok(())
}
