//! The operations that differ between instruction sets: products in the two fields, and selecting an entry of a table. A path is
//! the token that proves that the CPU has the instructions.

use super::entry::TableEntry;
use super::words::Words;

/// The functions of an instruction set. All are constant time in words and indexes.
pub(super) trait InstructionPath: Copy {
    /// The Montgomery product a·b/2^256 modulo the prime of P-256, reduced; so are the factors.
    fn p256_multiply(self, a: &Words, b: &Words) -> Words;
    /// `p256_multiply` of a number and itself.
    fn p256_square(self, a: &Words) -> Words;
    /// A number below 2^256 that is a·b modulo the prime of secp256k1; the factors may be any below 2^256.
    fn secp256k1_multiply(self, a: &Words, b: &Words) -> Words;
    /// `secp256k1_multiply` of a number and itself.
    fn secp256k1_square(self, a: &Words) -> Words;
    /// The entry with this index; reads all of them.
    fn pick(self, entries: &[TableEntry], index: u64) -> TableEntry;
}

#[cfg(test)]
mod tests {
    use fiat_crypto::p256_64::*;
    use fiat_crypto::secp256k1_montgomery_64::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::curve::PrimeCurve;
    use super::super::p256::P256;
    use super::super::portable::Portable;
    use super::super::secp256k1::Secp256k1;
    use super::super::words::{add, select, subtract};
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::cpu::Adx;

    const ROUNDS: usize = 200_000;

    /// Words at the ends and next to the primes' words, or any.
    fn number(rng: &mut StdRng, is_edge: bool) -> Words {
        const EDGES: [u64; 9] = [0, 1, 2, !0, !0 - 1, 0xffff_ffff, p256_prime_3(), 0xffff_fffe_ffff_fc2f, 1 << 63];
        std::array::from_fn(|_| if is_edge { EDGES[rng.random_range(0..EDGES.len())] } else { rng.random() })
    }

    const fn p256_prime_3() -> u64 {
        P256::PRIME[3]
    }

    fn reduced<C: PrimeCurve>(number: Words) -> Words {
        let (rest, borrow) = subtract(number, C::PRIME);
        if borrow { number } else { rest }
    }

    /// Products and squares of a path in both fields against fiat-crypto's, which are proven.
    fn agrees_with_fiat_crypto(path: impl InstructionPath) {
        let mut rng = StdRng::seed_from_u64(1);
        for round in 0..ROUNDS {
            let [a, b] = [0; 2].map(|_| number(&mut rng, round % 2 == 0));
            let [p_a, p_b] = [a, b].map(reduced::<P256>);
            let mut product = fiat_p256_montgomery_domain_field_element([0; 4]);
            let fiat = fiat_p256_montgomery_domain_field_element;
            fiat_p256_mul(&mut product, &fiat(p_a), &fiat(p_b));
            assert_eq!(path.p256_multiply(&p_a, &p_b), product.0, "{p_a:x?} {p_b:x?}");
            fiat_p256_square(&mut product, &fiat(p_a));
            assert_eq!(path.p256_square(&p_a), product.0, "{p_a:x?}");

            let product = reduced::<Secp256k1>(path.secp256k1_multiply(&a, &b));
            assert_eq!(product, secp256k1_by_fiat(a, b), "{a:x?} {b:x?}");
            let square = reduced::<Secp256k1>(path.secp256k1_square(&a));
            assert_eq!(square, secp256k1_by_fiat(a, a), "{a:x?}");
        }
    }

    fn secp256k1_by_fiat(a: Words, b: Words) -> Words {
        let into = |number: Words| {
            let mut element = fiat_secp256k1_montgomery_montgomery_domain_field_element([0; 4]);
            let number = fiat_secp256k1_montgomery_non_montgomery_domain_field_element(reduced::<Secp256k1>(number));
            fiat_secp256k1_montgomery_to_montgomery(&mut element, &number);
            element
        };
        let mut product = fiat_secp256k1_montgomery_montgomery_domain_field_element([0; 4]);
        fiat_secp256k1_montgomery_mul(&mut product, &into(a), &into(b));
        let mut number = fiat_secp256k1_montgomery_non_montgomery_domain_field_element([0; 4]);
        fiat_secp256k1_montgomery_from_montgomery(&mut number, &product);
        number.0
    }

