//! JSONPath selectors from a stranger: compiled, and matched in the stream and in the tree.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/selectors` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_document::fuzzing::check_selectors(bytes));
