//! What a file holds after a patch, without a copy of what it held before.
//!
//! Stretches of the old bytes and of those that came, in order: a small change in a large file
//! costs little more than the file itself, in memory and in time. Pure. Made by `apply.rs`.

use std::borrow::Cow;

/// Where some bytes start, and how many they are. What lies behind the base is in what came.
pub(super) type Stretch = (usize, usize);

/// Bytes of a file, in stretches.
#[derive(Debug, Clone)]
pub(crate) struct Content<B = Vec<u8>> {
    base: Base<B>,
    added: Vec<u8>,
    stretches: Vec<Stretch>,
}

/// What most stretches are of.
#[derive(Debug, Clone)]
enum Base<B> {
    /// A file's bytes before the patch, shared with whoever read them.
    Shared(B),
    /// Others.
    Own(Vec<u8>),
}

impl<B: AsRef<[u8]>> Content<B> {
    /// Returns the content that these bytes are.
    pub(super) fn whole(bytes: Vec<u8>) -> Self {
        let stretches = vec![(0, bytes.len())];
        Self { base: Base::Own(bytes), added: Vec::new(), stretches }
    }

    /// Returns stretches of a file as it was, and of what came.
    pub(super) fn of_shared(base: B, added: Vec<u8>, stretches: Vec<Stretch>) -> Self {
        Self { base: Base::Shared(base), added, stretches }
    }

    /// Returns stretches of other bytes, and of what came.
    pub(super) fn of_own(base: Vec<u8>, added: Vec<u8>, stretches: Vec<Stretch>) -> Self {
        Self { base: Base::Own(base), added, stretches }
    }

    /// Returns the stretches in order; all together they are the content.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let base = self.base();
        self.stretches.iter().map(move |(start, bytes)| {
            let found = match start.checked_sub(base.len()) {
                Some(start) if *bytes > 0 => self.added.get(start..start + bytes),
                Some(_) | None => base.get(*start..start + bytes),
            };
            found.unwrap_or(b"")
        })
    }

    /// Returns how many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.stretches.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether it is these bytes.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        let mut rest = Some(bytes).filter(|bytes| bytes.len() == self.len());
        for part in self.parts() {
            rest = rest.and_then(|rest| rest.strip_prefix(part));
        }
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// Returns the bytes in one piece, which may be copied for it.
    pub(crate) fn to_bytes(&self) -> Cow<'_, [u8]> {
        let mut parts = self.parts();
        match (parts.next(), parts.next()) {
            (None, _) => Cow::Borrowed(b""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(_), Some(_)) => Cow::Owned(self.collect()),
        }
    }

    /// Is `to_bytes` for whoever needs them for good.
    pub(super) fn into_vec(self) -> Vec<u8> {
        match (self.base, &self.stretches[..]) {
            (Base::Own(bytes), [(0, len)]) if *len == bytes.len() => bytes,
            (base, _) => Self { base, ..self }.collect(),
        }
    }

    fn collect(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.parts().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    fn base(&self) -> &[u8] {
        match &self.base {
            Base::Shared(bytes) => bytes.as_ref(),
            Base::Own(bytes) => bytes,
        }
    }
}

impl<B: AsRef<[u8]>> PartialEq for Content<B> {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.to_bytes())
    }
}

impl<B: AsRef<[u8]>> Eq for Content<B> {}
