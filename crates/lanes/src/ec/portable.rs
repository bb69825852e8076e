//! Any CPU: plain Rust. The compiler makes code of it that takes about 0.6 of the time of fiat-crypto's on P-256 and 0.45 on secp256k1
//! (`docs/lanes-curves.md`), which is why it is ours; tests compare it with fiat-crypto.

use super::entry::TableEntry;
use super::path::InstructionPath;
use super::words::{Words, add, mask, multiply};
use super::{p256, secp256k1};

/// Needs nothing of the CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl InstructionPath for Portable {
    #[inline(never)]
    fn p256_multiply(self, a: &Words, b: &Words) -> Words {
        let mut sum = [0; 6];
        for &factor in b {
            let mut carry = 0;
            for (word, &a) in sum.iter_mut().zip(a) {
                (*word, carry) = a.carrying_mul_add(factor, *word, carry);
            }
            let (top, carry) = sum[4].overflowing_add(carry);
            sum = p256_shift([sum[0], sum[1], sum[2], sum[3], top, u64::from(carry)]);
        }
        let [low @ .., high, _] = sum;
        p256::reduce_once(low, high)
    }

    #[inline(always)]
    fn p256_square(self, a: &Words) -> Words {
        self.p256_multiply(a, a)
    }

    #[inline(never)]
    fn secp256k1_multiply(self, a: &Words, b: &Words) -> Words {
        secp256k1_reduce(multiply(*a, *b))
    }

    #[inline(always)]
    fn secp256k1_square(self, a: &Words) -> Words {
        self.secp256k1_multiply(a, a)
    }

    #[inline(always)]
    fn pick(self, entries: &[TableEntry], index: u64) -> TableEntry {
        let mut picked = TableEntry::ZERO;
        for (i, entry) in (0..).zip(entries) {
            let mask = mask(i == index);
            picked.0.iter_mut().zip(&entry.0).for_each(|(word, other)| *word |= other & mask);
        }
        picked
    }
}

/// Adds the multiple of the prime that makes the lowest word zero, and drops that word. As the prime is
/// 2^256 − 2^224 + 2^192 + 2^96 − 1, the multiple is the lowest word itself.
#[inline(always)]
fn p256_shift([m, a1, a2, a3, a4, a5]: [u64; 6]) -> [u64; 6] {
    let (low, high) = m.carrying_mul(p256::PRIME[3], 0);
    let (a1, carry) = a1.carrying_add(m << 32, false);
    let (a2, carry) = a2.carrying_add(m >> 32, carry);
    let (a3, carry) = a3.carrying_add(low, carry);
    let (a4, carry) = a4.carrying_add(high, carry);
    [a1, a2, a3, a4, a5.wrapping_add(u64::from(carry)), 0]
}

/// Folds twice: 2^256 is the small number [`secp256k1::FOLD`].
#[inline(always)]
fn secp256k1_reduce(product: [u64; 8]) -> Words {
    let mut carry = 0;
    let folded = std::array::from_fn(|i| {
        let word;
        (word, carry) = product[4 + i].carrying_mul_add(secp256k1::FOLD, product[i], carry);
        word
    });
    let (low, high) = carry.carrying_mul(secp256k1::FOLD, 0);
    let (sum, carry) = add(folded, [low, high, 0, 0]);
    // The rest after a carry is so small that this one has none.
    add(sum, [mask(carry) & secp256k1::FOLD, 0, 0, 0]).0
}
