//! The composer: where a message is written.
//!
//! Its state is one value, `Composer`; text and actions come in, lines and a draft come out.
//! Every step costs what it touches, whatever the length of the text. Knows no terminal, no
//! file and no clock. Owned by the screen's model, driven by its `update`.

mod apply;
mod buffer;
mod burst;
mod graphemes;
mod history;
mod kill;
mod layout;
mod paths;
#[cfg(test)]
mod properties;
mod query;
mod search;
mod state;
#[cfg(test)]
mod tests;
mod tokens;
mod undo;
mod view;
mod vim;
mod vim_motion;

pub(crate) use burst::{Burst, Input};
pub(crate) use paths::image_paths;
pub(crate) use query::{Kind, Query};
pub(crate) use state::{Composer, Draft, Outcome, VimKeys};
