//! Products of many scalars and fixed points against RustCrypto's, through every kernel of this CPU.

use k256::elliptic_curve::sec1::ToEncodedPoint;
use k256::elliptic_curve::{Field, PrimeField};
use leafseal_lanes::ec::{
    Agreement, COMPRESSED_SIZE, CurveScalar, FixedBase, FixedBaseWork, GROUP_POINTS_MAX, Kernel, LaneCurve, NotOnCurve,
    ProductPoint, SCALAR_SIZE, TABLE_PIECES, TABLE_SIZE, agree as agree_many, multiply,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CURVES: [LaneCurve; 2] = [LaneCurve::P256, LaneCurve::Secp256k1];

type Bytes = [u8; SCALAR_SIZE];

/// The kernels of this CPU, and the model of eight lanes, which every CPU runs.
fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::detect().into_iter().chain([Kernel::Model])
}

/// Scalars and points of another library.
trait Oracle {
    const CURVE: LaneCurve;
    type Scalar: PrimeField<Repr = k256::FieldBytes> + Copy;
    type Point: Copy;
    const GENERATOR: Self::Point;

    fn product(point: Self::Point, scalar: Self::Scalar) -> Self::Point;
    fn coordinates(point: Self::Point) -> (Bytes, Bytes);
}

macro_rules! oracle {
    ($name:ident, $library:ident, $curve:expr) => {
        struct $name;

        impl Oracle for $name {
            const CURVE: LaneCurve = $curve;
            type Scalar = $library::Scalar;
            type Point = $library::ProjectivePoint;
            const GENERATOR: Self::Point = $library::ProjectivePoint::GENERATOR;

            fn product(point: Self::Point, scalar: Self::Scalar) -> Self::Point {
                point * scalar
            }

            fn coordinates(point: Self::Point) -> (Bytes, Bytes) {
                let encoded = point.to_affine().to_encoded_point(false);
                ((*encoded.x().expect("finite")).into(), (*encoded.y().expect("finite")).into())
            }
        }
    };
}

oracle!(P256, p256, LaneCurve::P256);
oracle!(Secp256k1, k256, LaneCurve::Secp256k1);

fn bytes<O: Oracle>(scalar: O::Scalar) -> Bytes {
    scalar.to_repr().into()
}

/// Small ones, ones near the order, powers of two and their neighbours on both sides, halves, and random ones.
fn scalars<O: Oracle>(random_count: usize) -> Vec<O::Scalar> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut scalars: Vec<O::Scalar> = (1..140).map(O::Scalar::from).collect();
    let mut power = O::Scalar::ONE;
    for _ in 0..256 {
        scalars.extend([power, power - O::Scalar::ONE, power + O::Scalar::ONE]);
        power = power.double();
    }
    scalars.extend([O::Scalar::TWO_INV, O::Scalar::TWO_INV - O::Scalar::ONE]);
    let mut random = || Option::<O::Scalar>::from(O::Scalar::from_repr(rng.random::<Bytes>().into()));
    scalars.extend((0..random_count).filter_map(|_| random()));
    let negatives: Vec<O::Scalar> = scalars.iter().map(|scalar| -*scalar).collect();
    scalars.extend(negatives);
    scalars.retain(|scalar| !bool::from(scalar.is_zero()));
    scalars
}

fn base<O: Oracle>(kernel: Kernel, point: O::Point) -> FixedBase {
    let (x, y) = O::coordinates(point);
    FixedBase::new(kernel, O::CURVE, &x, &y).expect("on the curve")
}

