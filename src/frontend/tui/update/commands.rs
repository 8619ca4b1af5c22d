//! Commands: what stands behind a `/` at the beginning of a message.
//!
//! One table for help, completion and running; what does not exist is not in it.

use crate::frontend::tui::cmd::Cmd;
use crate::frontend::tui::composer::VimKeys;
use crate::frontend::tui::model::Model;
use crate::frontend::tui::overlay::{Overlay, Picker, PickerItem, PickerKind, Subject};
use crate::frontend::tui::theme::{Depth, Theme};
use crate::frontend::tui::update::{pages, quit, sending};
use crate::protocol::{
    ApprovalPolicy, ModelName, Op, RestoreDirection, RestoreWhat, SandboxMode, SettingsPatch,
    StopCause, When,
};

/// What the model is asked for `/init`.
const INIT_PROMPT: &str = include_str!("../../../../prompts/init.md");
/// What the model is asked for `/review`.
const REVIEW_PROMPT: &str = include_str!("../../../../prompts/review.md");

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What may follow.
    pub argument: &'static str,
    /// What it does.
    pub about: &'static str,
}

const fn command(name: &'static str, argument: &'static str, about: &'static str) -> Command {
    Command { name, argument, about }
}

/// All commands, in the order of the help.
pub(crate) const COMMANDS: &[Command] = &[
    command("help", "", "keys and commands"),
    command("status", "", "model, policies, tokens, what runs"),
    command("model", "[NAME [EFFORT]]", "choose the model"),
    command("permissions", "", "choose what is asked and what commands can reach"),
    command("diff", "", "what this session changed"),
    command("undo", "", "take back what the last turn did to your files"),
    command("redo", "", "bring back what was undone"),
    command("review", "[WHAT]", "have changes reviewed: the working tree, a branch, a commit"),
    command("init", "", "have AGENTS.md written for this project"),
    command("theme", "", "choose the colours"),
    command("vim", "", "vim's keys in the composer, on or off"),
    command("copy", "", "copy the last answer"),
    command("new", "", "begin another session"),
    command("quit", "", "leave"),
];

/// The modes that Shift-Tab goes through, and that `/permissions` offers.
const MODES: &[(&str, &str, ApprovalPolicy, SandboxMode)] = &[
    (
        "workspace",
        "works in this directory, asks before it leaves the sandbox",
        ApprovalPolicy::OnRequest,
        SandboxMode::WorkspaceWrite,
    ),
    (
        "careful",
        "asks before anything that is not known to only read",
        ApprovalPolicy::Untrusted,
        SandboxMode::WorkspaceWrite,
    ),
    ("plan", "looks and plans, changes nothing", ApprovalPolicy::OnRequest, SandboxMode::ReadOnly),
    (
        "full access",
        "no sandbox: commands can do all that you can",
        ApprovalPolicy::OnRequest,
        SandboxMode::DangerFullAccess,
    ),
];

/// Runs the line behind the slash; `None` when there is no such command.
pub(super) fn run(model: &mut Model, line: &str) -> Option<Vec<Cmd>> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let known = COMMANDS.iter().any(|command| command.name == name);
    if !known {
        // A path at the beginning of a message is no command.
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        if is_word {
            model.composer.set_text(&format!("/{line}"));
            model.say(format!("there is no /{name}; /help lists all"));
            return Some(Vec::new());
        }
        return None;
    }
    Some(match name {
        "help" => open(model, Subject::Help),
        "status" => open(model, Subject::Status),
        "diff" => open(model, Subject::Diff),
        "model" => choose_model(model, rest),
        "permissions" => choose_permissions(model),
        "undo" => restore(model, RestoreDirection::Undo),
        "redo" => restore(model, RestoreDirection::Redo),
        "init" => ask_model(model, INIT_PROMPT.trim_end().to_owned()),
        "review" => ask_model(model, review_prompt(rest)),
        "theme" => choose_theme(model),
        "vim" => toggle_vim(model),
        "copy" => copy(model),
        "new" => renew(model),
        _ => quit(model, StopCause::User),
    })
}

fn open(model: &mut Model, subject: Subject) -> Vec<Cmd> {
    pages::open(model, subject);
    Vec::new()
}

fn choose_model(model: &mut Model, rest: &str) -> Vec<Cmd> {
    if !rest.is_empty() {
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        return set_model(model, name, words.next().map(str::to_owned));
    }
    let current = model.session.model.to_string();
    let mut names = model.facts.models.clone();
    if !names.contains(&current) {
        names.insert(0, current.clone());
    }
    let item =
        |name: String| PickerItem { is_current: name == current, about: String::new(), name };
    let items: Vec<PickerItem> = names.into_iter().map(item).collect();
    open_picker(model, PickerKind::Model, items);
    Vec::new()
}

fn choose_permissions(model: &mut Model) -> Vec<Cmd> {
    let now = (model.session.approval, model.session.sandbox);
    let items = MODES
        .iter()
        .map(|(name, about, approval, sandbox)| PickerItem {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
            is_current: now == (*approval, *sandbox),
        })
        .collect();
    open_picker(model, PickerKind::Permissions, items);
    Vec::new()
}

fn open_picker(model: &mut Model, kind: PickerKind, items: Vec<PickerItem>) {
    let at = items.iter().position(|item| item.is_current).unwrap_or(0);
    model.overlays.push(Overlay::Picker(Picker { kind, items, at }));
}

