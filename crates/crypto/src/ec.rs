//! Elliptic-curve key pairs and Diffie–Hellman on P-256 and secp256k1 (SEC 1; NIST SP 800-56A, 5.7.1.2).
//!
//! Points are validated when they are parsed: a [`PublicKey`] that exists is on its curve and is not infinity (both curves have
//! cofactor 1, so that is full validation). Private-key operations run in constant time in the libraries below.

use leafseal_lanes::ec as lanes;
use rand_core::CryptoRng;
use thiserror::Error;

use crate::ffi::stack::wipe_dead_stack;
use crate::ffi::{k256, p256};
use crate::guarded::GuardedSecret;
use crate::lanes::serving_curves;
use crate::secret::Secret;

pub use crate::types::curve::{COMPRESSED_SIZE, SCALAR_SIZE, UNCOMPRESSED_SIZE};

/// A curve by its SEC 2 name; the envelope format calls them r1 and k1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Curve {
    /// secp256r1, NIST P-256.
    P256,
    /// secp256k1.
    Secp256k1,
}

impl Curve {
    /// Both curves, in the order of tables.
    pub const ALL: [Curve; 2] = [Curve::P256, Curve::Secp256k1];

    /// `r1` or `k1`.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::P256 => "r1",
            Self::Secp256k1 => "k1",
        }
    }

    /// The curve of `r1` or `k1`.
    pub fn from_short_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.short_name() == name)
    }
}

/// The bytes before an uncompressed point in a SubjectPublicKeyInfo with a named curve (RFC 5480, 2). The lengths are those of a
/// 65-byte point, so the DER is constant up to the point itself.
fn spki_prefix(curve: Curve) -> &'static [u8] {
    match curve {
        Curve::P256 => &[
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ],
        Curve::Secp256k1 => &[
            0x30, 0x56, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
            0x00, 0x0a, 0x03, 0x42, 0x00,
        ],
    }
}

/// Bytes that are not a valid key of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidKey {
    /// Not a compressed or uncompressed point of the curve: wrong length or tag, a coordinate too large, off the curve, infinity.
    #[error("not a valid point of this curve")]
    Point,
    /// Not a scalar between 1 and the group order − 1.
    #[error("not a valid private key of this curve")]
    Scalar,
}

