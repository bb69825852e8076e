//! Sizes of Ed25519.

/// Bytes of a private key: any 32 are one.
pub const SEED_SIZE: usize = 32;
/// Bytes of a public key.
pub const PUBLIC_KEY_SIZE: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_SIZE: usize = 64;
