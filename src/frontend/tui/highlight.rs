//! Colours code: says of each stretch of a line which role it has.
//!
//! The grammars are loaded with the first code that needs them. State goes on from line to
//! line, so streamed code costs what is new. Bounded by size: a long line or a long block
//! turns plain from there on. Knows roles, not colours. Called by `markdown` and `diff`.

use std::sync::OnceLock;

use ratatui::text::{Line, Span};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::frontend::tui::theme::{Role, Theme};
use crate::frontend::tui::wrap::shown;

/// In a longer line the grammars' expressions may take long; nobody reads it for its colours.
const LINE_BYTES_MAX: usize = 1_000;

/// What colouring a block may cost at most: some 50 ms.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
const BLOCK_LINES_MAX: usize = 2_000;

/// A line as stretches, each with its role.
pub(crate) type Tokens = Vec<(Role, String)>;

/// Colours code line by line.
#[derive(Debug, Clone)]
pub(crate) struct Highlighter {
    /// `None` where the rest is plain.
    state: Option<Box<State>>,
    bytes_left: usize,
    lines_left: usize,
}

#[derive(Debug, Clone)]
struct State {
    parser: ParseState,
    scopes: ScopeStack,
}

impl Highlighter {
    /// Starts a block of this language, as a fence or a file's extension names it.
    pub(crate) fn new(language: &str) -> Self {
        let state = canonical(language).and_then(|name| {
            let syntax = grammars().set.find_syntax_by_token(&name)?;
            let parser = ParseState::new(syntax);
            Some(Box::new(State { parser, scopes: ScopeStack::new() }))
        });
        Self { state, bytes_left: BLOCK_BYTES_MAX, lines_left: BLOCK_LINES_MAX }
    }

    /// Returns the next line's stretches; together they are the line, cleaned.
    pub(crate) fn line(&mut self, line: &str) -> Tokens {
        let line = shown(line);
        if line.len() > LINE_BYTES_MAX || line.len() > self.bytes_left || self.lines_left == 0 {
            self.state = None;
        }
        self.bytes_left = self.bytes_left.saturating_sub(line.len());
        self.lines_left = self.lines_left.saturating_sub(1);
        let tokens = self.state.as_mut().and_then(|state| state.line(&line));
        if tokens.is_none() {
            self.state = None;
        }
        tokens.unwrap_or_else(|| vec![(Role::Text, line.into_owned())])
    }
}

/// Returns the code as coloured lines.
#[cfg(test)]
pub(crate) fn highlight(language: &str, code: &str, theme: Theme) -> Vec<Line<'static>> {
    let mut highlighter = Highlighter::new(language);
    code.lines().map(|line| styled(highlighter.line(line), theme)).collect()
}

/// Returns the stretches in the theme's colours.
pub(crate) fn styled(tokens: Tokens, theme: Theme) -> Line<'static> {
    let span = |(role, text)| Span::styled(text, theme.style(role));
    Line::from(tokens.into_iter().map(span).collect::<Vec<_>>())
}

impl State {
    /// Returns the line's stretches; `None` where the grammar fails.
    fn line(&mut self, line: &str) -> Option<Tokens> {
        // The grammars want to see where lines end.
        let ended = format!("{line}\n");
        let changes = self.parser.parse_line(&ended, &grammars().set).ok()?;
        let mut tokens = Tokens::new();
        let mut start = 0;
        for (at, change) in changes {
            let at = at.min(line.len());
            push(&mut tokens, self.role(), line.get(start..at)?);
            start = at;
            self.scopes.apply(&change).ok()?;
        }
        push(&mut tokens, self.role(), line.get(start..)?);
        Some(tokens)
    }

    /// Returns the role of what has these scopes: the innermost that says something.
    fn role(&self) -> Role {
        let role = |scope: &Scope| {
            let rule = grammars().rules.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
            rule.map(|(_, role)| *role)
        };
        self.scopes.as_slice().iter().rev().find_map(role).unwrap_or(Role::Text)
    }
}

fn push(tokens: &mut Tokens, role: Role, text: &str) {
    match tokens.last_mut() {
        _ if text.is_empty() => {}
        // Spaces have no colour, so they need no change of it.
        Some((last, whole)) if *last == role || text.trim().is_empty() => whole.push_str(text),
        Some(_) | None => tokens.push((role, text.to_owned())),
    }
}

struct Grammars {
    set: SyntaxSet,
    rules: Vec<(Scope, Role)>,
}

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let rule = |(name, role): &(&str, Role)| Some((Scope::new(name).ok()?, *role));
        Grammars {
            set: two_face::syntax::extra_newlines(),
            rules: ROLES.iter().filter_map(rule).collect(),
        }
    })
}

/// What scopes mean; of those that fit, the first counts.
const ROLES: &[(&str, Role)] = &[
    ("comment", Role::Comment),
    ("meta.interpolation", Role::Text),
    ("meta.template.expression", Role::Text),
    ("string.unquoted", Role::Text),
    ("string", Role::Literal),
    ("constant", Role::Literal),
    ("keyword.operator.word", Role::Keyword),
    ("keyword.operator", Role::Text),
    ("keyword", Role::Keyword),
    ("storage", Role::Keyword),
    ("variable.language", Role::Keyword),
    ("variable.function", Role::Name),
    ("entity.name.tag", Role::Keyword),
    ("entity.name.function", Role::Name),
    ("entity.name.section", Role::Heading),
    ("entity.other.attribute-name", Role::Name),
    ("entity.other.inherited-class", Role::Type),
    ("entity.name.type", Role::Type),
    ("entity.name.class", Role::Type),
    ("entity.name.struct", Role::Type),
    ("entity.name.enum", Role::Type),
    ("entity.name.union", Role::Type),
    ("entity.name.trait", Role::Type),
    ("entity.name.impl", Role::Type),
    ("entity.name.interface", Role::Type),
    ("entity.name", Role::Name),
    ("support.function", Role::Name),
    ("support.macro", Role::Name),
    ("support.type.property-name", Role::Name),
    ("support.type", Role::Type),
    ("support.class", Role::Type),
    ("markup.heading", Role::Heading),
    ("markup.inserted", Role::Added),
    ("markup.deleted", Role::Removed),
    ("markup.raw", Role::Code),
];

/// Names that fences use and the grammars do not; an empty one is plain text.
const ALIASES: &[(&str, &str)] = &[
    ("c#", "cs"),
    ("console", ""),
    ("csharp", "cs"),
    ("docker", "dockerfile"),
    ("golang", "go"),
    ("jsonc", "json"),
    ("json5", "json"),
    ("jsonl", "json"),
    ("ndjson", "json"),
    ("mjs", "js"),
    ("cjs", "js"),
    ("jsx", "tsx"),
    ("kotlin", "kt"),
    ("objc", "m"),
    ("output", ""),
    ("patch", "diff"),
    ("plain", ""),
    ("plaintext", ""),
    ("python3", "py"),
    ("shell", "sh"),
    ("shellscript", "sh"),
    ("text", ""),
    ("txt", ""),
    ("udiff", "diff"),
];

/// Returns the name that the grammars know a language by; `None` for plain text.
fn canonical(language: &str) -> Option<String> {
    /// No language has a longer name.
    const NAME_BYTES_MAX: usize = 40;
    if language.is_empty() || language.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = language.to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, canonical)| (*canonical).to_owned());
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
#[path = "highlight_tests.rs"]
mod tests;
