//! Scenario files of the load tester: read, or refused with all that is wrong and its places.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/scenario` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    leafseal_load::fuzzing::check_scenario(bytes);
});
