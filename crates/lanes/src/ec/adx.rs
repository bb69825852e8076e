//! MULX, ADCX and ADOX: a row of a product adds its low halves in one chain of carries and its high halves in another, which the CPU runs
//! at the same time. No compiler generates such code. Look-ups use 256-bit registers, two for an entry.
//!
//! ```text
//! P-256, Montgomery:    sum = 0
//!                       for each word of b:   sum += word · a                         add_row
//!                                             sum = (sum + sum[0] · p) / 2^64         p256_shift
//!                       sum = sum − p unless that is negative                         p256_reduce_once
//! secp256k1:            product = Σ word of b · a, eight words                        secp256k1_row
//!                       sum = low half + high half · (2^256 mod p)                    secp256k1_fold
//!                       sum += fifth word · (2^256 mod p); once more for a carry
//! square:               products of different words once, doubled, plus the squares of the words
//! ```
//!
//! The assembly keeps to one form: sums are in the registers `r0` to `r7`, which are renamed from row to row instead of moved; `t0` and
//! `t1` receive the halves of a product.

use std::arch::asm;
use std::arch::x86_64::*;

use leafseal_lanes_macros::compiled_for;

use super::entry::TableEntry;
use super::path::InstructionPath;
use super::words::Words;
use super::{p256, secp256k1};
use crate::cpu::{Adx, entry};

/// Adds to the sum at `$r0` the product of `rdx` and a, into a fifth word that is zero before. Expects both carries clear, and leaves
/// the carry of the whole to be added to `$r4` by `adc`.
macro_rules! add_row {
    ($r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal) => {
        concat!(
            "mulx {t1}, {t0}, [{a}]\n",
            "adcx {",
            $r0,
            "}, {t0}\n",
            "adox {",
            $r1,
            "}, {t1}\n",
            "mulx {t1}, {t0}, [{a} + 8]\n",
            "adcx {",
            $r1,
            "}, {t0}\n",
            "adox {",
            $r2,
            "}, {t1}\n",
            "mulx {t1}, {t0}, [{a} + 16]\n",
            "adcx {",
            $r2,
            "}, {t0}\n",
            "adox {",
            $r3,
            "}, {t1}\n",
            "mulx {t1}, {t0}, [{a} + 24]\n",
            "adcx {",
            $r3,
            "}, {t0}\n",
            "adox {",
            $r4,
            "}, {t1}\n",
        )
    };
}

/// The first row: b's lowest word times a, in `r0` to `r4`.
macro_rules! first_row {
    () => {
        concat!(
            "mov rdx, [{b}]\n",
            "mulx {r1}, {r0}, [{a}]\n",
            "mulx {r2}, {t0}, [{a} + 8]\n",
            "mulx {r3}, {t1}, [{a} + 16]\n",
            "add {r1}, {t0}\n",
            "mulx {r4}, {t0}, [{a} + 24]\n",
            "adc {r2}, {t1}\n",
            "adc {r3}, {t0}\n",
            "adc {r4}, 0\n",
        )
    };
}

/// The square of a, in `r0` to `r7`: the products of different words once, twice that, and the squares of the words.
macro_rules! square {
    () => {
        concat!(
            "mov rdx, [{a}]\n",
            "mulx {r2}, {r1}, [{a} + 8]\n",
            "mulx {r3}, {t0}, [{a} + 16]\n",
            "xor {r5:e}, {r5:e}\n",
            "mulx {r4}, {t1}, [{a} + 24]\n",
            "mov rdx, [{a} + 8]\n",
            "adcx {r2}, {t0}\n",
            "adcx {r3}, {t1}\n",
            "mulx {t1}, {t0}, [{a} + 16]\n",
            "adcx {r4}, {r5}\n",
            "adox {r3}, {t0}\n",
            "adox {r4}, {t1}\n",
            "mulx {t1}, {t0}, [{a} + 24]\n",
            "mov rdx, [{a} + 16]\n",
            "adcx {r4}, {t0}\n",
            "adox {t1}, {r5}\n",
            "adcx {t1}, {r5}\n",
            "mulx {r6}, {r5}, [{a} + 24]\n",
            "add {r5}, {t1}\n",
            "adc {r6}, 0\n",
            "xor {r7:e}, {r7:e}\n",
            "mov rdx, [{a}]\n",
            "mulx {t1}, {r0}, rdx\n",
            "adcx {r1}, {r1}\n",
            "adox {r1}, {t1}\n",
            square_word!("8", "r2", "r3"),
            square_word!("16", "r4", "r5"),
            square_word!("24", "r6", "r7"),
        )
    };
}

