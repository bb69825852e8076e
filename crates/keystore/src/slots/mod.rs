//! Key slots: the ways to open a store.
//!
//! A store has one random root ([`StoreRoot`](crate::StoreRoot)). A slot is one way to it: a *provider* (a key file, a passphrase, shares,
//! a key service) keeps the slot's secrets, an X-Wing private key and a MAC key, and the root is sealed to the public key. A new root is
//! sealed to every slot without calling any provider, and the old root does not open the new one.
//!
//! ```text
//! wrapped     = provider(store ‖ slot ‖ X-Wing seed ‖ MAC key)
//! sealed root = HPKE(public key, info: label ‖ store ‖ slot ‖ epoch, root)
//! root MAC    = HMAC(MAC key, label ‖ store ‖ slot ‖ epoch ‖ sealed root)
//! own         = root.seal(MAC key), with which the next root is authenticated
//! ```
//!
//! Anyone can seal to a public key, so the MAC is what keeps others, who can write to the database, from having an engine open a store of
//! theirs. `docs/decisions/0042-key-slots.md` has the reasons.

mod collection;
mod id;
mod passphrase;
mod provider;
mod shamir;
mod slot;

pub use collection::{CandidateKeys, CollectedShares, ShareCollection, ShareLimits};
pub use id::{InvalidSlotId, SlotId};
pub use leafseal_crypto::argon2::Argon2Cost;
pub use passphrase::{ARGON2_COST_MAX, PASSPHRASE_SIZE_MAX, PASSPHRASE_SIZE_MIN, Passphrase};
pub use provider::{OPENING_WORK_MAX, ProviderError, SAME_KEY_TRIES_MAX, SlotKind, SlotPlace, SlotProvider};
pub use shamir::{InvalidShare, KeyShare, SHARE_COUNT_MAX, ShamirKey, ShareError};
pub use slot::{KEY_NAME_SIZE_MAX, MadeSlot, RemainingSlots, SlotSummary};
pub(crate) use slot::{NumberedRoot, Slot, is_key_name};
