//! Progress for a person: what happens, on stderr, and the final message, on stdout.
//!
//! One event in, text for both streams out; no IO, so that it is tested as data. Whatever
//! comes from outside passes `visible` first: no model and no file name may move the cursor.
//! Called by `exec/mod.rs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::frontend::exec::output_tail::OutputTail;
use crate::frontend::exec::thread_events::failure_message;
use crate::protocol::{
    CallId, CallOutcome, ChangeKind, Effect, Event, EventMsg, FileChange, LimitKind, McpStatus,
    OutputStream, PlanStatus, PlanStep, SandboxLevel, SandboxMode, TokenUsage, ToolCall, ToolName,
    ToolOutput, TurnOutcome,
};
use crate::text::ansi::{visible, visible_line};

/// Characters of one shown line; the rest is in the session file.
const LINE_CHARS_MAX: usize = 160;

/// Files of one call that are named; `gimlet changes` names them all.
const CHANGES_SHOWN: usize = 12;

/// What a colour means; the terminal's own palette decides how it looks.
#[derive(Debug, Clone, Copy)]
enum Tone {
    Dim,
    Accent,
    Good,
    Warn,
    Bad,
}

/// What one event makes visible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    /// For stdout: the final message.
    pub(crate) stdout: String,
    /// For stderr: progress.
    pub(crate) stderr: String,
}

/// A call that was announced by a line.
#[derive(Debug)]
struct Announced {
    id: CallId,
    line: String,
    output: OutputTail,
}

/// How a call ended.
struct CallEnd<'a> {
    tool: &'a ToolName,
    outcome: CallOutcome,
    output: &'a ToolOutput,
    code: Option<&'a str>,
    duration_ms: u64,
}

/// Turns events into text.
#[derive(Debug)]
pub(crate) struct HumanText {
    colored: bool,
    cwd: PathBuf,
    version: String,
    level: Option<SandboxLevel>,
    /// A message that may turn out to be the last one, which belongs on stdout.
    held: Option<String>,
    /// Calls that were announced in this turn.
    announced: Vec<Announced>,
    /// The announced call whose line was shown last.
    under: Option<CallId>,
    hint: Option<String>,
    /// The command that goes on where a run was stopped.
    go_on: Option<&'static str>,
    /// The header is shown once, also when an answer is asked for again.
    header_shown: bool,
    /// What was shown last ended in a blank line.
    after_blank: bool,
    /// This turn changed files.
    files_changed: bool,
}

impl HumanText {
    /// Returns the text mode; `colored` speaks of stderr, stdout is always plain.
    pub(crate) fn new(colored: bool, go_on: Option<&'static str>) -> Self {
        Self {
            colored,
            cwd: PathBuf::new(),
            version: String::new(),
            level: None,
            held: None,
            announced: Vec::new(),
            under: None,
            hint: None,
            go_on,
            header_shown: false,
            after_blank: true,
            files_changed: false,
        }
    }

    /// Returns what an event makes visible.
    pub(crate) fn render(&mut self, event: &Event) -> Shown {
        let shown = self.render_event(event);
        if !shown.stderr.is_empty() {
            self.after_blank = shown.stderr.ends_with("\n\n");
        }
        shown
    }

    /// Returns the line that says why the run failed, and its hint.
    pub(crate) fn failure(&self, message: &str, hint: Option<&str>) -> String {
        let mut text = format!("{} {}\n", self.paint(Tone::Bad, "error:"), indented(message));
        if let Some(hint) = hint {
            let _ = writeln!(text, "  {} {}", self.paint(Tone::Dim, "hint:"), indented(hint));
        }
        text
    }

    /// Returns how to go on after a run was stopped, when something is kept of it.
    pub(crate) fn go_on_hint(&self) -> Option<String> {
        self.go_on.map(|command| format!("it goes on with {command}"))
    }

