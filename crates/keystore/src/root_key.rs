//! The root of a store: 32 random bytes, from which every key that protects the store is derived.
//!
//! It is never stored as it is: the key slots hold it, each in its own way. Two keys are derived from it here (RFC 5869, 2.3): one encrypts
//! private keys, the other becomes the public id by which a store recognises its root.

use std::fmt;

use leafseal_crypto::aead::{NONCE_SIZE, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::hash::hmac_sha256;
use leafseal_crypto::{
    AeadAlgorithm, AeadKey, CryptoRng, DecryptFailed, GuardedSecret, Nonce, Secret, wipe_dead_stack,
};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a root.
pub(crate) const ROOT_SIZE: usize = 32;
/// Bytes of a [`RootKeyId`].
pub(crate) const ID_SIZE: usize = 8;
/// First byte of what [`StoreRoot::seal`] writes: AES-256-GCM, a random nonce before the ciphertext.
const SEALED_VERSION: u8 = 1;
/// Bytes before the ciphertext.
const SEALED_HEADER_SIZE: usize = 1 + NONCE_SIZE;

const LABEL_WRAPPING: &[u8] = b"leafseal-root-key-1 wrapping";
const LABEL_ID: &[u8] = b"leafseal-root-key-1 id";

/// Identifies a root key or the root of a store without revealing anything about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootKeyId(pub [u8; ID_SIZE]);

impl fmt::Display for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RootKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKeyId({self})")
    }
}

/// Why a root key could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootKeyError {
    /// The text is not `leafseal-root-key-1:` and the base64 of 32 bytes.
    #[error("not a root key: it must be one line, leafseal-root-key-1: and the base64 of 32 bytes")]
    Text,
    /// The text has an unsupported version.
    #[error("unsupported root key version: use a newer Leafseal")]
    TextVersion,
}

/// The root of a store, in this process's memory; wiped on drop.
#[derive(Clone)]
pub struct StoreRoot {
    bytes: GuardedSecret,
    id: RootKeyId,
}

impl fmt::Debug for StoreRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreRoot({}, …)", self.id)
    }
}

impl StoreRoot {
    /// A new root of 32 bytes from `rng`.
    pub(crate) fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self::from_bytes(Secret::random(rng))
    }

    pub(crate) fn from_bytes(bytes: Secret<ROOT_SIZE>) -> Self {
        let bytes = GuardedSecret::from(bytes);
        let mut id = [0; ID_SIZE];
        id.copy_from_slice(&expand(&bytes, LABEL_ID).expose()[..ID_SIZE]);
        Self { bytes, id: RootKeyId(id) }
    }

    /// The key that seals, derived for each use: it would otherwise have to be guarded, too.
    fn wrapping(&self) -> AeadKey {
        let wrapping = expand(&self.bytes, LABEL_WRAPPING);
        AeadKey::new(AeadAlgorithm::Aes256Gcm, wrapping.expose()).expect("32 bytes are an AES-256 key")
    }

    pub(crate) fn bytes(&self) -> &GuardedSecret {
        &self.bytes
    }

    /// The same for the same root, different for different ones, and public.
    pub fn id(&self) -> RootKeyId {
        self.id
    }

    /// A key for the purpose that `label` names, different for each.
    pub(crate) fn derive(&self, label: &[u8]) -> Secret<32> {
        expand(&self.bytes, label)
    }

    /// Encrypts and authenticates `plaintext` and binds it to `aad`: `01 ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. A random nonce is safe
    /// here: it may serve 2^32 messages (SP 800-38D, 8.3), and a store holds a few a key version.
    pub(crate) fn seal(&self, aad: &[u8], plaintext: &[u8], rng: &mut dyn CryptoRng) -> Vec<u8> {
        let mut nonce = Nonce([0; NONCE_SIZE]);
        rng.fill_bytes(&mut nonce.0);
        let mut sealed = vec![0; SEALED_HEADER_SIZE + plaintext.len() + TAG_SIZE];
        sealed[0] = SEALED_VERSION;
        sealed[1..SEALED_HEADER_SIZE].copy_from_slice(&nonce.0);
        let item = SealItem { nonce, aad, plaintext };
        self.wrapping().seal(&item, &mut sealed[SEALED_HEADER_SIZE..]);
        sealed
    }

    /// Opens what [`StoreRoot::seal`] returned for the same `aad`.
    pub(crate) fn open(&self, aad: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptFailed> {
        let Some((&[SEALED_VERSION], rest)) = sealed.split_first_chunk::<1>() else { return Err(DecryptFailed) };
        let Some((&nonce, sealed)) = rest.split_first_chunk::<NONCE_SIZE>() else { return Err(DecryptFailed) };
        let size = sealed.len().checked_sub(TAG_SIZE).ok_or(DecryptFailed)?;
        let mut plaintext = Zeroizing::new(vec![0; size]);
        let item = OpenItem { nonce: Nonce(nonce), aad, sealed };
        self.wrapping().open(&item, &mut plaintext).map_err(|_| DecryptFailed)?;
        Ok(plaintext)
    }
}

/// HKDF-Expand for one block of output (RFC 5869, 2.3). The root is uniform, so Extract may be left out (3.3).
fn expand(root: &GuardedSecret, label: &[u8]) -> Secret<32> {
    let mut block = hmac_sha256(root.expose(), &[label, &[1]].concat());
    let secret = Secret::from_bytes(&block);
    block.zeroize();
    wipe_dead_stack();
    secret
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, Mac};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use sha2::Sha256;

    use super::*;

    #[test]
    fn derived_keys_equal_those_of_another_library() {
        let root = GuardedSecret::from_bytes(&[0x5a; 32]);
        for label in [LABEL_WRAPPING, LABEL_ID] {
            let mut mac = Hmac::<Sha256>::new_from_slice(root.expose()).expect("any length");
            mac.update(label);
            mac.update(&[1]);
            assert_eq!(expand(&root, label).expose(), &<[u8; 32]>::from(mac.finalize().into_bytes()));
        }
    }

    /// Frozen: a change of the derivation would lock every store out.
    #[test]
    fn the_id_of_a_root_never_changes() {
        let root = StoreRoot::from_bytes(Secret::from_bytes(&[0x5a; 32]));
        assert_eq!(root.id().to_string(), "e9eb9a5eb897c332");
        assert_eq!(format!("{root:?}"), "StoreRoot(e9eb9a5eb897c332, …)");
    }

    #[test]
    fn sealed_bytes_open_only_whole_and_in_their_place() {
        let mut rng = StdRng::seed_from_u64(2);
        let root = StoreRoot::generate(&mut rng);
        for size in [0, 1, 31, 32, 33, 1000] {
            let plaintext = vec![7; size];
            let sealed = root.seal(b"place", &plaintext, &mut rng);
            assert_eq!(*root.open(b"place", &sealed).expect("opened"), plaintext);
            assert_ne!(sealed, root.seal(b"place", &plaintext, &mut rng), "fresh nonce");
            assert_eq!(root.open(b"elsewhere", &sealed).err(), Some(DecryptFailed));
            assert_eq!(StoreRoot::generate(&mut rng).open(b"place", &sealed).err(), Some(DecryptFailed));
        }
        let sealed = root.seal(b"place", &[7; 32], &mut rng);
        for end in 0..sealed.len() {
            assert_eq!(root.open(b"place", &sealed[..end]).err(), Some(DecryptFailed));
        }
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 0x80;
            assert_eq!(root.open(b"place", &changed).err(), Some(DecryptFailed));
        }
    }
}
