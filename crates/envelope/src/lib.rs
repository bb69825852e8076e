//! The `ev:` envelope that an encrypted field becomes, and its file form: layout, key derivation, sealing and opening of one
//! value or many. The rules are numbered in `docs/format.md`; tests carry the numbers.
//!
//! Guarantees: bytes in, bytes out; clock and randomness are arguments. Encrypting many values under one key costs one key
//! agreement. No nonce repeats under a key. Every fault of an envelope's tag, key or content is the same [`DecryptFailed`]; only
//! text that is not an envelope is a separate error, [`Malformed`].
//!
//! Not here: the key version of an envelope, caches, policy (crate `engine`); positions of envelopes in a document (`document`).

mod aad;
mod base64;
mod binding;
mod digest;
mod envelope;
mod format;
mod kdf;
mod long;
mod long_sealing;
mod metadata;
mod number;
mod open;
mod parts;
mod seal;
mod symmetric;
mod versions;

pub mod file;
#[doc(hidden)]
pub mod fuzzing;

pub use binding::{Binding, BindingPart, Bindings, CONTEXT_SIZE_MAX, InvalidContext, PATH_SIZE_MAX, PathTooLong};
pub use digest::EnvelopeDigest;
pub use envelope::Envelope;
pub use format::{ENVELOPE_OVERHEAD, PublicKeyEnvelope};
pub use leafseal_crypto::DecryptFailed;
pub use long::{LongKey, LongOpening, LongText, Sealed};
pub use long_sealing::LongSealing;
pub use metadata::{InvalidRole, Metadata, ORIGIN_LEAFSEAL, OpenedMetadata, ROLE_SIZE_MAX, Role, metadata_in_file};
pub use open::{EnvelopeForm, OpenError, OpenScratch, OpenedValue, OpeningKey};
pub use parts::{Malformed, Marking, ValueType};
pub use seal::{KeySpent, Profile, SealScratch, SealedInput, SealingKey, seal_each};
pub use symmetric::{
    NoncePrefixes, SYMMETRIC_OVERHEAD, SymmetricEnvelope, SymmetricOpening, SymmetricProfile, SymmetricSealing,
};
pub use versions::{Scheme, SymmetricVersion, Version};