    /// Returns what to do about an end whose error brought no hint of its own.
    pub(crate) fn hint_of(&self, outcome: &TurnOutcome) -> Option<String> {
        match outcome {
            TurnOutcome::LimitReached { limit: LimitKind::Steps } => {
                self.go_on.map(|command| format!("raise --max-steps, or go on with {command}"))
            }
            TurnOutcome::Failed { .. }
            | TurnOutcome::Interrupted { .. }
            | TurnOutcome::Denied { .. }
            | TurnOutcome::LimitReached { .. } => self.go_on_hint(),
            TurnOutcome::Completed => None,
        }
    }

    fn render_event(&mut self, event: &Event) -> Shown {
        if let EventMsg::TurnEnded { outcome, usage, duration_ms, steps, last_message } = &event.msg
        {
            let mut totals = render_totals(*usage, *steps, *duration_ms);
            // Where nothing is kept of a run there is nothing to undo it from.
            if std::mem::take(&mut self.files_changed) && self.go_on.is_some() {
                totals.push_str(" · `gimlet undo` takes its file changes back");
            }
            return self.end(outcome, last_message.as_deref(), &totals);
        }
        Shown { stderr: self.progress(event), stdout: String::new() }
    }

    fn progress(&mut self, event: &Event) -> String {
        let call_id = event.call_id.as_ref();
        match &event.msg {
            EventMsg::SessionStarted { gimlet_version, cwd, .. } => {
                self.version.clone_from(gimlet_version);
                self.cwd.clone_from(cwd);
            }
            EventMsg::SandboxLevel { level, .. } => self.level = Some(*level),
            EventMsg::Error { hint, .. } => self.hint.clone_from(hint),
            EventMsg::ToolCallDelta { stream: OutputStream::Output, text } => {
                if let Some(call) = self.announced_mut(call_id) {
                    call.output.push(text);
                }
            }
            EventMsg::TurnStarted { model, sandbox, .. } if !self.header_shown => {
                self.header_shown = true;
                return self.header(model.as_str(), sandbox.mode);
            }
            EventMsg::ItemCompleted { item } => {
                let text = item.assistant_message().filter(|text| !text.is_empty());
                return text.map(|text| self.hold(text)).unwrap_or_default();
            }
            EventMsg::ToolCallBegin { effect, call, .. } => return self.call(effect, call),
            EventMsg::ToolCallEnd { tool, outcome, output, duration_ms, code } => {
                let (outcome, duration_ms, code) = (*outcome, *duration_ms, code.as_deref());
                let end = CallEnd { tool, outcome, output, code, duration_ms };
                return self.flush_held() + &self.call_end(call_id, &end);
            }
            EventMsg::FilesChanged { changes, .. } => return self.change_lines(changes),
            EventMsg::ProcessStarted { process, .. } => {
                return self.process_line(&format!("command {process} runs on"));
            }
            EventMsg::ProcessEnded { process, exit_code } => {
                let ended = |code| format!("ended with exit code {code}");
                let how = exit_code.map_or_else(|| "was stopped".to_owned(), ended);
                return self.process_line(&format!("command {process} {how}"));
            }
            EventMsg::PlanUpdated { steps, .. } => {
                return self.flush_held() + &self.plan_line(steps);
            }
            EventMsg::McpServerStatus { server, status: McpStatus::Failed, error } => {
                let cause = error.as_deref().unwrap_or("no cause is known");
                return self.warning(&format!("MCP server {server} cannot be used: {cause}"), None);
            }
            EventMsg::Warning { message, hint, .. } => {
                return self.warning(message, hint.as_deref());
            }
            EventMsg::TurnStarted { .. }
            | EventMsg::Steered { .. }
            | EventMsg::TurnEnded { .. }
            | EventMsg::RequestStarted { .. }
            | EventMsg::ItemDelta { .. }
            | EventMsg::ToolCallDelta { stream: OutputStream::Progress, .. }
            | EventMsg::AskOpened { .. }
            | EventMsg::AskAnswered { .. }
            | EventMsg::GrantApplied { .. }
            | EventMsg::SnapshotTaken { .. }
            | EventMsg::TokenCount { .. }
            | EventMsg::Compacted { .. }
            | EventMsg::Restored { .. }
            | EventMsg::Repaired { .. }
            | EventMsg::QueueChanged { .. }
            | EventMsg::NetworkAttempt { .. }
            | EventMsg::McpServerStatus { .. }
            | EventMsg::HookRan { .. }
            | EventMsg::AgentSpawned { .. }
            | EventMsg::AgentEnded { .. }
            | EventMsg::LimitReached { .. } => {}
        }
        String::new()
    }

