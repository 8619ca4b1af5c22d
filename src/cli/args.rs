//! The command line: what may be typed, and what it means as a layer of the configuration.
//!
//! Parses and maps, nothing more: it reads no file and starts nothing. Its spelling follows
//! Codex, so that its SDK's arguments parse as they are. Called by `cli/mod.rs`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use toml::{Table, Value};

use crate::config::ConfigError;
use crate::config::layers::{Override, parse_override, set_key};
use crate::config::resolve::SessionFlags;

/// The codes of `exec`, for its help.
const EXEC_AFTER_HELP: &str = "\
The prompt is PROMPT, or stdin where PROMPT is absent or `-`. With both, stdin is added to it.
The last message goes to stdout, progress to stderr. Nothing is ever asked: what would need
your approval is declined, and the model is told.

Exit codes:
  0    done
  1    failed
  2    wrong usage or configuration
  3    stopped by a denial
  4    a limit was reached
  5    no credentials
  129, 130, 143   hung up, interrupted, terminated";

/// What `apply-patch` takes, for its help.
const APPLY_PATCH_AFTER_HELP: &str = "\
PATCH is text in the patch form (*** Begin Patch) or a unified diff, as git diff and diff -u write
it. Without PATCH, or with -, it is read from stdin. Either all of it is applied or nothing.
Nothing outside the directory is changed, and nothing below .git.

  git diff | gimlet apply-patch --dry-run

Exit codes:
  0    done
  1    the patch cannot be applied, and nothing was changed
  2    wrong usage, or no patch at all";

/// What undo does and does not, for its help.
const UNDO_AFTER_HELP: &str = "\
All turns from TURN on are taken back. Files you changed since are never overwritten without
--force, and your other changes stay. What was not kept, because it is ignored or too large, is
never removed: it goes back where it was moved from, or stays and is named. Git is neither asked
nor touched. `gimlet redo` takes an undo back, until a new turn changes files; the session's next
turn tells the model what was undone.";
/// What a chain of hashes finds and what not, for the help of `audit`.
const AUDIT_AFTER_HELP: &str = "\
SESSION is an id, its beginning, a path, or `last` (the default).

Each line of a session's log holds the hash of the line before it, so a changed, missing, moved
or added line is found. Two things are not: that the end was cut off, and a change of the very
last line. Keep the last hash that is printed; `audit verify --last-hash HASH` finds these too.
Exit codes: 0 whole, 1 damaged or not readable, 2 no such session.";

/// The codes of `execpolicy check`, for its help.
const EXECPOLICY_AFTER_HELP: &str = "\
Allowed is what is known to only read, and what your rules.toml or that of a trusted project
allows; what they deny is denied; all else is asked for. Approval policy and sandbox mode are left
out of it.

Exit codes:
  0    allowed; with --stdin: every line was judged
  2    wrong usage or rules
  10   asked for
  11   denied";

/// The codes of `sandbox`, for its help.
const SANDBOX_AFTER_HELP: &str = "\
Standard input, output and errors are the command's own.

Exit codes: the command's; 128 + n when signal n ended it; 137 when it reached a limit;
125 when the sandbox cannot be set up, 126 when the command cannot be executed, 127 when
there is none.";

/// A small, sharp coding agent for the terminal.
#[derive(Debug, Parser)]
#[command(name = "gimlet", version, about, subcommand_precedence_over_arg = true)]
pub(crate) struct Cli {
    /// Settings for whatever follows.
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// What to begin with, on the screen.
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// What to do instead of opening the screen.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Work on one prompt, without asking, then exit.
    #[command(visible_alias = "e", after_help = EXEC_AFTER_HELP, disable_help_subcommand = true)]
    Exec(Box<ExecArgs>),
    /// Go on with an earlier session, on the screen.
    Resume(Box<ResumeScreenArgs>),
    /// Apply a patch to the files of a directory, all of it or nothing.
    #[command(after_help = APPLY_PATCH_AFTER_HELP)]
    ApplyPatch(ApplyPatchArgs),
    /// Take back what turns did to your files, by patch or by command.
    #[command(after_help = UNDO_AFTER_HELP)]
    Undo(UndoArgs),
    /// Take the last undo back.
    Redo(RedoArgs),
    /// Show what a turn changed, and by which call.
    Changes(ChangesArgs),
    /// See Gimlet work on a small bundled project, without a key or a network.
    Demo(DemoArgs),
    /// Store an API key, read from stdin.
    Login(LoginArgs),
    /// Delete the stored API key.
    Logout,
    /// Show what you allowed for good, and take it back.
    Approvals(ApprovalsArgs),
    /// Let a project's own configuration act.
    Trust(TrustArgs),
    /// Show which settings hold, and why.
    Config(ConfigArgs),
    /// Show who ran what in a session, and whether its log is whole.
    #[command(after_help = AUDIT_AFTER_HELP)]
    Audit(AuditArgs),
    /// Ask the policy about a command, without running it.
    Execpolicy(ExecpolicyArgs),
    /// Run one command as the agent would, and end as it ends.
    #[command(after_help = SANDBOX_AFTER_HELP)]
    Sandbox(SandboxArgs),
    /// Check what Gimlet needs on this machine, the sandbox first.
    Doctor(DoctorArgs),
}

