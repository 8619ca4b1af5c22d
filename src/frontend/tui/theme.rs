//! What colours mean: roles, and the styles a theme gives them.
//!
//! Cells name roles, never colours, so a theme is one table. The plain theme uses the
//! terminal's own sixteen colours and looks right wherever they do. Must not know any cell.

use ratatui::style::Color;
use ratatui::style::Modifier;
use ratatui::style::Style;

/// What a stretch of text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// What is to be read.
    Text,
    /// What stands beside it: numbers, hints, durations.
    Dim,
    /// What can be acted on: keys, links, the chosen line.
    Accent,
    /// It went well.
    Good,
    /// Look at this.
    Warn,
    /// It failed.
    Bad,
    /// A line that came.
    Added,
    /// A line that went.
    Removed,
    /// The words of an added line that are new.
    AddedWord,
    /// The words of a removed line that are gone.
    RemovedWord,
    /// Inline code.
    Code,
    /// A heading.
    Heading,
    /// A keyword of a language.
    Keyword,
    /// A string of a language.
    Literal,
    /// A comment of a language.
    Comment,
    /// A name that is defined or called.
    Name,
    /// A type.
    Type,
}

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Depth {
    /// None: `NO_COLOR`, or a terminal that cannot.
    Mono,
    /// Its sixteen.
    #[default]
    Ansi16,
    /// 256.
    Ansi256,
    /// All.
    True,
}

/// Whether the terminal's background is light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shade {
    /// Light text on dark.
    #[default]
    Dark,
    /// Dark text on light.
    Light,
}

/// Gives roles their styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Theme {
    /// How many colours there are.
    pub depth: Depth,
    /// The background.
    pub shade: Shade,
}

impl Theme {
    /// Returns the style of a role.
    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        let attributes = match role {
            Role::Heading | Role::Accent => style.add_modifier(Modifier::BOLD),
            Role::AddedWord | Role::RemovedWord => style.add_modifier(Modifier::UNDERLINED),
            Role::Dim | Role::Comment => style.add_modifier(Modifier::DIM),
            _ => style,
        };
        match (self.depth, colour(role)) {
            (Depth::Mono, _) | (_, None) => attributes,
            (_, Some(colour)) => attributes.fg(colour),
        }
    }
}

fn colour(role: Role) -> Option<Color> {
    Some(match role {
        Role::Accent | Role::Name | Role::Code => Color::Cyan,
        Role::Good | Role::Added | Role::AddedWord | Role::Literal => Color::Green,
        Role::Warn | Role::Type => Color::Yellow,
        Role::Bad | Role::Removed | Role::RemovedWord => Color::Red,
        Role::Keyword => Color::Magenta,
        Role::Text | Role::Dim | Role::Heading | Role::Comment => return None,
    })
}
