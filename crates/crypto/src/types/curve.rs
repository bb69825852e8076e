//! Sizes of keys on both curves.

/// Bytes of a scalar, a coordinate and a shared secret.
pub const SCALAR_SIZE: usize = 32;
/// Bytes of a compressed point (SEC 1, 2.3.3).
pub const COMPRESSED_SIZE: usize = 33;
/// Bytes of an uncompressed point (SEC 1, 2.3.3).
pub const UNCOMPRESSED_SIZE: usize = 65;