/// Settings that most subcommands take.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingsArgs {
    /// Work in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
    /// Let commands write in this directory too. Repeatable.
    #[arg(long = "add-dir", value_name = "DIR")]
    pub add_dirs: Vec<PathBuf>,
    /// The model.
    #[arg(short, long, value_name = "MODEL")]
    pub model: Option<String>,
    /// What commands can reach.
    #[arg(short, long, value_name = "MODE", value_enum)]
    pub sandbox: Option<SandboxArg>,
    /// When you are asked.
    #[arg(short = 'a', long = "ask-for-approval", value_name = "WHEN", value_enum)]
    pub approval: Option<ApprovalArg>,
    /// Add the settings of NAME.config.toml.
    #[arg(short, long, value_name = "NAME", value_parser = parse_profile)]
    pub profile: Option<String>,
    /// Set a key of config.toml, e.g. -c model_verbosity=low. Repeatable.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", value_parser = parse_config_flag)]
    pub config: Vec<Override>,
    /// Run everything without sandbox and approval. For machines that are themselves a sandbox.
    #[arg(long = "dangerously-bypass-approvals-and-sandbox", alias = "yolo", conflicts_with_all = ["sandbox", "approval"])]
    pub bypass: bool,
    /// Requests in one turn.
    #[arg(long, alias = "max-turns", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_steps: Option<u32>,
    /// Replaces the model's server.
    #[arg(long, value_enum, hide = true, requires = "script")]
    pub driver: Option<DriverArg>,
    /// What the fake driver plays.
    #[arg(long, value_name = "FILE", hide = true, requires = "driver")]
    pub script: Option<PathBuf>,
}

/// `exec`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecArgs {
    /// What to do; `-` reads stdin.
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Attach an image. Repeatable, and takes a list with commas.
    #[arg(short = 'i', long = "image", value_name = "FILE", num_args = 1)]
    pub images: Vec<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Settings.
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// Goes on with an earlier session.
    #[command(subcommand)]
    pub command: Option<ExecCommand>,
}

/// What `exec` prints and keeps.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON object per event, as Codex does.
    #[arg(long, alias = "experimental-json")]
    pub json: bool,
    /// Print Gimlet's own events, one JSON object each.
    #[arg(long, conflicts_with = "json")]
    pub events: bool,
    /// Write the last message to a file too.
    #[arg(short = 'o', long = "output-last-message", value_name = "FILE")]
    pub last_message_file: Option<PathBuf>,
    /// Ask for an answer that follows this JSON Schema.
    #[arg(long = "output-schema", value_name = "FILE")]
    pub schema_file: Option<PathBuf>,
    /// When to use colour.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: ColorArg,
    /// Keep no session file, and nothing to undo from.
    #[arg(long)]
    pub ephemeral: bool,
    /// Accepted for Codex's sake: Gimlet wants no git repository.
    #[arg(long, hide = true)]
    pub skip_git_repo_check: bool,
    /// Accepted for Codex's sake.
    #[arg(long, value_name = "SOURCE", hide = true)]
    pub thread_source: Option<String>,
    /// Accepted for Codex's sake.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    pub cyber_access_program: Option<String>,
}

/// Below `exec`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ExecCommand {
    /// Go on with an earlier session.
    Resume(Box<ResumeArgs>),
}

