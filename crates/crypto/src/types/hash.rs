//! Hash functions by name.

/// Output length of SHA-256 and HMAC-SHA-256 in bytes.
pub const SHA256_SIZE: usize = 32;

/// Output length of SHA-512 in bytes.
pub const SHA512_SIZE: usize = 64;

/// A hash function, as signatures use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl HashFunction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Bytes of a digest.
    pub fn size(self) -> usize {
        match self {
            Self::Sha256 => SHA256_SIZE,
            Self::Sha384 => 48,
            Self::Sha512 => SHA512_SIZE,
        }
    }
}
