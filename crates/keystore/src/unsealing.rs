//! What a person gives to open a store: a passphrase, or shares, one per line.

use std::path::Path;

use leafseal_crypto::hpke::{HpkePrivateKey, HpkePublicKey, OVERHEAD_SIZE};
use leafseal_crypto::{CryptoRng, GuardedSecret, Secret};
use zeroize::Zeroizing;

use crate::StoreError;
use crate::error::UnsealError;
use crate::files::read_private_file;
use crate::secret_path::SecretPath;
use crate::slots::{KeyShare, Passphrase, ShamirKey, SlotProvider};

/// Longest text in bytes: room for all shares of a slot.
pub const UNSEAL_SIZE_MAX: usize = 8192;

/// What such a text is sealed for: the `info` of HPKE (RFC 9180).
const UNSEAL_INFO: &[u8] = b"leafseal unseal 1";

/// A key to which a text is sealed on its way to an engine, for one attempt. The buffers of a connection, which nobody overwrites, then
/// have ciphertext alone, and what would open it is in guarded memory until the attempt.
pub struct UnsealKey(GuardedSecret);

impl UnsealKey {
    /// A new key.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng).into())
    }

    fn private_key(&self) -> HpkePrivateKey {
        HpkePrivateKey::from_seed(Secret::from_slice(self.0.expose()).expect("a seed has 32 bytes"))
    }

    /// The public half, for [`seal_unseal_text`].
    pub fn public_key(&self) -> Vec<u8> {
        self.private_key().public_key().as_bytes().to_vec()
    }

    /// Opens what [`seal_unseal_text`] returned.
    ///
    /// # Errors
    /// [`UnsealError::Sealed`] for anything else, [`UnsealError::TooLong`], [`UnsealError::Text`].
    pub fn open(&self, sealed: &[u8]) -> Result<Zeroizing<String>, UnsealError> {
        if sealed.len() > UNSEAL_SIZE_MAX + OVERHEAD_SIZE {
            return Err(UnsealError::TooLong);
        }
        let content = self.private_key().open(UNSEAL_INFO, &[], sealed).map_err(|_| UnsealError::Sealed)?;
        Ok(Zeroizing::new(std::str::from_utf8(&content).map_err(|_| UnsealError::Text)?.to_owned()))
    }
}

impl std::fmt::Debug for UnsealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnsealKey(…)")
    }
}

/// Seals a text to the public half of an [`UnsealKey`].
///
/// # Errors
/// [`UnsealError::PublicKey`].
pub fn seal_unseal_text(public_key: &[u8], text: &str) -> Result<Vec<u8>, UnsealError> {
    let key = HpkePublicKey::from_bytes(public_key).map_err(|_| UnsealError::PublicKey)?;
    key.seal(UNSEAL_INFO, &[], text.as_bytes()).map_err(|_| UnsealError::PublicKey)
}

/// What a text is, by its first word.
pub enum UnsealText {
    /// A passphrase.
    Passphrase(Passphrase),
    /// Shares: at least one.
    Shares(Vec<KeyShare>),
}

impl UnsealText {
    /// Reads a text.
    ///
    /// # Errors
    /// [`UnsealError`], which holds nothing of the text.
    pub fn read(text: &str) -> Result<Self, UnsealError> {
        if text.len() > UNSEAL_SIZE_MAX {
            return Err(UnsealError::TooLong);
        }
        let mut lines = text.lines().map(str::trim_ascii).filter(|line| !line.is_empty()).peekable();
        let first = lines.peek().ok_or(UnsealError::Empty)?;
        if !first.starts_with("leafseal-share-") {
            return Ok(Self::Passphrase(Passphrase::new(text)?));
        }
        Ok(Self::Shares(lines.map(KeyShare::from_text).collect::<Result<_, _>>()?))
    }

    /// What opens a slot, if nothing is missing.
    fn provider(self) -> Result<Box<dyn SlotProvider>, UnsealError> {
        Ok(match self {
            Self::Passphrase(passphrase) => Box::new(passphrase),
            Self::Shares(shares) => Box::new(ShamirKey::from_shares(&shares)?),
        })
    }
}

/// Reads such a text from a regular file that only its owner may reach.
///
/// # Errors
/// As [`LocalRootKey::read_file`](crate::LocalRootKey::read_file), and [`UnsealError`].
pub fn read_unseal_file(path: &Path) -> Result<Box<dyn SlotProvider>, StoreError> {
    let content = read_private_file(SecretPath::UnsealFile, path, UNSEAL_SIZE_MAX)?.ok_or(UnsealError::TooLong)?;
    let text = std::str::from_utf8(&content).map_err(|_| UnsealError::Text)?;
    Ok(UnsealText::read(text)?.provider()?)
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::random::system_random;

    use super::*;

    #[test]
    fn a_sealed_text_opens_with_its_key_only() {
        let [key, other] = [(), ()].map(|()| UnsealKey::generate(&mut system_random()));
        let sealed = seal_unseal_text(&key.public_key(), "correct horse").expect("a key");
        assert_eq!(*key.open(&sealed).expect("its own"), "correct horse");
        assert!(matches!(other.open(&sealed), Err(UnsealError::Sealed)));
        assert!(matches!(key.open(b"correct horse"), Err(UnsealError::Sealed)));
        assert!(matches!(seal_unseal_text(b"none", "correct horse"), Err(UnsealError::PublicKey)));
        assert_eq!(format!("{key:?}"), "UnsealKey(…)");
    }
}
