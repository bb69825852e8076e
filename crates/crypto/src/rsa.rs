//! RSA signatures (RFC 8017) with keys of 2,048 bits and more: several by one key side by side, where the CPU has AVX-512 IFMA and the key
//! 2,048, 3,072 or 4,096 bits; otherwise by BoringSSL, one after the other. BoringSSL verifies.
//!
//! Signing takes constant time in the key and the message. Every signature is checked with the public exponent before it is returned, by
//! the lanes as well as by the library.

use std::sync::atomic::{AtomicU64, Ordering};

use leafseal_lanes::rsa as lanes;
use rand_core::CryptoRng;
use thiserror::Error;

use crate::ffi::{self, allocator::in_guarded_memory};
use crate::hash::{Digest, HashFunction, SHA512_SIZE};
use crate::lanes::serving_rsa;
pub use crate::types::rsa::{RsaComponents, RsaScheme};

/// The least bytes of a modulus.
const MODULUS_SIZE_MIN: usize = 256;

/// Numbers that are not an RSA key of at least 2,048 bits, or whose number of bits is not a multiple of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an RSA key of 2048 bits or more in whole bytes")]
pub struct InvalidRsaKey;

/// The significant bytes of a modulus that is long enough, and has its highest bit at the top of a byte.
fn checked_modulus(modulus: &[u8]) -> Result<&[u8], InvalidRsaKey> {
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let modulus = &modulus[zeros..];
    if modulus.len() < MODULUS_SIZE_MIN || modulus[0] < 0x80 { Err(InvalidRsaKey) } else { Ok(modulus) }
}

/// A public key, which verifies.
pub struct RsaPublicKey {
    library: ffi::rsa::BoringRsa,
    size: usize,
}

impl std::fmt::Debug for RsaPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RsaPublicKey({} bits)", 8 * self.size)
    }
}

impl RsaPublicKey {
    /// A key from its numbers, big-endian. BoringSSL bounds them: the modulus to 16,384 bits, the exponent to odd numbers from 3 of at most
    /// 33 bits.
    ///
    /// # Errors
    /// [`InvalidRsaKey`].
    pub fn new(modulus: &[u8], public_exponent: &[u8]) -> Result<Self, InvalidRsaKey> {
        let modulus = checked_modulus(modulus)?;
        let library = ffi::rsa::BoringRsa::new_public(modulus, public_exponent).ok_or(InvalidRsaKey)?;
        Ok(Self { library, size: modulus.len() })
    }

    /// Bytes of a signature.
    pub fn signature_size(&self) -> usize {
        self.size
    }

    /// Whether `signature` is one of the message with this digest. Not constant time: all inputs are public.
    ///
    /// ```
    /// use leafseal_crypto::{HashFunction, RsaPublicKey, RsaScheme};
    ///
    /// # fn verify(modulus: &[u8], message: &[u8], signature: &[u8]) -> Result<bool, leafseal_crypto::rsa::InvalidRsaKey> {
    /// let key = RsaPublicKey::new(modulus, &[1, 0, 1])?;
    /// let scheme = RsaScheme::Pss(HashFunction::Sha256);
    /// Ok(key.verify_digest(scheme, scheme.hash().digest(&[message]).as_ref(), signature))
    /// # }
    /// ```
    pub fn verify_digest(&self, scheme: RsaScheme, digest: &[u8], signature: &[u8]) -> bool {
        digest.len() == scheme.hash().size() && self.library.verify(scheme, digest, signature)
    }
}

/// A private key, in [guarded memory](in_guarded_memory). Wiped on drop.
pub struct RsaPrivateKey {
    library: ffi::rsa::BoringRsa,
    lanes: Option<lanes::RsaSigningKey>,
    size: usize,
    faults: AtomicU64,
}

impl std::fmt::Debug for RsaPrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RsaPrivateKey({} bits, …)", 8 * self.size)
    }
}

impl RsaPrivateKey {
    /// A key from its numbers. Takes some milliseconds, because it signs once.
    ///
    /// # Errors
    /// [`InvalidRsaKey`].
    pub fn new(components: &RsaComponents<'_>) -> Result<Self, InvalidRsaKey> {
        let size = checked_modulus(components.modulus)?.len();
        let library = ffi::rsa::BoringRsa::new(components).ok_or(InvalidRsaKey)?;
        let prepare = |kernel| lanes::RsaSigningKey::new(kernel, &for_lanes(components)).ok();
        let lanes = serving_rsa().and_then(|kernel| in_guarded_memory(|| prepare(kernel)));
        Ok(Self { library, lanes, size, faults: AtomicU64::new(0) })
    }

    /// Bytes of a signature.
    pub fn signature_size(&self) -> usize {
        self.size
    }

