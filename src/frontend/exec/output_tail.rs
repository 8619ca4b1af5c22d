//! `OutputTail`: the end of a command's own output, as a person wants to see it.
//!
//! Takes output as it comes, keeps a bounded end of it and counts the lines before. Pure;
//! knows no colours and no events. Called by `text.rs`.

use crate::text::ansi::{strip, visible};

/// Lines that are shown: the end of an output says what was wrong.
pub(in crate::frontend::exec) const TAIL_LINES_MAX: usize = 10;

/// Bytes that are kept, a few times what so many lines take.
const TAIL_BYTES_MAX: usize = 16 * 1024;

/// The end of an output, and how many lines came before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::frontend::exec) struct OutputTail {
    text: String,
    lines_before: usize,
}

impl OutputTail {
    /// Takes more output.
    pub(in crate::frontend::exec) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // Cutting at twice the bound makes the moving of bytes rare.
        if self.text.len() > 2 * TAIL_BYTES_MAX {
            let (before, _) =
                self.text.split_at(self.text.floor_char_boundary(self.text.len() - TAIL_BYTES_MAX));
            let cut = before.len();
            self.lines_before += before.matches('\n').count();
            self.text.drain(..cut);
        }
    }

    /// Returns how many lines are not shown, and the last ones, made visible.
    pub(in crate::frontend::exec) fn lines(&self) -> (usize, Vec<String>) {
        let text = strip(self.text.trim_end());
        let text = visible(&text);
        let lines: Vec<&str> = text.trim_start_matches('\n').lines().collect();
        let hidden = lines.len().saturating_sub(TAIL_LINES_MAX);
        let shown = lines.into_iter().skip(hidden).map(|line| line.trim_end().to_owned());
        (self.lines_before + hidden, shown.collect())
    }
}

impl From<String> for OutputTail {
    fn from(text: String) -> Self {
        let mut tail = Self::default();
        tail.push(&text);
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_within_bounds_and_the_rest_is_counted() {
        let mut tail = OutputTail::default();
        for number in 1..=20_000 {
            tail.push(&format!("é line {number}\n"));
        }
        assert!(tail.text.len() <= 2 * TAIL_BYTES_MAX);
        let (hidden, lines) = tail.lines();
        assert_eq!((hidden, lines.len()), (19_990, 10));
        assert_eq!(lines.last().unwrap(), "é line 20000");
    }

    #[test]
    fn pieces_make_lines_and_escapes_are_gone() {
        let mut tail = OutputTail::default();
        for piece in ["\n", "\u{1b}[3", "1mred\u{1b}[0m\n", "\n", "a\u{202e}b \n\n"] {
            tail.push(piece);
        }
        assert_eq!(
            tail.lines(),
            (0, vec!["red".to_owned(), String::new(), "a⟨U+202E⟩b".to_owned()])
        );
    }
}
