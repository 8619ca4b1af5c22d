//! Stand-ins of a few lines for parts that are being built; goes away with them.

use ratatui::text::{Line, Span};

use crate::frontend::tui::theme::{Role, Theme};

pub(crate) mod wrap {
    use super::*;
    use unicode_segmentation::UnicodeSegmentation;
    use unicode_width::UnicodeWidthStr;

    pub(crate) fn width(text: &str) -> usize {
        text.width()
    }

    pub(crate) fn wrap_with(
        line: &Line<'_>,
        width: u16,
        first: &str,
        rest: &str,
    ) -> Vec<Line<'static>> {
        let width = usize::from(width.max(1));
        let mut lines = Vec::new();
        let mut spans = vec![Span::raw(first.to_owned())];
        let mut used = first.width();
        for span in &line.spans {
            for grapheme in span.content.graphemes(true) {
                let wide = grapheme.width();
                if used + wide > width && used > 0 {
                    lines.push(Line::from(std::mem::take(&mut spans)));
                    spans.push(Span::raw(rest.to_owned()));
                    used = rest.width();
                }
                used += wide;
                spans.push(Span::styled(grapheme.to_owned(), line.style.patch(span.style)));
            }
        }
        lines.push(Line::from(spans));
        lines
    }
}

pub(crate) mod markdown {
    use super::*;

    #[derive(Debug, Default)]
    pub(crate) struct Markdown {
        rest: String,
    }

    impl Markdown {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn push(&mut self, delta: &str) {
            self.rest.push_str(delta);
        }

        pub(crate) fn finished(&mut self, width: u16, theme: Theme) -> Vec<Line<'static>> {
            let Some(end) = self.rest.rfind('\n') else { return Vec::new() };
            let done: String = self.rest.drain(..=end).collect();
            render(&done, width, theme)
        }

        pub(crate) fn live(&mut self, width: u16, theme: Theme) -> Vec<Line<'static>> {
            render(&self.rest, width, theme)
        }
    }

    pub(crate) fn render(text: &str, width: u16, theme: Theme) -> Vec<Line<'static>> {
        let text = crate::text::ansi::visible(text).replace('\t', "    ");
        text.lines()
            .flat_map(|line| {
                let line = Line::styled(line.to_owned(), theme.style(Role::Text));
                super::wrap::wrap_with(&line, width, "", "")
            })
            .collect()
    }
}

pub(crate) mod composer {
    use super::*;
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    #[derive(Debug, Default)]
    pub(crate) struct Composer {
        text: String,
    }

    #[derive(Debug)]
    pub(crate) struct ComposerView {
        pub lines: Vec<Line<'static>>,
        pub cursor: (u16, u16),
    }

    impl Composer {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn key(&mut self, key: KeyEvent) {
            match key.code {
                KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    self.text.clear();
                }
                KeyCode::Char('j') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    self.text.push('\n');
                }
                KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                    self.text.push(c);
                }
                KeyCode::Backspace => {
                    self.text.pop();
                }
                _ => {}
            }
        }

        pub(crate) fn paste(&mut self, text: &str) {
            self.text.push_str(text);
        }

        pub(crate) fn take(&mut self) -> String {
            std::mem::take(&mut self.text)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.text.is_empty()
        }

        pub(crate) fn text(&self) -> &str {
            &self.text
        }

        pub(crate) fn set_text(&mut self, text: &str) {
            self.text = text.to_owned();
        }

        pub(crate) fn view(&self, width: u16, height_max: u16, theme: Theme) -> ComposerView {
            let mut lines: Vec<Line<'static>> = Vec::new();
            let text = crate::text::ansi::visible(&self.text).replace('\t', "    ");
            for line in text.split('\n') {
                let line = Line::styled(line.to_owned(), theme.style(Role::Text));
                lines.extend(wrap::wrap_with(&line, width, "", ""));
            }
            let skip = lines.len().saturating_sub(usize::from(height_max.max(1)));
            let lines: Vec<_> = lines.into_iter().skip(skip).collect();
            let row = u16::try_from(lines.len().saturating_sub(1)).unwrap_or(0);
            let column: usize =
                lines.last().map_or(0, |l| l.spans.iter().map(|s| wrap::width(&s.content)).sum());
            let column = u16::try_from(column).unwrap_or(0).min(width.saturating_sub(1));
            ComposerView { lines, cursor: (column, row) }
        }
    }
}
