//! ECDSA signatures on P-256 (FIPS 186-5): several by one key side by side where the CPU has SIMD lanes, otherwise by BoringSSL, one
//! after the other. BoringSSL verifies.
//!
//! Signing takes constant time in the key and the nonces. Nonces are hedged: derived from fresh randomness, the key and the message, so
//! that a weak generator alone does not repeat one (as RFC 6979, 3.6 suggests, and as BoringSSL does).

use leafseal_lanes::ec::ecdsa::{Signature, SigningKey};
use leafseal_lanes::ec::{self, CurveScalar, FixedBase};
use rand_core::CryptoRng;

use crate::ec::SCALAR_SIZE;
use crate::ffi::ecdsa::{self as library, SIGNATURE_SIZE_MAX};
use crate::guarded::GuardedSecret;
use crate::hash::HashFunction;
use crate::lanes::serving_curves;
use crate::recipient::generator;
use crate::secret::Secret;
use crate::{Curve, PrivateKey, PublicKey, ffi};

/// The highest tags of DER that a signature needs.
const DER_SEQUENCE: u8 = 0x30;
const DER_INTEGER: u8 = 0x02;

/// A public key on P-256 that verifies.
pub struct EcdsaPublicKey(library::PublicKey);

impl std::fmt::Debug for EcdsaPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EcdsaPublicKey(P-256)")
    }
}

impl EcdsaPublicKey {
    /// A key that verifies; `None` for a key on another curve.
    pub fn new(key: &PublicKey) -> Option<Self> {
        (key.curve() == Curve::P256).then(|| Self(library::PublicKey::new(key.uncompressed())))
    }

    /// Whether `signature`, in DER without any freedom of encoding, is one of the message with this digest, of which the leftmost 256 bits
    /// count. Not constant time: all inputs are public.
    ///
    /// ```
    /// use leafseal_crypto::{Curve, EcdsaPublicKey, HashFunction, PublicKey};
    ///
    /// # fn verify(point: &[u8], message: &[u8], signature: &[u8]) -> Result<bool, Box<dyn std::error::Error>> {
    /// let key = PublicKey::from_sec1(Curve::P256, point)?;
    /// let key = EcdsaPublicKey::new(&key).ok_or("a key on P-256")?;
    /// Ok(key.verify_digest(HashFunction::Sha256.digest(&[message]).as_ref(), signature))
    /// # }
    /// ```
    pub fn verify_digest(&self, digest: &[u8], signature: &[u8]) -> bool {
        self.0.verify(&leftmost_bits(digest), signature)
    }
}

/// A private key on P-256 that signs. Wiped on drop.
pub struct EcdsaPrivateKey {
    scalar: GuardedSecret,
    library: library::BoringEcKey,
    /// The generator's table, where lanes sign.
    lanes: Option<&'static FixedBase>,
}

impl std::fmt::Debug for EcdsaPrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EcdsaPrivateKey(P-256, …)")
    }
}

impl EcdsaPrivateKey {
    /// A key that signs; `None` for a key on another curve. The first key of a process computes the generator's table (a millisecond).
    pub fn new(key: &PrivateKey) -> Option<Self> {
        let kernel = serving_curves().filter(|kernel| kernel.has_lanes());
        Self::on(kernel.map(|kernel| generator(kernel, Curve::P256)), key)
    }

    /// With the generator's table, whose kernel signs; by the library without it.
    fn on(generator: Option<&'static FixedBase>, key: &PrivateKey) -> Option<Self> {
        if key.curve() != Curve::P256 {
            return None;
        }
        let scalar = key.scalar().clone();
        Some(Self { library: library::BoringEcKey::new(scalar.expose()), scalar, lanes: generator })
    }

    /// Signatures that a call of [`EcdsaPrivateKey::sign_many`] should make for the lowest cost of each: 8 in lanes, 1 by the library.
    pub fn batch_size(&self) -> usize {
        self.lanes.map_or(1, |generator| generator.kernel().batch_size())
    }

    /// A signature of each message, hashed with its function: DER as X9.62 and RFC 3279, 2.2.3 have it, of at most 72 bytes. With lanes,
    /// a call with eight messages costs little more than one with a single message.
    pub fn sign_many(&self, messages: &[(HashFunction, &[u8])], rng: &mut dyn CryptoRng) -> Vec<Vec<u8>> {
        let digest = |(hash, message): &(HashFunction, &[u8])| leftmost_bits(hash.digest(&[message]).as_ref());
        self.sign_digests(&messages.iter().map(digest).collect::<Vec<_>>(), rng)
    }

    /// The signature of a message with this digest, whose leftmost 256 bits are signed.
    pub fn sign_digest(&self, digest: &[u8], rng: &mut dyn CryptoRng) -> Vec<u8> {
        self.sign_digests(&[leftmost_bits(digest)], rng).pop().expect("a signature for the digest")
    }

