//! Expanded keys of the last operations: expanding one costs more than a short message.

use std::hint::black_box;
use std::sync::Arc;

use leafseal_crypto::{AeadKey, CipherKey, DigestAlgorithm, MacKey, Secret};

use crate::algorithms::Algorithm;
use crate::fault::{OperationFault, OperationResult};
use crate::layout::KEY_SIZE_MAX;

/// Default of the setting `keyCacheSize`.
pub(crate) const KEPT_DEFAULT: usize = 8;
/// Maximum of the setting `keyCacheSize`: every lookup compares with all.
pub(crate) const KEPT_MAX: usize = 64;

/// A key ready for use, or the hash function that needs none.
#[derive(Clone)]
pub(crate) enum ReadyKey {
    Cipher(Arc<CipherKey>),
    Aead(Arc<AeadKey>),
    Mac(Arc<MacKey>),
    Hash(DigestAlgorithm),
}

impl ReadyKey {
    pub(crate) fn new(algorithm: Algorithm, bytes: &[u8]) -> OperationResult<Self> {
        match algorithm {
            Algorithm::Cipher(cipher) => CipherKey::new(cipher, bytes)
                .map(|key| Self::Cipher(Arc::new(key)))
                .map_err(|_| OperationFault::Internal),
            Algorithm::Aead(aead) => {
                AeadKey::new(aead, bytes).map(|key| Self::Aead(Arc::new(key))).map_err(|_| OperationFault::Internal)
            }
            Algorithm::Mac(digest) => {
                MacKey::new(digest, bytes).map(|key| Self::Mac(Arc::new(key))).map_err(|_| OperationFault::Unsupported)
            }
            Algorithm::Hash(digest) => Ok(Self::Hash(digest)),
        }
    }
}

struct CachedKey {
    algorithm: Algorithm,
    /// The key, followed by zeros.
    bytes: Secret<KEY_SIZE_MAX>,
    size: usize,
    key: ReadyKey,
}

/// The last keys, the latest first. An entry is wiped when it is replaced and when the cache is dropped.
///
/// Bytes are compared in constant time. Time depends on how many other keys were used since, not on their content.
pub(crate) struct KeyCache {
    entries: Vec<CachedKey>,
    kept: usize,
    /// The key of the last call where nothing is kept.
    alone: Option<ReadyKey>,
}

impl KeyCache {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), kept: KEPT_DEFAULT, alone: None }
    }

    /// Bounds the cache; 0 switches it off.
    pub(crate) fn keep(&mut self, kept: usize) {
        self.kept = kept.min(KEPT_MAX);
        self.entries.truncate(self.kept);
        self.alone = None;
    }

    /// The expanded form of a key.
    #[inline]
    pub(crate) fn get(&mut self, algorithm: Algorithm, bytes: &[u8]) -> OperationResult<&ReadyKey> {
        let is_same = |entry: &CachedKey| {
            entry.algorithm == algorithm
                && entry.size == bytes.len()
                && is_equal(&entry.bytes.expose()[..entry.size], bytes)
        };
        match self.entries.iter().position(is_same) {
            Some(0) => {}
            Some(place) => self.entries[..=place].rotate_right(1),
            None => return self.expand(algorithm, bytes),
        }
        Ok(&self.entries[0].key)
    }

    #[cold]
    fn expand(&mut self, algorithm: Algorithm, bytes: &[u8]) -> OperationResult<&ReadyKey> {
        let key = ReadyKey::new(algorithm, bytes)?;
        if self.kept == 0 || bytes.len() > KEY_SIZE_MAX {
            return Ok(self.alone.insert(key));
        }
        let mut kept = Secret::zeroed();
        kept.expose_mut()[..bytes.len()].copy_from_slice(bytes);
        self.entries.truncate(self.kept - 1);
        self.entries.insert(0, CachedKey { algorithm, bytes: kept, size: bytes.len(), key });
        Ok(&self.entries[0].key)
    }

    /// Forgets a key that is not kept.
    pub(crate) fn release(&mut self) {
        self.alone = None;
    }
}

/// Compares keys of one length in constant time, in words.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    let (left_words, left_rest) = left.as_chunks::<8>();
    let (right_words, right_rest) = right.as_chunks::<8>();
    let words = left_words.iter().zip(right_words);
    let difference = words.fold(0, |sum, (a, b)| sum | black_box(u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)));
    let rest = left_rest.iter().zip(right_rest);
    rest.fold(difference, |sum, (a, b)| sum | black_box(u64::from(a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafseal_crypto::AeadAlgorithm;

    const GCM: Algorithm = Algorithm::Aead(AeadAlgorithm::Aes256Gcm);

    fn address(key: &ReadyKey) -> *const AeadKey {
        let ReadyKey::Aead(key) = key else { panic!("a key of GCM") };
        Arc::as_ptr(key)
    }

    #[test]
    fn a_key_is_expanded_once_while_it_is_kept() {
        let mut keys = KeyCache::new();
        let first = address(keys.get(GCM, &[1; 32]).unwrap());
        for other in 2..=KEPT_DEFAULT as u8 {
            keys.get(GCM, &[other; 32]).unwrap();
        }
        assert_eq!(address(keys.get(GCM, &[1; 32]).unwrap()), first);
        assert_eq!(keys.entries.len(), KEPT_DEFAULT);
        let mut last_byte = [1; 32];
        last_byte[31] = 0;
        assert_ne!(address(keys.get(GCM, &last_byte).unwrap()), first);
    }

    #[test]
    fn nothing_is_kept_where_the_cache_is_off() {
        let mut keys = KeyCache::new();
        keys.get(GCM, &[1; 32]).unwrap();
        keys.keep(0);
        keys.get(GCM, &[1; 32]).unwrap();
        assert!(keys.entries.is_empty());
        keys.release();
        assert!(keys.alone.is_none());
    }

    #[test]
    fn every_byte_is_compared() {
        for size in 0..70 {
            let left: Vec<u8> = (0..size).collect();
            assert!(is_equal(&left, &left));
            for place in 0..left.len() {
                let mut right = left.clone();
                right[place] ^= 0x80;
                assert!(!is_equal(&left, &right), "{place} of {size}");
            }
        }
    }
}