/// A point on a curve, not infinity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey {
    curve: Curve,
    uncompressed: [u8; UNCOMPRESSED_SIZE],
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({}, ", self.curve.short_name())?;
        self.compressed().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl PublicKey {
    /// Parses a compressed (33 bytes) or uncompressed (65 bytes) point and validates it (SEC 1, 2.3.4 and 3.2.2.1).
    /// Not constant time: the input is public.
    ///
    /// # Errors
    /// [`InvalidKey::Point`].
    pub fn from_sec1(curve: Curve, bytes: &[u8]) -> Result<Self, InvalidKey> {
        let tag_fits =
            matches!((bytes.len(), bytes.first()), (COMPRESSED_SIZE, Some(2 | 3)) | (UNCOMPRESSED_SIZE, Some(4)));
        if !tag_fits {
            return Err(InvalidKey::Point);
        }
        let decoded = match curve {
            Curve::P256 => p256::decode_point(bytes),
            Curve::Secp256k1 => k256::decode_point(bytes),
        };
        Ok(Self { curve, uncompressed: decoded.ok_or(InvalidKey::Point)? })
    }

    /// Parses a SubjectPublicKeyInfo (RFC 5480) with the named curve and an uncompressed point; explicit parameters, compressed
    /// points and BER are refused.
    ///
    /// # Errors
    /// [`InvalidKey::Point`].
    pub fn from_spki_der(curve: Curve, der: &[u8]) -> Result<Self, InvalidKey> {
        let point = der.strip_prefix(spki_prefix(curve)).ok_or(InvalidKey::Point)?;
        if point.len() != UNCOMPRESSED_SIZE {
            return Err(InvalidKey::Point);
        }
        Self::from_sec1(curve, point)
    }

    /// The SubjectPublicKeyInfo (RFC 5480) with the named curve and the uncompressed point.
    pub fn spki_der(&self) -> Vec<u8> {
        [spki_prefix(self.curve), self.uncompressed.as_slice()].concat()
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// From coordinates that a multiplication gave.
    pub(crate) fn from_coordinates(curve: Curve, x: &[u8; SCALAR_SIZE], y: &[u8; SCALAR_SIZE]) -> Self {
        let mut uncompressed = [4; UNCOMPRESSED_SIZE];
        uncompressed[1..COMPRESSED_SIZE].copy_from_slice(x);
        uncompressed[COMPRESSED_SIZE..].copy_from_slice(y);
        Self { curve, uncompressed }
    }

    /// X and Y.
    pub(crate) fn coordinates(&self) -> (&[u8; SCALAR_SIZE], &[u8; SCALAR_SIZE]) {
        let coordinates = &self.uncompressed[1..];
        (coordinates.first_chunk().expect("X"), coordinates.last_chunk().expect("Y"))
    }

    /// `04 ‖ X ‖ Y`.
    pub fn uncompressed(&self) -> &[u8; UNCOMPRESSED_SIZE] {
        &self.uncompressed
    }

    /// `02` or `03` by the parity of Y, then X.
    pub fn compressed(&self) -> [u8; COMPRESSED_SIZE] {
        let mut bytes = [0; COMPRESSED_SIZE];
        bytes[0] = 2 + (self.uncompressed[UNCOMPRESSED_SIZE - 1] & 1);
        bytes[1..].copy_from_slice(&self.uncompressed[1..COMPRESSED_SIZE]);
        bytes
    }
}

/// A private scalar between 1 and the group order − 1. Wiped on drop, never printed, and guarded as [`GuardedSecret`] has it.
#[derive(Clone)]
pub struct PrivateKey {
    curve: Curve,
    scalar: GuardedSecret,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({}, …)", self.curve.short_name())
    }
}

impl PrivateKey {
    /// Takes a big-endian scalar.
    ///
    /// # Errors
    /// [`InvalidKey::Scalar`] for zero and for values not below the group order.
    pub fn from_scalar(curve: Curve, scalar: Secret<SCALAR_SIZE>) -> Result<Self, InvalidKey> {
        let valid = match curve {
            Curve::P256 => p256::scalar_is_valid(scalar.expose()),
            Curve::Secp256k1 => k256::scalar_is_valid(scalar.expose()),
        };
        wipe_dead_stack();
        if valid { Ok(Self { curve, scalar: scalar.into() }) } else { Err(InvalidKey::Scalar) }
    }

    /// A uniform private key by rejection (FIPS 186-5, A.2.2). On both curves a draw is rejected less than once in 2^31.
    pub fn generate(curve: Curve, rng: &mut dyn CryptoRng) -> Self {
        loop {
            if let Ok(key) = Self::from_scalar(curve, Secret::random(rng)) {
                return key;
            }
        }
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// The big-endian scalar, for storing it encrypted.
    pub fn scalar(&self) -> &GuardedSecret {
        &self.scalar
    }
}

/// The state of private-key operations apart from the keys: libsecp256k1's blinded context. The blinding is defence in depth (the
/// code is constant time without it) and unchanged until the owner creates a new context; renewing it at each call would double the
/// cost of a key pair.
pub struct EcContext {
    k256: k256::Context,
}

impl EcContext {
    /// A context blinded with 32 bytes from `rng`. Costs about one scalar multiplication.
    pub fn new(rng: &mut dyn CryptoRng) -> Self {
        Self { k256: k256::Context::new(&Secret::random(rng)) }
    }

    /// The public key of `private`. Constant time.
    pub fn public_key(&self, private: &PrivateKey) -> PublicKey {
        let uncompressed = match private.curve {
            Curve::P256 => p256::public_key(private.scalar.expose()),
            Curve::Secp256k1 => self.k256.public_key(private.scalar.expose()),
        };
        wipe_dead_stack();
        PublicKey { curve: private.curve, uncompressed }
    }

    /// The shared X coordinate of `private` and `peer`. Constant time in the private key.
    ///
    /// # Panics
    /// When the two are on different curves.
    pub fn agree(&self, private: &PrivateKey, peer: &PublicKey) -> Secret<SCALAR_SIZE> {
        assert_eq!(private.curve, peer.curve, "keys of one curve");
        let shared = match private.curve {
            Curve::P256 => p256::agree(private.scalar.expose(), &peer.uncompressed),
            Curve::Secp256k1 => self.k256.agree(private.scalar.expose(), &peer.uncompressed),
        };
        wipe_dead_stack();
        shared
    }

    /// Parses compressed points of the private key's curve, and agrees with each: equal to a loop of [`PublicKey::from_sec1`] and
    /// [`EcContext::agree`]. Where the CPU has SIMD lanes, eight cost as much as one ([`EcContext::batch_size`]). Constant time in the
    /// private key, not in the points.
    pub fn agree_many(
        &self,
        private: &PrivateKey,
        peers: &[[u8; COMPRESSED_SIZE]],
    ) -> Vec<Result<(PublicKey, Secret<SCALAR_SIZE>), InvalidKey>> {
        let one_by_one = |peers: &[[u8; COMPRESSED_SIZE]]| {
            let agree = |peer: &[u8; COMPRESSED_SIZE]| {
                let peer = PublicKey::from_sec1(private.curve, peer)?;
                Ok((peer, self.agree(private, &peer)))
            };
            peers.iter().map(agree).collect::<Vec<_>>()
        };
        // A few are cheaper by the library.
        let in_lanes = |kernel: &lanes::Kernel| {
            kernel.has_lanes() && peers.len() >= kernel.agreement_count_min(name_in_lanes(private.curve))
        };
        match serving_curves().filter(in_lanes) {
            Some(kernel) => agree_in_lanes(kernel, private, peers),
            None => one_by_one(peers),
        }
    }

    /// Peers that a call of [`EcContext::agree_many`] should have for the lowest cost of each: 8 with SIMD lanes, 1 without.
    pub fn batch_size(&self) -> usize {
        serving_curves().filter(|kernel| kernel.has_lanes()).map_or(1, lanes::Kernel::batch_size)
    }
}

/// The curve as the lanes name it.
pub(crate) fn name_in_lanes(curve: Curve) -> lanes::LaneCurve {
    match curve {
        Curve::P256 => lanes::LaneCurve::P256,
        Curve::Secp256k1 => lanes::LaneCurve::Secp256k1,
    }
}

fn agree_in_lanes(
    kernel: lanes::Kernel,
    private: &PrivateKey,
    peers: &[[u8; COMPRESSED_SIZE]],
) -> Vec<Result<(PublicKey, Secret<SCALAR_SIZE>), InvalidKey>> {
    let scalar = lanes::CurveScalar::new(name_in_lanes(private.curve), private.scalar.expose())
        .expect("a private key is in range");
    let mut agreements = vec![None; peers.len()];
    lanes::agree(kernel, &scalar, peers, &mut agreements);
    wipe_dead_stack();
    let result = |agreement: &Option<lanes::Agreement>| {
        let lanes::Agreement { point, shared } = agreement.as_ref().ok_or(InvalidKey::Point)?;
        Ok((PublicKey::from_coordinates(private.curve, &point.x, &point.y), Secret::from_bytes(shared)))
    };
    agreements.iter().map(result).collect()
}

#[cfg(test)]
mod tests {
    use ::k256::elliptic_curve::sec1::ToEncodedPoint;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const ORDER_P256: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    const ORDER_K256: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

    fn context() -> EcContext {
        EcContext::new(&mut StdRng::seed_from_u64(7))
    }

    fn scalar(bytes: &[u8; 32]) -> Secret<32> {
        Secret::from_bytes(bytes)
    }

    fn order_plus(hex_order: &str, offset: i32) -> [u8; 32] {
        let mut bytes: [u8; 32] = hex::decode(hex_order).expect("hex").try_into().expect("32 bytes");
        bytes[31] = u8::try_from(i32::from(bytes[31]) + offset).expect("no carry");
        bytes
    }

    /// The same by RustCrypto: (uncompressed public key of `own`, shared X of `own` and the public key of `peer`).
    fn reference(curve: Curve, own: &[u8; 32], peer: &[u8; 32]) -> (Vec<u8>, Vec<u8>) {
        match curve {
            Curve::P256 => {
                let own = ::p256::SecretKey::from_slice(own).expect("valid");
                let peer = ::p256::SecretKey::from_slice(peer).expect("valid").public_key();
                let shared = ::p256::ecdh::diffie_hellman(own.to_nonzero_scalar(), peer.as_affine());
                (own.public_key().to_encoded_point(false).as_bytes().to_vec(), shared.raw_secret_bytes().to_vec())
            }
            Curve::Secp256k1 => {
                let own = ::k256::SecretKey::from_slice(own).expect("valid");
                let peer = ::k256::SecretKey::from_slice(peer).expect("valid").public_key();
                let shared = ::k256::ecdh::diffie_hellman(own.to_nonzero_scalar(), peer.as_affine());
                (own.public_key().to_encoded_point(false).as_bytes().to_vec(), shared.raw_secret_bytes().to_vec())
            }
        }
    }

    fn check_against_reference(curve: Curve, own: &[u8; 32], peer: &[u8; 32]) {
        let context = context();
        let own_key = PrivateKey::from_scalar(curve, scalar(own)).expect("valid");
        let peer_key = PrivateKey::from_scalar(curve, scalar(peer)).expect("valid");
        let (expected_public, expected_shared) = reference(curve, own, peer);
        let public = context.public_key(&own_key);
        assert_eq!(public.uncompressed().as_slice(), expected_public);
        assert_eq!(PublicKey::from_sec1(curve, &public.compressed()), Ok(public));
        assert_eq!(PublicKey::from_sec1(curve, public.uncompressed()), Ok(public));
        assert_eq!(context.agree(&own_key, &context.public_key(&peer_key)).expose().as_slice(), expected_shared);
        assert_eq!(context.agree(&peer_key, &public).expose().as_slice(), expected_shared);
    }

    #[test]
    fn edge_scalars_equal_another_library() {
        for (curve, order) in [(Curve::P256, ORDER_P256), (Curve::Secp256k1, ORDER_K256)] {
            let mut one = [0; 32];
            one[31] = 1;
            let mut two = [0; 32];
            two[31] = 2;
            let edges = [one, two, order_plus(order, -1), order_plus(order, -2), [0x7f; 32]];
            for own in &edges {
                for peer in &edges {
                    check_against_reference(curve, own, peer);
                }
            }
        }
    }

    /// A call with any number of peers, some of which are not points, equals a loop.
    #[test]
    fn many_agreements_equal_a_loop() {
        let (context, mut rng) = (context(), StdRng::seed_from_u64(4));
        for curve in Curve::ALL {
            let private = PrivateKey::generate(curve, &mut rng);
            let point = |rng: &mut StdRng| context.public_key(&PrivateKey::generate(curve, rng)).compressed();
            for count in 0..20 {
                let mut peers: Vec<[u8; COMPRESSED_SIZE]> = (0..count).map(|_| point(&mut rng)).collect();
                if let Some(peer) = peers.get_mut(count / 2).filter(|_| count % 3 == 0) {
                    peer[1..].fill(0xff);
                }
                let many = context.agree_many(&private, &peers);
                assert_eq!(many.len(), count);
                for (peer, found) in peers.iter().zip(many) {
                    let expected = PublicKey::from_sec1(curve, peer).map(|peer| (peer, context.agree(&private, &peer)));
                    let is_equal = match (&found, &expected) {
                        (Ok((point, shared)), Ok((expected_point, expected))) => {
                            point == expected_point && shared == expected
                        }
                        (found, expected) => found.as_ref().err() == expected.as_ref().err() && found.is_err(),
                    };
                    assert!(is_equal, "{peer:02x?}");
                }
            }
        }
    }

    #[test]
    fn scalars_out_of_range_are_refused() {
        for (curve, order) in [(Curve::P256, ORDER_P256), (Curve::Secp256k1, ORDER_K256)] {
            for bytes in [[0; 32], order_plus(order, 0), order_plus(order, 1), [0xff; 32]] {
                assert_eq!(PrivateKey::from_scalar(curve, scalar(&bytes)).err(), Some(InvalidKey::Scalar));
            }
        }
    }

    #[test]
    fn wrong_points_are_refused() {
        let context = context();
        for curve in Curve::ALL {
            let key = context.public_key(&PrivateKey::generate(curve, &mut StdRng::seed_from_u64(3)));
            let mut off_curve = *key.uncompressed();
            off_curve[64] ^= 1;
            let mut hybrid = *key.uncompressed();
            hybrid[0] = 6 + (hybrid[64] & 1);
            let mut wrong_tag = key.compressed();
            wrong_tag[0] = 4;
            let mut x_too_large = key.compressed();
            x_too_large[1..].fill(0xff);
            let refused: [&[u8]; 10] = [
                &[],
                &[0],
                &[0; 33],
                &[0; 65],
                &off_curve,
                &hybrid,
                &wrong_tag,
                &x_too_large,
                &key.uncompressed()[..64],
                &key.compressed()[..32],
            ];
            for bytes in refused {
                assert_eq!(PublicKey::from_sec1(curve, bytes), Err(InvalidKey::Point), "{bytes:02x?}");
            }
        }
    }

    #[test]
    fn keys_print_no_secret() {
        let key = PrivateKey::from_scalar(Curve::P256, scalar(&[0x5a; 32])).expect("valid");
        assert_eq!(format!("{key:?}"), "PrivateKey(r1, …)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn random_scalars_equal_another_library(mut own: [u8; 32], mut peer: [u8; 32]) {
            // Below both orders and not zero.
            own[0] &= 0x7f;
            peer[0] &= 0x7f;
            own[31] |= 1;
            peer[31] |= 1;
            for curve in Curve::ALL {
                check_against_reference(curve, &own, &peer);
            }
        }
    }
}