/// Doubles two words of a square and adds the square of one of a's words.
macro_rules! square_word {
    ($offset:literal, $low:literal, $high:literal) => {
        concat!(
            "mov rdx, [{a} + ",
            $offset,
            "]\n",
            "mulx {t1}, {t0}, rdx\n",
            "adcx {",
            $low,
            "}, {",
            $low,
            "}\n",
            "adox {",
            $low,
            "}, {t0}\n",
            "adcx {",
            $high,
            "}, {",
            $high,
            "}\n",
            "adox {",
            $high,
            "}, {t1}\n",
        )
    };
}

/// Adds the multiple of P-256's prime that makes the lowest word zero; the multiple is that word. `$r5` is zero before.
macro_rules! p256_shift {
    ($r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal, $r5:literal) => {
        concat!(
            "mov rdx, {",
            $r0,
            "}\n",
            "shlx {t0}, {",
            $r0,
            "}, {thirty_two}\n",
            "shrx {t1}, {",
            $r0,
            "}, {thirty_two}\n",
            "add {",
            $r1,
            "}, {t0}\n",
            "adc {",
            $r2,
            "}, {t1}\n",
            "mulx {t1}, {t0}, {prime_3}\n",
            "adc {",
            $r3,
            "}, {t0}\n",
            "adc {",
            $r4,
            "}, {t1}\n",
            "adc {",
            $r5,
            "}, 0\n",
        )
    };
}

/// A row of P-256's product. Six words are live: `$r5`, which held the word that was shifted out, becomes the highest.
macro_rules! p256_row {
    ($offset:literal, $r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal, $r5:literal) => {
        concat!(
            "mov rdx, [{b} + ",
            $offset,
            "]\n",
            "xor {",
            $r5,
            ":e}, {",
            $r5,
            ":e}\n",
            add_row!($r0, $r1, $r2, $r3, $r4),
            "adcx {",
            $r4,
            "}, {",
            $r5,
            "}\n",
            "adox {",
            $r5,
            "}, {",
            $r5,
            "}\n",
            "adc {",
            $r5,
            "}, 0\n",
            p256_shift!($r0, $r1, $r2, $r3, $r4, $r5),
        )
    };
}

/// Subtracts P-256's prime from the number in five words, and restores the number where the difference is negative. The others are scratch.
macro_rules! p256_reduce_once {
    ($r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal, $s0:literal, $s1:literal, $s2:literal, $s3:literal) => {
        concat!(
            "mov {",
            $s0,
            "}, {",
            $r0,
            "}\n",
            "mov {",
            $s1,
            "}, {",
            $r1,
            "}\n",
            "mov {",
            $s2,
            "}, {",
            $r2,
            "}\n",
            "mov {",
            $s3,
            "}, {",
            $r3,
            "}\n",
            "mov edx, 0xffffffff\n",
            "sub {",
            $r0,
            "}, -1\n",
            "sbb {",
            $r1,
            "}, rdx\n",
            "sbb {",
            $r2,
            "}, 0\n",
            "sbb {",
            $r3,
            "}, {prime_3}\n",
            "sbb {",
            $r4,
            "}, 0\n",
            "cmovc {",
            $r0,
            "}, {",
            $s0,
            "}\n",
            "cmovc {",
            $r1,
            "}, {",
            $s1,
            "}\n",
            "cmovc {",
            $r2,
            "}, {",
            $s2,
            "}\n",
            "cmovc {",
            $r3,
            "}, {",
            $s3,
            "}\n",
        )
    };
}

/// As `p256_shift` for a square that is whole: the high half is not touched, and the shifted-out word's register takes the fourth word.
macro_rules! p256_shift_low {
    ($r0:literal, $r1:literal, $r2:literal, $r3:literal) => {
        concat!(
            "mov rdx, {",
            $r0,
            "}\n",
            "shlx {t0}, {",
            $r0,
            "}, {t1}\n",
            "shrx {",
            $r0,
            "}, {",
            $r0,
            "}, {t1}\n",
            "add {",
            $r1,
            "}, {t0}\n",
            "adc {",
            $r2,
            "}, {",
            $r0,
            "}\n",
            "mulx {",
            $r0,
            "}, {t0}, {prime_3}\n",
            "adc {",
            $r3,
            "}, {t0}\n",
            "adc {",
            $r0,
            "}, 0\n",
        )
    };
}

