//! Ctrl-R: searching earlier messages from within the composer.
//!
//! The text found is only shown; the draft stays untouched until it is taken. A part of the
//! composer; called by its `insert` and `apply`.

use std::ops::Range;

use crate::frontend::tui::composer::graphemes;
use crate::frontend::tui::composer::history::{Search, Toward, place_of};
use crate::frontend::tui::composer::state::{Composer, Outcome};
use crate::frontend::tui::keymap::Action;

/// Bytes of what is searched for; more is ignored.
const QUERY_BYTES_MAX: usize = 1024;

impl Composer {
    /// Does what an action means during a search; `None` when the search ends and the action
    /// is done on the text.
    pub(super) fn apply_to_search(&mut self, action: Action) -> Option<Outcome> {
        let search = self.search.as_mut()?;
        let outcome = match action {
            Action::SearchOlder | Action::SearchHistory => self.search_on(Toward::Older),
            Action::SearchNewer => self.search_on(Toward::Newer),
            Action::SearchCancel | Action::Interrupt | Action::Quit => {
                self.search = None;
                Outcome::Moved
            }
            Action::SearchAccept | Action::Send => self.accept_found(),
            Action::DeleteLeft => {
                let shorter = graphemes::previous(&search.query, search.query.len());
                search.query.truncate(shorter);
                search.at = None;
                self.search_on(Toward::Older)
            }
            Action::KillToLineStart => {
                *search = Search::default();
                Outcome::Moved
            }
            _ => {
                self.accept_found();
                return None;
            }
        };
        self.settle();
        Some(outcome)
    }

    /// Adds to what is searched for.
    pub(super) fn search_for(&mut self, text: &str) -> Outcome {
        let length = self.history.len();
        let Some(search) = self.search.as_mut() else { return Outcome::Ignored };
        if search.query.len() + text.len() > QUERY_BYTES_MAX {
            return Outcome::Full;
        }
        search.query.extend(text.chars().filter(|c| !c.is_control()));
        // The message at hand may still hold the longer query.
        let from = search.at.map_or(length, |at| at + 1);
        self.search_from(from, Toward::Older);
        self.settle();
        Outcome::Moved
    }

    fn search_on(&mut self, toward: Toward) -> Outcome {
        let length = self.history.len();
        let at = self.search.as_ref().and_then(|search| search.at);
        let from = match toward {
            Toward::Older => at.unwrap_or(length),
            Toward::Newer => at.map_or(length, |at| at + 1),
        };
        self.search_from(from, toward);
        Outcome::Moved
    }

    /// Goes to the next message that holds the query and differs from the one shown.
    fn search_from(&mut self, from: usize, toward: Toward) {
        let Some(search) = self.search.as_mut() else { return };
        if search.query.is_empty() {
            *search = Search::default();
            return;
        }
        let found = self.history.find(&search.query, from, toward).map(|(index, _)| index);
        search.failed = found.is_none();
        search.at = found.or(search.at);
    }

    /// Takes what was found into the composer; the draft can be gone back to.
    fn accept_found(&mut self) -> Outcome {
        let at = self.search.take().and_then(|search| search.at);
        let Some((at, message)) = at.and_then(|at| Some((at, self.history.get(at)?.to_owned())))
        else {
            return Outcome::Moved;
        };
        self.history.stand_at(at, self.buffer.text());
        self.put_whole(&message);
        Outcome::Edited
    }

    /// Returns the message that the search shows.
    pub(super) fn found_message(&self) -> Option<&str> {
        self.history.get(self.search.as_ref()?.at?)
    }

    /// Returns where the query stands in the text that is shown.
    pub(super) fn found(&self) -> Option<Range<usize>> {
        let query = &self.search.as_ref()?.query;
        let start = place_of(self.found_message()?, query)?;
        Some(start..start + query.len())
    }

    /// Returns the place of the cursor in the text that is shown.
    pub(super) fn cursor(&self) -> usize {
        match self.found_message() {
            Some(message) => {
                graphemes::snap(message, self.found().map_or(message.len(), |found| found.start))
            }
            None => self.buffer.cursor(),
        }
    }

    /// Returns the line that shows the search itself.
    pub(super) fn search_line(&self) -> Option<String> {
        let search = self.search.as_ref()?;
        let word = if search.failed { "not found" } else { "earlier messages" };
        Some(format!("{word}: {}", search.query))
    }
}
