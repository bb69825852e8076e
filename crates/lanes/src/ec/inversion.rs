//! Inversion modulo an odd number of 256 bits by division steps (Bernstein and Yang, "Fast constant-time gcd computation and modular
//! inversion", 2019), in constant time.
//!
//! A division step takes two numbers, of which f is odd, to f and half of g, g + f or g − f, or exchanges them; after enough steps g is
//! zero and f is ± their greatest common divisor. With delta beginning at 1/2, 590 steps are enough for numbers of 256 bits (Wuille,
//! "Bounds on divsteps iterations in safegcd", 2021). Steps need only the lowest bits, so that 59 of them are collected in a matrix over
//! single words, which is then applied to the whole numbers, and modulo the modulus to the factors that lead to them.
//!
//! ```text
//! f, g = modulus, number;  d, e = 0, 1             f = d · number and g = e · number, modulo the modulus
//! ten times:
//!   matrix = 59 division steps on the lowest words of f and g:
//!     if delta > 0 and g is odd:  delta, f, g = 1 − delta, g, (g − f) / 2
//!     else:                       delta, g = 1 + delta, (g, or g + f where g is odd) / 2
//!   f, g = matrix · (f, g)
//!   d, e = matrix · (d, e), modulo the modulus
//! inverse = d, with the sign of f
//! ```

use super::words::Words;

/// Bits of a limb: two less than a word, for the sign and a carry.
const LIMB_BITS: u32 = 62;
const LIMB_MASK: u64 = (1 << LIMB_BITS) - 1;
const LIMBS: usize = 5;
/// Steps of a matrix. Its entries are below 2^59, and are kept times 2^3, so that all divisions are by a whole limb.
const STEPS: u32 = 59;
const MATRICES: usize = 10;

/// A signed number: the highest limb has the sign, the others are below 2^62.
type Limbs = [i64; LIMBS];

/// An odd number above 2^255 to invert by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modulus {
    limbs: Limbs,
    /// The inverse of the lowest limb modulo 2^62.
    inverse: u64,
}

impl Modulus {
    pub(super) const fn new(words: Words) -> Self {
        // Each step doubles the number of right bits, of which an odd number's own are three.
        let mut inverse = words[0];
        let mut i = 0;
        while i < 5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(words[0].wrapping_mul(inverse)));
            i += 1;
        }
        Self { limbs: into_limbs(&words), inverse: inverse & LIMB_MASK }
    }

    /// The inverse of a number below the modulus, with which it has no common divisor; zero for zero. Constant time.
    pub(super) fn invert(&self, number: &Words) -> Words {
        let (mut f, mut g) = (self.limbs, into_limbs(number));
        // f is d times the number, and g is e times the number, modulo the modulus.
        let (mut d, mut e) = ([0; LIMBS], [1, 0, 0, 0, 0]);
        let mut zeta = -1;
        for _ in 0..MATRICES {
            let matrix;
            (zeta, matrix) = divide(zeta, f[0] as u64, g[0] as u64);
            (d, e) = self.transform_modulo(&matrix, &d, &e);
            (f, g) = transform(&matrix, &f, &g);
        }
        self.normalized(d, f[LIMBS - 1] >> 63)
    }

    /// The numbers that the matrix makes of d and e, modulo the modulus and divided by 2^62. All are between −2 times the modulus and the
    /// modulus, not included.
    #[inline(always)]
    fn transform_modulo(&self, matrix: &Matrix, d: &Limbs, e: &Limbs) -> (Limbs, Limbs) {
        let (negative_d, negative_e) = (d[LIMBS - 1] >> 63, e[LIMBS - 1] >> 63);
        let row = |[a, b]: [i64; 2]| {
            let mut sum = products([(a, d[0]), (b, e[0])]);
            // Of the modulus, as often as makes up for negative numbers, and as clears the lowest limb.
            let factor = (a & negative_d).wrapping_add(b & negative_e);
            let surplus = self.inverse.wrapping_mul(sum as u64).wrapping_add(factor as u64) & LIMB_MASK;
            let factor = factor.wrapping_sub(surplus as i64);
            sum = sum.wrapping_add(products([(factor, self.limbs[0])])) >> LIMB_BITS;
            let mut result = [0; LIMBS];
            for i in 1..LIMBS {
                sum = sum.wrapping_add(products([(a, d[i]), (b, e[i]), (factor, self.limbs[i])]));
                result[i - 1] = (sum as u64 & LIMB_MASK) as i64;
                sum >>= LIMB_BITS;
            }
            result[LIMBS - 1] = sum as i64;
            result
        };
        (row(matrix[0]), row(matrix[1]))
    }

    /// The number from 0 to the modulus that is `number`, or its negative where the mask is set.
    fn normalized(&self, number: Limbs, negate: i64) -> Words {
        let add_if_negative = |number: Limbs| {
            let mask = number[LIMBS - 1] >> 63;
            carried(std::array::from_fn(|i| number[i].wrapping_add(self.limbs[i] & mask)))
        };
        // Above −2 times the modulus, then above its negative, then not below zero.
        let number = add_if_negative(number);
        let number = carried(number.map(|limb| (limb ^ negate).wrapping_sub(negate)));
        let [a, b, c, d, e] = add_if_negative(number).map(|limb| limb as u64);
        [a | b << 62, b >> 2 | c << 60, c >> 4 | d << 58, d >> 6 | e << 56]
    }
}

