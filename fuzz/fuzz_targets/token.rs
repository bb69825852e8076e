//! Client-side tokens, API keys and payloads from a stranger: read whole and in pieces, and compared with slow readers.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/token` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_engine::fuzzing::check_token(bytes));
