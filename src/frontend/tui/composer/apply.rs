//! What each action does to the message.
//!
//! One function routes by group, each group is one function. Knows actions, not keys. The
//! screen's `update` calls `apply`; what it answers `Ignored` to is someone else's.

use crate::frontend::tui::composer::graphemes::{self, back_over, in_word, over};
use crate::frontend::tui::composer::history::Search;
use crate::frontend::tui::composer::kill::Way;
use crate::frontend::tui::composer::state::{Composer, Last, Outcome, TEXT_BYTES_MAX};
use crate::frontend::tui::composer::tokens::Token;
use crate::frontend::tui::composer::undo::Run;
use crate::frontend::tui::keymap::Action;

impl Composer {
    /// Does an action.
    pub(crate) fn apply(&mut self, action: Action) -> Outcome {
        if let Some(outcome) = self.apply_to_search(action) {
            return outcome;
        }
        let last = std::mem::take(&mut self.last);
        let goal = self.goal.take();
        let outcome = self
            .go(action)
            .or_else(|| self.go_by_rows(action, goal))
            .or_else(|| self.delete(action))
            .or_else(|| self.cut(action, &last))
            .or_else(|| self.other(action, &last))
            .unwrap_or(Outcome::Ignored);
        if outcome == Outcome::Ignored {
            (self.last, self.goal) = (last, goal);
        } else {
            self.settle();
        }
        outcome
    }

    /// Motions within the text.
    fn go(&mut self, action: Action) -> Option<Outcome> {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let to = match action {
            // Where nothing runs that could go to the background, Ctrl-B is readline's.
            Action::Left | Action::Background => graphemes::previous(text, at),
            Action::Right => graphemes::next(text, at),
            Action::WordLeft => back_over(text, at, |c| !in_word(c), in_word),
            Action::WordRight => over(text, at, |c| !in_word(c), in_word),
            Action::LineStart => graphemes::line_start(text, at),
            Action::LineEnd => graphemes::line_end(text, at),
            Action::TextStart => 0,
            Action::TextEnd => text.len(),
            _ => return None,
        };
        Some(moved(self.buffer.move_to(to)))
    }

    /// Up and down by rows of the screen, and beyond them through earlier messages.
    fn go_by_rows(&mut self, action: Action, goal: Option<usize>) -> Option<Outcome> {
        if !matches!(action, Action::Up | Action::Down) {
            return None;
        }
        let layout = self.layout(self.width());
        let at = self.buffer.cursor();
        let (rows, index) = layout.row_of(at);
        let own = *rows.get(index)?;
        let goal = goal.unwrap_or_else(|| layout.column(own, at));
        let row = match action {
            Action::Up => layout.above(at, 1),
            _ => layout.below(at, 1),
        };
        if let Some(row) = row.first() {
            let to = layout.at_column(*row, goal);
            self.goal = Some(goal);
            return Some(moved(self.buffer.move_to(to)));
        }
        let now = self.buffer.text();
        let message = match action {
            Action::Up => self.history.older(now),
            _ => self.history.newer(now),
        };
        Some(message.map_or(Outcome::Nothing, |message| self.put_whole(&message)))
    }

    /// Deleting one character.
    fn delete(&mut self, action: Action) -> Option<Outcome> {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let range = match action {
            Action::DeleteLeft => graphemes::previous(text, at)..at,
            Action::DeleteRight => at..graphemes::next(text, at),
            _ => return None,
        };
        Some(edited(self.buffer.replace(range, "", Run::Erasing)))
    }

