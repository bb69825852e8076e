//! Tests whether timing depends on a secret: secrets are marked as undefined for Valgrind, which then reports every branch and
//! every address that depends on them (Langley's ctgrind). `make constant-time` builds and runs these tests; outside Valgrind they
//! fail.

use std::arch::asm;

/// Requests to Valgrind and its Memcheck (`valgrind.h`, `memcheck.h`).
const RUNNING_ON_VALGRIND: u64 = 0x1001;
const COUNT_ERRORS: u64 = 0x1201;
const MAKE_UNDEFINED: u64 = (b'M' as u64) << 24 | (b'C' as u64) << 16 | 1;
const MAKE_DEFINED: u64 = MAKE_UNDEFINED + 1;

/// A client request to Valgrind, which recognises this sequence of instructions; on a CPU it has no effect and returns 0.
fn request(number: u64, [first, second]: [u64; 2]) -> u64 {
    let arguments = [number, first, second, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: rotates a register by 128 bits and swaps one with itself; Valgrind reads the arguments behind `rax`.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rdx") answer, in("rax") arguments.as_ptr(), options(nostack),
        );
    }
    answer
}

/// Marks a value as secret: nothing may be decided by it.
pub(crate) fn hide<T: ?Sized>(value: &mut T) {
    let size = size_of_val(value) as u64;
    request(MAKE_UNDEFINED, [std::ptr::from_mut(value).cast::<u8>() as u64, size]);
}

/// Marks a value as public, although it is derived from a secret.
pub(crate) fn reveal<T: ?Sized>(value: &mut T) {
    let size = size_of_val(value) as u64;
    request(MAKE_DEFINED, [std::ptr::from_mut(value).cast::<u8>() as u64, size]);
}

/// Fails where Valgrind does not watch.
pub(crate) fn assert_watched() {
    assert_eq!(request(RUNNING_ON_VALGRIND, [0; 2]), 1, "these tests run under Valgrind: make constant-time");
}

/// Number of errors that Valgrind reported while `work` ran.
pub(crate) fn complaints(work: impl FnOnce()) -> u64 {
    assert_watched();
    let before = request(COUNT_ERRORS, [0; 2]);
    work();
    request(COUNT_ERRORS, [0; 2]) - before
}
