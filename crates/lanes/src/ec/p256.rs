//! P-256 (SP 800-186, 3.2.1.3). Elements of its field are kept in Montgomery form, times 2^256, and always reduced.

use super::curve::PrimeCurve;
use super::path::InstructionPath;
use super::words::{Words, add, from_hex, mask, select, subtract};

/// 2^256 − 2^224 + 2^192 + 2^96 − 1.
pub(super) const PRIME: Words = from_hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");

/// 2^512 modulo the prime: the factor into Montgomery form.
const INTO: Words = from_hex("00000004fffffffdfffffffffffffffefffffffbffffffff0000000000000003");

/// The curve and its field.
#[derive(Debug, Clone, Copy)]
pub(super) struct P256;

impl PrimeCurve for P256 {
    const PRIME: Words = PRIME;
    const ORDER: Words = from_hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    const A: Words = from_hex("ffffffff00000001000000000000000000000000fffffffffffffffffffffffc");
    const B: Words = from_hex("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b");
    const GENERATOR: [Words; 2] = [
        from_hex("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
        from_hex("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"),
    ];

    #[inline(always)]
    fn multiply(path: impl InstructionPath, a: &Words, b: &Words) -> Words {
        path.p256_multiply(a, b)
    }

    #[inline(always)]
    fn square(path: impl InstructionPath, a: &Words) -> Words {
        path.p256_square(a)
    }

    #[inline(always)]
    fn add(a: &Words, b: &Words) -> Words {
        let (sum, carry) = add(*a, *b);
        reduce_once(sum, u64::from(carry))
    }

    #[inline(always)]
    fn subtract(a: &Words, b: &Words) -> Words {
        let (difference, borrow) = subtract(*a, *b);
        let mask = mask(borrow);
        add(difference, PRIME.map(|word| word & mask)).0
    }

    fn from_number(path: impl InstructionPath, number: &Words) -> Words {
        path.p256_multiply(number, &INTO)
    }

    fn to_number(path: impl InstructionPath, element: &Words) -> Words {
        path.p256_multiply(element, &[1, 0, 0, 0])
    }
}

/// A number below twice the prime, of which `high` is the fifth word, modulo the prime.
#[inline(always)]
pub(super) fn reduce_once(number: Words, high: u64) -> Words {
    let (reduced, borrow) = subtract(number, PRIME);
    let (_, is_below) = high.borrowing_sub(0, borrow);
    select(mask(is_below), reduced, number)
}
