//! The file form: `%EVENC ‖ version ‖ offset u16-LE = 55 ‖ ephemeral (33) ‖ iv (12) ‖ flags ‖ ciphertext and tag ‖ CRC-32 LE` over
//! everything before it. Key and associated data are those of the plain version of the curve. The checksum only distinguishes
//! damage from an attack early; the tag decides. Files are encrypted, verified and decrypted ([`crate::LongOpening`]) in pieces.

use crc32fast::Hasher;
use leafseal_crypto::aead::{NONCE_SIZE, SealStream, TAG_SIZE};
use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::{CryptoRng, Curve, EcContext, PublicKey, Recipient};

use crate::format::{Malformed, Marking, ValueType};
use crate::open::EnvelopeLabel;
use crate::seal::{Profile, SealingKey};

/// The first bytes of every encrypted file.
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
    /// Takes `bytes` apart and checks the header; the checksum is for [`FileCheck`].
    ///
    /// # Errors
    /// [`Malformed::FileHeader`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (body, _) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(Malformed::FileHeader)?;
        let (header, sealed) = body.split_first_chunk::<{ CONTENT_OFFSET as usize }>().ok_or(Malformed::FileHeader)?;
        let curve = match (header.starts_with(FILE_MAGIC), header[6]) {
            (true, 2) => Curve::Secp256k1,
            (true, 3) => Curve::P256,
            _ => return Err(Malformed::FileHeader),
        };
        if header[7..9] != CONTENT_OFFSET.to_le_bytes() || header[54] & !FLAG_DEBUG != 0 || sealed.len() < TAG_SIZE {
            return Err(Malformed::FileHeader);
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

    pub(crate) fn sealed(&self) -> &'a [u8] {
        self.sealed
    }

    /// Associated data of files contains neither type nor marking.
    pub(crate) fn label(&self) -> EnvelopeLabel {
        EnvelopeLabel { iv: self.iv, value_type: ValueType::String, marking: Marking::Live }
    }
}

/// The checksum of an encrypted file, on its way.
#[derive(Default)]
pub struct FileCheck {
    hasher: Hasher,
    checked: usize,
}

impl FileCheck {
    /// Continues through `bytes`, which must be the same whole file in each call, by up to `size` bytes. Returns whether that was
    /// all.
    ///
    /// # Errors
    /// [`Malformed::FileChecksum`].
    pub fn step(&mut self, bytes: &[u8], size: usize) -> Result<bool, Malformed> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(Malformed::FileHeader)?;
        let rest = &body[self.checked..];
        let piece = &rest[..size.max(1).min(rest.len())];
        self.hasher.update(piece);
        self.checked += piece.len();
        if self.checked < body.len() {
            return Ok(false);
        }
        match self.hasher.clone().finalize() == u32::from_le_bytes(*checksum) {
            true => Ok(true),
            false => Err(Malformed::FileChecksum),
        }
    }
}

/// A file that is being encrypted, under an ephemeral key of its own.
pub struct FileSealing {
    stream: SealStream,
    hasher: Hasher,
}

impl FileSealing {
    /// Begins the encrypted file of `content_size` bytes in `out`. Costs a key agreement.
    pub fn begin(
        ec: &EcContext,
        recipient: &Recipient,
        marking: Marking,
        content_size: usize,
        rng: &mut dyn CryptoRng,
        out: &mut Vec<u8>,
    ) -> Self {
        let curve = recipient.public().curve();
        let key = SealingKey::generate(ec, recipient, Profile::plain(curve), 1, rng);
        let (nonce, stream) = key.stream(rng, ValueType::String).expect("a fresh key seals one value");
        let start = out.len();
        out.reserve_exact(content_size + FILE_OVERHEAD);
        out.extend_from_slice(FILE_MAGIC);
        out.push(match curve {
            Curve::Secp256k1 => 2,
            Curve::P256 => 3,
        });
        out.extend_from_slice(&CONTENT_OFFSET.to_le_bytes());
        out.extend_from_slice(key.ephemeral());
        out.extend_from_slice(&nonce.0);
        out.push(if marking == Marking::Debug { FLAG_DEBUG } else { 0 });
        let mut hasher = Hasher::new();
        hasher.update(&out[start..]);
        Self { stream, hasher }
    }

    /// Appends the next piece.
    pub fn update(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + content.len(), 0);
        self.stream.update(content, &mut out[start..]);
        self.hasher.update(&out[start..]);
    }

    /// Ends the file.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let tag = self.stream.finish();
        self.hasher.update(&tag);
        out.extend_from_slice(&tag);
        out.extend_from_slice(&self.hasher.finalize().to_le_bytes());
    }
}
