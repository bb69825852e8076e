//! secp256k1 from libsecp256k1: its blinded context for private keys, validated decoding, ECDH that returns X unhashed.

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::NonNull;

use secp256k1_sys as k1;

use crate::secret::Secret;
use crate::types::curve::{SCALAR_SIZE, UNCOMPRESSED_SIZE};

/// An owned, blinded `secp256k1_context`.
pub(crate) struct Context(NonNull<k1::Context>);

// SAFETY: the context is not bound to the thread that made it.
unsafe impl Send for Context {}
// SAFETY: after `new` the context is only passed as const, which secp256k1.h allows from any number of threads at once.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(seed: &Secret<32>) -> Self {
        // SAFETY: creation returns an owned context; the seed is readable for the 32 bytes that randomize reads.
        let context = unsafe {
            let context = k1::secp256k1_context_create(k1::SECP256K1_START_NONE);
            let blinded = k1::secp256k1_context_randomize(context, seed.expose().as_ptr());
            assert_eq!(blinded, 1, "blinding cannot fail on a new context");
            context
        };
        Self(context)
    }

    /// Scalar times generator; the scalar is valid.
    pub(crate) fn public_key(&self, scalar: &[u8; SCALAR_SIZE]) -> [u8; UNCOMPRESSED_SIZE] {
        // SAFETY: an all-zero PublicKey is valid storage to write to; context and scalar live through the call.
        unsafe {
            let mut key = k1::PublicKey::new();
            let made = k1::secp256k1_ec_pubkey_create(self.0.as_ptr(), &mut key, scalar.as_ptr());
            assert_eq!(made, 1, "fails only for an invalid scalar");
            encode(&key)
        }
    }

    /// X coordinate of scalar times peer; the scalar is valid and the peer was validated when it was parsed.
    pub(crate) fn agree(&self, scalar: &[u8; SCALAR_SIZE], peer: &[u8; UNCOMPRESSED_SIZE]) -> Secret<SCALAR_SIZE> {
        let peer = decode(peer).expect("validated when it was parsed");
        let mut shared = Secret::<SCALAR_SIZE>::zeroed();
        // SAFETY: the output has the 32 bytes that `copy_x` writes; all other pointers live through the call.
        let agreed = unsafe {
            k1::secp256k1_ecdh(
                self.0.as_ptr(),
                shared.expose_mut().as_mut_ptr(),
                &peer,
                scalar.as_ptr(),
                Some(copy_x),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(agreed, 1, "fails only for an invalid scalar");
        shared
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by secp256k1_context_create, destroyed once.
        unsafe { k1::secp256k1_context_destroy(self.0) }
    }
}

/// The "hash" of libsecp256k1's ECDH: X as it is. The key derivation is the caller's.
unsafe extern "C" fn copy_x(output: *mut c_uchar, x: *const c_uchar, _y: *const c_uchar, _data: *mut c_void) -> c_int {
    // SAFETY: libsecp256k1 passes 32 readable bytes of X; `agree` passes an output of 32 bytes; they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(x, output, SCALAR_SIZE) };
    1
}

fn decode(bytes: &[u8]) -> Option<k1::PublicKey> {
    // SAFETY: parsing needs no precomputation, so the library's static context serves; `bytes` is readable for its length.
    unsafe {
        let mut key = k1::PublicKey::new();
        let parsed = k1::secp256k1_ec_pubkey_parse(k1::secp256k1_context_static, &mut key, bytes.as_ptr(), bytes.len());
        (parsed == 1).then_some(key)
    }
}

fn encode(key: &k1::PublicKey) -> [u8; UNCOMPRESSED_SIZE] {
    let mut bytes = [0; UNCOMPRESSED_SIZE];
    let mut size = bytes.len();
    // SAFETY: the buffer has room for an uncompressed point; `key` was filled by the library.
    unsafe {
        k1::secp256k1_ec_pubkey_serialize(
            k1::secp256k1_context_static,
            bytes.as_mut_ptr(),
            &mut size,
            key,
            k1::SECP256K1_SER_UNCOMPRESSED,
        );
    }
    assert_eq!(size, UNCOMPRESSED_SIZE);
    bytes
}

/// Callers have checked length and tag: libsecp256k1 would also take the hybrid form, which SEC 1 has but nothing here writes.
pub(crate) fn decode_point(bytes: &[u8]) -> Option<[u8; UNCOMPRESSED_SIZE]> {
    Some(encode(&decode(bytes)?))
}

/// Whether 1 ≤ scalar < order. Constant time.
pub(crate) fn scalar_is_valid(scalar: &[u8; SCALAR_SIZE]) -> bool {
    // SAFETY: reads the array's 32 bytes; needs no precomputation.
    unsafe { k1::secp256k1_ec_seckey_verify(k1::secp256k1_context_static, scalar.as_ptr()) == 1 }
}
