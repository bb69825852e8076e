//! Wiping memory that held secrets.

#[cfg(not(miri))]
use std::arch::asm;

/// Writes zeros. The compiler keeps the writes even if the memory is never read again.
#[inline]
pub(crate) fn wipe(bytes: &mut [u8]) {
    overwrite(bytes, 0);
}

/// Overwrites values with a zero of their type, likewise.
#[inline]
pub(crate) fn overwrite<T: Copy>(values: &mut [T], zero: T) {
    values.fill(zero);
    // Miri executes no assembly; it leaves no write out either.
    #[cfg(not(miri))]
    // SAFETY: no instruction is executed. The compiler must assume that the memory behind the pointer is read here.
    unsafe {
        asm!("/* {0} */", in(reg) values.as_mut_ptr(), options(nostack, preserves_flags))
    }
}
