//! Bytes that are overwritten, and plain values that overwrite themselves when they are dropped.

use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};
use std::ptr::from_mut;

/// Overwrites bytes with zeros, in a way that no compiler leaves out and as fast as memory is written: for long buffers, which `zeroize`
/// overwrites byte by byte.
///
/// ```
/// let mut plaintext = b"4111111111111111".to_vec();
/// leafseal_crypto::wipe(&mut plaintext);
/// assert_eq!(plaintext, [0; 16]);
/// ```
pub fn wipe(bytes: &mut [u8]) {
    // SAFETY: the bytes are exclusively borrowed.
    unsafe { boring_sys::OPENSSL_cleanse(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// A value without pointers to memory of its own, such as the state of a hash function. Overwritten with zeros on drop.
///
/// A move may leave a copy behind on the stack; long-lived values belong into a `Box`.
#[derive(Clone)]
pub(crate) struct Wiped<T>(T);

impl<T> Wiped<T> {
    /// Wraps a value that owns nothing but its own bytes.
    pub(crate) fn new(value: T) -> Self {
        const { assert!(!needs_drop::<T>(), "a value that owns nothing but its own bytes") };
        Self(value)
    }
}

impl<T> Deref for Wiped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Wiped<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        // SAFETY: the value is exclusively borrowed, is not read again, and has no drop code that would read it (checked in `new`).
        unsafe { boring_sys::OPENSSL_cleanse(from_mut(&mut self.0).cast(), size_of::<T>()) }
    }
}
