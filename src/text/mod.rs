//! Text as value: cutting, cleaning, comparing and writing it.
//!
//! Pure functions from value to text. Knows nothing of who reads the result, of
//! terminals or of files. Called by every layer above.

pub(crate) mod ansi;
pub(crate) mod closest;
pub(crate) mod diff;
pub(crate) mod hex;
pub(crate) mod hosts;
pub(crate) mod secrets;
pub(crate) mod truncate;

#[cfg(test)]
mod tests;
