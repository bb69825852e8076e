//! SHA-256 and HMAC over it of two messages side by side, by the kernel of `lanes` where there is one.

use leafseal_lanes::sha256::{BLOCK_SIZE, INITIAL, Kernel, Sha256Words};
use zeroize::Zeroizing;

use crate::digest::DigestAlgorithm;
use crate::ffi::digest::{self as library, Sha256};
use crate::lanes;
use crate::mac::MacKey;

/// Bytes of a digest.
const DIGEST_SIZE: usize = 32;
/// Bytes after the message: a one, and its length.
const PADDING_MIN: usize = 9;

/// A hash value in the middle, after whole blocks. Wiped on drop.
struct Hash {
    state: Zeroizing<Sha256Words>,
    size: u64,
}

impl DigestAlgorithm {
    /// The digests of two messages. SHA-256 computes both at once on CPUs with the SHA extensions, the others one after the other.
    ///
    /// # Panics
    /// When a digest has another length than [`DigestAlgorithm::size`].
    pub fn digest_pair(self, messages: [&[u8]; 2], digests: [&mut [u8]; 2]) {
        let Some(kernel) = lanes::serving_sha256().filter(|_| self == Self::Sha256) else {
            return messages.into_iter().zip(digests).for_each(|(message, digest)| self.digest(message, digest));
        };
        let start = || Hash { state: Zeroizing::new(INITIAL), size: 0 };
        let found = finish(kernel, [start(), start()], messages);
        digests.into_iter().zip(&found).for_each(|(digest, found)| digest.copy_from_slice(found));
    }
}

impl MacKey {
    /// The codes of two messages, each under its own key, as [`DigestAlgorithm::digest_pair`].
    ///
    /// # Panics
    /// When a code has another length than [`DigestAlgorithm::size`].
    pub fn mac_pair(keys: [&Self; 2], messages: [&[u8]; 2], macs: [&mut [u8]; 2]) {
        let starts = keys.map(MacKey::sha256_states);
        let (Some(kernel), [Some([front_inner, front_outer]), Some([back_inner, back_outer])]) =
            (lanes::serving_sha256(), starts)
        else {
            let each = keys.into_iter().zip(messages).zip(macs);
            return each.for_each(|((key, message), mac)| key.mac(message, mac));
        };
        let after_key = |state| Hash { state: Zeroizing::new(state), size: BLOCK_SIZE as u64 };
        let inner = Zeroizing::new(finish(kernel, [front_inner, back_inner].map(after_key), messages));
        let inner = inner.each_ref().map(|digest| digest.as_slice());
        let found = finish(kernel, [front_outer, back_outer].map(after_key), inner);
        macs.into_iter().zip(&found).for_each(|(mac, found)| mac.copy_from_slice(found));
    }
}

/// Hashes both messages to their ends.
fn finish(kernel: Kernel, [mut front, mut back]: [Hash; 2], messages: [&[u8]; 2]) -> [[u8; DIGEST_SIZE]; 2] {
    let taken = kernel.compress_pair([&mut front.state, &mut back.state], messages) * BLOCK_SIZE;
    let [front_rest, back_rest] = messages.map(|message| &message[taken..]);
    front.size += taken as u64;
    back.size += taken as u64;
    if front_rest.len() >= BLOCK_SIZE || back_rest.len() >= BLOCK_SIZE {
        // There is nothing left to run beside.
        return [front.finish(front_rest), back.finish(back_rest)];
    }
    let (front_end, back_end) = (PaddedEnd::new(front.size, front_rest), PaddedEnd::new(back.size, back_rest));
    let both = kernel.compress_pair([&mut front.state, &mut back.state], [front_end.blocks(), back_end.blocks()]);
    for (hash, end) in [(&mut front, &front_end), (&mut back, &back_end)] {
        let rest = &end.blocks()[both * BLOCK_SIZE..];
        if !rest.is_empty() {
            kernel.compress_pair([&mut hash.state, &mut INITIAL.clone()], [rest; 2]);
        }
    }
    [front.state, back.state].map(|state| {
        let mut digest = [0; DIGEST_SIZE];
        digest.as_chunks_mut().0.iter_mut().zip(*state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        digest
    })
}

impl Hash {
    /// By the library.
    fn finish(self, rest: &[u8]) -> [u8; DIGEST_SIZE] {
        let mut digest = [0; DIGEST_SIZE];
        let mut state = library::BoringDigest::<Sha256>::resume(&self.state, self.size);
        state.update(rest);
        state.finish(&mut digest);
        digest
    }
}

/// A message's last blocks, with the padding (FIPS 180-4, 5.1.1). Wiped on drop.
struct PaddedEnd {
    bytes: Zeroizing<[u8; 2 * BLOCK_SIZE]>,
    size: usize,
}

impl PaddedEnd {
    /// Of a message with less than a block after `hashed` bytes.
    fn new(hashed: u64, rest: &[u8]) -> Self {
        let mut bytes = Zeroizing::new([0; 2 * BLOCK_SIZE]);
        let size = (rest.len() + PADDING_MIN).next_multiple_of(BLOCK_SIZE);
        bytes[..rest.len()].copy_from_slice(rest);
        bytes[rest.len()] = 0x80;
        let bits = 8 * (hashed + rest.len() as u64);
        bytes[size - 8..size].copy_from_slice(&bits.to_be_bytes());
        Self { bytes, size }
    }

    fn blocks(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}
