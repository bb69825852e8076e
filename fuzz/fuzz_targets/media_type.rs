//! Values of `Content-Type`: readers that look for a word alone find the same parameters.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/media_type` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_document::fuzzing::check_media_type(bytes));
