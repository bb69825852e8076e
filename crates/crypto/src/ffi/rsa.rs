//! BoringSSL's RSA: the signature primitive, which blinds, runs in constant time and checks its result (rsa.h, `RSA_sign_raw`), and the
//! verification of both schemes.

use std::ptr::NonNull;

use boring_sys as bssl;

use super::number::WipedNumber;
use crate::types::hash::HashFunction;
use crate::types::rsa::{RsaComponents, RsaScheme};

/// An owned `RSA`, private or public.
pub(crate) struct BoringRsa(NonNull<bssl::RSA>);

// SAFETY: the key is not bound to the thread that made it.
unsafe impl Send for BoringRsa {}
// SAFETY: signing takes its own locks for what it caches in the key; rsa.h allows concurrent operations on one key.
unsafe impl Sync for BoringRsa {}

impl BoringRsa {
    /// `None` for numbers that the library refuses, such as those of inconsistent keys.
    pub(crate) fn new(components: &RsaComponents<'_>) -> Option<Self> {
        let RsaComponents { modulus, public_exponent, private_exponent, .. } = *components;
        let RsaComponents { prime_1, prime_2, exponent_1, exponent_2, coefficient, .. } = *components;
        let public = [modulus, public_exponent, private_exponent].map(WipedNumber::new);
        let private = [prime_1, prime_2, exponent_1, exponent_2, coefficient].map(WipedNumber::new);
        let [n, e, d] = public.each_ref().map(WipedNumber::as_ptr);
        let [p, q, dmp1, dmq1, iqmp] = private.each_ref().map(WipedNumber::as_ptr);
        // SAFETY: all numbers are valid during the call, which copies them.
        let key = unsafe { bssl::RSA_new_private_key(n, e, d, p, q, dmp1, dmq1, iqmp) };
        if key.is_null() {
            super::clear_errors();
        }
        NonNull::new(key).map(Self)
    }

    /// `None` for numbers that the library refuses.
    pub(crate) fn new_public(modulus: &[u8], public_exponent: &[u8]) -> Option<Self> {
        let [n, e] = [modulus, public_exponent].map(WipedNumber::new);
        // SAFETY: both numbers are valid during the call, which copies them.
        let key = unsafe { bssl::RSA_new_public_key(n.as_ptr(), e.as_ptr()) };
        if key.is_null() {
            super::clear_errors();
        }
        NonNull::new(key).map(Self)
    }

    /// The digest has the length of the scheme's hash function. Salts of PSS are as long.
    pub(crate) fn verify(&self, scheme: RsaScheme, digest: &[u8], signature: &[u8]) -> bool {
        let verified = match scheme {
            RsaScheme::Pkcs1(hash) => self.verify_pkcs1(hash, digest, signature),
            RsaScheme::Pss(hash) => self.verify_pss(hash, digest, signature),
        };
        if verified != 1 {
            super::clear_errors();
        }
        verified == 1
    }

    fn verify_pkcs1(&self, hash: HashFunction, digest: &[u8], signature: &[u8]) -> i32 {
        let function = match hash {
            HashFunction::Sha256 => bssl::NID_sha256,
            HashFunction::Sha384 => bssl::NID_sha384,
            HashFunction::Sha512 => bssl::NID_sha512,
        };
        // SAFETY: both ranges come with their lengths; the key is only read.
        unsafe {
            bssl::RSA_verify(
                function,
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.0.as_ptr(),
            )
        }
    }

    fn verify_pss(&self, hash: HashFunction, digest: &[u8], signature: &[u8]) -> i32 {
        // SAFETY: returns a static description.
        let function = unsafe {
            match hash {
                HashFunction::Sha256 => bssl::EVP_sha256(),
                HashFunction::Sha384 => bssl::EVP_sha384(),
                HashFunction::Sha512 => bssl::EVP_sha512(),
            }
        };
        let salt_size = hash.size() as i32;
        // SAFETY: both ranges come with their lengths; the key is only read.
        unsafe {
            bssl::RSA_verify_pss_mgf1(
                self.0.as_ptr(),
                digest.as_ptr(),
                digest.len(),
                function,
                function,
                salt_size,
                signature.as_ptr(),
                signature.len(),
            )
        }
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

impl Drop for BoringRsa {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; the library wipes what it frees (mem.h).
        unsafe { bssl::RSA_free(self.0.as_ptr()) }
    }
}
