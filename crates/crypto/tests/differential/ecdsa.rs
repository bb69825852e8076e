//! ECDSA signatures on P-256 of random keys, nonces and digests through the lanes and their model: equal, byte for byte, to what
//! RustCrypto's arithmetic gives, and verified by BoringSSL. Keys and nonces are of every kind that [`products`](super::products) has;
//! digests are random, at both ends, around the order, and such that s would be zero.

use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey, EcPoint};
use boring::ecdsa::EcdsaSig;
use boring::nid::Nid;
use boring::pkey::Public;
use leafseal_crypto::Curve;
use leafseal_lanes::ec::ecdsa::SigningKey;
use leafseal_lanes::ec::{CurveScalar, FixedBase};
use p256::elliptic_curve::ops::Reduce;
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::{Field, PrimeField};
use p256::{ProjectivePoint, U256};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::products::{Bytes, SIZE, scalars};

/// Two calls of eight lanes and one signature more.
const SIGNATURES_MAX: usize = 17;

/// The key, the nonces and the digests of one call, as random as their seed.
pub(crate) struct Group {
    key: Bytes,
    nonces: Vec<Bytes>,
    digests: Vec<Bytes>,
}

fn in_range(bytes: &Bytes) -> p256::Scalar {
    p256::Scalar::from_repr((*bytes).into()).expect("below the order")
}

fn r_of(nonce: &Bytes) -> p256::Scalar {
    let point = (ProjectivePoint::GENERATOR * in_range(nonce)).to_affine();
    <p256::Scalar as Reduce<U256>>::reduce_bytes(&point.x())
}

/// A digest of a random kind.
fn digest(rng: &mut StdRng, key: &Bytes, nonce: &Bytes) -> Bytes {
    let around_the_order = |rng: &mut StdRng| (-p256::Scalar::from(rng.random_range(1..=3_u64))).to_repr().into();
    match rng.random_range(0..8) {
        0 => [rng.random_range(0..=1) * 0xff; SIZE],
        1 => around_the_order(rng),
        // The order and the two numbers after it.
        2 => {
            let mut digest: Bytes = (-p256::Scalar::ONE).to_repr().into();
            digest[SIZE - 1] += rng.random_range(1..=3);
            digest
        }
        3 if rng.random_range(0..4) == 0 => (-(r_of(nonce) * in_range(key))).to_repr().into(),
        _ => rng.random(),
    }
}

impl Group {
    /// Those of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let count = rng.random_range(1..=SIGNATURES_MAX);
        let key = scalars(Curve::P256, rng, 1)[0];
        let nonces = scalars(Curve::P256, rng, count);
        let digests = nonces.iter().map(|nonce| digest(rng, &key, nonce)).collect();
        Self { key, nonces, digests }
    }

    /// How many signatures.
    pub(crate) fn len(&self) -> u64 {
        self.nonces.len() as u64
    }

    /// The signature r, s by FIPS 186-5, 6.4.1, `None` where s is zero.
    fn by_rust_crypto(&self, nonce: &Bytes, digest: &Bytes) -> Option<[Bytes; 2]> {
        let r = r_of(nonce);
        let number = <p256::Scalar as Reduce<U256>>::reduce_bytes(&(*digest).into());
        let inverse = in_range(nonce).invert().expect("not zero");
        let s = inverse * (number + r * in_range(&self.key));
        (!bool::from(s.is_zero())).then(|| [r, s].map(|number| number.to_repr().into()))
    }

    fn public_key(&self) -> EcKey<Public> {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("P-256");
        let mut point = EcPoint::new(&group).expect("memory");
        let scalar = BigNum::from_slice(&self.key).expect("memory");
        let mut context = boring::bn::BigNumContext::new().expect("memory");
        point.mul_generator(&group, &scalar, &mut context).expect("in range");
        EcKey::from_public_key(&group, &point).expect("on the curve")
    }

    /// The difference, if any.
    pub(crate) fn check(&self, generators: &[FixedBase]) -> Result<(), String> {
        let expected: Vec<_> =
            self.nonces.iter().zip(&self.digests).map(|(nonce, digest)| self.by_rust_crypto(nonce, digest)).collect();
        let public_key = self.public_key();
        for ([r, s], digest) in expected.iter().flatten().zip(self.signed_digests(&expected)) {
            let [r, s] = [r, s].map(|number| BigNum::from_slice(number).expect("memory"));
            let signature = EcdsaSig::from_private_components(r, s).expect("memory");
            if !signature.verify(digest, &public_key).is_ok_and(|verified| verified) {
                return Err(format!("the libraries differ, digest {}", hex::encode(digest)));
            }
        }
        let lanes_curve = super::products::in_lanes(Curve::P256);
        let key = SigningKey::new(&self.key).expect("in range");
        let nonces: Vec<CurveScalar> =
            self.nonces.iter().map(|nonce| CurveScalar::new(lanes_curve, nonce).expect("in range")).collect();
        for generator in generators {
            let found = key.sign(generator, &nonces, &self.digests);
            let found: Vec<_> =
                found.iter().map(|signature| signature.as_ref().map(|signature| [signature.r, signature.s])).collect();
            if let Some(place) = found.iter().zip(&expected).position(|(found, expected)| found != expected) {
                let [nonce, digest] = [self.nonces[place], self.digests[place]].map(hex::encode);
                return Err(format!("{}: nonce {nonce}, digest {digest} differ", generator.kernel().name()));
            }
        }
        Ok(())
    }

    /// The digests that have a signature.
    fn signed_digests<'a>(&'a self, expected: &'a [Option<[Bytes; 2]>]) -> impl Iterator<Item = &'a Bytes> {
        self.digests.iter().zip(expected).filter_map(|(digest, signature)| signature.as_ref().map(|_| digest))
    }
}
