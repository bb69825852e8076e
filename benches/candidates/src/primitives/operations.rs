//! The operations that are compared and the one set of inputs that every library gets.
//!
//! Inputs are read-only and outputs separate, as in the engine, where a field is read from the document and written
//! elsewhere. A library that works only in place pays for the copy.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, KeyInit};
use p256::elliptic_curve::sec1::ToSec1Point;

/// Length of a GCM tag in bytes.
pub const TAG_LEN: usize = 16;

/// The measured operations. Lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// AES-256-GCM of a plaintext of this length, 33 bytes AAD, key already expanded: ciphertext and tag.
    Seal(usize),
    /// The reverse: plaintext.
    Open(usize),
    /// SHA-256 of this many bytes.
    Sha256(usize),
    /// HMAC-SHA-256 of this many bytes, from a raw 32-byte key.
    HmacSha256(usize),
    /// The uncompressed P-256 public key of a scalar: the second half of making a key pair.
    P256PublicKey,
    /// P-256 ECDH with an uncompressed peer point, parsed and validated: the raw X coordinate.
    P256Ecdh,
    /// The same with a compressed peer point, as an envelope carries it: one square root more.
    P256EcdhCompressed,
    /// The uncompressed secp256k1 public key of a scalar.
    Secp256k1PublicKey,
    /// secp256k1 ECDH with a compressed peer point: the raw X coordinate.
    Secp256k1Ecdh,
    /// base64 text, standard alphabet, no padding needed, of this many bytes.
    Base64(usize),
}

/// Every row of the table.
pub const OPERATIONS: &[Operation] = &[
    Operation::Seal(32),
    Operation::Seal(256),
    Operation::Seal(16 << 10),
    Operation::Seal(1 << 20),
    Operation::Open(32),
    Operation::Open(256),
    Operation::Open(16 << 10),
    Operation::Open(1 << 20),
    Operation::Sha256(32),
    Operation::Sha256(320),
    Operation::HmacSha256(32),
    Operation::P256PublicKey,
    Operation::P256Ecdh,
    Operation::P256EcdhCompressed,
    Operation::Secp256k1PublicKey,
    Operation::Secp256k1Ecdh,
    Operation::Base64(12),
    Operation::Base64(48),
];

/// Lengths that the sealing and opening rows use.
pub const AEAD_LENS: &[usize] = &[32, 256, 16 << 10, 1 << 20];
/// Lengths that the hashing rows use.
pub const SHA256_LENS: &[usize] = &[32, 320];
/// Length that the HMAC row uses.
pub const HMAC_LEN: usize = 32;
/// Lengths that the base64 rows use.
pub const BASE64_LENS: &[usize] = &[12, 48];

impl Operation {
    /// The row's name.
    pub fn label(self) -> String {
        match self {
            Self::Seal(len) => format!("AES-256-GCM seal {len} B"),
            Self::Open(len) => format!("AES-256-GCM open {len} B"),
            Self::Sha256(len) => format!("SHA-256 {len} B"),
            Self::HmacSha256(len) => format!("HMAC-SHA-256 {len} B"),
            Self::P256PublicKey => "P-256 public key".into(),
            Self::P256Ecdh => "P-256 ECDH".into(),
            Self::P256EcdhCompressed => "P-256 ECDH, compressed peer".into(),
            Self::Secp256k1PublicKey => "secp256k1 public key".into(),
            Self::Secp256k1Ecdh => "secp256k1 ECDH, compressed peer".into(),
            Self::Base64(len) => format!("base64 encode {len} B"),
        }
    }

    /// Bytes of input, where throughput means something.
    pub fn bytes(self) -> Option<usize> {
        match self {
            Self::Seal(len) | Self::Open(len) | Self::Sha256(len) | Self::HmacSha256(len) | Self::Base64(len) => {
                Some(len)
            }
            _ => None,
        }
    }

