//! One slot as it is stored.

use std::fmt;

use leafseal_crypto::hash::{SHA256_SIZE, hmac_sha256, hmac_sha256_verify};
use leafseal_crypto::hpke::{HpkePrivateKey, HpkePublicKey, SEED_SIZE};
use leafseal_crypto::{CryptoRng, Secret};
use zeroize::{Zeroize, Zeroizing};

use super::id::{ID_SIZE, SlotId};
use super::provider::{ProviderError, SlotKind, SlotPlace, SlotProvider};
use super::shamir;
use crate::root_key::StoreRoot;
use crate::store_id::{STORE_ID_SIZE, StoreId};

const MAC_KEY_SIZE: usize = 32;
/// Where the secrets begin, after the ids of store and slot.
const SECRETS_START: usize = STORE_ID_SIZE + ID_SIZE;
/// Bytes that a provider wraps.
const WRAPPED_SIZE: usize = SECRETS_START + SEED_SIZE + MAC_KEY_SIZE;

const LABEL_ROOT: &[u8] = b"leafseal-slot-root-1";
const LABEL_MAC_KEY: &[u8] = b"leafseal-slot-mac-key-1";

/// Longest name of a slot's key, in bytes.
pub const KEY_NAME_SIZE_MAX: usize = 512;

/// Whether this can be the name of a slot's key. Names are shown before anything of them is verified, on the terminal of a person who types
/// a passphrase: nothing in them may move a cursor, hide text or turn its direction.
pub(crate) fn is_key_name(name: &str) -> bool {
    // What needs an escape for `Debug` does not print.
    let prints = |letter: char| matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().len() == 1;
    name.len() <= KEY_NAME_SIZE_MAX && name.chars().all(prints)
}

/// What is public of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSummary {
    /// Its id.
    pub id: SlotId,
    /// What keeps its secrets.
    pub kind: SlotKind,
    /// The key's name among others of the kind.
    pub key_name: String,
    /// Unix seconds.
    pub created_at: u64,
}

impl SlotSummary {
    /// How many shares open it, if it has shares.
    pub(super) fn shares_needed(&self) -> Option<u8> {
        (self.kind == SlotKind::Shamir).then(|| shamir::threshold(&self.key_name)).flatten()
    }
}

impl fmt::Display for SlotSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, kind, key_name, .. } = self;
        let space = if key_name.is_empty() { "" } else { " " };
        write!(f, "{id} ({kind}{space}{key_name})")
    }
}

/// A slot with all that is stored of it.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) summary: SlotSummary,
    pub(crate) public_key: HpkePublicKey,
    /// The slot's secrets, as the provider wrapped them.
    pub(crate) wrapped_secrets: Vec<u8>,
    /// The MAC key, sealed under the root.
    pub(crate) wrapped_mac_key: Vec<u8>,
    /// Counts the roots of the store.
    pub(crate) epoch: u32,
    /// The root, sealed to the public key.
    pub(crate) sealed_root: Vec<u8>,
    pub(crate) root_mac: [u8; SHA256_SIZE],
}

/// A slot that is not stored yet. What opens it can be delivered first.
#[derive(Debug)]
pub struct MadeSlot(pub(crate) Slot);

impl MadeSlot {
    /// What is public of it.
    pub fn summary(&self) -> &SlotSummary {
        &self.0.summary
    }
}

/// What is known of the slots that remain when one is removed.
pub enum RemainingSlots<'p> {
    /// One of them must open with one of these, or the slot is not removed.
    OpenWith(&'p [Box<dyn SlotProvider>]),
    /// A person takes it upon themselves that one of them opens.
    Untested,
}

/// A root of a store, with its number.
#[derive(Clone, Copy)]
pub(crate) struct NumberedRoot<'r> {
    pub(crate) store: StoreId,
    pub(crate) root: &'r StoreRoot,
    pub(crate) epoch: u32,
}

/// What a provider keeps for a slot.
struct SlotSecrets {
    private_key: HpkePrivateKey,
    mac_key: Secret<MAC_KEY_SIZE>,
}

