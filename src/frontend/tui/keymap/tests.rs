//! Tests of the keymap.