    /// Bytes of output.
    pub fn output_len(self) -> usize {
        match self {
            Self::Seal(len) => len + TAG_LEN,
            Self::Open(len) => len,
            Self::Sha256(_) | Self::HmacSha256(_) | Self::P256Ecdh | Self::P256EcdhCompressed | Self::Secp256k1Ecdh => {
                32
            }
            Self::P256PublicKey | Self::Secp256k1PublicKey => 65,
            Self::Base64(len) => len / 3 * 4,
        }
    }
}

/// Writes its result into the buffer that it is given.
pub type Action = Box<dyn FnMut(&mut [u8])>;

/// One library doing one operation into a buffer of [`Operation::output_len`] bytes.
pub struct Case {
    /// The library.
    pub library: &'static str,
    /// The operation.
    pub operation: Operation,
    /// Does it once. Panics on failure: the inputs are ours, so a failure is our mistake.
    pub run: Action,
}

impl Case {
    /// A case of `library`.
    pub fn new(library: &'static str, operation: Operation, run: impl FnMut(&mut [u8]) + 'static) -> Self {
        Self { library, operation, run: Box::new(run) }
    }
}

/// A private scalar and a peer's public key on one curve.
pub struct CurveInput {
    /// Big-endian private scalar.
    pub scalar: [u8; 32],
    /// The peer's point, SEC1 compressed.
    pub peer_compressed: [u8; 33],
    /// The same point, SEC1 uncompressed.
    pub peer_uncompressed: [u8; 65],
}

/// Inputs that every library gets. The keys are constants: nothing real is protected by them.
pub struct Inputs {
    /// AES-256 and HMAC key.
    pub key: [u8; 32],
    /// GCM nonce. It repeats under the key, which a bench may do and nothing else.
    pub nonce: [u8; 12],
    /// Additional data, as long as a compressed point.
    pub aad: [u8; 33],
    /// As long as the longest operation needs.
    pub plaintext: Vec<u8>,
    /// P-256.
    pub p256: CurveInput,
    /// secp256k1.
    pub secp256k1: CurveInput,
}

impl Inputs {
    /// The inputs, for the life of the program.
    pub fn fixed() -> &'static Self {
        let scalar = std::array::from_fn(|i| (i as u8).wrapping_mul(37) ^ 0x5a);
        let peer = [0x11u8; 32];
        // A cycle of 251 is prime to every block size, so that swapped blocks show.
        let plaintext = (0..1usize << 20).map(|i| (i % 251) as u8).collect();
        let p256 = p256::SecretKey::from_slice(&peer).expect("a scalar below the order").public_key();
        let k256 = k256::SecretKey::from_slice(&peer).expect("a scalar below the order").public_key();
        Box::leak(Box::new(Self {
            key: [0x42; 32],
            nonce: [7; 12],
            aad: [3; 33],
            plaintext,
            p256: CurveInput {
                scalar,
                peer_compressed: p256.to_sec1_point(true).as_bytes().try_into().expect("33 bytes"),
                peer_uncompressed: p256.to_sec1_point(false).as_bytes().try_into().expect("65 bytes"),
            },
            secp256k1: CurveInput {
                scalar,
                peer_compressed: k256.to_sec1_point(true).as_bytes().try_into().expect("33 bytes"),
                peer_uncompressed: k256.to_sec1_point(false).as_bytes().try_into().expect("65 bytes"),
            },
        }))
    }

    /// The first `len` bytes of plaintext.
    pub fn plain(&self, len: usize) -> &[u8] {
        &self.plaintext[..len]
    }

    /// Ciphertext and tag of the first `len` bytes, made by RustCrypto; that all libraries agree is checked before
    /// anything is measured.
    pub fn sealed(&self, len: usize) -> Vec<u8> {
        let mut buffer = self.plain(len).to_vec();
        let cipher = Aes256Gcm::new(&self.key.into());
        cipher.encrypt_in_place(&self.nonce.into(), &self.aad, &mut buffer).expect("a short plaintext");
        buffer
    }
}