/// Products of all scalars and points in one call, each against the oracle's.
fn agree<O: Oracle>(kernel: Kernel, points: &[O::Point], scalars: &[O::Scalar]) {
    let bases: Vec<FixedBase> = points.iter().map(|point| base::<O>(kernel, *point)).collect();
    let bases: Vec<&FixedBase> = bases.iter().collect();
    let ours: Vec<CurveScalar> =
        scalars.iter().map(|scalar| CurveScalar::new(O::CURVE, &bytes::<O>(*scalar)).expect("in range")).collect();
    let mut out = vec![ProductPoint { x: [0x55; 32], y: [0x55; 32] }; bases.len() * scalars.len()];
    multiply(&bases, &ours, &mut out);
    for (scalar, products) in scalars.iter().zip(out.chunks(bases.len())) {
        for (point, product) in points.iter().zip(products) {
            let (x, y) = O::coordinates(O::product(*point, *scalar));
            assert!(product.x == x && product.y == y, "{} {:?} {:02x?}", kernel.name(), O::CURVE, bytes::<O>(*scalar));
        }
    }
}

fn every_scalar<O: Oracle>() {
    let scalars = scalars::<O>(300);
    let point = O::product(O::GENERATOR, *scalars.last().expect("some"));
    for kernel in kernels() {
        agree::<O>(kernel, &[O::GENERATOR, point], &scalars);
    }
}

#[test]
fn every_kind_of_scalar_on_p256() {
    every_scalar::<P256>();
}

#[test]
fn every_kind_of_scalar_on_secp256k1() {
    every_scalar::<Secp256k1>();
}

/// Groups of any size around the widths, of one base and of several; equal and negated scalars side by side.
fn every_group_size<O: Oracle>() {
    let all = scalars::<O>(40);
    let mut mixed = all[all.len() - 40..].to_vec();
    mixed[1] = mixed[0];
    mixed[2] = -mixed[0];
    let points: Vec<O::Point> =
        (1..=GROUP_POINTS_MAX as u64).map(|i| O::product(O::GENERATOR, O::Scalar::from(i * i))).collect();
    for kernel in kernels() {
        for scalar_count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33] {
            agree::<O>(kernel, &points[..1], &mixed[..scalar_count]);
            agree::<O>(kernel, &points[..2], &mixed[..scalar_count]);
        }
        agree::<O>(kernel, &points[..3], &mixed[..11]);
        agree::<O>(kernel, &points[..5], &mixed[..7]);
        agree::<O>(kernel, &points[..GROUP_POINTS_MAX], &mixed[..3]);
    }
}

#[test]
fn every_group_size_on_p256() {
    every_group_size::<P256>();
}

#[test]
fn every_group_size_on_secp256k1() {
    every_group_size::<Secp256k1>();
}

/// P-256 has points with x = 0 (secp256k1 has none, and neither has one with y = 0): as a base, and as a product.
#[test]
fn points_with_a_zero_coordinate() {
    use p256::elliptic_curve::sec1::FromEncodedPoint;
    let encoded = p256::EncodedPoint::from_bytes([[2].as_slice(), &[0; 32]].concat()).expect("a compressed point");
    let affine = Option::<p256::AffinePoint>::from(p256::AffinePoint::from_encoded_point(&encoded));
    let zero = p256::ProjectivePoint::from(affine.expect("on the curve"));
    assert_eq!(P256::coordinates(zero).0, [0; 32]);
    for scalar in scalars::<P256>(3).into_iter().step_by(50) {
        let other = zero * scalar.invert().expect("not zero");
        for kernel in kernels() {
            agree::<P256>(kernel, &[zero, other], &[scalar, -scalar, p256::Scalar::ONE]);
        }
    }
}

#[test]
fn a_scalar_out_of_range_is_none() {
    let orders = [bytes::<P256>(-p256::Scalar::ONE), bytes::<Secp256k1>(-k256::Scalar::ONE)];
    for (curve, mut order_minus_one) in CURVES.into_iter().zip(orders) {
        assert!(CurveScalar::new(curve, &order_minus_one).is_some());
        order_minus_one[SCALAR_SIZE - 1] += 1;
        for scalar in [[0; SCALAR_SIZE], order_minus_one, [0xff; SCALAR_SIZE]] {
            assert!(CurveScalar::new(curve, &scalar).is_none(), "{scalar:02x?}");
        }
    }
}

