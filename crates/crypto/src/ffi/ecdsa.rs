//! BoringSSL's ECDSA on P-256, which draws its own nonces: from the system's randomness, the key and the digest (ecdsa.h).

use std::ptr::{NonNull, null_mut};

use boring_sys as bssl;

use super::number::WipedNumber;
use crate::types::curve::{SCALAR_SIZE, UNCOMPRESSED_SIZE};

/// Longest signature in bytes, as DER: two numbers of 33 bytes with their heads, and one around both.
pub(crate) const SIGNATURE_SIZE_MAX: usize = 72;

/// An owned `EC_KEY` on P-256.
pub(crate) struct BoringEcKey(NonNull<bssl::EC_KEY>);

// SAFETY: the key is not bound to the thread that made it.
unsafe impl Send for BoringEcKey {}
// SAFETY: signing reads the key only.
unsafe impl Sync for BoringEcKey {}

impl BoringEcKey {
    fn empty() -> Self {
        // SAFETY: makes an empty key of the curve.
        let key = unsafe { bssl::EC_KEY_new_by_curve_name(bssl::NID_X9_62_prime256v1) };
        Self(NonNull::new(key).expect("only a failed allocation makes no key"))
    }

    /// The scalar is valid.
    pub(crate) fn new(scalar: &[u8; SCALAR_SIZE]) -> Self {
        let key = Self::empty();
        let number = WipedNumber::new(scalar);
        // SAFETY: key and number are valid during the call, which copies the number.
        let is_set = unsafe { bssl::EC_KEY_set_private_key(key.0.as_ptr(), number.as_ptr()) };
        assert_eq!(is_set, 1, "a scalar between 1 and the order");
        key
    }

    /// The DER of a signature of the digest, of which the first 32 bytes count.
    pub(crate) fn sign(&self, digest: &[u8; SCALAR_SIZE]) -> Vec<u8> {
        let mut signature = vec![0; SIGNATURE_SIZE_MAX];
        let mut size = 0;
        // SAFETY: the digest is readable for its length; the buffer has room for the longest signature of the curve.
        let is_signed = unsafe {
            bssl::ECDSA_sign(0, digest.as_ptr(), digest.len(), signature.as_mut_ptr(), &mut size, self.0.as_ptr())
        };
        assert_eq!(is_signed, 1, "signing fails only without memory");
        signature.truncate(size as usize);
        signature
    }
}

impl Drop for BoringEcKey {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; the library wipes what it frees (mem.h).
        unsafe { bssl::EC_KEY_free(self.0.as_ptr()) }
    }
}

/// An owned public `EC_KEY`.
pub(crate) struct PublicKey(BoringEcKey);

impl PublicKey {
    /// The point is valid.
    pub(crate) fn new(uncompressed: &[u8; UNCOMPRESSED_SIZE]) -> Self {
        let key = BoringEcKey::empty();
        // SAFETY: the key has a curve; the bytes are readable for their length. No context is needed.
        let is_set =
            unsafe { bssl::EC_KEY_oct2key(key.0.as_ptr(), uncompressed.as_ptr(), uncompressed.len(), null_mut()) };
        assert_eq!(is_set, 1, "a point of the curve");
        Self(key)
    }

    /// The signature is DER.
    pub(crate) fn verify(&self, digest: &[u8; SCALAR_SIZE], signature: &[u8]) -> bool {
        // SAFETY: both ranges come with their lengths; the key has its public point.
        let verified = unsafe {
            bssl::ECDSA_verify(0, digest.as_ptr(), digest.len(), signature.as_ptr(), signature.len(), self.0.0.as_ptr())
        };
        if verified != 1 {
            super::clear_errors();
        }
        verified == 1
    }
}
