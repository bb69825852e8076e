//! The symmetric root of a key version, 32 random bytes, and the keys that the engine seals values of its own with. They are derived from
//! the root by HKDF-SHA-256 (RFC 5869) without salt, with a label alone as info: nothing names an app or a version, so that a root opens
//! the same values under another name.
//!
//! The labels and what they give are frozen: stored values depend on them.

use rand_core::CryptoRng;

use crate::aead::{OpenStream, SealStream};
use crate::hash::hkdf_sha256;
use crate::xaes::{XaesKey, XaesNonce, XaesOpenItem, XaesSealItem};
use crate::{DecryptFailed, GuardedSecret, Secret};

/// Bytes of a symmetric root.
pub const SYMMETRIC_ROOT_SIZE: usize = 32;
/// Bytes of a [`SymmetricKeyId`].
pub const KEY_ID_SIZE: usize = 16;

const LABEL_ID: &[u8] = b"leafseal-symmetric-1 key id";
const LABEL_XAES: &[u8] = b"leafseal-symmetric-1 XAES-256-GCM key";
const LABEL_FILE: &[u8] = b"leafseal-symmetric-1 file key";

/// Names a symmetric root in what is sealed with it. Public, and derived from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymmetricKeyId(pub [u8; KEY_ID_SIZE]);

impl std::fmt::Display for SymmetricKeyId {
    /// In lower-case hexadecimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A symmetric root. Wiped on drop.
#[derive(Debug, Clone)]
pub struct SymmetricRoot(GuardedSecret);

impl SymmetricRoot {
    /// A random one.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(GuardedSecret::from(Secret::random(rng)))
    }

    /// Takes the bytes when there are exactly [`SYMMETRIC_ROOT_SIZE`]. Roots that others made could share a ciphertext
    /// (`docs/decisions/0049-xaes.md`): take only those from an authenticated store or backup.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(GuardedSecret::from(Secret::from_slice(bytes)?)))
    }

    /// The bytes, to be wrapped.
    pub fn bytes(&self) -> &[u8; SYMMETRIC_ROOT_SIZE] {
        self.0.expose()
    }

    /// The id.
    pub fn key_id(&self) -> SymmetricKeyId {
        SymmetricKeyId(*self.derive(LABEL_ID).expose().first_chunk().expect("32 bytes"))
    }

    fn derive(&self, label: &[u8]) -> Secret<32> {
        hkdf_sha256(self.bytes(), label)
    }
}

/// The keys of a [`SymmetricRoot`], ready to use from any thread. Wiped on drop.
pub struct SymmetricKey {
    id: SymmetricKeyId,
    xaes: XaesKey,
    file: GuardedSecret,
}

impl std::fmt::Debug for SymmetricKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SymmetricKey({:?}, …)", self.id)
    }
}

impl SymmetricKey {
    /// Derives the keys of a root.
    pub fn new(root: &SymmetricRoot) -> Self {
        Self {
            id: root.key_id(),
            xaes: XaesKey::new(root.derive(LABEL_XAES).expose()),
            file: GuardedSecret::from(root.derive(LABEL_FILE)),
        }
    }

    /// The id of the root.
    pub fn id(&self) -> SymmetricKeyId {
        self.id
    }

    /// The key for files. The caller must not keep or print it.
    pub fn file_key(&self) -> &[u8; 32] {
        self.file.expose()
    }

    /// Seals every item: [`XaesKey::seal_many`].
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn seal_many(&self, items: &[XaesSealItem<'_>], out: &mut [u8]) {
        self.xaes.seal_many(items, out);
    }

    /// Decrypts every item on its own: [`XaesKey::open_many`].
    ///
    /// # Panics
    /// When `out` or `results` have the wrong length.
    pub fn open_many(&self, items: &[XaesOpenItem<'_>], out: &mut [u8], results: &mut [Result<(), DecryptFailed>]) {
        self.xaes.open_many(items, out, results);
    }

    /// Begins to seal a message that comes in pieces.
    pub fn seal_stream(&self, nonce: &XaesNonce, aad: &[u8]) -> SealStream {
        self.xaes.seal_stream(nonce, aad)
    }

    /// Begins to open a message that comes in pieces.
    pub fn open_stream(&self, nonce: &XaesNonce, aad: &[u8]) -> OpenStream {
        self.xaes.open_stream(nonce, aad)
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, Mac};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use sha2::Sha256;

    use super::*;
    use crate::aead::TAG_SIZE;

    /// Another library, by RFC 5869's two steps.
    fn derived(label: &[u8]) -> [u8; 32] {
        let mac = |key: &[u8], parts: &[&[u8]]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
            parts.iter().for_each(|part| mac.update(part));
            <[u8; 32]>::from(mac.finalize().into_bytes())
        };
        mac(&mac(&[0; 32], &[&[0x5a; 32]]), &[label, &[1]])
    }

    /// Frozen: stored values depend on them.
    #[test]
    fn id_and_keys_are_those_of_hkdf() {
        let root = SymmetricRoot::from_slice(&[0x5a; 32]).expect("32 bytes");
        assert_eq!(root.key_id().0, derived(b"leafseal-symmetric-1 key id")[..16]);
        let key = SymmetricKey::new(&root);
        assert_eq!(key.id(), root.key_id());
        assert_eq!(*key.file_key(), derived(b"leafseal-symmetric-1 file key"));
        let (item, mut sealed, mut expected) = (
            XaesSealItem { nonce: XaesNonce([3; 24]), aad: b"aad", plaintext: b"text" },
            [0; 4 + TAG_SIZE],
            [0; 4 + TAG_SIZE],
        );
        key.seal_many(&[item], &mut sealed);
        XaesKey::new(&derived(b"leafseal-symmetric-1 XAES-256-GCM key")).seal_many(&[item], &mut expected);
        assert_eq!(sealed, expected);
        assert!(SymmetricRoot::from_slice(&[0; 31]).is_none());
    }

    #[test]
    fn roots_differ_and_show_nothing() {
        let mut rng = StdRng::seed_from_u64(1);
        let (one, other) = (SymmetricRoot::generate(&mut rng), SymmetricRoot::generate(&mut rng));
        assert_ne!(one.key_id(), other.key_id());
        assert_eq!(format!("{one:?}"), "SymmetricRoot(GuardedSecret(…))");
        assert!(format!("{:?}", SymmetricKey::new(&one)).ends_with(", …)"));
    }
}
