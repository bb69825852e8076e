//! Products of random scalars and points through kernels of the lanes against two libraries, the one that we ship (BoringSSL,
//! libsecp256k1) and RustCrypto. Scalars are random, small, large, next to the order, sparse, equal to one another and negatives of one
//! another; so are the points' own scalars, and points with x = 0 are among them (only P-256 has such, and neither has one with y = 0).

use leafseal_crypto::{Curve, EcContext, PrivateKey, PublicKey, Secret};
use leafseal_lanes::ec::{self, CurveScalar, FixedBase, Kernel, ProductPoint, multiply};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const SIZE: usize = 32;
/// Around the products that share an inversion, for one base and for several.
const COUNTS: [usize; 10] = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17];
const BASES_MAX: usize = 3;

pub(crate) type Bytes = [u8; SIZE];

/// Points and scalars of one call, as random as their seed.
pub(crate) struct Group {
    curve: Curve,
    bases: Vec<PublicKey>,
    scalars: Vec<Bytes>,
}

fn order(curve: Curve) -> Bytes {
    let order = match curve {
        Curve::P256 => "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        Curve::Secp256k1 => "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
    };
    hex::decode(order).expect("hex").try_into().expect("32 bytes")
}

/// The order minus a scalar: its negative.
fn negative(curve: Curve, scalar: &Bytes) -> Bytes {
    let (mut difference, mut borrow) = (order(curve), 0);
    for (byte, less) in difference.iter_mut().zip(scalar).rev() {
        let rest = i32::from(*byte) - i32::from(*less) - borrow;
        (*byte, borrow) = (rest.rem_euclid(256) as u8, i32::from(rest < 0));
    }
    difference
}

/// A scalar of a random kind; `before` are those of the same call.
fn scalar(curve: Curve, rng: &mut StdRng, before: &[Bytes]) -> Bytes {
    let small = |rng: &mut StdRng| {
        let mut scalar = [0; SIZE];
        scalar[SIZE - 2..].copy_from_slice(&rng.random_range(1..=300_u16).to_be_bytes());
        scalar
    };
    match rng.random_range(0..8) {
        0 => small(rng),
        1 => negative(curve, &small(rng)),
        // As large as the order in its upper half.
        2 => {
            let mut scalar: Bytes = rng.random();
            scalar[..SIZE / 2].copy_from_slice(&order(curve)[..SIZE / 2]);
            scalar
        }
        // Long runs of zeros or ones, which digits of windows take to their ends.
        3 => {
            let mut scalar = [rng.random_range(0..2) * 0xff; SIZE];
            scalar[0] &= 0x7f;
            for _ in 0..rng.random_range(1..4) {
                let bit = rng.random_range(0..255);
                scalar[SIZE - 1 - bit / 8] ^= 1 << (bit % 8);
            }
            scalar
        }
        4 if !before.is_empty() => before[rng.random_range(0..before.len())],
        5 if !before.is_empty() => negative(curve, &before[rng.random_range(0..before.len())]),
        _ => rng.random(),
    }
}

pub(crate) fn scalars(curve: Curve, rng: &mut StdRng, count: usize) -> Vec<Bytes> {
    let mut scalars = Vec::with_capacity(count);
    while scalars.len() < count {
        let scalar = scalar(curve, rng, &scalars);
        if private(curve, &scalar).is_some() {
            scalars.push(scalar);
        }
    }
    scalars
}

pub(crate) fn private(curve: Curve, scalar: &Bytes) -> Option<PrivateKey> {
    PrivateKey::from_scalar(curve, Secret::from_bytes(scalar)).ok()
}

/// The curve by its name in the lanes.
pub(crate) fn in_lanes(curve: Curve) -> ec::LaneCurve {
    match curve {
        Curve::P256 => ec::LaneCurve::P256,
        Curve::Secp256k1 => ec::LaneCurve::Secp256k1,
    }
}

