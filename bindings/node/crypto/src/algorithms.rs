//! Numbers of algorithms, as JavaScript passes them.

use leafseal_crypto::{AeadAlgorithm, CipherAlgorithm, DigestAlgorithm};

/// An operation on an algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Cipher(CipherAlgorithm),
    Aead(AeadAlgorithm),
    Hash(DigestAlgorithm),
    Mac(DigestAlgorithm),
}

/// Numbers between the kinds.
const KIND: usize = 32;

impl Algorithm {
    /// The algorithm of a number.
    #[inline]
    pub(crate) fn from_number(number: usize) -> Option<Self> {
        let index = number % KIND;
        match number / KIND {
            0 => CipherAlgorithm::ALL.get(index).copied().map(Self::Cipher),
            1 => AeadAlgorithm::ALL.get(index).copied().map(Self::Aead),
            2 => DigestAlgorithm::ALL.get(index).copied().map(Self::Hash),
            3 => DigestAlgorithm::ALL.get(index).copied().map(Self::Mac),
            _ => None,
        }
    }

    /// Bytes of the result for a source, and of the IV.
    #[inline]
    pub(crate) fn sizes(self, source_size: usize) -> (usize, usize) {
        match self {
            Self::Cipher(_) => (source_size, 16),
            Self::Aead(_) => (source_size, 12),
            Self::Hash(digest) | Self::Mac(digest) => (digest.size(), 0),
        }
    }

    /// One line an algorithm: kind, name, number, sizes of key, IV and digest.
    pub(crate) fn table() -> String {
        let mut table = String::new();
        for (index, cipher) in CipherAlgorithm::ALL.into_iter().enumerate() {
            table += &format!("cipher {} {index} {} 16 0\n", cipher.name(), cipher.key_size());
        }
        for (index, aead) in AeadAlgorithm::ALL.into_iter().enumerate() {
            table += &format!("aead {} {} {} 12 0\n", aead.name(), KIND + index, aead.key_size());
        }
        for (index, digest) in DigestAlgorithm::ALL.into_iter().enumerate() {
            table += &format!("hash {} {} 0 0 {}\n", digest.name(), 2 * KIND + index, digest.size());
            table += &format!("hmac {} {} 0 0 {}\n", digest.name(), 3 * KIND + index, digest.size());
        }
        table
    }
}