/// Does what was chosen.
pub(super) fn choose(model: &mut Model, kind: PickerKind, at: usize, name: &str) -> Vec<Cmd> {
    match kind {
        PickerKind::Model => set_model(model, name.to_owned(), None),
        PickerKind::Permissions => set_mode(model, at),
        PickerKind::Theme => set_theme(model, name),
    }
}

fn set_model(model: &mut Model, name: String, effort: Option<String>) -> Vec<Cmd> {
    if is_busy(model) {
        return Vec::new();
    }
    model.session.model = ModelName::from(name);
    if effort.is_some() {
        model.session.effort.clone_from(&effort);
    }
    model.say(format!("the next turn goes to {}", model.session.model));
    let settings = SettingsPatch {
        model: Some(model.session.model.clone()),
        effort,
        ..SettingsPatch::default()
    };
    vec![Cmd::Submit(Op::SetSettings { settings })]
}

fn set_mode(model: &mut Model, at: usize) -> Vec<Cmd> {
    let Some((name, about, approval, sandbox)) = MODES.get(at).copied() else { return Vec::new() };
    if is_busy(model) {
        return Vec::new();
    }
    model.session.approval = approval;
    model.session.sandbox = sandbox;
    model.say(format!("{name}: {about}"));
    let settings = SettingsPatch {
        approval: Some(approval),
        sandbox: Some(sandbox),
        ..SettingsPatch::default()
    };
    vec![Cmd::Submit(Op::SetSettings { settings })]
}

/// Goes on to the next mode. Full access is never one key away.
pub(super) fn cycle_mode(model: &mut Model) -> Vec<Cmd> {
    let now = (model.session.approval, model.session.sandbox);
    let safe = MODES.len() - 1;
    let at = MODES.iter().position(|(_, _, approval, sandbox)| now == (*approval, *sandbox));
    set_mode(model, at.map_or(0, |at| (at + 1) % safe))
}

/// Returns the name of the mode that holds, where it has one.
pub(crate) fn mode_name(approval: ApprovalPolicy, sandbox: SandboxMode) -> Option<&'static str> {
    MODES.iter().find(|(_, _, a, s)| (*a, *s) == (approval, sandbox)).map(|(name, ..)| *name)
}

fn choose_theme(model: &mut Model) -> Vec<Cmd> {
    let now = model.theme.palette;
    let items = Theme::NAMES
        .iter()
        .map(|(name, about)| PickerItem {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
            is_current: Theme::named(name).is_some_and(|theme| theme.palette == now),
        })
        .collect();
    open_picker(model, PickerKind::Theme, items);
    Vec::new()
}

/// Takes a theme for what is drawn from now on; what has scrolled away stays as it is.
fn set_theme(model: &mut Model, name: &str) -> Vec<Cmd> {
    let Some(theme) = Theme::named(name) else { return Vec::new() };
    // The plain theme follows the terminal's background, the others bring their own.
    let shade = if name == "plain" { model.theme.shade } else { theme.shade };
    model.theme = Theme { depth: model.theme.depth, shade, ..theme };
    if model.theme.depth != Depth::True && name != "plain" {
        model.say(format!("{name} needs a terminal with all colours (COLORTERM=truecolor)"));
    }
    Vec::new()
}

fn toggle_vim(model: &mut Model) -> Vec<Cmd> {
    let vim = if model.has_vim { VimKeys::Off } else { VimKeys::On };
    model.has_vim = !model.has_vim;
    model.composer.set_vim(vim);
    model.say(if model.has_vim { "vim's keys are on" } else { "vim's keys are off" });
    Vec::new()
}

/// Settings change between turns.
fn is_busy(model: &mut Model) -> bool {
    if model.turn.is_some() {
        model.say("this changes between turns: wait for the end, or Esc stops");
    }
    model.turn.is_some()
}

fn restore(model: &mut Model, direction: RestoreDirection) -> Vec<Cmd> {
    if model.turn.is_some() {
        model.say("files are taken back between turns: wait for the end, or Esc stops");
        return Vec::new();
    }
    let turn = match direction {
        RestoreDirection::Undo => model.session.changed_turns.last(),
        RestoreDirection::Redo => model.session.undone_turns.last(),
    };
    let Some(turn) = turn.copied() else {
        model.say(match direction {
            RestoreDirection::Undo => "there is nothing to undo",
            RestoreDirection::Redo => "there is nothing to redo",
        });
        return Vec::new();
    };
    vec![Cmd::Submit(Op::Restore { turn, what: RestoreWhat::Files, direction })]
}

fn ask_model(model: &mut Model, text: String) -> Vec<Cmd> {
    if model.turn.is_some() {
        model.say("queued");
    }
    vec![Cmd::Submit(sending::user_turn(text, When::Queued))]
}

fn review_prompt(what: &str) -> String {
    let what = if what.is_empty() { "the uncommitted changes of the working tree" } else { what };
    REVIEW_PROMPT.trim_end().replace("{what}", what)
}

fn copy(model: &mut Model) -> Vec<Cmd> {
    let Some(text) = model.session.last_message.clone() else {
        model.say("there is no answer yet");
        return Vec::new();
    };
    model.say("the last answer was handed to the terminal's clipboard");
    vec![Cmd::Copy(text)]
}

fn renew(model: &mut Model) -> Vec<Cmd> {
    if is_busy(model) {
        return Vec::new();
    }
    vec![Cmd::NewSession]
}