#[test]
fn a_point_off_the_curve_is_refused() {
    let (x, y) = P256::coordinates(p256::ProjectivePoint::GENERATOR);
    let (k_x, k_y) = Secp256k1::coordinates(k256::ProjectivePoint::GENERATOR);
    let mut wrong = y;
    wrong[31] ^= 1;
    for kernel in Kernel::detect() {
        let is_refused = |curve, x, y| FixedBase::new(kernel, curve, x, y).err() == Some(NotOnCurve);
        assert!(is_refused(LaneCurve::P256, &x, &wrong));
        assert!(is_refused(LaneCurve::P256, &k_x, &k_y) && is_refused(LaneCurve::Secp256k1, &x, &y));
        assert!(CURVES.into_iter().all(|curve| is_refused(curve, &[0; 32], &[0; 32])));
        assert!(CURVES.into_iter().all(|curve| is_refused(curve, &[0xff; 32], &y)));
    }
}

/// x + prime is x modulo the prime, but not a valid coordinate.
#[test]
fn coordinates_not_below_the_prime_are_refused() {
    // On secp256k1 x = 1 is a point: 1 + the prime still fits into 32 bytes.
    let encoded =
        k256::EncodedPoint::from_bytes([[2].as_slice(), &[0; 31], &[1]].concat()).expect("a compressed point");
    let affine = {
        use k256::elliptic_curve::sec1::FromEncodedPoint;
        Option::<k256::AffinePoint>::from(k256::AffinePoint::from_encoded_point(&encoded)).expect("on the curve")
    };
    let (x, y) = Secp256k1::coordinates(affine.into());
    let mut x_plus_prime = [0xff; SCALAR_SIZE];
    x_plus_prime[27..].copy_from_slice(&[0xfe, 0xff, 0xff, 0xfc, 0x30]);
    for kernel in Kernel::detect() {
        assert!(FixedBase::new(kernel, LaneCurve::Secp256k1, &x, &y).is_ok());
        assert_eq!(FixedBase::new(kernel, LaneCurve::Secp256k1, &x_plus_prime, &y).err(), Some(NotOnCurve));
    }
}

/// A table in pieces, interleaved with another, multiplies like one computed at once: a piece depends only on the pieces before.
#[test]
fn tables_in_pieces_multiply_as_tables_at_once() {
    let scalars = scalars::<P256>(20).into_iter().step_by(17).map(bytes::<P256>).collect::<Vec<Bytes>>();
    let scalars: Vec<CurveScalar> =
        scalars.iter().map(|scalar| CurveScalar::new(LaneCurve::P256, scalar).expect("in range")).collect();
    let points = [2_u64, 3].map(|i| P256::coordinates(P256::product(P256::GENERATOR, i.into())));
    for kernel in kernels() {
        let mut work = points.map(|(x, y)| FixedBaseWork::new(kernel, LaneCurve::P256, &x, &y).expect("on the curve"));
        for _ in 1..TABLE_PIECES {
            work = work.map(|work| work.go_on().continue_value().expect("not the last piece"));
        }
        let bases = work.map(|work| work.go_on().break_value().expect("the last piece"));
        let at_once = points.map(|(x, y)| FixedBase::new(kernel, LaneCurve::P256, &x, &y).expect("on the curve"));
        let [mut out, mut expected] = [(); 2].map(|()| vec![ProductPoint::default(); 2 * scalars.len()]);
        multiply(&[&bases[0], &bases[1]], &scalars, &mut out);
        multiply(&[&at_once[0], &at_once[1]], &scalars, &mut expected);
        assert!(out == expected && out.iter().all(|point| *point != ProductPoint::default()), "{}", kernel.name());
    }
}

fn compressed<O: Oracle>(point: O::Point) -> [u8; COMPRESSED_SIZE] {
    let (x, y) = O::coordinates(point);
    let mut bytes = [2 + (y[SCALAR_SIZE - 1] & 1); COMPRESSED_SIZE];
    bytes[1..].copy_from_slice(&x);
    bytes
}

