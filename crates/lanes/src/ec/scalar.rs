//! Scalars, and how they are cut into signed odd digits.
//!
//! Let the windows begin at the bits b₀ = 0 < b₁ < … < bₜ. An odd scalar k is the sum of dᵢ·2^bᵢ, where dᵢ = 2u + 1 − 2^w for the
//! bits u of k from bᵢ + 1 to bᵢ₊₁ (w = bᵢ₊₁ − bᵢ of them), and dₜ = 2u + 1 for those above bₜ. Every digit is odd, so none is zero;
//! each depends on a few bits alone, so there is no carry from one to the next. An even scalar is replaced by the negative of the odd
//! ORDER − k.
//!
//! **No exception.** Aᵢ, the sum of the windows from i up divided by 2^bᵢ, is 2·⌊k/2^(bᵢ+1)⌋ + 1: odd, positive, below 2^(256−bᵢ). A
//! walk from the top computes Aᵢ = Aᵢ₊₁·2^w + dᵢ; its addition is exceptional only if Aᵢ₊₁·2^w ≡ ±dᵢ modulo the order n, that is if n
//! divides Aᵢ or Aᵢ − 2dᵢ. Both are odd, so not zero, and for i > 0 both are below n in absolute value. For i = 0, A₀ = k is between
//! 1 and n − 1, and A₀ − 2d₀ could only be n itself, for a negative d₀. But then d₀ + 2^b₁ ≡ k ≡ n + 2d₀ modulo 2^(b₁+1), or d₀ ≡
//! 2^b₁ − n: with a negative d₀ that needs bit b₁ of n to be set. It is clear in both orders for b₁ = 5, which is why the lowest
//! window has 5 bits and the others 6.

use super::curve::PrimeCurve;
use super::words::{Words, from_bytes, mask, select, subtract};
use crate::wipe::overwrite;

/// Bits of the lowest window.
const LOWEST_BITS: usize = 5;
/// Bits of each other window.
const BITS: usize = 6;
/// Windows of a scalar: the lowest, and the number that the other bits fill.
pub(super) const WINDOWS: usize = 1 + (256 - LOWEST_BITS).div_ceil(BITS);

/// Windows of a scalar where all have the bits of the lowest.
pub(super) const UNIFORM_WINDOWS: usize = 256usize.div_ceil(LOWEST_BITS);

/// Where a window begins.
pub(super) const fn window_start(window: usize) -> usize {
    if window == 0 { 0 } else { LOWEST_BITS + (window - 1) * BITS }
}

/// Bits of a window; the highest ends with the scalar and has no sign.
const fn window_bits(window: usize) -> usize {
    (if window + 1 == WINDOWS { 256 } else { window_start(window + 1) }) - window_start(window)
}

/// How many odd multiples a window's digits take, signs apart.
pub(super) const fn window_entries(window: usize) -> usize {
    1 << (window_bits(window) - 1)
}

/// Where the bits of a digit begin, and how many there are.
pub(super) struct DigitPlace {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) bits: usize,
}

/// The place of a window's digit in an odd scalar: the bits above the window's lowest.
#[inline(always)]
pub(super) const fn digit_place(window: usize) -> DigitPlace {
    let bit = window_start(window) + 1;
    DigitPlace { word: bit / 64, shift: (bit % 64) as u32, bits: window_bits(window) }
}

/// A scalar between 1 and the order − 1. Wiped on drop.
pub(super) struct Odd {
    /// The scalar, or the order minus the scalar.
    words: Words,
    /// All ones if it is the latter: a mask rather than a `bool`, whose unused values could encode that there is no scalar.
    negative: u64,
}

/// The multiple of a window's base: ±(2·index + 1).
#[derive(Clone, Copy)]
pub(super) struct Digit {
    pub(super) index: u64,
    /// All ones for the lower sign.
    pub(super) negative: u64,
}

impl Odd {
    /// Takes a big-endian scalar. Constant time in everything but whether it is valid.
    pub(super) fn new<C: PrimeCurve>(bytes: &[u8; 32]) -> Option<Self> {
        let (odd, is_valid) = Self::recode::<C>(bytes);
        is_valid.then_some(odd)
    }

    /// The scalar, and whether it is between 1 and the order − 1. Constant time.
    pub(super) fn recode<C: PrimeCurve>(bytes: &[u8; 32]) -> (Self, bool) {
        let scalar = from_bytes(bytes);
        let (negative, _) = subtract(C::ORDER, scalar);
        let is_zero = scalar.iter().fold(0, |sum, word| sum | word) == 0;
        let (_, is_below) = subtract(scalar, C::ORDER);
        let is_even = mask(scalar[0] & 1 == 0);
        let odd = Self { words: select(is_even, scalar, negative), negative: is_even };
        (odd, !is_zero & is_below)
    }

