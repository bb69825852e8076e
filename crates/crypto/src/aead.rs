//! Authenticated encryption with associated data (RFC 5116): AES-GCM as SP 800-38D has it and ChaCha20-Poly1305 (RFC 8439), 96-bit
//! nonces, 128-bit tags; tags of other lengths and operation in place in `detached`.
//!
//! A nonce must never repeat under a key. [`NonceSequence`] gives out nonces for a key made for the occasion: random bits of each
//! taking and a counter. Timing depends on lengths only; the comparison of tags is constant time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use leafseal_lanes::chacha;
use leafseal_lanes::gcm::{self, Kernel};
use rand_core::CryptoRng;
use thiserror::Error;
use zeroize::Zeroize;

use crate::ffi::aead::Context;
use crate::ffi::stream_cipher::CipherText;
use crate::lanes::{self, Implementations, LanesUnavailable};
use crate::{DecryptFailed, Secret};

mod chacha_stream;
mod detached;
mod long;
mod parts;
mod stream;

pub use crate::types::aead::AeadAlgorithm;
pub use parts::{PART_BLOCK_SIZE, PartHash, Parts};
pub use stream::{OpenStream, SealStream};

pub use leafseal_lanes::gcm::{NONCE_SIZE, Nonce, OpenItem, SealItem, TAG_SIZE};

/// Longest plaintext of one message in bytes (SP 800-38D, 5.2.1.1: 2^39 − 256 bits).
pub const PLAINTEXT_SIZE_MAX: u64 = (1 << 36) - 32;

/// Longest key of all algorithms in bytes.
const KEY_SIZE_MAX: usize = 32;
/// The longest message, in bytes, for which the lanes encrypt a single message. Without others beside it, the library is as fast
/// for slightly longer ones.
const ALONE_SIZE_MAX: usize = 192;
/// Messages opened in one call of the lanes: bounds the results kept on the stack.
const OPENED_MAX: usize = 64;
/// The caller's guarantee.
const ROOM: &str = "room for exactly these messages";

/// The key has the wrong length for its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the key has the wrong length for this algorithm")]
pub struct InvalidKeyLength;

/// The nonce is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the nonce is empty")]
pub struct InvalidNonceLength;

/// An expanded AEAD key, ready to use from any thread. Wiped on drop.
pub struct AeadKey {
    algorithm: AeadAlgorithm,
    /// The library's key, expanded when it is needed: for long messages, odd nonces, and where there are no lanes.
    context: OnceLock<Context>,
    /// The same for tags of another length: the first one that is asked for.
    truncated: OnceLock<(usize, Context)>,
    lanes: Option<gcm::GcmKey>,
    /// The kernel for long texts of ChaCha20-Poly1305.
    chacha: Option<chacha::Kernel>,
    /// The key followed by zeros; streams expand it again.
    bytes: Secret<KEY_SIZE_MAX>,
}

impl std::fmt::Debug for AeadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AeadKey({:?}, …)", self.algorithm)
    }
}

impl AeadKey {
    /// Expands `key`, which must have [`AeadAlgorithm::key_size`] bytes.
    pub fn new(algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, InvalidKeyLength> {
        Self::on(lanes::serving(), algorithm, key)
    }

    /// As [`AeadKey::new`], on lanes of the caller's choice: for tests and benches.
    ///
    /// # Errors
    /// [`LanesUnavailable`].
    ///
    /// # Panics
    /// When the key has the wrong length.
    pub fn with_lanes(choice: Implementations, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, LanesUnavailable> {
        Ok(Self::on(choice.kernel()?, algorithm, key).expect("a key of the algorithm's length"))
    }

    /// As [`AeadKey::new`], without lanes: for a key with few messages, which are long.
    ///
    /// # Panics
    /// When the key has the wrong length.
    pub(crate) fn of_library(algorithm: AeadAlgorithm, key: &[u8]) -> Self {
        Self::on(None, algorithm, key).expect("a key of the algorithm's length")
    }

    fn on(kernel: Option<Kernel>, algorithm: AeadAlgorithm, key: &[u8]) -> Result<Self, InvalidKeyLength> {
        if key.len() != algorithm.key_size() {
            return Err(InvalidKeyLength);
        }
        let has_lanes = matches!(algorithm, AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes256Gcm);
        let lanes = kernel.filter(|_| has_lanes).map(|kernel| gcm::GcmKey::new(kernel, key));
        let chacha = lanes::chacha_beside(kernel.filter(|_| algorithm == AeadAlgorithm::ChaCha20Poly1305));
        let mut bytes = Secret::zeroed();
        bytes.expose_mut()[..key.len()].copy_from_slice(key);
        Ok(Self { algorithm, context: OnceLock::new(), truncated: OnceLock::new(), lanes, chacha, bytes })
    }

    fn context(&self) -> &Context {
        self.context.get_or_init(|| Context::new(self.algorithm, self.bytes(), TAG_SIZE))
    }

    /// The algorithm.
    pub fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes.expose()[..self.algorithm.key_size()]
    }

    /// The number of leading messages that the lanes process together, and the kernel: none if the first is long, or if it is alone
    /// and the library is faster.
    fn lanes_for(&self, sizes: impl Iterator<Item = usize> + Clone) -> Option<(usize, &gcm::GcmKey)> {
        let lanes = self.lanes.as_ref()?;
        let size_max = lanes.kernel().size_max();
        let count = sizes.clone().take_while(|&size| size <= size_max).count();
        let is_taken = count > 1 || count == 1 && sizes.clone().next() <= Some(ALONE_SIZE_MAX);
        is_taken.then_some((count, lanes))
    }

    /// Writes ciphertext and tag to `out`, which must have exactly `item.plaintext.len() + TAG_SIZE` bytes.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn seal(&self, item: &SealItem<'_>, out: &mut [u8]) {
        self.seal_many(std::slice::from_ref(item), out);
    }

