//! What colours mean: roles, and the styles a theme gives them.
//!
//! Cells name roles, never colours, so a theme is one table. The plain theme uses the
//! terminal's own sixteen colours and looks right wherever they do; the others name colours
//! of their own where the terminal can show them. Must not know any cell.

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

/// Where a theme's colours come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Palette {
    /// The terminal's own sixteen.
    #[default]
    Plain,
    /// Soft colours on dark.
    Dusk,
    /// Ink on light.
    Paper,
    /// On dark, with blue and orange for what others show in green and red.
    Signal,
}

/// Gives roles their styles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Theme {
    /// How many colours there are.
    pub depth: Depth,
    /// The background.
    pub shade: Shade,
    /// The colours.
    pub palette: Palette,
}

impl Theme {
    /// The names that `named` knows, each with a few words.
    pub(crate) const NAMES: &[(&str, &str)] = &[
        ("plain", "the terminal's own colours"),
        ("dusk", "soft colours on dark"),
        ("paper", "ink on light"),
        ("signal", "on dark, blue and orange for green and red"),
    ];

    /// Returns the theme of this name, for a terminal that shows all colours.
    ///
    /// The plain theme fits any background, so its shade is only a default.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (palette, shade) = match name {
            "plain" => (Palette::Plain, Shade::Dark),
            "dusk" => (Palette::Dusk, Shade::Dark),
            "paper" => (Palette::Paper, Shade::Light),
            "signal" => (Palette::Signal, Shade::Dark),
            _ => return None,
        };
        Some(Self { depth: Depth::True, shade, palette })
    }

    /// Returns the style of a role.
    pub(crate) fn style(self, role: Role) -> Style {
        let own = self.own_colour(role);
        let mut style = Style::new();
        match role {
            Role::Heading | Role::Accent => style = style.add_modifier(Modifier::BOLD),
            Role::AddedWord | Role::RemovedWord => {
                style = style.add_modifier(Modifier::UNDERLINED);
            }
            // A colour of its own is dim enough, and its contrast is known.
            Role::Dim | Role::Comment if own.is_none() => {
                style = style.add_modifier(Modifier::DIM);
            }
            _ => {}
        }
        let colour = match self.depth {
            Depth::Mono => None,
            _ => own.or_else(|| sixteen(role, self.shade)),
        };
        colour.map_or(style, |colour| style.fg(colour))
    }

    /// Returns the background for what came or went, where the theme has one.
    pub(crate) fn tint(self, role: Role) -> Option<Color> {
        let rgb = match self.palette {
            Palette::Plain => return None,
            Palette::Dusk => dusk_tint(role),
            Palette::Paper => paper_tint(role),
            Palette::Signal => signal_tint(role),
        };
        self.at_depth(rgb?)
    }

    fn own_colour(self, role: Role) -> Option<Color> {
        let rgb = match self.palette {
            Palette::Plain => return None,
            Palette::Dusk => dusk(role),
            Palette::Paper => paper(role),
            Palette::Signal => signal(role),
        };
        self.at_depth(rgb)
    }

    fn at_depth(self, rgb: u32) -> Option<Color> {
        match self.depth {
            Depth::Mono | Depth::Ansi16 => None,
            Depth::Ansi256 => Some(Color::Indexed(nearest(rgb))),
            Depth::True => Some(Color::from_u32(rgb)),
        }
    }
}

/// Returns one of the terminal's sixteen. Cyan and yellow are hard to read on light.
fn sixteen(role: Role, shade: Shade) -> Option<Color> {
    let by_shade = |dark, light| if shade == Shade::Dark { dark } else { light };
    Some(match role {
        Role::Accent | Role::Name | Role::Code => by_shade(Color::Cyan, Color::Blue),
        Role::Good | Role::Added | Role::AddedWord | Role::Literal => Color::Green,
        Role::Warn | Role::Type => by_shade(Color::Yellow, Color::Magenta),
        Role::Bad | Role::Removed | Role::RemovedWord => Color::Red,
        Role::Keyword => Color::Magenta,
        Role::Text | Role::Dim | Role::Heading | Role::Comment => return None,
    })
}

