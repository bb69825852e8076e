//! The file form: `%EVENC ‖ version ‖ offset u16-LE ‖ header ‖ flags ‖ ciphertext and tag ‖ CRC-32 LE` over everything before it. The
//! header is `ephemeral (33) ‖ iv (12)` to a public key, and `key id (16) ‖ nonce (24)` with a symmetric key. To a public key, key and
//! associated data are those of the plain version of the curve; a symmetric root has a key for files alone. The checksum only distinguishes
//! damage from an attack early; the tag decides. Files are encrypted, verified and decrypted ([`crate::LongOpening`]) in pieces.

use crc32fast::Hasher;
use leafseal_crypto::aead::{NONCE_SIZE, OpenStream, SealStream, TAG_SIZE};
use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::symmetric::{SymmetricKey, SymmetricKeyId};
use leafseal_crypto::xaes::{XAES_NONCE_SIZE, XaesKey, XaesNonce};
use leafseal_crypto::{CryptoRng, Curve, EcContext, PublicKey, Recipient};

use crate::binding::Binding;
use crate::open::EnvelopeLabel;
use crate::parts::{Malformed, Marking, ValueType};
use crate::seal::{Profile, SealingKey};
use crate::versions::Scheme;

/// The first bytes of every encrypted file.
pub const FILE_MAGIC: &[u8; 6] = b"%EVENC";
/// Bytes of magic, version and offset.
const START_SIZE: usize = 9;
/// Where the ciphertext begins in a file to a public key.
const PUBLIC_KEY_OFFSET: u16 = 55;
/// Where it begins in a file with a symmetric key.
const SYMMETRIC_OFFSET: u16 = 50;
/// The version with a symmetric key.
const SYMMETRIC_VERSION: u8 = 4;
const FLAG_DEBUG: u8 = 1;
const CHECKSUM_SIZE: usize = 4;
/// Bytes that the file form adds to its content at most.
pub const FILE_OVERHEAD: usize = PUBLIC_KEY_OFFSET as usize + TAG_SIZE + CHECKSUM_SIZE;

/// An encrypted file taken apart.
#[derive(Debug, Clone, Copy)]
pub enum EncryptedFile<'a> {
    /// To a public key.
    PublicKey(PublicKeyFile<'a>),
    /// With a symmetric key.
    Symmetric(SymmetricFile<'a>),
}

/// An encrypted file to a public key.
#[derive(Debug, Clone, Copy)]
pub struct PublicKeyFile<'a> {
    /// The curve of its keys.
    pub curve: Curve,
    /// Live or debug.
    pub marking: Marking,
    /// The ephemeral public key, compressed; not yet checked to be a point.
    pub ephemeral: [u8; COMPRESSED_SIZE],
    /// The nonce.
    pub iv: [u8; NONCE_SIZE],
    sealed: &'a [u8],
}

/// An encrypted file with a symmetric key.
#[derive(Debug, Clone, Copy)]
pub struct SymmetricFile<'a> {
    /// The symmetric key that it names.
    pub key_id: SymmetricKeyId,
    pub(crate) nonce: XaesNonce,
    sealed: &'a [u8],
}

impl<'a> EncryptedFile<'a> {
    /// Takes `bytes` apart and checks the header; the checksum is for [`FileCheck`].
    ///
    /// # Errors
    /// [`Malformed::FileHeader`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (body, _) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(Malformed::FileHeader)?;
        match body.strip_prefix(FILE_MAGIC).and_then(|rest| rest.first()) {
            Some(2) => PublicKeyFile::parse(body, Curve::Secp256k1).map(Self::PublicKey),
            Some(3) => PublicKeyFile::parse(body, Curve::P256).map(Self::PublicKey),
            Some(&SYMMETRIC_VERSION) => SymmetricFile::parse(body).map(Self::Symmetric),
            _ => Err(Malformed::FileHeader),
        }
    }

    /// Its scheme.
    pub fn scheme(&self) -> Scheme {
        match self {
            Self::PublicKey(_) => Scheme::PublicKey,
            Self::Symmetric(_) => Scheme::Symmetric,
        }
    }

    /// Bytes of its content.
    pub fn content_size(&self) -> usize {
        self.sealed().len() - TAG_SIZE
    }

    pub(crate) fn sealed(&self) -> &'a [u8] {
        match self {
            Self::PublicKey(file) => file.sealed,
            Self::Symmetric(file) => file.sealed,
        }
    }
}