    fn header(&self, model: &str, mode: SandboxMode) -> String {
        let mode = match (mode, self.level) {
            (SandboxMode::DangerFullAccess, _) => "no sandbox".to_owned(),
            (SandboxMode::ReadOnly, level) => format!("read-only{}", level_note(level)),
            (SandboxMode::WorkspaceWrite, level) => format!("workspace-write{}", level_note(level)),
        };
        let cwd = self.cwd.to_string_lossy();
        let line =
            format!("gimlet {} · {} · {mode} · {}", self.version, one_line(model), one_line(&cwd));
        format!("{}\n\n", self.paint(Tone::Dim, &line))
    }

    /// Keeps a message back until it is known whether it is the last one.
    fn hold(&mut self, text: String) -> String {
        let earlier = self.flush_held();
        self.held = Some(text);
        earlier
    }

    fn call(&mut self, effect: &Effect, call: &ToolCall) -> String {
        let text = self.flush_held();
        // A call that is run again outside the sandbox begins twice.
        if let Some(again) = self.announced_mut(Some(&call.call_id)) {
            again.output = OutputTail::default();
            return text;
        }
        let Some(line) = self.call_line(effect, &call.name) else { return text };
        let text = text + &line;
        let (id, output) = (call.call_id.clone(), OutputTail::default());
        self.under = Some(id.clone());
        self.announced.push(Announced { id, line, output });
        text
    }

    fn announced_mut(&mut self, id: Option<&CallId>) -> Option<&mut Announced> {
        self.announced.iter_mut().find(|call| Some(&call.id) == id)
    }

    /// Returns the message that turned out not to be the last, two columns in.
    fn flush_held(&mut self) -> String {
        let Some(text) = self.held.take() else { return String::new() };
        let mut lines = String::from(if self.after_blank { "" } else { "\n" });
        lines.extend(visible(text.trim_end()).lines().map(|line| format!("  {line}\n")));
        lines.push('\n');
        lines
    }

    fn call_line(&self, effect: &Effect, tool: &ToolName) -> Option<String> {
        let line = match effect {
            // `FilesChanged` and `PlanUpdated` say it better.
            Effect::Write { .. } | Effect::None => return None,
            Effect::Run { command, .. } => {
                format!("{} {}", self.paint(Tone::Accent, "$"), first_line(&command.shown()))
            }
            Effect::Read { paths } => {
                let paths: Vec<String> = paths.iter().map(|path| self.short(path)).collect();
                self.paint(
                    Tone::Dim,
                    &format!("{} {}", one_line(tool.as_str()), one_line(&paths.join(" "))),
                )
            }
            Effect::Input { process } => format!("input to command {process}"),
            Effect::Fetch { url } => format!("fetch {}", one_line(url)),
            Effect::Remote { server, tool, .. } => {
                format!("{} {}", one_line(server), one_line(tool))
            }
            Effect::Agent { role } => format!("agent {}", one_line(role)),
        };
        Some(format!("  {line}\n"))
    }

    fn call_end(&mut self, id: Option<&CallId>, end: &CallEnd<'_>) -> String {
        let place = self.announced.iter().position(|call| Some(&call.id) == id);
        let call = place.map(|place| self.announced.remove(place));
        let Some((tone, word)) = end.word() else { return String::new() };
        let mut text = String::new();
        let name = match &call {
            // Another call has been announced since, so it is said again whose end this is.
            Some(call) if self.under != Some(call.id.clone()) => {
                text.push_str(&call.line);
                self.under = Some(call.id.clone());
                String::new()
            }
            Some(_) => String::new(),
            None => format!("{} ", one_line(end.tool.as_str())),
        };
        let own = call.map(|call| call.output).unwrap_or_default();
        // Without an exit code nothing ran to its end, and the reason is in the result alone.
        let tail = match end.output.exit_code {
            None if own == OutputTail::default() => end.output.joined_text().into(),
            Some(_) | None => own,
        };
        text.push_str(&self.last_lines(&tail, end.outcome));
        let time = seconds(end.duration_ms);
        let _ = writeln!(text, "    {name}{} · {time}", self.paint(tone, &word));
        text
    }

