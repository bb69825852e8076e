//! The numbers of an RSA key and the encodings of messages by name.

use super::hash::HashFunction;

/// The numbers of a private key, big-endian, by their names in RFC 8017, A.1.2.
#[derive(Debug, Clone, Copy)]
pub struct RsaComponents<'a> {
    /// n.
    pub modulus: &'a [u8],
    /// e.
    pub public_exponent: &'a [u8],
    /// d.
    pub private_exponent: &'a [u8],
    /// p.
    pub prime_1: &'a [u8],
    /// q.
    pub prime_2: &'a [u8],
    /// d mod (p − 1).
    pub exponent_1: &'a [u8],
    /// d mod (q − 1).
    pub exponent_2: &'a [u8],
    /// q⁻¹ mod p.
    pub coefficient: &'a [u8],
}

/// How a message is encoded before it is signed, by the names of RFC 8446, 4.2.3. Salts of PSS are as long as the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RsaScheme {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1(HashFunction),
    /// RSASSA-PSS with MGF1.
    Pss(HashFunction),
}

impl RsaScheme {
    /// The hash function of the message.
    pub fn hash(self) -> HashFunction {
        match self {
            Self::Pkcs1(hash) | Self::Pss(hash) => hash,
        }
    }
}
