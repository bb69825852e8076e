//! JSON documents from a stranger: walked whole and in pieces, and compared with a slow reader.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/document` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_document::fuzzing::check_document(bytes));
