//! `gimlet login`, `logout` and `login status`: the stored API key.
//!
//! A key is read from stdin and never echoed; of a key in use, at most the last four
//! characters are shown.

use std::io::{IsTerminal, Read};

use crate::cli::args::{LoginArgs, LoginCommand, SettingsArgs};
use crate::cli::commands::config::report_notes;
use crate::cli::exit_code::ExitCode;
use crate::cli::out::{report_error, write_out};
use crate::cli::settings::{load_directories, load_settings};
use crate::config::ProviderKey;
use crate::store::secrets;
use crate::text::ansi::visible_line;

/// Longer than any key; a whole file piped in by mistake ends here.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// Why no key could be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyRefusal {
    Empty,
    TooLong,
    ManyLines,
    OddCharacters,
}

/// What came of reading a key.
enum Typed {
    Bytes(Vec<u8>),
    Cancelled,
}

/// Runs `gimlet login`.
pub(crate) fn run(args: &LoginArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(LoginCommand::Status) => show_status(settings),
        None => store_key(),
    }
}

/// Runs `gimlet logout`.
pub(crate) fn run_logout() -> anyhow::Result<ExitCode> {
    let directories = match load_directories() {
        Ok(directories) => directories,
        Err(error) => {
            report_error(&error.to_string(), error.hint().as_deref());
            return Ok(ExitCode::Usage);
        }
    };
    match secrets::delete_key(&directories.state) {
        Ok(true) => write_out("The stored key is deleted.")?,
        Ok(false) => write_out("No key was stored.")?,
        Err(error) => {
            report_error(&error.to_string(), Some("delete the file yourself"));
            return Ok(ExitCode::Failed);
        }
    }
    Ok(ExitCode::Done)
}

fn store_key() -> anyhow::Result<ExitCode> {
    let directories = match load_directories() {
        Ok(directories) => directories,
        Err(error) => {
            report_error(&error.to_string(), error.hint().as_deref());
            return Ok(ExitCode::Usage);
        }
    };
    let bytes = match read_key_bytes() {
        Ok(Typed::Bytes(bytes)) => bytes,
        Ok(Typed::Cancelled) => return Ok(ExitCode::Interrupted),
        Err(error) => {
            report_error(&format!("cannot read the key from stdin: {error}"), None);
            return Ok(ExitCode::Failed);
        }
    };
    let key = match parse_typed_key(&bytes) {
        Ok(key) => key,
        Err(refusal) => {
            report_error(
                refusal.message(),
                Some("pipe the key alone: echo \"$KEY\" | gimlet login"),
            );
            return Ok(ExitCode::Usage);
        }
    };
    if let Err(error) = secrets::save_key(&directories.state, &key) {
        report_error(
            &error.to_string(),
            Some("check permissions and free space, or set OPENAI_API_KEY instead"),
        );
        return Ok(ExitCode::Failed);
    }
    let path = secrets::auth_path(&directories.state).display().to_string();
    write_out(&format!("Stored in {}", visible_line(&path)))?;
    Ok(ExitCode::Done)
}

fn show_status(settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let loaded = match load_settings(settings, true) {
        Ok(loaded) => loaded,
        Err(error) => {
            report_error(&error.to_string(), error.hint().as_deref());
            return Ok(ExitCode::Usage);
        }
    };
    let config = &loaded.resolved.config;
    report_notes(&config.notes)?;
    let provider = &config.provider.name;
    match &config.provider.key {
        ProviderKey::NotNeeded => {
            write_out(&format!("Provider {provider} needs no key."))?;
            Ok(ExitCode::Done)
        }
        ProviderKey::Found { key, source } => {
            let end = shown_end(key);
            write_out(&format!("Provider {provider}: a key{end}, from {source}."))?;
            Ok(ExitCode::Done)
        }
        ProviderKey::Missing { looked_at } => {
            report_error(
                &format!("provider {provider} has no key"),
                Some(&format!("run `gimlet login`, or set {}", looked_at.join(" or "))),
            );
            Ok(ExitCode::NoCredentials)
        }
    }
}

/// Keys shorter than this show nothing: four characters would be too much of them.
const SHOWN_KEY_CHARS_MIN: usize = 16;

fn shown_end(key: &str) -> String {
    let count = key.chars().count();
    if count < SHOWN_KEY_CHARS_MIN {
        return String::new();
    }
    format!(" ending in {}", key.chars().skip(count - 4).collect::<String>())
}

