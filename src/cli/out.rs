//! Output of subcommands: lines to stdout and stderr.
//!
//! A reader that closes its end early (`| head -1`) is a quiet end, never a panic and never an
//! error. Called by `cli/commands/*` and by `cli/mod.rs`.

use std::io::{self, ErrorKind, Write};

use crate::text::ansi::{visible, visible_line};

/// Writes a line to stdout.
pub(crate) fn write_out(line: &str) -> io::Result<()> {
    write_line(&mut io::stdout().lock(), line)
}

/// Writes a line to stderr.
pub(crate) fn write_err(line: &str) -> io::Result<()> {
    write_line(&mut io::stderr().lock(), line)
}

/// Writes an error and its hint to stderr. That this fails can be told to nobody.
pub(crate) fn report_error(message: &str, hint: Option<&str>) {
    let _ = write_err(&render_error(message, hint));
}

fn render_error(message: &str, hint: Option<&str>) -> String {
    // Names of files and servers are in both.
    let hint = hint.map(|hint| format!("\n  hint: {}", visible_line(hint)));
    format!("error: {}{}", visible_line(message), hint.unwrap_or_default())
}

fn write_line(out: &mut impl Write, line: &str) -> io::Result<()> {
    // Whatever a line quotes, no terminal acts on it. One write, so that lines of other
    // processes do not get in between.
    match out.write_all(format!("{}\n", visible(line)).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
        assert!(write_line(&mut Failing(ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write_line(&mut Failing(ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn no_line_holds_what_a_terminal_acts_on() {
        let mut out = Vec::new();
        write_line(&mut out, "a\u{1b}[2J\tb\nc\u{202e}").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a␛[2J\tb\nc⟨U+202E⟩\n");
    }

    #[test]
    fn an_error_and_its_hint_are_two_lines_whatever_they_say() {
        let shown = render_error("no \u{1b}[2Jfile\n", Some("see \u{202e}that"));
        assert_eq!(shown, "error: no ␛[2Jfile␊\n  hint: see ⟨U+202E⟩that");
    }
}