    fn sign_digests(&self, digests: &[[u8; SCALAR_SIZE]], rng: &mut dyn CryptoRng) -> Vec<Vec<u8>> {
        let Some(generator) = self.lanes else {
            return digests.iter().map(|digest| self.library.sign(digest)).collect();
        };
        let nonces: Vec<CurveScalar> = digests.iter().map(|digest| self.nonce(digest, rng)).collect();
        // For each batch: its form of the key is one multiplication away, and would lie in memory that is not guarded.
        let key = SigningKey::new(self.scalar.expose()).expect("a private key is in range");
        let signatures = key.sign(generator, &nonces, digests);
        // Without a signature is one nonce in 2^256, or one whose product was faulty.
        let complete = |(signature, digest): (Option<Signature>, &[u8; SCALAR_SIZE])| {
            signature.map_or_else(|| self.library.sign(digest), |signature| to_der(&signature))
        };
        signatures.into_iter().zip(digests).map(complete).collect()
    }

    /// A uniform nonce by rejection (FIPS 186-5, A.3.2), of the first 32 bytes of SHA-512: a draw is rejected less than once in 2^31.
    fn nonce(&self, digest: &[u8; SCALAR_SIZE], rng: &mut dyn CryptoRng) -> CurveScalar {
        loop {
            let fresh = Secret::<SCALAR_SIZE>::random(rng);
            let mut input = Secret::<{ 3 * SCALAR_SIZE }>::zeroed();
            for (place, part) in
                input.expose_mut().chunks_exact_mut(SCALAR_SIZE).zip([fresh.expose(), self.scalar.expose(), digest])
            {
                place.copy_from_slice(part);
            }
            let mut hash = Secret::<64>::zeroed();
            ffi::hash::digest(HashFunction::Sha512, input.expose(), hash.expose_mut());
            let drawn = hash.expose().first_chunk().expect("32 of 64 bytes");
            if let Some(nonce) = CurveScalar::new(ec::LaneCurve::P256, drawn) {
                return nonce;
            }
        }
    }
}

/// The number that is signed: the leftmost 256 bits of a digest (FIPS 186-5, 6.4.1), all of a shorter one.
fn leftmost_bits(digest: &[u8]) -> [u8; SCALAR_SIZE] {
    let digest = &digest[..digest.len().min(SCALAR_SIZE)];
    let mut number = [0; SCALAR_SIZE];
    number[SCALAR_SIZE - digest.len()..].copy_from_slice(digest);
    number
}