/// The effect of 59 steps on (f, g), times 2^62: rows for the new f and g.
type Matrix = [[i64; 2]; 2];

/// 59 division steps. `zeta` is −(delta + 1/2), below zero exactly where delta is above.
#[inline(always)]
fn divide(mut zeta: i64, mut f: u64, mut g: u64) -> (i64, Matrix) {
    let ([mut u, mut v], [mut q, mut r]) = ([1_u64 << 3, 0], [0, 1_u64 << 3]);
    for _ in 0..STEPS {
        let is_above = (zeta >> 63) as u64;
        let is_odd = (g & 1).wrapping_neg();
        // Add f to an odd g, or subtract it where delta is above zero.
        let signed = |number: u64| (number ^ is_above).wrapping_sub(is_above) & is_odd;
        g = g.wrapping_add(signed(f));
        q = q.wrapping_add(signed(u));
        r = r.wrapping_add(signed(v));
        // If both are true, f becomes the old g: f + (g − f).
        let exchanges = is_above & is_odd;
        zeta = (zeta ^ exchanges as i64).wrapping_sub(1);
        f = f.wrapping_add(g & exchanges);
        u = u.wrapping_add(q & exchanges);
        v = v.wrapping_add(r & exchanges);
        g >>= 1;
        u <<= 1;
        v <<= 1;
    }
    (zeta, [[u as i64, v as i64], [q as i64, r as i64]])
}

/// The numbers that the matrix makes of f and g, divided by 2^62 without remainder.
#[inline(always)]
fn transform(matrix: &Matrix, f: &Limbs, g: &Limbs) -> (Limbs, Limbs) {
    let row = |[a, b]: [i64; 2]| {
        let mut sum = products([(a, f[0]), (b, g[0])]) >> LIMB_BITS;
        let mut result = [0; LIMBS];
        for i in 1..LIMBS {
            sum = sum.wrapping_add(products([(a, f[i]), (b, g[i])]));
            result[i - 1] = (sum as u64 & LIMB_MASK) as i64;
            sum >>= LIMB_BITS;
        }
        result[LIMBS - 1] = sum as i64;
        result
    };
    (row(matrix[0]), row(matrix[1]))
}

/// The sum of products, which is far from an overflow; checks for one would be branches.
#[inline(always)]
fn products<const N: usize>(factors: [(i64, i64); N]) -> i128 {
    let mut sum = 0_i128;
    for (a, b) in factors {
        sum = sum.wrapping_add(i128::from(a).wrapping_mul(i128::from(b)));
    }
    sum
}

/// Carries so that all limbs but the highest are from 0 to 2^62.
fn carried(mut limbs: Limbs) -> Limbs {
    for i in 0..LIMBS - 1 {
        limbs[i + 1] = limbs[i + 1].wrapping_add(limbs[i] >> LIMB_BITS);
        limbs[i] &= LIMB_MASK as i64;
    }
    limbs
}

const fn into_limbs(words: &Words) -> Limbs {
    let [a, b, c, d] = *words;
    [
        (a & LIMB_MASK) as i64,
        ((a >> 62 | b << 2) & LIMB_MASK) as i64,
        ((b >> 60 | c << 4) & LIMB_MASK) as i64,
        ((c >> 58 | d << 6) & LIMB_MASK) as i64,
        (d >> 56) as i64,
    ]
}

#[cfg(test)]
mod tests {
    use p256::elliptic_curve::bigint::{Encoding, U256};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::curve::PrimeCurve;
    use super::super::p256::P256;
    use super::super::secp256k1::Secp256k1;
    use super::super::words::subtract;
    use super::*;

    fn big(words: &Words) -> U256 {
        U256::from_words(words.map(|word| word as _))
    }

    /// The inverse by RustCrypto's arithmetic.
    fn by_rust_crypto(number: &Words, modulus: &Words) -> Words {
        let (inverse, is_some) = big(number).inv_odd_mod(&big(modulus));
        if !bool::from(is_some) {
            return [0; 4];
        }
        let bytes = inverse.to_le_bytes();
        std::array::from_fn(|i| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("8 bytes")))
    }

    /// Powers of two and their neighbours from both ends, small numbers, sparse ones and random ones.
    #[test]
    fn inverses_agree_with_another_arithmetic() {
        let mut rng = StdRng::seed_from_u64(1);
        for modulus in [P256::PRIME, P256::ORDER, Secp256k1::PRIME, Secp256k1::ORDER] {
            let power = |i: usize| -> Words { std::array::from_fn(|j| if i / 64 == j { 1 << (i % 64) } else { 0 }) };
            let near = |i: usize| {
                let less = subtract(power(i), [1, 0, 0, 0]).0;
                [power(i), less, subtract(modulus, power(i)).0, subtract(modulus, less).0]
            };
            let mut numbers: Vec<Words> = (0..255).flat_map(near).collect();
            numbers.extend((0..100).map(|i| [i, 0, 0, 0]));
            numbers.extend((0..2000).map(|_| rng.random::<Words>()));
            numbers.retain(|number| subtract(*number, modulus).1);
            assert!(numbers.len() > 2500);
            let by_steps = Modulus::new(modulus);
            for number in numbers {
                assert_eq!(by_steps.invert(&number), by_rust_crypto(&number, &modulus), "{number:x?} {modulus:x?}");
            }
        }
    }
}
