//! The model's plan: a step a line, what is done, what is being done, what is left.

use ratatui::text::Line;

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::{block, clean_line, paragraph, span};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::wrap_with;
use crate::protocol::{PlanStatus, PlanStep};

/// The plan as it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlanCell {
    /// Why it changed.
    pub explanation: Option<String>,
    /// Its steps.
    pub steps: Vec<PlanStep>,
}

impl PlanCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let done = self.steps.iter().filter(|step| step.status == PlanStatus::Completed).count();
        let head = format!("plan  {done} of {}", self.steps.len());
        let mut lines = paragraph(sheet, Role::Dim, &head);
        if let Some(why) = self.explanation.as_deref().filter(|why| !why.trim().is_empty()) {
            lines.extend(paragraph(sheet, Role::Dim, why));
        }
        for step in &self.steps {
            let (glyph, glyph_role, role) = match step.status {
                PlanStatus::Completed => ("✓ ", Role::Good, Role::Dim),
                PlanStatus::InProgress => ("▸ ", Role::Accent, Role::Text),
                PlanStatus::Pending => ("· ", Role::Dim, Role::Text),
            };
            let line = Line::from(vec![
                span(sheet.theme, glyph_role, glyph),
                span(sheet.theme, role, clean_line(&step.step)),
            ]);
            lines.extend(wrap_with(&line, sheet.width, "    ", "      "));
        }
        if self.steps.is_empty() {
            lines.extend(block(sheet, Role::Dim, "no steps", ("    ", "    ")));
        }
        lines
    }
}
