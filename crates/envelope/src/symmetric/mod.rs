//! Envelopes that an engine seals with a symmetric key: XAES-256-GCM (C2SP) under a key that is derived from a symmetric root of the app.
//! The text names the key, and the value may be bound to a [`crate::Binding`] that it does not contain.

mod format;
mod open;
mod seal;

pub use format::{SYMMETRIC_OVERHEAD, SymmetricEnvelope};
pub use open::SymmetricOpening;
pub use seal::{NoncePrefixes, SymmetricProfile, SymmetricSealing};
