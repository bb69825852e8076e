//! Hash functions by name, whole or in pieces, for interfaces that let their callers choose one. What Leafseal itself hashes with is
//! in [`crate::hash`].
//!
//! MD5 and SHA-1 are broken as collision-resistant functions; they serve protocols that demand them. Time depends on lengths only.

use blake2::{Blake2b512, Blake2s256};
use ripemd::Ripemd160;
use sha3::digest::{ExtendableOutput, FixedOutput, Update, XofReader};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use shake::{Shake128, Shake256};
use sm3::Sm3;

use crate::ffi::digest::{self as bssl, BoringDigest};

/// Longest digest of all algorithms in bytes.
pub const DIGEST_SIZE_MAX: usize = 64;

/// Longest block of all algorithms in bytes: that of SHAKE128.
pub const BLOCK_SIZE_MAX: usize = 168;

/// A hash function by its usual name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DigestAlgorithm {
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-224 (FIPS 180-4).
    Sha224,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-384 (FIPS 180-4).
    Sha384,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA-512/224 (FIPS 180-4).
    Sha512Part224,
    /// SHA-512/256 (FIPS 180-4).
    Sha512Part256,
    /// SHA3-224 (FIPS 202).
    Sha3Part224,
    /// SHA3-256 (FIPS 202).
    Sha3Part256,
    /// SHA3-384 (FIPS 202).
    Sha3Part384,
    /// SHA3-512 (FIPS 202).
    Sha3Part512,
    /// SHAKE128 (FIPS 202) with 16 bytes of output.
    Shake128,
    /// SHAKE256 (FIPS 202) with 32 bytes of output.
    Shake256,
    /// BLAKE2s-256 (RFC 7693).
    Blake2s256,
    /// BLAKE2b-512 (RFC 7693).
    Blake2b512,
    /// RIPEMD-160 (ISO/IEC 10118-3).
    Ripemd160,
    /// SM3 (GB/T 32905).
    Sm3,
    /// MD5 followed by SHA-1, as TLS 1.1 has it.
    Md5Sha1,
}

