//! The sizes of HPKE with X-Wing.

/// Bytes of a private key, which is a seed.
pub const SEED_SIZE: usize = 32;
/// Bytes of a public key.
pub const PUBLIC_KEY_SIZE: usize = 1216;
/// Bytes of the encapsulated key before a ciphertext.
pub const ENCAPSULATED_SIZE: usize = 1120;
/// Bytes of the tag after a ciphertext.
pub(crate) const TAG_SIZE: usize = 16;
