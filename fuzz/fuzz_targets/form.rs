//! Forms from a stranger: found by name and by boundary, and compared with slow readers and a lenient one.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/form` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_document::fuzzing::check_form(bytes));
