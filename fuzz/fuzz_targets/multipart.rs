//! Multipart forms: a part that a lenient reader takes for a selected one is found, or the form refused.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/multipart` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_document::fuzzing::check_multipart_form(bytes));