    /// The odd number that the digits make.
    #[inline(always)]
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// All ones if products with it are the negatives of the scalar's.
    pub(super) fn negative(&self) -> u64 {
        self.negative
    }

    /// The digit of a window.
    #[inline(always)]
    pub(super) fn digit(&self, window: usize) -> Digit {
        self.digit_at(digit_place(window), window + 1 == WINDOWS)
    }

    /// The digit of a window where all have [`LOWEST_BITS`].
    #[inline(always)]
    pub(super) fn uniform_digit(&self, window: usize) -> Digit {
        let bit = LOWEST_BITS * window + 1;
        let place = DigitPlace { word: bit / 64, shift: (bit % 64) as u32, bits: LOWEST_BITS };
        self.digit_at(place, window + 1 == UNIFORM_WINDOWS)
    }

    #[inline(always)]
    fn digit_at(&self, DigitPlace { word, shift, bits }: DigitPlace, is_highest: bool) -> Digit {
        let word_at = |index: usize| self.words.get(index).copied().unwrap_or(0);
        let bits_above = (word_at(word) >> shift | word_at(word + 1) << 1 << (63 - shift)) & ((1 << bits) - 1);
        if is_highest {
            return Digit { index: bits_above, negative: 0 };
        }
        // The upper half of the values are the positive digits, upwards from 1; the lower half the negative ones, downwards.
        let entries = 1 << (bits - 1);
        let negative = mask(bits_above & entries == 0);
        Digit { index: (bits_above ^ negative) & (entries - 1), negative }
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        overwrite(&mut self.words, 0);
        overwrite(std::slice::from_mut(&mut self.negative), 0);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::p256::P256;
    use super::super::secp256k1::Secp256k1;
    use super::super::words::{add, write_bytes};
    use super::*;

    fn bytes(words: &Words) -> [u8; 32] {
        let mut bytes = [0; 32];
        write_bytes(words, &mut bytes);
        bytes
    }

    /// The sum of the digits in their places, modulo 2^256.
    fn sum(odd: &Odd) -> Words {
        let mut sum = [0; 4];
        for window in 0..WINDOWS {
            let digit = odd.digit(window);
            assert!(digit.index < window_entries(window) as u64, "an entry of the window");
            let start = window_start(window);
            let mut value = [0; 5];
            value[start / 64] = (2 * digit.index + 1) << (start % 64);
            value[start / 64 + 1] = (2 * digit.index + 1) >> 1 >> (63 - start % 64);
            let value = std::array::from_fn(|i| value[i]);
            sum = if digit.negative != 0 { subtract(sum, value).0 } else { add(sum, value).0 };
        }
        sum
    }

    fn adds_up<C: PrimeCurve>() {
        let mut rng = StdRng::seed_from_u64(1);
        let powers = (0..256).map(|bit| std::array::from_fn(|i| if bit / 64 == i { 1 << (bit % 64) } else { 0 }));
        let near = (1..200).map(|small| subtract(C::ORDER, [small, 0, 0, 0]).0);
        let small = (1..200).map(|small| [small, 0, 0, 0]);
        let random: Vec<Words> = (0..1000).map(|_| rng.random()).collect();
        for scalar in powers.chain(near).chain(small).chain(random) {
            let Some(odd) = Odd::new::<C>(&bytes(&scalar)) else { continue };
            assert_eq!(odd.words[0] & 1, 1);
            assert_eq!(sum(&odd), odd.words, "{scalar:x?}");
            let back = if odd.negative() != 0 { subtract(C::ORDER, odd.words).0 } else { odd.words };
            assert_eq!(back, scalar);
        }
    }

    #[test]
    fn digits_add_up() {
        adds_up::<P256>();
        adds_up::<Secp256k1>();
    }

    fn refuses_what_is_out_of_range<C: PrimeCurve>() {
        let order_plus = |small: u64| add(C::ORDER, [small, 0, 0, 0]).0;
        for scalar in [[0; 4], C::ORDER, order_plus(1), order_plus(2), [!0; 4]] {
            assert!(Odd::new::<C>(&bytes(&scalar)).is_none(), "{scalar:x?}");
        }
        assert!(Odd::new::<C>(&bytes(&subtract(C::ORDER, [1, 0, 0, 0]).0)).is_some());
    }

    #[test]
    fn scalars_are_between_one_and_the_order() {
        refuses_what_is_out_of_range::<P256>();
        refuses_what_is_out_of_range::<Secp256k1>();
    }

    /// The property that the proof that no addition is exceptional depends on.
    #[test]
    fn the_orders_allow_the_lowest_window() {
        for order in [P256::ORDER, Secp256k1::ORDER] {
            assert_eq!(order[0] >> LOWEST_BITS & 1, 0);
            assert_eq!(order[0] & 1, 1);
            assert_eq!(order[3] >> 63, 1, "above 2^255");
        }
    }
}
