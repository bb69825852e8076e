//! Calls of the HTTPS API from a stranger: paths, options and credentials, compared with readers by the letter.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/api` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| leafseal_server::fuzzing::check_call(bytes));
