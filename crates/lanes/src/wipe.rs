//! Wiping memory that held secrets.

use std::arch::asm;

/// Zeros, in a way that the compiler keeps even where nobody reads them again.
#[inline]
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // SAFETY: no instruction is executed. The compiler must take it that the memory behind the pointer is read here.
    unsafe { asm!("/* {0} */", in(reg) bytes.as_mut_ptr(), options(nostack, preserves_flags)) }
}
