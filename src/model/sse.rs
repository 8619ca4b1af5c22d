//! The guard on a server-sent event stream: raw bytes in, the data of whole events out.
//!
//! Framing is `eventsource-stream`'s. The guard stands before it, because the parser panics on
//! a byte order mark, stalls on invalid UTF-8, loses a last event without a blank line, and
//! copies its whole buffer once per line. So it only ever sees whole, valid, short lines.
//! Knows nothing of JSON or of models, and does no IO; `responses/mod.rs` feeds it.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use eventsource_stream::EventStream;
use futures_util::Stream;
use memchr::memchr2;

/// The longest line and the longest event: an image as base64 fits, a runaway does not.
pub(crate) const EVENT_BYTES_MAX: usize = 16 << 20;

/// The most one response may send: far above any real answer, below what hurts a machine.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// How much the parser gets at once; its cost per line grows with what lies in its buffer.
const PIECE_BYTES_MAX: usize = 16 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a stream is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    /// One line or event is too long.
    #[error("the server sent an event longer than {} MiB", EVENT_BYTES_MAX >> 20)]
    EventTooLong,
    /// The response is too long.
    #[error("the server sent more than {} MiB in one response", RESPONSE_BYTES_MAX >> 20)]
    ResponseTooLong,
    /// The parser refused a line.
    #[error("the event stream could not be read")]
    Unreadable,
}

/// Cuts a byte stream into the data of its events.
#[derive(Debug, Default)]
pub(crate) struct SseGuard {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The data lines of events, each ended by a line feed.
    lines: Vec<u8>,
    /// Where in `lines` the event starts that is not whole yet.
    event_start: usize,
    /// Where in `lines` the next piece starts.
    piece_start: usize,
    /// What the parser gets at once.
    pieces: Vec<Range<usize>>,
    bytes_total: u64,
    line_seen: bool,
    /// The last chunk ended in a carriage return, so that a line feed may still belong to it.
    after_return: bool,
}

impl SseGuard {
    /// Takes a chunk and appends the data of each event that is whole now.
    pub(crate) fn feed(&mut self, chunk: &[u8], out: &mut Vec<String>) -> Result<(), SseError> {
        self.bytes_total = self.bytes_total.saturating_add(chunk.len() as u64);
        if self.bytes_total > RESPONSE_BYTES_MAX {
            return Err(SseError::ResponseTooLong);
        }
        let mut rest = chunk;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (head, tail) = rest.split_at(end);
            self.end_line(head)?;
            rest = match tail {
                [b'\r', b'\n', after @ ..] => after,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > EVENT_BYTES_MAX {
            return Err(SseError::EventTooLong);
        }
        self.parse_pieces(out)
    }

    /// Ends the stream: a last event counts although no blank line follows it.
    pub(crate) fn finish(&mut self, out: &mut Vec<String>) -> Result<(), SseError> {
        self.end_line(&[])?;
        self.end_event();
        self.parse_pieces(out)
    }

    fn end_line(&mut self, end: &[u8]) -> Result<(), SseError> {
        if self.line.is_empty() {
            return self.take_line(end);
        }
        self.line.extend_from_slice(end);
        let mut line = std::mem::take(&mut self.line);
        let taken = self.take_line(&line);
        line.clear();
        self.line = line;
        taken
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), SseError> {
        let mut line = line;
        if !self.line_seen {
            self.line_seen = true;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event();
            return Ok(());
        }
        // Only data is read from the events: names, ids and comments say nothing that the data
        // does not say, and what the parser does not see costs nothing.
        if !matches!(line.strip_prefix(b"data"), Some([] | [b':', ..])) {
            return Ok(());
        }
        let event_bytes = self.lines.len() - self.event_start;
        if event_bytes + line.len() > EVENT_BYTES_MAX {
            return Err(SseError::EventTooLong);
        }
        if self.lines.len() + line.len() - self.piece_start > PIECE_BYTES_MAX {
            self.end_piece();
        }
        match std::str::from_utf8(line) {
            Ok(_) => self.lines.extend_from_slice(line),
            Err(_) => self.lines.extend_from_slice(String::from_utf8_lossy(line).as_bytes()),
        }
        self.lines.push(b'\n');
        Ok(())
    }

    fn end_event(&mut self) {
        if self.lines.len() > self.event_start {
            self.lines.push(b'\n');
            self.end_piece();
            self.event_start = self.lines.len();
        }
    }

    fn end_piece(&mut self) {
        if self.lines.len() > self.piece_start {
            self.pieces.push(self.piece_start..self.lines.len());
            self.piece_start = self.lines.len();
        }
    }

    /// Runs the parser over the whole events and keeps the lines of the unfinished one.
    fn parse_pieces(&mut self, out: &mut Vec<String>) -> Result<(), SseError> {
        if self.event_start == 0 {
            return Ok(());
        }
        let unfinished = self.pieces.partition_point(|piece| piece.end <= self.event_start);
        let pieces =
            self.pieces.iter().take(unfinished).map(|piece| {
                Ok::<_, Infallible>(self.lines.get(piece.clone()).unwrap_or_default())
            });
        parse_all(pieces, out)?;
        self.lines.drain(..self.event_start);
        self.pieces.drain(..unfinished);
        for piece in &mut self.pieces {
            *piece = piece.start - self.event_start..piece.end - self.event_start;
        }
        self.piece_start -= self.event_start;
        self.event_start = 0;
        Ok(())
    }
}

/// Polls the parser to its end. Its input is all there, so it never waits.
fn parse_all<'a>(
    pieces: impl Iterator<Item = Result<&'a [u8], Infallible>>,
    out: &mut Vec<String>,
) -> Result<(), SseError> {
    let mut events = EventStream::new(futures_util::stream::iter(pieces));
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Pin::new(&mut events);
    loop {
        match events.as_mut().poll_next(&mut cx) {
            Poll::Ready(Some(Ok(event))) => out.push(event.data),
            Poll::Ready(Some(Err(_))) => return Err(SseError::Unreadable),
            Poll::Ready(None) | Poll::Pending => return Ok(()),
        }
    }
}
