//! One AES-GCM message in parts that several threads seal or open at once.
//!
//! A library's interface has neither a counter that starts in the middle of a message nor the hash of a part. Both follow from its
//! nonces of other lengths (SP 800-38D, 7.1): such a nonce is hashed to the first counter block, and as that hash is multiplication by the
//! hash key H, there is a nonce for every counter block. The tag of a part, sealed under the nonce for its place, holds the hash of
//! the part: H and the encrypted counter block are known. Hashes of parts combine by powers of H.
//!
//! The library therefore does all work that is proportional to the text. The few products per part are computed here, in constant time.

use zeroize::{Zeroize, Zeroizing};

use super::{AeadAlgorithm, AeadKey, Nonce, TAG_SIZE};
use crate::DecryptFailed;
use crate::ffi::stream_cipher::{AesKey, CipherText};
use crate::secret::equal_constant_time;

/// Bytes of a block. Parts begin at multiples of it.
pub const PART_BLOCK_SIZE: usize = 16;

/// The common state of the parts of a message.
pub struct Parts {
    aes: AesKey,
    hash_key: u128,
    inverse: u128,
    nonce: Nonce,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts(…)")
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.hash_key.zeroize();
        self.inverse.zeroize();
    }
}

/// The hash of a part's ciphertext.
#[derive(Clone, Copy)]
pub struct PartHash {
    hash: u128,
    size: u64,
}

impl std::fmt::Debug for PartHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PartHash(…)")
    }
}

impl AeadKey {
    /// Prepares a message in parts: tens of microseconds. None for ChaCha20-Poly1305.
    pub fn parts(&self, nonce: &Nonce) -> Option<Parts> {
        if self.algorithm == AeadAlgorithm::ChaCha20Poly1305 {
            return None;
        }
        let aes = AesKey::new(self.bytes());
        let hash_key = u128::from_be_bytes(aes.encrypt(&[0; 16]));
        Some(Parts { aes, hash_key, inverse: inverse(hash_key), nonce: *nonce })
    }

    /// Encrypts the part that begins `block` blocks after the start of the message, to `ciphertext` of the same length. All parts but the
    /// last have a whole number of blocks.
    ///
    /// # Panics
    /// When the texts differ in length.
    pub fn seal_part(&self, parts: &Parts, block: u64, plaintext: &[u8], ciphertext: &mut [u8]) -> PartHash {
        self.seal_part_text(parts, block, CipherText::Separate(plaintext, ciphertext))
    }

    /// As [`AeadKey::seal_part`], in place.
    pub fn seal_part_in_place(&self, parts: &Parts, block: u64, text: &mut [u8]) -> PartHash {
        self.seal_part_text(parts, block, CipherText::InPlace(text))
    }

    fn seal_part_text(&self, parts: &Parts, block: u64, text: CipherText<'_>) -> PartHash {
        let size = text.input().len() as u64;
        let start = parts.start(block);
        let tag = self.context().seal(&parts.nonce_for(start), &[], text);
        parts.hash_in(tag, start, u128::from(8 * size), size)
    }

    /// Decrypts a part. The plaintext is unauthenticated until [`AeadKey::open_parts`] succeeds: until then it must not be released or
    /// inspected, and on failure it must be wiped.
    ///
    /// # Panics
    /// When the texts differ in length.
    pub fn open_part(&self, parts: &Parts, block: u64, ciphertext: &[u8], plaintext: &mut [u8]) -> PartHash {
        let hash = self.hash_part(parts, ciphertext);
        self.context().seal(&parts.nonce_for(parts.start(block)), &[], CipherText::Separate(ciphertext, plaintext));
        hash
    }

    /// As [`AeadKey::open_part`], in place.
    pub fn open_part_in_place(&self, parts: &Parts, block: u64, text: &mut [u8]) -> PartHash {
        let hash = self.hash_part(parts, text);
        self.context().seal(&parts.nonce_for(parts.start(block)), &[], CipherText::InPlace(text));
        hash
    }

    /// The hash of bytes, which are passed as associated data of an empty message.
    fn hash_part(&self, parts: &Parts, bytes: &[u8]) -> PartHash {
        let (start, size) = (parts.start(0), bytes.len() as u64);
        let tag = self.context().seal(&parts.nonce_for(start), bytes, CipherText::InPlace(&mut []));
        parts.hash_in(tag, start, u128::from(8 * size) << 64, size)
    }

    /// The tag of the message whose parts have these hashes, in order.
    pub fn seal_parts(&self, parts: &Parts, aad: &[u8], hashes: &[PartHash]) -> [u8; TAG_SIZE] {
        let aad = self.hash_part(parts, aad);
        let (mut power, mut power_blocks) = (0, 0);
        let mut state = aad.hash;
        for part in hashes {
            let blocks = part.size.div_ceil(PART_BLOCK_SIZE as u64);
            if blocks != power_blocks {
                (power, power_blocks) = (raise(parts.hash_key, u128::from(blocks)), blocks);
            }
            state = multiply(state, power) ^ part.hash;
        }
        let size: u64 = hashes.iter().map(|part| part.size).sum();
        let lengths = u128::from(8 * aad.size) << 64 | u128::from(8 * size);
        let hash = multiply(state ^ lengths, parts.hash_key);
        (hash ^ parts.encrypt(parts.first())).to_be_bytes()
    }

    /// Whether `tag`, which may be cut, is that of the message whose parts have these hashes.
    ///
    /// # Errors
    /// [`DecryptFailed`].
    pub fn open_parts(&self, parts: &Parts, aad: &[u8], hashes: &[PartHash], tag: &[u8]) -> Result<(), DecryptFailed> {
        let expected = self.seal_parts(parts, aad, hashes);
        let is_right = self.algorithm.takes_tag_size(tag.len()) && equal_constant_time(&expected[..tag.len()], tag);
        is_right.then_some(()).ok_or(DecryptFailed)
    }
}

