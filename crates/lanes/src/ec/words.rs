//! Numbers of 256 bits as four words, the lowest first, which both fields and the scalars use. Constant time, so also
//! without checks for overflow, which would be branches.

#[cfg(not(miri))]
use std::arch::asm;

/// A number below 2^256, the lowest word first.
pub(super) type Words = [u64; 4];

/// All ones for true, zero for false; opaque to the compiler, so that it does not turn selections into branches.
#[inline(always)]
pub(crate) fn mask(condition: bool) -> u64 {
    #[cfg_attr(miri, allow(unused_mut, reason = "only the assembly changes it"))]
    let mut mask = u64::from(condition).wrapping_neg();
    // Miri executes no assembly, and does not guess at values.
    #[cfg(not(miri))]
    // SAFETY: no instruction is executed. The compiler must take it that the register changes here.
    unsafe {
        asm!("/* {0} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags))
    }
    mask
}

/// `a` where the mask is zero, `b` where it is all ones.
#[inline(always)]
pub(super) fn select(mask: u64, a: Words, b: Words) -> Words {
    std::array::from_fn(|i| a[i] ^ mask & (a[i] ^ b[i]))
}

/// The sum and whether it is 2^256 or more.
#[inline(always)]
pub(super) fn add(a: Words, b: Words) -> (Words, bool) {
    let mut carry = false;
    let sum = std::array::from_fn(|i| {
        let word;
        (word, carry) = a[i].carrying_add(b[i], carry);
        word
    });
    (sum, carry)
}

/// The difference modulo 2^256 and whether it is below zero.
#[inline(always)]
pub(super) fn subtract(a: Words, b: Words) -> (Words, bool) {
    let mut borrow = false;
    let difference = std::array::from_fn(|i| {
        let word;
        (word, borrow) = a[i].borrowing_sub(b[i], borrow);
        word
    });
    (difference, borrow)
}

/// The product of 512 bits.
#[inline(always)]
pub(super) fn multiply(a: Words, b: Words) -> [u64; 8] {
    let mut product = [0; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            (product[i + j], carry) = a[j].carrying_mul_add(b[i], product[i + j], carry);
        }
        product[i + 4] = carry;
    }
    product
}

/// From big-endian bytes.
pub(super) fn from_bytes(bytes: &[u8; 32]) -> Words {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_be_bytes(words[3 - i]))
}

/// Big-endian bytes, in place.
pub(super) fn write_bytes(words: &Words, bytes: &mut [u8; 32]) {
    let (places, _) = bytes.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().rev().zip(words) {
        *place = word.to_be_bytes();
    }
}

/// From 64 hexadecimal digits, for constants.
pub(super) const fn from_hex(text: &str) -> Words {
    let text = text.as_bytes();
    assert!(text.len() == 64, "256 bits");
    let mut words = [0; 4];
    let mut i = 0;
    while i < 64 {
        let digit = match text[i] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("a hexadecimal digit"),
        };
        words[3 - i / 16] = words[3 - i / 16] << 4 | digit as u64;
        i += 1;
    }
    words
}
