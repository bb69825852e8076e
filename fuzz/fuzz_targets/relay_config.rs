//! Configurations of the relay: read, or refused with all that is wrong and its lines.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/relay_config` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    leafseal_relay::fuzzing::check_configuration(bytes);
});
