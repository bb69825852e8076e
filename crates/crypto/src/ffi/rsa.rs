//! BoringSSL's RSA: the signature primitive, which blinds, runs in constant time and checks its result (rsa.h, `RSA_sign_raw`).

use std::ptr::NonNull;

use boring_sys as bssl;

use super::number::Number;
use crate::rsa::RsaComponents;

/// An owned private `RSA`.
pub(crate) struct Key(NonNull<bssl::RSA>);

// SAFETY: the key is not bound to the thread that made it.
unsafe impl Send for Key {}
// SAFETY: signing takes its own locks for what it caches in the key; rsa.h allows concurrent operations on one key.
unsafe impl Sync for Key {}

impl Key {
    /// `None` for numbers that the library refuses, such as those of inconsistent keys.
    pub(crate) fn new(components: &RsaComponents<'_>) -> Option<Self> {
        let RsaComponents { modulus, public_exponent, private_exponent, .. } = *components;
        let RsaComponents { prime_1, prime_2, exponent_1, exponent_2, coefficient, .. } = *components;
        let public = [modulus, public_exponent, private_exponent].map(Number::new);
        let private = [prime_1, prime_2, exponent_1, exponent_2, coefficient].map(Number::new);
        let [n, e, d] = public.each_ref().map(Number::as_ptr);
        let [p, q, dmp1, dmq1, iqmp] = private.each_ref().map(Number::as_ptr);
        // SAFETY: all numbers are valid during the call, which copies them.
        let key = unsafe { bssl::RSA_new_private_key(n, e, d, p, q, dmp1, dmq1, iqmp) };
        if key.is_null() {
            super::clear_errors();
        }
        NonNull::new(key).map(Self)
    }

    /// `representative` and `out` are as long as the modulus; false only where the representative is not below it, or without memory.
    pub(crate) fn sign(&self, representative: &[u8], out: &mut [u8]) -> bool {
        let mut size = 0;
        // SAFETY: input and output come with their lengths, and do not overlap since one is shared and the other exclusive.
        let signed = unsafe {
            bssl::RSA_sign_raw(
                self.0.as_ptr(),
                &mut size,
                out.as_mut_ptr(),
                out.len(),
                representative.as_ptr(),
                representative.len(),
                bssl::RSA_NO_PADDING,
            )
        };
        if signed != 1 {
            super::clear_errors();
        }
        signed == 1 && size == out.len()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; the library wipes what it frees (mem.h).
        unsafe { bssl::RSA_free(self.0.as_ptr()) }
    }
}
