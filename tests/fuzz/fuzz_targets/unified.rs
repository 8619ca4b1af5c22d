//! Applies any unified diff to any file, and the one between any two. The promise is held in `src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gimlet::fuzzing::unified(data));