    /// Signatures that a call of [`RsaPrivateKey::sign_many`] should make for the lowest cost of each: 4 in lanes, which cost as much as
    /// one; 1 by the library.
    pub fn batch_size(&self) -> usize {
        if self.lanes.is_some() { lanes::BATCH_SIZE } else { 1 }
    }

    /// Signatures in lanes that did not pass their check since the last call; each was computed again by the library. More than zero means
    /// that the hardware is faulty.
    pub fn take_faults(&self) -> u64 {
        self.faults.swap(0, Ordering::Relaxed)
    }

    /// A signature of each message, by its scheme. `rng` makes the salts of PSS.
    pub fn sign_many(&self, messages: &[(RsaScheme, &[u8])], rng: &mut impl CryptoRng) -> Vec<Vec<u8>> {
        let digests: Vec<Digest> = messages.iter().map(|(scheme, message)| scheme.hash().digest(&[message])).collect();
        let schemes = messages.iter().map(|(scheme, _)| *scheme);
        self.sign_digests(&schemes.zip(digests.iter().map(AsRef::as_ref)).collect::<Vec<_>>(), rng)
    }

    /// The signature of each message, given its digest by the scheme's hash function.
    ///
    /// # Panics
    /// When a digest has another length than the function's.
    pub fn sign_digests(&self, digests: &[(RsaScheme, &[u8])], rng: &mut impl CryptoRng) -> Vec<Vec<u8>> {
        let encode = |(scheme, digest): &(RsaScheme, &[u8])| {
            assert_eq!(digest.len(), scheme.hash().size(), "a digest of the scheme's hash function");
            match scheme {
                RsaScheme::Pkcs1(hash) => encode_pkcs1(*hash, digest, self.size),
                RsaScheme::Pss(hash) => {
                    let mut salt = [0; SHA512_SIZE];
                    let salt = &mut salt[..hash.size()];
                    rng.fill_bytes(salt);
                    encode_pss(*hash, digest, salt, self.size)
                }
            }
        };
        let representatives: Vec<Vec<u8>> = digests.iter().map(encode).collect();
        let Some(lanes) = &self.lanes else {
            return representatives.iter().map(|representative| self.sign_by_library(representative)).collect();
        };
        let representatives_as_bytes: Vec<&[u8]> = representatives.iter().map(Vec::as_slice).collect();
        // Powers of the message modulo a prime say as much as the prime.
        let signed = in_guarded_memory(|| lanes.sign(&representatives_as_bytes));
        self.complete(&representatives, signed)
    }

    /// Makes the signatures that are missing with the library, and counts them.
    fn complete(&self, representatives: &[Vec<u8>], signed: Vec<Option<Vec<u8>>>) -> Vec<Vec<u8>> {
        let complete = |(signature, representative): (Option<Vec<u8>>, &Vec<u8>)| {
            signature.unwrap_or_else(|| {
                self.faults.fetch_add(1, Ordering::Relaxed);
                self.sign_by_library(representative)
            })
        };
        signed.into_iter().zip(representatives).map(complete).collect()
    }

    fn sign_by_library(&self, representative: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.size];
        let is_signed = self.library.sign(representative, &mut signature);
        assert!(is_signed, "an encoded message is below the modulus");
        signature
    }
}

fn for_lanes<'a>(components: &RsaComponents<'a>) -> lanes::Components<'a> {
    let RsaComponents { modulus, public_exponent, prime_1, prime_2, exponent_1, exponent_2, coefficient, .. } =
        *components;
    lanes::Components { modulus, public_exponent, prime_1, prime_2, exponent_1, exponent_2, coefficient }
}

/// The bytes before the hash in a DigestInfo (RFC 8017, 9.2, note 1).
fn digest_info(hash: HashFunction) -> [u8; 19] {
    let (algorithm, size) = match hash {
        HashFunction::Sha256 => (1, 32),
        HashFunction::Sha384 => (2, 48),
        HashFunction::Sha512 => (3, 64),
    };
    [
        0x30,
        17 + size,
        0x30,
        0x0d,
        0x06,
        0x09,
        0x60,
        0x86,
        0x48,
        0x01,
        0x65,
        0x03,
        0x04,
        0x02,
        algorithm,
        0x05,
        0x00,
        0x04,
        size,
    ]
}

/// EMSA-PKCS1-v1_5 (RFC 8017, 9.2).
fn encode_pkcs1(hash: HashFunction, digest: &[u8], size: usize) -> Vec<u8> {
    let end = [&digest_info(hash)[..], digest].concat();
    let mut encoded = vec![0xff; size];
    (encoded[0], encoded[1], encoded[size - end.len() - 1]) = (0, 1, 0);
    encoded[size - end.len()..].copy_from_slice(&end);
    encoded
}

