//! Numbers of any length as words of 64 bits, the lowest first, for the set-up of a key and the last step of a signature. Constant time in
//! the values, which may be primes; not in lengths.

use crate::ec::mask;
use crate::u64x8::{LIMB_BITS, LIMB_MASK};

/// The words of a big-endian number; `None` if it does not fit into `count`.
pub(super) fn from_bytes(bytes: &[u8], count: usize) -> Option<Vec<u64>> {
    let spare = bytes.len().saturating_sub(8 * count);
    let (above, bytes) = bytes.split_at(spare);
    let mut words = vec![0; count];
    for (word, chunk) in words.iter_mut().zip(bytes.rchunks(8)) {
        *word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    above.iter().all(|byte| *byte == 0).then_some(words)
}

/// Big-endian bytes of the same length.
pub(super) fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().rev().flat_map(|word| word.to_be_bytes()).collect()
}

/// Limb `i` of 52 bits; zero above the number.
pub(super) fn limb(words: &[u64], i: usize) -> u64 {
    let bit = i * LIMB_BITS as usize;
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let (low, shift) = (bit / 64, bit % 64);
    let high = if shift == 0 { 0 } else { word(low + 1) << (64 - shift) };
    (word(low) >> shift | high) & LIMB_MASK
}

/// The lowest `count` words of a number, whose limbs are below 2^52.
pub(super) fn from_limbs(limbs: impl Iterator<Item = u64>, count: usize) -> Vec<u64> {
    let mut words = vec![0; count];
    for (i, limb) in limbs.enumerate() {
        let (low, shift) = (i * LIMB_BITS as usize / 64, i * LIMB_BITS as usize % 64);
        if let Some(word) = words.get_mut(low) {
            *word |= limb << shift;
        }
        if let Some(word) = words.get_mut(low + 1).filter(|_| shift > 12) {
            *word |= limb >> (64 - shift);
        }
    }
    words
}

/// Whether `a` is below `b`, which is as long.
pub(super) fn is_below(a: &[u64], b: &[u64]) -> bool {
    let mut borrow = false;
    for (a, b) in a.iter().zip(b) {
        (_, borrow) = a.borrowing_sub(*b, borrow);
    }
    borrow
}

/// Subtracts the modulus once if the number is not below it. The number may have more words than the modulus.
pub(super) fn reduce_once(a: &mut [u64], modulus: &[u64]) {
    let padded = || modulus.iter().copied().chain(std::iter::repeat(0));
    let mut borrow = false;
    for (a, b) in a.iter().zip(padded()) {
        (_, borrow) = a.borrowing_sub(b, borrow);
    }
    let taken = mask(!borrow);
    let mut borrow = false;
    for (a, b) in a.iter_mut().zip(padded()) {
        (*a, borrow) = a.borrowing_sub(b & taken, borrow);
    }
}

/// 2^`exponent` modulo an odd number of which the highest bit is set.
pub(super) fn power_of_two(exponent: usize, modulus: &[u64]) -> Vec<u64> {
    // With a word above for doublings. 2^(64·length) − modulus is below the modulus.
    let mut power = vec![0; modulus.len() + 1];
    power[modulus.len()] = 1;
    reduce_once(&mut power, modulus);
    for _ in 64 * modulus.len()..exponent {
        let mut carry = 0;
        for word in &mut power {
            (*word, carry) = (*word << 1 | carry, *word >> 63);
        }
        reduce_once(&mut power, modulus);
    }
    power.truncate(modulus.len());
    power
}

/// a·b + c, as long as a and b together.
pub(super) fn multiply_add(a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
    let mut product = vec![0; a.len() + b.len()];
    product[..c.len()].copy_from_slice(c);
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (place, b) in product[i..].iter_mut().zip(b) {
            (*place, carry) = a.carrying_mul_add(*b, *place, carry);
        }
        for place in &mut product[i + b.len()..] {
            let above;
            (*place, above) = place.overflowing_add(carry);
            carry = u64::from(above);
        }
    }
    product
}

/// −1/a modulo 2^52, for an odd `a`: each step doubles the bits that are right, from three.
pub(super) fn negative_inverse(a: u64) -> u64 {
    let mut inverse = a;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(a.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg() & LIMB_MASK
}
