//! P-256 from BoringSSL: multiplication in constant time (`EC_POINT_mul` on its nistz256 code), decoding with validation.

use std::ptr::{NonNull, null, null_mut};

use boring_sys as bssl;

use super::number::WipedNumber;
use crate::secret::Secret;
use crate::types::curve::{SCALAR_SIZE, UNCOMPRESSED_SIZE};

fn group() -> *const bssl::EC_GROUP {
    // SAFETY: returns a static group.
    unsafe { bssl::EC_group_p256() }
}

/// A point of the group; freeing wipes it, as it may be a shared secret.
struct P256Point(NonNull<bssl::EC_POINT>);

impl P256Point {
    fn new() -> Self {
        // SAFETY: the group is static.
        let point = unsafe { bssl::EC_POINT_new(group()) };
        Self(NonNull::new(point).expect("only a failed allocation makes no point"))
    }

    /// `None` for anything but a point of the curve in SEC 1 form.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let point = Self::new();
        // SAFETY: the point belongs to the group; `bytes` is readable for its length.
        let decoded = unsafe {
            bssl::EC_POINT_oct2point(group(), point.0.as_ptr(), bytes.as_ptr(), bytes.len(), null_mut()) == 1
                && bssl::EC_POINT_is_at_infinity(group(), point.0.as_ptr()) == 0
        };
        if !decoded {
            super::clear_errors();
        }
        decoded.then_some(point)
    }

    fn encode(&self) -> [u8; UNCOMPRESSED_SIZE] {
        let mut bytes = [0; UNCOMPRESSED_SIZE];
        self.encode_into(&mut bytes);
        bytes
    }

    /// In place, for a point that is a secret.
    fn encode_into(&self, bytes: &mut [u8; UNCOMPRESSED_SIZE]) {
        // SAFETY: the buffer has room for an uncompressed point of this group; the point is never infinity here.
        let size = unsafe {
            bssl::EC_POINT_point2oct(
                group(),
                self.0.as_ptr(),
                bssl::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED,
                bytes.as_mut_ptr(),
                bytes.len(),
                null_mut(),
            )
        };
        assert_eq!(size, UNCOMPRESSED_SIZE, "a finite point encodes to 65 bytes");
    }
}

impl Drop for P256Point {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; OPENSSL_free wipes what it frees.
        unsafe { bssl::EC_POINT_free(self.0.as_ptr()) }
    }
}

pub(crate) fn decode_point(bytes: &[u8]) -> Option<[u8; UNCOMPRESSED_SIZE]> {
    Some(P256Point::decode(bytes)?.encode())
}

/// Whether 1 ≤ scalar < order. Both comparisons run in constant time for numbers of one width.
pub(crate) fn scalar_is_valid(scalar: &[u8; SCALAR_SIZE]) -> bool {
    let number = WipedNumber::new(scalar);
    // SAFETY: both numbers live through the calls.
    unsafe {
        bssl::BN_is_zero(number.as_ptr()) == 0 && bssl::BN_ucmp(number.as_ptr(), bssl::EC_GROUP_get0_order(group())) < 0
    }
}

/// Scalar times generator; the scalar is valid.
pub(crate) fn public_key(scalar: &[u8; SCALAR_SIZE]) -> [u8; UNCOMPRESSED_SIZE] {
    let number = WipedNumber::new(scalar);
    let point = P256Point::new();
    // SAFETY: all objects belong to the group and live through the call; a null point means only the generator.
    let multiplied =
        unsafe { bssl::EC_POINT_mul(group(), point.0.as_ptr(), number.as_ptr(), null(), null(), null_mut()) };
    assert_eq!(multiplied, 1, "multiplication fails only without memory");
    point.encode()
}

/// X coordinate of scalar times peer; the scalar is valid and the peer was validated when it was parsed.
pub(crate) fn agree(scalar: &[u8; SCALAR_SIZE], peer: &[u8; UNCOMPRESSED_SIZE]) -> Secret<SCALAR_SIZE> {
    let number = WipedNumber::new(scalar);
    let peer = P256Point::decode(peer).expect("validated when it was parsed");
    let shared = P256Point::new();
    // SAFETY: all objects belong to the group and live through the call; a null scalar for the generator leaves it out.
    let multiplied =
        unsafe { bssl::EC_POINT_mul(group(), shared.0.as_ptr(), null(), peer.0.as_ptr(), number.as_ptr(), null_mut()) };
    assert_eq!(multiplied, 1, "multiplication fails only without memory");
    let mut encoded = Secret::zeroed();
    shared.encode_into(encoded.expose_mut());
    let mut x = Secret::zeroed();
    x.expose_mut().copy_from_slice(&encoded.expose()[1..=SCALAR_SIZE]);
    x
}