/// A row of secp256k1's product; a fifth word joins.
macro_rules! secp256k1_row {
    ($offset:literal, $r0:literal, $r1:literal, $r2:literal, $r3:literal, $r4:literal) => {
        concat!(
            "mov rdx, [{b} + ",
            $offset,
            "]\n",
            "xor {",
            $r4,
            ":e}, {",
            $r4,
            ":e}\n",
            add_row!($r0, $r1, $r2, $r3, $r4),
            "adc {",
            $r4,
            "}, 0\n",
        )
    };
}

/// Folds the eight words of a product to four: 2^256 is a small number, which `rdx` takes. The second fold may leave a carry, but then so
/// small a number that the third leaves none.
macro_rules! secp256k1_fold {
    () => {
        concat!(
            "movabs rdx, {fold}\n",
            "xor {t0:e}, {t0:e}\n",
            "mulx {t1}, {t0}, {r4}\n",
            "adcx {r0}, {t0}\n",
            "adox {r1}, {t1}\n",
            "mulx {t1}, {t0}, {r5}\n",
            "adcx {r1}, {t0}\n",
            "adox {r2}, {t1}\n",
            "mulx {t1}, {t0}, {r6}\n",
            "adcx {r2}, {t0}\n",
            "adox {r3}, {t1}\n",
            "mulx {r4}, {t0}, {r7}\n",
            "mov {t1:e}, 0\n",
            "adcx {r3}, {t0}\n",
            "adox {r4}, {t1}\n",
            "adcx {r4}, {t1}\n",
            "mulx {t1}, {t0}, {r4}\n",
            "mov {r4:e}, 0\n",
            "add {r0}, {t0}\n",
            "adc {r1}, {t1}\n",
            "adc {r2}, 0\n",
            "adc {r3}, 0\n",
            "cmovc {r4}, rdx\n",
            "add {r0}, {r4}\n",
            "adc {r1}, 0\n",
            "adc {r2}, 0\n",
            "adc {r3}, 0\n",
        )
    };
}

impl InstructionPath for Adx {
    #[inline(always)]
    fn p256_multiply(self, a: &Words, b: &Words) -> Words {
        let mut product = [0; 4];
        let [r4, r5, r0, r1] = &mut product;
        // SAFETY:
        // - The token proves that the CPU has BMI2 and ADX.
        // - The assembly reads the four words behind each pointer, which are borrowed, and no other memory.
        // - It writes the registers that are declared, and the flags.
        unsafe {
            asm!(
                first_row!(),
                "xor {r5:e}, {r5:e}",
                p256_shift!("r0", "r1", "r2", "r3", "r4", "r5"),
                p256_row!("8", "r1", "r2", "r3", "r4", "r5", "r0"),
                p256_row!("16", "r2", "r3", "r4", "r5", "r0", "r1"),
                p256_row!("24", "r3", "r4", "r5", "r0", "r1", "r2"),
                p256_reduce_once!("r4", "r5", "r0", "r1", "r2", "r3", "t0", "t1", "b"),
                a = in(reg) a.as_ptr(), b = inout(reg) b.as_ptr() => _,
                thirty_two = in(reg) 32_u64, prime_3 = in(reg) p256::PRIME[3],
                r0 = out(reg) *r0, r1 = out(reg) *r1, r2 = out(reg) _, r3 = out(reg) _, r4 = out(reg) *r4, r5 = out(reg) *r5,
                t0 = out(reg) _, t1 = out(reg) _, out("rdx") _,
                options(pure, readonly, nostack),
            );
        }
        product
    }

