//! A plan in plain words, for `gimlet sandbox --explain`. Pure.
//!
//! Says what the helper will do and nothing it will not: it reads the same plan. Called by
//! `runner.rs`.

use std::path::PathBuf;

use crate::sandbox::limits::{ResourceLimits, show_bytes};
use crate::sandbox::linux::overlay::{Overlay, OverlayKind};
use crate::sandbox::linux::plan::{Confinement, Namespaces, SandboxPlan, View};
use crate::text::ansi::visible_line;

/// Returns a plan as lines.
pub(crate) fn explain_plan(plan: &SandboxPlan) -> Vec<String> {
    let mut lines = match &plan.confinement {
        None => vec!["sandbox   none: nothing confines the command".to_owned()],
        Some(confinement) => explain_confinement(confinement),
    };
    lines.push(format!("runs in   {}", visible_line(&plan.cwd.display().to_string())));
    let names: Vec<&str> = plan.env.iter().map(|(name, _)| name.as_str()).collect();
    lines.push(format!("variables {}", visible_line(&names.join(" "))));
    lines
}

fn explain_confinement(confinement: &Confinement) -> Vec<String> {
    let mut layers = Vec::new();
    match confinement.view.as_ref().map(|view| view.namespaces) {
        Some(Namespaces::OfUser) => layers.push("namespaces of its own, with a user namespace"),
        Some(Namespaces::OfRoot) => layers.push("namespaces of its own, made by root"),
        None => {}
    }
    if confinement.landlock {
        layers.push("Landlock");
    }
    layers.push("a system call filter");
    let mut lines = vec![format!("sandbox   {}", layers.join(", "))];
    match &confinement.view {
        Some(view) => lines.extend(explain_view(view)),
        None => {
            lines.push(format!("writes    {}", list(&confinement.write)));
            if !confinement.list.is_empty() {
                lines.push("reads     all but the hidden paths".to_owned());
            }
        }
    }
    lines.push(match (confinement.network, &confinement.view) {
        (true, _) => "network   open".to_owned(),
        (false, Some(_)) if confinement.proxied => {
            "network   the allowed hosts, through a proxy on a loopback of its own".to_owned()
        }
        (false, Some(_)) => "network   closed, but for a loopback of its own".to_owned(),
        (false, None) => "network   closed".to_owned(),
    });
    if confinement.keep_mode_override {
        lines.push(
            "powers    root's over file modes, as the workspace is another user's".to_owned(),
        );
    }
    lines.push(format!("limits    {}", explain_limits(&confinement.limits)));
    lines
}

fn explain_view(view: &View) -> Vec<String> {
    let all = if view.all_writable { "writable" } else { "read-only" };
    let mut lines = vec![format!("/         {all}, but for:")];
    lines.extend(view.overlays.iter().map(explain_overlay));
    lines.push("  /dev, /proc  its own".to_owned());
    lines
}

fn explain_overlay(overlay: &Overlay) -> String {
    let what = match &overlay.kind {
        OverlayKind::Writable => "writable",
        OverlayKind::Exposed | OverlayKind::Protected => "read-only",
        OverlayKind::Pinned => "writable, not to be moved",
        OverlayKind::Hidden => "hidden",
        OverlayKind::Sealed => "empty, read-only",
        OverlayKind::From(_) => "its own, writable",
    };
    format!("  {}  {what}", visible_line(&overlay.at.display().to_string()))
}

fn explain_limits(limits: &ResourceLimits) -> String {
    let number = |bound: u64| bound.to_string();
    let said: Vec<String> = [
        ("memory", limits.memory_bytes_max.map(show_bytes)),
        ("processes", limits.processes_max.map(number)),
        ("open files", limits.open_files_max.map(number)),
        ("disk", limits.disk_bytes_max.map(show_bytes)),
    ]
    .into_iter()
    .filter_map(|(name, bound)| Some(format!("{name} {}", bound?)))
    .collect();
    if said.is_empty() { "none".to_owned() } else { said.join(", ") }
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> =
        paths.iter().map(|path| visible_line(&path.display().to_string()).into_owned()).collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}
