//! Applies any patch to any file; lines it does not name must stay. The promise is held in `src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gimlet::fuzzing::patch(data));
