//! Tests with Valgrind that timing does not depend on scalars.

use super::p256::P256;
use super::scalar::Odd;
use super::secp256k1::Secp256k1;
use super::words::from_bytes;
use super::{CurveScalar, FixedBase, Kernel, LaneCurve, ProductPoint, SCALAR_SIZE, multiply};
use crate::cpu::Adx;
use crate::valgrind::{assert_watched, complaints, hide, reveal};

/// Recodes secret scalars and multiplies with them, one and several at a time.
fn complaints_of(kernel: Kernel, curve: LaneCurve) -> u64 {
    let base = FixedBase::generator(kernel, curve);
    let secrets = [[0x5b; SCALAR_SIZE], [0x17; SCALAR_SIZE], [0x2c; SCALAR_SIZE]];
    let expected = secrets.map(|secret| CurveScalar::new(curve, &secret).expect("in range"));
    let mut expected_products: [ProductPoint; 6] = Default::default();
    multiply(&[&base, &base], &expected, &mut expected_products);
    let mut products: [ProductPoint; 6] = Default::default();
    let count = complaints(|| {
        let scalars = secrets.map(|mut secret| {
            hide(&mut secret);
            let (odd, mut is_valid) = match curve {
                LaneCurve::P256 => Odd::recode::<P256>(&secret),
                LaneCurve::Secp256k1 => Odd::recode::<Secp256k1>(&secret),
            };
            // Whether a scalar is valid may be known.
            reveal(&mut is_valid);
            assert!(is_valid);
            CurveScalar { curve, odd }
        });
        multiply(&[&base, &base], &scalars, &mut products);
        multiply(&[&base], &scalars[..1], &mut products[..1]);
    });
    products.iter_mut().for_each(|product| reveal(product));
    assert!(products == expected_products);
    count
}

#[test]
fn time_of_portable_does_not_depend_on_scalars() {
    for curve in [LaneCurve::P256, LaneCurve::Secp256k1] {
        assert_eq!(complaints_of(Kernel::Portable, curve), 0, "{curve:?}");
    }
}

/// The source of the products in eight lanes; Valgrind lacks the instructions of its kernels.
#[test]
fn time_of_the_model_does_not_depend_on_scalars() {
    for curve in [LaneCurve::P256, LaneCurve::Secp256k1] {
        assert_eq!(complaints_of(Kernel::Model, curve), 0, "{curve:?}");
    }
}

#[test]
fn time_of_adx_does_not_depend_on_scalars() {
    // SAFETY: Valgrind runs these instructions, though its CPUID leaves out ADX, and the test fails outside Valgrind before it comes to
    // one that the CPU may lack.
    let kernel = Kernel::Adx(unsafe { Adx::assume() });
    assert_watched();
    for curve in [LaneCurve::P256, LaneCurve::Secp256k1] {
        assert_eq!(complaints_of(kernel, curve), 0, "{curve:?}");
    }
}

/// The check can fail: it detects a branch on a scalar, and an address that depends on one.
#[test]
fn a_dependence_on_a_scalar_is_detected() {
    let mut secret = [0x5b; SCALAR_SIZE];
    hide(&mut secret);
    assert_ne!(complaints(|| drop(std::hint::black_box(Odd::new::<P256>(&secret)))), 0);
    let words = from_bytes(&secret);
    let table = [0_u8; 256];
    assert_ne!(complaints(|| _ = std::hint::black_box(table[usize::from(words[0] as u8)])), 0);
}
