//! Which scripts of sed and awk, formats of printf and words of `test` only look.
//!
//! Each of these is a language that can write or run; what is understood here is the small part
//! that people read files with, and all else is unknown. Knows no shell. Called by `judge.rs`.

/// Returns whether a script of sed prints, deletes and substitutes in what it prints, no more.
pub(super) fn is_harmless_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        if rest.is_empty() {
            return true;
        }
        if let Some(after) = rest.strip_prefix('}') {
            rest = after;
            continue;
        }
        let Some(after) = skip_sed_command(rest) else { return false };
        let opens = rest.len() > after.len()
            && rest.get(..rest.len() - after.len()).is_some_and(|it| it.ends_with('{'));
        let after = after.trim_start_matches([' ', '\t']);
        if !opens && !after.is_empty() && !after.starts_with([';', '\n', '}']) {
            return false;
        }
        rest = after;
    }
}

fn skip_sed_command(text: &str) -> Option<&str> {
    let mut rest = skip_sed_address(text)?;
    if let Some(after) = rest.strip_prefix(',') {
        let after = after.trim_start_matches(' ');
        let relative = after.strip_prefix(['+', '~']).unwrap_or(after);
        rest = skip_sed_address(relative).filter(|end| end.len() < relative.len())?;
    }
    rest = rest.trim_start_matches([' ', '\t']);
    rest = rest.strip_prefix('!').unwrap_or(rest).trim_start_matches([' ', '\t']);
    let command = rest.chars().next()?;
    let after = rest.get(command.len_utf8()..)?;
    match command {
        '{' | 'p' | 'd' | '=' | 'n' | 'N' | 'P' | 'D' | 'h' | 'H' | 'g' | 'G' | 'x' => Some(after),
        'q' => Some(after.trim_start_matches(' ').trim_start_matches(|c: char| c.is_ascii_digit())),
        's' => skip_sed_substitution(after),
        _ => None,
    }
}

/// Skips `5`, `$`, `1~2` or `/pattern/`, or nothing.
fn skip_sed_address(text: &str) -> Option<&str> {
    if let Some(after) = text.strip_prefix('$') {
        return Some(after);
    }
    if let Some(pattern) = text.strip_prefix('/') {
        let after = skip_pattern(pattern, '/')?;
        return Some(after.strip_prefix('I').unwrap_or(after));
    }
    let digits =
        |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = text.get(digits(text)..)?;
    match after.strip_prefix('~') {
        Some(step) if digits(text) > 0 => step.get(digits(step)..),
        Some(_) | None => Some(after),
    }
}

/// `s/a/b/` with flags that write no file and run nothing.
fn skip_sed_substitution(text: &str) -> Option<&str> {
    let delimiter = text.chars().next().filter(|c| "/|,#:;@!%_+~=".contains(*c))?;
    let pattern = text.get(1..)?;
    let replacement = skip_pattern(pattern, delimiter)?;
    let flags = skip_replacement(replacement, delimiter)?;
    Some(
        flags
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I')),
    )
}

/// Skips a pattern up to behind its delimiter. Seds disagree on whether a delimiter within
/// brackets ends it, and on escapes there: neither is understood, nor is a newline.
fn skip_pattern(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text;
    loop {
        let letter = rest.chars().next()?;
        let after = rest.get(letter.len_utf8()..)?;
        rest = match letter {
            _ if letter == delimiter => return Some(after),
            '\n' => return None,
            '\\' => skip_escaped(after)?,
            '[' => skip_brackets(after, delimiter)?,
            _ => after,
        };
    }
}

fn skip_escaped(text: &str) -> Option<&str> {
    let letter = text.chars().next().filter(|letter| *letter != '\n')?;
    text.get(letter.len_utf8()..)
}

/// Skips `^]…[:class:]…]`, of which the opening bracket is gone.
fn skip_brackets(text: &str, delimiter: char) -> Option<&str> {
    let negated = text.strip_prefix('^').unwrap_or(text);
    let mut rest = negated.strip_prefix(']').unwrap_or(negated);
    loop {
        let letter = rest.chars().next()?;
        let after = rest.get(letter.len_utf8()..)?;
        rest = match letter {
            ']' => return Some(after),
            '\n' => return None,
            _ if letter == delimiter => return None,
            '\\' if after.starts_with(['[', ']', '\\']) => return None,
            '[' if after.starts_with([':', '.', '=']) => {
                let kind = after.get(..1)?;
                let (inside, after) = after.get(1..)?.split_once(&format!("{kind}]"))?;
                let is_plain = inside.chars().all(|c| c.is_ascii_alphabetic() && c != delimiter);
                if !is_plain || kind.starts_with(delimiter) {
                    return None;
                }
                after
            }
            _ => after,
        };
    }
}

/// Skips a replacement up to behind its delimiter.
fn skip_replacement(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text;
    loop {
        let letter = rest.chars().next()?;
        let after = rest.get(letter.len_utf8()..)?;
        rest = match letter {
            _ if letter == delimiter => return Some(after),
            '\n' => return None,
            '\\' => skip_escaped(after)?,
            _ => after,
        };
    }
}

/// Returns whether a program of awk can neither write, run nor fetch: all that does needs one of
/// these, and no string of awk is ever run as a program of awk.
pub(super) fn is_harmless_awk(program: &str) -> bool {
    // The longest sign is read: `>=` compares and `||` joins, wherever they stand.
    let program = program.replace(">=", " ").replace("||", " ");
    // Only what is printed can be sent anywhere.
    if program.contains('>') && program.contains("print") {
        return false;
    }
    let does_more = ["system", "getline", "close", "fflush", "extension", "|", "@", "\\\n", "`"];
    !does_more.iter().any(|word| program.contains(word))
}

/// Only `%s`, `%c` and `%%`, with a width: `%n` and `-v` set variables, and numbers are
/// computed, with all that a shell computes.
pub(super) fn is_harmless_format(format: &str) -> bool {
    let mut rest = format.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            continue;
        }
        rest.next_if_eq(&'-');
        while rest.next_if(char::is_ascii_digit).is_some() {}
        if !matches!(rest.next(), Some('s' | 'c' | '%')) {
            return false;
        }
    }
    !format.starts_with('-')
}

/// Returns whether the words of `test` look at files and compare: `-v` computes what is between
/// brackets in its word, and so do numbers that are none.
pub(super) fn is_harmless_test(words: &[&str]) -> bool {
    const UNARY: &[&str] = &[
        "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-n", "-z", "-b", "-c", "-p", "-S",
        "-g", "-u", "-k", "-O", "-G", "-N",
    ];
    const BINARY: &[&str] = &["=", "==", "!=", "-nt", "-ot", "-ef"];
    const NUMERIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
    let is_number = |word: &str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_primary = |words: &[&str]| match words {
        [] => true,
        [word] => !word.starts_with('-'),
        [operator, _] => UNARY.contains(operator),
        [left, operator, right] => {
            BINARY.contains(operator)
                || (NUMERIC.contains(operator) && is_number(left) && is_number(right))
        }
        _ => false,
    };
    words.split(|word| matches!(*word, "-a" | "-o")).all(|part| {
        let part = part.strip_prefix(&["!"]).unwrap_or(part);
        is_primary(part)
    })
}