impl DigestAlgorithm {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Md5,
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
        Self::Sha512Part224,
        Self::Sha512Part256,
        Self::Sha3Part224,
        Self::Sha3Part256,
        Self::Sha3Part384,
        Self::Sha3Part512,
        Self::Shake128,
        Self::Shake256,
        Self::Blake2s256,
        Self::Blake2b512,
        Self::Ripemd160,
        Self::Sm3,
        Self::Md5Sha1,
    ];

    /// The name that OpenSSL gives it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Sha512Part224 => "sha512-224",
            Self::Sha512Part256 => "sha512-256",
            Self::Sha3Part224 => "sha3-224",
            Self::Sha3Part256 => "sha3-256",
            Self::Sha3Part384 => "sha3-384",
            Self::Sha3Part512 => "sha3-512",
            Self::Shake128 => "shake128",
            Self::Shake256 => "shake256",
            Self::Blake2s256 => "blake2s256",
            Self::Blake2b512 => "blake2b512",
            Self::Ripemd160 => "ripemd160",
            Self::Sm3 => "sm3",
            Self::Md5Sha1 => "md5-sha1",
        }
    }

    /// Bytes of a digest.
    pub fn size(self) -> usize {
        match self {
            Self::Md5 | Self::Shake128 => 16,
            Self::Sha1 | Self::Ripemd160 => 20,
            Self::Sha224 | Self::Sha512Part224 | Self::Sha3Part224 => 28,
            Self::Sha256 | Self::Sha512Part256 | Self::Sha3Part256 | Self::Shake256 | Self::Blake2s256 | Self::Sm3 => {
                32
            }
            Self::Md5Sha1 => 36,
            Self::Sha384 | Self::Sha3Part384 => 48,
            Self::Sha512 | Self::Sha3Part512 | Self::Blake2b512 => 64,
        }
    }

    /// Bytes of a block, which HMAC depends on.
    pub fn block_size(self) -> usize {
        match self {
            Self::Md5 | Self::Sha1 | Self::Sha224 | Self::Sha256 | Self::Blake2s256 => 64,
            Self::Ripemd160 | Self::Sm3 | Self::Md5Sha1 => 64,
            Self::Sha384 | Self::Sha512 | Self::Sha512Part224 | Self::Sha512Part256 | Self::Blake2b512 => 128,
            Self::Sha3Part224 => 144,
            Self::Sha3Part256 | Self::Shake256 => 136,
            Self::Sha3Part384 => 104,
            Self::Sha3Part512 => 72,
            Self::Shake128 => 168,
        }
    }

    /// Whether HMAC is defined over it. The extendable-output functions are not hash functions in the sense of RFC 2104.
    pub fn has_mac(self) -> bool {
        !matches!(self, Self::Shake128 | Self::Shake256)
    }

    /// Begins a digest.
    pub fn start(self) -> DigestState {
        DigestState(match self {
            Self::Md5 => DigestInner::Md5(BoringDigest::new()),
            Self::Sha1 => DigestInner::Sha1(BoringDigest::new()),
            Self::Sha224 => DigestInner::Sha224(BoringDigest::new()),
            Self::Sha256 => DigestInner::Sha256(BoringDigest::new()),
            Self::Sha384 => DigestInner::Sha384(BoringDigest::new()),
            Self::Sha512 => DigestInner::Sha512(BoringDigest::new()),
            Self::Sha512Part224 => DigestInner::Sha512Part224(bssl::sha512_part_224()),
            Self::Sha512Part256 => DigestInner::Sha512Part256(BoringDigest::new()),
            Self::Sha3Part224 => DigestInner::Sha3Part224(Sha3_224::default()),
            Self::Sha3Part256 => DigestInner::Sha3Part256(Sha3_256::default()),
            Self::Sha3Part384 => DigestInner::Sha3Part384(Sha3_384::default()),
            Self::Sha3Part512 => DigestInner::Sha3Part512(Sha3_512::default()),
            Self::Shake128 => DigestInner::Shake128(Shake128::default()),
            Self::Shake256 => DigestInner::Shake256(Shake256::default()),
            Self::Blake2s256 => DigestInner::Blake2s(Blake2s256::default()),
            Self::Blake2b512 => DigestInner::Blake2b(Blake2b512::default()),
            Self::Ripemd160 => DigestInner::Ripemd160(Ripemd160::default()),
            Self::Sm3 => DigestInner::Sm3(Sm3::default()),
            Self::Md5Sha1 => DigestInner::Md5Sha1(BoringDigest::new(), BoringDigest::new()),
        })
    }

    /// The digest of `message`; fills `digest`.
    ///
    /// # Panics
    /// When `digest` has another length than [`DigestAlgorithm::size`].
    pub fn digest(self, message: &[u8], digest: &mut [u8]) {
        // Without the state of all algorithms, whose moves cost as much as a short message.
        match self {
            Self::Md5 => one::<bssl::Md5>(message, digest),
            Self::Sha1 => one::<bssl::Sha1>(message, digest),
            Self::Sha256 => one::<bssl::Sha256>(message, digest),
            Self::Sha384 => one::<bssl::Sha384>(message, digest),
            Self::Sha512 => one::<bssl::Sha512>(message, digest),
            _ => {
                let mut state = self.start();
                state.update(message);
                state.finish(digest);
            }
        }
    }
}

/// A digest in progress. Wiped on drop.
#[derive(Clone)]
pub struct DigestState(DigestInner);

#[derive(Clone)]
enum DigestInner {
    Md5(BoringDigest<bssl::Md5>),
    Sha1(BoringDigest<bssl::Sha1>),
    Sha224(BoringDigest<bssl::Sha224>),
    Sha256(BoringDigest<bssl::Sha256>),
    Sha384(BoringDigest<bssl::Sha384>),
    Sha512(BoringDigest<bssl::Sha512>),
    Sha512Part224(BoringDigest<bssl::Sha512>),
    Sha512Part256(BoringDigest<bssl::Sha512Part256>),
    Sha3Part224(Sha3_224),
    Sha3Part256(Sha3_256),
    Sha3Part384(Sha3_384),
    Sha3Part512(Sha3_512),
    Shake128(Shake128),
    Shake256(Shake256),
    Blake2s(Blake2s256),
    Blake2b(Blake2b512),
    Ripemd160(Ripemd160),
    Sm3(Sm3),
    Md5Sha1(BoringDigest<bssl::Md5>, BoringDigest<bssl::Sha1>),
}