fn to_der(signature: &Signature) -> Vec<u8> {
    let mut der = Vec::with_capacity(SIGNATURE_SIZE_MAX);
    der.extend([DER_SEQUENCE, 0]);
    for number in [&signature.r, &signature.s] {
        let digits = &number[number.iter().take_while(|byte| **byte == 0).count()..];
        let sign = &[0][..usize::from(digits[0] >= 0x80)];
        der.extend([DER_INTEGER, (sign.len() + digits.len()) as u8]);
        der.extend_from_slice(sign);
        der.extend_from_slice(digits);
    }
    der[1] = (der.len() - 2) as u8;
    der
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, EcdsaVerificationAlgorithm, UnparsedPublicKey,
    };
    use p256::ecdsa::signature::Verifier;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::EcContext;
    use std::sync::OnceLock;

    /// Draws the same bytes over and over.
    struct Stuck;

    impl rand_core::TryRng for Stuck {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(0)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(0)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(0);
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Stuck {}

    /// The generator's table for the kernel that runs on any CPU. The process has its own for the kernel that serves.
    fn model() -> &'static FixedBase {
        static TABLE: OnceLock<FixedBase> = OnceLock::new();
        TABLE.get_or_init(|| FixedBase::generator(ec::Kernel::Model, ec::LaneCurve::P256))
    }

    struct Fixture {
        private: PrivateKey,
        public: Vec<u8>,
        /// In lanes where this CPU has them, and by the library.
        keys: Vec<EcdsaPrivateKey>,
    }

    fn fixture(seed: u64) -> Fixture {
        let mut rng = StdRng::seed_from_u64(seed);
        let private = PrivateKey::generate(Curve::P256, &mut rng);
        let public = EcContext::new(&mut rng).public_key(&private).uncompressed().to_vec();
        let serving = EcdsaPrivateKey::new(&private).expect("P-256");
        let library = EcdsaPrivateKey::on(None, &private).expect("P-256");
        assert_eq!(library.batch_size(), 1);
        Fixture { private, public, keys: vec![serving, library] }
    }

    /// By two libraries with SHA-256, by one with SHA-384.
    fn verifies(public: &[u8], hash: HashFunction, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static EcdsaVerificationAlgorithm = match hash {
            HashFunction::Sha256 => &ECDSA_P256_SHA256_ASN1,
            _ => &ECDSA_P256_SHA384_ASN1,
        };
        let by_aws = UnparsedPublicKey::new(algorithm, public).verify(message, signature).is_ok();
        if hash == HashFunction::Sha256 {
            let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(public).expect("a public key");
            let parsed = p256::ecdsa::DerSignature::try_from(signature);
            assert_eq!(parsed.is_ok_and(|signature| key.verify(message, &signature).is_ok()), by_aws);
        }
        by_aws
    }

    #[test]
    fn other_libraries_verify() {
        let mut rng = StdRng::seed_from_u64(1);
        for seed in 0..8 {
            let Fixture { public, keys, .. } = fixture(seed);
            for key in keys {
                for count in [0, 1, 2, 3, 8, 9, 40] {
                    let contents: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; 11 * i]).collect();
                    let hashes = [HashFunction::Sha256, HashFunction::Sha384].into_iter().cycle();
                    let messages: Vec<_> = hashes.zip(contents.iter().map(Vec::as_slice)).collect();
                    let signatures = key.sign_many(&messages, &mut rng);
                    assert_eq!(signatures.len(), count);
                    for ((hash, message), signature) in messages.iter().zip(&signatures) {
                        assert!(verifies(&public, *hash, message, signature));
                        assert!(!verifies(&public, *hash, &[message, &[1][..]].concat(), signature));
                    }
                }
            }
        }
    }

    /// With a generator that is stuck, other messages and other keys still have other nonces, which r shows.
    #[test]
    fn nonces_depend_on_message_and_key() {
        let mut seen = HashSet::new();
        for seed in 0..3 {
            let key = EcdsaPrivateKey::on(Some(model()), &fixture(seed).private).expect("P-256");
            let messages = [(HashFunction::Sha256, b"one".as_slice()), (HashFunction::Sha256, b"two")];
            for signature in key.sign_many(&messages, &mut Stuck) {
                assert!(seen.insert(signature[4..30].to_vec()), "a nonce was used twice");
            }
        }
        // With fresh randomness, the same message has another one each time.
        let key = EcdsaPrivateKey::on(Some(model()), &fixture(0).private).expect("P-256");
        let messages = [(HashFunction::Sha256, b"one".as_slice()); 5];
        for signature in key.sign_many(&messages, &mut StdRng::seed_from_u64(4)) {
            assert!(seen.insert(signature[4..30].to_vec()), "a nonce was used twice");
        }
    }

    /// Signatures of RustCrypto over digests of all lengths, and damaged ones.
    #[test]
    fn signatures_of_another_library_verify() {
        use p256::ecdsa::signature::hazmat::PrehashSigner;
        let mut rng = StdRng::seed_from_u64(6);
        for seed in 0..4 {
            let Fixture { private, public, keys } = fixture(seed);
            let ours = PublicKey::from_sec1(Curve::P256, &public).expect("a point");
            let ours = EcdsaPublicKey::new(&ours).expect("P-256");
            let theirs = p256::ecdsa::SigningKey::from_slice(private.scalar().expose()).expect("a key");
            for size in [20, 28, 31, 32, 33, 48, 64] {
                let digest: Vec<u8> = (0..size).map(|i| (37 * i + seed as usize) as u8).collect();
                // RustCrypto refuses digests of less than half a scalar, and pads others like us.
                let signature: p256::ecdsa::DerSignature = theirs.sign_prehash(&digest).expect("a signature");
                let mut signatures = vec![signature.as_bytes().to_vec()];
                signatures.extend(keys.iter().map(|key| key.sign_digest(&digest, &mut rng)));
                for signature in signatures {
                    assert!(ours.verify_digest(&digest, &signature), "{size}");
                    for place in 0..signature.len() {
                        let mut damaged = signature.clone();
                        damaged[place] ^= 1;
                        assert!(!ours.verify_digest(&digest, &damaged), "{size} at {place}");
                    }
                    assert!(!ours.verify_digest(&digest, &[signature.as_slice(), &[0]].concat()));
                    let mut other = digest.clone();
                    other[0] ^= 1;
                    assert!(!ours.verify_digest(&other, &signature));
                }
            }
            assert!(!ours.verify_digest(&[7; 32], &[]));
        }
    }

    #[test]
    fn numbers_are_encoded_without_surplus_zeros() {
        let number = |first: &[u8]| {
            let mut number = [0x11; SCALAR_SIZE];
            number[..first.len()].copy_from_slice(first);
            number
        };
        for (r, s, size) in [(number(&[0x7f]), number(&[0x80]), 71), (number(&[0, 0, 0x80]), number(&[0, 1]), 68)] {
            let der = to_der(&Signature { r, s });
            let parsed = p256::ecdsa::DerSignature::try_from(der.as_slice()).expect("DER");
            let parsed = p256::ecdsa::Signature::try_from(parsed).expect("in range");
            assert_eq!((der.len(), parsed.r().to_bytes().into(), parsed.s().to_bytes().into()), (size, r, s));
        }
    }

    #[test]
    fn keys_on_the_other_curve_are_refused() {
        let key = PrivateKey::generate(Curve::Secp256k1, &mut StdRng::seed_from_u64(1));
        assert!(EcdsaPrivateKey::new(&key).is_none());
        let public = EcContext::new(&mut StdRng::seed_from_u64(1)).public_key(&key);
        assert!(EcdsaPublicKey::new(&public).is_none());
        assert_eq!(format!("{:?}", fixture(1).keys[0]), "EcdsaPrivateKey(P-256, …)");
    }
}
