//! A root key in a file, or in text that the caller found in its environment: 32 random bytes, which open a key slot of kind `file`. In
//! stores without slots, before schema 3, they are the root of the store itself.

use std::fmt;
use std::path::Path;

use base64ct::{Base64, Encoding};
use leafseal_crypto::{CryptoRng, Secret};
use zeroize::Zeroizing;

use crate::StoreError;
use crate::drafts::remove_abandoned;
use crate::files;
use crate::root_key::{ROOT_SIZE, RootKeyError, RootKeyId, StoreRoot};
use crate::secret_path::SecretPath;
use crate::slots::{ProviderError, SlotKind, SlotPlace, SlotProvider};

/// The prefix of root key text; the number is the version of the text form and of the derivations.
const TEXT_PREFIX: &str = "leafseal-root-key-1:";
/// Bytes of the base64 of a root key.
const TEXT_BASE64_SIZE: usize = ROOT_SIZE.div_ceil(3) * 4;
/// Longest root key file in bytes. The text itself needs 65; the rest is room for white space around it.
pub const ROOT_KEY_FILE_SIZE_MAX: usize = 4096;

/// A root key in this process's memory, wiped on drop. Its text form is `leafseal-root-key-1:` and 44 characters of base64.
#[derive(Clone)]
pub struct LocalRootKey(StoreRoot);

impl fmt::Debug for LocalRootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalRootKey({}, …)", self.id())
    }
}

impl LocalRootKey {
    /// A new key of 32 bytes from `rng`.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(StoreRoot::generate(rng))
    }

    /// The same for the same key, different for different ones, and public.
    pub fn id(&self) -> RootKeyId {
        self.0.id()
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
            Ok(decoded) if decoded.len() == ROOT_SIZE => Ok(Self(StoreRoot::from_bytes(bytes))),
            _ => Err(RootKeyError::Text),
        }
    }

    /// The text form, without a line break.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut base64 = Zeroizing::new([0; TEXT_BASE64_SIZE]);
        let base64 =
            Base64::encode(self.0.bytes().expose(), base64.as_mut_slice()).expect("room for the base64 of 32 bytes");
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
}

impl SlotProvider for LocalRootKey {
    fn kind(&self) -> SlotKind {
        SlotKind::File
    }

    fn key_name(&self) -> String {
        self.id().to_string()
    }

    fn wrap(&self, place: &SlotPlace, secret: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError> {
        Ok(self.0.seal(&place.associated_data(), secret, rng))
    }

    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        self.0.open(&place.associated_data(), wrapped).map_err(|_| ProviderError::Refused)
    }

    fn tries_max(&self) -> usize {
        usize::MAX
    }

    fn root_without_slots(&self) -> Option<&StoreRoot> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

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
            assert_eq!(read.0.bytes(), key.0.bytes());
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
    fn a_file_is_created_once_and_read_while_it_is_private() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("root.key");
        let mut rng = StdRng::seed_from_u64(3);
        let made = LocalRootKey::create_file(&path, &mut rng).expect("made");
        assert_eq!(LocalRootKey::read_file(&path).expect("read").id(), made.id());
        assert!(matches!(LocalRootKey::create_file(&path, &mut rng), Err(StoreError::Io { .. })));
        assert_eq!(LocalRootKey::read_file(&path).expect("read").id(), made.id());
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
