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
    /// AEAD_CHACHA20_POLY1305 (RFC 8439).
    ChaCha20Poly1305,
}

impl AeadAlgorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Aes128Gcm, Self::Aes192Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The name that OpenSSL gives it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes192Gcm => "aes-192-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// Key length in bytes.
    pub fn key_size(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes192Gcm => 24,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Whether tags may be cut to `size` bytes: for GCM the lengths of SP 800-38D, 5.2.1.2. Short tags are easier to forge; use whole
    /// ones unless a format demands otherwise.
    pub fn takes_tag_size(self, size: usize) -> bool {
        match self {
            Self::ChaCha20Poly1305 => (1..=16).contains(&size),
            _ => matches!(size, 4 | 8 | 12..=16),
        }
    }
}
