//! The steps of a commit, as they are done, taken back and written to the journal.
//!
//! Each stands on names in directories. What tells "done" from "not done" later is the new
//! file's stamp and whether the temporary name is taken. Knows no content and touches nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FileType, RawMode, Stat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::store::commit::dirs::DirId;
use crate::store::commit::disk::kind_of;

/// Digits of a commit's name.
const COMMIT_DIGITS: usize = 32;

/// How temporary names begin; hidden, and telling whose they are.
pub(super) const TEMP_PREFIX: &str = ".gimlet-";

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    /// What is done.
    pub(super) act: Act,
    /// The directory of the name.
    pub(super) dir: DirId,
    /// The name.
    #[serde(with = "raw_name")]
    pub(super) name: OsString,
    /// The directory of the temporary name: the same, unless that one comes or goes itself.
    /// Of a move: the directory it goes to.
    pub(super) temp_dir: DirId,
    /// Of a move: the name it goes to; else empty.
    #[serde(default, skip_serializing_if = "is_no_name", with = "raw_name")]
    pub(super) to: OsString,
    /// Of the file that goes, so that it is never taken for what comes in its place; of the
    /// file that is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Stamp>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    /// Renames the name to the temporary one.
    Take,
    /// Renames the temporary name to the name, which is free.
    Put,
    /// Exchanges the two.
    Swap,
    /// Renames the name to another, which is free.
    Move,
    /// Makes a directory.
    MakeDir,
    /// Takes an empty directory away.
    RemoveDir {
        /// Its mode, for when it has to come back.
        mode: RawMode,
    },
    /// Takes a directory away at the very end, if it is empty then.
    DropDir,
    /// Gives a directory its mode bits.
    SetMode {
        /// Those it had.
        old: RawMode,
        /// Those it gets.
        new: RawMode,
        /// Whether it waits for the very end: with these bits nothing can be done in there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        last: bool,
    },
}

/// What a file is known by: the same number, size and time is the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    number: u64,
    size: i64,
    changed_ns: i64,
    is_link: bool,
}

impl Stamp {
    /// Returns the stamp of what was looked at.
    pub(super) fn new(stat: &Stat) -> Self {
        let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        Self {
            number: stat.st_ino,
            size: stat.st_size,
            changed_ns: i64::try_from(nanos).unwrap_or(i64::MAX),
            is_link: kind_of(stat) == FileType::Symlink,
        }
    }
}

impl Act {
    /// Returns whether a temporary file is made before this step.
    pub(super) fn brings(self) -> bool {
        matches!(self, Self::Put | Self::Swap)
    }

    /// Returns whether it is done at the very end, when nothing is taken back any more.
    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::DropDir | Self::SetMode { last: true, .. })
    }
}

fn is_no_name(name: &OsStr) -> bool {
    name.is_empty()
}

/// Returns how many steps open directories; they come first, before new files are made.
pub(super) fn count_opens(steps: &[Step]) -> usize {
    let opens = |step: &&Step| matches!(step.act, Act::SetMode { last: false, .. });
    steps.iter().take_while(opens).count()
}

/// Returns the temporary name of a step.
pub(super) fn temp_name(commit: &str, index: usize) -> OsString {
    format!("{TEMP_PREFIX}{commit}-{index}").into()
}

/// Returns whether a name is one that a commit gives, and not merely like one.
pub(crate) fn is_temp_name(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(TEMP_PREFIX.as_bytes()) else { return false };
    let Some((commit, index)) = rest.split_at_checked(COMMIT_DIGITS) else { return false };
    let index = index.strip_prefix(b"-").unwrap_or_default();
    let index = index.strip_suffix(b"a").unwrap_or(index);
    commit.iter().all(u8::is_ascii_hexdigit)
        && !index.is_empty()
        && index.iter().all(u8::is_ascii_digit)
}

/// Returns a second temporary name, used where the file system cannot exchange.
pub(super) fn aside_name(temp: &OsStr) -> OsString {
    let mut name = temp.to_owned();
    name.push("a");
    name
}

/// Names in JSON: as text, or as a list of bytes where they are none.
pub(super) mod raw_name {
    use super::{
        Deserialize, Deserializer, OsStr, OsStrExt, OsString, OsStringExt, Serialize, Serializer,
    };

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Raw {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(in crate::store::commit) fn serialize<S: Serializer>(
        name: &OsStr,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match name.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Raw::Bytes(name.as_bytes().to_vec()).serialize(serializer),
        }
    }

    pub(in crate::store::commit) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<OsString, D::Error> {
        Ok(match Raw::deserialize(deserializer)? {
            Raw::Text(text) => text.into(),
            Raw::Bytes(bytes) => OsString::from_vec(bytes),
        })
    }
}
