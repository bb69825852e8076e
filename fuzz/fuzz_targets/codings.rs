//! Coded bodies from a stranger: gzip, brotli and zstd, decoded within every bound, under a bound on the memory of the process.
//! The property itself is in the crate, where an ordinary test replays `fuzz/corpus/codings` through it.

#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::fuzz_target;

/// Beyond the bound an allocation fails, and with it the run.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fuzz_target!(|bytes: &[u8]| {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + leafseal_relay::fuzzing::MEMORY_MAX).expect("more than there is now");
    leafseal_relay::fuzzing::check_coding(bytes);
    ALLOCATOR.set_limit(usize::MAX).expect("no limit");
});
