//! XAES-256-GCM (C2SP, <https://c2sp.org/XAES-256-GCM>): AES-256-GCM with nonces of 192 bits, which may be random. The first half of a
//! nonce (its prefix) selects a key, the second half is the nonce under that key.
//!
//! ```text
//! K1 = double(AES(key, 0))                                       the subkey of CMAC (SP 800-38B, 6.1), once for each key
//! key of a prefix = AES(key, K1 ⊕ (0, 1, 'X', 0, prefix)) ‖ AES(key, K1 ⊕ (0, 2, 'X', 0, prefix))
//! ```
//!
//! `docs/decisions/0049-xaes.md` has the reasons for this cipher, and what its ciphertexts commit to. Nothing is kept between calls. Timing
//! depends on lengths, on which neighbours have an equal prefix, on which slices of associated data are the same, and on which tags were
//! wrong.

use zeroize::Zeroizing;

use crate::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, OpenStream, SealItem, SealStream, TAG_SIZE};
use crate::ffi::stream_cipher::AesKey;
use crate::{DecryptFailed, GuardedSecret};

mod nonces;

pub use leafseal_lanes::gcm::{XAES_NONCE_SIZE, XaesNonce, XaesOpenItem, XaesSealItem};
pub use nonces::XaesNonces;

/// Bytes of a key.
pub const XAES_KEY_SIZE: usize = 32;
/// The caller's guarantee.
const ROOM: &str = "room for exactly these messages";

/// A key of XAES-256-GCM, ready to use from any thread. Wiped on drop.
pub struct XaesKey {
    key: GuardedSecret,
}

impl std::fmt::Debug for XaesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("XaesKey(…)")
    }
}

impl XaesKey {
    /// Copies `key`; the caller wipes its own copy.
    pub fn new(key: &[u8; XAES_KEY_SIZE]) -> Self {
        Self { key: GuardedSecret::from_bytes(key) }
    }

    /// The key of a prefix.
    fn derive(&self, nonce: &XaesNonce) -> AeadKey {
        let aes = AesKey::new(self.key.expose());
        let subkey = Zeroizing::new(double(u128::from_be_bytes(aes.encrypt(&[0; 16]))));
        let mut derived = Zeroizing::new([0; XAES_KEY_SIZE]);
        for (counter, half) in (1..).zip(derived.as_chunks_mut::<16>().0) {
            let mut message = Zeroizing::new([0, counter, b'X', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            message[4..].copy_from_slice(nonce.prefix());
            *half = aes.encrypt(&(u128::from_be_bytes(*message) ^ *subkey).to_be_bytes());
        }
        AeadKey::new(AeadAlgorithm::Aes256Gcm, &*derived).expect("32 bytes")
    }

    /// Seals every item. `out` receives their ciphertexts and tags in order and must have exactly the sum of their lengths. Neighbours with
    /// an equal prefix share a key.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn seal_many(&self, items: &[XaesSealItem<'_>], mut out: &mut [u8]) {
        for some in items.chunk_by(|item, next| item.nonce.prefix() == next.nonce.prefix()) {
            let size = some.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum();
            let (sealed, after) = out.split_at_mut_checked(size).expect(ROOM);
            let gcm: Vec<SealItem<'_>> = some.iter().map(XaesSealItem::under_prefix).collect();
            self.derive(&some[0].nonce).seal_many(&gcm, sealed);
            out = after;
        }
        assert!(out.is_empty(), "{ROOM}");
    }

    /// Decrypts every item on its own: `out` receives the plaintexts in order, `results[i]` is the result of item `i`. The part of
    /// `out` of a failed item is zeroed; an item too short for a tag has no part. A failed item does not affect others.
    ///
    /// # Panics
    /// When `out` or `results` have the wrong length.
    pub fn open_many(
        &self,
        items: &[XaesOpenItem<'_>],
        mut out: &mut [u8],
        mut results: &mut [Result<(), DecryptFailed>],
    ) {
        assert_eq!(items.len(), results.len(), "one result an item");
        for some in items.chunk_by(|item, next| item.nonce.prefix() == next.nonce.prefix()) {
            let size = some.iter().map(|item| item.sealed.len().saturating_sub(TAG_SIZE)).sum();
            let (plaintexts, after) = out.split_at_mut_checked(size).expect(ROOM);
            let (these, others) = results.split_at_mut(some.len());
            let gcm: Vec<OpenItem<'_>> = some.iter().map(XaesOpenItem::under_prefix).collect();
            self.derive(&some[0].nonce).open_many(&gcm, plaintexts, these);
            (out, results) = (after, others);
        }
        assert!(out.is_empty(), "{ROOM}");
    }

    /// Begins to seal a message that comes in pieces.
    pub fn seal_stream(&self, nonce: &XaesNonce, aad: &[u8]) -> SealStream {
        self.derive(nonce).seal_stream(&Nonce(*nonce.suffix()), aad)
    }

    /// Begins to open a message that comes in pieces.
    pub fn open_stream(&self, nonce: &XaesNonce, aad: &[u8]) -> OpenStream {
        self.derive(nonce).open_stream(&Nonce(*nonce.suffix()), aad)
    }
}

/// Times x, in CMAC's field (SP 800-38B, 6.1). Constant time.
fn double(bits: u128) -> u128 {
    bits << 1 ^ 0x87 & (bits >> 127).wrapping_neg()
}