/// `exec resume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResumeArgs {
    /// The session's id; with --last, the prompt.
    #[arg(value_name = "SESSION_ID", required_unless_present = "last")]
    pub session: Option<String>,
    /// What to do next; `-` reads stdin.
    #[arg(value_name = "PROMPT", conflicts_with = "last")]
    pub prompt: Option<String>,
    /// Take the latest session of this directory.
    #[arg(long)]
    pub last: bool,
    /// With --last, of any directory.
    #[arg(long, requires = "last")]
    pub all: bool,
    /// Attach an image. Repeatable, and takes a list with commas.
    #[arg(short = 'i', long = "image", value_name = "FILE", num_args = 1)]
    pub images: Vec<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Settings.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// `resume`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResumeScreenArgs {
    /// The session's id; the latest of this directory when absent.
    #[arg(value_name = "SESSION_ID")]
    pub session: Option<String>,
    /// What to do next.
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// The latest of this directory: the same as no id.
    #[arg(long, conflicts_with = "session")]
    pub last: bool,
    /// Without an id: the latest of any directory.
    #[arg(long, conflicts_with = "session")]
    pub all: bool,
    /// Settings.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// `apply-patch`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApplyPatchArgs {
    /// The patch; - or nothing reads stdin.
    // A unified diff begins with dashes.
    #[arg(value_name = "PATCH", allow_hyphen_values = true)]
    pub patch: Option<OsString>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Apply it in this directory.
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub cd: Option<PathBuf>,
}

/// `undo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UndoArgs {
    /// Go back to before this turn; the last one that changed something when absent.
    #[arg(value_name = "TURN")]
    pub turn: Option<u32>,
    /// How.
    #[command(flatten)]
    pub how: RedoArgs,
}

/// `redo`, and what `undo` takes too.
#[derive(Debug, Clone, Args)]
pub(crate) struct RedoArgs {
    /// The session; the newest of this directory when absent.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Overwrite what you changed since.
    #[arg(long)]
    pub force: bool,
    /// Only say what would happen.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `changes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangesArgs {
    /// The turn; the last one that changed something when absent.
    #[arg(value_name = "TURN")]
    pub turn: Option<u32>,
    /// The session; the newest of this directory when absent.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// List the files only.
    #[arg(long, conflicts_with = "json")]
    pub stat: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Use this directory, and leave it; it must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// `login`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoginArgs {
    /// Shows instead of storing.
    #[command(subcommand)]
    pub command: Option<LoginCommand>,
}

/// Below `login`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum LoginCommand {
    /// Say which key is used and where it comes from.
    Status,
}

/// `approvals`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ApprovalsArgs {
    /// What to do; lists when absent.
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Below `approvals`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List what is allowed in a project or always.
    List,
    /// Take one approval back; it will be asked again.
    Revoke {
        /// Its id, as listed.
        id: String,
    },
    /// Take all back.
    Clear,
}

/// `trust`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustArgs {
    /// The project; this directory's when absent.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// List the projects you trust.
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    pub list: bool,
    /// Stop trusting the project.
    #[arg(long)]
    pub revoke: bool,
}

/// `config`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// What to show.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// `sandbox`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SandboxArgs {
    /// What the command can reach.
    #[arg(long, visible_alias = "sandbox", short = 's', value_name = "MODE", value_enum)]
    pub mode: Option<SandboxArg>,
    /// Run in this directory, which is the workspace.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Open or close the network in workspace-write.
    #[arg(long, value_name = "STATE", value_enum)]
    pub network: Option<NetworkArg>,
    /// Set a key of config.toml. Repeatable.
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", value_parser = parse_config_flag)]
    pub config: Vec<Override>,
    /// Say what the command would get, and run nothing.
    #[arg(long)]
    pub explain: bool,
    /// Program and arguments.
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<String>,
}

/// `--network`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkArg {
    /// Open.
    On,
    /// Closed.
    Off,
}

/// `doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Below `config`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Name a setting's value, which layer set it, and which lost.
    Explain {
        /// The key, e.g. model or sandbox_workspace_write.network_access.
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// List the files that are looked at.
    Path,
}

/// `audit`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct AuditArgs {
    /// The session: an id, its beginning, a path, or `last`.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Print one JSON object per record.
    #[arg(long)]
    pub json: bool,
    /// Checks instead of showing.
    #[command(subcommand)]
    pub command: Option<AuditCommand>,
}

/// Below `audit`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AuditCommand {
    /// Walk the chain of hashes, and name every line that breaks it.
    Verify(AuditVerifyArgs),
}

