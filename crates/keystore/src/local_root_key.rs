//! A root key in memory: 32 random bytes, read from a file or from text that the caller found in its environment.
//!
//! Two keys are derived from them (RFC 5869, 2.3): one encrypts, the other becomes the public id by which a store recognises its
//! root key.

use std::fmt;
use std::path::Path;

use base64ct::{Base64, Encoding};
use leafseal_crypto::aead::{NONCE_SIZE, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::hash::hmac_sha256;
use leafseal_crypto::{AeadAlgorithm, AeadKey, CryptoRng, GuardedSecret, Nonce, Secret, wipe_dead_stack};
use zeroize::{Zeroize, Zeroizing};

use crate::StoreError;
use crate::drafts::remove_abandoned;
use crate::files;
use crate::root_key::{ID_SIZE, RootKey, RootKeyError, RootKeyId};
use crate::secret_path::SecretPath;

/// Bytes of a local root key.
const ROOT_KEY_SIZE: usize = 32;
/// The prefix of root key text; the number is the version of the text form and of the derivations.
const TEXT_PREFIX: &str = "leafseal-root-key-1:";
/// Bytes of the base64 of a root key.
const TEXT_BASE64_SIZE: usize = ROOT_KEY_SIZE.div_ceil(3) * 4;
/// Longest root key file in bytes. The text itself needs 65; the rest is room for white space around it.
pub const ROOT_KEY_FILE_SIZE_MAX: usize = 4096;
/// First byte of what [`LocalRootKey::seal`] writes: AES-256-GCM, a random nonce before the ciphertext.
const SEALED_VERSION: u8 = 1;
/// Bytes before the ciphertext.
const SEALED_HEADER_SIZE: usize = 1 + NONCE_SIZE;

const LABEL_WRAPPING: &[u8] = b"leafseal-root-key-1 wrapping";
const LABEL_ID: &[u8] = b"leafseal-root-key-1 id";

/// A root key in this process's memory, wiped on drop. Its text form is `leafseal-root-key-1:` and 44 characters of base64.
pub struct LocalRootKey {
    bytes: GuardedSecret,
    id: RootKeyId,
}

impl fmt::Debug for LocalRootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalRootKey({}, …)", self.id)
    }
}

impl LocalRootKey {
    /// A new key of 32 bytes from `rng`.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self::from_bytes(Secret::random(rng))
    }

    /// Parses the text form; white space around it is ignored, and everything else is not.
    ///
    /// # Errors
    /// [`RootKeyError::Text`] and [`RootKeyError::TextVersion`], which hold nothing of the text.
    pub fn from_text(text: &str) -> Result<Self, RootKeyError> {
        let text = text.trim_ascii();
        let Some(base64) = text.strip_prefix(TEXT_PREFIX) else {
            let newer = text.starts_with("leafseal-root-key-");
            return Err(if newer { RootKeyError::TextVersion } else { RootKeyError::Text });
        };
        let mut bytes = Secret::zeroed();
        match Base64::decode(base64, bytes.expose_mut()) {
            Ok(decoded) if decoded.len() == ROOT_KEY_SIZE => Ok(Self::from_bytes(bytes)),
            _ => Err(RootKeyError::Text),
        }
    }

    /// The text form, without a line break.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut base64 = Zeroizing::new([0; TEXT_BASE64_SIZE]);
        let base64 =
            Base64::encode(self.bytes.expose(), base64.as_mut_slice()).expect("room for the base64 of 32 bytes");
        let mut text = Zeroizing::new(String::with_capacity(TEXT_PREFIX.len() + TEXT_BASE64_SIZE + 1));
        text.push_str(TEXT_PREFIX);
        text.push_str(base64);
        text
    }

    /// Reads the text form from a regular file that only its owner may reach, this process's effective user or root.
    ///
    /// Drafts of the file that a kill left are removed.
    ///
    /// # Errors
    /// [`Error::NotAFile`], [`Error::Owner`] when it is another user's, [`Error::Permissions`] when group or others may reach it,
    /// [`Error::Io`], and as [`LocalRootKey::from_text`].
    pub fn read_file(path: &Path) -> Result<Self, StoreError> {
        remove_abandoned(path);
        let file = files::open_private(SecretPath::RootKeyFile, path)?;
        let content = files::read_secret(file, path, ROOT_KEY_FILE_SIZE_MAX)?;
        let content = content.ok_or(RootKeyError::Text)?;
        let text = std::str::from_utf8(&content).map_err(|_| RootKeyError::Text)?;
        Ok(Self::from_text(text)?)
    }

    /// Makes a new key and a file for it, 0600, whole on disk when this returns. A file that is there already stays as it is.
    ///
    /// # Errors
    /// [`Error::Io`]; of kind `AlreadyExists` when there is a file at `path`.
    pub fn create_file(path: &Path, rng: &mut dyn CryptoRng) -> Result<Self, StoreError> {
        let key = Self::generate(rng);
        let mut line = key.to_text();
        line.push('\n');
        files::create_secret(path, line.as_bytes(), rng)?;
        Ok(key)
    }

    fn from_bytes(bytes: Secret<ROOT_KEY_SIZE>) -> Self {
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
}