    /// Cutting into the kill ring.
    fn cut(&mut self, action: Action, last: &Last) -> Option<Outcome> {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let (range, way) = match action {
            Action::KillWordLeft => (back_over(text, at, |c| !in_word(c), in_word)..at, Way::Left),
            Action::KillWordRight => (at..over(text, at, |c| !in_word(c), in_word), Way::Right),
            Action::KillArgumentLeft => {
                (back_over(text, at, char::is_whitespace, |c| !c.is_whitespace())..at, Way::Left)
            }
            Action::KillToLineStart => match graphemes::line_start(text, at) {
                // At the start of a line the newline before it goes, so that the key goes on.
                start if start == at => (graphemes::previous(text, at)..at, Way::Left),
                start => (start..at, Way::Left),
            },
            Action::KillToLineEnd => match graphemes::line_end(text, at) {
                end if end == at => (at..graphemes::next(text, at), Way::Right),
                end => (at..end, Way::Right),
            },
            _ => return None,
        };
        let cut = graphemes::part(text, range.clone()).to_owned();
        if *last == Last::Kill {
            self.kills.join(&cut, way);
        } else {
            self.kills.push(&cut);
        }
        self.last = Last::Kill;
        Some(edited(self.buffer.replace(range, "", Run::Alone)))
    }

    /// Everything else.
    fn other(&mut self, action: Action, last: &Last) -> Option<Outcome> {
        Some(match action {
            Action::Send => self.send(),
            Action::Newline => self.break_line(),
            Action::Undo => edited(self.buffer.undo()),
            Action::Redo => edited(self.buffer.redo()),
            Action::VimRedo => edited(self.buffer.redo() && self.buffer.move_to_change()),
            Action::Yank => {
                let at = self.buffer.cursor();
                let text = self.kills.newest().map(str::to_owned);
                self.yank(at..at, text)
            }
            Action::YankPop => match last {
                Last::Yank(range) => {
                    let text = self.kills.turn().map(str::to_owned);
                    self.yank(range.clone(), text)
                }
                _ => Outcome::Nothing,
            },
            Action::UnfoldPaste => self.unfold_paste(),
            Action::SearchHistory => {
                self.search = Some(Search::default());
                Outcome::Moved
            }
            Action::Interrupt if self.vim.is_some() => self.escape(),
            _ => return None,
        })
    }

    /// A backslash at the end of a line makes Enter a line break, for terminals that tell no
    /// other key apart.
    fn send(&mut self) -> Outcome {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        let before = graphemes::part(text, 0..at);
        let backslashes = before.chars().rev().take_while(|c| *c == '\\').count();
        if backslashes % 2 == 1 && at == graphemes::line_end(text, at) {
            return edited(self.buffer.replace(at - 1..at, "\n", Run::Alone));
        }
        if text.chars().all(char::is_whitespace) { Outcome::Nothing } else { Outcome::Send }
    }

    fn break_line(&mut self) -> Outcome {
        let at = self.buffer.cursor();
        if self.buffer.text().len() >= TEXT_BYTES_MAX {
            return Outcome::Full;
        }
        edited(self.buffer.replace(at..at, "\n", Run::Typing))
    }

    fn yank(&mut self, range: std::ops::Range<usize>, text: Option<String>) -> Outcome {
        let Some(text) = text else { return Outcome::Nothing };
        if self.buffer.text().len() + text.len() > TEXT_BYTES_MAX {
            return Outcome::Full;
        }
        let changed = self.buffer.replace(range.clone(), &text, Run::Alone);
        self.last = Last::Yank(range.start..self.buffer.cursor());
        edited(changed)
    }

    /// Puts the text of the token at the cursor, or before it, in its place.
    fn unfold_paste(&mut self) -> Outcome {
        let (text, at) = (self.buffer.text(), self.buffer.cursor());
        for place in [at, graphemes::previous(text, at)] {
            let token = graphemes::first(text, place);
            let Some(token) = token else { continue };
            let Some(Token::Paste(paste)) = self.tokens.get(token) else { continue };
            let unfolded = paste.text.clone();
            if text.len() + unfolded.len() > TEXT_BYTES_MAX {
                return Outcome::Full;
            }
            let unfolded = self.tokens.admit(&unfolded).into_owned();
            let range = place..place + token.len_utf8();
            return edited(self.buffer.replace(range, &unfolded, Run::Alone));
        }
        Outcome::Nothing
    }
}

fn moved(did: bool) -> Outcome {
    if did { Outcome::Moved } else { Outcome::Nothing }
}

fn edited(did: bool) -> Outcome {
    if did { Outcome::Edited } else { Outcome::Nothing }
}
