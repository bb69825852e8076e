//! One scalar with compressed points that are not known before, through the kernels in lanes and their model against two libraries.
//! Scalars are of every kind that [`products`](super::products) has; among the points are some that are none, in any lane.

use leafseal_crypto::{Curve, EcContext, PublicKey};
use leafseal_lanes::ec::{Agreement, COMPRESSED_SIZE, CurveScalar, Kernel, agree};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::products::{Bytes, SIZE, by_rust_crypto, private, scalars};

/// Two calls of eight lanes and one point more.
const POINTS_MAX: usize = 17;

/// The scalar and the points of one call, as random as their seed.
pub(crate) struct Group {
    curve: Curve,
    scalar: Bytes,
    points: Vec<[u8; COMPRESSED_SIZE]>,
}

impl Group {
    /// Those of a seed.
    pub(crate) fn new(curve: Curve, seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let context = EcContext::new(rng);
        let own = scalars(curve, rng, POINTS_MAX);
        let count = rng.random_range(1..=POINTS_MAX);
        let mut point = |own: &Bytes| match rng.random_range(0..16) {
            // Half of all x belong to a point.
            0 => [rng.random_range(2..=3)].into_iter().chain(rng.random::<Bytes>()).collect::<Vec<u8>>(),
            1 => [2].into_iter().chain([rng.random_range(0..=1) * 0xff; SIZE]).collect(),
            2 => rng.random::<[u8; COMPRESSED_SIZE]>().to_vec(),
            _ => context.public_key(&private(curve, own).expect("valid")).compressed().to_vec(),
        };
        let points = own[..count].iter().map(|own| point(own).try_into().expect("33 bytes")).collect();
        Self { curve, scalar: scalars(curve, rng, 1)[0], points }
    }

    /// How many points.
    pub(crate) fn len(&self) -> u64 {
        self.points.len() as u64
    }

    /// Coordinates of the point and of its product by both libraries, or `None` where neither accepts the point.
    fn by_libraries(&self, context: &EcContext, point: &[u8]) -> Result<Option<[Vec<u8>; 2]>, String> {
        // RustCrypto also reads 5, a compact form that SEC 1 does not have.
        let is_compressed = matches!(point[0], 2 | 3);
        let product = match self.curve {
            _ if !is_compressed => None,
            Curve::P256 => by_rust_crypto!(p256, point, &self.scalar),
            Curve::Secp256k1 => by_rust_crypto!(k256, point, &self.scalar),
        };
        let ours = PublicKey::from_sec1(self.curve, point).ok();
        let shared = ours.map(|peer| context.agree(&private(self.curve, &self.scalar).expect("valid"), &peer));
        if shared.as_ref().map(|shared| &shared.expose()[..]) != product.as_ref().map(|product| &product[1..=SIZE]) {
            return Err(format!("the libraries differ, point {}", hex::encode(point)));
        }
        Ok(ours.zip(product).map(|(peer, product)| [peer.uncompressed()[1..].to_vec(), product[1..=SIZE].to_vec()]))
    }

    /// The difference, if any.
    pub(crate) fn check(&self, kernels: &[Kernel]) -> Result<(), String> {
        let context = EcContext::new(&mut StdRng::seed_from_u64(1));
        let by_libraries = |point: &[u8; COMPRESSED_SIZE]| self.by_libraries(&context, point);
        let expected = self.points.iter().map(by_libraries).collect::<Result<Vec<_>, _>>()?;
        let scalar = CurveScalar::new(super::products::in_lanes(self.curve), &self.scalar).expect("in range");
        for kernel in kernels.iter().filter(|kernel| kernel.has_lanes()) {
            let mut out = vec![None; self.points.len()];
            agree(*kernel, &scalar, &self.points, &mut out);
            for ((found, expected), point) in out.iter().zip(&expected).zip(&self.points) {
                let bytes = |Agreement { point, shared }: &Agreement| [[point.x, point.y].concat(), shared.to_vec()];
                if found.as_ref().map(bytes) != *expected {
                    let scalar = hex::encode(self.scalar);
                    return Err(format!("{}: {scalar} times {} differs", kernel.name(), hex::encode(point)));
                }
            }
        }
        Ok(())
    }
}
