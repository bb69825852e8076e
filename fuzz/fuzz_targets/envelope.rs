//! Envelope strings and files from a stranger: parsed, opened and written again.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/envelope` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_envelope::fuzzing::check_envelope(bytes));