    /// Returns the end of an output; of a command that went well, only a short one.
    fn last_lines(&self, tail: &OutputTail, outcome: CallOutcome) -> String {
        let (hidden, lines) = tail.lines();
        let mut text = String::new();
        if hidden > 0 {
            // The output of what went well is only counted, unless it is short.
            let is_folded = outcome == CallOutcome::Completed;
            let note = match (is_folded, hidden) {
                (true, _) => format!("… {} lines", hidden + lines.len()),
                (false, 1) => "… 1 line more".to_owned(),
                (false, _) => format!("… {hidden} lines more"),
            };
            let _ = writeln!(text, "    {}", self.paint(Tone::Dim, &note));
            if is_folded {
                return text;
            }
        }
        for line in lines {
            let is_cut = line.chars().nth(LINE_CHARS_MAX).is_some();
            let mut line: String = line.chars().take(LINE_CHARS_MAX).collect();
            if is_cut {
                line.push('…');
            }
            let line = if line.is_empty() { line } else { self.paint(Tone::Dim, &line) };
            let _ = writeln!(text, "{}", format!("    {line}").trim_end());
        }
        text
    }

    /// Returns a line per file; of a whole build's worth only the first few.
    fn change_lines(&mut self, changes: &[FileChange]) -> String {
        self.files_changed = true;
        let mut text: String =
            changes.iter().take(CHANGES_SHOWN).map(|change| self.change_line(change)).collect();
        if let more @ 1.. = changes.len().saturating_sub(CHANGES_SHOWN) {
            let _ = writeln!(text, "  {} {more} more files", self.paint(Tone::Accent, "±"));
        }
        text
    }

    fn change_line(&self, change: &FileChange) -> String {
        let count = |sign: char, header: &str| {
            let counts = |line: &&str| line.starts_with(sign) && !line.starts_with(header);
            change.diff.lines().filter(counts).count()
        };
        let (added, removed) = (count('+', "+++ "), count('-', "--- "));
        let moved = change.move_to.as_deref().map(|to| format!(" → {}", self.short(to)));
        let kind = match change.kind {
            ChangeKind::Add => "  new",
            ChangeKind::Delete => "  deleted",
            ChangeKind::Update => "",
        };
        format!(
            "  {} {}{}{kind}  {} {}\n",
            self.paint(Tone::Accent, "±"),
            self.short(&change.path),
            moved.unwrap_or_default(),
            self.paint(Tone::Good, &format!("+{added}")),
            self.paint(Tone::Bad, &format!("−{removed}")),
        )
    }

    fn plan_line(&self, steps: &[PlanStep]) -> String {
        let mut line = String::from("  plan");
        for step in steps {
            let (tone, glyph) = match step.status {
                PlanStatus::Completed => (Tone::Good, "✓"),
                PlanStatus::InProgress => (Tone::Accent, "▸"),
                PlanStatus::Pending => (Tone::Dim, "·"),
            };
            let _ = write!(line, "  {} {}", self.paint(tone, glyph), one_line(&step.step));
        }
        line.push('\n');
        line
    }

    /// Tells of a command that outlives its call.
    fn process_line(&mut self, text: &str) -> String {
        self.flush_held() + &format!("  {}\n", self.paint(Tone::Dim, text))
    }

    fn warning(&mut self, message: &str, hint: Option<&str>) -> String {
        let mut text = self.flush_held();
        let _ = writeln!(text, "  {} {}", self.paint(Tone::Warn, "!"), indented(message));
        if let Some(hint) = hint {
            let _ = writeln!(text, "    {}", self.paint(Tone::Dim, &indented(hint)));
        }
        text
    }

