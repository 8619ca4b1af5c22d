//! A question's answer: what the user allowed or refused, for how long, and with which words.

use ratatui::text::Line;

use crate::frontend::tui::cells::Sheet;
use crate::frontend::tui::cells::frame::{DEEPER, block, clean_line, span};
use crate::frontend::tui::theme::Role;
use crate::frontend::tui::wrap::wrap_with;
use crate::protocol::{Answer, AnswerScope, ApprovalDecision};

/// An answer, with what it is an answer to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerCell {
    /// What was asked, on one line.
    pub about: String,
    /// The answer.
    pub answer: Answer,
    /// How many parts there were to take.
    pub hunks: usize,
}

impl AnswerCell {
    /// Returns its lines.
    pub(crate) fn lines(&self, sheet: Sheet<'_>) -> Vec<Line<'static>> {
        let (glyph, role, word, note) = self.words();
        let line = Line::from(vec![
            span(sheet.theme, role, glyph),
            span(sheet.theme, Role::Dim, format!("{word}: {}", clean_line(&self.about))),
        ]);
        let mut lines = wrap_with(&line, sheet.width, "  ", DEEPER);
        if let Some(note) = note {
            lines.extend(block(sheet, Role::Dim, &format!("you said: {note}"), (DEEPER, DEEPER)));
        }
        lines
    }

    fn words(&self) -> (&'static str, Role, String, Option<&str>) {
        match &self.answer {
            Answer::Approval { decision: ApprovalDecision::Allow, scope, hunks, edited, note } => {
                let what = match (hunks, edited) {
                    (Some(taken), _) => format!("{} of {} taken", taken.len(), self.hunks),
                    (None, Some(_)) => "you changed it".to_owned(),
                    (None, None) => format!("you allowed it {}", scope_word(*scope)),
                };
                ("✓ ", Role::Good, what, note.as_deref())
            }
            Answer::Approval { decision: ApprovalDecision::Deny, note, .. } => {
                ("✗ ", Role::Warn, "you said no".to_owned(), note.as_deref())
            }
            Answer::Approval { decision: ApprovalDecision::Abort, note, .. } => {
                ("✗ ", Role::Warn, "you said no and stopped".to_owned(), note.as_deref())
            }
            Answer::Text { text } => ("✓ ", Role::Good, "you answered".to_owned(), Some(text)),
            Answer::Form { .. } => ("✓ ", Role::Good, "you filled the form".to_owned(), None),
            Answer::Declined { reason } => {
                ("✗ ", Role::Warn, "not answered".to_owned(), Some(reason))
            }
        }
    }
}

fn scope_word(scope: AnswerScope) -> &'static str {
    match scope {
        AnswerScope::Once => "once",
        AnswerScope::Session => "for this session",
        AnswerScope::Project => "in this project",
        AnswerScope::Always => "everywhere, always",
    }
}
