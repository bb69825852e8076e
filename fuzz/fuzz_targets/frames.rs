//! MessagePack-RPC frames from a stranger: scanned, decoded and encoded again.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/frames` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_protocol::fuzzing::check_frames(bytes));