impl KeyRefusal {
    fn message(&self) -> &'static str {
        match self {
            Self::Empty => "no key was given",
            Self::TooLong => "that is too long for a key",
            Self::ManyLines => "that is more than one line",
            Self::OddCharacters => "a key has only letters, digits and signs, without spaces",
        }
    }
}

fn parse_typed_key(bytes: &[u8]) -> Result<String, KeyRefusal> {
    if bytes.len() as u64 > KEY_BYTES_MAX {
        return Err(KeyRefusal::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| KeyRefusal::OddCharacters)?.trim();
    if text.is_empty() {
        return Err(KeyRefusal::Empty);
    }
    if text.contains(['\n', '\r']) {
        return Err(KeyRefusal::ManyLines);
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyRefusal::OddCharacters);
    }
    Ok(text.to_owned())
}

fn read_key_bytes() -> std::io::Result<Typed> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return terminal::read_hidden_line();
    }
    let mut bytes = Vec::new();
    stdin.lock().take(KEY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(Typed::Bytes(bytes))
}

#[cfg(unix)]
mod terminal {
    use std::io::{Stdin, Write};

    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};

    use super::{KEY_BYTES_MAX, Typed};

    /// Puts the terminal back as it was, however the reading ends.
    struct Hidden {
        stdin: Stdin,
        before: Termios,
    }

    impl Drop for Hidden {
        fn drop(&mut self) {
            let _ = rustix::termios::tcsetattr(&self.stdin, OptionalActions::Flush, &self.before);
        }
    }

    /// Reads one line without showing it.
    ///
    /// The terminal hands over single keys and raises no signal of its own meanwhile: Ctrl-C
    /// would otherwise end the program before the echo is on again.
    pub(super) fn read_hidden_line() -> std::io::Result<Typed> {
        let stdin = std::io::stdin();
        let before = rustix::termios::tcgetattr(&stdin)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
        hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
        let guard = Hidden { stdin, before };
        let mut stderr = std::io::stderr();
        let _ = stderr.write_all(b"API key (not shown): ").and_then(|()| stderr.flush());
        let typed = read_keys(&guard.stdin);
        let _ = stderr.write_all(b"\n");
        typed
    }

    fn read_keys(stdin: &Stdin) -> std::io::Result<Typed> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0_u8];
            let count = match rustix::io::read(stdin, &mut byte) {
                Err(rustix::io::Errno::INTR) => continue,
                read => read?,
            };
            match byte {
                _ if count == 0 => return Ok(Typed::Bytes(line)),
                [b'\r' | b'\n' | 0x04] => return Ok(Typed::Bytes(line)),
                [0x03] => return Ok(Typed::Cancelled),
                [0x08 | 0x7f] => {
                    line.pop();
                }
                [0x15] => line.clear(),
                [byte] if (line.len() as u64) <= KEY_BYTES_MAX => line.push(byte),
                [_] => {}
            }
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    use super::Typed;

    /// Refuses: what is typed could not be hidden here.
    pub(super) fn read_hidden_line() -> std::io::Result<Typed> {
        Err(std::io::Error::other("pipe it in: typed text cannot be hidden here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_or_refused_with_a_reason() {
        let long = vec![b'k'; 20_000];
        let table: [(&[u8], Result<&str, KeyRefusal>); 8] = [
            (b"sk-abc\n", Ok("sk-abc")),
            (b"  sk-abc\r\n", Ok("sk-abc")),
            (b"", Err(KeyRefusal::Empty)),
            (b" \n\n", Err(KeyRefusal::Empty)),
            (b"sk-a\nsk-b\n", Err(KeyRefusal::ManyLines)),
            (b"sk a", Err(KeyRefusal::OddCharacters)),
            (b"sk-\x1b[A", Err(KeyRefusal::OddCharacters)),
            (&long, Err(KeyRefusal::TooLong)),
        ];
        for (bytes, expected) in table {
            assert_eq!(parse_typed_key(bytes), expected.map(str::to_owned));
        }
    }

    #[test]
    fn a_short_key_shows_nothing() {
        assert_eq!(shown_end("sk-1234567890abcdef"), " ending in cdef");
        assert_eq!(shown_end("short"), "");
    }
}