    /// As [`AeadKey::seal`] with a nonce of any length but zero, for formats that demand one: SP 800-38D, 8.2 advises 96 bits, and
    /// other lengths are hashed to a start block, which makes collisions of that block possible.
    ///
    /// # Errors
    /// [`InvalidNonceLength`] for an empty nonce.
    ///
    /// # Panics
    /// When `out` has another length than the plaintext and the tag together.
    pub fn hazmat_seal_any_nonce(
        &self,
        nonce: &[u8],
        aad: &[u8],
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<(), InvalidNonceLength> {
        assert_eq!(out.len(), plaintext.len() + TAG_SIZE, "room for ciphertext and tag");
        if nonce.is_empty() {
            return Err(InvalidNonceLength);
        }
        self.seal_alone(nonce, aad, plaintext, out);
        Ok(())
    }

    /// Through the library. `out` has room for ciphertext and tag.
    fn seal_alone(&self, nonce: &[u8], aad: &[u8], plaintext: &[u8], out: &mut [u8]) {
        let (ciphertext, tag) = out.split_at_mut(plaintext.len());
        tag.copy_from_slice(&self.seal_long(nonce, aad, CipherText::Separate(plaintext, ciphertext)));
    }

    /// As [`AeadKey::open`] with a nonce of any length; an empty one fails like a wrong one.
    ///
    /// # Errors
    /// [`DecryptFailed`].
    ///
    /// # Panics
    /// When `out` has another length than the plaintext.
    pub fn hazmat_open_any_nonce(
        &self,
        nonce: &[u8],
        aad: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecryptFailed> {
        let plaintext_size = sealed.len().checked_sub(TAG_SIZE).ok_or(DecryptFailed)?;
        assert_eq!(out.len(), plaintext_size, "room for the plaintext");
        let (ciphertext, tag) = sealed.split_at(plaintext_size);
        if nonce.is_empty() || !self.open_long(nonce, aad, CipherText::Separate(ciphertext, out), tag) {
            out.zeroize();
            return Err(DecryptFailed);
        }
        Ok(())
    }

    /// Seals every item. `out` receives their ciphertexts and tags in order and must have exactly the sum of their lengths.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn seal_many(&self, mut items: &[SealItem<'_>], mut out: &mut [u8]) {
        while let Some(first) = items.first() {
            let lanes = self.lanes_for(items.iter().map(|item| item.plaintext.len()));
            let (some, rest) = items.split_at(lanes.map_or(1, |(count, _)| count));
            let size = some.iter().map(|item| item.plaintext.len() + TAG_SIZE).sum();
            let (sealed, after) = out.split_at_mut_checked(size).expect(ROOM);
            match lanes {
                Some((_, lanes)) => lanes.seal(some, sealed),
                None => self.seal_alone(&first.nonce.0, first.aad, first.plaintext, sealed),
            }
            (items, out) = (rest, after);
        }
        assert!(out.is_empty(), "{ROOM}");
    }

    /// Writes the plaintext to `out`, which must have exactly `item.sealed.len() - TAG_SIZE` bytes. On failure `out` is zero.
    ///
    /// # Errors
    /// [`DecryptFailed`] for a wrong tag, key, nonce or associated data, and for an input too short to hold a tag.
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn open(&self, item: &OpenItem<'_>, out: &mut [u8]) -> Result<(), DecryptFailed> {
        let mut result = [Ok(())];
        self.open_many(std::slice::from_ref(item), out, &mut result);
        result[0]
    }

    /// Decrypts every item on its own: `out` receives the plaintexts in order, `results[i]` is the result of item `i`. The part of
    /// `out` of a failed item is zeroed; an item too short for a tag has no part. A failed item does not affect others.
    ///
    /// # Panics
    /// When `out` or `results` have the wrong length.
    pub fn open_many(
        &self,
        mut items: &[OpenItem<'_>],
        mut out: &mut [u8],
        mut results: &mut [Result<(), DecryptFailed>],
    ) {
        assert_eq!(items.len(), results.len(), "one result an item");
        while let Some(first) = items.first() {
            // Messages too short for a tag go to the library, which refuses them.
            let sizes = items.iter().take(OPENED_MAX).map(|item| item.sealed.len().wrapping_sub(TAG_SIZE));
            let lanes = self.lanes_for(sizes);
            let (some, rest) = items.split_at(lanes.map_or(1, |(count, _)| count));
            let size = some.iter().map(|item| item.sealed.len().saturating_sub(TAG_SIZE)).sum();
            let (plaintexts, after) = out.split_at_mut_checked(size).expect(ROOM);
            let (these, others) = results.split_at_mut(some.len());
            match lanes {
                Some((_, lanes)) => {
                    let mut opened = [false; OPENED_MAX];
                    lanes.open(some, plaintexts, &mut opened[..some.len()]);
                    let opened = opened.into_iter().map(|opened| if opened { Ok(()) } else { Err(DecryptFailed) });
                    these.iter_mut().zip(opened).for_each(|(result, opened)| *result = opened);
                }
                None => these[0] = self.hazmat_open_any_nonce(&first.nonce.0, first.aad, first.sealed, plaintexts),
            }
            (items, out, results) = (rest, after, others);
        }
        assert!(out.is_empty(), "{ROOM}");
    }
}

/// Bytes that are random, at the beginning of a nonce.
const PREFIX_SIZE: usize = 8;

/// Counts the nonces of one fresh key: 64 random bits of each taking, then 32 bits that no other nonce of the key has in this process.
/// Shared between threads without a lock.
///
/// A copy of the process (a fork, a restored checkpoint, a cloned virtual machine) counts on from where this process does, and its
/// requests may take numbers in another order. It draws other bits, so that nonces of the two are equal with a probability of 2^-64 for
/// each pair of takings.
pub struct NonceSequence {
    start: u32,
    taken: AtomicU64,
    limit: u64,
}

impl NonceSequence {
    /// Starts to count at a random number. `limit` is the maximum number of nonces (SP 800-38D, 8.3 requires at most 2^32 per AES-GCM key;
    /// larger limits are reduced to that).
    pub fn new(rng: &mut dyn CryptoRng, limit: u64) -> Self {
        Self { start: rng.next_u32(), taken: AtomicU64::new(0), limit: limit.min(1 << 32) }
    }

    /// Takes `count` nonces at once, for texts that are at hand and will not change, or none when fewer are left: then the key is spent.
    ///
    /// `rng` must be one that a copy of the process does not continue: [`crate::random::system_random`], or, for a key with a single nonce,
    /// the one that made the key. The bits are drawn after the numbers are taken. A copy made before that draws others; one made later
    /// uses the same nonces for the same texts. Bits drawn earlier could meet other numbers in each copy, and so one nonce two texts.
    pub fn take(&self, rng: &mut dyn CryptoRng, count: u64) -> Option<NonceRange> {
        let first = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(count).filter(|&after| after <= self.limit)
            })
            .ok()?;
        let mut prefix = [0; PREFIX_SIZE];
        rng.fill_bytes(&mut prefix);
        // At most 2^32 are taken, so that the number wraps without a repetition.
        Some(NonceRange { prefix, next: self.start.wrapping_add(first as u32), left: count })
    }