/// `audit verify`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditVerifyArgs {
    /// The session: an id, its beginning, a path, or `last`.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Check all sessions.
    #[arg(long, conflicts_with_all = ["session", "last_hash"])]
    pub all: bool,
    /// What the last line's hash must be.
    #[arg(long, value_name = "HASH")]
    pub last_hash: Option<String>,
}

/// `execpolicy`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecpolicyArgs {
    /// What to ask.
    #[command(subcommand)]
    pub command: ExecpolicyCommand,
}

/// Below `execpolicy`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ExecpolicyCommand {
    /// Say whether a command would be allowed, asked for or denied, and why.
    #[command(after_help = EXECPOLICY_AFTER_HELP)]
    Check(ExecpolicyCheckArgs),
}

/// `execpolicy check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecpolicyCheckArgs {
    /// Print one JSON object per command: command, decision, reason, rule.
    #[arg(long)]
    pub json: bool,
    /// Read commands from stdin, one a line.
    #[arg(long, conflicts_with = "words")]
    pub stdin: bool,
    /// Use the rules of this file, and not your own and the project's. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// A program and its arguments, or one text that a shell would read.
    #[arg(last = true, value_name = "CMD", required_unless_present = "stdin")]
    pub words: Vec<String>,
}

/// `--sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxArg {
    /// Nothing can be written.
    ReadOnly,
    /// The workspace can be written.
    WorkspaceWrite,
    /// No sandbox.
    DangerFullAccess,
}