impl std::fmt::Debug for DigestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestState(…)")
    }
}

impl DigestState {
    /// The words of SHA-256 after whole blocks; none for other functions.
    pub(crate) fn sha256_words(&self) -> Option<[u32; 8]> {
        match &self.0 {
            DigestInner::Sha256(state) => Some(state.words()),
            _ => None,
        }
    }

    /// Takes the next piece of the message.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            DigestInner::Md5(state) => state.update(bytes),
            DigestInner::Sha1(state) => state.update(bytes),
            DigestInner::Sha224(state) => state.update(bytes),
            DigestInner::Sha256(state) => state.update(bytes),
            DigestInner::Sha384(state) => state.update(bytes),
            DigestInner::Sha512(state) | DigestInner::Sha512Part224(state) => state.update(bytes),
            DigestInner::Sha512Part256(state) => state.update(bytes),
            DigestInner::Sha3Part224(state) => state.update(bytes),
            DigestInner::Sha3Part256(state) => state.update(bytes),
            DigestInner::Sha3Part384(state) => state.update(bytes),
            DigestInner::Sha3Part512(state) => state.update(bytes),
            DigestInner::Shake128(state) => state.update(bytes),
            DigestInner::Shake256(state) => state.update(bytes),
            DigestInner::Blake2s(state) => state.update(bytes),
            DigestInner::Blake2b(state) => state.update(bytes),
            DigestInner::Ripemd160(state) => state.update(bytes),
            DigestInner::Sm3(state) => state.update(bytes),
            DigestInner::Md5Sha1(md5, sha1) => {
                md5.update(bytes);
                sha1.update(bytes);
            }
        }
    }

    /// Ends the message with its digest, which fills `digest`.
    ///
    /// # Panics
    /// When `digest` has another length than [`DigestAlgorithm::size`].
    pub fn finish(self, digest: &mut [u8]) {
        match self.0 {
            DigestInner::Md5(state) => state.finish(digest),
            DigestInner::Sha1(state) => state.finish(digest),
            DigestInner::Sha224(state) => state.finish(digest),
            DigestInner::Sha256(state) => state.finish(digest),
            DigestInner::Sha384(state) => state.finish(digest),
            DigestInner::Sha512(state) => state.finish(digest),
            DigestInner::Sha512Part224(state) => {
                let mut whole = [0; 64];
                state.finish(&mut whole);
                digest.copy_from_slice(&whole[..28]);
            }
            DigestInner::Sha512Part256(state) => state.finish(digest),
            DigestInner::Sha3Part224(state) => fixed(state, digest),
            DigestInner::Sha3Part256(state) => fixed(state, digest),
            DigestInner::Sha3Part384(state) => fixed(state, digest),
            DigestInner::Sha3Part512(state) => fixed(state, digest),
            DigestInner::Shake128(state) => extendable(state, digest, 16),
            DigestInner::Shake256(state) => extendable(state, digest, 32),
            DigestInner::Blake2s(state) => fixed(state, digest),
            DigestInner::Blake2b(state) => fixed(state, digest),
            DigestInner::Ripemd160(state) => fixed(state, digest),
            DigestInner::Sm3(state) => fixed(state, digest),
            DigestInner::Md5Sha1(md5, sha1) => {
                let (front, back) = digest.split_at_mut(16);
                md5.finish(front);
                sha1.finish(back);
            }
        }
    }
}

/// The digest of a whole message by BoringSSL.
fn one<F: bssl::Function>(message: &[u8], digest: &mut [u8]) {
    let mut state = BoringDigest::<F>::new();
    state.update(message);
    state.finish(digest);
}

/// The digest of a state of the RustCrypto crates, which wipe it.
fn fixed(state: impl FixedOutput, digest: &mut [u8]) {
    digest.copy_from_slice(&state.finalize_fixed());
}

fn extendable(state: impl ExtendableOutput, digest: &mut [u8], size: usize) {
    assert_eq!(digest.len(), size);
    state.finalize_xof().read(digest);
}
