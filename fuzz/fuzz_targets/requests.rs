//! HTTP/1.1 from a stranger: followed whole and in pieces, and compared with the parser of the HTTP library.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/requests` through it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    leafseal_http::fuzzing::check_requests(bytes);
});
