//! Paths of requests: every way of writing one is judged as the usual servers read it, or refused.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/path` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    leafseal_relay::fuzzing::check_path(bytes);
});
