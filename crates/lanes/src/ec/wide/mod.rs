//! Products in eight lanes, over [`U64x8`]: one source for AVX-512 IFMA and for its model. Bounds of values are at the functions that keep
//! them; `docs/lanes-ifma.md` explains the steps.

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
        use $crate::ec::{Agreement, COMPRESSED_SIZE, Curve, P256, Point, Scalar, Secp256k1, WINDOWS};
        use $crate::u64x8::Avx512;

        entry! {
            pub(super) fn agree(
                cpu: $cpu,
                scalar: &Scalar,
                points: &[[u8; COMPRESSED_SIZE]],
                out: &mut [Option<Agreement>],
            ) {
                let single = Adx::from(cpu);
                match scalar.curve {
                    Curve::P256 => wide::agree::<P256, Avx512<_>, _>(cpu, single, &scalar.odd, points, out),
                    Curve::Secp256k1 => wide::agree::<Secp256k1, Avx512<_>, _>(cpu, single, &scalar.odd, points, out),
                }
            }
        }

        entry! {
            pub(super) fn multiply(
                cpu: $cpu,
                curve: Curve,
                tables: &[&[Window; WINDOWS]],
                scalars: &[Scalar],
                out: &mut [Point],
            ) {
                let single = Adx::from(cpu);
                match curve {
                    Curve::P256 => wide::multiply::<P256, Avx512<_>, _>(cpu, single, tables, scalars, out),
                    Curve::Secp256k1 => wide::multiply::<Secp256k1, Avx512<_>, _>(cpu, single, tables, scalars, out),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use entries;