    fn end(&mut self, outcome: &TurnOutcome, last_message: Option<&str>, totals: &str) -> Shown {
        self.announced.clear();
        let mut shown = Shown::default();
        let failure = failure_message(outcome);
        if failure.is_some() {
            shown.stderr = self.flush_held();
            self.after_blank |= !shown.stderr.is_empty();
        }
        let before = if self.after_blank { "" } else { "\n" };
        shown.stderr.push_str(&format!("{before}{}\n\n", self.paint(Tone::Dim, totals)));
        if let Some(message) = failure {
            let hint = self.hint.take().or_else(|| self.hint_of(outcome));
            // The error comes last, where the eye is.
            shown.stderr.push_str(&self.failure(&message, hint.as_deref()));
            return shown;
        }
        let message = last_message.map(str::to_owned).or(self.held.take()).unwrap_or_default();
        self.held = None;
        let message = visible(message.trim_end());
        if !message.is_empty() {
            shown.stdout = format!("{message}\n");
        }
        shown
    }

    /// Returns a path as the user thinks of it: from the session's directory on.
    fn short(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.cwd).unwrap_or(path);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        one_line(&below.to_string_lossy())
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colored {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Dim => "2",
            Tone::Accent => "36",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

impl CallEnd<'_> {
    /// Returns the word for the end; `None` when there is nothing to say.
    fn word(&self) -> Option<(Tone, String)> {
        let by_sandbox = self.code == Some("sandbox_denied");
        Some(match (self.outcome, self.output.exit_code) {
            (CallOutcome::Completed, None) => return None,
            (CallOutcome::Completed, Some(_)) => (Tone::Good, "ok".to_owned()),
            (CallOutcome::Failed, Some(code)) if by_sandbox => {
                (Tone::Bad, format!("exit {code}, stopped by the sandbox"))
            }
            (CallOutcome::Failed, Some(code)) => (Tone::Bad, format!("exit {code}")),
            (CallOutcome::Failed, None) => (Tone::Bad, "failed".to_owned()),
            (CallOutcome::Declined, _) => (Tone::Warn, "declined".to_owned()),
            (CallOutcome::TimedOut, _) => (Tone::Bad, "timed out".to_owned()),
            (CallOutcome::Interrupted, _) => (Tone::Warn, "interrupted".to_owned()),
        })
    }
}

fn render_totals(usage: TokenUsage, steps: u32, duration_ms: u64) -> String {
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let requests = if steps == 1 { "request" } else { "requests" };
    format!("{steps} {requests} · {} · {} tokens", seconds(duration_ms), thousands(tokens))
}

fn level_note(level: Option<SandboxLevel>) -> &'static str {
    match level {
        Some(SandboxLevel::Full) | None => "",
        Some(SandboxLevel::Reduced) => " (reduced sandbox)",
        Some(SandboxLevel::None) => " (no sandbox here)",
    }
}

/// Returns the first line of a script, and how many there are.
fn first_line(script: &str) -> String {
    let more = script.trim_end().lines().count().saturating_sub(1);
    let first = one_line(script.trim().lines().next().unwrap_or_default());
    match more {
        0 => first,
        1 => format!("{first} … 1 line more"),
        more => format!("{first} … {more} lines more"),
    }
}

/// Returns a text whose further lines cannot pass for lines of ours.
fn indented(text: &str) -> String {
    visible(text.trim_end()).replace('\n', "\n      ")
}

/// Returns a text that takes one line at most.
fn one_line(text: &str) -> String {
    let text = visible_line(text);
    if text.chars().count() <= LINE_CHARS_MAX {
        return text.into_owned();
    }
    let mut cut: String = text.chars().take(LINE_CHARS_MAX).collect();
    cut.push('…');
    cut
}

fn seconds(duration_ms: u64) -> String {
    format!("{}.{}s", duration_ms / 1000, duration_ms % 1000 / 100)
}

fn thousands(count: u64) -> String {
    if count < 1000 {
        return count.to_string();
    }
    format!("{}.{}k", count / 1000, count % 1000 / 100)
}
