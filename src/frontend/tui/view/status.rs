//! The status line: what answers, what is asked, what is confined, where, how full.

use ratatui::text::Line;

use crate::frontend::tui::cells::frame::{clean_line, short_number, span};
use crate::frontend::tui::model::{Facts, Model};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::view::live::one_row;
use crate::frontend::tui::wrap::width;
use crate::protocol::{ApprovalPolicy, SandboxLevel, SandboxMode};

/// Returns the status line. Parts that have no room are left out, the least important first.
pub(super) fn line(model: &Model) -> Line<'static> {
    let session = &model.session;
    let effort = session.effort.as_deref().map(|e| format!(" {e}")).unwrap_or_default();
    let mut place = place(&model.facts);
    if let Some(branch) = &model.facts.branch {
        place.push_str(&format!(" {}", clean_line(branch)));
    }
    let is_open = session.sandbox == SandboxMode::DangerFullAccess
        || session.level == Some(SandboxLevel::None);
    // With its rank: what goes last when there is no room.
    let mut parts = vec![
        (0, Role::Dim, clean_line(&format!("{}{effort}", session.model))),
        (1, Role::Dim, approval_word(session.approval).to_owned()),
        (
            0,
            if is_open { Role::Warn } else { Role::Dim },
            sandbox_word(session.sandbox, session.level).to_owned(),
        ),
        (2, Role::Dim, place),
    ];
    if let Some(context) = context_word(model) {
        parts.push((1, Role::Dim, context));
    }
    if let Some(vim) = model.composer.vim_state() {
        parts.push((1, Role::Accent, vim));
    }
    while parts.len() > 1 && columns(&parts) > usize::from(model.size.width) {
        let least = parts.iter().enumerate().max_by_key(|(_, (rank, ..))| *rank);
        let at = least.map_or(0, |(at, _)| at);
        parts.remove(at);
    }
    let mut spans = Vec::new();
    for (_, role, text) in parts {
        if !spans.is_empty() {
            spans.push(span(model.theme, Role::Dim, " · "));
        }
        spans.push(span(model.theme, role, text));
    }
    one_row(model, spans)
}

fn columns(parts: &[(u8, Role, String)]) -> usize {
    parts.iter().map(|(_, _, text)| width(text) + 3).sum::<usize>().saturating_sub(3)
}

fn context_word(model: &Model) -> Option<String> {
    let window = model.session.context_window.filter(|window| *window > 0)?;
    let used = model.session.context_tokens.saturating_mul(100) / window;
    Some(format!("{used}% of {}", short_number(window)))
}

/// Returns when the user is asked, in a word.
pub(crate) fn approval_word(approval: ApprovalPolicy) -> &'static str {
    match approval {
        ApprovalPolicy::Untrusted => "asks first",
        ApprovalPolicy::OnRequest => "asks",
        ApprovalPolicy::OnFailure => "asks after a refusal",
        ApprovalPolicy::Never => "never asks",
    }
}

/// Returns what commands can reach, in a word.
pub(crate) fn sandbox_word(mode: SandboxMode, level: Option<SandboxLevel>) -> &'static str {
    match (mode, level) {
        (SandboxMode::DangerFullAccess, _) => "no sandbox",
        (_, Some(SandboxLevel::None)) => "not confined here",
        (SandboxMode::ReadOnly, _) => "read-only",
        (SandboxMode::WorkspaceWrite, Some(SandboxLevel::Reduced)) => "sandboxed, reduced",
        (SandboxMode::WorkspaceWrite, _) => "sandboxed",
    }
}

/// Returns the session's directory as people write it.
pub(crate) fn place(facts: &Facts) -> String {
    let below = facts.cwd.strip_prefix(&facts.home);
    let shown = match below {
        Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Ok(below) if facts.home.as_os_str().len() > 1 => format!("~/{}", below.display()),
        Ok(_) | Err(_) => facts.cwd.display().to_string(),
    };
    clean_line(&shown)
}
