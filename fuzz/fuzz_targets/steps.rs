//! Bodies from a stranger: each piece of work that the relay offloads takes no more steps than its bound for a body of that size.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/steps` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    leafseal_relay::fuzzing::check_steps(bytes);
});
