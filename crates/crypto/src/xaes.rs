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

use leafseal_lanes::gcm::{Kernel, XaesKeyParts};
use zeroize::Zeroizing;

use crate::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, OpenStream, SealItem, SealStream, TAG_SIZE};
use crate::ffi::stream_cipher::AesKey;
use crate::lanes::{self, Implementations, LanesUnavailable};
use crate::{DecryptFailed, GUARDED_SIZE, GuardedSecret};

mod nonces;

pub use leafseal_lanes::gcm::{XAES_NONCE_SIZE, XaesNonce, XaesOpenItem, XaesSealItem};
pub use nonces::XaesNonces;

/// Bytes of a key.
pub const XAES_KEY_SIZE: usize = 32;
/// Longest associated data, in bytes, that the lanes hash: a longer one would keep the others of its group waiting.
const LANES_AAD_SIZE_MAX: usize = 4096;
/// Messages opened in one call of the lanes: bounds the results kept on the stack.
const OPENED_MAX: usize = 256;
/// The caller's guarantee.
const ROOM: &str = "room for exactly these messages";

/// A key of XAES-256-GCM, ready to use from any thread. Wiped on drop.
pub struct XaesKey {
    kernel: Option<Kernel>,
    /// The key; where there are lanes, followed by the other round keys and K1.
    expanded: Vec<GuardedSecret>,
}

impl std::fmt::Debug for XaesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("XaesKey(…)")
    }
}

impl XaesKey {
    /// Expands `key`; the caller wipes its own copy.
    pub fn new(key: &[u8; XAES_KEY_SIZE]) -> Self {
        Self::on(lanes::serving(), key)
    }

    /// As [`XaesKey::new`], on lanes of the caller's choice: for tests and benches.
    ///
    /// # Errors
    /// [`LanesUnavailable`].
    pub fn with_lanes(choice: Implementations, key: &[u8; XAES_KEY_SIZE]) -> Result<Self, LanesUnavailable> {
        Ok(Self::on(choice.kernel()?, key))
    }

    fn on(kernel: Option<Kernel>, key: &[u8; XAES_KEY_SIZE]) -> Self {
        const { assert!(XAES_KEY_SIZE == GUARDED_SIZE) };
        let Some(serving) = kernel else { return Self { kernel, expanded: vec![GuardedSecret::from_bytes(key)] } };
        let mut parts = XaesKeyParts::zero();
        serving.expand_xaes(key, &mut parts);
        Self { kernel, expanded: parts.bytes().iter().map(GuardedSecret::from_bytes).collect() }
    }

    /// The expanded key, for one call.
    fn parts(&self) -> XaesKeyParts {
        let mut parts = XaesKeyParts::zero();
        parts.bytes_mut().iter_mut().zip(&self.expanded).for_each(|(place, kept)| *place = *kept.expose());
        parts
    }

    /// The key of a prefix, for messages that the library processes.
    fn derive(&self, nonce: &XaesNonce) -> AeadKey {
        let mut derived = Zeroizing::new([0; XAES_KEY_SIZE]);
        match self.kernel {
            Some(kernel) => kernel.derive_prefix(&self.parts(), nonce, &mut derived),
            None => derive_portable(self.expanded[0].expose(), nonce, &mut derived),
        }
        AeadKey::of_library(AeadAlgorithm::Aes256Gcm, &*derived)
    }

    /// The kernel, and how many messages in front it processes together, given the sizes of their texts and associated data; none if the
    /// first is long.
    fn lanes_for(&self, mut sizes: impl Iterator<Item = (usize, usize)>) -> Option<(usize, Kernel)> {
        let kernel = self.kernel?;
        let is_long = |(text, aad)| text > kernel.size_max() || aad > LANES_AAD_SIZE_MAX;
        let mut count = 0;
        while sizes.next().is_some_and(|sizes| !is_long(sizes)) {
            count += 1;
        }
        (count > 0).then_some((count, kernel))
    }