/// Agreements of one scalar with points that have no table, for every kind of scalar, against the oracle's.
fn agreements<O: Oracle>() {
    let scalars = scalars::<O>(30);
    let points: Vec<O::Point> =
        (0..19).map(|i| O::product(O::GENERATOR, scalars[(i * 7919 + 1) % scalars.len()])).collect();
    for kernel in kernels().filter(|kernel| kernel.has_lanes()) {
        let step = if kernel.name() == "model" { 37 } else { 1 };
        for (i, scalar) in scalars.iter().enumerate().step_by(step) {
            let ours = CurveScalar::new(O::CURVE, &bytes::<O>(*scalar)).expect("in range");
            // All numbers of lanes, and every point in every lane.
            let points = &points[i % 11..(i % 11 + i % 10).min(points.len())];
            let given: Vec<[u8; COMPRESSED_SIZE]> = points.iter().map(|point| compressed::<O>(*point)).collect();
            let mut out = vec![None; given.len()];
            agree_many(kernel, &ours, &given, &mut out);
            for (point, found) in points.iter().zip(out) {
                let Agreement { point: ref decompressed, ref shared } = found.expect("a point");
                let (x, y) = O::coordinates(*point);
                assert!(decompressed.x == x && decompressed.y == y);
                let (expected, _) = O::coordinates(O::product(*point, *scalar));
                assert_eq!(*shared, expected, "{} {:?} {:02x?}", kernel.name(), O::CURVE, bytes::<O>(*scalar));
            }
        }
    }
}

#[test]
fn agreements_on_p256() {
    agreements::<P256>();
}

#[test]
fn agreements_on_secp256k1() {
    agreements::<Secp256k1>();
}

/// Bytes that are not a point have no result, in any lane, and do not affect the others.
fn no_points<O: Oracle>(off_curve: Bytes) {
    let scalar = CurveScalar::new(O::CURVE, &[0x17; SCALAR_SIZE]).expect("in range");
    let good = compressed::<O>(O::product(O::GENERATOR, O::Scalar::from(5)));
    let with = |tag: u8, x: Bytes| -> [u8; COMPRESSED_SIZE] {
        let mut bytes = [tag; COMPRESSED_SIZE];
        bytes[1..].copy_from_slice(&x);
        bytes
    };
    let x: Bytes = *good.last_chunk().expect("32 bytes");
    let wrong =
        [with(2, off_curve), with(3, off_curve), with(2, [0xff; 32]), with(0, x), with(4, x), with(6, x), [0; 33]];
    for kernel in kernels().filter(|kernel| kernel.has_lanes()) {
        let mut alone = vec![None];
        agree_many(kernel, &scalar, &[good], &mut alone);
        let expected = alone[0].as_ref().expect("a point").shared;
        for wrong in wrong {
            for lane in 0..8 {
                let mut points = [good; 8];
                points[lane] = wrong;
                let mut out = vec![None; 8];
                agree_many(kernel, &scalar, &points, &mut out);
                for (i, found) in out.iter().enumerate() {
                    assert_eq!(
                        found.as_ref().map(|found| found.shared),
                        (i != lane).then_some(expected),
                        "{wrong:02x?}"
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_that_are_no_point_share_nothing() {
    let small = |x: u8| {
        let mut bytes = [0; SCALAR_SIZE];
        bytes[SCALAR_SIZE - 1] = x;
        bytes
    };
    // The smallest x without a point: of P-256 1, of secp256k1 5.
    no_points::<P256>(small(1));
    no_points::<Secp256k1>(small(5));
}

#[test]
fn a_table_is_as_large_as_stated() {
    assert_eq!(TABLE_SIZE, 43 * 10 * 32 * 8);
}

#[test]
fn nothing_prints_a_secret() {
    let scalar = CurveScalar::new(LaneCurve::P256, &[0x5a; 32]).expect("in range");
    assert_eq!(format!("{scalar:?}"), "Scalar(P256, …)");
    assert_eq!(format!("{:?}", ProductPoint { x: [0x5a; 32], y: [0x5a; 32] }), "Point(…)");
}
