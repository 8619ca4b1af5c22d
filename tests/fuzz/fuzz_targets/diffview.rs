//! Shows any text as a change of files; every line must fit and be clean. The promise is held in `src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gimlet::fuzzing::diffview(data));