    #[inline(always)]
    fn p256_square(self, a: &Words) -> Words {
        let mut product = [0; 4];
        let [r0, r1, r2, r3] = &mut product;
        // SAFETY: as in `p256_multiply`.
        unsafe {
            asm!(
                square!(),
                "mov {t1:e}, 32",
                "movabs {prime_3}, {prime_3_value}",
                p256_shift_low!("r0", "r1", "r2", "r3"),
                p256_shift_low!("r1", "r2", "r3", "r0"),
                p256_shift_low!("r2", "r3", "r0", "r1"),
                p256_shift_low!("r3", "r0", "r1", "r2"),
                "xor {t1:e}, {t1:e}",
                "add {r0}, {r4}",
                "adc {r1}, {r5}",
                "adc {r2}, {r6}",
                "adc {r3}, {r7}",
                "adc {t1}, 0",
                p256_reduce_once!("r0", "r1", "r2", "r3", "t1", "r4", "r5", "r6", "r7"),
                a = in(reg) a.as_ptr(), prime_3 = out(reg) _, prime_3_value = const p256::PRIME[3],
                r0 = out(reg) *r0, r1 = out(reg) *r1, r2 = out(reg) *r2, r3 = out(reg) *r3,
                r4 = out(reg) _, r5 = out(reg) _, r6 = out(reg) _, r7 = out(reg) _,
                t0 = out(reg) _, t1 = out(reg) _, out("rdx") _,
                options(pure, readonly, nostack),
            );
        }
        product
    }

    #[inline(always)]
    fn secp256k1_multiply(self, a: &Words, b: &Words) -> Words {
        let mut product = [0; 4];
        let [r0, r1, r2, r3] = &mut product;
        // SAFETY: as in `p256_multiply`.
        unsafe {
            asm!(
                first_row!(),
                secp256k1_row!("8", "r1", "r2", "r3", "r4", "r5"),
                secp256k1_row!("16", "r2", "r3", "r4", "r5", "r6"),
                secp256k1_row!("24", "r3", "r4", "r5", "r6", "r7"),
                secp256k1_fold!(),
                a = in(reg) a.as_ptr(), b = in(reg) b.as_ptr(), fold = const secp256k1::FOLD,
                r0 = out(reg) *r0, r1 = out(reg) *r1, r2 = out(reg) *r2, r3 = out(reg) *r3,
                r4 = out(reg) _, r5 = out(reg) _, r6 = out(reg) _, r7 = out(reg) _,
                t0 = out(reg) _, t1 = out(reg) _, out("rdx") _,
                options(pure, readonly, nostack),
            );
        }
        product
    }

    #[inline(always)]
    fn secp256k1_square(self, a: &Words) -> Words {
        let mut product = [0; 4];
        let [r0, r1, r2, r3] = &mut product;
        // SAFETY: as in `p256_multiply`.
        unsafe {
            asm!(
                square!(),
                secp256k1_fold!(),
                a = in(reg) a.as_ptr(), fold = const secp256k1::FOLD,
                r0 = out(reg) *r0, r1 = out(reg) *r1, r2 = out(reg) *r2, r3 = out(reg) *r3,
                r4 = out(reg) _, r5 = out(reg) _, r6 = out(reg) _, r7 = out(reg) _,
                t0 = out(reg) _, t1 = out(reg) _, out("rdx") _,
                options(pure, readonly, nostack),
            );
        }
        product
    }

    #[inline(always)]
    fn pick(self, entries: &[TableEntry], index: u64) -> TableEntry {
        pick(self, entries, index)
    }
}

entry! {
    #[inline(always)]
    fn pick(_cpu: Adx, entries: &[TableEntry], index: u64) -> TableEntry {
        select(entries, index)
    }
}

/// The entry at a secret index: every entry is read, and masked by whether its place is the index.
#[inline]
#[compiled_for(Adx)]
fn select(entries: &[TableEntry], index: u64) -> TableEntry {
    let index = _mm256_set1_epi64x(index.cast_signed());
    let mut place = _mm256_setzero_si256();
    let mut halves = [_mm256_setzero_si256(); 2];
    for entry in entries {
        let is_it = _mm256_cmpeq_epi64(place, index);
        for (i, half) in halves.iter_mut().enumerate() {
            // SAFETY: an entry is two registers long and aligned to them.
            let other = unsafe { _mm256_load_si256(entry.0.as_ptr().cast::<__m256i>().add(i)) };
            *half = _mm256_or_si256(*half, _mm256_and_si256(other, is_it));
        }
        place = _mm256_add_epi64(place, _mm256_set1_epi64x(1));
    }
    let mut entry = TableEntry::ZERO;
    for (i, half) in halves.into_iter().enumerate() {
        // SAFETY: an entry is two registers long and aligned to them.
        unsafe { _mm256_store_si256(entry.0.as_mut_ptr().cast::<__m256i>().add(i), half) };
    }
    entry
}
