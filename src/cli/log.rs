//! What `GIMLET_LOG` asks for, on stderr.
//!
//! A log quotes servers, files and tools, so its lines are cleaned like all that a terminal
//! gets. Called by `cli/mod.rs`.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::cli::out::write_err;
use crate::text::ansi::visible;

/// Logs to stderr what `GIMLET_LOG` asks for, e.g. `GIMLET_LOG=gimlet=debug`; else nothing.
pub(crate) fn start() {
    let Ok(filter) = std::env::var("GIMLET_LOG") else { return };
    let filter = match EnvFilter::try_new(&filter) {
        Ok(filter) => filter,
        Err(error) => {
            let message = format!("note: GIMLET_LOG is not understood: {error}");
            // Without a stderr there is no log either.
            let _ = write_err(&visible(&message));
            return;
        }
    };
    // A second subscriber leaves things as they are.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| Cleaned(io::stderr()))
        .try_init();
}

/// Writes text with everything shown that a terminal would act on. Gets whole lines.
struct Cleaned<W>(W);

impl<W: Write> Write for Cleaned<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_escape_is_shown() {
        let mut out = Vec::new();
        Cleaned(&mut out).write_all("a\u{1b}[2J\u{9b}b\u{202e}\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a␛[2J\\u{9b}b⟨U+202E⟩\n");
    }
}