/// A product by RustCrypto, uncompressed: a point (SEC 1, 2.3.3) times a scalar. `None` for bytes that are no point, or infinity.
macro_rules! by_rust_crypto {
    ($library:ident, $point:expr, $scalar:expr) => {{
        use $library::elliptic_curve::PrimeField;
        use $library::elliptic_curve::sec1::ToEncodedPoint;
        let scalar = $library::Scalar::from_repr((*$scalar).into()).expect("below the order");
        let point = $library::PublicKey::from_sec1_bytes($point).ok();
        let product = point.map(|point| (point.to_projective() * scalar).to_affine().to_encoded_point(false));
        product.map(|product| product.as_bytes().to_vec())
    }};
}
pub(crate) use by_rust_crypto;

impl Group {
    /// Those of a seed.
    pub(crate) fn new(curve: Curve, seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let context = EcContext::new(rng);
        let base_count = rng.random_range(1..=BASES_MAX);
        let own = scalars(curve, rng, base_count);
        let mut bases: Vec<PublicKey> =
            own.iter().map(|own| context.public_key(&private(curve, own).expect("valid"))).collect();
        if curve == Curve::P256 && rng.random_bool(0.2) {
            let mut compressed = [0; 1 + SIZE];
            compressed[0] = rng.random_range(2..=3);
            bases[0] = PublicKey::from_sec1(curve, &compressed).expect("on the curve");
        }
        let count = COUNTS[rng.random_range(0..COUNTS.len())];
        Self { curve, bases, scalars: scalars(curve, rng, count) }
    }

    /// How many products.
    pub(crate) fn len(&self) -> u64 {
        (self.bases.len() * self.scalars.len()) as u64
    }

    /// Each product by both libraries, in the order of the kernels'.
    fn by_libraries(&self) -> Result<Vec<Vec<u8>>, String> {
        let context = EcContext::new(&mut StdRng::seed_from_u64(1));
        let mut products = Vec::new();
        for scalar in &self.scalars {
            let private = private(self.curve, scalar).expect("valid");
            for base in &self.bases {
                let product = match self.curve {
                    Curve::P256 => by_rust_crypto!(p256, base.uncompressed(), scalar),
                    Curve::Secp256k1 => by_rust_crypto!(k256, base.uncompressed(), scalar),
                };
                let product = product.expect("a point");
                if context.agree(&private, base).expose()[..] != product[1..=SIZE] {
                    return Err(format!("the libraries differ, scalar {}", hex::encode(scalar)));
                }
                products.push(product);
            }
        }
        Ok(products)
    }

    /// The difference, if any.
    pub(crate) fn check(&self, kernels: &[Kernel]) -> Result<(), String> {
        let expected = self.by_libraries()?;
        let curve = in_lanes(self.curve);
        for kernel in kernels.iter().copied() {
            let base = |base: &PublicKey| {
                let (x, y) = base.uncompressed()[1..].split_at(SIZE);
                let [x, y] = [x, y].map(|bytes| bytes.try_into().expect("32 bytes"));
                FixedBase::new(kernel, curve, x, y).expect("on the curve")
            };
            let bases: Vec<FixedBase> = self.bases.iter().map(base).collect();
            let scalars: Vec<CurveScalar> =
                self.scalars.iter().map(|scalar| CurveScalar::new(curve, scalar).expect("in range")).collect();
            let mut out = vec![ProductPoint::default(); expected.len()];
            multiply(&bases.iter().collect::<Vec<_>>(), &scalars, &mut out);
            for (i, (product, expected)) in out.iter().zip(&expected).enumerate() {
                if expected[1..] != [product.x, product.y].concat() {
                    let (base, scalar) = (self.bases[i % bases.len()], self.scalars[i / bases.len()]);
                    return Err(format!("{}: {} times {base:?} differs", kernel.name(), hex::encode(scalar)));
                }
            }
        }
        Ok(())
    }
}
