//! Arithmetic modulo the order n of P-256, for signatures: Montgomery products with R = 2^256. Constant time.

use super::curve::PrimeCurve;
use super::inversion::Modulus;
use super::p256::P256;
use super::words::{Words, add, from_hex, mask, multiply, select, subtract};

const ORDER: Words = P256::ORDER;

/// −1/n modulo 2^64.
const NEGATIVE_INVERSE: u64 = {
    // Each step doubles the number of correct bits, of which an odd number's own are three.
    let mut inverse = ORDER[0];
    let mut i = 0;
    while i < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(ORDER[0].wrapping_mul(inverse)));
        i += 1;
    }
    inverse.wrapping_neg()
};

/// R² modulo n: the factor into Montgomery form.
const INTO: Words = from_hex("66e12d94f3d956202845b2392b6bec594699799c49bd6fa683244c95be79eea2");

/// a·b/R modulo n, for factors of which one is below n and the other below 2^256.
pub(super) fn product(a: &Words, b: &Words) -> Words {
    let mut sum = multiply(*a, *b);
    let mut high = 0;
    for i in 0..4 {
        let factor = sum[i].wrapping_mul(NEGATIVE_INVERSE);
        let mut carry = 0;
        for j in 0..4 {
            (sum[i + j], carry) = factor.carrying_mul_add(ORDER[j], sum[i + j], carry);
        }
        let is_above;
        (sum[i + 4], is_above) = sum[i + 4].carrying_add(carry, high != 0);
        high = u64::from(is_above);
    }
    reduced_once([sum[4], sum[5], sum[6], sum[7]], high)
}

/// From a number below 2^256 to Montgomery form.
pub(super) fn into_montgomery(number: &Words) -> Words {
    product(number, &INTO)
}

/// a + b modulo n, of numbers below n.
pub(super) fn sum(a: &Words, b: &Words) -> Words {
    let (sum, carry) = add(*a, *b);
    reduced_once(sum, u64::from(carry))
}

/// A number below 2^256, which is below 2n, modulo n.
pub(super) fn reduced(number: &Words) -> Words {
    reduced_once(*number, 0)
}

/// Inverts numbers in Montgomery form, none of which may be zero, with one inversion (Montgomery's trick). `products` must be as long as
/// `numbers`.
pub(super) fn invert(numbers: &mut [Words], products: &mut [Words]) {
    let Some(last) = numbers.len().checked_sub(1) else { return };
    products[0] = numbers[0];
    for i in 1..=last {
        products[i] = product(&products[i - 1], &numbers[i]);
    }
    let whole = product(&products[last], &[1, 0, 0, 0]);
    let mut inverse = into_montgomery(&const { Modulus::new(ORDER) }.invert(&whole));
    for i in (1..=last).rev() {
        let next = product(&inverse, &numbers[i]);
        numbers[i] = product(&inverse, &products[i - 1]);
        inverse = next;
    }
    numbers[0] = inverse;
}

/// A number below 2n, of which `high` is the fifth word, modulo n.
fn reduced_once(number: Words, high: u64) -> Words {
    let (reduced, borrow) = subtract(number, ORDER);
    let (_, is_below) = high.borrowing_sub(0, borrow);
    select(mask(is_below), reduced, number)
}

#[cfg(test)]
mod tests {
    use p256::Scalar;
    use p256::elliptic_curve::PrimeField;
    use p256::elliptic_curve::ops::{Invert, Reduce};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::words::{from_bytes, write_bytes};
    use super::*;

    const ONE: Words = [1, 0, 0, 0];

    /// By RustCrypto, modulo n.
    fn scalar(number: &Words) -> Scalar {
        let mut bytes = [0; 32];
        write_bytes(number, &mut bytes);
        Scalar::reduce_bytes(&bytes.into())
    }

    fn words(scalar: Scalar) -> Words {
        from_bytes(&scalar.to_repr().into())
    }

    /// Around 0, n, 2^256 and powers of two, and random ones.
    fn numbers() -> Vec<Words> {
        let mut rng = StdRng::seed_from_u64(1);
        let small = (0..20).map(|i| [i, 0, 0, 0]);
        let near = (0..20).flat_map(|i| [subtract(ORDER, [i, 0, 0, 0]).0, add(ORDER, [i, 0, 0, 0]).0]);
        let powers = (0..256).map(|bit| std::array::from_fn(|i| if bit / 64 == i { 1 << (bit % 64) } else { 0 }));
        let random: Vec<Words> = (0..500).map(|_| rng.random()).collect();
        small.chain(near).chain(powers).chain([[!0; 4]]).chain(random).collect()
    }

    #[test]
    fn products_and_sums_agree_with_another_library() {
        let numbers = numbers();
        let r = scalar(&[!0; 4]) + Scalar::ONE;
        let divided = r.invert().expect("not zero");
        for (i, a) in numbers.iter().enumerate() {
            for b in &numbers[..i.min(60)] {
                let b_below = reduced(b);
                assert_eq!(product(a, &b_below), words(scalar(a) * scalar(b) * divided), "{a:x?} {b:x?}");
                assert_eq!(sum(&reduced(a), &b_below), words(scalar(a) + scalar(b)), "{a:x?} {b:x?}");
            }
            assert_eq!(into_montgomery(a), words(scalar(a) * r), "{a:x?}");
            assert_eq!(reduced(a), words(scalar(a)), "{a:x?}");
        }
    }

    #[test]
    fn inverses_agree_with_another_library() {
        let numbers: Vec<Words> = numbers().iter().map(reduced).filter(|number| *number != [0; 4]).collect();
        for count in [0, 1, 2, 3, 8, 16] {
            for group in numbers.chunks_exact(count.max(1)).map(|group| &group[..count]) {
                let mut inverses: Vec<Words> = group.iter().map(into_montgomery).collect();
                invert(&mut inverses, &mut vec![[0; 4]; count]);
                for (number, inverse) in group.iter().zip(inverses) {
                    let expected = Invert::invert(&scalar(number)).expect("not zero");
                    assert_eq!(product(&inverse, &ONE), words(expected), "{number:x?}");
                }
            }
        }
    }
}
