//! Walks a session file's chain of hashes and names every line that breaks it.
//!
//! Strict where reading a session is lenient: the bytes of a line are what counts. A torn tail,
//! which a crash leaves, and repairs, which the log tells of itself, are told apart from
//! damage. Changes nothing and takes no lock. Called by `gimlet audit`.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::text::hex::encode_hex;

/// A line of ours is never longer.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// Faults that are kept; a file with more is lost anyway.
const FAULTS_MAX: usize = 1000;

/// What was found on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// Whole lines.
    pub(crate) lines: u64,
    /// SHA-256 (hex) of the last whole line.
    pub(crate) last_hash: String,
    /// What is wrong, in order of lines.
    pub(crate) faults: Vec<Fault>,
    /// Lines that say that the file was repaired.
    pub(crate) repairs: Vec<Repair>,
    /// Bytes after the last line end: a crash, or a session at work.
    pub(crate) torn_bytes: u64,
}

/// A line that breaks the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The line, from 1.
    pub(crate) line: u64,
    /// What is wrong with it.
    pub(crate) kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// It is no event.
    Unreadable,
    /// It keeps another hash of the line before it than that line has.
    Unlinked,
    /// Its number leaves some out.
    Missing {
        /// How many.
        count: u64,
    },
    /// Its number is not above that of the line before.
    OutOfOrder {
        /// Its number.
        seq: u64,
    },
    /// It belongs to another session than the first line.
    OtherSession,
}

/// A line that says that the file was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The line, from 1.
    pub(crate) line: u64,
    /// What was found then.
    pub(crate) cause: String,
    /// Bytes set aside.
    pub(crate) bytes: u64,
}

/// A whole line, while the file is walked.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// Its bytes, without the line end.
    pub(crate) bytes: &'a [u8],
    /// Their SHA-256 (hex).
    pub(crate) hash: &'a str,
}

/// What every version writes around an event.
#[derive(Deserialize)]
struct Frame {
    seq: u64,
    prev_hash: String,
    session: String,
    msg: Message,
}

#[derive(Deserialize)]
struct Message {
    r#type: String,
    #[serde(default)]
    cause: serde_json::Value,
    #[serde(default)]
    bytes: serde_json::Value,
}

/// Walks a file to its end; `on_line` sees each whole line.
pub(crate) fn walk(mut file: impl BufRead, mut on_line: impl FnMut(Line<'_>)) -> io::Result<Chain> {
    let mut chain = Chain::default();
    let mut before = Before::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(chain);
        }
        if line.last() != Some(&b'\n') && (read as u64) < LINE_BYTES_MAX {
            chain.torn_bytes = read as u64;
            return Ok(chain);
        }
        line.pop_if(|byte| *byte == b'\n');
        chain.lines += 1;
        chain.take(&line, &mut before);
        chain.last_hash = encode_hex(&Sha256::digest(&line));
        on_line(Line { bytes: &line, hash: &chain.last_hash });
    }
}

/// What a line is compared with.
#[derive(Default)]
struct Before {
    seq: u64,
    session: Option<String>,
}

impl Chain {
    /// Returns whether nothing is wrong but, perhaps, a torn tail.
    pub(crate) fn is_whole(&self) -> bool {
        self.faults.is_empty() && self.lines > 0
    }

