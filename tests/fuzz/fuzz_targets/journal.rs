//! Recovers from a journal record of any bytes. The promise is held in `src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gimlet::fuzzing::journal(data));
