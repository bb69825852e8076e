//! Whether timing could tell a secret: scalars are marked as undefined for Valgrind, which then complains about every branch and every
//! address that depends on them (Langley's ctgrind). `make constant-time` builds and runs these; outside Valgrind they fail.

use std::arch::asm;

use super::p256::P256;
use super::scalar::Odd;
use super::secp256k1::Secp256k1;
use super::words::from_bytes;
use super::{Curve, FixedBase, Kernel, Point, SCALAR_SIZE, Scalar, multiply};
use crate::cpu::Adx;

/// Requests to Valgrind and its Memcheck (`valgrind.h`, `memcheck.h`).
const RUNNING_ON_VALGRIND: u64 = 0x1001;
const COUNT_ERRORS: u64 = 0x1201;
const MAKE_UNDEFINED: u64 = (b'M' as u64) << 24 | (b'C' as u64) << 16 | 1;
const MAKE_DEFINED: u64 = MAKE_UNDEFINED + 1;

/// Asks Valgrind, which knows this sequence of instructions; on a CPU it does nothing and the answer is 0.
fn request(number: u64, [first, second]: [u64; 2]) -> u64 {
    let arguments = [number, first, second, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: turns a register around by 128 bits and swaps one with itself; Valgrind reads the arguments behind `rax`.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rdx") answer, in("rax") arguments.as_ptr(), options(nostack),
        );
    }
    answer
}

fn mark<T>(request_number: u64, value: &mut T) {
    request(request_number, [std::ptr::from_mut(value) as u64, size_of::<T>() as u64]);
}

/// What Valgrind complained about while `work` ran.
fn complaints(work: impl FnOnce()) -> u64 {
    assert_eq!(request(RUNNING_ON_VALGRIND, [0; 2]), 1, "these tests run under Valgrind: make constant-time");
    let before = request(COUNT_ERRORS, [0; 2]);
    work();
    request(COUNT_ERRORS, [0; 2]) - before
}

/// Recodes secret scalars and multiplies with them, one and several at a time.
fn complaints_of(kernel: Kernel, curve: Curve) -> u64 {
    let base = FixedBase::generator(kernel, curve);
    let secrets = [[0x5b; SCALAR_SIZE], [0x17; SCALAR_SIZE], [0x2c; SCALAR_SIZE]];
    let expected = secrets.map(|secret| Scalar::new(curve, &secret).expect("in range"));
    let mut expected_products: [Point; 6] = Default::default();
    multiply(&[&base, &base], &expected, &mut expected_products);
    let mut products: [Point; 6] = Default::default();
    let count = complaints(|| {
        let scalars = secrets.map(|mut secret| {
            mark(MAKE_UNDEFINED, &mut secret);
            let (odd, mut is_valid) = match curve {
                Curve::P256 => Odd::recode::<P256>(&secret),
                Curve::Secp256k1 => Odd::recode::<Secp256k1>(&secret),
            };
            // Whether a scalar is valid may be known.
            mark(MAKE_DEFINED, &mut is_valid);
            assert!(is_valid);
            Scalar { curve, odd }
        });
        multiply(&[&base, &base], &scalars, &mut products);
        multiply(&[&base], &scalars[..1], &mut products[..1]);
    });
    products.iter_mut().for_each(|product| mark(MAKE_DEFINED, product));
    assert!(products == expected_products);
    count
}

#[test]
fn portable_does_not_look_at_scalars() {
    for curve in [Curve::P256, Curve::Secp256k1] {
        assert_eq!(complaints_of(Kernel::Portable, curve), 0, "{curve:?}");
    }
}

#[test]
fn adx_does_not_look_at_scalars() {
    // SAFETY: Valgrind runs these instructions, though its CPUID leaves out ADX, and the test fails outside Valgrind before it comes to
    // one that the CPU may lack.
    let kernel = Kernel::Adx(unsafe { Adx::assume() });
    assert_eq!(request(RUNNING_ON_VALGRIND, [0; 2]), 1, "these tests run under Valgrind: make constant-time");
    for curve in [Curve::P256, Curve::Secp256k1] {
        assert_eq!(complaints_of(kernel, curve), 0, "{curve:?}");
    }
}

/// The check can fail: a branch on a scalar and an address that depends on one are noticed.
#[test]
fn a_look_at_a_scalar_is_noticed() {
    let mut secret = [0x5b; SCALAR_SIZE];
    mark(MAKE_UNDEFINED, &mut secret);
    assert_ne!(complaints(|| drop(std::hint::black_box(Odd::new::<P256>(&secret)))), 0);
    let words = from_bytes(&secret);
    let table = [0_u8; 256];
    assert_ne!(complaints(|| _ = std::hint::black_box(table[usize::from(words[0] as u8)])), 0);
}
