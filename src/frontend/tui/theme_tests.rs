//! What themes promise: every role is readable on the backgrounds that they are meant for.

use super::*;

const ROLES: &[Role] = &[
    Role::Text,
    Role::Dim,
    Role::Accent,
    Role::Good,
    Role::Warn,
    Role::Bad,
    Role::Added,
    Role::Removed,
    Role::AddedWord,
    Role::RemovedWord,
    Role::Code,
    Role::Heading,
    Role::Keyword,
    Role::Literal,
    Role::Comment,
    Role::Name,
    Role::Type,
];

/// What can stand on a tint: the text of a changed line.
const ON_TINT: &[Role] = &[
    Role::Text,
    Role::Added,
    Role::Removed,
    Role::AddedWord,
    Role::RemovedWord,
    Role::Keyword,
    Role::Literal,
    Role::Comment,
    Role::Name,
    Role::Type,
];
const TINTS: &[Role] = &[Role::Added, Role::AddedWord, Role::Removed, Role::RemovedWord];

fn luminance(rgb: u32) -> f64 {
    let part = |shift: u32| {
        let value = f64::from(rgb >> shift & 0xff) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
}

fn contrast(one: u32, other: u32) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn rgb(colour: Color) -> u32 {
    match colour {
        Color::Rgb(red, green, blue) => u32::from_be_bytes([0, red, green, blue]),
        Color::Indexed(place @ 16..=231) => {
            let steps = [0, 95, 135, 175, 215, 255];
            let place = usize::from(place - 16);
            steps[place / 36] << 16 | steps[place / 6 % 6] << 8 | steps[place % 6]
        }
        Color::Indexed(place @ 232..) => (8 + 10 * (u32::from(place) - 232)) * 0x01_01_01,
        other => panic!("{other:?} is the terminal's own"),
    }
}

/// Common backgrounds of terminals, from the darkest and the lightest on.
fn backgrounds(shade: Shade) -> &'static [u32] {
    match shade {
        Shade::Dark => &[0x00_00_00, 0x1e_1e_1e, 0x28_2c_34],
        Shade::Light => &[0xff_ff_ff, 0xfa_fa_fa, 0xfd_f6_e3],
    }
}

#[test]
fn every_role_is_readable_on_the_background_and_on_its_tints() {
    let mut poor = Vec::new();
    for (name, _) in Theme::NAMES.iter().filter(|(name, _)| *name != "plain") {
        for depth in [Depth::True, Depth::Ansi256] {
            let theme = Theme { depth, ..Theme::named(name).unwrap() };
            for role in ROLES {
                let colour = rgb(theme.style(*role).fg.unwrap());
                for background in backgrounds(theme.shade) {
                    let ratio = contrast(colour, *background);
                    if ratio < 4.5 {
                        poor.push(format!(
                            "{name} {depth:?} {role:?} on {background:06x}: {ratio:.2}"
                        ));
                    }
                }
            }
            for tint in TINTS {
                let background = rgb(theme.tint(*tint).unwrap());
                for role in ON_TINT {
                    let ratio = contrast(rgb(theme.style(*role).fg.unwrap()), background);
                    if ratio < 4.5 {
                        poor.push(format!("{name} {depth:?} {role:?} on {tint:?}: {ratio:.2}"));
                    }
                }
            }
        }
    }
    assert!(poor.is_empty(), "{}", poor.join("\n"));
}

#[test]
fn without_colours_there_are_none() {
    for (name, _) in Theme::NAMES {
        let theme = Theme { depth: Depth::Mono, ..Theme::named(name).unwrap() };
        for role in ROLES {
            assert_eq!((theme.style(*role).fg, theme.tint(*role)), (None, None), "{name} {role:?}");
        }
    }
}

#[test]
fn sixteen_colours_are_the_terminals_own_in_every_theme() {
    for (name, _) in Theme::NAMES {
        let theme = Theme { depth: Depth::Ansi16, ..Theme::named(name).unwrap() };
        for role in ROLES {
            let colour = theme.style(*role).fg;
            assert!(!matches!(colour, Some(Color::Rgb(..) | Color::Indexed(_))), "{name} {role:?}");
            assert_eq!(theme.tint(*role), None);
        }
    }
}

#[test]
fn light_backgrounds_get_neither_cyan_nor_yellow() {
    let theme = Theme { shade: Shade::Light, ..Theme::default() };
    for role in ROLES {
        let colour = theme.style(*role).fg;
        assert!(!matches!(colour, Some(Color::Cyan | Color::Yellow)), "{role:?}");
    }
}

#[test]
fn what_came_and_what_went_differ_without_colour_too() {
    let theme = Theme { depth: Depth::Mono, ..Theme::default() };
    assert_ne!(theme.style(Role::Added), theme.style(Role::AddedWord));
    assert_ne!(theme.style(Role::Removed), theme.style(Role::RemovedWord));
}

#[test]
fn an_unknown_name_is_no_theme() {
    assert_eq!(Theme::named("no such theme"), None);
    assert!(Theme::NAMES.iter().all(|(name, _)| Theme::named(name).is_some()));
}
