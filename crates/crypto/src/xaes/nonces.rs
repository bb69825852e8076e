//! Nonces of XAES-256-GCM: a prefix drawn from the caller's generator for a request or for each value, and a suffix that starts at random
//! and counts.

use rand_core::CryptoRng;

use super::{XAES_NONCE_SIZE, XaesNonce};
use crate::aead::NONCE_SIZE;

type Half = [u8; NONCE_SIZE];

/// The nonces of one request. Nonces with an equal prefix have different suffixes; prefixes are 96 random bits.
///
/// The generator must be one that a copy of the process does not continue: [`crate::random::system_random`]. All bits are drawn when the
/// nonces are made, after which nothing is drawn for this request, and nothing is kept for another. So if the memory of the process is
/// copied (a fork, a restored checkpoint, a cloned virtual machine), the copies use the same nonces only for a request that was running
/// when the copy was made: every later request draws other prefixes in each copy. Make the nonces when the texts are at hand and will
/// not change, so that even then the same nonces meet the same texts.
///
/// Among 2^q requests (or values, where each has a prefix) under one key, two prefixes are equal with a probability of at most
/// 2^(2q − 97); then the suffixes must meet as well, and those are random too.
pub struct XaesNonces {
    prefixes: Prefixes,
    suffix: u128,
}

enum Prefixes {
    One(Half),
    Each(std::vec::IntoIter<Half>),
}

impl XaesNonces {
    /// Any number of nonces with one prefix: one derivation of a key for all of them.
    pub fn with_one_prefix(rng: &mut dyn CryptoRng) -> Self {
        let mut halves = [[0; NONCE_SIZE]; 2];
        rng.fill_bytes(halves.as_flattened_mut());
        Self { prefixes: Prefixes::One(halves[0]), suffix: number(halves[1]) }
    }

    /// `count` nonces with a prefix each, all drawn at once. Whoever learns the derived key of one value cannot open another.
    pub fn with_prefix_each(rng: &mut dyn CryptoRng, count: usize) -> Self {
        let mut halves = vec![[0; NONCE_SIZE]; count + 1];
        rng.fill_bytes(halves.as_flattened_mut());
        let suffix = halves.pop().map_or(0, number);
        Self { prefixes: Prefixes::Each(halves.into_iter()), suffix }
    }
}

impl Iterator for XaesNonces {
    type Item = XaesNonce;

    fn next(&mut self) -> Option<XaesNonce> {
        let prefix = match &mut self.prefixes {
            Prefixes::One(prefix) => *prefix,
            Prefixes::Each(prefixes) => prefixes.next()?,
        };
        let mut nonce = [0; XAES_NONCE_SIZE];
        nonce[..NONCE_SIZE].copy_from_slice(&prefix);
        // The last 96 bits of the number, which wrap.
        nonce[NONCE_SIZE..].copy_from_slice(&self.suffix.to_be_bytes()[size_of::<u128>() - NONCE_SIZE..]);
        self.suffix = self.suffix.wrapping_add(1);
        Some(XaesNonce(nonce))
    }
}

fn number(half: Half) -> u128 {
    half.into_iter().fold(0, |number, byte| number << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use rand_core::{TryCryptoRng, TryRng};

    use super::*;
    use crate::random::system_random;

    /// Counts its draws, and gives the same byte each time.
    struct Constant {
        byte: u8,
        draws: usize,
    }

    impl TryRng for Constant {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            unreachable!("nonces are drawn as bytes")
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            unreachable!("nonces are drawn as bytes")
        }

        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
            out.fill(self.byte);
            self.draws += 1;
            Ok(())
        }
    }

    impl TryCryptoRng for Constant {}

    #[test]
    fn a_request_has_one_prefix_and_its_suffixes_count() {
        let mut rng = Constant { byte: 0xff, draws: 0 };
        let nonces: Vec<XaesNonce> = XaesNonces::with_one_prefix(&mut rng).take(300).collect();
        assert!(nonces.iter().all(|nonce| *nonce.prefix() == [0xff; 12]));
        assert_eq!(*nonces[0].suffix(), [0xff; 12]);
        assert_eq!(*nonces[1].suffix(), [0; 12], "the number wraps");
        assert_eq!(nonces[257].suffix()[10..], [1, 0]);
        assert_eq!(nonces.iter().collect::<HashSet<_>>().len(), 300);
        assert_eq!(rng.draws, 1);
    }

    #[test]
    fn a_prefix_each_is_drawn_in_one_call() {
        let nonces: Vec<XaesNonce> = XaesNonces::with_prefix_each(&mut system_random(), 1_000).collect();
        assert_eq!(nonces.iter().map(XaesNonce::prefix).collect::<HashSet<_>>().len(), 1_000);
        // Suffixes count all the same, so that equal prefixes within a request make no equal nonces.
        let mut rng = Constant { byte: 7, draws: 0 };
        let nonces: Vec<XaesNonce> = XaesNonces::with_prefix_each(&mut rng, 1_000).collect();
        assert_eq!(nonces.iter().collect::<HashSet<_>>().len(), 1_000);
        assert_eq!(rng.draws, 1);
        assert_eq!(XaesNonces::with_prefix_each(&mut rng, 0).count(), 0);
    }

    /// Memory that is resumed twice: the request that was running repeats its nonces, for the same values; no other request does.
    #[test]
    fn copies_of_a_process_repeat_only_the_running_request() {
        let running = |seed: u8| XaesNonces::with_prefix_each(&mut Constant { byte: seed, draws: 0 }, 50);
        let (mut one, mut other) = (running(1), running(1));
        assert!(one.by_ref().eq(other.by_ref()), "values of the running request");
        let requests = |_| [XaesNonces::with_one_prefix(&mut system_random()).take(50).collect::<Vec<_>>()];
        let later: Vec<XaesNonce> = (0..100).flat_map(requests).flatten().collect();
        assert_eq!(later.iter().collect::<HashSet<_>>().len(), 5_000);
        let prefixes: HashSet<_> = later.iter().map(XaesNonce::prefix).collect();
        assert_eq!(prefixes.len(), 100, "each request draws its own");
    }
}
