//! The file form: `%EVENC ‖ version ‖ offset u16-LE = 55 ‖ ephemeral (33) ‖ iv (12) ‖ flags ‖ ciphertext and tag ‖ CRC-32 LE` over all
//! that stands before it. Key and associated data are those of the plain version of the curve. The checksum only tells damage
//! from attack early; the tag decides.

use fieldseal_crypto::aead::{NONCE_SIZE, TAG_SIZE};
use fieldseal_crypto::ec::COMPRESSED_SIZE;
use fieldseal_crypto::{CryptoRng, Curve, DecryptFailed, EcContext, PublicKey, Recipient};

use crate::format::{Malformed, Marking};
use crate::open::OpeningKey;
use crate::seal::{Profile, SealingKey};

/// What every encrypted file begins with.
pub const FILE_MAGIC: &[u8; 6] = b"%EVENC";
/// Where the ciphertext begins.
const CONTENT_OFFSET: u16 = 55;
const FLAG_DEBUG: u8 = 1;
const CHECKSUM_SIZE: usize = 4;
/// Bytes that the file form adds to its content.
pub const FILE_OVERHEAD: usize = CONTENT_OFFSET as usize + TAG_SIZE + CHECKSUM_SIZE;

/// An encrypted file taken apart.
#[derive(Debug, Clone, Copy)]
pub struct EncryptedFile<'a> {
    /// The curve of its keys.
    pub curve: Curve,
    /// Live or debug.
    pub marking: Marking,
    /// The ephemeral public key, compressed; not yet checked to be a point.
    pub ephemeral: [u8; COMPRESSED_SIZE],
    iv: [u8; NONCE_SIZE],
    sealed: &'a [u8],
}

impl<'a> EncryptedFile<'a> {
    /// Takes `bytes` apart and checks header and checksum.
    ///
    /// # Errors
    /// [`Malformed::FileHeader`] or [`Malformed::FileChecksum`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(Malformed::FileHeader)?;
        let (header, sealed) = body.split_first_chunk::<{ CONTENT_OFFSET as usize }>().ok_or(Malformed::FileHeader)?;
        let curve = match (header.starts_with(FILE_MAGIC), header[6]) {
            (true, 2) => Curve::Secp256k1,
            (true, 3) => Curve::P256,
            _ => return Err(Malformed::FileHeader),
        };
        if header[7..9] != CONTENT_OFFSET.to_le_bytes() || header[54] & !FLAG_DEBUG != 0 || sealed.len() < TAG_SIZE {
            return Err(Malformed::FileHeader);
        }
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(Malformed::FileChecksum);
        }
        let marking = if header[54] == FLAG_DEBUG { Marking::Debug } else { Marking::Live };
        let ephemeral = header[9..42].try_into().expect("33 bytes");
        let iv = header[42..54].try_into().expect("12 bytes");
        Ok(Self { curve, marking, ephemeral, iv, sealed })
    }

    /// The ephemeral public key, validated.
    ///
    /// # Errors
    /// [`Malformed::EphemeralPoint`].
    pub fn ephemeral_key(&self) -> Result<PublicKey, Malformed> {
        PublicKey::from_sec1(self.curve, &self.ephemeral).map_err(|_| Malformed::EphemeralPoint)
    }

    /// Bytes of its content.
    pub fn content_size(&self) -> usize {
        self.sealed.len() - TAG_SIZE
    }

    /// Appends the content to `out`. On failure `out` is as before.
    ///
    /// # Errors
    /// [`DecryptFailed`].
    pub fn open(&self, key: &OpeningKey, out: &mut Vec<u8>) -> Result<(), DecryptFailed> {
        let start = out.len();
        out.resize(start + self.content_size(), 0);
        let result = key.open_bytes(self.iv, self.sealed, &mut out[start..]);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

/// Appends the encrypted file of `content` to `out`, under an ephemeral key of its own.
pub fn seal_file(
    ec: &EcContext,
    recipient: &Recipient,
    marking: Marking,
    content: &[u8],
    rng: &mut dyn CryptoRng,
    out: &mut Vec<u8>,
) {
    let curve = recipient.public().curve();
    let key = SealingKey::generate(ec, recipient, Profile::plain(curve), 1, rng);
    let start = out.len();
    out.reserve_exact(content.len() + FILE_OVERHEAD);
    out.extend_from_slice(FILE_MAGIC);
    out.push(match curve {
        Curve::Secp256k1 => 2,
        Curve::P256 => 3,
    });
    out.extend_from_slice(&CONTENT_OFFSET.to_le_bytes());
    out.extend_from_slice(key.ephemeral());
    out.resize(start + usize::from(CONTENT_OFFSET) + content.len() + TAG_SIZE, 0);
    let (header, sealed) = out[start..].split_at_mut(usize::from(CONTENT_OFFSET));
    let nonce = key.seal_bytes(content, sealed).expect("a fresh key seals one value");
    header[42..54].copy_from_slice(&nonce.0);
    header[54] = if marking == Marking::Debug { FLAG_DEBUG } else { 0 };
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}