/// HKDF-Expand for one block of output (RFC 5869, 2.3). The root key is uniform, so Extract may be left out (3.3).
fn expand(root: &GuardedSecret, label: &[u8]) -> Secret<32> {
    let mut block = hmac_sha256(root.expose(), &[label, &[1]].concat());
    let secret = Secret::from_bytes(&block);
    block.zeroize();
    wipe_dead_stack();
    secret
}

impl RootKey for LocalRootKey {
    fn id(&self) -> RootKeyId {
        self.id
    }

    fn derive(&self, label: &[u8]) -> Secret<32> {
        expand(&self.bytes, label)
    }

    /// `01 ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. A random nonce is safe here: it may serve 2^32 messages (SP 800-38D, 8.3), and a
    /// store holds two a key version.
    fn seal(&self, aad: &[u8], plaintext: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, RootKeyError> {
        let mut nonce = Nonce([0; NONCE_SIZE]);
        rng.fill_bytes(&mut nonce.0);
        let mut sealed = vec![0; SEALED_HEADER_SIZE + plaintext.len() + TAG_SIZE];
        sealed[0] = SEALED_VERSION;
        sealed[1..SEALED_HEADER_SIZE].copy_from_slice(&nonce.0);
        let item = SealItem { nonce, aad, plaintext };
        self.wrapping().seal(&item, &mut sealed[SEALED_HEADER_SIZE..]);
        Ok(sealed)
    }

    fn open(&self, aad: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, RootKeyError> {
        let Some((&[SEALED_VERSION], rest)) = sealed.split_first_chunk::<1>() else {
            return Err(RootKeyError::DecryptFailed);
        };
        let Some((&nonce, sealed)) = rest.split_first_chunk::<NONCE_SIZE>() else {
            return Err(RootKeyError::DecryptFailed);
        };
        let size = sealed.len().checked_sub(TAG_SIZE).ok_or(RootKeyError::DecryptFailed)?;
        let mut plaintext = Zeroizing::new(vec![0; size]);
        let item = OpenItem { nonce: Nonce(nonce), aad, sealed };
        let opened = self.wrapping().open(&item, &mut plaintext);
        wipe_dead_stack();
        opened.map_err(|_| RootKeyError::DecryptFailed).map(|()| plaintext)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use hmac::{Hmac, Mac};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use sha2::Sha256;

    use super::*;

    fn key() -> LocalRootKey {
        LocalRootKey::generate(&mut StdRng::seed_from_u64(1))
    }

    #[test]
    fn the_text_form_round_trips() {
        let key = key();
        let text = key.to_text();
        assert_eq!(text.len(), TEXT_PREFIX.len() + 44);
        for variant in [text.to_string(), format!("{}\n", *text), format!(" \t{}\r\n\n", *text)] {
            let read = LocalRootKey::from_text(&variant).expect("valid");
            assert_eq!(read.id(), key.id());
            assert_eq!(read.bytes, key.bytes);
        }
    }

    #[test]
    fn other_text_is_refused_and_not_repeated() {
        let text = key().to_text().to_string();
        let base64 = &text[TEXT_PREFIX.len()..];
        let refused = [
            String::new(),
            base64.to_owned(),
            TEXT_PREFIX.to_owned(),
            text[..text.len() - 1].to_owned(),
            text[..text.len() - 4].to_owned(),
            format!("{text}AAAA"),
            format!("{text}\n{text}"),
            text.replace(':', ": "),
            text.to_uppercase(),
        ];
        for variant in refused {
            let error = LocalRootKey::from_text(&variant).expect_err("refused");
            assert_eq!(error, RootKeyError::Text, "{variant}");
            assert!(!error.to_string().contains(&base64[..8]));
        }
        let newer = text.replace("key-1:", "key-2:");
        assert_eq!(LocalRootKey::from_text(&newer).err(), Some(RootKeyError::TextVersion));
    }

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
    fn the_id_of_a_key_never_changes() {
        let key = LocalRootKey::from_bytes(Secret::from_bytes(&[0x5a; 32]));
        assert_eq!(key.id().to_string(), "e9eb9a5eb897c332");
        assert_eq!(format!("{key:?}"), "LocalRootKey(e9eb9a5eb897c332, …)");
    }

    #[test]
    fn sealed_bytes_open_only_whole_and_in_their_place() {
        let mut rng = StdRng::seed_from_u64(2);
        let key = key();
        for size in [0, 1, 31, 32, 33, 1000] {
            let plaintext = vec![7; size];
            let sealed = key.seal(b"place", &plaintext, &mut rng).expect("sealed");
            assert_eq!(*key.open(b"place", &sealed).expect("opened"), plaintext);
            assert_ne!(sealed, key.seal(b"place", &plaintext, &mut rng).expect("sealed"), "fresh nonce");
            assert_eq!(key.open(b"elsewhere", &sealed).err(), Some(RootKeyError::DecryptFailed));
            let other = LocalRootKey::generate(&mut rng);
            assert_eq!(other.open(b"place", &sealed).err(), Some(RootKeyError::DecryptFailed));
        }
        let sealed = key.seal(b"place", &[7; 32], &mut rng).expect("sealed");
        for end in 0..sealed.len() {
            assert_eq!(key.open(b"place", &sealed[..end]).err(), Some(RootKeyError::DecryptFailed));
        }
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 0x80;
            assert_eq!(key.open(b"place", &changed).err(), Some(RootKeyError::DecryptFailed));
        }
    }

    #[test]
    fn a_file_is_created_once_and_read_while_it_is_private() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let mut rng = StdRng::seed_from_u64(3);
        let made = LocalRootKey::create_file(&path, &mut rng).expect("made");
        assert_eq!(LocalRootKey::read_file(&path).expect("read").bytes, made.bytes);
        assert!(matches!(LocalRootKey::create_file(&path, &mut rng), Err(StoreError::Io { .. })));
        assert_eq!(LocalRootKey::read_file(&path).expect("read").bytes, made.bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(
            LocalRootKey::read_file(&path),
            Err(StoreError::Permissions { mode: 0o644, what: SecretPath::RootKeyFile, .. })
        ));
    }

    #[test]
    fn the_next_start_removes_files_of_a_killed_creation() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let left = folder.path().join("root.key.new-0123456789abcdef");
        fs::write(&left, "half a key").expect("written");
        LocalRootKey::create_file(&path, &mut StdRng::seed_from_u64(3)).expect("made");
        assert!(!left.exists(), "a new key");
        fs::write(&left, "half a key").expect("written");
        LocalRootKey::read_file(&path).expect("read");
        assert!(!left.exists(), "a start");
    }

    #[test]
    fn files_that_hold_something_else_are_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let long = [key().to_text().as_bytes(), &[b' '; ROOT_KEY_FILE_SIZE_MAX]].concat();
        let contents: [&[u8]; 4] = [b"", b"secret", &[0xff; 65], &long];
        for content in contents {
            fs::write(&path, content).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
            let refusal = LocalRootKey::read_file(&path).expect_err("refused");
            assert!(matches!(refusal, StoreError::RootKey(RootKeyError::Text)), "{refusal}");
        }
        assert!(matches!(LocalRootKey::read_file(&folder.path().join("none")), Err(StoreError::Io { .. })));
    }
}