/// EMSA-PSS (RFC 8017, 9.1.1) for a modulus of which the highest bit of the first byte is set, so that the encoded message is a bit
/// shorter.
fn encode_pss(hash: HashFunction, digest: &[u8], salt: &[u8], size: usize) -> Vec<u8> {
    let digest = hash.digest(&[&[0; 8], digest, salt]);
    let mut encoded = vec![0; size];
    let (block, end) = encoded.split_at_mut(size - hash.size() - 1);
    let start = block.len() - salt.len();
    block[start - 1] = 1;
    block[start..].copy_from_slice(salt);
    for (counter, part) in (0_u32..).zip(block.chunks_mut(hash.size())) {
        let mask = hash.digest(&[digest.as_ref(), &counter.to_be_bytes()]);
        part.iter_mut().zip(mask.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
    }
    block[0] &= 0x7f;
    let (place, trailer) = end.split_at_mut(hash.size());
    place.copy_from_slice(digest.as_ref());
    trailer[0] = 0xbc;
    encoded
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_lc_rs::signature::{self, RsaPublicKeyComponents};
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    /// A key of `vectors/rsa`, with its private exponent computed by the library.
    struct TestKey {
        numbers: HashMap<&'static str, Vec<u8>>,
    }

    impl TestKey {
        fn all() -> Vec<Self> {
            let text = include_str!("../../../vectors/rsa/primitive.rsp");
            let numbers = |group: &'static str| {
                let lines = group.lines().filter_map(|line| line.split_once(" = "));
                lines.map(|(name, digits)| (name, hex::decode(digits).unwrap_or_default())).collect()
            };
            text.split("[mod").skip(1).map(|group| Self { numbers: numbers(group) }).collect()
        }

        fn components(&self) -> RsaComponents<'_> {
            RsaComponents {
                modulus: &self.numbers["n"],
                public_exponent: &self.numbers["e"],
                private_exponent: &self.numbers["d"],
                prime_1: &self.numbers["p"],
                prime_2: &self.numbers["q"],
                exponent_1: &self.numbers["dP"],
                exponent_2: &self.numbers["dQ"],
                coefficient: &self.numbers["qInv"],
            }
        }

        /// By our own key and by another library.
        fn verifies(&self, scheme: RsaScheme, message: &[u8], signature: &[u8]) -> bool {
            let by_another = self.verifies_elsewhere(scheme, message, signature);
            let key = RsaPublicKey::new(&self.numbers["n"], &self.numbers["e"]).expect("a key");
            let digest = scheme.hash().digest(&[message]);
            assert_eq!(key.verify_digest(scheme, digest.as_ref(), signature), by_another, "{key:?} {scheme:?}");
            by_another
        }

        fn verifies_elsewhere(&self, scheme: RsaScheme, message: &[u8], signature: &[u8]) -> bool {
            let algorithm: &signature::RsaParameters = match scheme {
                RsaScheme::Pkcs1(HashFunction::Sha256) => &signature::RSA_PKCS1_2048_8192_SHA256,
                RsaScheme::Pkcs1(HashFunction::Sha384) => &signature::RSA_PKCS1_2048_8192_SHA384,
                RsaScheme::Pkcs1(HashFunction::Sha512) => &signature::RSA_PKCS1_2048_8192_SHA512,
                RsaScheme::Pss(HashFunction::Sha256) => &signature::RSA_PSS_2048_8192_SHA256,
                RsaScheme::Pss(HashFunction::Sha384) => &signature::RSA_PSS_2048_8192_SHA384,
                RsaScheme::Pss(HashFunction::Sha512) => &signature::RSA_PSS_2048_8192_SHA512,
            };
            let key = RsaPublicKeyComponents { n: &self.numbers["n"], e: &self.numbers["e"] };
            key.verify(algorithm, message, signature).is_ok()
        }
    }

    fn schemes() -> Vec<RsaScheme> {
        HashFunction::ALL.into_iter().flat_map(|hash| [RsaScheme::Pkcs1(hash), RsaScheme::Pss(hash)]).collect()
    }

    #[test]
    fn another_library_verifies_every_scheme() {
        let mut rng = StdRng::seed_from_u64(1);
        for test_key in TestKey::all() {
            let mut key = RsaPrivateKey::new(&test_key.components()).expect("a key");
            for by_library in [false, true] {
                if by_library {
                    key.lanes = None;
                }
                let contents: Vec<Vec<u8>> = (0..30).map(|i| vec![i as u8; i * 7]).collect();
                let messages: Vec<_> = schemes().into_iter().cycle().zip(contents.iter().map(Vec::as_slice)).collect();
                let signatures = key.sign_many(&messages, &mut rng);
                assert_eq!(signatures.len(), messages.len());
                for ((scheme, message), signature) in messages.iter().zip(&signatures) {
                    assert!(test_key.verifies(*scheme, message, signature), "{key:?} {scheme:?}");
                    assert!(!test_key.verifies(*scheme, &[message, &[1][..]].concat(), signature));
                }
            }
            assert_eq!(key.take_faults(), 0);
        }
    }

    /// PKCS #1 has no salt: lanes and library sign alike.
    #[test]
    fn lanes_and_library_sign_alike() {
        let mut rng = StdRng::seed_from_u64(2);
        for test_key in TestKey::all() {
            let mut key = RsaPrivateKey::new(&test_key.components()).expect("a key");
            let messages: Vec<_> =
                HashFunction::ALL.into_iter().map(|hash| (RsaScheme::Pkcs1(hash), b"message".as_slice())).collect();
            let in_lanes = key.sign_many(&messages, &mut rng);
            key.lanes = None;
            assert!(in_lanes == key.sign_many(&messages, &mut rng));
        }
    }

    /// A signature that does not pass its check in lanes is made by the library.
    #[test]
    fn missing_signatures_are_made_by_the_library() {
        let test_key = &TestKey::all()[0];
        let key = RsaPrivateKey::new(&test_key.components()).expect("a key");
        let digests = [b"one", b"two"].map(|message| HashFunction::Sha256.digest(&[message]));
        let representatives = digests.map(|digest| encode_pkcs1(HashFunction::Sha256, digest.as_ref(), key.size));
        let kept = vec![7; key.size];
        let signatures = key.complete(&representatives, vec![Some(kept.clone()), None]);
        assert_eq!((&signatures[0], key.take_faults(), key.take_faults()), (&kept, 1, 0));
        assert!(test_key.verifies(RsaScheme::Pkcs1(HashFunction::Sha256), b"two", &signatures[1]));
    }

    #[test]
    fn other_keys_are_refused() {
        let keys = TestKey::all();
        let (right, other) = (keys[0].components(), keys[1].components());
        let short = RsaComponents { modulus: &right.modulus[1..], ..right };
        let odd = [&[1], right.modulus].concat();
        let inconsistent = RsaComponents { prime_1: other.prime_1, ..right };
        for components in
            [short, RsaComponents { modulus: &odd, ..right }, RsaComponents { modulus: &[], ..right }, inconsistent]
        {
            assert_eq!(RsaPrivateKey::new(&components).err(), Some(InvalidRsaKey));
        }
        assert_eq!(format!("{:?}", RsaPrivateKey::new(&right).expect("a key")), "RsaPrivateKey(2048 bits, …)");
    }

    #[test]
    fn public_keys_of_other_sizes_are_refused() {
        let keys = TestKey::all();
        let (modulus, exponent) = (keys[0].components().modulus, keys[0].components().public_exponent);
        let padded = [&[0; 9], modulus].concat();
        assert_eq!(RsaPublicKey::new(&padded, exponent).map(|key| key.signature_size()), Ok(256));
        let odd = [&[1], modulus].concat();
        let even = [&modulus[..255], &[0]].concat();
        for modulus in [&modulus[1..], &odd, &even, &[], &[0xff; 2049]] {
            assert_eq!(RsaPublicKey::new(modulus, exponent).err(), Some(InvalidRsaKey));
        }
        for exponent in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[3, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 1]] {
            assert_eq!(RsaPublicKey::new(modulus, exponent).err(), Some(InvalidRsaKey), "{exponent:?}");
        }
    }

    /// A signature that is too short, too long, not below the modulus, or of a digest with another length.
    #[test]
    fn signatures_of_other_lengths_do_not_verify() {
        let test_key = &TestKey::all()[0];
        let key = RsaPrivateKey::new(&test_key.components()).expect("a key");
        let public = RsaPublicKey::new(&test_key.numbers["n"], &test_key.numbers["e"]).expect("a key");
        for scheme in schemes() {
            let digest = scheme.hash().digest(&[b"message"]);
            let digest = digest.as_ref();
            let signature = key.sign_digests(&[(scheme, digest)], &mut StdRng::seed_from_u64(5)).remove(0);
            assert!(public.verify_digest(scheme, digest, &signature));
            let longer = [&[0], signature.as_slice()].concat();
            for wrong in [&signature[1..], &signature[..255], &longer, &[], &test_key.numbers["n"]] {
                assert!(!public.verify_digest(scheme, digest, wrong));
            }
            assert!(!public.verify_digest(scheme, &digest[1..], &signature));
            assert!(!public.verify_digest(scheme, &[digest, &[0]].concat(), &signature));
        }
    }
}