    /// Each entry of tables of all lengths that windows have, and none for an index beyond.
    fn picks_by_index(path: impl InstructionPath) {
        let entries: Vec<TableEntry> =
            (0..32).map(|i| TableEntry(std::array::from_fn(|j| !0 << i ^ j as u64))).collect();
        for count in [1, 2, 16, 31, 32] {
            for (i, entry) in (0..).zip(&entries[..count]) {
                assert_eq!(path.pick(&entries[..count], i).0, entry.0);
            }
            assert_eq!(path.pick(&entries[..count], count as u64).0, [0; 8]);
        }
    }

    #[test]
    fn portable_agrees() {
        agrees_with_fiat_crypto(Portable);
        picks_by_index(Portable);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn adx_agrees() {
        if let Some(path) = Adx::detect() {
            agrees_with_fiat_crypto(path);
            picks_by_index(path);
        }
    }

    /// Sums, differences and conversions of both fields against fiat-crypto's.
    #[test]
    fn sums_agree_with_fiat_crypto() {
        let mut rng = StdRng::seed_from_u64(2);
        for round in 0..ROUNDS {
            let [a, b] = [0; 2].map(|_| number(&mut rng, round % 2 == 0));
            let [p_a, p_b] = [a, b].map(reduced::<P256>);
            let fiat = fiat_p256_montgomery_domain_field_element;
            let mut result = fiat([0; 4]);
            fiat_p256_add(&mut result, &fiat(p_a), &fiat(p_b));
            assert_eq!(P256::add(&p_a, &p_b), result.0, "{p_a:x?} {p_b:x?}");
            fiat_p256_sub(&mut result, &fiat(p_a), &fiat(p_b));
            assert_eq!(P256::subtract(&p_a, &p_b), result.0, "{p_a:x?} {p_b:x?}");

            let [k_a, k_b] = [a, b].map(reduced::<Secp256k1>);
            let fiat = fiat_secp256k1_montgomery_montgomery_domain_field_element;
            let mut result = fiat([0; 4]);
            fiat_secp256k1_montgomery_add(&mut result, &fiat(k_a), &fiat(k_b));
            assert_eq!(reduced::<Secp256k1>(Secp256k1::add(&a, &b)), result.0, "{a:x?} {b:x?}");
            fiat_secp256k1_montgomery_sub(&mut result, &fiat(k_a), &fiat(k_b));
            assert_eq!(reduced::<Secp256k1>(Secp256k1::subtract(&a, &b)), result.0, "{a:x?} {b:x?}");
        }
    }

    /// An inverse times its number is one, and the form that a curve keeps is left as it was entered.
    fn inverts<C: PrimeCurve>() {
        let mut rng = StdRng::seed_from_u64(3);
        let one = C::from_number(Portable, &[1, 0, 0, 0]);
        let minus_one = subtract(C::PRIME, [1, 0, 0, 0]).0;
        let random = (0..100).map(|i| reduced::<C>(number(&mut rng, i % 2 == 0))).collect::<Vec<Words>>();
        for number in [[1, 0, 0, 0], [2, 0, 0, 0], minus_one].into_iter().chain(random) {
            let element = C::from_number(Portable, &number);
            assert_eq!(C::to_number(Portable, &element), number);
            let product = C::multiply(Portable, &element, &C::invert(Portable, &element));
            let expected = if number == [0; 4] { [0; 4] } else { one };
            assert_eq!(C::to_number(Portable, &product), C::to_number(Portable, &expected), "{number:x?}");
        }
    }

    #[test]
    fn inverses_are_inverse() {
        inverts::<P256>();
        inverts::<Secp256k1>();
    }

    #[test]
    fn words_are_added_and_selected() {
        assert_eq!(add([!0; 4], [1, 0, 0, 0]), ([0; 4], true));
        assert_eq!(subtract([0; 4], [1, 0, 0, 0]), ([!0; 4], true));
        assert_eq!(select(0, [1; 4], [2; 4]), [1; 4]);
        assert_eq!(select(!0, [1; 4], [2; 4]), [2; 4]);
    }
}
