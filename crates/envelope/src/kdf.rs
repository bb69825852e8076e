//! From a shared X coordinate to an AES key: the format's KDF, one block of the concatenation KDF (NIST SP 800-56C, option 1 with
//! SHA-256), whose FixedInfo is the SubjectPublicKeyInfo of a public key with explicit curve parameters.

use hex_literal::hex;
use leafseal_crypto::hash::sha256_secret;
use leafseal_crypto::{Curve, PublicKey, Secret};

/// DER of the SubjectPublicKeyInfo on P-256 up to the point: explicit parameters, an uncompressed generator, a seed.
const DER_PREFIX_P256: [u8; 270] = hex!(
    "3082014b3082010306072a8648ce3d02013081f7020101302c06072a8648ce3d0101022100ffffffff00000001000000"
    "000000000000000000ffffffffffffffffffffffff305b0420ffffffff00000001000000000000000000000000ffffff"
    "fffffffffffffffffc04205ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b031500c49d"
    "360886e704936a6678e1139d26b7819f7e900441046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a139"
    "45d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5022100ffffffff00000000"
    "ffffffffffffffffbce6faada7179e84f3b9cac2fc632551020101034200"
);

/// The same on secp256k1.
const DER_PREFIX_SECP256K1: [u8; 246] = hex!(
    "308201333081ec06072a8648ce3d02013081e0020101302c06072a8648ce3d0101022100ffffffffffffffffffffffff"
    "fffffffffffffffffffffffffffffffefffffc2f30440420000000000000000000000000000000000000000000000000"
    "00000000000000000420000000000000000000000000000000000000000000000000000000000000000704410479be66"
    "7ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b4"
    "48a68554199c47d08ffb10d4b8022100fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
    "020101034200"
);

/// The counter of the KDF's only block.
const COUNTER: [u8; 4] = [0, 0, 0, 1];

/// `SHA-256(shared ‖ 00000001 ‖ DER of key)`. The point goes in uncompressed.
pub(crate) fn derive(shared: &Secret<32>, key: &PublicKey) -> Secret<32> {
    let prefix: &[u8] = match key.curve() {
        Curve::P256 => &DER_PREFIX_P256,
        Curve::Secp256k1 => &DER_PREFIX_SECP256K1,
    };
    sha256_secret(&[shared.expose(), &COUNTER, prefix, key.uncompressed()])
}