impl Parts {
    /// The counter block that encrypts the tag: the nonce and 1.
    fn first(&self) -> u128 {
        let mut block = [0; 16];
        block[..12].copy_from_slice(&self.nonce.0);
        u128::from_be_bytes(block) | 1
    }

    /// The counter block before that of the part's first block. The counter has 32 bits.
    fn start(&self, block: u64) -> u128 {
        let counter = (self.first() as u32).wrapping_add(block as u32);
        self.first() >> 32 << 32 | u128::from(counter)
    }

    /// The nonce of 16 bytes whose hash is `start`.
    fn nonce_for(&self, start: u128) -> [u8; 16] {
        multiply(multiply(start, self.inverse) ^ 128, self.inverse).to_be_bytes()
    }

    fn encrypt(&self, block: u128) -> u128 {
        u128::from_be_bytes(self.aes.encrypt(&block.to_be_bytes()))
    }

    /// The hash that a tag holds.
    fn hash_in(&self, tag: [u8; TAG_SIZE], start: u128, lengths: u128, size: u64) -> PartHash {
        let tag = Zeroizing::new(u128::from_be_bytes(tag) ^ self.encrypt(start));
        PartHash { hash: multiply(*tag, self.inverse) ^ lengths, size }
    }
}

/// The product in GCM's field (SP 800-38D, 6.3), without branches or addresses that depend on the factors.
fn multiply(left: u128, right: u128) -> u128 {
    const REST: u128 = 0xe1 << 120;
    let (mut product, mut shifted) = (0, left);
    for bit in (0..128).rev() {
        product ^= shifted & (right >> bit & 1).wrapping_neg();
        shifted = shifted >> 1 ^ REST & (shifted & 1).wrapping_neg();
    }
    product
}

/// A power, by squaring; the exponent is public.
fn raise(base: u128, exponent: u128) -> u128 {
    // One, in GCM's order of bits.
    let mut power = 1 << 127;
    for bit in (0..128 - exponent.leading_zeros()).rev() {
        power = multiply(power, power);
        if exponent >> bit & 1 == 1 {
            power = multiply(power, base);
        }
    }
    power
}

/// The inverse: the power 2^128 - 2 (Fermat). That of zero, which no key has but with negligible probability, is zero: tags are then wrong.
fn inverse(element: u128) -> u128 {
    raise(element, u128::MAX - 1)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, RngExt, SeedableRng};

    use super::*;
    use crate::aead::SealItem;

    #[test]
    fn an_element_times_its_inverse_is_one() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..20 {
            let element: u128 = rng.random();
            assert_eq!(multiply(element, inverse(element)), 1 << 127);
        }
    }

    /// Sizes of parts: whole blocks, then any rest.
    fn cut(size: usize, rng: &mut StdRng) -> Vec<usize> {
        let (mut sizes, mut left) = (Vec::new(), size);
        while left > 0 {
            let part = (16 * rng.random_range(1..=70)).min(left);
            sizes.push(part);
            left -= part;
        }
        sizes
    }

    #[test]
    fn parts_are_the_whole() {
        let mut rng = StdRng::seed_from_u64(2);
        for round in 0..200 {
            let algorithm = AeadAlgorithm::ALL[round % 3];
            let mut bytes = vec![0; 32 + 12 + 100 + 5000];
            rng.fill_bytes(&mut bytes);
            let (key, rest) = bytes.split_at(32);
            let (nonce, rest) = rest.split_at(12);
            let (aad, plaintext) = rest.split_at(rng.random_range(0..100));
            let plaintext = &plaintext[..rng.random_range(0..5000)];
            let key = AeadKey::new(algorithm, &key[..algorithm.key_size()]).expect("length");
            let nonce = Nonce(nonce.try_into().expect("12 bytes"));
            let mut whole = vec![0; plaintext.len() + TAG_SIZE];
            key.seal(&SealItem { nonce, aad, plaintext }, &mut whole);

            let parts = key.parts(&nonce).expect("GCM");
            let (mut sealed, mut opened, mut at) = (plaintext.to_vec(), vec![0; plaintext.len()], 0);
            let (mut hashes, mut opened_hashes) = (Vec::new(), Vec::new());
            for size in cut(plaintext.len(), &mut rng) {
                let (block, range) = ((at / 16) as u64, at..at + size);
                hashes.push(key.seal_part_in_place(&parts, block, &mut sealed[range.clone()]));
                opened_hashes.push(key.open_part(&parts, block, &sealed[range.clone()], &mut opened[range]));
                at += size;
            }
            let (ciphertext, tag) = whole.split_at(plaintext.len());
            assert_eq!((&sealed[..], &opened[..]), (ciphertext, plaintext));
            assert_eq!(key.seal_parts(&parts, aad, &hashes), tag);
            assert_eq!(key.open_parts(&parts, aad, &opened_hashes, &tag[..12]), Ok(()));
            let mut wrong = tag.to_vec();
            wrong[round % TAG_SIZE] ^= 1;
            assert_eq!(key.open_parts(&parts, aad, &opened_hashes, &wrong), Err(DecryptFailed));
        }
    }

    #[test]
    fn the_counter_wraps_at_32_bits_only() {
        let key = AeadKey::new(AeadAlgorithm::Aes128Gcm, &[1; 16]).expect("length");
        let parts = key.parts(&Nonce([0xff; 12])).expect("GCM");
        assert_eq!(parts.start(u64::from(u32::MAX)), parts.first() >> 32 << 32);
    }
}
