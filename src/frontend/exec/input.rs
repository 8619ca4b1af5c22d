//! What `exec` gives the model: the prompt from argument and stdin, and images.
//!
//! Everything is read before a session starts, so that a missing image or prompt costs
//! nothing. Stdin is bounded, and one that sends nothing never holds up a prompt that was
//! given. Called by `cli`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

use crate::protocol::UserInput;

/// More text than any model reads at once.
const STDIN_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The largest image servers take.
const IMAGE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How long an open socket may take to say its first word when a prompt was given: parents
/// that start programs through one often leave it open and say nothing.
const SOCKET_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long a pipe may take until the user is told what is waited for.
const PIPE_QUIET_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// How long a pipe may take after that: what stands before it in a pipeline may have to work
/// for its first line, and a context that is left out silently is worse than a wait.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// What is wrong with the input.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// No argument, and nobody pipes anything.
    #[error("no prompt was given")]
    NoPrompt,
    /// Stdin was to be the prompt and is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Stdin cannot be read.
    #[error("cannot read stdin: {0}")]
    Stdin(io::Error),
    /// Stdin does not end.
    #[error("stdin holds more than {} MiB", STDIN_BYTES_MAX >> 20)]
    StdinTooLarge,
    /// An image cannot be read.
    #[error("cannot read image {}: {reason}", path.display())]
    Image {
        /// The image as it was named.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file of `-o` cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    MessageFile {
        /// The file as it was named.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
}

/// The prompt, and a word for the user when stdin was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptText {
    /// The prompt.
    pub(crate) text: String,
    /// One line, for stderr.
    pub(crate) note: Option<&'static str>,
}

/// What stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StdinKind {
    /// A person.
    Terminal,
    /// A file, or nothing: its end is near.
    File,
    /// The end of a pipeline, or an open pipe of a parent that may never say anything.
    Pipe,
    /// Something a parent opened, which mostly says nothing.
    Socket,
}

/// Where the prompt comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PromptSource<'a> {
    Argument(&'a str),
    Stdin,
    /// The argument, and stdin as its context, if it begins in time.
    Both(&'a str),
}

impl InputError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoPrompt => "give one: gimlet exec \"fix the failing test\", or pipe it in",
            Self::EmptyPrompt => {
                "say what to do: gimlet exec \"fix the failing test\", or pipe it in"
            }
            Self::Stdin(_) => "check what stdin is connected to",
            Self::StdinTooLarge => "put it in a file and name the file in the prompt",
            Self::MessageFile { .. } => "name a file in a directory that exists",
            Self::Image { .. } => "images are PNG, JPEG, GIF or WebP files of at most 10 MiB",
        }
    }
}

/// Returns the prompt from the argument (`-` stands for stdin) and from stdin. `on_wait` is
/// called when a pipe lets us wait.
pub(crate) fn read_prompt(
    argument: Option<&str>,
    on_wait: impl FnOnce(),
) -> Result<PromptText, InputError> {
    let stdin = io::stdin();
    let kind = stdin_kind(&stdin);
    match decide_source(argument, kind)? {
        PromptSource::Argument(text) => Ok(PromptText { text: text.to_owned(), note: None }),
        PromptSource::Stdin => {
            let text = read_bounded(stdin.lock())?;
            if text.trim().is_empty() {
                return Err(InputError::EmptyPrompt);
            }
            Ok(PromptText { text, note: None })
        }
        PromptSource::Both(argument) => {
            if !begins_in_time(&stdin, kind, on_wait) {
                let note = Some("stdin sent nothing and is not read; the prompt is");
                return Ok(PromptText { text: argument.to_owned(), note });
            }
            let context = read_bounded(stdin.lock())?;
            Ok(PromptText { text: build_prompt(argument, &context), note: None })
        }
    }
}

/// Reads images as the model takes them.
pub(crate) fn load_images(paths: &[PathBuf]) -> Result<Vec<UserInput>, InputError> {
    paths.iter().map(|path| load_image(path)).collect()
}

/// Checks that the final message will have a place, before it costs anything.
pub(crate) fn check_message_file(path: &Path) -> Result<(), InputError> {
    let error = |reason| InputError::MessageFile { path: path.to_owned(), reason };
    if path.is_dir() {
        return Err(error("it is a directory"));
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            Err(error("its directory does not exist"))
        }
        Some(_) | None => Ok(()),
    }
}

fn decide_source(argument: Option<&str>, stdin: StdinKind) -> Result<PromptSource<'_>, InputError> {
    match (argument, stdin) {
        (Some("-"), _) | (None, StdinKind::File | StdinKind::Pipe | StdinKind::Socket) => {
            Ok(PromptSource::Stdin)
        }
        (None, StdinKind::Terminal) => Err(InputError::NoPrompt),
        (Some(text), _) if text.trim().is_empty() => Err(InputError::EmptyPrompt),
        (Some(text), StdinKind::Terminal) => Ok(PromptSource::Argument(text)),
        (Some(argument), StdinKind::File | StdinKind::Pipe | StdinKind::Socket) => {
            Ok(PromptSource::Both(argument))
        }
    }
}

fn build_prompt(argument: &str, context: &str) -> String {
    if context.trim().is_empty() {
        return argument.to_owned();
    }
    format!("{argument}\n\n<stdin>\n{}\n</stdin>", context.trim_end())
}