/// `--ask-for-approval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalArg {
    /// Before anything not known to only read.
    Untrusted,
    /// When a call asks to leave the sandbox.
    OnRequest,
    /// After the sandbox stopped a command.
    OnFailure,
    /// Never; what would be asked is declined.
    Never,
}

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `--driver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverArg {
    /// The scripted driver.
    Fake,
}

/// All of `exec`, its subcommand's part laid over its own.
#[derive(Debug, Clone)]
pub(crate) struct ExecRequest {
    /// What to do; `None` or `-` reads stdin.
    pub prompt: Option<String>,
    /// Which session to go on with.
    pub resume: Option<ResumeTarget>,
    /// What to print and keep.
    pub output: OutputArgs,
    /// Images, lists split.
    pub images: Vec<PathBuf>,
    /// Settings.
    pub settings: SettingsArgs,
}

/// Which session to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResumeTarget {
    /// The one with this id.
    Id(String),
    /// The latest of this directory, or of any.
    Last {
        /// Whether of any directory.
        any_directory: bool,
    },
}

impl SettingsArgs {
    /// Lays these settings over weaker ones, given earlier on the line.
    #[must_use]
    pub(crate) fn over(self, weaker: Self) -> Self {
        Self {
            cd: self.cd.or(weaker.cd),
            add_dirs: concat(weaker.add_dirs, self.add_dirs),
            model: self.model.or(weaker.model),
            sandbox: self.sandbox.or(weaker.sandbox),
            approval: self.approval.or(weaker.approval),
            profile: self.profile.or(weaker.profile),
            config: concat(weaker.config, self.config),
            bypass: self.bypass || weaker.bypass,
            max_steps: self.max_steps.or(weaker.max_steps),
            driver: self.driver.or(weaker.driver),
            script: self.script.or(weaker.script),
        }
    }

    /// Returns the strongest layer: `-c` in order, then the flags that have a name.
    pub(crate) fn overrides(&self) -> Table {
        let mut table = Table::new();
        for given in &self.config {
            set_key(&mut table, &given.segments, given.value.clone());
        }
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), value);
            }
        };
        set("model", self.model.clone().map(Value::String));
        set("sandbox_mode", self.sandbox.as_ref().map(spelled));
        set("approval_policy", self.approval.as_ref().map(spelled));
        set("max_steps", self.max_steps.map(|steps| Value::Integer(i64::from(steps))));
        if self.bypass {
            set("sandbox_mode", Some(Value::from("danger-full-access")));
            set("approval_policy", Some(Value::from("never")));
        }
        table
    }

    /// Returns what is no setting of a file.
    pub(crate) fn session_flags(&self, ephemeral: bool) -> SessionFlags {
        SessionFlags {
            add_dirs: self.add_dirs.clone(),
            ephemeral,
            script: self.driver.and(self.script.clone()),
        }
    }
}

impl SandboxArgs {
    /// Returns the settings that are meant, laid over those given before `sandbox`.
    pub(crate) fn settings(&self, weaker: SettingsArgs) -> SettingsArgs {
        let mut config = self.config.clone();
        config.extend(self.network.map(|network| Override {
            segments: vec!["sandbox_workspace_write".to_owned(), "network_access".to_owned()],
            value: Value::Boolean(network == NetworkArg::On),
        }));
        let own = SettingsArgs {
            cd: self.cwd.clone(),
            sandbox: self.mode,
            config,
            ..SettingsArgs::default()
        };
        own.over(weaker)
    }
}

impl ExecArgs {
    /// Lays the subcommand's part over its own, and both over `settings`, given before `exec`.
    pub(crate) fn into_request(self, settings: SettingsArgs) -> ExecRequest {
        let own_settings = self.settings.over(settings);
        let Some(ExecCommand::Resume(resume)) = self.command else {
            return ExecRequest {
                prompt: self.prompt,
                resume: None,
                output: self.output,
                images: split_images(self.images),
                settings: own_settings,
            };
        };
        let resume = *resume;
        // With --last there is no id, so that a single word is the prompt.
        let (target, prompt) = match (resume.last, resume.session) {
            (false, Some(id)) => (ResumeTarget::Id(id), resume.prompt),
            (true, first) => (ResumeTarget::Last { any_directory: resume.all }, first),
            (false, None) => (ResumeTarget::Last { any_directory: false }, resume.prompt),
        };
        ExecRequest {
            prompt: prompt.or(self.prompt),
            resume: Some(target),
            output: resume.output.over(self.output),
            images: split_images(concat(self.images, resume.images)),
            settings: resume.settings.over(own_settings),
        }
    }
}

impl OutputArgs {
    fn over(self, weaker: Self) -> Self {
        let color = if self.color == ColorArg::Auto { weaker.color } else { self.color };
        Self {
            json: self.json || weaker.json,
            events: self.events || weaker.events,
            last_message_file: self.last_message_file.or(weaker.last_message_file),
            schema_file: self.schema_file.or(weaker.schema_file),
            color,
            ephemeral: self.ephemeral || weaker.ephemeral,
            skip_git_repo_check: self.skip_git_repo_check || weaker.skip_git_repo_check,
            thread_source: self.thread_source.or(weaker.thread_source),
            cyber_access_program: self.cyber_access_program.or(weaker.cyber_access_program),
        }
    }
}

fn concat<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}

/// Splits lists with commas; a name that exists as it is stays whole.
fn split_images(images: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut split = Vec::new();
    for image in images {
        match image.to_str() {
            Some(list) if list.contains(',') && !image.exists() => {
                split.extend(list.split(',').filter(|name| !name.is_empty()).map(PathBuf::from));
            }
            Some(_) | None => split.push(image),
        }
    }
    split
}

fn spelled(value: &impl ValueEnum) -> Value {
    let name = value.to_possible_value().map(|value| value.get_name().to_owned());
    Value::String(name.unwrap_or_default())
}

fn parse_config_flag(text: &str) -> Result<Override, String> {
    parse_override(text).map_err(|error| with_hint(&error))
}

fn with_hint(error: &ConfigError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"))
}

/// A profile names a file in the configuration directory, and no other.
fn parse_profile(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err("a profile's name has letters, digits, dashes and underscores".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<ExecRequest, clap::Error> {
        let cli = Cli::try_parse_from(std::iter::once("gimlet").chain(line.iter().copied()))?;
        match cli.command {
            Some(Command::Exec(args)) => Ok(args.into_request(cli.settings)),
            other => panic!("not exec: {other:?}"),
        }
    }

    #[test]
    fn the_command_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_sdk_starts_a_thread() {
        let request = parse(&[
            "exec",
            "--experimental-json",
            "--config",
            "features.web=true",
            "--config",
            "k={}",
            "--config",
            "openai_base_url=\"http://127.0.0.1:1/v1\"",
            "--model",
            "gpt-5.5",
            "--thread-source",
            "sdk",
            "--sandbox",
            "workspace-write",
            "--cd",
            "/tmp",
            "--add-dir",
            "/a",
            "--add-dir",
            "/b",
            "--skip-git-repo-check",
            "--output-schema",
            "s.json",
            "--cyber-access-program",
            "p",
            "--config",
            "model_reasoning_effort=\"high\"",
            "--config",
            "sandbox_workspace_write.network_access=true",
            "--config",
            "web_search=\"live\"",
            "--config",
            "approval_policy=\"never\"",
            "--image",
            "a.png",
            "--image",
            "b.png",
        ])
        .unwrap();
        assert!(request.output.json);
        assert_eq!(request.prompt, None);
        assert_eq!(request.images, [PathBuf::from("a.png"), PathBuf::from("b.png")]);
        assert_eq!(request.settings.add_dirs.len(), 2);
        let expected: Table = toml::from_str(
            "openai_base_url = 'http://127.0.0.1:1/v1'\nmodel = 'gpt-5.5'\n\
             sandbox_mode = 'workspace-write'\nmodel_reasoning_effort = 'high'\n\
             web_search = 'live'\napproval_policy = 'never'\nk = {}\nfeatures = {web = true}\n\
             sandbox_workspace_write = {network_access = true}",
        )
        .unwrap();
        assert_eq!(request.settings.overrides(), expected);
    }

    #[test]
    fn the_sdk_resumes_a_thread() {
        let request = parse(&[
            "exec",
            "--experimental-json",
            "--sandbox",
            "read-only",
            "--cd",
            "/tmp",
            "resume",
            "0190-id",
            "--image",
            "a.png",
            "--image",
            "b.png",
        ])
        .unwrap();
        assert_eq!(request.resume, Some(ResumeTarget::Id("0190-id".into())));
        assert_eq!(request.prompt, None);
        assert_eq!(request.images.len(), 2);
        assert!(request.output.json);
        assert_eq!(request.settings.cd.as_deref(), Some(std::path::Path::new("/tmp")));
        assert_eq!(request.settings.sandbox, Some(SandboxArg::ReadOnly));
    }

    #[test]
    fn people_resume_too() {
        let last = |any_directory| Some(ResumeTarget::Last { any_directory });
        let table: [(&[&str], _, Option<&str>); 5] = [
            (&["e", "resume", "--last"], last(false), None),
            (&["e", "resume", "--last", "go on"], last(false), Some("go on")),
            (&["e", "resume", "--last", "--all", "go on"], last(true), Some("go on")),
            (&["e", "resume", "id", "go on"], Some(ResumeTarget::Id("id".into())), Some("go on")),
            (&["e", "--json", "go on"], None, Some("go on")),
        ];
        for (line, target, prompt) in table {
            let request = parse(line).unwrap();
            assert_eq!((request.resume, request.prompt.as_deref()), (target, prompt), "{line:?}");
        }
    }

    #[test]
    fn an_image_does_not_swallow_the_prompt() {
        let request = parse(&["exec", "-i", "a.png,b.png", "look", "--yolo", "--max-turns", "3"]);
        let request = request.unwrap();
        assert_eq!(request.prompt.as_deref(), Some("look"));
        assert_eq!(request.images, [PathBuf::from("a.png"), PathBuf::from("b.png")]);
        let table = request.settings.overrides();
        assert_eq!(table["sandbox_mode"].as_str(), Some("danger-full-access"));
        assert_eq!(table["approval_policy"].as_str(), Some("never"));
        assert_eq!(table["max_steps"].as_integer(), Some(3));
    }

    #[test]
    fn settings_may_stand_before_the_subcommand() {
        let request = parse(&[
            "-m",
            "a",
            "-c",
            "x=1",
            "exec",
            "-c",
            "x=2",
            "-m",
            "b",
            "-",
            "-s",
            "read-only",
        ]);
        let request = request.unwrap();
        assert_eq!(request.prompt.as_deref(), Some("-"));
        let table = request.settings.overrides();
        assert_eq!(table["model"].as_str(), Some("b"));
        assert_eq!(table["x"].as_integer(), Some(2));
    }

    #[test]
    fn wrong_usage_is_told() {
        let table: [(&[&str], &str); 9] = [
            (&["exec", "-c", "model"], "is not KEY=VALUE"),
            (&["exec", "-c", "=1"], "is not KEY=VALUE"),
            (&["exec", "-s", "none"], "read-only"),
            (&["exec", "--max-steps", "0"], "0"),
            (&["exec", "-p", "../x"], "profile"),
            (&["exec", "--driver", "fake"], "--script"),
            (&["exec", "--json", "--events"], "--events"),
            (&["exec", "resume"], "SESSION_ID"),
            (&["exec", "resume", "--last", "a", "b"], "--last"),
        ];
        for (line, part) in table {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
            assert!(error.to_string().contains(part), "{line:?}: {error}");
        }
    }
}