    /// Seals every item. `out` receives their ciphertexts and tags in order and must have exactly the sum of their lengths. Neighbours with
    /// an equal prefix share a key.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn seal_many(&self, mut items: &[XaesSealItem<'_>], mut out: &mut [u8]) {
        while let Some(first) = items.first() {
            let lanes = self.lanes_for(items.iter().map(|item| (item.plaintext.len(), item.aad.len())));
            let count = lanes.map_or_else(|| prefix_length(items, |item| &item.nonce), |(count, _)| count);
            let (some, rest) = items.split_at(count);
            let size = some.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum();
            let (sealed, after) = out.split_at_mut_checked(size).expect(ROOM);
            match lanes {
                Some((_, kernel)) => kernel.seal_xaes(&self.parts(), some, sealed),
                None => {
                    let gcm: Vec<SealItem<'_>> = some.iter().map(XaesSealItem::under_prefix).collect();
                    self.derive(&first.nonce).seal_many(&gcm, sealed);
                }
            }
            (items, out) = (rest, after);
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
        mut items: &[XaesOpenItem<'_>],
        mut out: &mut [u8],
        mut results: &mut [Result<(), DecryptFailed>],
    ) {
        assert_eq!(items.len(), results.len(), "one result an item");
        while let Some(first) = items.first() {
            // Messages too short for a tag go to the library, which refuses them.
            let size = |item: &XaesOpenItem<'_>| (item.sealed.len().wrapping_sub(TAG_SIZE), item.aad.len());
            let lanes = self.lanes_for(items.iter().take(OPENED_MAX).map(size));
            let count = lanes.map_or_else(|| prefix_length(items, |item| &item.nonce), |(count, _)| count);
            let (some, rest) = items.split_at(count);
            let size = some.iter().map(|item| item.sealed.len().saturating_sub(TAG_SIZE)).sum();
            let (plaintexts, after) = out.split_at_mut_checked(size).expect(ROOM);
            let (these, others) = results.split_at_mut(count);
            match lanes {
                Some((_, kernel)) => {
                    let mut opened = [false; OPENED_MAX];
                    kernel.open_xaes(&self.parts(), some, plaintexts, &mut opened[..count]);
                    let opened = opened.into_iter().map(|opened| if opened { Ok(()) } else { Err(DecryptFailed) });
                    these.iter_mut().zip(opened).for_each(|(result, opened)| *result = opened);
                }
                None => {
                    let gcm: Vec<OpenItem<'_>> = some.iter().map(XaesOpenItem::under_prefix).collect();
                    self.derive(&first.nonce).open_many(&gcm, plaintexts, these);
                }
            }
            (items, out, results) = (rest, after, others);
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

/// How many items in front have an equal prefix.
fn prefix_length<T>(items: &[T], nonce: impl Fn(&T) -> &XaesNonce) -> usize {
    items.iter().take_while(|item| nonce(item).prefix() == nonce(&items[0]).prefix()).count()
}

/// The key of a prefix, by the library.
fn derive_portable(key: &[u8; XAES_KEY_SIZE], nonce: &XaesNonce, derived: &mut [u8; XAES_KEY_SIZE]) {
    let aes = AesKey::new(key);
    let subkey = Zeroizing::new(double(u128::from_be_bytes(aes.encrypt(&[0; 16]))));
    for (counter, half) in (1..).zip(derived.as_chunks_mut::<16>().0) {
        let mut message = [0, counter, b'X', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        message[4..].copy_from_slice(nonce.prefix());
        let block = Zeroizing::new((u128::from_be_bytes(message) ^ *subkey).to_be_bytes());
        *half = aes.encrypt(&block);
    }
}

/// Times x, in CMAC's field (SP 800-38B, 6.1). Constant time.
fn double(bits: u128) -> u128 {
    bits << 1 ^ 0x87 & (bits >> 127).wrapping_neg()
}