fn stdin_kind(stdin: &io::Stdin) -> StdinKind {
    if stdin.is_terminal() {
        return StdinKind::Terminal;
    }
    match rustix::fs::fstat(stdin).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Fifo) => StdinKind::Pipe,
        Ok(FileType::Socket) => StdinKind::Socket,
        // A character device that is no terminal is /dev/null, or answers at once like it.
        Ok(_) | Err(_) => StdinKind::File,
    }
}

/// Waits for the first byte, or the end, of what may never come.
fn begins_in_time(stdin: &impl AsFd, kind: StdinKind, on_wait: impl FnOnce()) -> bool {
    match kind {
        StdinKind::Terminal | StdinKind::File => true,
        StdinKind::Socket => has_begun(stdin, &SOCKET_WAIT),
        StdinKind::Pipe => {
            has_begun(stdin, &PIPE_QUIET_WAIT) || {
                on_wait();
                has_begun(stdin, &PIPE_WAIT)
            }
        }
    }
}

fn has_begun(stdin: &impl AsFd, at_most: &Timespec) -> bool {
    let mut fds = [PollFd::new(stdin, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(at_most)) {
            // Stopped and continued by the user, for one.
            Err(rustix::io::Errno::INTR) => {}
            result => return result.is_ok_and(|ready| ready > 0),
        }
    }
}

fn read_bounded(input: impl Read) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    match input.take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > STDIN_BYTES_MAX => Err(InputError::StdinTooLarge),
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A closed stdin is an empty one.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            Ok(String::new())
        }
        Err(error) => Err(InputError::Stdin(error)),
    }
}

fn load_image(path: &Path) -> Result<UserInput, InputError> {
    let failed = |reason: String| InputError::Image { path: path.to_owned(), reason };
    // Looked at before it is opened: opening a FIFO would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(|error| failed(plain_reason(&error)))?;
    if !metadata.is_file() {
        return Err(failed("not a regular file".to_owned()));
    }
    if metadata.len() > IMAGE_BYTES_MAX {
        return Err(failed(format!("{} bytes are more than 10 MiB", metadata.len())));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(IMAGE_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| failed(plain_reason(&error)))?;
    let Some(mime_type) = image_type(&bytes) else {
        return Err(failed("not an image that models take".to_owned()));
    };
    let url = format!("data:{mime_type};base64,{}", STANDARD.encode(&bytes));
    Ok(UserInput::Image { path: path.to_owned(), url })
}

/// Returns the type by the first bytes; names lie more often.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns the system's words without its number.
fn plain_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_comes_from_argument_or_stdin_or_both() {
        use PromptSource::{Argument, Both, Stdin};
        use StdinKind::{File, Pipe, Socket, Terminal};
        let cases = [
            (Some("p"), Terminal, Some(Argument("p"))),
            (Some("p"), Pipe, Some(Both("p"))),
            (Some("p"), Socket, Some(Both("p"))),
            (Some("p"), File, Some(Both("p"))),
            (Some("-"), Pipe, Some(Stdin)),
            (Some("-"), Terminal, Some(Stdin)),
            (None, Pipe, Some(Stdin)),
            (None, File, Some(Stdin)),
            (None, Terminal, None),
            (Some("  "), Pipe, None),
        ];
        for (argument, stdin, expected) in cases {
            assert_eq!(decide_source(argument, stdin).ok(), expected, "{argument:?} {stdin:?}");
        }
    }

    #[test]
    fn a_slow_pipe_is_waited_for_and_the_user_is_told() {
        use std::io::Write;
        let (reader, mut writer) = io::pipe().unwrap();
        let mut told = 0;
        let speaks_late = || {
            told += 1;
            writer.write_all(b"x").unwrap();
        };
        assert!(begins_in_time(&reader, StdinKind::Pipe, speaks_late));
        assert_eq!(told, 1);

        // An end is a beginning too, and nothing is waited for.
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert!(begins_in_time(&reader, StdinKind::Pipe, || panic!("it had ended")));
    }

    #[test]
    fn an_open_socket_is_not_waited_for() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!begins_in_time(&ours, StdinKind::Socket, || panic!("nobody is told")));
    }

    #[test]
    fn piped_text_is_context_and_silence_is_nothing() {
        assert_eq!(build_prompt("why?", "line\n"), "why?\n\n<stdin>\nline\n</stdin>");
        assert_eq!(build_prompt("why?", " \n"), "why?");
    }

    #[test]
    fn stdin_is_bounded() {
        let exact = io::repeat(b'x').take(STDIN_BYTES_MAX);
        assert_eq!(read_bounded(exact).unwrap().len() as u64, STDIN_BYTES_MAX);
        assert!(matches!(read_bounded(io::repeat(b'x')), Err(InputError::StdinTooLarge)));
    }

    #[test]
    fn images_are_told_by_their_bytes() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("photo.txt");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\n").unwrap();
        let images = load_images(std::slice::from_ref(&path)).unwrap();
        let url = "data:image/png;base64,iVBORw0KGgo=".to_owned();
        assert_eq!(images, [UserInput::Image { path: path.clone(), url }]);
        std::fs::write(&path, b"<svg>").unwrap();
        for bad in [path, home.path().to_owned(), home.path().join("none.png")] {
            assert!(load_images(&[bad]).is_err());
        }
    }
}