impl<'a> PublicKeyFile<'a> {
    fn parse(body: &'a [u8], curve: Curve) -> Result<Self, Malformed> {
        let (header, sealed) = split_header::<{ PUBLIC_KEY_OFFSET as usize }>(body, FLAG_DEBUG)?;
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

    /// Associated data of files contains neither type nor marking.
    pub(crate) fn label(&self) -> EnvelopeLabel {
        EnvelopeLabel { iv: self.iv, value_type: ValueType::String, marking: Marking::Live }
    }
}

impl<'a> SymmetricFile<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let (header, sealed) = split_header::<{ SYMMETRIC_OFFSET as usize }>(body, 0)?;
        let key_id = SymmetricKeyId(header[START_SIZE..25].try_into().expect("16 bytes"));
        let nonce = XaesNonce(header[25..49].try_into().expect("24 bytes"));
        Ok(Self { key_id, nonce, sealed })
    }

    /// Begins to open it.
    pub(crate) fn stream(&self, key: &SymmetricKey, binding: &Binding) -> OpenStream {
        XaesKey::new(key.file_key()).open_stream(&self.nonce, &binding.of_file(self.key_id))
    }
}

/// Splits a header of `SIZE` bytes off, which ends with its flags, all of them among `flags`.
fn split_header<const SIZE: usize>(body: &[u8], flags: u8) -> Result<(&[u8; SIZE], &[u8]), Malformed> {
    let (header, sealed) = body.split_first_chunk::<SIZE>().ok_or(Malformed::FileHeader)?;
    let offset = usize::from(u16::from_le_bytes([header[7], header[8]]));
    if offset != SIZE || header[SIZE - 1] & !flags != 0 || sealed.len() < TAG_SIZE {
        return Err(Malformed::FileHeader);
    }
    Ok((header, sealed))
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

/// A file that is being encrypted, under an ephemeral key or nonce of its own.
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
        let version = match curve {
            Curve::Secp256k1 => 2,
            Curve::P256 => 3,
        };
        let flags = if marking == Marking::Debug { FLAG_DEBUG } else { 0 };
        let header = [key.ephemeral(), &nonce.0, &[flags]].concat();
        Self::after_header(version, PUBLIC_KEY_OFFSET, &header, stream, content_size, out)
    }

    /// The same with a symmetric key, bound to `binding`. `rng` must be one that a copy of the process does not continue
    /// ([`leafseal_crypto::random::system_random`]).
    pub fn begin_symmetric(
        key: &SymmetricKey,
        binding: &Binding,
        content_size: usize,
        rng: &mut dyn CryptoRng,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut nonce = XaesNonce([0; XAES_NONCE_SIZE]);
        rng.fill_bytes(&mut nonce.0);
        let stream = XaesKey::new(key.file_key()).seal_stream(&nonce, &binding.of_file(key.id()));
        let header = [key.id().0.as_slice(), &nonce.0, &[0]].concat();
        Self::after_header(SYMMETRIC_VERSION, SYMMETRIC_OFFSET, &header, stream, content_size, out)
    }

    fn after_header(
        version: u8,
        offset: u16,
        header: &[u8],
        stream: SealStream,
        content_size: usize,
        out: &mut Vec<u8>,
    ) -> Self {
        let start = out.len();
        out.reserve_exact(content_size + FILE_OVERHEAD);
        out.extend_from_slice(FILE_MAGIC);
        out.push(version);
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(header);
        debug_assert_eq!(out.len() - start, usize::from(offset));
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
