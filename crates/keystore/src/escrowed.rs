//! Symmetric roots in escrow: each a line of text that the store signs from which it comes. Only such a root can come back into a store,
//! because someone who chooses two roots can make a value that opens under both (`docs/decisions/0049-xaes.md`).
//!
//! `leafseal-symmetric-root-1 store=ID epoch=N key_id=HEX root=BASE64 signature=HEX`, with a line feed. The signature, Ed25519, is of all
//! before ` signature=`.

use base64ct::{Base64, Encoding};
use leafseal_crypto::ed25519;
use leafseal_crypto::symmetric::SymmetricRoot;
use zeroize::Zeroizing;

use crate::record_key::{RECORD_KEY_SIZE, RECORD_SIGNATURE_SIZE, RecordKey};

/// The first word of a line; the number is the version of its form.
const TITLE: &str = "leafseal-symmetric-root-1";
/// What comes before the signature.
const SIGNATURE: &str = " signature=";
/// Longest line in bytes.
pub(crate) const ESCROWED_SIZE_MAX: usize = 1024;

/// Whose key signs ([`Keystore::record_key`](crate::Keystore::record_key)): no engine can have this name
/// ([`is_signer`](crate::is_signer)).
pub const ESCROW_SIGNER: &str = "escrow of symmetric roots";

/// Why a symmetric root is not taken back. Contains nothing of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EscrowFault {
    /// Not such a line.
    #[error("not a symmetric root: it must be the line leafseal-symmetric-root-1 that keys export encrypts")]
    Text,
    /// No key that may has signed it.
    #[error(
        "the symmetric root is not signed by this keystore, or was changed: for one of another keystore, \
         --signer must be the signer that its keys export printed"
    )]
    Signature,
}

/// A symmetric root that an engine made, as the signature of its store proves.
#[derive(Debug, Clone)]
pub struct EscrowedRoot(SymmetricRoot);

impl EscrowedRoot {
    /// The line of a root, signed with the key of [`ESCROW_SIGNER`].
    pub(crate) fn line(root: &SymmetricRoot, signer: &RecordKey) -> Zeroizing<String> {
        let (store, epoch, id) = (signer.store_id(), signer.epoch(), root.key_id());
        let base64 = Zeroizing::new(Base64::encode_string(root.bytes()));
        let mut line = Zeroizing::new(String::with_capacity(ESCROWED_SIZE_MAX));
        line.push_str(&format!("{TITLE} store={store} epoch={epoch} key_id={id} root="));
        line.push_str(&base64);
        let signature = hex::encode(signer.sign(line.as_bytes()));
        line.push_str(SIGNATURE);
        line.push_str(&signature);
        line.push('\n');
        line
    }

    pub(crate) fn into_root(self) -> SymmetricRoot {
        self.0
    }
}

/// A symmetric root that was read, whose signature nobody has verified.
#[derive(Debug)]
pub struct UnverifiedRoot {
    root: SymmetricRoot,
    epoch: u32,
    signed: Zeroizing<String>,
    signature: [u8; RECORD_SIGNATURE_SIZE],
}

impl UnverifiedRoot {
    /// Reads a line.
    ///
    /// # Errors
    /// [`EscrowFault::Text`].
    pub fn parse(line: &str) -> Result<Self, EscrowFault> {
        Self::read(line).ok_or(EscrowFault::Text)
    }

    fn read(line: &str) -> Option<Self> {
        let (signed, signature) = line.trim_end().split_once(SIGNATURE)?;
        let mut words = signed.strip_prefix(TITLE)?.strip_prefix(' ')?.split(' ');
        let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let (_, epoch, id, base64) = (value("store")?, value("epoch")?, value("key_id")?, value("root")?);
        let root = SymmetricRoot::from_slice(&Zeroizing::new(Base64::decode_vec(base64).ok()?))?;
        (words.next().is_none() && root.key_id().to_string() == id).then_some(())?;
        Some(Self {
            root,
            epoch: epoch.parse().ok()?,
            signed: Zeroizing::new(signed.to_owned()),
            signature: hex::decode(signature).ok()?.try_into().ok()?,
        })
    }

    /// How often the root of its store had been replaced, for the key to verify it with.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Verifies the signature: by the key of this store, or by one of another that the caller trusts.
    ///
    /// # Errors
    /// [`EscrowFault::Signature`].
    pub fn verify(
        self,
        own: Option<&RecordKey>,
        trusted: Option<&[u8; RECORD_KEY_SIZE]>,
    ) -> Result<EscrowedRoot, EscrowFault> {
        let own = own.map(RecordKey::public_key);
        let mut keys = own.iter().chain(trusted);
        let is_signed = keys.any(|key| ed25519::verify(key, self.signed.as_bytes(), &self.signature));
        if is_signed { Ok(EscrowedRoot(self.root)) } else { Err(EscrowFault::Signature) }
    }
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::{Ed25519PrivateKey, Secret};
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::is_signer;
    use crate::store_id::StoreId;

    fn signer(seed: u8) -> RecordKey {
        RecordKey::new(StoreId([7; 16]), 2, Ed25519PrivateKey::from_seed(Secret::from_bytes(&[seed; 32])))
    }

    #[test]
    fn a_root_comes_back_only_as_its_store_has_signed_it() {
        assert!(!is_signer(ESCROW_SIGNER));
        let mut rng = StdRng::seed_from_u64(3);
        let (root, own, other) = (SymmetricRoot::generate(&mut rng), signer(1), signer(2));
        let line = EscrowedRoot::line(&root, &own);
        assert!(line.len() < ESCROWED_SIZE_MAX && line.ends_with('\n'));
        let read = || UnverifiedRoot::parse(&line).expect("a line");
        assert_eq!(read().epoch(), 2);
        assert!(!format!("{:?}", read().root).contains("root="));
        for (own_key, trusted) in
            [(Some(&own), None), (None, Some(own.public_key())), (Some(&other), Some(own.public_key()))]
        {
            let back = read().verify(own_key, trusted.as_ref()).expect("signed").into_root();
            assert_eq!((back.bytes(), back.key_id()), (root.bytes(), root.key_id()));
        }
        for (own_key, trusted) in [(None, None), (Some(&other), None), (Some(&other), Some(other.public_key()))] {
            assert_eq!(read().verify(own_key, trusted.as_ref()).err(), Some(EscrowFault::Signature));
        }
        // Another root in its place, with an id of its own, and each changed character.
        let chosen = SymmetricRoot::generate(&mut rng);
        let signature = line.trim_end().rsplit_once('=').expect("signed").1;
        let forged = EscrowedRoot::line(&chosen, &other);
        let forged = format!("{}={signature}", forged.trim_end().rsplit_once('=').expect("signed").0);
        let forged = UnverifiedRoot::parse(&forged).expect("a line").verify(Some(&own), None);
        assert_eq!(forged.err(), Some(EscrowFault::Signature));
        let own_id = root.key_id().to_string();
        let renamed = line.replace(&own_id, &chosen.key_id().to_string());
        assert_eq!(UnverifiedRoot::parse(&renamed).err(), Some(EscrowFault::Text));
        for at in 0..line.trim_end().len() {
            let mut changed = line.as_bytes().to_vec();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ASCII");
            let back = UnverifiedRoot::parse(&changed).and_then(|read| read.verify(Some(&own), None));
            assert!(back.is_err(), "{at}");
        }
        for text in ["", "leafseal-symmetric-root-1", &line[1..], &line[..line.len() - 3], &line.replace(' ', "  ")] {
            assert_eq!(UnverifiedRoot::parse(text).err(), Some(EscrowFault::Text));
        }
    }
}
