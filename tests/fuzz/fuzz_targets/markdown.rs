//! Lays Markdown out as it arrives; the lines must be those of the whole. The promise is held in `src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gimlet::fuzzing::markdown(data));