fn dusk(role: Role) -> u32 {
    match role {
        Role::Text => 0xd8_d8_d8,
        Role::Dim | Role::Comment => 0xaf_b1_bc,
        Role::Heading => 0xf0_f0_f0,
        Role::Accent | Role::Name => 0x82_c4_e8,
        Role::Code => 0x8f_d3_c8,
        Role::Good | Role::Added => 0x9c_cf_7c,
        Role::AddedWord => 0xb8_eb_98,
        Role::Literal => 0xc3_d6_8b,
        Role::Warn => 0xe6_c0_7b,
        Role::Type => 0xe5_c8_90,
        Role::Bad | Role::Removed => 0xf2_8b_8b,
        Role::RemovedWord => 0xff_a8_a8,
        Role::Keyword => 0xd0_a5_f0,
    }
}

fn dusk_tint(role: Role) -> Option<u32> {
    Some(match role {
        Role::Added => 0x1e_2f_22,
        Role::AddedWord => 0x24_44_2b,
        Role::Removed => 0x38_20_24,
        Role::RemovedWord => 0x52_26_2c,
        _ => return None,
    })
}

fn paper(role: Role) -> u32 {
    match role {
        Role::Text => 0x2a_2a_2e,
        Role::Dim | Role::Comment => 0x5d_60_68,
        Role::Heading => 0x10_10_14,
        Role::Accent | Role::Name => 0x12_57_92,
        Role::Code => 0x0b_5d_5b,
        Role::Good | Role::Added => 0x1f_66_2c,
        Role::AddedWord => 0x10_54_1d,
        Role::Literal => 0x45_5f_00,
        Role::Warn => 0x80_4e_00,
        Role::Type => 0x6a_3e_00,
        Role::Bad | Role::Removed => 0xaa_1f_2a,
        Role::RemovedWord => 0x90_10_1c,
        Role::Keyword => 0x7a_2a_9a,
    }
}

fn paper_tint(role: Role) -> Option<u32> {
    Some(match role {
        Role::Added => 0xe4_f5_e4,
        Role::AddedWord => 0xcd_ec_cd,
        Role::Removed => 0xfc_e8_e8,
        Role::RemovedWord => 0xf8_d4_d4,
        _ => return None,
    })
}

/// As `dusk`, but what came is blue and what went is orange.
fn signal(role: Role) -> u32 {
    match role {
        Role::Good | Role::Added => 0x7c_b7_ff,
        Role::AddedWord => 0xa4_ce_ff,
        Role::Bad | Role::Removed => 0xff_a2_52,
        Role::RemovedWord => 0xff_be_85,
        Role::Literal => 0xd9_cf_8a,
        Role::Warn => 0xf4_e0_6d,
        other => dusk(other),
    }
}

fn signal_tint(role: Role) -> Option<u32> {
    Some(match role {
        Role::Added => 0x1a_2a_40,
        Role::AddedWord => 0x20_39_5c,
        Role::Removed => 0x3a_28_18,
        Role::RemovedWord => 0x54_36_18,
        _ => return None,
    })
}

/// Returns the colour of the 256 that is nearest: of its cube or of its greys.
fn nearest(rgb: u32) -> u8 {
    const STEPS: [u32; 6] = [0, 95, 135, 175, 215, 255];
    let parts = [rgb >> 16 & 0xff, rgb >> 8 & 0xff, rgb & 0xff];
    let distance = |other: [u32; 3]| -> u32 {
        parts.iter().zip(other).map(|(part, other)| part.abs_diff(other).pow(2)).sum()
    };
    let step = |part: u32| {
        let far = |(_, value): &(u8, u32)| value.abs_diff(part);
        (0..6_u8).zip(STEPS).min_by_key(far).unwrap_or_default()
    };
    let [red, green, blue] = parts.map(step);
    let cube = (16 + 36 * red.0 + 6 * green.0 + blue.0, [red.1, green.1, blue.1]);
    let greys = (0..24_u8).map(|place| (232 + place, [8 + 10 * u32::from(place); 3]));
    let best = greys.chain([cube]).min_by_key(|(_, colour)| distance(*colour));
    best.map_or(cube.0, |(place, _)| place)
}

#[cfg(test)]
#[path = "theme_tests.rs"]
mod tests;
