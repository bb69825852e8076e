//! secp256k1 (SEC 2, 2.4.1). Elements of its field are represented by any of the one or two numbers below 2^256 in their class;
//! only `to_number` reduces.

use super::curve::PrimeCurve;
use super::path::InstructionPath;
use super::words::{Words, add, from_hex, mask, select, subtract};

/// 2^256 modulo the prime, which is 2^256 minus this.
pub(super) const FOLD: u64 = 0x1_0000_03d1;

/// The curve and its field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Secp256k1;

impl PrimeCurve for Secp256k1 {
    const PRIME: Words = from_hex("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f");
    const ORDER: Words = from_hex("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
    const A: Words = [0; 4];
    const B: Words = [7, 0, 0, 0];
    const GENERATOR: [Words; 2] = [
        from_hex("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
        from_hex("483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"),
    ];

    #[inline(always)]
    fn multiply(path: impl InstructionPath, a: &Words, b: &Words) -> Words {
        path.secp256k1_multiply(a, b)
    }

    #[inline(always)]
    fn square(path: impl InstructionPath, a: &Words) -> Words {
        path.secp256k1_square(a)
    }

    /// A carry out is 2^256 and comes in again as [`FOLD`]. That may carry once more, but leaves then so little that the last does not.
    #[inline(always)]
    fn add(a: &Words, b: &Words) -> Words {
        let (sum, carry) = add(*a, *b);
        let ([low, rest @ ..], carry) = add(sum, [mask(carry) & FOLD, 0, 0, 0]);
        [low.wrapping_add(mask(carry) & FOLD), rest[0], rest[1], rest[2]]
    }

    /// As `add`, with borrows: a second one leaves a lowest word that is nearly 2^64.
    #[inline(always)]
    fn subtract(a: &Words, b: &Words) -> Words {
        let (difference, borrow) = subtract(*a, *b);
        let ([low, rest @ ..], borrow) = subtract(difference, [mask(borrow) & FOLD, 0, 0, 0]);
        [low.wrapping_sub(mask(borrow) & FOLD), rest[0], rest[1], rest[2]]
    }

    fn from_number(_: impl InstructionPath, number: &Words) -> Words {
        *number
    }

    fn to_number(_: impl InstructionPath, element: &Words) -> Words {
        let (reduced, borrow) = subtract(*element, Self::PRIME);
        select(mask(borrow), reduced, *element)
    }
}