impl SlotSecrets {
    fn wrap(
        &self,
        provider: &dyn SlotProvider,
        place: &SlotPlace,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, ProviderError> {
        let mut plain = Zeroizing::new(Vec::with_capacity(WRAPPED_SIZE));
        plain.extend_from_slice(&place.store.0);
        plain.extend_from_slice(place.slot.bytes());
        plain.extend_from_slice(self.private_key.seed().expose());
        plain.extend_from_slice(self.mac_key.expose());
        provider.wrap(place, &plain, rng)
    }

    /// The ids are checked here, too: not every provider binds what it wraps to its place.
    fn unwrap(provider: &dyn SlotProvider, place: &SlotPlace, wrapped: &[u8]) -> Result<Self, ProviderError> {
        let plain = provider.unwrap(place, wrapped)?;
        let is_here = |plain: &&[u8]| {
            plain.len() == WRAPPED_SIZE
                && plain.starts_with(&place.store.0)
                && plain[STORE_ID_SIZE..].starts_with(place.slot.bytes())
        };
        let plain = Some(plain.as_slice()).filter(is_here).ok_or(ProviderError::Refused)?;
        let (seed, mac_key) = plain[SECRETS_START..].split_at(SEED_SIZE);
        let seed = Secret::from_slice(seed).ok_or(ProviderError::Refused)?;
        let mac_key = Secret::from_slice(mac_key).ok_or(ProviderError::Refused)?;
        Ok(Self { private_key: HpkePrivateKey::from_seed(seed), mac_key })
    }
}

impl Slot {
    /// A new slot for `root`. The provider is asked to open it at once: one that cannot is of no use when it is needed.
    pub(crate) fn make(
        provider: &dyn SlotProvider,
        root: NumberedRoot<'_>,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, ProviderError> {
        let (id, kind) = (SlotId::random(rng), provider.kind());
        let summary = SlotSummary { id, kind, key_name: provider.key_name(), created_at: now };
        if !is_key_name(&summary.key_name) {
            return Err(ProviderError::Bounds(
                "the name of the key must have at most 512 bytes, and printable characters only",
            ));
        }
        let secrets = SlotSecrets { private_key: HpkePrivateKey::generate(rng), mac_key: Secret::random(rng) };
        let place = SlotPlace { store: root.store, slot: summary.id.clone(), kind };
        let wrapped_secrets = secrets.wrap(provider, &place, rng)?;
        let opened = SlotSecrets::unwrap(provider, &place, &wrapped_secrets)?;
        if opened.mac_key != secrets.mac_key {
            return Err(ProviderError::Refused);
        }
        let mut slot = Self {
            public_key: secrets.private_key.public_key(),
            summary,
            wrapped_secrets,
            wrapped_mac_key: Vec::new(),
            epoch: 0,
            sealed_root: Vec::new(),
            root_mac: [0; SHA256_SIZE],
        };
        slot.seal_root(root, &secrets.mac_key, rng)?;
        Ok(slot)
    }

    /// Seals `root` in the place of `before`, whose holder alone may.
    pub(crate) fn replace_root(
        &mut self,
        before: &StoreRoot,
        root: NumberedRoot<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ProviderError> {
        let mac_key = before.open(&self.mac_key_data(root.store), &self.wrapped_mac_key);
        let mac_key = mac_key.ok().and_then(|key| Secret::from_slice(&key)).ok_or(ProviderError::Refused)?;
        self.seal_root(root, &mac_key, rng)
    }

    fn seal_root(
        &mut self,
        root: NumberedRoot<'_>,
        mac_key: &Secret<MAC_KEY_SIZE>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ProviderError> {
        let NumberedRoot { store, root, epoch } = root;
        self.epoch = epoch;
        let sealed = self.public_key.seal(&self.root_info(store), &[], root.bytes().expose());
        self.sealed_root = sealed.map_err(|_| ProviderError::Refused)?;
        self.root_mac = hmac_sha256(mac_key.expose(), &self.root_message(store));
        self.wrapped_mac_key = root.seal(&self.mac_key_data(store), mac_key.expose(), rng);
        Ok(())
    }

    /// The root, and its number among the store's.
    pub(crate) fn unlock(
        &self,
        store: StoreId,
        provider: &dyn SlotProvider,
    ) -> Result<(StoreRoot, u32), ProviderError> {
        let SlotSummary { id, kind, .. } = &self.summary;
        let place = SlotPlace { store, slot: id.clone(), kind: *kind };
        let secrets = SlotSecrets::unwrap(provider, &place, &self.wrapped_secrets)?;
        // Anyone can seal something to a public key.
        if !hmac_sha256_verify(secrets.mac_key.expose(), &self.root_message(store), &self.root_mac) {
            return Err(ProviderError::Refused);
        }
        let opened = secrets.private_key.open(&self.root_info(store), &[], &self.sealed_root);
        let mut bytes = opened.map_err(|_| ProviderError::Refused)?;
        let root = Secret::from_slice(&bytes).ok_or(ProviderError::Refused)?;
        bytes.zeroize();
        Ok((StoreRoot::from_bytes(root), self.epoch))
    }

    fn root_info(&self, store: StoreId) -> Vec<u8> {
        [LABEL_ROOT, &store.0, self.summary.id.bytes(), &self.epoch.to_be_bytes()].concat()
    }

    fn root_message(&self, store: StoreId) -> Vec<u8> {
        [self.root_info(store), self.sealed_root.clone()].concat()
    }

    fn mac_key_data(&self, store: StoreId) -> Vec<u8> {
        [LABEL_MAC_KEY, &store.0, self.summary.id.bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_print_and_are_bounded() {
        let long = "k".repeat(KEY_NAME_SIZE_MAX);
        let arn = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
        for name in
            ["", "sha256:7", "2 of 3", "1f2e3d4c5b6a7988", "transit/leafseal", arn, "Schlüssel \"1\" \\ 'a'", &long]
        {
            assert!(is_key_name(name), "{name}");
        }
        for name in ["\u{1b}[2J", "a\nb", "a\rb", "\u{9b}2J", "\u{202e}", "\u{200b}", "\0", &format!("{long}k")] {
            assert!(!is_key_name(name), "{name:?}");
        }
    }
}
