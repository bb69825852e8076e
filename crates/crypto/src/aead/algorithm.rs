//! AEAD algorithms by name.

/// An AEAD algorithm by its name in the IANA registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AeadAlgorithm {
    /// AEAD_AES_128_GCM.
    Aes128Gcm,
    /// AES-192-GCM (SP 800-38D; not in the registry).
    Aes192Gcm,
    /// AEAD_AES_256_GCM.
    Aes256Gcm,
}

impl AeadAlgorithm {
    /// Key length in bytes.
    pub fn key_size(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes192Gcm => 24,
            Self::Aes256Gcm => 32,
        }
    }
}
