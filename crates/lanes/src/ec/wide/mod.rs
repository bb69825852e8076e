//! Products in eight lanes, over [`U64x8`](crate::u64x8::U64x8): one source for AVX-512 IFMA, for AVX-512 without it, and for their model.
//! Each module begins with its steps, and each function states the bounds of its values.
//!
//! ```text
//! field     elements of five limbs; p256 and secp256k1 reduce products
//! point     addition and doubling
//! table     a fixed point's multiples, limb by limb
//! fixed     products with fixed points: look-ups and additions
//! variable  products of one scalar with eight unknown points: square roots, tables, doublings and additions
//! ```

mod field;
mod fixed;
mod p256;
mod point;
mod secp256k1;
pub(super) mod table;
mod variable;

pub(super) use fixed::multiply;
pub(super) use variable::agree;

/// The functions that each set of instructions has: [`agree`] and [`multiply`], compiled for it.
#[cfg(target_arch = "x86_64")]
macro_rules! entries {
    ($cpu:ident) => {
        use $crate::cpu::{Adx, entry};
        use $crate::ec::wide::{self, table::Window};
        use $crate::ec::{Agreement, COMPRESSED_SIZE, LaneCurve, P256, ProductPoint, CurveScalar, Secp256k1, WINDOWS};
        use $crate::u64x8::Avx512;

        entry! {
            pub(super) fn agree(
                cpu: $cpu,
                scalar: &CurveScalar,
                points: &[[u8; COMPRESSED_SIZE]],
                out: &mut [Option<Agreement>],
            ) {
                let single = Adx::from(cpu);
                match scalar.curve {
                    LaneCurve::P256 => wide::agree::<P256, Avx512<_>, _>(cpu, single, &scalar.odd, points, out),
                    LaneCurve::Secp256k1 => wide::agree::<Secp256k1, Avx512<_>, _>(cpu, single, &scalar.odd, points, out),
                }
            }
        }

        entry! {
            pub(super) fn multiply(
                cpu: $cpu,
                curve: LaneCurve,
                tables: &[&[Window; WINDOWS]],
                scalars: &[CurveScalar],
                out: &mut [ProductPoint],
            ) {
                let single = Adx::from(cpu);
                match curve {
                    LaneCurve::P256 => wide::multiply::<P256, Avx512<_>, _>(cpu, single, tables, scalars, out),
                    LaneCurve::Secp256k1 => wide::multiply::<Secp256k1, Avx512<_>, _>(cpu, single, tables, scalars, out),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use entries;
