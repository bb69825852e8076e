//! The interface of what keeps the secrets of a slot.

use std::fmt;

use leafseal_crypto::CryptoRng;
use zeroize::Zeroizing;

use super::id::SlotId;
use crate::root_key::StoreRoot;
use crate::store_id::StoreId;

/// What keeps the secrets of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SlotKind {
    /// A root key in a file, or in the environment.
    File,
    /// A passphrase, stretched with Argon2id.
    Passphrase,
    /// Some of several shares.
    Shamir,
    /// A key of the Transit secrets engine of an OpenBao or Vault.
    Transit,
    /// A key of AWS KMS.
    AwsKms,
    /// A secret key in a hardware security module.
    Pkcs11,
    /// A pair of RSA keys in a hardware security module.
    Pkcs11Rsa,
    /// A TPM 2.0.
    Tpm2,
}

impl SlotKind {
    /// All kinds, whether this build has the provider or not.
    pub const ALL: &'static [Self] = &[
        Self::File,
        Self::Passphrase,
        Self::Shamir,
        Self::Transit,
        Self::AwsKms,
        Self::Pkcs11,
        Self::Pkcs11Rsa,
        Self::Tpm2,
    ];

    /// Its name, also in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Passphrase => "passphrase",
            Self::Shamir => "shamir",
            Self::Transit => "transit",
            Self::AwsKms => "aws-kms",
            Self::Pkcs11 => "pkcs11",
            Self::Pkcs11Rsa => "pkcs11-rsa",
            Self::Tpm2 => "tpm2",
        }
    }

    /// Whether someone who keeps a copy of a slot's row cannot open it with a quantum computer that breaks RSA and elliptic curves.
    pub fn is_quantum_safe(self) -> bool {
        self != Self::Pkcs11Rsa
    }

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for SlotKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// First bytes of the associated data.
const LABEL: &[u8] = b"leafseal-slot-1";

/// Where a slot's secrets belong.
#[derive(Debug, Clone)]
pub struct SlotPlace {
    pub(crate) store: StoreId,
    pub(crate) slot: SlotId,
    pub(crate) kind: SlotKind,
}

impl SlotPlace {
    /// The store's id as text: 32 hexadecimal digits.
    pub fn store_id(&self) -> String {
        hex::encode(self.store.0)
    }

    /// The slot's id.
    pub fn slot_id(&self) -> &SlotId {
        &self.slot
    }

    /// Label ‖ store (16) ‖ slot (8) ‖ kind: what a provider with associated data binds the secrets to.
    pub fn associated_data(&self) -> Vec<u8> {
        [LABEL, &self.store.0, self.slot.bytes(), self.kind.name().as_bytes()].concat()
    }
}

/// Why a provider does not wrap or unwrap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// What was given is not what the slot was made with, or the slot is damaged.
    #[error("it does not open the slot")]
    Refused,
    /// A service or device does not open this slot, in its words. It may open others.
    #[error("{0}")]
    Denied(String),
    /// A service or device does not do what it is asked for now, for any slot. Trying again may help.
    #[error("{0}")]
    Unavailable(String),
    /// What is stored or set is outside the bounds.
    #[error("{0}")]
    Bounds(&'static str),
}

/// Calls of a device or a service for one of its keys in one opening of a store.
pub const SAME_KEY_TRIES_MAX: usize = 4;
/// Work of all slots that are tried in one opening of a store, in KiB of memory times passes: 8 GiB once, or 42 passphrases of the usual
/// costs.
pub const OPENING_WORK_MAX: u64 = 8 << 20;

/// Keeps the secrets of slots. Called when a store is opened and when a slot is made, never for a value: a call may take as long as a
/// device or a service does.
pub trait SlotProvider: Send + Sync {
    /// The kind of its slots.
    fn kind(&self) -> SlotKind;

    /// Names the key among others of its kind, in public: empty where there are no names.
    fn key_name(&self) -> String {
        String::new()
    }

    /// Whether it may open a slot of its kind with this name.
    fn may_open(&self, key_name: &str) -> bool {
        key_name == self.key_name()
    }

    /// Encrypts the secrets of a slot for its place.
    ///
    /// # Errors
    /// [`ProviderError::Unavailable`], [`ProviderError::Bounds`].
    fn wrap(&self, place: &SlotPlace, secret: &[u8], rng: &mut dyn CryptoRng) -> Result<Vec<u8>, ProviderError>;

    /// Opens what [`SlotProvider::wrap`] returned for the same place.
    ///
    /// # Errors
    /// [`ProviderError`].
    fn unwrap(&self, place: &SlotPlace, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProviderError>;

    /// How many slots of one key are tried in one opening of a store, however many a database names. The default is for providers that
    /// call a device or a service; those that only compute are bounded by their work.
    fn tries_max(&self) -> usize {
        SAME_KEY_TRIES_MAX
    }

    /// What opening this costs this machine: KiB of memory times passes over it. 0 for what costs next to nothing.
    fn work(&self, _wrapped: &[u8]) -> u64 {
        0
    }

    /// Whether it can be asked again without a person.
    fn is_automatic(&self) -> bool {
        true
    }

    /// The root of stores without slots, before schema 3, if it is one.
    fn root_without_slots(&self) -> Option<&StoreRoot> {
        None
    }
}
