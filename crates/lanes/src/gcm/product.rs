//! Sums of products in GHASH's field (SP 800-38D, 6.3), reduced once.
//!
//! GHASH has the bits of a block in reverse. POLYVAL is the same function in the CPU's order (RFC 8452, appendix A): blocks are reversed
//! byte by byte, the hash key is reversed and multiplied by x, and a product is divided by x^128, which its reduction does anyway.
//!
//! ```text
//! add(a, b):  low += a.low · b.low;  high += a.high · b.high;  middle += (a.low + a.high) · (b.low + b.high)      (Karatsuba)
//! reduce:     middle += low + high                              now low + middle · x^64 + high · x^128 is the sum
//!             twice: add the multiple of the polynomial that clears the lowest 64 bits, and drop these
//! ```

use super::vector::{Block, Vector};

/// POLYVAL's polynomial without its ends: x^127 + x^126 + x^121, divided by x^64.
const POLYNOMIAL: Block = 0xc200_0000_0000_0000_u128.to_le_bytes();

/// Sums of products of 128 bits by 128, lane by lane, in Karatsuba's three parts.
#[derive(Clone, Copy)]
pub(super) struct Product<V> {
    low: V,
    middle: V,
    high: V,
}

impl<V: Vector> Product<V> {
    #[inline(always)]
    pub(super) fn zero(cpu: V::Cpu) -> Self {
        Self { low: V::zero(cpu), middle: V::zero(cpu), high: V::zero(cpu) }
    }

    /// Adds `blocks` times `power`; `folded` is the sum of the power's halves.
    #[inline(always)]
    pub(super) fn add(self, blocks: V, (power, folded): (V, V)) -> Self {
        Self {
            low: self.low.xor(blocks.multiply_low(power)),
            middle: self.middle.xor(blocks.xor(blocks.swap_halves()).multiply_low(folded)),
            high: self.high.xor(blocks.multiply_high(power)),
        }
    }

    /// Divided by x^128, modulo the polynomial: each half of the lower 128 bits is cleared by adding a multiple of the polynomial,
    /// whose constant term is 1.
    #[inline(always)]
    pub(super) fn reduce(self, cpu: V::Cpu) -> V {
        let polynomial = V::broadcast(cpu, &POLYNOMIAL);
        let middle = self.middle.xor(self.low).xor(self.high);
        let once = self.low.swap_halves().xor(middle).xor(self.low.multiply_low(polynomial));
        self.high.xor(once.swap_halves()).xor(once.multiply_low(polynomial))
    }
}