    /// How many nonces can still be taken.
    pub fn left(&self) -> u64 {
        self.limit - self.taken.load(Ordering::Relaxed)
    }
}

/// Nonces taken from a [`NonceSequence`]; no other caller gets them.
pub struct NonceRange {
    prefix: [u8; PREFIX_SIZE],
    next: u32,
    left: u64,
}

impl Iterator for NonceRange {
    type Item = Nonce;

    fn next(&mut self) -> Option<Nonce> {
        self.left = self.left.checked_sub(1)?;
        let mut nonce = [0; NONCE_SIZE];
        nonce[..PREFIX_SIZE].copy_from_slice(&self.prefix);
        nonce[PREFIX_SIZE..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        Some(Nonce(nonce))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use aes_gcm::aead::{Aead, KeyInit, Payload};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_core::{TryCryptoRng, TryRng};

    use super::*;

    fn reference_seal(key: &[u8], item: &SealItem<'_>) -> Vec<u8> {
        let payload = Payload { msg: item.plaintext, aad: item.aad };
        let nonce = &item.nonce.0.into();
        match key.len() {
            16 => aes_gcm::Aes128Gcm::new_from_slice(key).expect("length").encrypt(nonce, payload),
            _ => aes_gcm::Aes256Gcm::new_from_slice(key).expect("length").encrypt(nonce, payload),
        }
        .expect("sealed")
    }

    /// A 251-byte cycle, so that swapped blocks show.
    fn cycle(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn equals_another_library_at_every_edge_length() {
        for algorithm in [AeadAlgorithm::Aes128Gcm, AeadAlgorithm::Aes256Gcm] {
            let key_bytes = cycle(algorithm.key_size());
            let key = AeadKey::new(algorithm, &key_bytes).expect("length");
            for length in (0..=300).chain([1023, 1024, 1025, 4095, 65_537]) {
                let plaintext = cycle(length);
                let aad = cycle(length % 101);
                let item = SealItem { nonce: Nonce([length as u8; 12]), aad: &aad, plaintext: &plaintext };
                let mut sealed = vec![0; length + TAG_SIZE];
                key.seal(&item, &mut sealed);
                assert_eq!(sealed, reference_seal(&key_bytes, &item), "length {length}");
                let mut opened = vec![0; length];
                key.open(&OpenItem { nonce: item.nonce, aad: &aad, sealed: &sealed }, &mut opened).expect("opens");
                assert_eq!(opened, plaintext);
            }
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_fails_and_leaves_nothing() {
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[7; 32]).expect("length");
        let item = SealItem { nonce: Nonce([1; 12]), aad: b"aad", plaintext: b"secret text" };
        let mut sealed = vec![0; item.plaintext.len() + TAG_SIZE];
        key.seal(&item, &mut sealed);
        for bit in 0..sealed.len() * 8 {
            sealed[bit / 8] ^= 1 << (bit % 8);
            let mut out = vec![0xff; item.plaintext.len()];
            let result = key.open(&OpenItem { nonce: item.nonce, aad: item.aad, sealed: &sealed }, &mut out);
            assert_eq!(result, Err(DecryptFailed));
            assert!(out.iter().all(|&byte| byte == 0), "a failed opening shows plaintext");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
        for length in 0..TAG_SIZE {
            let item = OpenItem { nonce: Nonce([1; 12]), aad: b"", sealed: &sealed[..length] };
            assert_eq!(key.open(&item, &mut []), Err(DecryptFailed));
        }
    }

    #[test]
    fn one_bad_item_spoils_only_itself() {
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[7; 32]).expect("length");
        let plaintexts: Vec<Vec<u8>> = (0..9).map(|i| cycle(i * 7)).collect();
        let items: Vec<SealItem<'_>> = plaintexts
            .iter()
            .enumerate()
            .map(|(i, plaintext)| SealItem { nonce: Nonce([i as u8; 12]), aad: b"x", plaintext })
            .collect();
        let mut sealed = vec![0; plaintexts.iter().map(|p| p.len() + TAG_SIZE).sum()];
        key.seal_many(&items, &mut sealed);
        let mut parts = Vec::new();
        let mut rest = sealed.as_slice();
        for plaintext in &plaintexts {
            let (part, after) = rest.split_at(plaintext.len() + TAG_SIZE);
            parts.push(part.to_vec());
            rest = after;
        }
        parts[4][0] ^= 1;
        parts[7].truncate(3);
        let open: Vec<OpenItem<'_>> =
            parts.iter().zip(&items).map(|(part, i)| OpenItem { nonce: i.nonce, aad: b"x", sealed: part }).collect();
        let mut out = vec![0xff; parts.iter().map(|p| p.len().saturating_sub(TAG_SIZE)).sum()];
        let mut results = vec![Ok(()); 9];
        key.open_many(&open, &mut out, &mut results);
        let mut rest = out.as_slice();
        for (i, part) in parts.iter().enumerate() {
            let (opened, after) = rest.split_at(part.len().saturating_sub(TAG_SIZE));
            rest = after;
            assert_eq!(results[i].is_err(), i == 4 || i == 7);
            let expected = if results[i].is_ok() { plaintexts[i].clone() } else { vec![0; opened.len()] };
            assert_eq!(opened, expected);
        }
    }

    #[test]
    fn keys_of_the_wrong_length_are_refused() {
        for length in [0, 15, 17, 24, 31, 33] {
            assert!(AeadKey::new(AeadAlgorithm::Aes256Gcm, &vec![0; length]).is_err());
        }
        assert!(AeadKey::new(AeadAlgorithm::Aes256Gcm, &[0; 16]).is_err());
        assert!(AeadKey::new(AeadAlgorithm::Aes128Gcm, &[0; 32]).is_err());
    }

    /// Draws the same bits each time, so that the numbers alone must differ.
    struct Constant;

    impl TryRng for Constant {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(0x0909_0909)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(0x0909_0909_0909_0909)
        }

        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
            out.fill(9);
            Ok(())
        }
    }

    impl TryCryptoRng for Constant {}

    /// Rule 11 of `docs/format.md`.
    #[test]
    fn nonces_never_repeat_and_the_limit_holds() {
        let mut rng = StdRng::seed_from_u64(1);
        let sequence = NonceSequence::new(&mut rng, 10_000);
        let seen: HashSet<Nonce> = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    let take = |i: u64| sequence.take(&mut Constant, i % 7).expect("left");
                    scope.spawn(move || (0..100).flat_map(take).collect::<Vec<_>>())
                })
                .collect();
            takers.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
        });
        let expected: u64 = 4 * (0..100).map(|i| i % 7).sum::<u64>();
        assert_eq!(seen.len() as u64, expected);
        assert!(sequence.take(&mut rng, sequence.left() + 1).is_none());
        assert!(sequence.take(&mut rng, sequence.left()).is_some());
        assert!(sequence.take(&mut rng, 1).is_none());
        assert_eq!(NonceSequence::new(&mut StdRng::seed_from_u64(1), u64::MAX).left(), 1 << 32);
    }

    #[test]
    fn the_counter_wraps_within_its_32_bits() {
        let sequence = NonceSequence { start: u32::MAX, taken: AtomicU64::new(0), limit: 3 };
        let nonces: Vec<Nonce> = sequence.take(&mut Constant, 3).expect("left").collect();
        assert_eq!(nonces[0].0, [9, 9, 9, 9, 9, 9, 9, 9, 255, 255, 255, 255]);
        assert_eq!(nonces[1].0, [9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0]);
        let far = NonceSequence { start: 1, taken: AtomicU64::new((1 << 32) - 1), limit: 1 << 32 };
        let last: Vec<Nonce> = far.take(&mut Constant, 1).expect("left").collect();
        assert_eq!(last[0].0[8..], [0; 4]);
        assert!(far.take(&mut Constant, 1).is_none(), "2^32 numbers are taken");
    }

    /// A restored checkpoint: two copies of one sequence.
    #[test]
    fn copies_of_a_sequence_give_other_nonces() {
        let copy = || NonceSequence { start: 7, taken: AtomicU64::new(5), limit: 1 << 20 };
        let mut rng = StdRng::seed_from_u64(2);
        let mut seen = HashSet::new();
        for sequence in [copy(), copy()] {
            for _ in 0..10 {
                seen.extend(sequence.take(&mut rng, 100).expect("left"));
            }
        }
        assert_eq!(seen.len(), 2_000);
    }

    proptest! {
        #[test]
        fn many_equals_a_loop(lengths in prop::collection::vec(0usize..200, 0..20), aad_length in 0usize..100) {
            let key_bytes = cycle(32);
            let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &key_bytes).expect("length");
            let aad = cycle(aad_length);
            let texts: Vec<Vec<u8>> = lengths.iter().map(|&l| cycle(l)).collect();
            let items: Vec<SealItem<'_>> = texts.iter().enumerate()
                .map(|(i, t)| SealItem { nonce: Nonce([i as u8; 12]), aad: &aad, plaintext: t }).collect();
            let mut out = vec![0; texts.iter().map(|t| t.len() + TAG_SIZE).sum()];
            key.seal_many(&items, &mut out);
            let expected: Vec<u8> = items.iter().flat_map(|i| reference_seal(&key_bytes, i)).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