    fn take(&mut self, line: &[u8], before: &mut Before) {
        let Ok(frame) = serde_json::from_slice::<Frame>(line) else {
            return self.fault(FaultKind::Unreadable);
        };
        let Frame { seq, prev_hash, session, msg } = frame;
        let expected = before.seq.saturating_add(1);
        if seq > expected {
            self.fault(FaultKind::Missing { count: seq - expected });
        } else if seq < expected {
            self.fault(FaultKind::OutOfOrder { seq });
        }
        // Before `take`, `last_hash` is that of the line before.
        if prev_hash != self.last_hash {
            self.fault(FaultKind::Unlinked);
        }
        if before.session.get_or_insert_with(|| session.clone()) != &session {
            self.fault(FaultKind::OtherSession);
        }
        before.seq = before.seq.max(seq);
        if msg.r#type == "repaired" && self.repairs.len() < FAULTS_MAX {
            let cause = msg.cause.as_str().unwrap_or_default().to_owned();
            let bytes = msg.bytes.as_u64().unwrap_or_default();
            self.repairs.push(Repair { line: self.lines, cause, bytes });
        }
    }

    fn fault(&mut self, kind: FaultKind) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { line: self.lines, kind });
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, kind } = self;
        match kind {
            FaultKind::Unreadable => write!(f, "line {line}: this is no event"),
            FaultKind::Unlinked if *line == 1 => {
                write!(f, "line 1: it follows a line that is missing")
            }
            FaultKind::Unlinked => write!(
                f,
                "line {line}: it does not follow from line {}; one of the two was changed, \
                 moved or put in",
                line - 1
            ),
            FaultKind::Missing { count: 1 } => {
                write!(f, "line {line}: 1 line before it is missing")
            }
            FaultKind::Missing { count } => {
                write!(f, "line {line}: {count} lines before it are missing")
            }
            FaultKind::OutOfOrder { seq } => {
                write!(f, "line {line}: event {seq} stands in the wrong place")
            }
            FaultKind::OtherSession => write!(f, "line {line}: it belongs to another session"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "01a1fd0d-043f-7c81-b79a-636f3f116ff1";

    fn file(messages: &[&str]) -> Vec<u8> {
        let (mut text, mut prev) = (String::new(), String::new());
        for (seq, message) in (1..).zip(messages) {
            let line = format!(
                r#"{{"v":1,"seq":{seq},"prev_hash":"{prev}","session":"{ID}","msg":{message}}}"#
            );
            prev = encode_hex(&Sha256::digest(&line));
            text += &line;
            text.push('\n');
        }
        text.into_bytes()
    }

    fn warnings(count: usize) -> Vec<u8> {
        let message = r#"{"type":"warning","message":"one two"}"#;
        file(&vec![message; count])
    }

    fn check(bytes: &[u8]) -> Chain {
        walk(bytes, |_| {}).unwrap()
    }

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    fn faults(bytes: &[u8]) -> Vec<String> {
        check(bytes).faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn a_whole_file_is_whole_and_a_repair_and_a_torn_tail_are_told() {
        let repaired = r#"{"type":"repaired","cause":"a torn line","bytes":12}"#;
        let unknown = r#"{"type":"hologram","depth":3}"#;
        let mut bytes = file(&[r#"{"type":"session_started"}"#, repaired, unknown]);
        bytes.extend(b"{\"v\":1,\"seq\":4");
        let mut seen = Vec::new();
        let chain = walk(bytes.as_slice(), |line| seen.push(line.hash.to_owned())).unwrap();
        assert!(chain.is_whole(), "{chain:?}");
        assert_eq!((chain.lines, chain.torn_bytes), (3, 14));
        let repair = Repair { line: 2, cause: "a torn line".to_owned(), bytes: 12 };
        assert_eq!(chain.repairs, [repair]);
        assert_eq!(seen.last(), Some(&chain.last_hash));
        assert!(!check(b"").is_whole());
    }

    #[test]
    fn each_kind_of_damage_is_named_with_its_line() {
        let whole = warnings(5);
        let joined = |order: &[usize]| {
            order.iter().flat_map(|at| lines(&whole)[*at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            faults(&joined(&[0, 1, 3, 4])),
            [
                "line 3: 1 line before it is missing",
                "line 3: it does not follow from line 2; one of the two was changed, moved or put in"
            ]
        );
        assert_eq!(faults(&joined(&[0, 2, 1, 3, 4])).len(), 5);
        assert_eq!(
            faults(&joined(&[1, 2])),
            ["line 1: 1 line before it is missing", "line 1: it follows a line that is missing"]
        );
        let text = String::from_utf8(whole.clone()).unwrap();
        let foreign = text.replacen(ID, "01a1fd0d-043f-7c81-b79a-636f3f116ff2", 2);
        assert!(
            faults(foreign.as_bytes())
                .contains(&"line 3: it belongs to another session".to_owned())
        );
        let blank = text.replacen('\n', "\n\n", 1);
        assert_eq!(faults(blank.as_bytes()).first().unwrap(), "line 2: this is no event");
    }

    proptest! {
        #[test]
        fn any_changed_byte_but_of_the_last_line_is_found(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = warnings(6);
            let last = lines(&bytes).last().unwrap().len();
            let protected = bytes.len() - last;
            let place = at.index(protected);
            prop_assume!(bytes[place] != byte);
            bytes[place] = byte;
            prop_assert!(!check(&bytes).is_whole());
        }

        #[test]
        fn a_changed_last_line_has_another_hash(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = warnings(3);
            let whole = check(&bytes);
            let last = lines(&bytes).last().unwrap().len();
            let place = bytes.len() - last + at.index(last);
            prop_assume!(bytes[place] != byte);
            bytes[place] = byte;
            let chain = check(&bytes);
            prop_assert!(chain.last_hash != whole.last_hash);
        }

        #[test]
        fn any_swapped_deleted_or_repeated_line_is_found(from in 0..8_usize, to in 0..8_usize) {
            let all = lines(&warnings(8));
            let check = |lines: &[Vec<u8>]| check(&lines.concat()).is_whole();
            prop_assert!(check(&all));
            let mut swapped = all.clone();
            swapped.swap(from, to);
            prop_assert_eq!(check(&swapped), from == to);
            let mut deleted = all.clone();
            deleted.remove(from);
            // Cutting off the end is what no chain can find.
            prop_assert_eq!(check(&deleted), from == 7);
            let mut repeated = all.clone();
            repeated.insert(to, all[from].clone());
            prop_assert!(!check(&repeated));
        }
    }
}
