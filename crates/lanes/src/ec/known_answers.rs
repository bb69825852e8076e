//! Known answers that a kernel must compute before it is used. P-256: the Diffie–Hellman exchange of RFC 5903, 8.1. secp256k1, for which no
//! standard has one: the same exponent and another public key, computed from the textbook's formulas with Python's integers.

use super::words::{Words, from_hex, write_bytes};
use super::{CurveScalar, FixedBase, Kernel, LaneCurve, ProductPoint, SCALAR_SIZE, multiply};

struct ProductAnswers {
    curve: LaneCurve,
    /// Another point than the generator.
    point: [Words; 2],
    /// The scalar's products with the generator and with that point.
    products: [[Words; 2]; 2],
    /// The order − 1.
    minus_one: Words,
}

const SCALAR: Words = from_hex("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433");

const ANSWERS: [ProductAnswers; 2] = [
    ProductAnswers {
        curve: LaneCurve::P256,
        point: [
            from_hex("d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63"),
            from_hex("56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab"),
        ],
        products: [
            [
                from_hex("dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"),
                from_hex("5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3"),
            ],
            [
                from_hex("d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de"),
                from_hex("522bde0af0d8585b8def9c183b5ae38f50235206a8674ecb5d98edb20eb153a2"),
            ],
        ],
        minus_one: from_hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550"),
    },
    ProductAnswers {
        curve: LaneCurve::Secp256k1,
        point: [
            from_hex("588d202afcc1ee4ab5254c7847ec25b9a135bbda0f2bc69ee1a714749fd77dc9"),
            from_hex("f88ff2a00d7e752d44cbe16e1ebcf0890b76ec7c78886109dee76ccfc8445424"),
        ],
        products: [
            [
                from_hex("888382bf0faa2bdd49e64bdfdf460bb4276cb99f8ed67bfa51942e6b0d60a913"),
                from_hex("e407acc53b22d61d6157ed4e0f08fdc8851e8ae91ffeba63cb05f02615978f2f"),
            ],
            [
                from_hex("31a1ea24507a42fdb669066d9f714aa7e0eccbb9c7b889dff64e2d43f63f85fc"),
                from_hex("9c85ba51f35e88082d8e8b64246e2574732619685c0ae19c2211c02ac2dd43e4"),
            ],
        ],
        minus_one: from_hex("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140"),
    },
];

/// Whether a kernel computes the known products, and the negative of a point for the order − 1: an odd scalar and an even one.
pub(super) fn are_given(kernel: Kernel) -> bool {
    ANSWERS.iter().all(|answers| gives(kernel, answers))
}

fn gives(kernel: Kernel, answers: &ProductAnswers) -> bool {
    let ProductPoint { ref x, ref y } = point(&answers.point);
    let Ok(base) = FixedBase::new(kernel, answers.curve, x, y) else { return false };
    let generator = FixedBase::generator(kernel, answers.curve);
    let scalars = [SCALAR, answers.minus_one].map(|words| scalar(answers.curve, &words));
    let mut out: [ProductPoint; 4] = Default::default();
    multiply(&[&generator, &base], &scalars, &mut out);
    let [first, second, _, negative] = &out;
    let are_products = [first, second].into_iter().eq(&answers.products.map(|product| point(&product)));
    are_products && negative.x == *x && negative.y != *y
}

fn scalar(curve: LaneCurve, words: &Words) -> CurveScalar {
    let mut bytes = [0; SCALAR_SIZE];
    write_bytes(words, &mut bytes);
    CurveScalar::new(curve, &bytes).expect("below the order")
}

fn point([x, y]: &[Words; 2]) -> ProductPoint {
    let mut point = ProductPoint::default();
    write_bytes(x, &mut point.x);
    write_bytes(y, &mut point.y);
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_given_by_every_kernel_of_this_cpu() {
        for kernel in Kernel::detect() {
            assert!(are_given(kernel), "{}", kernel.name());
        }
    }

    /// The check can fail: another answer is not taken.
    #[test]
    fn a_wrong_answer_is_detected() {
        for mut answers in ANSWERS {
            assert!(gives(Kernel::Portable, &answers));
            answers.products[1][1][0] ^= 1;
            assert!(!gives(Kernel::Portable, &answers));
        }
    }
}
